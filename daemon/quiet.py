"""When a worktree seals a checkpoint by itself: after a quiet time, or when changes have gone on for too long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from openoxide.errors import OpenOxideError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A stretch of changes that no checkpoint holds yet; milliseconds of one clock."""

    first_ms: int
    last_ms: int


def due_at(burst: Burst, quiet_ms: int, max_interval_ms: int) -> int:
    """When a checkpoint is due: ``quiet_ms`` after the last change, but ``max_interval_ms`` after the first at most."""
    return min(burst.last_ms + quiet_ms, burst.first_ms + max_interval_ms)


class QuietSealer:
    """Calls ``seal(worktree)`` from its own thread when that worktree's burst is due; ``waits(worktree)`` are its own
    ``quiet_ms`` and ``max_interval_ms``.
    """

    def __init__(self, seal: Callable[[int], None], waits: Callable[[int], tuple[int, int]]) -> None:
        self._seal = seal
        self._waits = waits
        self._bursts: dict[int, Burst] = {}
        self._told: dict[int, str] = {}
        self._condition = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="quiet-sealer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Seal nothing more; returns when the thread has ended."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join()

    def changed(self, worktree: int) -> None:
        """Something changed in ``worktree``. Cheap: the watcher's reader calls it."""
        now = _monotonic_ms()
        with self._condition:
            burst = self._bursts.get(worktree)
            self._bursts[worktree] = replace(burst, last_ms=now) if burst else Burst(first_ms=now, last_ms=now)
            if burst is None:
                self._condition.notify()

    def settled(self, worktree: int) -> None:
        """A checkpoint holds everything that changed in ``worktree``."""
        with self._condition:
            self._bursts.pop(worktree, None)

    def _run(self) -> None:
        while (worktree := self._next()) is not None:
            try:
                self._seal(worktree)
                self._told.pop(worktree, None)
            except OpenOxideError as error:
                # a disk that stays full is tried again and again, and told of once
                if self._told.get(worktree) != str(error):
                    log.warning("quiet checkpoint failed: %s", error)
                self._told[worktree] = str(error)
            except Exception:  # the sealer must outlive a fault in one worktree; the next change tries again
                log.exception("quiet checkpoint failed")

    def _next(self) -> int | None:
        with self._condition:
            while not self._stopping:
                now = _monotonic_ms()
                due = {w: due_at(b, *self._waits(w)) for w, b in self._bursts.items()}
                ready = [worktree for worktree, at in due.items() if at <= now]
                if ready:
                    # before the seal: what changes meanwhile is a burst of its own (tests/daemon/test_quiet.py)
                    del self._bursts[ready[0]]
                    return ready[0]
                self._condition.wait((min(due.values()) - now) / 1000 if due else None)
            return None


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
