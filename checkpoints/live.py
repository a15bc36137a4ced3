"""The newest recorded state of each path, with the stat it rests on: what a capture compares with."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from openoxide.checkpoints.model import FileState, Kind, StatIdentity, is_racy
from openoxide.checkpoints.rows import MOST, TORN, batched, from_signed, prefix_bounds, raw, signed, state_of
from openoxide.db import Transaction

# rows in memory at once, of however large a tree
_PAGE = 2048
_NOTHING = (Kind.ABSENT, Kind.SKIPPED)
_NO_IDENTITY = (None,) * len(StatIdentity._fields)
_LIVE = """
select p.path, l.kind, l.mode, l.size, l.mtime_ns, b.hash, l.target, l.flags, l.dev, l.ino, l.stat_size,
  l.stat_mtime_ns, l.ctime_ns, l.stat_mode, l.nlink, l.read_at_ns
from path p join live l on l.path = p.id left join blob b on b.id = l.blob where p.worktree = ?
"""


class LiveRow(NamedTuple):
    """One row as SQLite gives it. State and identity are made when they are asked for: a full pass compares most rows with
    a stat and never looks at them again.
    """

    path: bytes
    kind: int
    mode: int
    size: int
    mtime_ns: int
    blob: bytes | None
    target: bytes | None
    flags: int
    # all that follows is None where nothing was seen
    dev: int | None
    ino: int | None
    stat_size: int | None
    stat_mtime_ns: int | None
    ctime_ns: int | None
    stat_mode: int | None
    nlink: int | None
    read_at_ns: int | None

    @property
    def state(self) -> FileState:
        """What was recorded."""
        return state_of(*self[1:8])

    @property
    def identity(self) -> StatIdentity | None:
        """The stat that the state rests on; None where nothing stood there."""
        dev, ino, *others = self[8:]
        if dev is None or ino is None:
            return None
        if dev < 0 or ino < 0:
            dev, ino = from_signed(dev), from_signed(ino)
        return StatIdentity(dev, ino, *others)  # type: ignore[arg-type]


def unchanged(row: LiveRow, found: os.stat_result) -> bool:
    """Whether ``row`` still tells what stands there."""
    # ctime too: utime(2) sets an mtime back, and nothing but the kernel sets a ctime; nlink says nothing about bytes
    known = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
    if row[8:14] != known and (row.identity is None or row.identity[:6] != known):  # else its numbers are negative
        return False
    # a write within the same tick leaves this very stat (git, racy-git); a torn state is none that the file had
    return not (
        row.flags & TORN or row.kind in _NOTHING or is_racy(found.st_mtime_ns, found.st_ctime_ns, row.read_at_ns or 0)
    )


class Live:
    """The live rows of one worktree. One that was asked for by its path is not asked for again: what the capture itself
    records meanwhile is not looked at.
    """

    def __init__(self, db: Transaction, worktree: int) -> None:
        self._db = db
        self._worktree = worktree
        self._known: dict[bytes, LiveRow | None] = {}

    def expect(self, paths: Collection[bytes]) -> None:
        """These will be asked for one by one."""
        # None first: what has no row is known to have none and not asked for again
        self._known.update(dict.fromkeys(paths))
        found = batched(self._db, _LIVE + " and p.path in ({})", (self._worktree,), [*paths])
        self._known.update((row[0], LiveRow._make(row)) for row in found)

    def one(self, path: bytes) -> LiveRow | None:
        """The live row of ``path``, None where the timeline never saw it."""
        if path not in self._known:
            self.expect((path,))
        return self._known[path]

    def below(self, directory: bytes) -> Iterator[LiveRow]:
        """Live rows below ``directory`` in path order (all of them for the root), absent ones left out. Read by the page:
        of what is recorded meanwhile, rows may be met that lie further on.
        """
        low, high = prefix_bounds(directory)
        # the root has no bounds: all paths but few lie outside of "/" and "0"
        upper, bounds = ("and p.path < ?", (high,)) if directory else ("", ())
        query = f"{_LIVE} and l.kind <> 0 and p.path {{}} ? {upper} order by p.path limit {_PAGE}"
        first, page = True, [(low if directory else b"",)]
        while first or len(page) == _PAGE:
            at = (self._worktree, page[-1][0], *bounds)
            page = raw(self._db).execute(query.format(">=" if first else ">"), at).fetchall()
            yield from map(LiveRow._make, page)
            first = False

    def twins(self, dev: int, ino: int) -> list[bytes]:
        """Paths whose live row is another name of this inode."""
        found = raw(self._db).execute(
            # l.kind = 1 repeats the condition of live_inode: a partial index answers no query without it (SQLite, partial
            # indexes)
            "select p.path from live l join path p on p.id = l.path where l.dev = ? and l.ino = ?"
            " and p.worktree = ? and l.kind = 1",
            (signed(dev), signed(ino), self._worktree),
        )
        return [row[0] for row in found]

    def files_below(self, directory: bytes, limit: int) -> int:
        """How many files are recorded below ``directory``, counted up to ``limit``."""
        low, high = prefix_bounds(directory)
        row = raw(self._db).execute(
            # the limit is inside, so counting stops there however large the tree is
            "select count(*) from (select 1 from path p join live l on l.path = p.id where p.worktree = ?"
            " and p.path >= ? and p.path < ? and l.kind = 1 limit ?)",
            (self._worktree, low, high, limit),
        ).fetchone()  # fmt: skip
        return int(row[0])


def live_states(db: Transaction, worktree: int, paths: Sequence[bytes]) -> dict[bytes, FileState]:
    """The live states of those ``paths`` that have one. Paths that were made after the newest live row have none, which is
    all of them in a first capture: those are not looked up one by one.
    """
    # the plus keeps SQLite from walking all of the worktree's paths by their index
    query = "select path from path where +worktree = ? and id > (select coalesce(max(path), 0) from live)"
    new = {row[0] for row in raw(db).execute(query, (worktree,))}
    known = [path for path in paths if path not in new]
    return {row[0]: state_of(*row[1:8]) for row in batched(db, _LIVE + " and p.path in ({})", (worktree,), known)}


def write_live(db: Transaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Replace live rows ``(path id, seq, *state_values, *identity_values)``."""
    raw(db).executemany(
        "insert or replace into live(path, seq, kind, mode, size, mtime_ns, blob, target, flags, dev, ino, stat_size,"
        " stat_mtime_ns, ctime_ns, stat_mode, nlink, read_at_ns) values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        rows,
    )


