"""What in a home is ours: told by its name, its place and its kind, and by the database, never by a guess.

A folder that somebody else filled may be named as the home by mistake. Nothing in it is touched: not a mode changed, no
file added, and no file deleted.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from openoxide.errors import RefusedError
from openoxide.ids import ID_BYTES, is_letters
from openoxide.paths import APPLICATION_ID, Home
from openoxide.settings import SECTIONS

DATABASE, UNINSTALLED, LOCK = "timeline.db", "timeline.db.uninstalled", "oxided.lock"
CONFIG = "config.toml"
MEMORIES = "projects"  # what is in it is the user's own: told to be of this home, and never ours to delete
KINDS = {
    "oxided.sock": stat.S_IFSOCK,
    "logs": stat.S_IFDIR,
    "spool": stat.S_IFDIR,
    "blobs": stat.S_IFDIR,
    "blobs/big": stat.S_IFDIR,
}
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOREIGN_HINT = "name a folder of its own in OPENOXIDE_HOME, or move what is not ours out of this one"

_FILES = re.compile(
    r"timeline\.db(?:\.repairing|\.repaired)?(?:-wal|-shm|-journal)?|timeline\.db(?:\.uninstalled|\.v[0-9]{1,4}|\.migrating(?:-journal)?)"
    r"|oxided\.(?:lock|reserve)|config\.toml(?:\.rejected|\.used)?(?:\.new)?|logs/oxided\.log(?:\.[0-9]+)?"
    r"|spool/[0-9]{20}-[0-9]{1,10}\.(?:json|new)"
    r"|repair-[0-9T]{18}(?:\.part)?/timeline\.db(?:\.grafted|\.new)?(?:-wal|-shm|-journal)?"
    r"|blobs/[0-9]{8,}\.pack(?:\.aside)?|blobs/big/(?:[0-9a-f]{64}|[0-9a-f]{16}\.tmp)"
)
# what a repair leaves: the state before it, until its user deletes it
_REPAIR = re.compile(r"repair-[0-9T]{18}(?:\.part)?")
_HISTORY = ("timeline.db", "blobs/", "repair-")
# big-endian; bytes 68 to 71 are what PRAGMA application_id sets (SQLite: Database File Format, 1.3)
_ID_AT, _PAGE_SIZE_AT = slice(68, 72), slice(16, 18)  # in SQLite's header


class Found(NamedTuple):
    """An entry of a home, not followed."""

    mode: int
    size: int


def all_below(folder: int, prefix: str = "") -> dict[str, Found]:
    """Every entry below ``folder`` by its relative name, links not followed; what is below a foreign folder left out, and
    what is below one that may not be read.
    """
    found: dict[str, Found] = {}
    for name in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):  # a daemon that runs, or anybody in a folder of theirs, may delete meanwhile
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found[prefix + name] = Found(seen.st_mode, seen.st_size)
            if kind_of(prefix + name) == stat.S_IFDIR and stat.S_ISDIR(seen.st_mode):
                # what may not be read does not hide the rest (tests/openoxide/test_ownership.py)
                with suppress(PermissionError):
                    found |= _inside(folder, name, prefix)
    return found


def _inside(folder: int, name: str, prefix: str) -> dict[str, Found]:
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        return all_below(inner, f"{prefix}{name}/")
    finally:
        os.close(inner)


def kind_of(name: str) -> int:
    """What an entry of a home with this name is where it is ours (``S_IFDIR`` and the like); -1 for a name of none. Pure."""
    if _REPAIR.fullmatch(name):
        return stat.S_IFDIR
    return KINDS.get(name, stat.S_IFREG if _FILES.fullmatch(name) else -1)


def is_ours(name: str, mode: int) -> bool:
    """Whether an entry of a home is one that we make. Pure."""
    return stat.S_IFMT(mode) == kind_of(name)


def foreign_names(home: Path, below: str) -> list[str]:
    """What lies in a home under names that begin with ``below`` and is neither ours nor a link where ours would be."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = all_below(folder)
    finally:
        os.close(folder)
    return [
        name
        for name, entry in found.items()
        if name.startswith(below) and not is_ours(name, entry.mode) and not is_link_of_ours(name, entry.mode)
    ]


