"""Removing a home. What is ours by its name, its place and its kind goes; whatever else is there stays, and is named.

Below the open descriptor of the home, under its lock, never through a link. The rename of the database to UNINSTALLED is
the point of no return: before it the history is whole; after it no daemon takes the rest for a store, and doing it again
finishes. The database under that name is the last thing to go, since it is what tells that the home is ours.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from openoxide.errors import AlreadyRunningError, RefusedError
from openoxide.ownership import (
    DATABASE,
    FOLDER,
    LOCK,
    UNINSTALLED,
    Found,
    all_below,
    databases,
    is_half_made,
    is_link_of_ours,
    is_ours,
    kind_of,
)
from openoxide.paths import Home

_HISTORY = re.compile(r"timeline\.db.*|oxided\.lock|config\.toml(?:\.rejected|\.used)?|blobs(?:/.*)?|repair-.*")
# while something resists, what tells that the home is ours stays (tests/openoxide/test_removal.py)
_LAST = (LOCK, UNINSTALLED)
_LOCK_SECONDS, _POLL_SECONDS = 10.0, 0.02

NOT_OURS = "not_ours"


class Removal(NamedTuple):
    """What goes, stays by intent, and stays because it is not ours or resists: by its name in the home. ``removed`` and
    ``kept`` have sizes in bytes, a folder that of all in it; ``left`` has reasons.
    """

    removed: Mapping[str, int]
    kept: Mapping[str, int]
    left: Mapping[str, str]


def plan(home: Home, *, keep_history: bool) -> Removal:
    """What :func:`remove` would do. Raises RefusedError where this is no home of ours."""
    if not home.folder.is_dir():
        return Removal({}, {}, {})
    with _opened(home) as folder:
        found = all_below(folder)
        _refuse_foreign(home, folder, found, keep_history=keep_history)
        going, kept, left = _sorted_out(found, keep_history=keep_history)
        return Removal(_sizes(going), _sizes(kept), _reasons(folder, found, left))


def remove(home: Home, *, keep_history: bool) -> Removal:
    """Remove the home, or with ``keep_history`` what is neither the store nor needed to go on with it. May be repeated
    after any failure. Raises RefusedError, and AlreadyRunningError where a daemon has the home.
    """
    if not home.folder.is_dir():
        return Removal({}, {}, {})
    with _opened(home) as folder:
        found = all_below(folder)
        _refuse_foreign(home, folder, found, keep_history=keep_history)
        # before the lock, which would make a file of ours in a folder that has none
        if not any(is_ours(name, entry.mode) for name, entry in found.items()):
            return Removal({}, {}, dict.fromkeys(found, NOT_OURS) if found else _delete_folder(home))
        with _locked(home, folder):
            if not keep_history and DATABASE in found:
                os.rename(DATABASE, UNINSTALLED, src_dir_fd=folder, dst_dir_fd=folder)
                # durable before anything goes: a crash must not bring timeline.db back to packs that are gone
                os.fsync(folder)
            # once more: the daemon wrote until it gave the lock back, and the database has another name now
            found = all_below(folder)
            going, kept, left = _sorted_out(found, keep_history=keep_history)
            stays = _reasons(folder, found, left)
            resisting = _delete(folder, going)
            if not kept and not left and not resisting:
                resisting = _delete_folder(home)
    stays |= resisting
    return Removal(_sizes({name: size for name, size in going.items() if name not in resisting}), _sizes(kept), stays)


@contextmanager
def _opened(home: Home) -> Iterator[int]:
    real = os.path.realpath(home.folder)
    user = os.path.realpath(Path.home())
    # by real paths: a link to the home directory is the home directory
    if user == real or user.startswith(real.rstrip("/") + "/"):
        raise RefusedError(
            f"{home.folder} is the home directory or holds it", hint="set OPENOXIDE_HOME to what was used"
        )
    # run through sudo with the caller's HOME, root would delete what is not its own
    if os.stat(real).st_uid != os.geteuid():
        raise RefusedError(f"{home.folder} belongs to another user", hint="only its owner removes it")
    folder = os.open(real, FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


def _refuse_foreign(home: Home, folder: int, found: Mapping[str, Found], *, keep_history: bool) -> None:
    some = any(is_ours(name, entry.mode) for name, entry in found.items())
    if some and not databases(folder, found) and not is_half_made(folder, found):
        raise RefusedError(
            f"{home.folder} is no OpenOxide home: no database of ours is in it",
            hint="nothing was deleted; look into it, and set OPENOXIDE_HOME to what was used",
        )
    if keep_history and UNINSTALLED in found:
        raise RefusedError(
            f"the history in {home.folder} was being deleted before", hint="run `oxide-ctl uninstall` to finish that"
        )


def _sorted_out(found: Mapping[str, Found], *, keep_history: bool) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """``(going, kept, left)``; what goes is in the order in which it goes, folders after what is in them. Pure."""
    ours = {name: f for name, f in found.items() if is_ours(name, f.mode)}
    kept = {
        name: f.size
        for name, f in found.items()
        if keep_history and _HISTORY.fullmatch(name) and (name in ours or is_link_of_ours(name, f.mode))
    }
    left = [name for name in found if name not in ours and name not in kept]
    # rmdir would only fail there, and be told as an error
    holding = {name for name in ours if any(other.startswith(f"{name}/") for other in left)}
    order = sorted(
        # the deepest first: a folder has to be empty when its turn comes
        ours.keys() - kept.keys() - holding,
        key=lambda name: (_LAST.index(name) if name in _LAST else -1, -name.count("/"), name),
    )
    return {name: 0 if stat.S_ISDIR(ours[name].mode) else ours[name].size for name in order}, kept, left


def _reasons(folder: int, found: Mapping[str, Found], left: Iterable[str]) -> dict[str, str]:
    """Why each of ``left`` stays. Where one of our rooms is a link, what it leads to holds bytes of ours."""
    return {
        name: f"leads to {os.readlink(name, dir_fd=folder)}, which stays"
        if kind_of(name) == stat.S_IFDIR and is_link_of_ours(name, found[name].mode)
        else NOT_OURS
        for name in left
    }


def _sizes(names: Mapping[str, int]) -> dict[str, int]:
    """By the first part of each name, with what is below it added up. Pure."""
    sizes: dict[str, int] = {}
    for name, size in names.items():
        top = DATABASE if name == UNINSTALLED else name.split("/")[0]
        sizes[top] = sizes.get(top, 0) + size
    return sizes


@contextmanager
def _locked(home: Home, folder: int) -> Iterator[None]:
    """Hold what a daemon would have to hold; one that has just been stopped gives it back a moment after its socket."""
    # made where it is missing: from then on a daemon that starts finds the home taken
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _take(lock):
            if time.monotonic() > deadline:
                hint = "run `oxide-ctl stop`, then this again"
                pid = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "not known"
                raise AlreadyRunningError(f"a daemon (pid {pid}) owns {home.folder}", hint=hint)
            # flock(2) has no timeout
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _delete_folder(home: Home) -> dict[str, str]:
    """Delete the empty home; why it could not be, under the name ``.``. A link that led to it is its maker's."""
    try:
        # of the real folder: rmdir refuses a link (ENOTDIR)
        os.rmdir(os.path.realpath(home.folder))
    except OSError as error:
        return {".": error.strerror or str(error)}
    return {".": NOT_OURS} if home.folder.is_symlink() else {}


def _delete(folder: int, names: Mapping[str, int]) -> dict[str, str]:
    """Delete ``names`` in their order; those that could not be, with the reason."""
    resisting: dict[str, str] = {}
    for name in names:
        # it comes last: without it the rest would be a foreign folder, which nothing removes
        if resisting and name == UNINSTALLED:
            resisting[name] = "needed to finish"
            break
        directory, _, last = name.rpartition("/")
        try:
            inner = _open_below(folder, directory)
            try:
                (os.rmdir if kind_of(name) == stat.S_IFDIR else os.unlink)(last, dir_fd=inner)
            finally:
                os.close(inner)
        except OSError as error:
            resisting[name] = error.strerror or str(error)
    return resisting


def _open_below(folder: int, directory: str) -> int:
    """``directory`` below the home, each part of it no link."""
    here = os.open(".", FOLDER, dir_fd=folder)
    for part in directory.split("/") if directory else ():
        above = here
        try:
            # part by part: O_NOFOLLOW looks at the last one only (open(2))
            here = os.open(part, FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return here
