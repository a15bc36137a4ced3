"""What lies beside a memory and holds texts of it: the trash, and what a killed writer has left in staging.

It is found by what it holds, and erased while no writer of ours is at work. Nothing is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from openoxide.errors import NotFoundError, RefusedError
from openoxide.fileio import write_errors
from openoxide.memory.directory import EVERYTHING, PROJECTS, STAGING, TRASH, WORKTREES, MemoryDirectory, read_at
from openoxide.memory.trash import TRASHED, Reason
from openoxide.memory.writing import alone

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scrap(NamedTuple):
    """A file beside a memory: ``place`` is its path below the folder that holds the memory."""

    place: str
    data: bytes

    @property
    def name(self) -> str:
        """What it is called in the memory; empty where that is not known any more."""
        folder, _, name = self.place.partition("/")
        trashed, _, inner = name.partition("/")
        return "" if folder == STAGING or self.is_left else inner if TRASHED.fullmatch(trashed) else ""

    @property
    def is_left(self) -> bool:
        """Whether a writer that was killed has left it: it may be the beginning of a text only."""
        match = TRASHED.fullmatch(self.place.removeprefix(f"{TRASH}/").partition("/")[0])
        return self.place.startswith(f"{STAGING}/") or (match is not None and match["reason"] == Reason.LEFT.value)


Goes = Callable[[Scrap], bool]
"""Whether a scrap is to go."""


def memories_in(home: Path) -> list[MemoryDirectory]:
    """Every memory of a home, those of worktrees among them, known or not."""
    found = []
    for project in _folders(home / PROJECTS):
        found.append(MemoryDirectory(home, project))
        found += [MemoryDirectory(home, project, own) for own in _folders(home / PROJECTS / project / WORKTREES)]
    return found


def _folders(folder: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [name for name in names if _is_id(folder.parent, name)]


def _is_id(home: Path, name: str) -> bool:
    try:
        MemoryDirectory(home, name)
    except RefusedError:  # somebody else's folder
        return False
    return True


def scraps(directory: MemoryDirectory) -> Iterator[Scrap]:
    """All there are."""
    for place in (TRASH, STAGING):
        with suppress(NotFoundError), directory.opened(place) as folder:
            yield from _files(folder, place)


def erase(directory: MemoryDirectory, goes: Goes) -> None:
    """Delete those that go, durably, and the folders that are empty then."""
    if not any(map(goes, scraps(directory))):
        return
    with write_errors(str(directory.path)), alone(directory):
        for place in (TRASH, STAGING):
            with suppress(NotFoundError), directory.opened(place) as folder:
                _erase(folder, place, goes)


def _files(folder: int, place: str) -> Iterator[Scrap]:
    for entry in sorted(os.listdir(folder)):
        name = f"{place}/{entry}"
        if (inner := _opened(folder, entry)) is not None:
            try:
                yield from _files(inner, name)
            finally:
                os.close(inner)
        elif (scrap := _scrap(folder, entry, name)) is not None:
            yield scrap


def _opened(folder: int, entry: str) -> int | None:
    try:
        if stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
            return os.open(entry, _FOLDER, dir_fd=folder)
    except FileNotFoundError:  # a writer of ours has ended meanwhile
        pass
    return None


def _scrap(folder: int, entry: str, place: str) -> Scrap | None:
    try:
        raw = read_at(folder, entry, place, EVERYTHING)
    except RefusedError:  # a link, or what is no file
        return None
    return None if raw is None else Scrap(place, raw.data)


def _erase(folder: int, place: str, goes: Goes) -> bool:
    """Whether anything went."""
    went = False
    for entry in sorted(os.listdir(folder)):
        name = f"{place}/{entry}"
        if (inner := _opened(folder, entry)) is not None:
            try:
                emptied = _erase(inner, name, goes)
            finally:
                os.close(inner)
            if emptied:
                with suppress(OSError):  # something else is in it
                    os.rmdir(entry, dir_fd=folder)
                went = True
        elif (scrap := _scrap(folder, entry, name)) is not None and goes(scrap):
            os.unlink(entry, dir_fd=folder)
            went = True
    if went:
        os.fsync(folder)
    return went
