"""The rows of a purge: what names a content, and how it stops to.

The rows go first, in one transaction, and with them every trace of the contents' names in the database. What is still to be
done with the files follows from marks in ``meta`` that hold numbers of packs and nothing of what was in them: whatever no
row names goes. So whoever finds a mark can finish a purge that was cut off.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from openoxide.checkpoints import journal
from openoxide.checkpoints.hashing import HASH_BYTES, blob_hash, sum_from_bytes, sum_to_bytes
from openoxide.checkpoints.model import PURGED, BlobHash, FileState, Kind, SkipReason
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.purge import Gone, Sealed, resealed, without
from openoxide.checkpoints.rows import batched, prefix_bounds, raw, read_head, state_of, write_head
from openoxide.db import Transaction

# holds no byte of anybody's, and stands in as many places as there are empty files
_EMPTY = blob_hash(b"")
_BEGUN, _PACK = "purge", "purge.pack."
_HEX = 2 * HASH_BYTES
_LIST = "(select value from json_each(?))"
_VERSIONS = """
select v.path, v.worktree, p.path, v.seq, (select min(n.seq) from version n where n.path = v.path and n.seq > v.seq),
  v.kind, v.mode, v.size, v.mtime_ns, b.hash, v.target, v.flags
from version v join path p on p.id = v.path left join blob b on b.id = v.blob where
"""
_PURGE = f"kind = {int(PURGED.kind)}, mode = 0, size = 0, mtime_ns = 0, blob = null, target = ?, flags = 0"
_UNSEEN = (
    "dev = null, ino = null, stat_size = null, stat_mtime_ns = null, ctime_ns = null, stat_mode = null, nlink = null,"
    " read_at_ns = null"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to go: contents by their names, and the links that ``paths`` of ``worktree`` were (their text is what they
    hold).
    """

    names: frozenset[BlobHash]
    worktree: int = 0
    paths: tuple[bytes, ...] = ()


class Version(NamedTuple):
    """A version that is to go, by the row ids of its path and worktree."""

    path: int
    worktree: int
    gone: Gone

    @property
    def is_last(self) -> bool:
        return self.gone.until is None


class Late(NamedTuple):
    """Bytes that no version names: they came late to an operation, or a merge made them."""

    id: int
    worktree: int
    path: bytes
    blob: BlobHash


