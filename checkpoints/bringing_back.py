"""A home out of a backup: it appears whole, or not at all.

Everything is copied into a folder beside the place, held against its hash on the way, and one rename puts it there. The
folder has the lock of the home that it is to become, taken: no daemon starts in it before it is done. Whoever is killed
leaves that folder, and the next one begins with removing it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openoxide.checkpoints import journal, store
from openoxide.checkpoints.backing_up import Breathe, Report, forget_home_number
from openoxide.checkpoints.backup_folder import make_below
from openoxide.checkpoints.backup_list import DATABASE, PROJECTS, BackedUp, BackupList, names_of
from openoxide.checkpoints.backup_sizes import store_sizes
from openoxide.checkpoints.hashing import Hasher
from openoxide.checkpoints.journal import OPEN_PHASES, Phase
from openoxide.checkpoints.migrating import settle
from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.packs import BIG
from openoxide.checkpoints.schema import MIGRATIONS
from openoxide.db import Database
from openoxide.errors import (
    FailedError,
    NewerStoreError,
    OpenOxideError,
    RefusedError,
    StoreDamagedError,
    StoreFullError,
)
from openoxide.fileio import fsync_file, fsync_folder, require_descriptors, write_all, write_errors
from openoxide.paths import Home

_CHUNK = 1 << 20

Watched = list[tuple[Worktree, int]]
"""The worktrees that the daemon of the new home will watch, each with how many checkpoints it has."""


def require_room(home: Home) -> None:
    """Raises RefusedError where something is in the way."""
    place = Path(os.path.realpath(home.folder))
    if not place.exists():
        return
    aside = f"{place}.before"
    if not place.is_dir():
        raise RefusedError(f"{home.folder} is no folder", hint="name another place with --home")
    if os.listdir(place):
        raise RefusedError(
            f"{home.folder} is not empty",
            hint=f"`oxide-ctl stop`, then `mv {place} {aside}` moves it aside; or name another place with --home",
        )


def require_known(made: BackupList) -> None:
    """Raises NewerStoreError for a backup that this program cannot read."""
    if made.schema > len(MIGRATIONS):
        raise NewerStoreError(
            f"the backup has schema version {made.schema}, this program knows {len(MIGRATIONS)}",
            hint=f"it was made by version {made.program}: upgrade openoxide",
        )


def verify(source: Path, made: BackupList, breathe: Breathe, report: Report) -> None:
    """Read all of a backup. Raises StoreDamagedError for the first file that is not what its list says."""
    size = 0
    for done, entry in enumerate(made.files, 1):
        for chunk in _checked(source, made, entry):
            size += len(chunk)
            breathe()
        report(done, len(made.files), size)


def bring_back(source: Path, home: Home, made: BackupList, breathe: Breathe, report: Report) -> Watched:
    """Make ``home`` out of a backup. After any failure nothing is there."""
    require_known(made)
    require_room(home)
    place = Path(os.path.realpath(home.folder))
    with write_errors(f"the home {home.folder}"):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # asked first: a disk that is full in the end costs the time of all that fitted
        free = shutil.disk_usage(place.parent).free
        if free < made.size:
            raise StoreFullError(
                f"{home.folder} takes {made.size} bytes, and {free} are free", hint="free some space and try again"
            )
        with _stage(place) as stage:
            size = 0
            for done, entry in enumerate(made.files, 1):
                _bring(source, made, entry, stage, breathe)
                size += entry.size
                report(done, len(made.files), size)
            watched = _made_a_home_of_its_own(stage / DATABASE, made)
            # before the rename: what has the name of the home is durable down to the last entry
            for folder, _, _ in os.walk(stage, topdown=False):
                fsync_folder(Path(folder))
            _put_in_place(stage, place)
        fsync_folder(place.parent)
    return watched


@contextmanager
def _stage(place: Path) -> Iterator[Path]:
    """The folder beside the place, empty but for its lock, which is held; gone at the end unless it was moved."""
    stage = place.with_name(f".{place.name}.restoring")
    _clear(stage)
    try:
        stage.mkdir(mode=0o700)
    except FileExistsError:
        raise _under_way(place) from None
    # the file that a daemon will lock: it moves with the folder, and so does the lock (flock(2): of the open file)
    lock = os.open(stage / "oxided.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_below(stage, f"blobs/{BIG}")
        yield stage
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _clear(stage: Path) -> None:
    """Remove what one that was killed left. Raises RefusedError for what is not that."""
    if not os.path.lexists(stage):
        return
    try:
        lock = os.open(stage / "oxided.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        if not stage.is_symlink() and stage.is_dir() and not os.listdir(stage):
            stage.rmdir()
            return
        raise RefusedError(f"{stage} is in the way", hint="move it away, then try again") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # of a link nothing may go; without a name it is that of a folder which somebody has just removed
        if stage.is_symlink() or not os.fstat(lock).st_nlink:
            raise _under_way(stage)
        # below descriptors, and never through a link (Python, shutil.rmtree.avoids_symlink_attacks)
        shutil.rmtree(stage)
    except BlockingIOError:
        raise _under_way(stage) from None
    finally:
        os.close(lock)


def _under_way(place: Path) -> RefusedError:
    return RefusedError(f"{place} is being restored by another process", hint="wait for it to end")


def _bring(source: Path, made: BackupList, entry: BackedUp, stage: Path, breathe: Breathe) -> None:
    target = stage / entry.name
    make_below(stage, os.path.dirname(entry.name))
    is_memory = entry.name.startswith(f"{PROJECTS}/")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for chunk in _checked(source, made, entry):
            write_all(fd, chunk)
            breathe()
        if is_memory:  # its history knows mode and time
            os.fchmod(fd, entry.mode & 0o700 | 0o600)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        os.fsync(fd)
    finally:
        os.close(fd)


def _checked(source: Path, made: BackupList, entry: BackedUp) -> Iterator[bytes]:
    """The bytes of an entry. Raises StoreDamagedError at their end where they are others than those that were kept."""
    hasher, left = Hasher(), entry.size
    with _opened(source, made, entry) as fd:
        while left and (chunk := _read(fd, min(_CHUNK, left), entry)):
            hasher.update(chunk)
            left -= len(chunk)
            yield chunk
    if left or hasher.digest() != entry.hash:
        raise _damaged(entry, "is not what was backed up")


@contextmanager
def _opened(source: Path, made: BackupList, entry: BackedUp) -> Iterator[int]:
    there = [source / name for name in names_of(entry, made.run) if os.path.lexists(source / name)]
    if not there:
        raise _damaged(entry, "is missing")
    try:
        fd = os.open(there[0], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(entry, error) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _damaged(entry, "is no regular file")
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, size: int, entry: BackedUp) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        raise _unreadable(entry, error) from error


def _unreadable(entry: BackedUp, error: OSError) -> OpenOxideError:
    require_descriptors(error)
    return FailedError(f"{entry.name} of the backup cannot be read: {error.strerror}")


def _damaged(entry: BackedUp, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"{entry.name} of the backup {what}: nothing was restored",
        hint="where the home is still there: delete that file of the backup, and `oxide-ctl backup` into the folder copies it"
        " anew; else take another backup; the folder itself is laid out as a home, for what can be saved by hand",
    )


def _made_a_home_of_its_own(path: Path, made: BackupList) -> Watched:
    """The database of a home that begins anew here: under a number of its own, and with nothing half done that a daemon
    would finish by itself in trees that went on since.
    """
    database = Database(path)
    try:
        with database.writing() as db:
            known = made.by_name
            lacking = [name for name, size in store_sizes(db).items() if name not in known or known[name].size < size]
            if lacking:
                raise StoreDamagedError(f"the backup lacks {lacking[0]}: nothing was restored")
            forget_home_number(db)
            watched = []
            for worktree in store.worktrees(db):
                if worktree.watching:
                    watched.append((worktree, store.CheckpointQuery(db, worktree.id).count()))
                for operation in journal.open_operations(db, worktree.id):
                    if operation.phase in OPEN_PHASES - {Phase.PREPARED}:
                        journal.set_phase(db, operation.id, Phase.INTERRUPTED)
    finally:
        database.close()
    # one file again: a home is moved by a rename, and what is beside the database would only be something to lose
    settle(path)
    fsync_file(path)
    return watched


def _put_in_place(stage: Path, place: Path) -> None:
    try:
        # onto an empty folder too, and onto no other one (rename(2))
        os.rename(stage, place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise RefusedError(f"{place} is not empty any more", hint="name another place with --home") from error
        if error.errno == errno.EBUSY:
            raise FailedError(f"{place} is a mount point", hint="name a folder in it with --home") from error
        raise
