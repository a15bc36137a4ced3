"""A repair: a new ``timeline.db`` from what can be read of the old one and what can be found of its contents. The old one is
never changed; what is written to ``blobs/`` is added to it. The new one is checked before it takes the place of the old one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from openoxide.checkpoints import grafting, purging, rebuilding, stored
from openoxide.checkpoints.affected import Affected, affected
from openoxide.checkpoints.check import Problem, ProblemKind
from openoxide.checkpoints.frames import Place
from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.integrity import structure_problems
from openoxide.checkpoints.model import LOST_FRAME, BlobHash
from openoxide.checkpoints.packs import Packs, taken_numbers
from openoxide.checkpoints.rebuilding import Fix
from openoxide.checkpoints.recovering import Mended, Recovering
from openoxide.checkpoints.rows import batched, raw
from openoxide.checkpoints.salvage import Salvage, Table, is_readable, tables_of
from openoxide.checkpoints.schema import check_version, open_timeline
from openoxide.checkpoints.verifying import Check, Reading
from openoxide.db import Database, Transaction
from openoxide.errors import FailedError, StoreDamagedError, StoreReadOnlyError
from openoxide.fileio import write_errors
from openoxide.paths import Home

_CHUNK = 1 << 20
_UNREADABLE = "a part of it cannot be read"
Progress = Callable[[str, int, int], None]

_UNNAMED = """
select id from blob where id in ({}) and id not in (
  select blob from version where blob is not null union select blob from live where blob is not null
  union select blob from outcome where blob is not null)
"""
# what indexes tell of rows that their tables have lost: the columns are all in them
_IN_INDEXES = (
    ("path", "select id, worktree, path from path indexed by sqlite_autoindex_path_1"),
    (
        "blob",
        f"select id, hash, {LOST_FRAME}, 0, 0 from blob indexed by sqlite_autoindex_blob_1",  # noqa: S608
    ),
)
_NAMES_IN_INDEX = "select id, hash from blob indexed by sqlite_autoindex_blob_1"
_NAMED_OTHERWISE = """
select b.inner, b.size, f.pack, f.offset, f.stored, f.raw, f.codec from blob b join frame f on f.id = b.frame
where b.id = ? and b.hash <> ?
"""
_COLUMNS = {"path": "id, worktree, path", "blob": "id, hash, frame, inner, size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair did, or would do. ``structure``: what of SQLite's own is made anew. ``lost``: all that is marked as lost
    then, with what of each worktree it is about; ``newly_lost``: how many contents were not marked before.
    """

    structure: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    mended: tuple[Mended, ...] = ()
    newly_lost: int = 0
    lost: tuple[tuple[Problem, dict[int, Affected]], ...] = ()

    @property
    def is_needed(self) -> bool:
        return bool(self.structure or self.fixes or self.mended or self.newly_lost)


