"""The hot rows: paths, versions, blobs. Plain SQL on peewee's connection, 20 times the speed of its models.

``version`` rows are only ever inserted. A state read back here equals the state that was written, field by field.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openoxide.checkpoints.model import (
    ABSENT,
    UNKNOWN_WRITER,
    BlobHash,
    Certainty,
    FileState,
    Kind,
    Version,
    Writer,
)
from openoxide.db import Transaction

# bits of the column flags: as frozen as the schema
TORN, SQLITE = 1, 2
MOST = (1 << 63) - 1  # SQLite's greatest integer
# SQLite before 3.32 takes no more than 999 variables in a statement (SQLite, limits)
_BATCH = 500
_KINDS = tuple(Kind)  # by number; Kind(number) costs ten times as much, for each row
_NUMBERS = tuple(map(int, Kind))  # and back: sqlite3 looks for an adapter of all that is not an int itself

# the bare columns come from the row with the greatest seq: SQLite promises that for a lone max()
_STATE_AT = """
select p.path, max(v.seq), v.kind, v.mode, v.size, v.mtime_ns, b.hash, v.target, v.flags
from path p join version v on v.path = p.id left join blob b on b.id = v.blob
where p.worktree = ? and v.seq <= ? {where} group by p.id
"""
# what was claimed after a version was recorded goes before what was recorded with it
_CLAIM = "left join claim c on c.path = v.path and c.seq = v.seq"
_VERSIONS = f"""
select p.path, v.seq, v.kind, v.mode, v.size, v.mtime_ns, b.hash, v.target, v.flags, coalesce(c.writer, v.writer)
from path p join version v on v.path = p.id {_CLAIM} left join blob b on b.id = v.blob
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a worktree's timeline stands, with running totals over its live states."""

    seq: int = 0
    sum: int = 0
    files: int = 0
    bytes: int = 0
    skipped: int = 0


def raw(db: Transaction) -> sqlite3.Connection:
    """peewee's own connection, inside whatever transaction is open on it."""
    connection: sqlite3.Connection = db.connection()
    return connection


def state_of(
    kind: int, mode: int, size: int, mtime_ns: int, blob: bytes | None, target: bytes | None, flags: int
) -> FileState:
    """A state from its columns."""
    name = BlobHash(blob) if blob is not None else None
    return FileState(_KINDS[kind], mode, size, mtime_ns, name, target, bool(flags & TORN), bool(flags & SQLITE))


def signed(number: int) -> int:
    """Inode and device numbers are unsigned 64-bit; SQLite's integers are signed."""
    return number - (1 << 64) if number > MOST else number


def from_signed(number: int) -> int:
    """The number that :func:`signed` made ``number`` from."""
    return number + (1 << 64) if number < 0 else number


def prefix_bounds(directory: bytes) -> tuple[bytes, bytes]:
    """Bounds of all paths below ``directory``: from ``d/`` up to, not including, ``d0`` (0 follows the slash)."""
    # a range and not LIKE: % and _ are bytes of names, and the index on (worktree, path) answers a range
    return directory + b"/", directory + b"0"


def path_ids(db: Transaction, worktree: int, paths: Sequence[bytes]) -> dict[bytes, int]:
    """Row ids of ``paths``, made where they do not exist yet. Where the first is new, as in a first capture, all are taken
    for new, and looked up only if that was wrong.
    """
    connection, query = raw(db), "select path, id from path where worktree = ? and path in ({})"
    known: dict[bytes, int] = dict(batched(db, query, (worktree,), paths[:1]))
    if known:
        known.update(batched(db, query, (worktree,), paths[1:]))
    # each once: one chunk may hold a path twice
    missing = dict.fromkeys(path for path in paths if path not in known)
    if not missing:
        return known
    new = {path: number for number, path in enumerate(missing, next_id(db, "path"))}
    before = connection.total_changes
    connection.executemany(
        "insert or ignore into path(id, worktree, path) values(?,?,?)",
        [(number, worktree, path) for path, number in new.items()],
    )
    # an insert that is ignored counts as no change: were there fewer, some paths had a row after all
    if connection.total_changes - before == len(new):
        return known | new
    return known | dict(batched(db, query, (worktree,), [*new]))


def next_id(db: Transaction, table: str) -> int:
    """A row id that no row of ``table`` has, nor any above it."""
    # free until it is used only inside the writer's transaction
    return int(raw(db).execute(f"select coalesce(max(id), 0) + 1 from {table}").fetchone()[0])  # noqa: S608


