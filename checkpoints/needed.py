"""What a prune reads and deletes, in SQL. Reads hold no snapshot longer than one statement takes; each function that deletes
is for one short transaction, and takes only what is still not needed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from openoxide.checkpoints import journal, stored
from openoxide.checkpoints.clockmark import counted_from
from openoxide.checkpoints.frames import Place
from openoxide.checkpoints.model import MEMORY, Certainty, Kind, sqlite_base
from openoxide.checkpoints.prunable import Author, Needs, Row, fine_seq
from openoxide.checkpoints.rows import SQLITE, batched, raw
from openoxide.db import Transaction

_PAGE_PATHS = 200
_UNKNOWN = Author(Certainty.UNKNOWN.value)
LEAST_DELTA_BYTES = 4 << 10
"""Smaller ones find their like in the frame that they share with their neighbours."""

_OPERATIONS = "select before from operation union select after from operation union select target from operation"
# what has to hold still: a window that is open may claim what was recorded since it began, an operation that is not settled
# compares what was recorded since its beginning
_SINCE = f"""
select min(seq) from (
  select min(began_seq) as seq from window where worktree = ?1 and ended_seq is null
  union all select min(c.seq) from operation o join checkpoint c on c.id = o.before
  where o.worktree = ?1 and o.phase in ({",".join(f"'{phase.value}'" for phase in journal.OPEN_PHASES)}))
