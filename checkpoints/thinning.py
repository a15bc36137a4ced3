"""When thinning takes checkpoints, as lists and ``status`` tell it: read a day at a time, since no other day has a say."""

from __future__ import annotations

from collections.abc import Iterable

from openoxide.checkpoints.expiry import candidates, needed
from openoxide.checkpoints.model import AUTOMATIC
from openoxide.checkpoints.policy import DAY_MS, thinned_at
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction
from openoxide.settings import ThinSettings

_TRIGGERS = ",".join(f"'{trigger.value}'" for trigger in sorted(AUTOMATIC))
_AUTOMATIC = f"forgotten_ms is null and name is null and pinned = 0 and trigger in ({_TRIGGERS})"
_OF_A_DAY = f"worktree = ? and created_ms >= ? and created_ms < ? and {_AUTOMATIC}"
_NEXT = (
    f"select min(created_ms) from checkpoint where worktree = ? and created_ms >= ? and failed is null and {_AUTOMATIC}"  # noqa: S608 nothing in it is given
)
_NEWEST = """
select public_id from checkpoint where worktree = ? and failed is null and forgotten_ms is null
order by number desc limit 1
"""


def thins_at(db: Transaction, worktree: int, thin: ThinSettings, created_ms: Iterable[int]) -> dict[str, int]:
    """When thinning takes kept checkpoints of a worktree, by id; at least of those that were sealed at these times. It
    passes those that are not in there.
    """
    stay = _stay(db, worktree)
    found: dict[str, int] = {}
    for day in sorted({ms // DAY_MS for ms in created_ms}):
        found |= _of_day(db, worktree, thin, day)
    return {id_: ms for id_, ms in found.items() if id_ not in stay}


def next_thinning(db: Transaction, worktree: int, thin: ThinSettings) -> int | None:
    """When thinning takes the first one of a worktree."""
    stay, day = _stay(db, worktree), 0
    first: int | None = None
    while (created_ms := raw(db).execute(_NEXT, (worktree, day * DAY_MS)).fetchone()[0]) is not None:
        # none of that day or a later one goes before the first of them is as old as that
        if first is not None and first <= created_ms + thin.all_days * DAY_MS:
            break
        going = [ms for id_, ms in _of_day(db, worktree, thin, created_ms // DAY_MS).items() if id_ not in stay]
        first = min(going if first is None else [first, *going], default=None)
        day = created_ms // DAY_MS + 1
    return first


def _of_day(db: Transaction, worktree: int, thin: ThinSettings, day: int) -> dict[str, int]:
    # what counts from another time than its sealing is passed by thinning, so the day of the sealing is the one that counts
    return thinned_at(candidates(db, _OF_A_DAY, (worktree, day * DAY_MS, (day + 1) * DAY_MS)), thin)


def _stay(db: Transaction, worktree: int) -> set[str]:
    """What of the floor thinning would take: pins and the starts of turns it passes anyway."""
    newest = raw(db).execute(_NEWEST, (worktree,)).fetchone()
    return needed(db, worktree) | ({newest[0]} if newest else set())
