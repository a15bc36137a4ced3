"""The shell of ``policy``: reads what it decides on, and carries out what it decided, a few checkpoints at a time.

What the policy was told may have changed when its decision is carried out: each transaction looks again whether a checkpoint
is as it was, and whether it is part of the floor by now. A checkpoint that leaves the store leaves as a row; no operation
names it any more then, and a prune finds what nothing needs.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from openoxide.checkpoints import heavy, journal, meta, store
from openoxide.checkpoints.clockmark import counted_from, drop_counts
from openoxide.checkpoints.emptying import emptied
from openoxide.checkpoints.gauge import STORED, Gauge, position
from openoxide.checkpoints.limits import limits
from openoxide.checkpoints.model import Trigger, Worktree
from openoxide.checkpoints.needed import fine_bounds
from openoxide.checkpoints.policy import Candidate, Cause, Disk, Plan, Stretch, Tree, needed_bytes, plan
from openoxide.checkpoints.retention import FLOOR_OPERATIONS
from openoxide.checkpoints.rows import raw
from openoxide.db import Database, Transaction
from openoxide.settings import RetentionSettings

# what one transaction takes: nobody who seals waits for more
_BATCH = 25
_PAGE_PATHS = 2_000
_NAMED = 500
_LONGEST_REST_S = 0.1
_TRIGGERS = {trigger.value: trigger for trigger in Trigger}

_CANDIDATES = """
select public_id, worktree, number, seq, trigger, created_ms, expires_ms, name is not null, pinned, forgotten_ms
from checkpoint where failed is null
"""
_STRETCHES = f"""
select v.blob, {STORED}, v.worktree, v.seq, v.until from (
  select blob, worktree, seq, lead(seq) over (partition by path order by seq) as until
  from version where path > ? and path <= ?) v
