"""Which files change so much that they are not recorded each time by itself. A budget for each, in memory only: what a
restart forgets is a few versions more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from openoxide.checkpoints.model import sqlite_base

HOUR_MS: Final = 3_600_000
VERSIONS: Final = 120  # as many as there are, at most, where somebody saves all the time (capture.max_interval_ms)
BYTES: Final = 256 << 20
APART_MS: Final = 600_000
LEFT_ALONE_MS: Final = 60_000
_MANY: Final = 8_192


class Spent(NamedTuple):
    """What a file has had since ``since_ms``: versions, their bytes, and when the last one was taken."""

    since_ms: int
    versions: int
    size_bytes: int
    last_ms: int


def is_over(spent: Spent | None, now_ms: int, changed_ms: int) -> bool:
    """Whether a file that last changed at ``changed_ms`` is to wait. Pure.

    An hour's budget is VERSIONS or BYTES. Beyond it a file is taken once it was left alone, and every ten minutes else. A
    clock that was set back lets everything pass.
    """
    if spent is None or not 0 <= now_ms - spent.since_ms < HOUR_MS:
        return False
    over = spent.versions >= VERSIONS or spent.size_bytes >= BYTES
    return over and now_ms - changed_ms < LEFT_ALONE_MS and now_ms - spent.last_ms < APART_MS


def after(spent: Spent | None, now_ms: int, size_bytes: int) -> Spent:
    """What was spent, with ``size_bytes`` more; what is taken at one moment is one version. Pure."""
    if spent is None or not 0 <= now_ms - spent.since_ms < HOUR_MS:
        return Spent(now_ms, 1, size_bytes, now_ms)
    same = spent.last_ms == now_ms
    return Spent(spent.since_ms, spent.versions + (not same), spent.size_bytes + size_bytes, now_ms)


class Budgets:
    """What each file of a worktree has had. A database and its side files are one."""

    def __init__(self) -> None:
        self._spent: dict[bytes, Spent] = {}

    def turn(self, now_ms: int) -> Turn:
        """The decisions of one capture."""
        if len(self._spent) > _MANY:  # of those that changed once, most never do so again
            self._spent = {path: spent for path, spent in self._spent.items() if spent.versions > 1 and
                           now_ms - spent.since_ms < HOUR_MS}  # fmt: skip
        return Turn(self._spent, now_ms)


class Turn:
    """One capture's decisions: a file, or a database with its side files, is taken or not as a whole."""

    def __init__(self, spent: dict[bytes, Spent], now_ms: int) -> None:
        self._spent = spent
        self._now_ms = now_ms
        self._held: dict[bytes, bool] = {}

    def holds(self, path: bytes, size_bytes: int, changed_ns: int) -> bool:
        """Whether ``path``, which differs from what is recorded, is to wait; if not, it has spent ``size_bytes``."""
        unit = sqlite_base(path) or path
        before = self._spent.get(unit)
        if unit not in self._held:
            self._held[unit] = is_over(before, self._now_ms, changed_ns // 1_000_000)
        if not self._held[unit]:
            self._spent[unit] = after(before, self._now_ms, size_bytes)
        return self._held[unit]
