"""Whether a limit of the store holds still, without measuring anew what every content is needed for.

What a project needs grows only by what is recorded, so what was needed once, and all that was recorded since, is never too
little. Each hour something is measured only where that does not suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from openoxide.checkpoints.policy import DAY_MS, Cause, Limit, Tree
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

STORED = "coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0)"
"""What the blob ``b`` takes of its frame ``f``."""
_SINCE = f"""
select coalesce(sum({STORED}), 0) from (
  select blob from version where worktree = ?1 and seq > ?2 and blob is not null
  union select u.blob from outcome u join operation o on o.id = u.operation
  where o.worktree = ?1 and u.id > ?3 and u.blob is not null) new
join blob b on b.id = new.blob join frame f on f.id = b.frame
"""  # noqa: S608 nothing in it is given
_OUTCOME = "select coalesce(max(id), 0) from outcome"
_SEQS = "select worktree.id, (select max(seq) from version where version.worktree = worktree.id) from worktree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far everything was recorded: by worktree, and the last outcome."""

    seqs: Mapping[int, int] = field(default_factory=dict)
    outcome: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What was ``needed`` (policy.Plan) when it was measured last, and up to which position. One for a daemon's life."""

    needed: Mapping[str | None, int] = field(default_factory=dict)
    upto: Position = Position()
    at_ms: int = 0

    def exceeded(self, db: Transaction, limits: Iterable[Limit], trees: Mapping[int, Tree], now_ms: int) -> list[Limit]:
        """Those of ``limits`` of which it is not sure that they hold."""
        # packs that are written anew move a few bytes from one content to another: once a day they are told
        if not 0 <= now_ms - self.at_ms < DAY_MS:
            return [*limits]
        most = Counter[str | None](self.needed)
        for worktree, tree in trees.items():
            since = raw(db).execute(_SINCE, (worktree, self.upto.seqs.get(worktree, 0), self.upto.outcome)).fetchone()
            most[tree.project] += since[0]
            most[None] += since[0]
        return [limit for limit in limits if limit.cause is Cause.MIN_FREE or most[limit.project] > limit.most_bytes]


def position(db: Transaction) -> Position:
    """How far everything is recorded."""
    (outcome,) = raw(db).execute(_OUTCOME).fetchone()
    return Position(seqs={worktree: seq or 0 for worktree, seq in raw(db).execute(_SEQS)}, outcome=outcome)