def batched(db: Transaction, query: str, args: tuple[Any, ...], values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of ``query``, whose ``{}`` stands for a list of ``values``, asked for in statements of bounded length."""
    connection = raw(db)
    for start in range(0, len(values), _BATCH):
        batch = values[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        yield from connection.execute(query.format(marks), (*args, *batch))


def read_head(db: Transaction, worktree: int) -> Head:
    """The worktree's head; all zero before its first recording."""
    row = raw(db).execute("select seq, sum, files, bytes, skipped from head where worktree = ?", (worktree,)).fetchone()
    if row is None:
        return Head()
    return Head(seq=row[0], sum=int.from_bytes(row[1], "little"), files=row[2], bytes=row[3], skipped=row[4])


def write_head(db: Transaction, worktree: int, head: Head) -> None:
    """Replace the worktree's head."""
    values = (worktree, head.seq, head.sum.to_bytes(32, "little"), head.files, head.bytes, head.skipped)
    raw(db).execute(
        "insert or replace into head(worktree, seq, sum, files, bytes, skipped) values(?,?,?,?,?,?)", values
    )


def insert_versions(db: Transaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Append timeline rows ``(path id, seq, worktree, *state_values, writer)``."""
    raw(db).executemany(
        "insert into version(path, seq, worktree, kind, mode, size, mtime_ns, blob, target, flags, writer)"
        " values(?,?,?,?,?,?,?,?,?,?,?)",
        rows,
    )


def state_values(state: FileState, blobs: Mapping[BlobHash, int]) -> tuple[Any, ...]:
    """The columns of a state."""
    kind, mode, size, mtime_ns, blob, target, torn, sqlite = state
    number = blobs[blob] if blob is not None else None
    return (_NUMBERS[kind], mode, size, mtime_ns, number, target, torn * TORN | sqlite * SQLITE)


def changed_paths(db: Transaction, worktree: int, after: int, upto: int) -> list[bytes]:
    """Paths with a row in ``(after, upto]``."""
    rows = raw(db).execute(
        "select distinct p.path from version v join path p on p.id = v.path where v.worktree = ? and v.seq > ? and v.seq <= ?",
        (worktree, after, upto),
    )
    return [row[0] for row in rows]


def state_at(db: Transaction, worktree: int, seq: int) -> dict[bytes, FileState]:
    """Everything that existed or was skipped at ``seq``."""
    rows = raw(db).execute(_STATE_AT.format(where=""), (worktree, seq))
    # not in the query: its where comes before max(seq), and an older row would stand for one that is gone
    return {row[0]: state_of(*row[2:]) for row in rows if row[2] != Kind.ABSENT}


def states_at(db: Transaction, worktree: int, seq: int, paths: Iterable[bytes]) -> dict[bytes, FileState]:
    """The states of ``paths`` at ``seq``; ABSENT where there was none."""
    found = dict.fromkeys(paths, ABSENT)
    query = _STATE_AT.format(where="and p.path in ({})")
    for row in batched(db, query, (worktree, seq), [*found]):
        found[row[0]] = state_of(*row[2:])
    return found


def states_below(db: Transaction, worktree: int, seq: int, directory: bytes) -> dict[bytes, FileState]:
    """As :func:`state_at`, below ``directory`` only."""
    if not directory:
        return state_at(db, worktree, seq)
    query = _STATE_AT.format(where="and p.path >= ? and p.path < ?")
    rows = raw(db).execute(query, (worktree, seq, *prefix_bounds(directory)))
    return {row[0]: state_of(*row[2:]) for row in rows if row[2] != Kind.ABSENT}


def versions_between(
    db: Transaction, worktree: int, paths: Iterable[bytes], after: int, upto: int
) -> dict[bytes, list[Version]]:
    """The rows of each of ``paths`` in ``(after, upto]``, oldest first."""
    query = _VERSIONS + "where p.worktree = ? and v.seq > ? and v.seq <= ? and p.path in ({}) order by p.path, v.seq"
    versions: dict[bytes, list[Version]] = {}
    for version in _read_versions(db, batched(db, query, (worktree, after, upto), [*paths])):
        versions.setdefault(version.path, []).append(version)
    return versions


def versions_at(db: Transaction, worktree: int, seqs: Iterable[int]) -> dict[int, Version]:
    """The rows at these positions."""
    found = batched(db, _VERSIONS + "where v.worktree = ? and v.seq in ({})", (worktree,), [*seqs])
    return {version.seq: version for version in _read_versions(db, found)}


def _read_versions(db: Transaction, found: Iterable[tuple[Any, ...]]) -> list[Version]:
    rows = list(found)
    writers = read_writers(db, {row[9] for row in rows if row[9] is not None})
    return [
        Version(path=row[0], seq=row[1], state=state_of(*row[2:9]), writer=writers.get(row[9], UNKNOWN_WRITER))
        for row in rows
    ]


def insert_writer(db: Transaction, writer: Writer) -> int | None:
    """The row id for ``writer``; None for the unknown writer, which has no row."""
    if writer.certainty is Certainty.UNKNOWN:
        return None
    connection = raw(db)
    new = connection.execute(
        "insert into writer(certainty, operation) values(?, ?)", (writer.certainty.value, writer.operation)
    ).lastrowid
    connection.executemany(
        "insert into writer_window(writer, window) values(?, ?)", [(new, w) for w in sorted(writer.windows)]
    )
    return new


def insert_claims(db: Transaction, worktree: int, versions: Sequence[Version], writer: Writer) -> None:
    """``writer`` made these versions, whoever they were recorded with. One that is claimed already stays as it is."""
    if versions:
        number = insert_writer(db, writer)
        raw(db).executemany(
            "insert or ignore into claim(path, seq, writer) select id, ?, ? from path where worktree = ? and path = ?",
            [(version.seq, number, worktree, version.path) for version in versions],
        )


def read_writers(db: Transaction, ids: Iterable[int]) -> dict[int, Writer]:
    """Writers by row id."""
    connection = raw(db)
    found = {}
    for number in ids:
        certainty, operation, touch = connection.execute(
            "select w.certainty, w.operation, o.touch from writer w left join operation o on o.id = w.operation"
            " where w.id = ?",
            (number,),
        ).fetchone()
        windows = connection.execute("select window from writer_window where writer = ?", (number,))
        found[number] = Writer(
            certainty=Certainty(certainty),
            windows=frozenset(row[0] for row in windows),
            operation=operation,
            touched=bool(touch),
        )
    return found


def writer_counts(db: Transaction, worktree: int, after: int, upto: int) -> list[tuple[Writer, int]]:
    """Who wrote in ``(after, upto]``, with the number of rows."""
    rows = raw(db).execute(
        f"select coalesce(c.writer, v.writer), count(*) from version v {_CLAIM}"  # noqa: S608
        " where v.worktree = ? and v.seq > ? and v.seq <= ? group by 1",
        (worktree, after, upto),
    ).fetchall()  # fmt: skip
    writers = read_writers(db, {row[0] for row in rows if row[0] is not None})
    return [(writers.get(row[0], UNKNOWN_WRITER), row[1]) for row in rows]


def last_writers(db: Transaction, worktree: int, paths: Iterable[bytes], upto: int) -> dict[bytes, Writer]:
    """The writer of each path's newest row up to ``upto``."""
    query = f"""
      select p.path, coalesce(c.writer, v.writer), max(v.seq) from path p join version v on v.path = p.id {_CLAIM}
      where p.worktree = ? and v.seq <= ? and p.path in ({{}}) group by p.id
    """  # noqa: S608
    # the writer beside the lone max() is that of the newest row, as in _STATE_AT
    found: dict[bytes, int | None] = dict.fromkeys(paths)
    found.update({row[0]: row[1] for row in batched(db, query, (worktree, upto), [*found])})
    writers = read_writers(db, {number for number in found.values() if number is not None})
    # no row has the id 0
    return {path: writers.get(n or 0, UNKNOWN_WRITER) for path, n in found.items()}


def skipped_at(db: Transaction, worktree: int, seq: int) -> dict[bytes, FileState]:
    """What was there and not recorded at ``seq``."""
    # kind is asked outside of the grouping: inside, an older skipped row would stand for a newer state
    query = f"select * from ({_STATE_AT.format(where='')}) where kind = 5"  # noqa: S608
    return {row[0]: state_of(*row[2:]) for row in raw(db).execute(query, (worktree, seq))}


def count_versions(db: Transaction, worktree: int) -> int:
    """How many versions of paths a worktree has."""
    query = "select count(*) from version v join path p on p.id = v.path where p.worktree = ?"
    return int(raw(db).execute(query, (worktree,)).fetchone()[0])


def ever_recorded(db: Transaction, worktree: int, path: bytes) -> bool:
    """Whether the timeline knows ``path``, or anything below it."""
    low, high = prefix_bounds(path)
    query = "select 1 from path where worktree = ? and (path = ? or (path >= ? and path < ?)) limit 1"
    return raw(db).execute(query, (worktree, path, low, high)).fetchone() is not None