join blob b on b.id = v.blob join frame f on f.id = b.frame
"""  # noqa: S608 nothing in it is given
_NEXT_PATHS = "select max(id) from (select id from path where id > ? order by id limit ?)"
# bytes that no state names: found in staging, or made by a merge
_OF_OUTCOMES = f"""
select u.blob, {STORED}, o.worktree
from outcome u join operation o on o.id = u.operation join blob b on b.id = u.blob join frame f on f.id = b.frame
"""  # noqa: S608 nothing in it is given

Hold = Callable[[int], AbstractContextManager[bool]]
"""Keeps anybody from using a checkpoint of a worktree that he has named already; False where somebody does."""


@dataclass(slots=True, kw_only=True)
class Done:
    """What was carried out, by id. ``busy``: worktrees that were in use, where nothing was released."""

    forgotten: dict[str, Cause] = field(default_factory=dict)
    released: dict[str, Cause] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)


def candidates(db: Transaction, where: str = "true", values: Sequence[object] = ()) -> list[Candidate]:
    """Every sealed checkpoint of the store, or those of which ``where`` holds."""
    counted = counted_from(db)
    rows = raw(db).execute(f"{_CANDIDATES} and {where}", values)
    # by position and by table: by the ten thousand, names and Trigger() would take half of the time
    return [
        Candidate(
            id_,
            worktree,
            number,
            seq,
            _TRIGGERS[trigger],
            counted.get(id_, created_ms),
            expires_ms,
            bool(named),
            bool(pinned),
            id_ in counted,
            forgotten_ms,
        )
        for id_, worktree, number, seq, trigger, created_ms, expires_ms, named, pinned, forgotten_ms in rows
    ]


def needed(db: Transaction, worktree: int) -> set[str]:
    """The ids of the checkpoints that operations go back to or compare with: those that are not settled, and the last
    ones that can be reversed.
    """
    known = journal.operations(db, worktree)
    undoable, redoable = journal.undo_stack(known)
    last = sorted(undoable + redoable, key=lambda operation: operation.id)[-FLOOR_OPERATIONS:]
    rows = {row for operation in last for row in (operation.before, operation.after)}
    for operation in known:
        if operation.phase in journal.OPEN_PHASES:
            rows |= {operation.before, operation.after, operation.target}
    marks = ",".join(str(row) for row in rows if row is not None)
    return {id_ for (id_,) in raw(db).execute(f"select public_id from checkpoint where id in ({marks})")}  # noqa: S608


def survey(
    database: Database,
    folder: Path,
    retention: RetentionSettings,
    retention_of: Callable[[Worktree], RetentionSettings],
    now_ms: int,
    gauge: Gauge,
    *,
    empty_trash: bool = False,
) -> tuple[Plan, Gauge]:
    """What the policy decides for the whole store. ``folder`` is on the disk that holds it; ``retention`` has the limits
    for all worktrees together, ``retention_of`` what holds for one. ``gauge``: what was measured the last time; the answer
    has what it is now. ``empty_trash``: somebody wants room.
    """
    with database.reading() as db:
        trees = _trees(db, retention_of, now_ms)
        found = [c for c in candidates(db) if c.worktree in trees]
        left_out = heavy.left_out(db)
        upto = position(db)
        (stored,) = raw(db).execute("select coalesce(sum(stored), 0) from frame").fetchone()
        wanted, refused = limits(trees, retention.total_quota_bytes, retention.min_free_bytes, disk_of(folder))
        # a quota that holds all that is stored holds what is needed: nothing has to be measured then
        stored += sum(out.size_bytes for out in left_out)
        exceeded = [limit for limit in wanted if limit.cause is Cause.MIN_FREE or stored > limit.most_bytes]
        # what is left out counts as if it were held, of which the gauge knows nothing
        if exceeded and not left_out:
            exceeded = gauge.exceeded(db, exceeded, trees, now_ms)
    decided = plan(found, trees, now_ms, exceeded, stretches(database, trees) if exceeded else (), left_out)
    if exceeded:
        gauge = Gauge(needed=decided.needed, upto=upto, at_ms=now_ms)
    decided = decided.refusing(refused)
    return (emptied(decided, trees) if empty_trash else decided), gauge


def _trees(db: Transaction, retention_of: Callable[[Worktree], RetentionSettings], now_ms: int) -> dict[int, Tree]:
    given_up = fine_given_up(db)
    return {
        worktree.id: Tree(
            project=worktree.project,
            kind=worktree.kind,
            retention=retention_of(worktree),
            needed=needed(db, worktree.id),
            fine=fine_bounds(db, worktree.id, now_ms, given_up.get(worktree.id, 0)),
            root=os.fsdecode(worktree.root),
        )
        for worktree in store.worktrees(db)
    }


def used(database: Database, now_ms: int) -> dict[str | None, int]:
    """What quotas count, in bytes by project and (None) in all: the sum that an expire holds against them."""
    with database.reading() as db:
        trees = _trees(db, lambda _: RetentionSettings(), now_ms)
        found = [c for c in candidates(db) if c.worktree in trees]
    return needed_bytes(found, trees, now_ms, stretches(database, trees))


def disk_of(folder: Path) -> Disk:
    """The disk that ``folder`` is on."""
    found = os.statvfs(folder)
    return Disk(size_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)


def stretches(database: Database, worktrees: Collection[int]) -> Iterator[Stretch]:
    """Where each content of the store is needed. Read a page at a time, and right to within what is recorded meanwhile."""
    for content, size, worktree in _page(database, _OF_OUTCOMES, ()):
        if worktree in worktrees:
            yield Stretch(content, round(size), worktree, 0, None)
    after = 0
    while (last := _page(database, _NEXT_PATHS, (after, _PAGE_PATHS))[0][0]) is not None:
        for content, size, worktree, seq, until in _page(database, _STRETCHES, (after, last)):
            if worktree in worktrees:
                yield Stretch(content, round(size), worktree, seq, until)
        after = last


def _page(database: Database, query: str, values: Sequence[int]) -> list[tuple[int, ...]]:
    with database.looking() as db:
        return raw(db).execute(query, values).fetchall()


def carry_out(database: Database, decided: Plan, now_ms: int, hold: Hold, is_ending: Callable[[], bool] = bool) -> Done:
    """Do what was decided, as far as it still is so; the rest is for the next time. Ends early where ``is_ending``."""
    done = Done()
    by_id: dict[str, Candidate] = {}
    if decided.forget or decided.release:
        # as they are now: the policy may have taken a while
        with database.reading() as db:
            by_id = {c.id: c for c in _named(db, [*decided.forget, *decided.release])}
    # what a limit takes out of the last day first: a prune must not keep it for the fine window
    if decided.fine:
        with database.writing() as db:
            for worktree, seq in decided.fine.items():
                give_up_fine(db, worktree, seq)
    rest = _Rest()
    for worktree, batch in _batches(decided.forget, by_id):
        if is_ending():
            return done
        with rest, database.writing() as db:
            going = _still(db, worktree, batch)
            store.set_forgotten(db, [c.id for c in going], now_ms)
        done.forgotten |= {c.id: decided.forget[c.id] for c in going}
    for worktree, batch in _batches(decided.release, by_id):
        if is_ending():
            return done
        # the worktree before the database, as everybody who rewinds takes them
        with rest, hold(worktree) as held:
            if held:
                with database.writing() as db:
                    going = _still(db, worktree, batch)
                    _release(db, [c.id for c in going])
                done.released |= {c.id: decided.release[c.id] for c in going}
            else:
                done.busy.add(worktree)
    _drop_failed(database, now_ms)
    return done


def _named(db: Transaction, ids: Sequence[str]) -> Iterator[Candidate]:
    for start in range(0, len(ids), _NAMED):
        some = ids[start : start + _NAMED]
        yield from candidates(db, f"public_id in ({','.join('?' * len(some))})", some)


def _batches(causes: Mapping[str, Cause], by_id: Mapping[str, Candidate]) -> Iterator[tuple[int, Sequence[Candidate]]]:
    """The checkpoints in ``causes``, the oldest first, a few of one worktree at a time."""
    of_tree: defaultdict[int, list[Candidate]] = defaultdict(list)
    for id_ in causes:
        if id_ in by_id:
            of_tree[by_id[id_].worktree].append(by_id[id_])
    for worktree, found in sorted(of_tree.items()):
        found.sort(key=lambda c: c.number)
        for start in range(0, len(found), _BATCH):
            yield worktree, found[start : start + _BATCH]


def _still(db: Transaction, worktree: int, batch: Sequence[Candidate]) -> list[Candidate]:
    """Those of ``batch`` that are as they were and not part of the floor."""
    marks = ",".join("?" * len(batch))
    counted = counted_from(db)
    rows = raw(db).execute(
        "select public_id, expires_ms, name is not null, pinned, forgotten_ms from checkpoint"  # noqa: S608
        f" where public_id in ({marks}) and number < (select max(number) from checkpoint"
        " where worktree = ? and failed is null and forgotten_ms is null)",
        (*(c.id for c in batch), worktree),
    )
    now = {row[0]: row[1:] for row in rows}
    stay = needed(db, worktree)
    return [
        c
        for c in batch
        if c.id not in stay
        and not c.pinned
        and (c.id in counted) == c.spared
        and now.get(c.id) == (c.expires_ms, int(c.named), 0, c.forgotten_ms)
    ]


def _release(db: Transaction, ids: Sequence[str]) -> None:
    marks = ",".join("?" * len(ids))
    gone = f"(select id from checkpoint where public_id in ({marks}))"  # noqa: S608
    # before the rows: SQLite may give their numbers again, and an operation would name somebody else's checkpoint
    for column in ("target", "before", "after"):
        raw(db).execute(f"update operation set {column} = null where {column} in {gone}", ids)  # noqa: S608
    raw(db).execute(f"delete from position where checkpoint in {gone}", ids)  # noqa: S608
    raw(db).execute(f"delete from checkpoint where public_id in ({marks})", ids)  # noqa: S608
    drop_counts(db, ids)


def _drop_failed(database: Database, now_ms: int) -> None:
    """Checkpoints that could not be taken say so for as long as they would have been kept. The newest of a worktree stay:
    a number is never given twice.
    """
    with database.writing() as db:
        found = raw(db).execute(
            "select public_id from checkpoint where failed is not null and expires_ms <= ? and number < ("
            "select max(number) from checkpoint c where c.worktree = checkpoint.worktree and c.failed is null"
            " and c.forgotten_ms is null) limit ?",
            (now_ms, _BATCH),
        )
        _release(db, [id_ for (id_,) in found])


class _Rest:
    """Before a further piece of work a rest of twice as long as the last one took: a lock of threads is not fair, and who
    seals comes first.
    """

    def __init__(self) -> None:
        self._began = self._rest_s = 0.0

    def __enter__(self) -> None:
        time.sleep(self._rest_s)
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._rest_s = min(_LONGEST_REST_S, 2 * (time.monotonic() - self._began))


def give_up_fine(db: Transaction, worktree: int, seq: int) -> None:
    """A limit took checkpoints of the last day: up to ``seq`` nothing is kept for the fine window."""
    meta.write(db, meta.FINE, {str(worktree): seq})


def fine_given_up(db: Transaction) -> dict[int, int]:
    """By worktree, up to which position nothing is kept for the fine window."""
    return {int(worktree): seq for worktree, seq in meta.read(db, meta.FINE).items()}
