"""The past of paths as positions on the timeline: versions of one, what vanished, and which checkpoint holds what.

Nothing here is recorded again or changed. A row has no time of its own: it was recorded by the time at which the first
checkpoint at or after it was sealed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from openoxide.checkpoints.model import FileState, Kind
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.rows import raw, states_at, versions_at
from openoxide.db import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """What history tells of a checkpoint; one that failed or is in trash is not ``kept``."""

    seq: int
    number: int
    id: str
    name: str | None
    created_at_ms: int
    session: str | None
    kept: bool


class Positions:
    """The checkpoints of a worktree by position, in the order in which they were sealed."""

    def __init__(self, sealed: Sequence[Position]) -> None:
        self._sealed = sealed
        self._kept = [position for position in sealed if position.kept]
        # positions never fall from one number to the next, which is what bisect rests on
        self._seqs = [position.seq for position in sealed]
        self._kept_seqs = [position.seq for position in self._kept]

    def recorded_by(self, seq: int) -> int | None:
        """When the row ``seq`` had been recorded, None while nothing was sealed since; milliseconds since the epoch."""
        found = bisect_left(self._seqs, seq)
        return self._sealed[found].created_at_ms if found < len(self._sealed) else None

    def first(self, seq: int, until: int | None) -> Position | None:
        """The first kept checkpoint at which a row from ``seq`` up to ``until`` (None: still) holds."""
        found = bisect_left(self._kept_seqs, seq)
        return self._kept[found] if found < self._end(until) else None

    def last(self, seq: int, until: int | None) -> Position | None:
        """As :meth:`first`, the last one."""
        found = self._end(until) - 1
        return self._kept[found] if found >= bisect_left(self._kept_seqs, seq) else None

    def _end(self, until: int | None) -> int:
        return len(self._kept) if until is None else bisect_left(self._kept_seqs, until)


def read_positions(db: Transaction, worktree: int) -> Positions:
    """Every checkpoint of ``worktree``."""
    query = (
        "select seq, number, public_id, name, created_ms, session, failed is null and forgotten_ms is null"
        " from checkpoint where worktree = ? order by number"
    )
    sealed = [
        Position(seq=seq, number=number, id=public_id, name=name, created_at_ms=ms, session=session, kept=bool(kept))
        for seq, number, public_id, name, ms, session, kept in raw(db).execute(query, (worktree,))
    ]
    return Positions(sealed)


def version_seqs(db: Transaction, worktree: int, path: bytes, below: int | None, limit: int | None) -> list[int]:
    """The positions of the rows of ``path``, newest first; ``below`` continues a listing under a position."""
    query = """
      select v.seq from version v join path p on p.id = v.path
      where p.worktree = ? and p.path = ? and v.seq < ? order by v.seq desc limit ?
    """
    # a negative limit is none (SQLite, select)
    found = raw(db).execute(query, (worktree, path, _below(below), -1 if limit is None else limit))
    return [row[0] for row in found]


def newest_seqs(db: Transaction, worktree: int, below: int | None, limit: int) -> list[int]:
    """The positions of the rows of everything but directories, newest first; ``below`` continues a listing."""
    # a directory that went is told by what was in it
    query = """
      select v.seq from version v where v.worktree = ? and v.seq < ? and v.kind <> 3
        and (v.kind <> 0 or (select o.kind from version o where o.path = v.path and o.seq < v.seq
                             order by o.seq desc limit 1) is not 3)
      order by v.seq desc limit ?
    """
    return [row[0] for row in raw(db).execute(query, (worktree, _below(below), limit))]


def last_holding(db: Transaction, worktree: int, path: bytes, positions: Positions | None = None) -> Position | None:
    """The last kept checkpoint in which ``path`` stands, in whatever version. ``positions``: all of them, if read already."""
    query = """
      select v.seq, v.kind between 1 and 4 from version v join path p on p.id = v.path
      where p.worktree = ? and p.path = ? order by v.seq desc
    """
    positions, until = positions or read_positions(db, worktree), None
    # row by row: left at the first one that a checkpoint holds
    for seq, stands in raw(db).execute(query, (worktree, path)):
        if stands and (found := positions.last(seq, until)):
            return found
        until = seq
    return None


def left_out(db: Transaction, worktree: int, path: bytes, seq: int | None = None) -> tuple[bytes, FileState] | None:
    """The outermost of ``path`` and the folders above it that was left out at ``seq`` (None: at any time), and its state,
    which has the reason.
    """
    parts = path.split(b"/")
    for upto in (b"/".join(parts[:end]) for end in range(1, len(parts) + 1)):
        if seq is None:
            versions = versions_at(db, worktree, version_seqs(db, worktree, upto, None, None))
            states = [versions[at].state for at in sorted(versions, reverse=True)]
        else:
            states = list(states_at(db, worktree, seq, [upto]).values())
        for state in states:
            if state.kind is Kind.SKIPPED:
                return upto, state
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """A path that is gone: the position of its last recorded state, the one up to which that holds, and the one from
    which on nothing stands there.
    """

    path: bytes
    seq: int
    until_seq: int
    gone_seq: int


def vanished(
    db: Transaction, worktree: int, chosen: Collection[bytes], below: int | None, limit: int | None
) -> list[Vanished]:
    """What of ``chosen`` (empty: everything) stood there and is gone, last gone first; ``below`` continues a listing. Of what
    was recorded, the last state that was; of what never was, that it was left out.
    """
    # l.kind = 0 below: what a rule took out of sight (SKIPPED) is not gone
    # a row with a trailing slash counts what found no room in an ignored directory: it is no path
    before = "(select max(v.seq) from version v where v.path = p.id and v.seq < l.seq and v.kind {kind})"
    last = f"coalesce({before.format(kind='between 1 and 4')}, {before.format(kind='= 5')})"
    query = f"""
      select path, gone, last, (select min(v.seq) from version v where v.path = id and v.seq > last) from (
        select p.id, p.path, l.seq as gone, {last} as last from path p join live l on l.path = p.id
        where p.worktree = ? and l.kind = 0 and l.seq < ? and substr(p.path, -1) <> x'2f')
      where last is not null order by gone desc
    """  # noqa: S608 nothing in it is given
    found: list[Vanished] = []
    for path, gone_seq, seq, until_seq in raw(db).execute(query, (worktree, _below(below))):
        # counted here and not in the query, which does not know what was chosen
        if len(found) == limit:
            break
        if within_paths(path, chosen):
            found.append(Vanished(path=path, seq=seq, until_seq=until_seq, gone_seq=gone_seq))
    return found


def _below(seq: int | None) -> int:
    # above every position, and inside SQLite's signed 64 bits
    return (1 << 62) if seq is None else seq
