"""Which rows of the timeline nothing needs any more, which packs are worth to be written anew. Pure.

A row holds ``[seq, until)``, until the path's next one. It is needed where a kept position lies in that, where it held
within the fine window, and as long as a plan reads the rows between two positions: a rewind for a session asks who
changed a path since, in which order, and what stood there before. The newest row of a path is always needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

FINE_WINDOW_MS = 86_400_000
_DAY_MS = 86_400_000
# a third: less is not worth the copying of the rest
_DEAD_SHARE = 3
# what a delta is expected to take of a version (benchmarks, repack)
_DELTA_SAVES = 0.9
SMALL_PACK_BYTES = 4 << 20
_MOST_SMALL_PACKS = 16
# what a portion leaves free: for rows, for whoever records meanwhile; a fifth more, since what is packed anew may grow
ROOM_BYTES = 4 << 20


class Author(NamedTuple):
    """Who made a row, as far as plans tell one from the other: nobody can ask for less than a turn. ``turns``: the session
    and the window of the turn, of each window.
    """

    certainty: str
    turns: frozenset[tuple[str, int]] = frozenset()
    operation: bool = False

    @property
    def declared(self) -> bool:
        """Whether exactly the windows that it names may have made the row."""
        return self.certainty in ("sure", "likely") and bool(self.turns)


class Row(NamedTuple):
    """A row of one path."""

    seq: int
    is_absent: bool
    author: Author


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What is kept of one worktree: ascending ``positions``; rows that hold beyond ``fine_seq``; for each session the first
    position of a checkpoint that it can be rewound to.
    """

    positions: Sequence[int]
    fine_seq: int
    sessions: Mapping[str, int] = field(default_factory=dict)

    def holds(self, low: int, high: int) -> bool:
        """Whether a kept position lies in ``[low, high)``."""
        found = bisect_left(self.positions, low)
        return found < len(self.positions) and self.positions[found] < high


def fine_seq(sealed: Iterable[tuple[int, int]], now_ms: int) -> int:
    """The newest position that is surely older than the fine window, from ``(seq, created_ms)`` of all checkpoints in the
    order in which they were sealed.
    """
    found = 0
    for seq, created_ms in sealed:
        # in the order of numbers: one that says that it is old, behind one that is young, was sealed by a clock that was
        # set back. One of the future says nothing
        if now_ms - FINE_WINDOW_MS < created_ms <= now_ms + _DAY_MS:
            return found
        if created_ms <= now_ms:
            found = max(found, seq)
    return found


def superfluous(rows: Sequence[Row], needs: Needs, *, is_database: bool) -> list[int]:
    """The positions of the ``rows`` of one path, oldest first, that nothing needs. ``is_database``: it belongs to a database,
    whose files are planned together.
    """
    first = needs.positions[0] if needs.positions else 0
    since = _compared_since(rows, needs, is_database=is_database)
    newer = [stretch for stretch in _absences(rows) if needs.holds(*stretch)]
    # up to an operation each row may be the one that it brought back, where a plan asks whose that was
    asked = newer or since < float("inf")
    last_operation = max((row.seq for row in rows if row.author.operation), default=0) if asked else 0
    undeclared = _last_undeclared(rows, needs)
    gone = []
    for row, after in pairwise(rows):
        if after.seq > needs.fine_seq:
            break
        if needs.holds(row.seq, after.seq) or first < row.seq <= last_operation or row.seq == undeclared:
            continue
        # changes in a row by the same hand are one change to a plan
        if row.seq > since and (is_database or row.author != after.author):
            continue
        gone.append(row.seq)
    return gone


def _compared_since(rows: Sequence[Row], needs: Needs, *, is_database: bool) -> float:
    """From which position on a rewind for a session may compare the rows of the path with each other."""
    if is_database:
        return min(needs.sessions.values(), default=float("inf"))
    found = float("inf")
    for row in rows:
        for session, _ in row.author.turns:
            if row.seq > (begins := needs.sessions.get(session, row.seq)):
                found = min(found, begins)
    return found


def _last_undeclared(rows: Sequence[Row], needs: Needs) -> int | None:
    """The last row that nobody declared, where the path is newer than a kept position: it is why a rewind lets it stand."""
    seq = next((row.seq for row in reversed(rows) if not row.author.declared), None)
    if seq is None:
        return None
    return seq if any(needs.holds(low, min(high, seq)) for low, high in _absences(rows)) else None


def _absences(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Where the path was not there, as ``[seq, until)``; not that of its newest row."""
    return [(0, rows[0].seq), *((row.seq, after.seq) for row, after in pairwise(rows) if row.is_absent)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackUse:
    """A pack: how long its file is, what of it contents take that rows name, and what of that older versions take which no
    repack has compared with their newest one.
    """

    number: int
    size_bytes: int
    live_bytes: int
    versions_bytes: int = 0

    @property
    def dead_bytes(self) -> int:
        """What nothing names."""
        return max(0, self.size_bytes - self.live_bytes)

    @property
    def freed_bytes(self) -> int:
        """What it gives back if it is written anew, about."""
        return self.dead_bytes + int(self.versions_bytes * _DELTA_SAVES)


def worth_repacking(packs: Iterable[PackUse]) -> list[PackUse]:
    """Those that give back more than a third of themselves, and the small ones where there are many; in number order."""
    known = sorted(packs, key=lambda pack: pack.number)
    small = [pack for pack in known if pack.size_bytes < SMALL_PACK_BYTES]
    merged: Collection[PackUse] = small if len(small) >= _MOST_SMALL_PACKS else ()
    return [pack for pack in known if pack.freed_bytes * _DEAD_SHARE > pack.size_bytes or pack in merged]


class Room(NamedTuple):
    """The room on the disk: how many bytes are ``free`` now, how many somebody would give up (``kept``), and what makes him do
    so, which tells whether he did.
    """

    free: Callable[[], int]
    kept: Callable[[], int] = int  # 0
    take: Callable[[], bool] = bool  # False


def portions(packs: Sequence[PackUse], most_bytes: int, room: Room) -> Iterator[list[PackUse]]:
    """Those of ``packs`` that are written anew together, as long as the ``room`` holds what that writes: asked again before
    each portion, since what was moved has gone by then. At most about ``most_bytes`` are written at once. What is kept is
    taken where nothing fits without it, and something does with it.
    """
    left = [*packs]
    while left:
        free = room.free()
        found = _fitting(left, _writable(most_bytes, free))
        if not found and _fitting(left, _writable(most_bytes, free + room.kept())) and room.take():
            found = _fitting(left, _writable(most_bytes, room.free()))
        if not found:
            return
        yield found
        left = [pack for pack in left if pack not in found]


def _writable(most_bytes: int, room_bytes: int) -> int:
    return max(0, min(most_bytes, (room_bytes - ROOM_BYTES) * 4 // 5))


def room_for(live_bytes: int) -> int:
    """How much has to be free for a pack with so much in it to be written anew."""
    return ROOM_BYTES + -(-live_bytes * 5 // 4) if live_bytes else 0


def _fitting(packs: Iterable[PackUse], most_bytes: int) -> list[PackUse]:
    found, size = [], 0
    for pack in packs:
        if size + pack.live_bytes <= most_bytes:
            found.append(pack)
            size += pack.live_bytes
    return found
