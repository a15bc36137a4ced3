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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from openoxide.errors import AlreadyRunningError, RefusedError
from openoxide.paths import APPLICATION_ID, Home

DATABASE, UNINSTALLED, LOCK = "timeline.db", "timeline.db.uninstalled", "oxided.lock"
_FILES = re.compile(
    r"timeline\.db(?:-wal|-shm|-journal|\.uninstalled)?|oxided\.lock|config\.toml(?:\.rejected)?(?:\.new)?|logs/oxided\.log(?:\.[0-9]+)?"
    r"|blobs/[0-9]{8,}\.pack(?:\.aside)?|blobs/big/(?:[0-9a-f]{64}|[0-9a-f]{16}\.tmp)"
)
_KINDS = {"oxided.sock": stat.S_IFSOCK, "logs": stat.S_IFDIR, "blobs": stat.S_IFDIR, "blobs/big": stat.S_IFDIR}
_HISTORY = re.compile(r"timeline\.db.*|oxided\.lock|config\.toml(?:\.rejected)?|blobs(?:/.*)?")
_LAST = (LOCK, UNINSTALLED)
_ID_AT = slice(68, 72)  # the application id in SQLite's header
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_SECONDS, _POLL_SECONDS = 10.0, 0.02

NOT_OURS = "not_ours"


class Removal(NamedTuple):
    """What goes, stays by intent, and stays because it is not ours or resists: by its name in the home. ``removed`` and
    ``kept`` have sizes in bytes, a folder that of all in it; ``left`` has reasons.
    """

    removed: Mapping[str, int]
    kept: Mapping[str, int]
    left: Mapping[str, str]


class _Found(NamedTuple):
    mode: int
    size: int


def plan(home: Home, *, keep_history: bool) -> Removal:
    """What :func:`remove` would do. Raises RefusedError where this is no home of ours."""
    if not home.folder.is_dir():
        return Removal({}, {}, {})
    with _opened(home) as folder:
        found = _all_below(folder)
        _refuse_foreign(home, folder, found, keep_history=keep_history)
    going, kept, left = _sorted_out(found, keep_history=keep_history)
    return Removal(_sizes(going), _sizes(kept), dict.fromkeys(left, NOT_OURS))


