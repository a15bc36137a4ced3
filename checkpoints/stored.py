"""Rows of the content store: which blob lies in which frame of which pack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from openoxide.checkpoints.frames import Place
from openoxide.checkpoints.model import LOST_FRAME, BlobHash
from openoxide.checkpoints.rows import batched, next_id, raw
from openoxide.db import Transaction


def blob_ids(db: Transaction, names: Iterable[BlobHash]) -> dict[BlobHash, int]:
    """Row ids of those ``names`` that are stored; a tombstoned one is revived."""
    found: dict[BlobHash, int] = {}
    dead = []
    for name, number, dead_ms in batched(db, "select hash, id, dead_ms from blob where hash in ({})", (), [*names]):
        found[BlobHash(name)] = number
        if dead_ms is not None:
            dead.append((number,))
    # in the transaction that will name them: a sweep in between would take them away
    raw(db).executemany("update blob set dead_ms = null where id = ?", dead)
    return found


def stored_names(db: Transaction, names: Iterable[BlobHash]) -> set[BlobHash]:
    """Which of ``names`` have a row; a hint only, the writer decides again."""
    # one that a prune has marked seems unknown and is written again: its old bytes may go any moment
    # and so does one that is lost: that is how it comes back
    query = "select hash from blob where dead_ms is null and frame <> ? and hash in ({})"
    return {BlobHash(row[0]) for row in batched(db, query, (LOST_FRAME,), [*names])}


def lost_names(db: Transaction, names: Iterable[BlobHash]) -> set[BlobHash]:
    """Those of ``names`` whose bytes are nowhere, as a repair found."""
    query = "select hash from blob where frame = ? and hash in ({})"
    return {BlobHash(row[0]) for row in batched(db, query, (LOST_FRAME,), [*names])}


def named(db: Transaction, names: Iterable[BlobHash]) -> list[BlobHash]:
    """Those of ``names`` that have a row, lost and marked ones too; neighbours in the store are neighbours here."""
    found = batched(db, "select frame, inner, hash from blob where hash in ({})", (), [*names])
    return [BlobHash(name) for _, _, name in sorted(found)]


def insert_frames(
    db: Transaction, placed: Iterable[tuple[Place, Sequence[tuple[BlobHash, int]]]]
) -> dict[BlobHash, int]:
    """Rows for frames whose bytes are durable. The ids of their blobs, unless one of them had a row already, which it
    keeps: then nothing is answered, and who wants ids has to look them up.
    """
    connection = raw(db)
    # counted here and not asked for afterwards: only one writer inserts, and this is its transaction
    frame, blob = next_id(db, "frame"), next_id(db, "blob")
    frames, blobs, ids = [], [], {}
    for place, names in placed:
        frames.append((frame, *place))
        inner = 0
        for name, size in names:
            blobs.append((blob, name, frame, inner, size))
            ids[name] = blob
            inner += size
            blob += 1
        frame += 1
    connection.executemany("insert into frame(id, pack, offset, stored, raw, codec) values(?,?,?,?,?,?)", frames)
    # an insert that is ignored does not count as a change (SQLite, sqlite3_total_changes): that tells without a lookup
    # whether one was there, as when two store the same content at once
    before = connection.total_changes
    connection.executemany("insert or ignore into blob(id, hash, frame, inner, size) values(?,?,?,?,?)", blobs)
    if connection.total_changes - before == len(blobs):
        return ids
    # what a repair has marked as lost is here again
    back = ((place, inner, size, name, LOST_FRAME) for _, name, place, inner, size in blobs)
    connection.executemany("update blob set frame = ?, inner = ?, size = ? where hash = ? and frame = ?", back)
    return {}


def move_blob(db: Transaction, name: BlobHash, place: Place) -> None:
    """The bytes of a blob that has a row are in a frame of their own now, which is durable."""
    frame = next_id(db, "frame")
    raw(db).execute("insert into frame(id, pack, offset, stored, raw, codec) values(?,?,?,?,?,?)", (frame, *place))
    raw(db).execute("update blob set frame = ?, inner = 0 where hash = ?", (frame, name))


def place_blobs(db: Transaction, placed: Iterable[tuple[BlobHash, Place, int, int]]) -> None:
    """Blobs that have a row (name, place, inner, size) lie in frames that are durable, and may have a row already."""
    connection = raw(db)
    known = {
        Place(*row[1:]): row[0] for row in connection.execute("select id, pack, offset, stored, raw, codec from frame")
    }
    frame = next_id(db, "frame")
    for name, place, inner, size in placed:
        # each big blob is a file of its own, by whatever place
        if place.pack is None or place not in known:
            values = (frame, *place)
            connection.execute("insert into frame(id, pack, offset, stored, raw, codec) values(?,?,?,?,?,?)", values)
            known[place] = frame
            frame += 1
        change = (known[place], inner, size, name)
        connection.execute("update blob set frame = ?, inner = ?, size = ? where hash = ?", change)


def blob_places(db: Transaction, names: Iterable[BlobHash]) -> dict[BlobHash, tuple[Place, int, int]]:
    """``(frame's place, offset in it, size)`` of those blobs that have a row."""
    query = """
      select b.hash, f.pack, f.offset, f.stored, f.raw, f.codec, b.inner, b.size
      from blob b join frame f on f.id = b.frame where b.hash in ({})
    """
    found = {}
    for name, pack, offset, stored, size_raw, codec, inner, size in batched(db, query, (), [*names]):
        place = Place(pack=pack, offset=offset, stored=stored, raw=size_raw, codec=codec)
        found[BlobHash(name)] = (place, inner, size)
    return found


def used_packs(db: Transaction) -> set[int]:
    """Packs that at least one frame row names."""
    # from one to the next through the index: `distinct` would look at each frame
    query = """
      with recursive named(pack) as (
        select min(pack) from frame union all
        select (select min(pack) from frame where pack > named.pack) from named where named.pack is not null)
      select pack from named where pack is not null
    """
    return {row[0] for row in raw(db).execute(query)}


# without the is not null nothing would ever go: `not in` a list that holds NULL is never true (SQLite, expressions).
# outcome names what no state does: bytes that came late, or that a merge made
_UNUSED_BLOBS = """
delete from blob where id not in (
  select blob from version where blob is not null union select blob from live where blob is not null
  union select blob from outcome where blob is not null)
"""


def delete_unused_blobs(db: Transaction) -> dict[int, int]:
    """Delete the rows of blobs that no state and no outcome names, and of frames that then hold none; how many bytes those
    frames have in each pack.
    """
    connection = raw(db)
    connection.execute(_UNUSED_BLOBS)
    empty = "from frame where id not in (select frame from blob)"
    freed = connection.execute(f"select pack, sum(stored) {empty} and pack is not null group by pack").fetchall()
    connection.execute(f"delete {empty}")
    return dict(freed)


def big_names(db: Transaction) -> set[BlobHash]:
    """Blobs that are files of their own."""
    query = "select b.hash from blob b join frame f on f.id = b.frame where f.pack is null"
    return {BlobHash(row[0]) for row in raw(db).execute(query)}


def pack_sizes(db: Transaction) -> dict[int, int]:
    """How far the frames that rows name reach in each pack."""
    query = "select pack, max(offset + stored) from frame where pack is not null group by pack"
    return dict(raw(db).execute(query).fetchall())


def big_sizes(db: Transaction) -> dict[BlobHash, int]:
    """Blobs that are files of their own, and how long these are."""
    query = "select b.hash, f.stored from blob b join frame f on f.id = b.frame where f.pack is null"
    return {BlobHash(name): size for name, size in raw(db).execute(query)}


def named_in(db: Transaction, pack: int) -> set[tuple[int, BlobHash]]:
    """Contents of one pack: where the payload of their frame begins, and their names."""
    query = "select f.offset, b.hash from frame f join blob b on b.frame = f.id where f.pack = ?"
    return {(offset, BlobHash(name)) for offset, name in raw(db).execute(query, (pack,))}


def renumber_pack(db: Transaction, old: int, new: int) -> None:
    """What lay in one pack lies at the same places of another one, which is durable."""
    raw(db).execute("update frame set pack = ? where pack = ?", (new, old))


def reserved_packs(db: Transaction) -> int:
    """The greatest pack number that this database has ever reserved."""
    row = raw(db).execute("select value from meta where key = 'packs'").fetchone()
    return int(row[0]) if row else 0


def reserve_packs(db: Transaction, upto: int) -> None:
    """Packs up to this number belong to this database."""
    raw(db).execute("insert or replace into meta(key, value) values('packs', ?)", (upto,))


class Move(NamedTuple):
    """A frame whose bytes are durable, and the contents in it in their order: ``(blob id, name, the frame it lay in, size)``."""

    place: Place
    rows: Sequence[tuple[int, BlobHash, int, int]]


def move_frames(db: Transaction, moves: Sequence[Move]) -> int:
    """The contents lie there from now on, unless they have gone or been moved since; how many do. Frames that then hold
    none go.
    """
    connection = raw(db)
    frame, emptied, before = next_id(db, "frame"), set(), connection.total_changes
    for place, rows in moves:
        connection.execute(
            "insert into frame(id, pack, offset, stored, raw, codec, settled) values(?,?,?,?,?,?,1)", (frame, *place)
        )
        inner = 0
        for blob, name, old, size in rows:
            # the name too: ids of rows that have gone are given again
            connection.execute(
                "update blob set frame = ?, inner = ? where id = ? and frame = ? and hash = ?",
                (frame, inner, blob, old, name),
            )
            inner += size
        emptied |= {frame, *(old for _, _, old, _ in rows)}
        frame += 1
    moved = connection.total_changes - before - len(moves)
    delete_empty_frames(db, sorted(emptied))
    return moved


_EMPTY = "not exists (select 1 from blob where blob.frame = frame.id)"


def empty_frames(db: Transaction, packs: Iterable[int] | None = None) -> list[int]:
    """Frames in ``packs`` (None: in all) that hold no content that a row names."""
    where = "pack is not null" if packs is None else "pack in ({})"
    query = f"select id from frame where {where} and {_EMPTY}"  # noqa: S608
    if packs is None:
        return [row[0] for row in raw(db).execute(query)]
    return [row[0] for row in batched(db, query, (), [*packs])]


def delete_empty_frames(db: Transaction, frames: Iterable[int]) -> None:
    """Delete those of ``frames`` that still hold nothing."""
    query = f"delete from frame where id = ? and {_EMPTY}"  # noqa: S608
    raw(db).executemany(query, [(frame,) for frame in frames])


def held_in(db: Transaction, packs: Collection[int]) -> list[tuple[Any, ...]]:
    """The contents of ``packs``: id, hash, frame, inner, size, the frame's place, and path and seq of the first version that
    has it (0 and 0 where none has).
    """
    query = """
      with held as (
        select b.id, b.hash, b.frame, b.inner, b.size, f.pack, f.offset, f.stored, f.raw, f.codec
        from frame f join blob b on b.frame = f.id where f.pack in ({0})),
      named as (
        select blob, min(path) as path, min(seq) as seq from version where blob in (select id from held) group by blob)
      select held.*, coalesce(named.path, 0), coalesce(named.seq, 0) from held left join named on named.blob = held.id
    """
    return list(batched(db, query, (), [*packs]))
