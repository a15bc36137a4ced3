"""Makes the rows of a database agree again, from those that could be read. What follows from versions (live rows, totals,
sums) is made anew; what names something that is gone names nothing; what nobody can tell any more is marked as lost.

The versions are the truth of a timeline, so of them nothing is changed but the mark. Nothing is guessed: a state is what its
row says, or lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from openoxide.checkpoints import journal
from openoxide.checkpoints.check import Replay, Sealed, StateRow, path_trouble, reference_trouble, state_trouble
from openoxide.checkpoints.hashing import HASH_BYTES, sum_to_bytes
from openoxide.checkpoints.journal import OperationKind, OutcomeKind, Phase
from openoxide.checkpoints.model import DAMAGED, LOST_FRAME, Certainty, Kind, Mark, SkipReason, Trigger, WindowKind
from openoxide.checkpoints.proving import bring_back
from openoxide.checkpoints.steps import Action
from openoxide.checkpoints.verifying import SEALED, WALK

LOST = SkipReason.LOST.value.encode()
LOST_ROOT = b"/lost"  # where a history is said to be whose place is not known any more
_BEFORE_ALL = -(1 << 63)
_PAGE = 1_000
_MOST_NAMES = 20  # each takes two walks over its worktree


class Fix(NamedTuple):
    """What was made good: what it is, for people, and how many rows of it. ``loses``: something cannot be told any more."""

    what: str
    rows: int
    loses: bool = False


class _Rule(NamedTuple):
    what: str
    statement: str
    loses: bool = False


def _listed(values: type[Enum]) -> str:
    return ", ".join(f"'{member.value}'" for member in values)


def _unnamed(table: str, column: str, other: str) -> _Rule:
    statement = (
        f"update {table} set {column} = null where {column} is not null and {column} not in (select id from {other})"  # noqa: S608
    )
    return _Rule(f"{table}: the {column} that is gone", statement, loses=True)


def _dropped(table: str, why: str, condition: str) -> _Rule:
    return _Rule(f"{table}: {why}", f"delete from {table} where {condition}", loses=True)  # noqa: S608


_SEVERAL = "(select path from version group by path having count(distinct worktree) > 1)"
_NO_OPERATION = "operation not in (select id from operation)"
_NO_WORKTREE = "worktree not in (select id from worktree)"
# the order matters: each goes by what those before it have put right
_PLACES = (
    _Rule(
        "path: its worktree, as its states tell",
        "update or ignore path set worktree = (select v.worktree from version v where v.path = path.id limit 1)"  # noqa: S608
        f" where {_NO_WORKTREE} and id not in {_SEVERAL}"
        " and exists (select 1 from version v join worktree w on w.id = v.worktree where v.path = path.id)",
    ),
    _Rule(
        "worktree: known by its paths alone",
        "insert into worktree(id, project, root, kind, dev, ino, birth_ns, watching, created_ms)"  # noqa: S608
        f" select worktree, 'lost-' || worktree, cast('/lost/' || worktree as blob), 'code', 0, 0, 0, 0, 0 from (select distinct"
        f" p.worktree from path p join version v on v.path = p.id and v.worktree = p.worktree where p.{_NO_WORKTREE})",
        loses=True,
    ),
    _Rule(
        "worktree: a root that is no path",
        "update worktree set watching = 0, root = cast('/lost/' || id as blob) where substr(root, 1, 1) <> x'2f'",
        loses=True,
    ),
    _Rule("worktree: whether it is watched", "update or ignore worktree set watching = 1 where watching not in (0, 1)"),
    _Rule("worktree: whether it is watched", "update worktree set watching = 0 where watching not in (0, 1)"),
    _dropped("path", "a name that none can have", "path_trouble(path) <> ''"),
    _dropped("path", "of no worktree", _NO_WORKTREE),
    _dropped("version", "of a path that is gone", "path not in (select id from path)"),
    _Rule(
        "version: its worktree, as its path tells",
        "update version set worktree = (select worktree from path where id = version.path)"
        " where worktree <> (select worktree from path where id = version.path)",
    ),
    *(_dropped(table, "of no worktree", _NO_WORKTREE) for table in ("checkpoint", "window", "gap", "operation", "head", "mark")),
    # one of 0 holds for every memory
    _dropped("taint", "of no worktree", f"worktree <> 0 and {_NO_WORKTREE}"),
    _dropped("blob", "a name that is none", f"length(hash) <> {HASH_BYTES} or size < 0 or inner < 0"),
    _Rule(
        "blob: a place that cannot be",
        f"update blob set frame = {LOST_FRAME}, inner = 0 where frame <> {LOST_FRAME} and not exists (select 1 from frame f"  # noqa: S608
        " where f.id = blob.frame and min(f.offset, f.stored, f.raw) >= 0 and f.codec >= 0 and blob.inner + blob.size <= f.raw"
        " and (f.pack is not null or (blob.inner = 0 and f.offset = 0 and blob.size = f.raw)))",
    ),
)  # fmt: skip
_REST = (
    _dropped("window", "of a kind that there is not", f"kind not in ({_listed(WindowKind)})"),
    _Rule("window: it ends before it begins", "update window set ended_seq = began_seq where ended_seq < began_seq"),
    _unnamed("window", "parent", "window"),
    _unnamed("checkpoint", "turn", "window"),
    # of all there are the one that a retention keeps longest
    _Rule(
        "checkpoint: its trigger",
        f"update checkpoint set trigger = 'manual' where trigger not in ({_listed(Trigger)})",  # noqa: S608
        loses=True,
    ),
    _Rule(
        "checkpoint: a mark that is none",
        "update checkpoint set pinned = pinned <> 0, complete = complete <> 0, late = late <> 0, added = max(added, 0),"
        " modified = max(modified, 0), removed = max(removed, 0), skipped = max(skipped, 0) where not (pinned in (0, 1) and"
        " complete in (0, 1) and late in (0, 1) and min(added, modified, removed, skipped) >= 0)",
        loses=True,
    ),
    _dropped("checkpoint", "a number that is none", "number <= 0"),
    # one that is sealed is compared with its states (_totals); of one that failed nothing is to be compared
    _Rule(
        "checkpoint: the hash of one that failed",
        f"update checkpoint set manifest_hash = zeroblob({HASH_BYTES})"  # noqa: S608
        f" where failed is not null and length(manifest_hash) <> {HASH_BYTES}",
    ),
    _Rule("window: where it began", "update window set began_seq = 0 where began_seq < 0"),
    _dropped("operation", "of a kind that there is not", f"kind not in ({_listed(OperationKind)})"),
    # it must neither be taken up again nor be reversed
    _Rule(
        "operation: how far it was",
        f"update operation set phase = 'aborted' where phase not in ({_listed(Phase)})",  # noqa: S608
        loses=True,
    ),
    _unnamed("operation", "reverses", "operation"),
    *(
        _Rule(
            f"operation: the checkpoint {column} that is gone",
            f"update operation set {column} = null where {column} is not null and {column} not in"  # noqa: S608
            " (select c.id from checkpoint c where c.worktree = operation.worktree)",
            loses=True,
        )
        for column in ("target", "before", "after")
    ),
    _Rule(
        "operation: checkpoints before and after that cannot be",
        "update operation set before = null, after = null where exists (select 1 from checkpoint b join checkpoint a"
        " where b.id = operation.before and a.id = operation.after and (b.number >= a.number or b.seq > a.seq))",
        loses=True,
    ),
    _dropped("mark", "of a kind that there is not", f"standing not in ({_listed(Mark)}) or length(hash) <> {HASH_BYTES}"),
    _dropped("step", "of no operation, or not to be read", f"{_NO_OPERATION} or step_trouble(action, old, new)"),
    _dropped("outcome", "of no operation, or of no kind", f"{_NO_OPERATION} or kind not in ({_listed(OutcomeKind)})"),
    _unnamed("outcome", "blob", "blob"),
    _Rule(
        "writer: who it was",
        f"update writer set certainty = '{Certainty.UNKNOWN.value}', operation = null"  # noqa: S608
        f" where certainty not in ({_listed(Certainty)})"
        " or (operation is not null and operation not in (select id from operation))",
        loses=True,
    ),
    _dropped("writer_window", "of a window that is gone", "window not in (select id from window)"),
    _dropped("writer_window", "of a writer that is gone", "writer not in (select id from writer)"),
    _unnamed("version", "writer", "writer"),
    _Rule(
        "claim: of what is gone",
        "delete from claim where writer not in (select id from writer) or not exists"
        " (select 1 from version v where v.path = claim.path and v.seq = claim.seq)",
        loses=True,
    ),
)  # fmt: skip
_STATE = "kind, mode, size, mtime_ns, blob, target, flags"
_SAME = " and ".join(f"o.{name.strip()} is v.{name.strip()}" for name in f"seq, {_STATE}".split(","))
_SEEN = "dev, ino, stat_size, stat_mtime_ns, ctime_ns, stat_mode, nlink, read_at_ns"
# bytes that a stat was read with go along only where the state is the very one that the stat was read for
_LIVE = f"""
insert into live(path, seq, {_STATE}, {_SEEN})
select v.path, v.seq, {", ".join(f"v.{name.strip()}" for name in _STATE.split(","))},
  {", ".join(f"o.{name.strip()}" for name in _SEEN.split(","))}
