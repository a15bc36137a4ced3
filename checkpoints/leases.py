"""Who is reading what a prune may take away: what a read found in the rows has to be there until the read ends.

A lease names nothing. Whoever deletes bytes lets the reads that had begun before their rows went come to an end; what
begins later does not find those rows. In one process: the daemon is the only one that deletes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.1


class Leases:
    """The leases of one store. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: dict[object, int] = {}  # by the thread that holds it

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Nothing that the rows name now is deleted before the block ends, whatever becomes of the rows."""
        lease = object()
        with self._changed:
            self._held[lease] = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                del self._held[lease]
                self._changed.notify_all()

    def drained(self, seconds: float, is_ending: Callable[[], bool] = bool) -> bool:
        """Whether all leases that others hold now have ended before ``seconds`` have passed, or ``is_ending`` says so."""
        until = time.monotonic() + seconds
        with self._changed:
            older = {lease for lease, thread in self._held.items() if thread != threading.get_ident()}
        while older := self._left_of(older, min(until - time.monotonic(), _LOOK_SECONDS)):
            if time.monotonic() >= until or is_ending():
                return False
        return True

    def _left_of(self, older: set[object], seconds: float) -> set[object]:
        """Those of ``older`` that are held still, after a wait for the next that ends."""
        with self._changed:
            if seconds > 0 and not older.isdisjoint(self._held):
                self._changed.wait(seconds)
            return older & self._held.keys()
