"""What a first capture would copy, found by its own walk with its own rules, and nothing written.

No file is opened but ignore files and cache tags; whether another could be read, the system is asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from openoxide.checkpoints.capture import Capture
from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.live import LiveRow
from openoxide.checkpoints.model import BlobHash, FileState, Kind, Observed, SkipReason, skipped, split
from openoxide.checkpoints.reading import Found, read_simple
from openoxide.checkpoints.secrets import looks_secret
from openoxide.checkpoints.tree import GONE, Tree, wall_ns
from openoxide.settings import CaptureSettings

MOST_EXAMPLES = 5


@dataclass(slots=True)
class Skips:
    """What one rule leaves out. ``examples`` are the largest, ``(size, path)``; a folder's size is not known: 0."""

    count: int = 0
    size_bytes: int = 0
    examples: list[tuple[int, bytes]] = field(default_factory=list)

    def add(self, path: bytes, size: int) -> None:
        """Count ``path`` in."""
        self.count += 1
        self.size_bytes += size
        self.examples.append((size, path))
        self.examples.sort(key=lambda found: (-found[0], found[1]))
        del self.examples[MOST_EXAMPLES:]


@dataclass(slots=True)
class Summary:
    """What would be copied, and what not by which rule. ``secrets``: files that would be, ``(path, size)``; ``new_files``:
    those that are not recorded as they are.
    """

    files: int = 0
    size_bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0
    skips: dict[str, Skips] = field(default_factory=dict)
    secrets: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """How many paths are left out, a folder counting as one."""
        return sum(skips.count for skips in self.skips.values())


def survey(tree: Tree, settings: CaptureSettings) -> Iterator[Observed]:
    """Every path that a first capture of ``tree`` would make a row for, files without their content's hash."""
    entries = _Unread(tree, Rules(settings), settings, _Nothing(), _unstored)
    return (found.observed for found in Capture(entries).everything())


def summarise(found: Iterable[Observed], recorded: Mapping[bytes, FileState]) -> Summary:
    """What ``found`` comes to, beside what is ``recorded`` of the tree already. Pure."""
    summary = Summary()
    for seen in found:
        state = seen.state
        if state.kind is Kind.SKIPPED:
            summary.skips.setdefault((state.target or b"").decode(), Skips()).add(seen.path, state.size)
        elif state.kind is Kind.FILE:
            summary.files += 1
            summary.size_bytes += state.size
            if not _looks_like(state, recorded.get(seen.path)):
                summary.new_files += 1
                summary.new_bytes += state.size
            if looks_secret(seen.path):
                summary.secrets.append((seen.path, state.size))
    summary.secrets.sort()
    return summary


def _looks_like(state: FileState, recorded: FileState | None) -> bool:
    """Whether a file that was not read seems to be as it was recorded; of a SQLite database its copy was recorded."""
    if recorded is None or recorded.kind is not Kind.FILE:
        return False
    return recorded.sqlite or (state.mode, state.size, state.mtime_ns) == (
        recorded.mode,
        recorded.size,
        recorded.mtime_ns,
    )


class _Unread(Entries):
    """Entries whose files are not read."""

    def _read_entry(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Found | None:
        simple = read_simple(self.tree, path, found, wall_ns())
        if simple is not None:
            return simple
        size, mode = found.st_size, stat.S_IMODE(found.st_mode)
        state = FileState(kind=Kind.FILE, mode=mode, size=size, mtime_ns=found.st_mtime_ns)
        try:
            readable = self._may_read(path)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise
        return Found(observed=Observed(path=path, state=state if readable else skipped(SkipReason.UNREADABLE, size)))

    def _may_read(self, path: bytes) -> bool:
        directory, name = split(path)
        # access(2) asks for the real user, a capture reads as the effective one
        effective = os.access in os.supports_effective_ids
        return os.access(name, os.R_OK, dir_fd=self.tree.folder(directory), effective_ids=effective)


class _Nothing:
    """The live states of a tree that was never looked at."""

    def expect(self, paths: Collection[bytes]) -> None:
        pass

    def one(self, path: bytes) -> None:
        return None

    def below(self, directory: bytes) -> Iterable[LiveRow]:
        return ()

    def twins(self, dev: int, ino: int) -> list[bytes]:
        return []

    def files_below(self, directory: bytes, limit: int) -> int:
        return 0


def _unstored(source: BinaryIO) -> BlobHash:
    """An ignore file so large that a capture would keep it apart; its patterns are not used there either."""
    # the reader takes the position afterwards for the size (reading.py)
    source.seek(0, os.SEEK_END)
    return BlobHash(b"")