from version v left join old_live o on o.path = v.path and {_SAME}
where v.seq = (select max(seq) from version n where n.path = v.path)
"""  # noqa: S608
_DIFFERENT = f"""
select count(*) from (select path, seq, {_STATE} from live except select path, seq, {_STATE} from old_live)
"""  # noqa: S608
_STATES = f"""
select v.path, v.seq, p.path, v.kind, v.mode, v.size, v.mtime_ns, v.blob, b.hash, b.size, v.target, v.flags
from version v left join path p on p.id = v.path left join blob b on b.id = v.blob
where (v.path, v.seq) > (?, ?) order by v.path, v.seq limit {_PAGE}
"""  # noqa: S608


def put_right(db: sqlite3.Connection) -> Iterator[Fix]:
    """All that can be before it is known which contents there are. In the transaction of the caller."""
    db.create_function("path_trouble", 1, path_trouble, deterministic=True)
    db.create_function("step_trouble", 3, _step_trouble, deterministic=True)
    yield from _applied(db, _PLACES)
    yield from _apart(db)


def settle(db: sqlite3.Connection) -> Iterator[Fix]:
    """The rest: states that nobody can tell are marked, and what follows from the others is made anew."""
    yield from _sizes(db)
    yield from _proven(db)
    yield from _lost_states(db)
    yield from _applied(db, _REST)
    # a place that was given up may have been the last content of its frame
    db.execute("delete from frame where id not in (select frame from blob)")
    db.execute("delete from meta where key like 'damaged:%'")
    yield from _live(db)
    yield from _totals(db)


def _applied(db: sqlite3.Connection, rules: tuple[_Rule, ...]) -> Iterator[Fix]:
    for rule in rules:
        before = db.total_changes
        db.execute(rule.statement)
        if count := db.total_changes - before:
            yield Fix(rule.what, count, rule.loses)


def _step_trouble(action: str, old: str, new: str) -> bool:
    known = action in {member.value for member in Action}
    return not (known and journal.is_state(old) and journal.is_state(new))


def _apart(db: sqlite3.Connection) -> Iterator[Fix]:
    """No two states are at one position: which of them belongs there is not known, so both are lost. The mark of the second
    goes to the next free position.
    """
    query = "select worktree, seq from version group by worktree, seq having count(*) > 1"
    places = db.execute(query).fetchall()
    # all at once before anything moves: a mark may come to lie where another pair is
    for worktree, seq in places:
        paths = db.execute("select path from version where worktree = ? and seq = ?", (worktree, seq)).fetchall()
        for at, (path,) in enumerate(paths):
            _mark(db, path, seq)
            if at:
                _move(db, worktree, path, seq)
    if places:
        yield Fix("version: several at one position", len(places), loses=True)


def _move(db: sqlite3.Connection, worktree: int, path: int, seq: int) -> None:
    taken = {s for (s,) in db.execute("select seq from version where worktree = ? and seq > ?", (worktree, seq))}
    (until,) = db.execute("select min(seq) from version where path = ? and seq > ?", (path, seq)).fetchone()
    free = next((s for s in range(seq + 1, until or seq + len(taken) + 2) if s not in taken), None)
    if free is None:
        db.execute("delete from version where path = ? and seq = ?", (path, seq))
    else:
        db.execute("update version set seq = ? where path = ? and seq = ?", (free, path, seq))


def _mark(db: sqlite3.Connection, path: int, seq: int) -> None:
    db.execute(
        "update version set kind = ?, mode = 0, size = 0, mtime_ns = 0, blob = null, target = ?, flags = 0"
        " where path = ? and seq = ?",
        (Kind.SKIPPED, LOST, path, seq),
    )


def _sizes(db: sqlite3.Connection) -> Iterator[Fix]:
    """A content that is lost has the size that every state of it says: its own row's cannot be compared with its bytes."""
    before = db.total_changes
    db.execute(
        "update blob set size = (select v.size from version v where v.blob = blob.id limit 1)"  # noqa: S608
        f" where frame = {LOST_FRAME} and id in (select blob from version group by blob having count(distinct size) = 1)"
        " and size <> (select v.size from version v where v.blob = blob.id limit 1)"
    )
    if count := db.total_changes - before:
        yield Fix("blob: its size, as its states tell", count)


