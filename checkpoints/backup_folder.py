"""The folder of a backup: what is in it, who works in it, and what a run that was cut off has left."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openoxide.checkpoints.backup_list import (
    LIST,
    PROJECTS,
    STARTED,
    BackedUp,
    BackupList,
    decode,
    fresh_name,
    is_name,
    run_of,
)
from openoxide.checkpoints.hashing import Hasher
from openoxide.errors import FailedError, NotFoundError, RefusedError
from openoxide.fileio import fsync_folder, read_regular, replace_file, require_descriptors

_CHUNK = 1 << 20


def read_list(target: Path) -> BackupList:
    """The backup in ``target``. Raises NotFoundError where none was finished there."""
    try:
        return decode(read_regular(target / LIST, follow=False))
    except FileNotFoundError:
        begun = (target / STARTED).exists()
        raise NotFoundError(
            f"{target} holds no backup" + (" that was finished" if begun else ""),
            hint="`oxide-ctl backup DIR` makes one",
        ) from None
    except OSError as error:
        raise FailedError(f"{target / LIST} cannot be read: {error.strerror}") from error


def backup_in(target: Path) -> BackupList | None:
    """As :func:`read_list`; None where ``target`` is new, empty, or holds the start of a backup. Raises RefusedError for a
    folder that holds anything else.
    """
    if target.exists() and not target.is_dir():
        raise RefusedError(f"{target} is no folder", hint="name a new or empty folder")
    names = set(os.listdir(target)) if target.exists() else set()
    if LIST in names:
        return read_list(target)
    # killed while it wrote that file, it left the one beside it alone (replace_file)
    if names - {f"{STARTED}.new"} and STARTED not in names:
        raise RefusedError(
            f"{target} is not empty and holds no backup", hint="name a new or empty folder, or one that a backup is in"
        )
    return None


@contextmanager
def held(target: Path) -> Iterator[None]:
    """Hold the folder, which is made where it is missing, and goes again if nothing came of it."""
    is_new = not target.exists()
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"a backup into {target} is under way", hint="wait for it to end") from None
        except OSError:  # some network file systems lock no folders
            pass
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                target.rmdir()
        raise
    finally:
        os.close(folder)


def make_below(top: Path, folder: str) -> None:
    """Each step of ``folder`` below ``top``, for its owner alone. Raises RefusedError where one is something else."""
    step = top
    for part in filter(None, folder.split("/")):
        step /= part
        # one by one: with parents=True only the last gets the mode
        step.mkdir(mode=0o700, exist_ok=True)
        # a link would lead the copies to another place
        if not stat.S_ISDIR(step.lstat().st_mode):
            raise RefusedError(f"{step} is no folder", hint="move it away, or name another folder")


def begin(target: Path, before: BackupList | None) -> None:
    """Finish what the run before left, and drop what one that was cut off has copied."""
    if os.stat(target).st_uid != os.geteuid():
        raise RefusedError(f"{target} belongs to another user", hint="name a folder of your own")
    with suppress(PermissionError):  # FAT keeps no rights; the answer says so
        target.chmod(0o700)
    if before is not None:
        # a run that was killed behind its list: first its names, else the next run could not tell its own files
        settle(target, before)
    else:
        # it tells the folder from one that is somebody's: whoever is killed from here on may begin again
        replace_file(target / STARTED, b"a backup that was begun here has not been finished\n")
    drop_unfinished(target, before)


def settle(target: Path, made: BackupList) -> None:
    """Everything that ``made`` names has its own name, and what it names no more is gone. May be repeated."""
    folders = {target}
    for entry in made.files:
        if entry.fresh:
            with suppress(FileNotFoundError):  # it was done before
                (target / fresh_name(entry.name, made.run)).replace(target / entry.name)
                folders.add((target / entry.name).parent)
    for name in made.gone:
        (target / name).unlink(missing_ok=True)
    for folder in folders:
        fsync_folder(folder)
    (target / STARTED).unlink(missing_ok=True)


def drop_unfinished(target: Path, before: BackupList | None) -> None:
    """Remove what was copied for a list that never counted."""
    named: Collection[str] = before.by_name if before else ()
    for folder, _, names in os.walk(target):
        for name in names:
            relative = str((Path(folder) / name).relative_to(target))
            made_from = run_of(relative)
            if made_from and is_name(made_from[0]) and relative not in named:
                (target / relative).unlink(missing_ok=True)


def listed_ns(target: Path) -> int:
    """When the backup was finished. No file of it has a later ctime, but for those that were touched since."""
    return (target / LIST).stat().st_mtime_ns


def touch_list(target: Path) -> None:
    """Makes :func:`listed_ns` now. The kernel's time, which it gives the files too (utimensat(2)), not that of this process."""
    with suppress(OSError):  # then the next run reads what this one has copied
        os.utime(target / LIST)


def copy_at(path: Path, size: int) -> os.stat_result | None:
    """The copy of a file that was backed up; None where it is missing, shorter than it has to be, or no file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_size >= size else None


def is_whole(target: Path, entry: BackedUp, breathe: Callable[[], None]) -> bool:
    """Read a copy: whether it is what was backed up. One that cannot be read is not."""
    hasher, left = Hasher(), entry.size
    try:
        with open(
            os.open(target / entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as source:
            while left and (chunk := source.read(min(_CHUNK, left))):
                hasher.update(chunk)
                left -= len(chunk)
                breathe()
    except OSError as error:
        require_descriptors(error)
        return False
    return not left and hasher.digest() == entry.hash


def give_up(target: Path, run: int, before: BackupList | None) -> None:
    """Leave nothing of a run that failed, unless its list counts already: then only renames are left to do."""
    now = backup_in(target)
    if now is not None and now.run == run:
        return
    drop_unfinished(target, before)
    for ours in ("blobs", PROJECTS):
        for folder, _, _ in os.walk(target / ours, topdown=False):
            with suppress(OSError):  # what holds something stays
                os.rmdir(folder)
    (target / f"{LIST}.new").unlink(missing_ok=True)
    if before is None:
        (target / STARTED).unlink(missing_ok=True)
