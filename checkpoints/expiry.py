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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from openoxide.checkpoints import heavy, journal, meta, store
from openoxide.checkpoints.clockmark import counted_from, drop_counts
from openoxide.checkpoints.model import Trigger, Worktree
from openoxide.checkpoints.policy import Candidate, Cause, Disk, Plan, Stretch, Tree, limits, plan, thinned_at
from openoxide.checkpoints.retention import FLOOR_OPERATIONS, floor
from openoxide.checkpoints.rows import raw
from openoxide.db import Database, Transaction
from openoxide.settings import RetentionSettings, ThinSettings

# what one transaction takes: nobody who seals waits for more
_BATCH = 25
_PAGE_PATHS = 2_000
_LONGEST_REST_S = 0.1
_TRIGGERS = {trigger.value: trigger for trigger in Trigger}

_CANDIDATES = """
select public_id, worktree, number, seq, trigger, created_ms, expires_ms, name is not null, pinned, forgotten_ms
from checkpoint where failed is null
"""
_STRETCHES = """
select v.blob, coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0), v.worktree, v.seq, v.until from (
  select blob, worktree, seq, lead(seq) over (partition by path order by seq) as until
  from version where path > ? and path <= ?) v
join blob b on b.id = v.blob join frame f on f.id = b.frame
"""
# bytes that no state names: found in staging, or made by a merge
_OF_OUTCOMES = """
select u.blob, coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0), o.worktree
from outcome u join operation o on o.id = u.operation join blob b on b.id = u.blob join frame f on f.id = b.frame
"""

Hold = Callable[[int], AbstractContextManager[bool]]
"""Keeps anybody from using a checkpoint of a worktree that he has named already; False where somebody does."""


@dataclass(slots=True, kw_only=True)
class Done:
    """What was carried out, by id. ``busy``: worktrees that were in use, where nothing was released."""

    forgotten: dict[str, Cause] = field(default_factory=dict)
    released: dict[str, Cause] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)


def candidates(db: Transaction, worktree: int | None = None) -> list[Candidate]:
    """Every sealed checkpoint of the store, or of one worktree."""
    counted = counted_from(db)
    rows = raw(db).execute(
        _CANDIDATES if worktree is None else f"{_CANDIDATES} and worktree = ?", () if worktree is None else (worktree,)
    )
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


def thins_at(db: Transaction, worktree: int, thin: ThinSettings) -> dict[str, int]:
    """When thinning takes the kept checkpoints of a worktree, by id; it passes those that are not in there."""
    held = [c for c in candidates(db, worktree) if c.forgotten_ms is None]
    stay = floor(held, needed(db, worktree))
    return {id_: ms for id_, ms in thinned_at(held, thin).items() if id_ not in stay}


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
) -> Plan:
    """What the policy decides for the whole store. ``folder`` is on the disk that holds it; ``retention`` has the limits
    for all worktrees together, ``retention_of`` what holds for one.
    """
    with database.reading() as db:
        trees = {
            worktree.id: Tree(
                project=worktree.project,
                kind=worktree.kind,
                retention=retention_of(worktree),
                needed=needed(db, worktree.id),
            )
            for worktree in store.worktrees(db)
        }
        found = [c for c in candidates(db) if c.worktree in trees]
        left_out = heavy.left_out(db)
        (stored,) = raw(db).execute("select coalesce(sum(stored), 0) from frame").fetchone()
    wanted, refused = limits(trees, retention.total_quota_bytes, retention.min_free_bytes, disk_of(folder))
    # a quota that holds all that is stored holds what is needed: nothing has to be measured then
    stored += sum(out.size_bytes for out in left_out)
    exceeded = [limit for limit in wanted if limit.cause is Cause.MIN_FREE or stored > limit.most_bytes]
    decided = plan(found, trees, now_ms, exceeded, stretches(database, trees) if exceeded else (), left_out)
    return decided.refusing(refused)


def disk_of(folder: Path) -> Disk:
    """The disk that ``folder`` is on."""
    found = os.statvfs(folder)
    return Disk(size_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)


def stretches(database: Database, worktrees: Collection[int]) -> Iterator[Stretch]:
    """Where each content of the store is needed. Read a page at a time, and right to within what is recorded meanwhile."""
    for content, size, worktree in _page(database, _OF_OUTCOMES, ()):
        if worktree in worktrees:
            yield Stretch(content, round(size), worktree, 0, None)
    (last,) = _page(database, "select coalesce(max(id), 0) from path", ())[0]
    for after in range(0, last, _PAGE_PATHS):
        for content, size, worktree, seq, until in _page(database, _STRETCHES, (after, after + _PAGE_PATHS)):
            if worktree in worktrees:
                yield Stretch(content, round(size), worktree, seq, until)


def _page(database: Database, query: str, values: Sequence[int]) -> list[tuple[int, ...]]:
    with database.looking() as db:
        return raw(db).execute(query, values).fetchall()


def carry_out(database: Database, decided: Plan, now_ms: int, hold: Hold, is_ending: Callable[[], bool] = bool) -> Done:
    """Do what was decided, as far as it still is so; the rest is for the next time. Ends early where ``is_ending``."""
    done = Done()
    # as they are now: the policy may have taken a while
    with database.reading() as db:
        by_id = {c.id: c for c in candidates(db) if c.id in decided.forget or c.id in decided.release}
    # what a limit takes out of the last day first: a prune must not keep it for the fine window
    if decided.fine:
        with database.writing() as db:
            for worktree, seq in decided.fine.items():
                give_up_fine(db, worktree, seq)
    for worktree, batch in _batches(decided.forget, by_id):
        if is_ending():
            return done
        with _at_leisure(), database.writing() as db:
            going = _still(db, worktree, batch)
            store.set_forgotten(db, [c.id for c in going], now_ms)
        done.forgotten |= {c.id: decided.forget[c.id] for c in going}
    for worktree, batch in _batches(decided.release, by_id):
        if is_ending():
            return done
        # the worktree before the database, as everybody who rewinds takes them
        with _at_leisure(), hold(worktree) as held:
            if held:
                with database.writing() as db:
                    going = _still(db, worktree, batch)
                    _release(db, [c.id for c in going])
                done.released |= {c.id: decided.release[c.id] for c in going}
            else:
                done.busy.add(worktree)
    _drop_failed(database, now_ms)
    return done


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


@contextmanager
def _at_leisure() -> Iterator[None]:
    """Rests after a piece of work for twice as long as it took: a lock of threads is not fair, and who seals comes first."""
    began = time.monotonic()
    yield
    time.sleep(min(_LONGEST_REST_S, 2 * (time.monotonic() - began)))


def give_up_fine(db: Transaction, worktree: int, seq: int) -> None:
    """A limit took checkpoints of the last day: up to ``seq`` nothing is kept for the fine window."""
    meta.write(db, meta.FINE, {str(worktree): seq})


def fine_given_up(db: Transaction) -> dict[int, int]:
    """By worktree, up to which position nothing is kept for the fine window."""
    return {int(worktree): seq for worktree, seq in meta.read(db, meta.FINE).items()}
