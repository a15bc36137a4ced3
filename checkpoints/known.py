"""What a capture knows of paths before it looks at them. A stat that proves nothing is never taken for knowledge."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from openoxide.checkpoints.model import FileState, Observed, StatIdentity


class LiveStates(Protocol):
    """The newest recorded state of each path, as a capture asks for it."""

    def expect(self, paths: Collection[bytes]) -> None:
        """These will be asked for one by one."""

    def one(self, path: bytes) -> Observed | None:
        """The live row of ``path``."""

    def below(self, directory: bytes) -> Iterable[Observed]:
        """Live rows below ``directory``, those that are absent left out."""

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


def unchanged(row: Observed | None, found: os.stat_result) -> bool:
    """Whether the live row still tells what stands there."""
    if row is None or row.identity is None:
        return False
    # ctime too: utime(2) sets an mtime back, and nothing but the kernel sets a ctime; nlink says nothing about bytes
    known = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
    # a write within the same tick leaves this very stat (git, racy-git); a torn state is none that the file had
    return row.identity[:6] == known and not row.identity.racy and not row.state.torn and row.state.exists
