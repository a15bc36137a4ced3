"""One after the other, in the order in which they came: a lock alone lets any of those who wait for it go first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Queues:
    """A queue for each key; keys do not wait for one another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[threading.Event]] = {}

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """Returns when all who came before with this ``key`` have gone."""
        mine = threading.Event()
        with self._lock:
            queue = self._waiting.setdefault(key, deque())
            queue.append(mine)
            # who is first may go: that is who is at it already, or nobody waits and it is us
            queue[0].set()
        mine.wait()
        try:
            yield
        finally:
            with self._lock:
                queue.popleft()
                if queue:
                    queue[0].set()
                else:
                    del self._waiting[key]
