"""What the store holds, counted in rows. A blob's stored size is its part of the compressed frame that it lies in.

Each statement has a snapshot of its own: what is counted while others record is right to within that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

# what a prune will go by: within a day every row is needed, before it what a kept checkpoint or an operation holds
FINE_WINDOW_MS = 86_400_000
LONGEST_SUFFIX = 12
# as real, since integers divide to integers; nullif, since a frame of empty files alone has no raw bytes
_STORED = "coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0)"
_BLOBS = "join blob b on b.id = u.blob join frame f on f.id = b.frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a history takes: every version as if it were a copy of its own (``recorded``), each content once (``history``),
    stored, and what of the stored no other worktree names.
    """

    recorded_bytes: int = 0
    history_bytes: int = 0
    stored_bytes: int = 0
    unique_bytes: int = 0

    @property
    def dedup_ratio(self) -> float | None:
        """How many times a content stands in the history, by bytes; None where there are none."""
        return round(self.recorded_bytes / self.history_bytes, 2) if self.history_bytes else None

    @property
    def compression_ratio(self) -> float | None:
        """How many times smaller the contents are than they were; None where there are none."""
        return round(self.history_bytes / self.stored_bytes, 2) if self.stored_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was stored for the first time on one day (UTC, ``2026-11-29``)."""

    day: str
    contents: int
    stored_bytes: int


class PathUsage(NamedTuple):  # there may be a million of them
    """What all contents that a path ever had take."""

    path: bytes
    contents: int
    stored_bytes: int


class PatternUsage(NamedTuple):
    """The same of all files below one folder of the root (empty: in the root itself) whose names end in ``suffix``."""

    folder: bytes
    suffix: bytes
    contents: int
    stored_bytes: int


def shares(db: Transaction) -> dict[int, Share]:
    """Each worktree that holds contents."""
    return _shares(db, "v.worktree")


def project_shares(db: Transaction) -> dict[str, Share]:
    """Each project that does, its worktrees together."""
    return _shares(db, "w.project")


def whole_share(db: Transaction) -> Share:
    """All of them together."""
    return _shares(db, "0").get(0, Share())


def _shares(db: Transaction, whose: str) -> dict[Any, Share]:
    query = f"""
      with used as (
          select {whose} as who, v.blob, count(*) as versions from version v join worktree w on w.id = v.worktree
          where v.blob is not null group by who, v.blob),
        alone as (select blob from used group by blob having count(*) = 1)
      select u.who, sum(b.size * u.versions), sum(b.size), sum({_STORED}), sum({_STORED} * (a.blob is not null))
      from used u {_BLOBS} left join alone a on a.blob = u.blob group by u.who
    """  # noqa: S608 as everywhere here: nothing in it is given
    return {
        who: Share(recorded_bytes=recorded, history_bytes=size, stored_bytes=round(stored), unique_bytes=round(alone))
        for who, recorded, size, stored, alone in raw(db).execute(query)
    }


def growth(db: Transaction, worktree: int, now_ms: int) -> list[Growth]:
    """Day by day, oldest first; what was not sealed yet counts as ``now_ms``'s."""
    query = f"""
      select date(ms / 1000, 'unixepoch') as day, count(*), sum({_STORED}) from (
        select blob, coalesce((
          select c.created_ms from checkpoint c where c.worktree = ?1 and c.seq >= first order by c.seq, c.number limit 1
        ), ?2) as ms from (
          select blob, min(seq) as first from version where worktree = ?1 and blob is not null group by blob)
      ) u {_BLOBS} group by day order by day
    """  # noqa: S608
    return [
        Growth(day=day, contents=contents, stored_bytes=round(stored))
        for day, contents, stored in raw(db).execute(query, (worktree, now_ms))
    ]


def by_path(db: Transaction, worktree: int) -> Iterator[PathUsage]:
    """Every path that ever had contents."""
    query = f"""
      select p.path, count(*), sum({_STORED}) as stored
      from (select distinct path, blob from version where worktree = ? and blob is not null) u {_BLOBS}
      join path p on p.id = u.path group by u.path
    """  # noqa: S608
    for path, contents, stored in raw(db).execute(query, (worktree,)):
        yield PathUsage(path, contents, round(stored))


def largest(paths: Iterable[PathUsage], limit: int) -> tuple[list[PathUsage], list[PatternUsage]]:
    """The paths, and the patterns of paths, whose contents take most; largest first. Pure."""
    patterns: dict[tuple[bytes, bytes], tuple[int, int]] = {}

    def rolled_up() -> Iterator[PathUsage]:
        for item in paths:
            contents, stored = patterns.get(pattern := pattern_of(item.path), (0, 0))
            patterns[pattern] = contents + item.contents, stored + item.stored_bytes
            yield item

    most = heapq.nsmallest(limit, rolled_up(), key=lambda item: (-item.stored_bytes, item.path))
    found = (PatternUsage(*pattern, *amounts) for pattern, amounts in patterns.items())
    return most, heapq.nsmallest(limit, found, key=lambda item: (-item.stored_bytes, item[:2]))


def pattern_of(path: bytes) -> tuple[bytes, bytes]:
    """``(folder, suffix)``: ``src/a/b.py`` is ``(src, .py)``, ``.env`` has no suffix. Pure."""
    folder, _, rest = path.partition(b"/")
    if not rest:
        folder, rest = b"", path
    stem, _, suffix = rest.rpartition(b"/")[2].rpartition(b".")
    # what is longer names a file, not a kind of files
    return folder, b"." + suffix if stem and 0 < len(suffix) <= LONGEST_SUFFIX else b""


def big_bytes(db: Transaction) -> int:
    """What the rows name in files of their own."""
    (found,) = raw(db).execute("select coalesce(sum(stored), 0) from frame where pack is null").fetchone()
    return int(found)