@dataclass(slots=True, kw_only=True)
class Repairing:
    """One repair of ``home``: from ``old``, a copy, to ``new``, which is made. With ``write`` contents that are found are
    stored anew.
    """

    home: Home
    old: Path
    new: Path
    write: bool
    progress: Progress = lambda *_: None
    _fixes: list[Fix] = field(default_factory=list)
    _structure: list[str] = field(default_factory=list)

    def run(self) -> Repair:
        """``new`` is whole and sound when this returns. Raises StoreDamagedError where nothing can be read, FailedError where
        what came out is not sound.
        """
        fresh = open_timeline(self.new)
        try:
            with _salvaged(self.old) as salvage:
                self._structure += _structure_of(self.old)
                with fresh.writing() as db:
                    self._copy_rows(raw(db), salvage)
                    self._fixes += rebuilding.put_right(raw(db))
            mended, newly_lost, coming = self._contents(fresh)
            with fresh.writing() as db:
                self._fixes += rebuilding.settle(raw(db))
                if newly_lost or any(fix.loses for fix in self._fixes) or self._structure:
                    # what no row names any more may be what an older copy of this database names: set aside, not deleted
                    stored.reserve_packs(db, 0)
            # after all that is written, so that what is judged is what takes the place of the old one
            lost = self._judged(fresh, coming)
            fresh.fold_wal()
        finally:
            fresh.close()
        return Repair(
            structure=tuple(dict.fromkeys(self._structure)),
            fixes=_joined(self._fixes),
            mended=mended,
            newly_lost=newly_lost,
            lost=lost,
        )

    def _copy_rows(self, db: sqlite3.Connection, salvage: Salvage) -> None:
        tables = tables_of(db)
        for done, table in enumerate(tables):
            self.progress("reading rows", done, len(tables))
            known = salvage.having(table)
            refused = _insert(db, known, salvage.rows(known))
            # where a part could not be read, the rows before it come twice, which shows once all have been asked for; of
            # these nobody knows how many there were: the structure tells of them (Repair.structure)
            if refused and table.name not in salvage.damaged:
                self._fixes.append(Fix(f"{table.name}: rows that are none", refused, loses=True))
        for name, query in _IN_INDEXES:
            if name in salvage.damaged:
                columns = _COLUMNS[name]
                marks = ",".join("?" * (columns.count(",") + 1))
                statement = f"insert or ignore into {name}({columns}) values({marks})"
                db.executemany(statement, (row for row in salvage.ask(query) if None not in row))
        if self._structure:
            # a name unlike its index's is one of the things that SQLite tells of
            self._name_by_index(db, salvage)
            indexed = [(number, tree, name) for number, tree, name in salvage.ask(_IN_INDEXES[0][1])]
            self._fixes += rebuilding.names_by_sums(db, indexed)
        self._structure += [f"table {name}: {_UNREADABLE}" for name in sorted(salvage.damaged)]

    def _name_by_index(self, db: sqlite3.Connection, salvage: Salvage) -> None:
        """Give a content the name that the index has for it where its bytes prove that one."""
        packs, renamed = Packs(self.home.blobs, 0), 0
        try:
            for number, name in salvage.ask(_NAMES_IN_INDEX):
                row = db.execute(_NAMED_OTHERWISE, (number, name)).fetchone()
                if row and isinstance(name, bytes) and _is_of(packs, BlobHash(name), Place(*row[2:]), *row[:2]):
                    renamed += db.execute("update or ignore blob set hash = ? where id = ?", (name, number)).rowcount
        finally:
            packs.close()
        if renamed:
            self._fixes.append(Fix("blob: a name that its index has, and its bytes prove", renamed))

    def _contents(self, fresh: Database) -> tuple[tuple[Mended, ...], int, frozenset[int]]:
        """Read every content; look for those that are not what they were; mark those that are nowhere. What was found, how many
        are lost that were not before, and the row ids of those that a dry run has found and does not write.
        """
        with fresh.reading() as db:
            used, reserved = stored.used_packs(db), stored.reserved_packs(db)
        packs = Packs(self.home.blobs, max([*used, *taken_numbers(self.home.blobs), reserved], default=0) + 1)
        try:
            if self.write:
                # a folder that is gone is made anew: what is found is to be written there
                with write_errors("the content store", StoreReadOnlyError):
                    packs.prepare()
            check = Check(
                database=fresh, home=self.home, reading=Reading(), progress=lambda s, d, t, _: self.progress(s, d, t)
            )
            bad = {number for problem in check.contents(packs) for number in problem.blobs}
            with fresh.writing() as db:
                dropped = _drop_unnamed(db, bad)
                names = {
                    BlobHash(name): frame
                    for name, frame in batched(
                        db, "select hash, frame from blob where id in ({})", (), [*bad - dropped]
                    )
                }
            search = Recovering(database=fresh, home=self.home, packs=packs, write=self.write, progress=self.progress)
            found = search.find(names)
            newly_lost = {name for name, frame in names.items() if name not in found and frame != LOST_FRAME}
            if self.write:
                with fresh.looking() as db:
                    lost_places = stored.blob_places(db, newly_lost).values()
                    purged = purging.pending_packs(db)
                # the state before names them there, and a prune deletes a pack once no row of the new one does; where a purge
                # has not finished, what it takes away must not stay
                for number in {place.pack for place, _, _ in lost_places if place.pack is not None} - purged:
                    packs.keep_aside(number)
        finally:
            packs.close()
        with fresh.writing() as db:
            _place(db, names, found)
            unwritten = [name for name, one in found.items() if one.place is None]
            coming = frozenset(
                number for (number,) in batched(db, "select id from blob where hash in ({})", (), unwritten)
            )
        if dropped:
            self._fixes.append(Fix("blob: damaged, and needed by nothing", len(dropped)))
        return tuple(found[name] for name in sorted(found)), len(newly_lost), coming

    def _judged(self, fresh: Database, coming: frozenset[int]) -> tuple[tuple[Problem, dict[int, Affected]], ...]:
        """What is marked as lost, but for the contents in rows ``coming``. Raises FailedError where anything else is wrong:
        nothing may take the place of a store that is not sound itself.
        """
        problems = Check(database=fresh, home=self.home).run()
        wrong = [problem for problem in problems if problem.kind is not ProblemKind.LOST]
        if wrong:
            raise FailedError(
                f"what could be rebuilt is not sound: {wrong[0].object}: {wrong[0].message}",
                hint="nothing was changed; bring the home back from a backup, and report this",
            )
        problems = [replace(problem, blobs=tuple(b for b in problem.blobs if b not in coming)) for problem in problems]
        about = affected(fresh, problems, lambda: None)
        return tuple((problem, dict(of_one)) for problem, of_one in zip(problems, about, strict=True) if of_one)


