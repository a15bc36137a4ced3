"""Reads a store for ``check``: rows page by page, then what they name in packs and big files. Changes nothing.

No snapshot is held longer than a page takes, and ``breathe`` is called between pages. What others delete or move meanwhile
looks like damage once, so only what is found a second time is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from openoxide.checkpoints import stored
from openoxide.checkpoints.check import (
    BlobRow,
    Problem,
    ProblemKind,
    Replay,
    Sealed,
    StateRow,
    blob_problem,
    is_sampled,
    live_problem,
    merged,
    table_trouble,
)
from openoxide.checkpoints.frames import Place
from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.integrity import ask, guarded, rule_problems, structure_problems
from openoxide.checkpoints.model import DAMAGED, SkipReason
from openoxide.checkpoints.packs import BIG, Packs, pack_name
from openoxide.checkpoints.rows import raw
from openoxide.db import Database
from openoxide.errors import StoreDamagedError
from openoxide.paths import Home

# SQLite lets others run meanwhile; what Python makes of the rows takes it a few milliseconds, with breaths in between
_PAGE = 100
_PAGE_PATHS = 1_000  # compared by SQLite, which lets others run
_CHUNK = 1 << 20
_BEFORE_ALL = -(1 << 63)

_STATE = (
    "{v}.path, {v}.seq, {p}.path, {v}.kind, {v}.mode, {v}.size, {v}.mtime_ns, {v}.blob, {b}.hash, {b}.size, {v}.target,"
    " {v}.flags"
)
WALK = f"""
select {_STATE.format(v="v", p="p", b="b")}, v.writer, w.id, {_STATE.format(v="o", p="p", b="c")}
from version v left join path p on p.id = v.path and p.worktree = v.worktree left join blob b on b.id = v.blob
left join writer w on w.id = v.writer
left join version o on o.path = v.path and o.seq = (select max(seq) from version where path = v.path and seq < v.seq)
left join blob c on c.id = o.blob
where v.worktree = ? and v.seq > ? order by v.seq limit {_PAGE}
"""  # noqa: S608 as everywhere here: nothing in it is given
_COLUMNS = "{0}.seq, {0}.kind, {0}.mode, {0}.size, {0}.mtime_ns, {0}.blob, {0}.target, {0}.flags"
_UNLIKE = f"""
select p.id, {_COLUMNS.format("l")}, {_COLUMNS.format("v")} from path p left join live l on l.path = p.id
left join version v on v.path = p.id and v.seq = (select max(seq) from version where path = p.id)
where p.id > ? and p.id <= ? and ({_COLUMNS.format("l")}) is not ({_COLUMNS.format("v")})
"""  # noqa: S608
_LAST_OF_PAGE = f"select max(id) from (select id from path where id > ? order by id limit {_PAGE_PATHS})"  # noqa: S608
_BLOBS = f"""
select b.id, b.hash, b.frame, b.inner, b.size, f.id, f.pack, f.offset, f.stored, f.raw, f.codec
from blob b left join frame f on f.id = b.frame where b.id > ? order by b.id limit {_PAGE}
"""  # noqa: S608
_LOST_STATES = "select path, seq from version where kind = 5 and target = ? order by path, seq"
_DAMAGED_CHECKPOINTS = (
    "select worktree, number from checkpoint where gap = ? and failed is null order by worktree, number"
)
SEALED = "select worktree, number, seq, manifest_hash, skipped from checkpoint where worktree = ? and failed is null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which contents are read: a ``share`` of all (1.0: each), drawn by ``seed``."""

    share: float = 1.0
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class Check:
    """One check of a home. ``breathe`` is called where others may go first, ``progress`` with (stage, done, all, bytes).
    ``files``: only contents in these, by their names below the home. ``checked`` counts what was looked at.
    """

    database: Database
    home: Home
    reading: Reading | None = None
    breathe: Callable[[], None] = lambda: None
    progress: Callable[[str, int, int, int], None] = lambda *_: None
    files: Collection[str] | None = None
    checked: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0
    _reached: int | None = None

    def run(self) -> list[Problem]:
        """All that is wrong, one problem for each kind and object, at most MOST_PROBLEMS."""
        packs = Packs(self.home.blobs, 0)
        try:
            return merged(self._found(packs))
        finally:
            packs.close()

    def contents(self, packs: Packs) -> Iterator[Problem]:
        """What is wrong with contents alone, each content by itself."""
        return guarded("contents", lambda: self._contents(packs))

    def _found(self, packs: Packs) -> Iterator[Problem]:
        yield from structure_problems(self.database, self.breathe)
        yield from rule_problems(self.database, self.breathe)
        yield from guarded("versions", self._timelines)
        yield from guarded("live states", self._live)
        yield from self.contents(packs)
        yield from guarded("what was lost", self._lost)

    def _lost(self) -> Iterator[Problem]:
        """What a repair marked; contents are told with the others."""
        text = "what it was cannot be told any more, and a repair marked it"
        for path, seq in ask(self.database, _LOST_STATES, (SkipReason.LOST.value.encode(),)):
            yield Problem(kind=ProblemKind.LOST, object="states", message=text, rows=((path, seq),))
        text = "its states are not those that were sealed, and a repair marked it"
        for worktree, number in ask(self.database, _DAMAGED_CHECKPOINTS, (DAMAGED,)):
            yield Problem(kind=ProblemKind.LOST, object="checkpoints", message=text, checkpoints=((worktree, number),))

    def _timelines(self) -> Iterator[Problem]:
        total = sum(seq for (seq,) in ask(self.database, "select seq from head"))
        for (worktree,) in ask(self.database, "select id from worktree order by id"):
            yield from _found_twice(lambda worktree=worktree: self._walk(worktree, total))  # type: ignore[misc]

    def _walk(self, worktree: int, total: int) -> list[Problem]:
        # the checkpoints first: each one that is sealed from here on is at rows that come
        replay = Replay(worktree=worktree, sealed=[Sealed(*row) for row in ask(self.database, SEALED, (worktree,))])
        after: int | None = _BEFORE_ALL
        head = None
        while after is not None:
            with self.database.reading() as db:
                page = raw(db).execute(WALK, (worktree, after)).fetchall()
                # in the snapshot of the last page, so that nothing is recorded in between
                head = (
                    raw(db)
                    .execute("select seq, sum, files, bytes, skipped from head where worktree = ?", (worktree,))
                    .fetchone()
                )
            for row in page:
                replay.add(StateRow(*row[:14]), StateRow(*row[14:]) if row[15] is not None else None)
                self.breathe()
            known = [row[1] for row in page if type(row[1]) is int]
            after = known[-1] if known and len(page) == _PAGE else None
            self.progress("versions", self.checked["versions"] + replay.rows, total, 0)
        replay.finish(head)
        self.checked["versions"] += replay.rows
        self.checked["checkpoints"] += len([*replay.sealed])
        return replay.problems

    def _live(self) -> Iterator[Problem]:
        after = _BEFORE_ALL
        while (last := ask(self.database, _LAST_OF_PAGE, (after,))[0][0]) is not None:
            for row in ask(self.database, _UNLIKE, (after, last)):
                yield live_problem(row[0], row[1:9], row[9:]) or Problem(
                    kind=ProblemKind.LIVE, object=f"live {row[0]}", message="it is unlike the newest version"
                )
            after = last
            self.breathe()
        self.checked["paths"] = ask(self.database, "select count(*) from path")[0][0]

    def slice(self, after: int, enough: Callable[[], bool]) -> tuple[list[Problem], int | None]:
        """What is wrong with the contents whose row ids come after ``after``, until there is ``enough``; the last one that was
        looked at, None where that was the last of all.
        """
        packs = Packs(self.home.blobs, 0)
        try:
            found = [*guarded("contents", lambda: self._contents(packs, after, enough))]
        finally:
            packs.close()
        return found, self._reached

    def _contents(
        self, packs: Packs, start: int = _BEFORE_ALL, enough: Callable[[], bool] = lambda: False
    ) -> Iterator[Problem]:
        total = ask(self.database, "select count(*) from blob")[0][0]
        after: int | None = start
        self._reached = start
        while after is not None and not enough():
            page = [BlobRow(*row) for row in ask(self.database, _BLOBS, (after,))]
            if found := [*self._of_page(packs, page)]:
                # what was moved or deleted since its row was read is not damaged
                same = {*page}.intersection(BlobRow(*row) for row in ask(self.database, _BLOBS, (after,)))
                ids = {row.id for row in same}
                yield from (problem for problem in found if ids.issuperset(problem.blobs))
            self.checked["contents"] += len(page)
            after = self._reached = page[-1].id if len(page) == _PAGE else None
            self.progress("contents", self.checked["contents"], total, self.bytes_read)

    def _of_page(self, packs: Packs, page: Sequence[BlobRow]) -> Iterator[Problem]:
        sound = []
        for row in page:
            if self.files is not None and _named_file(row) not in self.files:
                continue
            if problem := blob_problem(row):
                yield problem
            else:
                sound.append(row)
            self.breathe()
        # as they lie there; big ones, which have no pack, last
        sound.sort(key=lambda row: (row.pack is None, row.pack or 0, row.offset, row.inner))
        end: dict[int | None, int] = {}
        for place, rows in groupby(sound, key=_place):
            blobs = [*rows]
            if problem := _file_problem(packs, place, blobs[0]):
                yield _about(problem, blobs)
            elif troubles := [*_frame_problems(packs, place, blobs, end.get(place.pack, 0))]:
                yield from troubles
                # what the table of names says of one tells nothing of the bytes of the others
                told = {number for problem in troubles for number in problem.blobs}
                yield from self._read(packs, place, [row for row in blobs if row.id not in told])
            else:
                end[place.pack] = place.offset + place.stored
                yield from self._read(packs, place, blobs)
            self.breathe()

    def _read(self, packs: Packs, place: Place, blobs: Sequence[BlobRow]) -> Iterator[Problem]:
        reading = self.reading
        wanted = [row for row in blobs if reading and is_sampled(row.name, reading.seed, reading.share)]
        if not wanted:
            return
        self.checked["read"] += len(wanted)
        try:
            if place.pack is None:
                wrong = [] if self._hash_of_big(packs, wanted[0]) == wanted[0].name else wanted
            else:
                data = packs.read(place, max(row.inner + row.size for row in wanted))
                self.bytes_read += sum(row.size for row in wanted)
                wrong = [row for row in wanted if blob_hash(data[row.inner : row.inner + row.size]) != row.name]
            message = "its bytes are not those that its name was made of"
        except StoreDamagedError as error:
            wrong, message = wanted, error.message
        for row in wrong:
            name = f"blob {row.name.hex()[:12]} in {_file(place, row)}"
            yield Problem(kind=ProblemKind.CONTENT, object=name, message=message, blobs=(row.id,))

    def _hash_of_big(self, packs: Packs, row: BlobRow) -> bytes:
        hasher = Hasher()
        with packs.open_big(row.name) as source:
            while chunk := source.read(_CHUNK):
                hasher.update(chunk)
                self.bytes_read += len(chunk)
                self.breathe()
        return hasher.digest()


