"""How a plan is carried out: journal, stage, exchange, verify, seal, in one worktree or in the code and the memory together.

Both are journalled in one commit before either is touched, and ended in one after both are sealed: so they are always in the
same phase, and what interrupts one is settled with the other. The caller holds the locks of both, the code's first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, store
from openoxide.checkpoints.apply import Applied, Applier, apply_together, attribution
from openoxide.checkpoints.gitposition import moved_since, read_git
from openoxide.checkpoints.journal import CHANGED, Operation, OperationKind, Outcome, OutcomeKind, Phase
from openoxide.checkpoints.merging import Resolution
from openoxide.checkpoints.model import Checkpoint, Trigger
from openoxide.checkpoints.plan import RewindPlan, Scope
from openoxide.checkpoints.timeline import Attribute
from openoxide.checkpoints.tree import go_on_here, identity_of
from openoxide.daemon.answers import checkpoint_object, outcome_entries, planned_outcomes, time_or_none
from openoxide.daemon.operations.looking import holds
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.protocol.rewinds import MemoryPart, RewindAnswer
from openoxide.daemon.watched import Label, Watched, writer_between_windows
from openoxide.errors import InterruptedOperationError, OpenOxideError
from openoxide.ids import ID_BYTES, letters, short

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an operation is, before it has a plan. ``target``: what the user named; ``reverses``: what is taken back."""

    kind: OperationKind
    scope: Scope = Scope.ALL
    exact: bool = False
    touch: bool = False
    partial: bool = False
    resolution: Resolution = Resolution.KEEP
    target: Checkpoint | None = None
    reverses: Operation | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is to be done in one worktree, planned at ``now_seq``; ``before`` is None for a dry run."""

    watched: Watched
    intent: Intent
    plan: RewindPlan
    before: Checkpoint | None
    now_seq: int
    target_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An operation whose exchange is done, and is to be recorded."""

    watched: Watched
    operation: Operation
    applied: Applied
    outcomes: Sequence[Outcome]
    by: Attribute


def carry_out(service: Service, code: Part, report: Reporter, memory: Part | None = None) -> RewindAnswer:
    """Do what is planned for the code, and for the memory with it; a dry run's answer where nothing is to be done. Raises
    StoreDamagedError for a dry run too.
    """
    if code.before is None:
        for part in (code, *([memory] if memory else [])):
            with part.watched.open_tree() as tree:
                Applier(service.timeline, tree).require_prepared(part.plan)
    if code.before is None or not (code.plan.changes or (memory and memory.plan.changes)):
        answer = _answer(code.watched, code.intent, code.plan, planned_outcomes(code.plan, (), ()), code.before, None)
        if memory is not None:
            answer["memory"] = _memory_answer(memory, planned_outcomes(memory.plan, (), ()))
        return answer
    # the code's always, though nothing of it changes: it is what undo and redo go by
    parts = [code, *([memory] if memory is not None and memory.plan.changes else [])]
    report({"stage": code.intent.kind.value, "done": 0, "total": sum(len(p.plan.changes) for p in parts), "bytes": 0})
    with ExitStack() as trees:
        appliers = [Applier(service.timeline, trees.enter_context(part.watched.open_tree())) for part in parts]
        operations, applied = service.reserve.spend(lambda: _exchange(service, parts, appliers))
        ended = [
            Ended(
                watched=part.watched,
                operation=operation,
                applied=done,
                outcomes=planned_outcomes(part.plan, done.left, applier.verify(done)),
                by=attribution(operation, done.steps, writer_between_windows(part.watched.windows)),
            )
            for part, operation, applier, done in zip(parts, operations, appliers, applied, strict=True)
        ]
    outcomes = conclude(service, ended, Phase.DONE)
    for part, operation in zip(parts, operations, strict=True):
        sweep_soon(service, part.watched, operation)
    notes = [note for done in applied for note in done.notes]
    notes += _made_anew(service, code.watched)
    answer = _answer(code.watched, code.intent, code.plan, outcomes[0], code.before, operations[0], notes)
    if memory is not None:
        planned = planned_outcomes(memory.plan, (), ())
        answer["memory"] = _memory_answer(memory, outcomes[1] if len(outcomes) > 1 else planned)
    return answer


def refuse_while_interrupted(service: Service, watched: Watched) -> None:
    """Raises InterruptedOperationError where an operation is open that has touched something."""
    with service.timeline.database.reading() as db:
        begun = [o for o in journal.open_operations(db, watched.worktree.id) if o.phase is not Phase.PREPARED]
    if begun:
        raise InterruptedOperationError(
            f"operation {short(begun[-1].public_id)} was interrupted and is not settled",
            hint="run `oxide-ctl rewind --continue` or `oxide-ctl rewind --abort` first",
        )


