"""What a capture knows of paths before it looks at them. A stat that proves nothing is never taken for knowledge."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from openoxide.checkpoints.live import LiveRow
from openoxide.checkpoints.model import FileState, StatIdentity


class LiveStates(Protocol):
    """The newest recorded state of each path, as a capture asks for it."""

    def expect(self, paths: Collection[bytes]) -> None:
        """These will be asked for one by one."""

    def one(self, path: bytes) -> LiveRow | None:
        """The live row of ``path``."""

    def below(self, directory: bytes) -> Iterable[LiveRow]:
        """Live rows below ``directory`` in path order, those that are absent left out."""

    def twins(self, dev: int, ino: int) -> list[bytes]:
        """Recorded names of this inode."""

    def files_below(self, directory: bytes, limit: int) -> int:
        """How many files are recorded below ``directory``, counted up to ``limit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A state whose old name vanished in this capture: found again by its inode, it is not read again."""

    identity: StatIdentity
    state: FileState


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What a rewind has just put in a place: its bytes were hashed when they were staged under this inode."""

    ino: int
    state: FileState