def _joined(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    found: dict[str, Fix] = {}
    for fix in fixes:
        before = found.get(fix.what, Fix(fix.what, 0))
        found[fix.what] = Fix(fix.what, before.rows + fix.rows, before.loses or fix.loses)
    return tuple(found.values())


@contextmanager
def _salvaged(old: Path) -> Iterator[Salvage]:
    """The old database; where SQLite does not take it for one, a copy that has another first page."""
    file = old if is_readable(old) else grafting.grafted(old)
    try:
        with closing(Salvage(file)) as salvage:
            if salvage.version() is None:
                raise StoreDamagedError(
                    f"nothing of {old.name} can be read",
                    hint="bring it back from a backup: the contents in blobs/ are named by it",
                )
            yield salvage
    finally:
        if file != old:
            grafting.drop(file)


def _structure_of(old: Path) -> list[str]:
    if not is_readable(old):
        return ["timeline.db: its first page or its length, which say what is where"]
    database = Database(old, read_only=True, immutable=not old.with_name(old.name + "-wal").exists())
    try:
        check_version(database)
        return [
            f"{problem.object}: {problem.message if problem.kind is ProblemKind.SQLITE else _UNREADABLE}"
            for problem in structure_problems(database, lambda: None)
        ]
    except StoreDamagedError:
        return [f"timeline.db: {_UNREADABLE}"]
    finally:
        database.close()


def _insert(db: sqlite3.Connection, table: Table, rows: Iterable[tuple[object, ...]]) -> int:
    """How many of ``rows`` are none: of another type than their columns, or a second one of the same key."""
    marks = ",".join("?" * len(table.columns))
    insert = f"insert into {table.name}({', '.join(table.columns)}) values({marks})"
    refused = 0
    for row in rows:
        try:
            db.execute(insert, row)
        except sqlite3.IntegrityError:
            refused += 1
    return refused


def _is_of(packs: Packs, name: BlobHash, place: Place, inner: int, size: int) -> bool:
    """Whether the bytes there are those that ``name`` was made of."""
    with suppress(StoreDamagedError, OverflowError):
        if place.pack is not None:
            return blob_hash(packs.read(place, inner + size)[inner : inner + size]) == name
        hasher = Hasher()
        with packs.open_big(name) as source:
            while chunk := source.read(_CHUNK):
                hasher.update(chunk)
        return hasher.digest() == name
    return False


def _drop_unnamed(db: Transaction, bad: set[int]) -> set[int]:
    """Delete those of ``bad`` that nothing names: nobody asks for them."""
    unnamed = {number for (number,) in batched(db, _UNNAMED, (), [*bad])}
    raw(db).executemany("delete from blob where id = ?", ((number,) for number in unnamed))
    return unnamed


def _place(db: Transaction, names: Iterable[BlobHash], found: dict[BlobHash, Mended]) -> None:
    back = {name: one for name, one in found.items() if one.place is not None}
    lost = ((LOST_FRAME, name) for name in names if name not in back)
    raw(db).executemany("update blob set frame = ?, inner = 0 where hash = ?", lost)
    stored.place_blobs(db, ((name, one.place, one.inner, one.size) for name, one in back.items() if one.place))