def is_link_of_ours(name: str, mode: int) -> bool:
    """Whether a link stands where we make something: blobs on another disk, a config.toml among dotfiles. Pure."""
    return stat.S_ISLNK(mode) and _has_our_name(name)


def is_half_made(folder: int, found: Mapping[str, Found]) -> bool:
    """Whether there is nothing but ours, and no history yet: what `config set` or a daemon that could not start left."""
    return not _is_of_others(folder, found) and all(
        name == MEMORIES
        or (
            is_ours(name, entry.mode)
            and (stat.S_ISDIR(entry.mode) or not name.startswith(_HISTORY) or _is_empty(folder, name, entry))
        )
        for name, entry in found.items()
    )


def databases(folder: int, found: Mapping[str, Found]) -> list[str]:
    """Those of ``found`` that are databases of ours."""
    return [name for name in (DATABASE, UNINSTALLED) if name in found and _is_database_of_ours(folder, name)]


def _is_database_of_ours(folder: int, name: str) -> bool:
    # read from the file, not through SQLite, which would take a WAL in and write side files
    return _header(folder, name)[_ID_AT] == APPLICATION_ID.to_bytes(4, "big")


def _header(folder: int, name: str) -> bytes:
    """The header of a database, empty where it cannot be read."""
    with suppress(OSError):
        # a FIFO of that name would let us wait for a writer (fifo(7))
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(file, 100)
        finally:
            os.close(file)
    return b""


def _is_empty(folder: int, name: str, entry: Found) -> bool:
    """Whether a file holds nothing: SQLite gives each table a page of its own, besides the first."""
    if name != DATABASE or not entry.size:
        return not entry.size
    # a daemon that was killed in its first moment leaves a database without a table: it is nobody's yet
    header = _header(folder, name)
    return header.startswith(b"SQLite format 3") and int.from_bytes(header[_PAGE_SIZE_AT], "big") == entry.size


def _is_of_others(folder: int, found: Mapping[str, Found]) -> bool:
    """Whether what has a name of ours is another program's: both names are common. A lock is there before either is."""
    # a daemon makes it before the database: beside it even a damaged one is ours
    if LOCK in found:
        return False
    if DATABASE in found and stat.S_ISREG(found[DATABASE].mode) and not _is_empty(folder, DATABASE, found[DATABASE]):
        return True
    with suppress(OSError, ValueError):  # not there; or not to be parsed, which those who use it tell
        # a link is followed: config.toml often lies among somebody's dotfiles
        file = os.open(CONFIG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(file, "rb") as stream:
            sections = tomllib.load(stream).keys()
        return bool(sections) and not sections & SECTIONS
    return False


def is_foreign(home: Home) -> bool:
    """Whether the folder that is named as the home holds something, and nothing in it tells that it is ours."""
    with suppress(OSError):  # what cannot be looked into is for whoever uses it to tell
        # FOLDER refuses a link, and the home may be one to a folder of one's own
        folder = os.open(os.path.realpath(home.folder), FOLDER)
        try:
            found = all_below(folder)
            named = all(_has_our_name(name) or (name == MEMORIES and _holds_memories(folder)) for name in found)
            return not databases(folder, found) and (not named or _is_of_others(folder, found))
        finally:
            os.close(folder)
    return False


def _holds_memories(folder: int) -> bool:
    """Whether all that is in ``projects`` is named by an id of ours: the name alone is common."""
    with suppress(OSError):
        inner = os.open(MEMORIES, FOLDER, dir_fd=folder)
        try:
            return all(len(name) == 2 * ID_BYTES and is_letters(name) for name in os.listdir(inner))
        finally:
            os.close(inner)
    return False


def require_ours(home: Home) -> None:
    """Raises RefusedError where the home is somebody else's folder. Nothing is written to tell."""
    if is_foreign(home):
        raise RefusedError(foreign_text(home), hint=FOREIGN_HINT)


def foreign_text(home: Home) -> str:
    """What is wrong with a foreign home, for people."""
    return f"{home.folder} is no OpenOxide home: it holds other files, and no database of ours"


def _has_our_name(name: str) -> bool:
    """What stands under it may be a link to another disk, or in our way: whoever uses it tells. Pure."""
    return kind_of(name) != -1