def refresh_identities(db: Transaction, rows: Iterable[tuple[int, StatIdentity]]) -> None:
    """Renew the stat that unchanged live rows rest on; no timeline row."""
    raw(db).executemany(
        "update live set dev=?, ino=?, stat_size=?, stat_mtime_ns=?, ctime_ns=?, stat_mode=?, nlink=?, read_at_ns=? where path=?",
        ((*identity_values(identity), path) for path, identity in rows),
    )


def top_names(db: Transaction, worktree: int) -> set[bytes]:
    """What is recorded in the root itself now."""
    found = raw(db).execute(
        "select p.path from path p join live l on l.path = p.id where p.worktree = ? and l.kind <> 0"
        # two blobs are compared by bytes; with a text on one side instr would decode the path (SQLite, core functions)
        " and instr(p.path, x'2f') = 0",
        (worktree,),
    )
    return {row[0] for row in found}


def count_existing(db: Transaction, worktree: int) -> int:
    """How many paths exist now and are recorded."""
    row = raw(db).execute(
        # FILE to SPECIAL: neither absent nor skipped
        "select count(*) from path p join live l on l.path = p.id where p.worktree = ? and l.kind between 1 and 4",
        (worktree,),
    ).fetchone()  # fmt: skip
    return int(row[0])


def identity_values(identity: StatIdentity | None) -> tuple[int | None, ...]:
    """The columns of the stat that a state rests on; None where nothing stood there."""
    if identity is None:
        return _NO_IDENTITY
    dev, ino, *others = identity
    if dev <= MOST and ino <= MOST:
        return identity
    return (signed(dev), signed(ino), *others)