def _proven(db: sqlite3.Connection) -> Iterator[Fix]:
    brought = 0
    for (worktree,) in db.execute("select id from worktree order by id").fetchall():
        brought += bring_back(db, worktree, *_replayed(db, worktree))
    if brought:
        yield Fix("version: a state that a live row has, and the sums prove", brought)


def names_by_sums(db: sqlite3.Connection, indexed: Sequence[tuple[int, int, bytes]]) -> Iterator[Fix]:
    """Paths (id, worktree and name) whose index has another name than their row: where more sums are right by the index's, it
    is taken.
    """
    query = "select path from path where id = ? and worktree = ? and path <> ?"
    differ = [(row, found[0]) for row in indexed if (found := db.execute(query, row).fetchone())]
    renamed = 0
    for (number, worktree, name), old in differ[:_MOST_NAMES]:
        before = _right_sums(db, worktree)
        renaming = "update or ignore path set path = ? where id = ?"
        if db.execute(renaming, (name, number)).rowcount:
            if _right_sums(db, worktree) > before:
                renamed += 1
            else:
                db.execute(renaming, (old, number))
    if renamed:
        yield Fix("path: a name that its index has, and the sums prove", renamed)


def _right_sums(db: sqlite3.Connection, worktree: int) -> int:
    """How many of a worktree's checkpoints, and its head, have the sum that its states give."""
    replay, sealed = _replayed(db, worktree)
    head = db.execute("select sum from head where worktree = ?", (worktree,)).fetchone()
    right = sum(one.number in replay.passed and replay.passed[one.number][0] == one.manifest_hash for one in sealed)
    return right + bool(head == (replay.totals[1],))


