"""macOS: what the raw flags of an FSEvents stream mean for the dirty set.

Invariant: a flag that says events were dropped or merged marks everything below its path and is a gap. Watchdog's own
translation loses these flags, and takes a new hard link for a file it knows; so the flags are read where they arrive.
"""

from __future__ import annotations

import os
import stat

from openoxide.checkpoints.model import STAGING_NAME
from openoxide.daemon.attachment import OVERFLOW, ROOT_LOST, ROOT_RETURNED, UNMOUNT, Prune, Pruned, Report

# FSEvents.h, kFSEventStreamEventFlag...
DROPPED = 0x1 | 0x2 | 0x4  # MustScanSubDirs, UserDropped, KernelDropped
ROOT_CHANGED = 0x20
MOUNTS = 0x40 | 0x80
IS_DIRECTORY = 0x20000


class StreamNotes:
    """Takes down what a stream says about the tree at ``root``. Not thread-safe."""

    def __init__(self, root: bytes, prune: Prune, report: Report) -> None:
        self._root = root
        self._prune = prune
        self._report = report
        self._identity = _identity(root)

    @property
    def root_present(self) -> bool:
        return self._identity is not None

    def note(self, path: bytes, flags: int) -> None:
        """One event; ``path`` is absolute."""
        if flags & ROOT_CHANGED:
            self.check_root()
        if path != self._root and not path.startswith(self._root + b"/"):
            return
        relative = path[len(self._root) + 1 :].rstrip(b"/")
        if self._is_pruned(relative, is_directory=bool(flags & IS_DIRECTORY)):
            return
        if flags & (DROPPED | MOUNTS):
            self._report.gap(OVERFLOW if flags & DROPPED else UNMOUNT)
        # A directory that is made or moved is reported without what it holds.
        self._report.mark(relative, recursive=bool(flags & (DROPPED | MOUNTS | IS_DIRECTORY)))

    def check_root(self) -> bool:
        """Whether the root is the directory it was; if not, that is a gap, and another one in its place is dirty."""
        now = _identity(self._root)
        if now == self._identity:
            return now is not None
        self._identity = now
        self._report.gap(ROOT_LOST if now is None else ROOT_RETURNED)
        if now is not None:
            self._report.mark(b"", recursive=True)
        return False

    def _is_pruned(self, path: bytes, *, is_directory: bool) -> bool:
        names = path.split(b"/") if path else []
        directories = range(len(names) if is_directory else len(names) - 1)
        return STAGING_NAME in names or any(
            self._prune(b"/".join(names[:depth]), names[depth]) is not Pruned.NO for depth in directories
        )


def _identity(root: bytes) -> tuple[int, int] | None:
    try:
        found = os.lstat(root)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