class StepText(NamedTuple):
    """A step of an operation that was not swept yet, with what its states are to be."""

    operation: int
    number: int
    worktree: int
    old: FileState
    new: FileState


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Every row that names something wanted. ``blobs``: row ids of the contents; ``packs``: of packs that hold them."""

    wanted: Wanted
    blobs: tuple[int, ...] = ()
    versions: tuple[Version, ...] = ()
    late: tuple[Late, ...] = ()
    steps: tuple[StepText, ...] = ()
    packs: frozenset[int] = frozenset()
    bigs: tuple[BlobHash, ...] = ()
    stored_bytes: int = 0
    worktrees: frozenset[int] = field(default_factory=frozenset)


def wanted_of_paths(db: Transaction, worktree: int, paths: Sequence[bytes]) -> Wanted:
    """All contents that ``paths``, and what lies below them, ever had."""
    return Wanted(names=frozenset(contents_of(db, worktree, paths)), worktree=worktree, paths=tuple(paths))


def contents_of(db: Transaction, worktree: int, paths: Sequence[bytes]) -> dict[BlobHash, int]:
    """The contents that ``paths`` (``b""``: all), and what lies below them, ever had, with their sizes in bytes."""
    query = f"""
      select distinct b.hash, b.size from version v join blob b on b.id = v.blob where v.path in {_LIST} and b.size > 0
    """  # noqa: S608 as everywhere here: nothing in it is given
    found = raw(db).execute(query, (json.dumps(_path_ids(db, worktree, paths)),))
    return {BlobHash(name): size for name, size in found}


def held_by(db: Transaction, worktree: int) -> dict[bytes, list[BlobHash | None]]:
    """What each path held, one after the other; None for what was no file, or was purged."""
    query = """
      select p.path, b.hash from version v join path p on p.id = v.path left join blob b on b.id = v.blob
      where p.worktree = ? order by p.path, v.seq
    """
    found: defaultdict[bytes, list[BlobHash | None]] = defaultdict(list)
    for path, name in raw(db).execute(query, (worktree,)):
        found[path].append(None if name is None else BlobHash(name))
    return dict(found)


def names_like(db: Transaction, digits: str) -> list[BlobHash]:
    """The contents whose names begin with these hexadecimal digits; a whole name is one though no row has it."""
    low, high = (bytes.fromhex(digits.ljust(_HEX, fill)) for fill in "0f")
    found = raw(db).execute("select hash from blob where hash between ? and ? order by hash", (low, high)).fetchall()
    names = [BlobHash(name) for (name,) in found]
    return names or ([BlobHash(low)] if len(digits) == _HEX else [])


def is_empty(name: BlobHash) -> bool:
    """Whether it is the name of no bytes at all."""
    return name == _EMPTY


def find(db: Transaction, wanted: Wanted) -> Doomed:
    """Look for ``wanted`` in all rows of all worktrees. Each version is looked at: no index leads from contents to them."""
    places = batched(
        db,
        "select b.id, b.hash, f.pack, cast(f.stored as real) * b.size / max(f.raw, 1) from blob b"
        " join frame f on f.id = b.frame where b.hash in ({})",
        (),
        sorted(wanted.names),
    )
    blobs, packs, bigs, stored = [], set(), [], 0.0
    for number, name, pack, share in places:
        blobs.append(number)
        stored += share
        if pack is None:
            bigs.append(BlobHash(name))
        else:
            packs.add(pack)
    versions = tuple(_versions(db, blobs, _path_ids(db, wanted.worktree, wanted.paths)))
    late, steps = tuple(_late(db, blobs)), tuple(_steps(db, wanted))
    return Doomed(
        wanted=wanted,
        blobs=tuple(blobs),
        versions=versions,
        late=late,
        steps=steps,
        packs=frozenset(packs),
        bigs=tuple(bigs),
        stored_bytes=round(stored),
        worktrees=frozenset(row.worktree for rows in (versions, late, steps) for row in rows),
    )


def _path_ids(db: Transaction, worktree: int, paths: Iterable[bytes]) -> list[int]:
    query = "select id from path where worktree = ?"
    ids: set[int] = set()
    for path in paths:
        # the root has no bounds
        below = (" and (path = ? or (path >= ? and path < ?))", (path, *prefix_bounds(path))) if path else ("", ())
        ids.update(number for (number,) in raw(db).execute(query + below[0], (worktree, *below[1])))
    return sorted(ids)


def _versions(db: Transaction, blobs: Sequence[int], paths: Sequence[int]) -> Iterator[Version]:
    by_content = raw(db).execute(f"{_VERSIONS} v.blob in {_LIST}", (json.dumps(blobs),))
    links = raw(db).execute(f"{_VERSIONS} v.kind = {int(Kind.SYMLINK)} and v.path in {_LIST}", (json.dumps(paths),))
    for found in (by_content, links):
        for path, worktree, name, seq, until, *state in found:
            yield Version(path, worktree, Gone(name, seq, until, state_of(*state)))


def _late(db: Transaction, blobs: Sequence[int]) -> Iterator[Late]:
    query = f"""
      select u.id, o.worktree, u.path, b.hash from outcome u join operation o on o.id = u.operation
      join blob b on b.id = u.blob where u.blob in {_LIST}
    """  # noqa: S608
    return (Late(*row) for row in raw(db).execute(query, (json.dumps(blobs),)))


def _steps(db: Transaction, wanted: Wanted) -> Iterator[StepText]:
    # few have any: they go with the operation's staging folder
    query = "select id, worktree from operation where id in (select distinct operation from step)"
    for operation, worktree in raw(db).execute(query).fetchall():
        for step in journal.steps(db, operation):
            old, new = (_left_of(state, step.path, worktree, wanted) for state in (step.old, step.new))
            if (old, new) != (step.old, step.new):
                yield StepText(operation, step.number, worktree, old, new)


def _left_of(state: FileState, path: bytes, worktree: int, wanted: Wanted) -> FileState:
    is_link = state.kind is Kind.SYMLINK and worktree == wanted.worktree
    if state.blob in wanted.names or (is_link and wanted.paths and within_paths(path, wanted.paths)):
        return PURGED
    return state


def purge_rows(db: Transaction, doomed: Doomed, packs: Collection[int]) -> None:
    """From here on no row names anything of ``doomed``, and marks tell which ``packs`` may still hold it."""
    by_worktree: defaultdict[int, list[Version]] = defaultdict(list)
    for version in doomed.versions:
        by_worktree[version.worktree].append(version)
    for worktree, versions in by_worktree.items():
        _take_off_sums(db, worktree, [version.gone for version in versions])
        _take_off_totals(db, worktree, [version.gone for version in versions if version.is_last])
    places = [(PURGED.target, version.path, version.gone.seq) for version in doomed.versions]
    raw(db).executemany(f"update version set {_PURGE} where path = ? and seq = ?", places)  # noqa: S608
    raw(db).executemany(f"update live set {_PURGE}, {_UNSEEN} where path = ? and seq = ?", places)  # noqa: S608
    raw(db).executemany(
        "update outcome set blob = null, reason = ? where id = ?",
        [(SkipReason.PURGED.value, late.id) for late in doomed.late],
    )
    journal.rewrite_steps(db, [(step.old, step.new, step.operation, step.number) for step in doomed.steps])
    _delete_blobs(db, doomed.blobs)
    marks = [_BEGUN, *(f"{_PACK}{number}" for number in sorted(packs))]
    raw(db).executemany("insert or replace into meta(key, value) values(?, 1)", [(mark,) for mark in marks])


def _take_off_sums(db: Transaction, worktree: int, gone: Sequence[Gone]) -> None:
    query = "select id, seq, manifest_hash, skipped from checkpoint where worktree = ?"
    found = raw(db).execute(query, (worktree,))
    sealed = [Sealed(number, seq, sum_from_bytes(total), skipped) for number, seq, total, skipped in found]
    raw(db).executemany(
        "update checkpoint set manifest_hash = ?, skipped = ? where id = ?",
        [(sum_to_bytes(one.sum), one.skipped, one.id) for one in resealed(sealed, gone)],
    )


def _take_off_totals(db: Transaction, worktree: int, gone: Sequence[Gone]) -> None:
    head = read_head(db, worktree)
    files = [one.state.size for one in gone if one.state.kind is Kind.FILE]
    write_head(
        db,
        worktree,
        replace(
            head,
            sum=without(head.sum, gone),
            files=head.files - len(files),
            bytes=head.bytes - sum(files),
            skipped=head.skipped + len(gone),
        ),
    )


def _delete_blobs(db: Transaction, blobs: Sequence[int]) -> None:
    listed = json.dumps(blobs)
    frames = [row[0] for row in raw(db).execute(f"select distinct frame from blob where id in {_LIST}", (listed,))]  # noqa: S608
    raw(db).execute(f"delete from blob where id in {_LIST}", (listed,))  # noqa: S608
    raw(db).execute(
        f"delete from frame where id in {_LIST} and id not in (select frame from blob)",  # noqa: S608
        (json.dumps(frames),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A purge whose rows are gone and whose files may not be: packs that are to be written anew."""

    packs: frozenset[int]