def sweep_soon(service: Service, watched: Watched, operation: Operation) -> None:
    """Empty the staging folder of an operation that ended, in the background."""
    service.background.submit(f"sweep {operation.id}", lambda: sweep_ended(service, watched))


def _made_anew(service: Service, watched: Watched) -> Iterator[str]:
    """Watched projects inside this one whose root is another directory now, which nobody but the user may take for theirs."""
    outer = watched.worktree.root
    for inner in service.trees():
        root = inner.worktree.root
        with suppress(OSError):  # it is not there: that is told of by status
            if root != outer and holds(outer, root) and not identity_of(root).same_as(inner.identity):
                root_shown = os.fsdecode(root)
                yield f"{root_shown} is watched too and is another directory now: {go_on_here(root_shown)}"


def _exchange(
    service: Service, parts: Sequence[Part], appliers: Sequence[Applier]
) -> tuple[list[Operation], list[Applied]]:
    """Begin the operations and carry them out. A full disk stops them before anything is touched, and never later: what was
    begun is given up, now or by whoever comes next.
    """
    for part, applier in zip(parts, appliers, strict=True):
        # the one before may have come further than its error tells
        refuse_while_interrupted(service, part.watched)
        with service.timeline.database.reading() as db:
            begun = journal.open_operations(db, part.watched.worktree.id)
        for operation in begun:
            applier.give_up(operation)
    operations = begin(service, parts)
    shares = [(a, o, p.plan) for a, o, p in zip(appliers, operations, parts, strict=True)]
    return operations, apply_together(service.timeline, shares)


def begin(service: Service, parts: Sequence[Part]) -> list[Operation]:
    """Record the operations as prepared, all at once; those behind the first are bound to it."""
    found: list[Operation] = []
    blobs = service.timeline.blobs
    merged = {c.wanted.blob: c.merged for p in parts for c in p.plan.merge if c.wanted.blob and c.merged is not None}
    with service.timeline.database.writing() as db:
        # with the lock, since they are few: before they had rows a prune would drop their pack
        blobs.adopt(db, blobs.write(merged), merged)
        for part in parts:
            prepared = _prepared(service, store.CheckpointQuery(db, part.watched.worktree.id), part, found)
            begun = journal.begin(db, prepared)
            merging = [Outcome(kind=OutcomeKind.MERGING, path=c.path, blob=c.wanted.blob) for c in part.plan.merge]
            journal.add_outcomes(db, begun.id, merging)
            found.append(begun)
    return found


def _prepared(
    service: Service, checkpoints: store.CheckpointQuery, part: Part, others: Sequence[Operation]
) -> Operation:
    intent, plan = part.intent, part.plan
    assert part.before is not None, "nothing is begun by a dry run"
    return Operation(
        id=0,
        public_id=letters(os.urandom(ID_BYTES)),
        worktree=part.watched.worktree.id,
        kind=intent.kind,
        phase=Phase.PREPARED,
        at_ms=service.clock.now_ms(),
        boot_id=service.clock.boot_id(),
        boot_ms=service.clock.boot_ms(),
        scope=intent.scope.value,
        exact=intent.exact,
        touch=intent.touch,
        reverses=intent.reverses.id if intent.reverses else None,
        target=checkpoints.row_id(intent.target.id) if intent.target else None,
        before=checkpoints.row_id(part.before.id),
        summary=f"{len(plan.restore)} to restore, {len(plan.remove)} to remove, {len(plan.merge)} to merge",
        bound=others[0].id if others else None,
    )


def conclude(service: Service, ended: Sequence[Ended], phase: Phase) -> list[list[Outcome]]:
    """Record what the exchanges did, seal the checkpoints after them, end the operations in one commit; what became of each
    path of each, as it was recorded. The caller holds the locks.
    """
    found: list[tuple[Checkpoint, list[Outcome]]] = []
    try:
        # the memory first: the code's checkpoint seals it too, and would not know whose doing that is
        for one in reversed(ended):
            after = service.reserve.spend(partial(_sealed, one))
            found.insert(0, (after, _as_recorded(service, one.operation, after, one.outcomes)))
        service.reserve.spend(lambda: _finish(service, ended, phase, found))
    except OpenOxideError as error:
        error.hint = "the files are in place, the record is not: run `oxide-ctl rewind --continue` when this is mended"
        raise
    return [outcomes for _, outcomes in found]


def _sealed(one: Ended) -> Checkpoint:
    return one.watched.seal(Label(trigger=Trigger.REWIND), one.by, one.applied.paths, one.applied.placed)


