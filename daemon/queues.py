"""One after the other, in the order in which they began: a lock alone lets any of those who wait for it go first."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count


class _Queue:
    """Who waits, and whether somebody is at it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int]] = []
        self.busy = False


class Queues:
    """A queue for each key; keys do not wait for one another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrivals = count()
        self._queues: dict[Hashable, _Queue] = {}

    @contextmanager
    def turn(self, key: Hashable, began: int, grace_seconds: float = 0.0) -> Iterator[None]:
        """Returns when nobody is at it and nobody waits who ``began`` earlier. Who is let in at once may be younger than
        others that come in the same moment: ``grace_seconds`` is how long to wait for those.
        """
        mine = began, next(self._arrivals)
        with self._changed:
            queue = self._queues.setdefault(key, _Queue())
            heappush(queue.waiting, mine)
            # in the queue meanwhile: whoever began later stays behind this one
            self._changed.wait_for(lambda: False, grace_seconds)
            self._changed.wait_for(lambda: not queue.busy and queue.waiting[0] == mine)
            heappop(queue.waiting)
            queue.busy = True
        try:
            yield
        finally:
            with self._changed:
                queue.busy = False
                if not queue.waiting:
                    del self._queues[key]
                self._changed.notify_all()