def _found_twice(look: Callable[[], list[Problem]]) -> list[Problem]:
    first = look()
    if not first:
        return first
    again = {(problem.kind, problem.object) for problem in look()}
    return [problem for problem in first if (problem.kind, problem.object) in again]


def _place(row: BlobRow) -> Place:
    return Place(row.pack, row.offset, row.stored, row.raw, row.codec)


def _named_file(row: BlobRow) -> str | None:
    """The file that a row leads to; None where it cannot be told."""
    is_sound = type(row.name) is bytes and (row.pack is None or type(row.pack) is int)
    return _file(_place(row), row) if is_sound else None


def _file(place: Place, row: BlobRow) -> str:
    return f"blobs/{pack_name(place.pack) if place.pack is not None else f'{BIG}/{row.name.hex()}'}"


def _about(problem: Problem, blobs: Iterable[BlobRow]) -> Problem:
    return Problem(
        kind=problem.kind, object=problem.object, message=problem.message, blobs=tuple(row.id for row in blobs)
    )


def _file_problem(packs: Packs, place: Place, row: BlobRow) -> Problem | None:
    """Whether the file is there, and reaches as far as its frame does."""
    length, name = packs.length(place, row.name), _file(place, row)
    if length is None:
        return Problem(kind=ProblemKind.FILE_MISSING, object=name, message="the file is missing")
    if length < place.offset + place.stored:
        return Problem(
            kind=ProblemKind.FILE_SHORT, object=name, message=f"it ends at {length}, before what rows name in it"
        )
    return None