def pending(db: Transaction) -> Pending | None:
    """What a purge has left to be done; None if nothing."""
    found: list[Any] = [row[0] for row in raw(db).execute("select key from meta where key glob 'purge*'")]
    if not found:
        return None
    return Pending(packs=frozenset(int(key.removeprefix(_PACK)) for key in found if key.startswith(_PACK)))


def pending_packs(db: Transaction) -> frozenset[int]:
    """The packs that a purge has yet to write anew; none where nothing is left."""
    left = pending(db)
    return left.packs if left else frozenset()


def settle(db: Transaction) -> None:
    """Nothing is left to be done."""
    raw(db).execute("delete from meta where key glob 'purge*'")


def live_places(doomed: Doomed) -> list[tuple[int, bytes]]:
    """Worktree and path of each wanted state that is the newest one of its path."""
    return sorted((version.worktree, version.gone.path) for version in doomed.versions if version.is_last)


def held_checkpoints(db: Transaction, versions: Iterable[Version]) -> int:
    """How many checkpoints, in trash or not, hold one of ``versions``."""
    held: set[int] = set()
    query = "select id from checkpoint where worktree = ? and seq >= ? and seq < ?"
    for version in versions:
        # above every position, and inside SQLite's signed 64 bits
        until = version.gone.until or 1 << 62
        held.update(row[0] for row in raw(db).execute(query, (version.worktree, version.gone.seq, until)))
    return len(held)
