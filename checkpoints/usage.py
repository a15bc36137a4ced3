"""What the store holds, counted in rows. A blob's stored size is its part of the compressed frame that it lies in.

Each statement has a snapshot of its own: what is counted while others record is right to within that.
"""

from __future__ import annotations

from dataclasses import dataclass

from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

# what a prune will go by: within a day every row is needed, before it what a kept checkpoint or an operation holds
FINE_WINDOW_MS = 86_400_000
# as real, since integers divide to integers; nullif, since a frame of empty files alone has no raw bytes
_STORED = "coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0)"
_BLOBS = "join blob b on b.id = u.blob join frame f on f.id = b.frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one worktree's history takes: raw, stored, and what of the stored no other worktree names."""

    history_bytes: int = 0
    stored_bytes: int = 0
    unique_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was stored for the first time on one day (UTC, ``2026-11-29``)."""

    day: str
    contents: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathUsage:
    """What all contents that a path ever had take."""

    path: bytes
    contents: int
    stored_bytes: int


def shares(db: Transaction) -> dict[int, Share]:
    """Each worktree that holds contents."""
    query = f"""
      with used as (select distinct worktree, blob from version where blob is not null),
        alone as (select blob from used group by blob having count(*) = 1)
      select u.worktree, sum(b.size), sum({_STORED}), sum({_STORED} * (a.blob is not null))
      from used u {_BLOBS} left join alone a on a.blob = u.blob group by u.worktree
    """  # noqa: S608 as everywhere here: nothing in it is given
    return {
        worktree: Share(history_bytes=size, stored_bytes=round(stored), unique_bytes=round(alone))
        for worktree, size, stored, alone in raw(db).execute(query)
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


def largest_paths(db: Transaction, worktree: int, limit: int) -> list[PathUsage]:
    """The paths whose contents take most, largest first."""
    query = f"""
      select p.path, count(*), sum({_STORED}) as stored
      from (select distinct path, blob from version where worktree = ? and blob is not null) u {_BLOBS}
      join path p on p.id = u.path group by u.path order by stored desc, p.path limit ?
    """  # noqa: S608
    return [
        PathUsage(path=path, contents=contents, stored_bytes=round(stored))
        for path, contents, stored in raw(db).execute(query, (worktree, limit))
    ]


def freeable_bytes(db: Transaction, now_ms: int) -> int:
    """What is stored and not needed: no row that names it is a path's newest, holds at a kept checkpoint or at one of an
    operation, or held within the fine window.
    """
    query = f"""
      with fine as (select worktree, max(seq) as seq from checkpoint where created_ms <= ? group by worktree),
        held as (
          select worktree, seq, blob, lead(seq) over (partition by path order by seq) as until from version),
        needed as (
          select r.blob from held r left join fine on fine.worktree = r.worktree
          where r.blob is not null and (r.until is null or r.until > coalesce(fine.seq, 0) or exists (
            select 1 from checkpoint c where c.worktree = r.worktree and c.seq >= r.seq and c.seq < r.until
              and (c.failed is null and c.forgotten_ms is null or c.id in (
                select before from operation union select after from operation))))
          union select blob from live where blob is not null
          union select blob from outcome where blob is not null)
      select coalesce(sum({_STORED}), 0) from (select id as blob from blob where id not in (select blob from needed)) u
      {_BLOBS}
    """  # noqa: S608
    (found,) = raw(db).execute(query, (now_ms - FINE_WINDOW_MS,)).fetchone()
    return int(found)