def _frame_problems(packs: Packs, place: Place, blobs: Sequence[BlobRow], after: int) -> Iterator[Problem]:
    """How the header and the table of a frame in a pack differ from its rows; a big blob's file has none."""
    if place.pack is None:
        return
    name = f"frame at {place.offset} in {_file(place, blobs[0])}"
    try:
        header = packs.header(place, after)
    except OSError as error:
        text = f"it cannot be read: {error.strerror}"
        yield _about(Problem(kind=ProblemKind.FRAME, object=name, message=text), blobs)
        return
    if header is None:
        yield _about(Problem(kind=ProblemKind.FRAME, object=name, message="no header stands before it"), blobs)
        return
    for row in blobs:
        if why := table_trouble(row, header.codec, header.stored, header.raw, header.entries):
            yield Problem(kind=ProblemKind.FRAME, object=name, message=why, blobs=(row.id,))


class Unnamed(NamedTuple):
    """Files in ``blobs/`` that no row names: those that this database may have made, which is no harm (a crash leaves such
    bytes, and a daemon at work has some), and those that it never made.
    """

    ours: list[str]
    foreign: list[str]


def unnamed_files(database: Database, home: Home) -> Unnamed:
    """Raises StoreDamagedError."""
    packs = Packs(home.blobs, 0)
    numbers: Collection[int] = ()
    bigs: Collection[str] = ()
    try:
        # the files first: one that comes into being meanwhile is not looked for among the rows
        with suppress(FileNotFoundError):
            numbers, bigs = packs.numbers(), packs.bigs()
    finally:
        packs.close()
    with database.looking() as db:
        used, reserved = stored.used_packs(db), stored.reserved_packs(db)
        named = {name.hex() for name in stored.big_names(db)}
    left = sorted(set(numbers) - used)
    return Unnamed(
        ours=[
            *(f"blobs/{pack_name(number)}" for number in left if number <= reserved),
            *(f"blobs/{BIG}/{name}" for name in sorted(set(bigs) - named)),
        ],
        foreign=[f"blobs/{pack_name(number)}" for number in left if number > reserved],
    )