def remove(home: Home, *, keep_history: bool) -> Removal:
    """Remove the home, or with ``keep_history`` what is neither the store nor needed to go on with it. May be repeated
    after any failure. Raises RefusedError, and AlreadyRunningError where a daemon has the home.
    """
    if not home.folder.is_dir():
        return Removal({}, {}, {})
    with _opened(home) as folder:
        found = _all_below(folder)
        _refuse_foreign(home, folder, found, keep_history=keep_history)
        if not any(_is_ours(name, entry.mode) for name, entry in found.items()):
            return Removal({}, {}, dict.fromkeys(found, NOT_OURS) if found else _delete_folder(home))
        with _locked(home, folder):
            if not keep_history and DATABASE in found:
                os.rename(DATABASE, UNINSTALLED, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            found = _all_below(folder)
            going, kept, left = _sorted_out(found, keep_history=keep_history)
            resisting = _delete(folder, going)
            if not kept and not left and not resisting:
                resisting = _delete_folder(home)
    stays = {**dict.fromkeys(left, NOT_OURS), **resisting}
    return Removal(_sizes({name: size for name, size in going.items() if name not in resisting}), _sizes(kept), stays)


def is_foreign(home: Home) -> bool:
    """Whether the folder that is named as the home holds something, and nothing in it tells that it is ours."""
    with suppress(OSError):  # what cannot be looked into is for whoever uses it to tell
        folder = os.open(os.path.realpath(home.folder), _FOLDER)
        try:
            found = _all_below(folder)
            return not _databases(folder, found) and not all(_is_ours(name, f.mode) for name, f in found.items())
        finally:
            os.close(folder)
    return False


@contextmanager
def _opened(home: Home) -> Iterator[int]:
    real = os.path.realpath(home.folder)
    user = os.path.realpath(Path.home())
    if user == real or user.startswith(real.rstrip("/") + "/"):
        raise RefusedError(
            f"{home.folder} is the home directory or holds it", hint="set OPENOXIDE_HOME to what was used"
        )
    if os.stat(real).st_uid != os.geteuid():
        raise RefusedError(f"{home.folder} belongs to another user", hint="only its owner removes it")
    folder = os.open(real, _FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


def _all_below(folder: int, prefix: str = "") -> dict[str, _Found]:
    """Every entry below ``folder`` by its relative name, links not followed; what is below a foreign folder left out."""
    found: dict[str, _Found] = {}
    for name in sorted(os.listdir(folder)):
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        found[prefix + name] = _Found(seen.st_mode, seen.st_size)
        if _KINDS.get(prefix + name) == stat.S_IFDIR and stat.S_ISDIR(seen.st_mode):
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                found |= _all_below(inner, f"{prefix}{name}/")
            finally:
                os.close(inner)
    return found


def _refuse_foreign(home: Home, folder: int, found: Mapping[str, _Found], *, keep_history: bool) -> None:
    if not _databases(folder, found) and any(_is_ours(name, entry.mode) for name, entry in found.items()):
        raise RefusedError(
            f"{home.folder} is no OpenOxide home: no database of ours is in it",
            hint="nothing was deleted; look into it, and set OPENOXIDE_HOME to what was used",
        )
    if keep_history and UNINSTALLED in found:
        raise RefusedError(
            f"the history in {home.folder} was being deleted before", hint="run `oxide-ctl uninstall` to finish that"
        )


def _databases(folder: int, found: Mapping[str, _Found]) -> list[str]:
    return [name for name in (DATABASE, UNINSTALLED) if name in found and _is_database_of_ours(folder, name)]


def _is_database_of_ours(folder: int, name: str) -> bool:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        return os.read(file, 100)[_ID_AT] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False
    finally:
        os.close(file)


def _sorted_out(found: Mapping[str, _Found], *, keep_history: bool) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """``(going, kept, left)``; what goes is in the order in which it goes, folders after what is in them. Pure."""
    kept = {name: f.size for name, f in found.items() if keep_history and _HISTORY.fullmatch(name)}
    ours = {name: f for name, f in found.items() if name not in kept and _is_ours(name, f.mode)}
    left = [name for name in found if name not in ours and name not in kept]
    holding = {name for name in ours if any(other.startswith(f"{name}/") for other in left)}
    order = sorted(
        ours.keys() - holding, key=lambda name: (_LAST.index(name) if name in _LAST else -1, -name.count("/"), name)
    )
    return {name: 0 if stat.S_ISDIR(ours[name].mode) else ours[name].size for name in order}, kept, left


def _is_ours(name: str, mode: int) -> bool:
    return stat.S_IFMT(mode) == _KINDS.get(name, stat.S_IFREG if _FILES.fullmatch(name) else -1)


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
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _take(lock):
            if time.monotonic() > deadline:
                hint = "run `oxide-ctl stop`, then this again"
                raise AlreadyRunningError(f"a daemon owns {home.folder}", hint=hint)
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
        os.rmdir(os.path.realpath(home.folder))
    except OSError as error:
        return {".": error.strerror or str(error)}
    return {".": NOT_OURS} if home.folder.is_symlink() else {}


def _delete(folder: int, names: Mapping[str, int]) -> dict[str, str]:
    """Delete ``names`` in their order; those that could not be, with the reason."""
    resisting: dict[str, str] = {}
    for name in names:
        if resisting and name == UNINSTALLED:
            resisting[name] = "needed to finish"
            break
        directory, _, last = name.rpartition("/")
        try:
            inner = os.open(directory or ".", _FOLDER, dir_fd=folder)
            try:
                (os.rmdir if _KINDS.get(name) == stat.S_IFDIR else os.unlink)(last, dir_fd=inner)
            finally:
                os.close(inner)
        except OSError as error:
            resisting[name] = error.strerror or str(error)
    return resisting
