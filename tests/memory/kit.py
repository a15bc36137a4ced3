"""What tests of the memory room share: a memory in a temporary home, and files that a disk never holds."""

from __future__ import annotations

from pathlib import Path, PurePath

from openoxide.memory.directory import MemoryDirectory, Raw
from openoxide.memory.gathering import Places, places_from
from openoxide.memory.topics import Memory
from tests.kit import FakeClock

PROJECT = "kkkkkkkkkkkkkkkk"


def memory_in(home: Path, project: str = PROJECT, worktree: str = "", known: tuple[str, ...] = ()) -> Memory:
    return Memory(MemoryDirectory(home, project, worktree), FakeClock(), known)


def place(folder: Path, name: str, content: str | bytes) -> Path:
    """A file as an agent or a person writes it: not through us."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


class Tree:
    """``Files`` over a mapping of absolute paths; a value that is a path is a link."""

    def __init__(self, **files: str | PurePath) -> None:
        self._files = {PurePath(name): value for name, value in files.items()}

    def read(self, path: PurePath) -> Raw | None:
        value = self._files.get(self.real(path))
        if value is None or isinstance(value, PurePath):
            return None
        return Raw(data=value.encode()[: 4 << 20], size=len(value.encode()))

    def names(self, folder: PurePath) -> list[str]:
        real = self.real(folder)
        inside = (path.relative_to(real).parts for path in self._files if path.is_relative_to(real) and path != real)
        return sorted({parts[0] for parts in inside})

    def real(self, path: PurePath) -> PurePath:
        for at in (path, *path.parents):
            target = self._files.get(at)
            if isinstance(target, PurePath):
                return self.real(target / path.relative_to(at))
        return path


PLACES: Places = places_from({}, Path("/home/u"), "linux")