"""  # noqa: S608 as everywhere here: nothing in it is given
_VERSIONED = f"""
select path from version where path > ? group by path having count(*) > 1 order by path limit {_PAGE_PATHS}
"""  # noqa: S608
_ROWS = """
select v.path, v.worktree, p.path, v.seq, v.kind, v.flags, coalesce(c.writer, v.writer)
from version v join path p on p.id = v.path left join claim c on c.path = v.path and c.seq = v.seq
where v.path in ({}) order by v.path, v.seq
"""
_REFERENCED = """
select blob from version where blob is not null union select blob from live where blob is not null
union select blob from outcome where blob is not null
"""


class Path(NamedTuple):
    """A path with more than one row, oldest first."""

    id: int
    worktree: int
    is_database: bool
    rows: list[Row]


def read_needs(db: Transaction, worktree: int, now_ms: int, given_up: int = 0, *, without_trash: bool = False) -> Needs:
    """What is kept of one worktree: every checkpoint that was sealed, in trash or not, and what operations name. Up to
    ``given_up`` nothing is kept for the fine window. ``without_trash``: what is in there is not kept.
    """
    connection = raw(db)
    kept = "failed is null and forgotten_ms is null" if without_trash else "failed is null"
    query = f"select distinct seq from checkpoint where worktree = ? and ({kept} or id in ({_OPERATIONS})) order by seq"  # noqa: S608
    positions = [row[0] for row in connection.execute(query, (worktree,))]
    sessions = connection.execute(
        f"select session, min(seq) from checkpoint where worktree = ? and {kept} and session is not null group by session",  # noqa: S608
        (worktree,),
    )
    fine, _ = fine_bounds(db, worktree, now_ms, given_up)
    return Needs(positions=positions, fine_seq=fine, sessions=dict(sessions))


def fine_bounds(db: Transaction, worktree: int, now_ms: int, given_up: int = 0) -> tuple[int, int]:
    """Up to which position nothing is kept for the fine window, and up to which it may be given up."""
    memory = raw(db).execute("select 1 from worktree where id = ? and kind = ?", (worktree, MEMORY)).fetchone()
    if memory:  # every version is kept: what was noted and by whom is what a memory is for
        return 0, 0
    # what a wrong clock sealed says nothing: one that was ahead would be young again on the day that it took for today
    counted = counted_from(db)
    sealed = [
        (seq, created_ms)
        for public_id, seq, created_ms in raw(db).execute(
            "select public_id, seq, created_ms from checkpoint where worktree = ? and failed is null order by number",
            (worktree,),
        )
        if public_id not in counted
    ]
    (since,) = raw(db).execute(_SINCE, (worktree,)).fetchone()
    query = "select coalesce(max(seq), 0) from checkpoint where worktree = ? and failed is null"
    (newest,) = raw(db).execute(query, (worktree,)).fetchone()
    found = max(fine_seq(sealed, now_ms), given_up), newest
    return found if since is None else (min(found[0], since), min(found[1], since))


class Authors:
    """Who made which rows, each writer read once."""

    def __init__(self) -> None:
        self._known: dict[int, Author] = {}

    def read(self, db: Transaction, writers: Iterable[int | None]) -> Mapping[int, Author]:
        """At least these ``writers``, by row id."""
        missing = [writer for writer in {*writers} if writer is not None and writer not in self._known]
        turns: dict[int, set[tuple[str, int]]] = {}
        query = """
          select x.writer, w.session, coalesce(w.parent, w.id) from writer_window x join window w on w.id = x.window
          where x.writer in ({})
        """
        for writer, session, turn in batched(db, query, (), missing):
            turns.setdefault(writer, set()).add((session, turn))
        query = "select id, certainty, operation is not null from writer where id in ({})"
        for writer, certainty, operation in batched(db, query, (), missing):
            self._known[writer] = Author(certainty, frozenset(turns.get(writer, ())), bool(operation))
        return self._known


def paths_after(db: Transaction, path: int, authors: Authors) -> list[Path]:
    """The next paths behind this row id that have more than one row."""
    ids = [row[0] for row in raw(db).execute(_VERSIONED, (path,))]
    found = [*batched(db, _ROWS, (), ids)]
    known = authors.read(db, {row[6] for row in found})
    return [_path(number, [*rows], known) for number, rows in groupby(found, key=lambda row: row[0])]


def _path(
    number: int, rows: Sequence[tuple[int, int, bytes, int, int, int, int | None]], known: Mapping[int, Author]
) -> Path:
    return Path(
        id=number,
        worktree=rows[0][1],
        is_database=sqlite_base(rows[0][2]) is not None or any(row[5] & SQLITE for row in rows),
        rows=[Row(row[3], row[4] == Kind.ABSENT, known.get(row[6] or 0, _UNKNOWN)) for row in rows],
    )


def delete_rows(db: Transaction, gone: Sequence[tuple[int, int]]) -> int:
    """Delete these rows ``(path id, seq)`` with what was claimed of them, never a path's newest one; how many they were."""
    connection = raw(db)
    before = connection.total_changes
    connection.executemany(
        "delete from version where path = ?1 and seq = ?2 and seq < (select seq from live where path = ?1)", gone
    )
    deleted = connection.total_changes - before
    connection.executemany("delete from claim where path = ? and seq = ?", gone)
    return deleted


def unused_writers(db: Transaction) -> list[int]:
    """Writers that no version and no claim names; none of them will be named again."""
    query = """
      select id from writer where id not in (
        select writer from version where writer is not null union select writer from claim)
    """
    return [row[0] for row in raw(db).execute(query)]


def delete_writers(db: Transaction, writers: Sequence[int]) -> None:
    """Delete writers that nothing names."""
    for table, column in (("writer_window", "writer"), ("writer", "id")):
        raw(db).executemany(f"delete from {table} where {column} = ?", [(writer,) for writer in writers])  # noqa: S608


def unused_paths(db: Transaction) -> list[int]:
    """Paths without any row."""
    query = "select id from path where not exists (select 1 from version where version.path = path.id)"
    return [row[0] for row in raw(db).execute(query)]


def delete_paths(db: Transaction, paths: Sequence[int]) -> None:
    """Delete those of ``paths`` that still have no row."""
    query = """
      delete from path where id = ?1 and not exists (select 1 from version where path = ?1)
        and not exists (select 1 from live where path = ?1)
    """
    raw(db).executemany(query, [(path,) for path in paths])