def _lost_states(db: sqlite3.Connection) -> Iterator[Fix]:
    last, lost = (_BEFORE_ALL, _BEFORE_ALL), 0
    while page := db.execute(_STATES, last).fetchall():
        for row in page:
            state = StateRow(*row)
            if reference_trouble(state) or state_trouble(state):
                _mark(db, row[0], row[1])
                lost += 1
        last = page[-1][:2]
    # a position below the first one is none
    lost += db.execute("delete from version where seq < 1").rowcount
    if lost:
        yield Fix("version: a state that cannot be", lost, loses=True)


def _live(db: sqlite3.Connection) -> Iterator[Fix]:
    db.execute("create temp table old_live as select * from live")
    db.execute("create index temp.old_live_path on old_live(path)")
    db.execute("delete from live")
    db.execute(_LIVE)
    (count,) = db.execute(_DIFFERENT).fetchone()
    (gone,) = db.execute("select count(*) from old_live where path not in (select path from live)").fetchone()
    db.execute("drop table old_live")
    if count + gone:
        yield Fix("live: made anew from the states", count + gone)


def _totals(db: sqlite3.Connection) -> Iterator[Fix]:
    """Heads, and what each checkpoint's hash is compared with: one whose states are not those that were sealed is marked."""
    heads = damaged = 0
    for (worktree,) in db.execute("select id from worktree order by id").fetchall():
        replay, sealed = _replayed(db, worktree)
        old = db.execute("select seq, sum, files, bytes, skipped from head where worktree = ?", (worktree,)).fetchone()
        if replay.totals != (old or (0, sum_to_bytes(0), 0, 0, 0)):
            db.execute("insert or replace into head values(?, ?, ?, ?, ?, ?)", (worktree, *replay.totals))
            heads += 1
        marked = sum(_marked(db, one, replay) for one in sealed)
        damaged += marked
        if marked:
            # a state may be wrong that a stat was kept for: the next pass reads every file
            db.execute(
                f"update live set ({_SEEN}) = (null, null, null, null, null, null, null, null)"  # noqa: S608
                " where path in (select id from path where worktree = ?)",
                (worktree,),
            )
        end = replay.totals[0]
        db.execute("update window set began_seq = ?1 where worktree = ?2 and began_seq > ?1", (end, worktree))
        db.execute("update window set ended_seq = ?1 where worktree = ?2 and ended_seq > ?1", (end, worktree))
        db.execute("update checkpoint set seq = ?1 where worktree = ?2 and seq > ?1", (end, worktree))
        db.execute("update checkpoint set seq = 0 where worktree = ? and seq < 0", (worktree,))
    if heads:
        yield Fix("head: totals made anew from the states", heads)
    if damaged:
        yield Fix("checkpoint: its states are not those that were sealed", damaged, loses=True)


def _replayed(db: sqlite3.Connection, worktree: int) -> tuple[Replay, list[Sealed]]:
    sealed = [Sealed(*row) for row in db.execute(SEALED, (worktree,))]
    replay = Replay(worktree=worktree, sealed=sealed)
    after: int | None = _BEFORE_ALL
    while after is not None:
        page = db.execute(WALK, (worktree, after)).fetchall()
        for row in page:
            replay.add(StateRow(*row[:14]), StateRow(*row[14:]) if row[15] is not None else None)
        after = page[-1][1] if page else None
    replay.finish(None)
    return replay, sealed


def _marked(db: sqlite3.Connection, one: Sealed, replay: Replay) -> bool:
    """Mark a checkpoint whose states have another sum; from then on its hash is that of what is left."""
    end, total, *_, skipped = replay.totals
    manifest, count = replay.passed.get(one.number, (total, skipped))
    if (one.manifest_hash, one.skipped) == (manifest, count) and 0 <= one.seq <= end:
        return False
    db.execute(
        "update checkpoint set complete = 0, gap = ?, manifest_hash = ?, skipped = ? where worktree = ? and number = ?",
        (DAMAGED, manifest, count, one.worktree, one.number),
    )
    return True
