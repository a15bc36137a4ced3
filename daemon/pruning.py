"""Which directories the watcher does not enter. It reads the rules at another moment than a capture, so its answer is a
guess: what it watches in vain costs memory, and where it prunes what a capture records, it is told to look again.
"""

from __future__ import annotations

import os

from openoxide.checkpoints.ignore import CACHE_SIGNATURE, CACHE_TAG, IGNORE_FILES, MARKER_NAMES, Rules
from openoxide.checkpoints.model import SkipReason, join, split
from openoxide.daemon.attachment import Pruned
from openoxide.settings import CaptureSettings

_LIMIT_BYTES = 1 << 20


class Pruner:
    """Capture rules as the watcher needs them, read as it descends. Used under the watcher's lock only."""

    def __init__(self, root: bytes, settings: CaptureSettings, *, everything: bool = False) -> None:
        self._root = root
        self._rules = Rules(settings, everything=everything)
        self._loaded: set[bytes] = set()

    def __call__(self, parent: bytes, name: bytes) -> Pruned:
        """Whether the directory ``name`` in ``parent`` is skipped as a whole."""
        if parent not in self._loaded:
            self._loaded.add(parent)
            for ignore in IGNORE_FILES:
                self._rules.load(parent, ignore, self._content(join(parent, ignore)))
        path = join(parent, name)
        markers = {marker for marker in MARKER_NAMES if os.path.lexists(join(self._root, join(path, marker)))}
        if CACHE_TAG in markers and not (self._content(join(path, CACHE_TAG)) or b"").startswith(CACHE_SIGNATURE):
            markers.discard(CACHE_TAG)
        reason = self._rules.skip_directory(path, markers)
        if reason is None:
            return Pruned.NO
        # a home is left out for good: its own writing would tell of itself without end
        by_markers = reason is not SkipReason.OPENOXIDE and self._rules.skip_directory(path, ()) is None
        return Pruned.SHUT if by_markers else Pruned.OUT

    def forget(self, directory: bytes) -> None:
        """The rules in ``directory``, or above it, changed: read them again at the next descent."""
        while directory:
            self._loaded.discard(directory)
            directory = split(directory)[0]
        self._loaded.discard(b"")

    def _content(self, path: bytes) -> bytes | None:
        try:
            fd = os.open(join(self._root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(fd, _LIMIT_BYTES)
        except OSError:
            return None
        finally:
            os.close(fd)
