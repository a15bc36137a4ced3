"""What a watcher tells: the paths that may have changed, and the gaps in which more may have. See daemon/watcher.py."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Changes may have been missed; a scan closes it.

    ``cause``: overflow, watch_limit, watch_failed, instance_limit, root_lost, root_returned, unmount, reader_error.
    """

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a barrier found.

    ``complete``: every change the kernel had reported before the call is in the dirty set, and the whole tree was
    watched; else ``cause`` says why only a scan can tell.
    """

    complete: bool
    cause: str = ""


class Told(NamedTuple):
    """What came in since the last take. ``dirty``: paths, each with whether all below it is meant too. ``unentered``:
    directories below which nothing is told; unless the watch has just been attached, each is dirty as well.
    """

    dirty: dict[bytes, bool]
    gaps: tuple[Gap, ...]
    unentered: frozenset[bytes]


class Changes:
    """What changed since the last take, under the lock that the reader holds while it reads."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.dirty: dict[bytes, bool] = {}
        self.untold = False
        self.errors = 0
        self._gaps: dict[Gap, None] = {}
        self._unentered: set[bytes] = set()
        self._gaps_lock = threading.Lock()  # of both; the only one that an attachment in the making needs
        self._on_change = on_change

    def mark(self, path: bytes, *, recursive: bool) -> None:
        self.untold = True
        self.dirty[path] = recursive or self.dirty.get(path, False)

    def gap(self, cause: str) -> None:
        self.untold = True
        with self._gaps_lock:
            self._gaps[Gap(cause=cause)] = None

    def pruned(self, path: bytes) -> None:
        with self._gaps_lock:
            self._unentered.add(path)

    def take(self) -> Told:
        with self.lock, self._gaps_lock:
            told = Told(self.dirty, tuple(self._gaps), frozenset(self._unentered))
            self.dirty, self._gaps, self._unentered = {}, {}, set()
        return told

    def give_back(self, dirty: Mapping[bytes, bool], gaps: Iterable[Gap], unentered: Iterable[bytes]) -> None:
        with self.lock, self._gaps_lock:
            self.dirty |= {path: recursive or self.dirty.get(path, False) for path, recursive in dirty.items()}
            self._gaps = dict.fromkeys((*gaps, *self._gaps))
            self._unentered.update(unentered)

    def tell(self) -> None:
        """Call ``on_change`` if something came in.

        Without the lock, and in the reader's thread only: a caller of barrier may hold a lock that ``on_change`` wants.
        """
        with self.lock:
            untold, self.untold = self.untold, False
        if not untold:
            return
        try:
            self._on_change()
        except Exception:  # the reader's own edge: a listener's fault must not end it
            self.errors += 1
            log.exception("on_change failed")