def _finish(
    service: Service, ended: Sequence[Ended], phase: Phase, found: Sequence[tuple[Checkpoint, list[Outcome]]]
) -> None:
    with service.timeline.database.writing() as db:
        for one, (after, outcomes) in zip(ended, found, strict=True):
            row = store.CheckpointQuery(db, one.watched.worktree.id).row_id(after.id)
            journal.finish(db, one.operation.id, phase, row, _summary(outcomes), outcomes)


def _as_recorded(
    service: Service, operation: Operation, after: Checkpoint, outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """``outcomes``, where a path whose last row is not the operation's was changed by somebody since."""
    done = {o.path for o in outcomes if o.kind in CHANGED}
    with service.timeline.database.reading() as db:
        writers = rows.last_writers(db, operation.worktree, done, after.seq)
    return [
        o._replace(kind=OutcomeKind.CHANGED_SINCE, reason="written to after it was placed")
        if o.path in done and writers[o.path].operation != operation.id
        else o
        for o in outcomes
    ]


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = {kind: sum(1 for o in outcomes if o.kind is kind) for kind in OutcomeKind}
    return ", ".join(f"{count} {kind.value.replace('_', ' ')}" for kind, count in counts.items() if count) or "nothing"


def _answer(
    watched: Watched,
    intent: Intent,
    plan: RewindPlan,
    outcomes: Sequence[Outcome],
    before: Checkpoint | None,
    operation: Operation | None,
    notes: Sequence[str] = (),
) -> RewindAnswer:
    now = read_git(watched.worktree.root)
    done = {outcome.path for outcome in outcomes if outcome.kind in CHANGED}
    return {
        "ok": True,
        "dry_run": before is None,
        "operation": operation.public_id if operation else None,
        "kind": intent.kind.value,
        "scope": intent.scope.value,
        "exact": intent.exact,
        "checkpoint": checkpoint_object(intent.target) if intent.target else None,
        "pre_rewind_checkpoint": checkpoint_object(before) if before else None,
        "restored": outcome_entries(outcomes, OutcomeKind.RESTORED),
        "removed": outcome_entries(outcomes, OutcomeKind.REMOVED),
        "merged": outcome_entries(outcomes, OutcomeKind.MERGED),
        "kept": outcome_entries(outcomes, OutcomeKind.KEPT),
        "conflicts": outcome_entries(outcomes, OutcomeKind.CONFLICT),
        "skipped": outcome_entries(outcomes, OutcomeKind.SKIPPED),
        "changed_since": outcome_entries(outcomes, OutcomeKind.CHANGED_SINCE),
        "notes": [*intent.notes, *notes],
        "untouched": plan.untouched,
        "insertions_bytes": sum(change.wanted.size for change in plan.changes if change.path in done),
        "deletions_bytes": sum(change.now.size for change in plan.changes if change.path in done),
        "undoable_until": time_or_none(before.expires_at_ms) if before else None,
        "git_note": moved_since(intent.target.git, now) if intent.target else "",
    }


def _memory_answer(part: Part, outcomes: Sequence[Outcome]) -> MemoryPart:
    return {
        "version": part.target_seq,
        "scope": part.intent.scope.value,
        "restored": outcome_entries(outcomes, OutcomeKind.RESTORED),
        "removed": outcome_entries(outcomes, OutcomeKind.REMOVED),
        "merged": outcome_entries(outcomes, OutcomeKind.MERGED),
        "kept": outcome_entries(outcomes, OutcomeKind.KEPT),
        "conflicts": outcome_entries(outcomes, OutcomeKind.CONFLICT),
        "skipped": outcome_entries(outcomes, OutcomeKind.SKIPPED),
        "changed_since": outcome_entries(outcomes, OutcomeKind.CHANGED_SINCE),
        "notes": list(part.intent.notes),
        "plan_seq": part.now_seq,
    }


def answer_of(service: Service, watched: Watched, operation: Operation, outcomes: Sequence[Outcome]) -> RewindAnswer:
    """The answer for an operation that was settled later."""
    with service.timeline.database.reading() as db:
        checkpoints = store.CheckpointQuery(db, watched.worktree.id)
        before = checkpoints.by_row(operation.before or 0)
        target = checkpoints.by_row(operation.target or 0)
    intent = Intent(kind=operation.kind, scope=Scope(operation.scope), exact=operation.exact, target=target)
    return _answer(watched, intent, RewindPlan(), outcomes, before, operation)


def memory_answer_of(watched: Watched, operation: Operation, outcomes: Sequence[Outcome]) -> MemoryPart:
    """The memory's part of the answer for an operation that was settled later."""
    intent = Intent(kind=operation.kind, scope=Scope(operation.scope))
    return _memory_answer(Part(watched=watched, intent=intent, plan=RewindPlan(), before=None, now_seq=0), outcomes)