def unmarked_contents(db: Transaction) -> list[int]:
    """Contents that nothing names, and that have no tombstone yet."""
    query = f"select id from blob where dead_ms is null and id not in ({_REFERENCED})"  # noqa: S608
    return [*_less_steps(db, (row[0] for row in raw(db).execute(query)))]


def marked_contents(db: Transaction) -> tuple[list[int], list[int]]:
    """``(what nothing names, what is named all the same)`` of all that have a tombstone."""
    marked = [row[0] for row in raw(db).execute("select id from blob where dead_ms is not null")]
    query = f"select id from blob where dead_ms is not null and id not in ({_REFERENCED})"  # noqa: S608
    dead = [*_less_steps(db, (row[0] for row in raw(db).execute(query)))]
    return dead, sorted({*marked}.difference(dead))


def _less_steps(db: Transaction, blobs: Iterable[int]) -> Iterator[int]:
    """Those that no journal names either: its steps do it by the hash, in a text."""
    operations = [row[0] for row in raw(db).execute("select distinct operation from step")]
    steps = [step for operation in operations for step in journal.steps(db, operation)]
    names = {state.blob for step in steps for state in (step.old, step.new) if state.blob is not None}
    needed = {row[0] for row in batched(db, "select id from blob where hash in ({})", (), [*names])}
    return (blob for blob in blobs if blob not in needed)


def mark_contents(db: Transaction, blobs: Sequence[int], now_ms: int | None) -> None:
    """Set the tombstones of contents that nothing names, or take them away (None)."""
    where = "dead_ms is null" if now_ms is not None else "true"
    raw(db).executemany(f"update blob set dead_ms = ? where id = ? and {where}", [(now_ms, blob) for blob in blobs])  # noqa: S608


def delete_contents(db: Transaction, blobs: Sequence[int]) -> int:
    """Delete the rows of contents that still have a tombstone: who names one takes it away. How many they were."""
    connection = raw(db)
    query = "select id, frame from blob where dead_ms is not null and id in ({})"
    found = [*batched(db, query, (), blobs)]
    connection.executemany("delete from blob where id = ?", [(blob,) for blob, _ in found])
    stored.delete_empty_frames(db, sorted({frame for _, frame in found}))
    return len(found)


def contents_of_rows(db: Transaction, after: tuple[int, int], limit: int) -> list[tuple[int, int, int, bool]]:
    """``(path id, seq, blob id, whether it is not the path's newest)`` of the next rows with content behind this one."""
    query = """
      select v.path, v.seq, v.blob, v.seq < l.seq from version v join live l on l.path = v.path
      where (v.path, v.seq) > (?, ?) and v.blob is not null order by v.path, v.seq limit ?
    """
    return raw(db).execute(query, (*after, limit)).fetchall()


class ContentUse(NamedTuple):
    """What a content takes of its frame's payload, and where that is. ``settled``: a repack has compared it already."""

    blob: int
    size: int
    stored_bytes: float
    settled: bool
    place: Place


def content_uses(db: Transaction, after: int, limit: int) -> list[ContentUse]:
    """The next contents behind this row id."""
    query = """
      select b.id, b.size, coalesce(f.stored * 1.0 * b.size / nullif(f.raw, 0), 0), f.settled,
        f.pack, f.offset, f.stored, f.raw, f.codec
      from blob b join frame f on f.id = b.frame where b.id > ? order by b.id limit ?
    """
    return [
        ContentUse(blob, size, stored_bytes, bool(settled), Place(*place))
        for blob, size, stored_bytes, settled, *place in raw(db).execute(query, (after, limit))
    ]


def named_elsewhere(db: Transaction) -> set[int]:
    """Contents that live rows, outcomes and journals name."""
    query = "select blob from live where blob is not null union select blob from outcome where blob is not null"
    every = [row[0] for row in raw(db).execute("select id from blob")]
    return {row[0] for row in raw(db).execute(query)} | {*every}.difference(_less_steps(db, every))
