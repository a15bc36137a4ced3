"""Work that nobody waits for, one piece after the other: full passes, sweeping staging folders, attaching worktrees."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from openoxide.errors import OpenOxideError

log = logging.getLogger(__name__)

Work = Callable[[], object]


class Background:
    """A worker thread. Work with a key that is waiting already is not queued again."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[str, Work] | None] = SimpleQueue()
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._stopping = False
        self.failures = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the piece of work at hand; what waits is not done."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join()

    def submit(self, key: str, work: Work) -> None:
        """Do ``work`` soon."""
        with self._lock:
            if key in self._waiting:
                return
            self._waiting.add(key)
        self._queue.put((key, work))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._stopping:
                continue
            key, work = item
            with self._lock:
                # before the work: what is submitted while it runs may come too late for it, and is done once more
                self._waiting.discard(key)
            try:
                work()
            except OpenOxideError as error:
                self.failures += 1
                log.warning("%s failed: %s", key, error)
            except Exception:  # one failing piece of work must not end the thread that all others need
                self.failures += 1
                log.exception("%s failed", key)
