"""``rewind``, ``undo`` and ``redo``: pre-rewind checkpoint, plan, exchange, checkpoint after, record.

Everything happens under the worktree's lock: no checkpoint is sealed in the middle of an exchange.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, store
from openoxide.checkpoints.apply import Applied, Applier, attribution
from openoxide.checkpoints.doubt import damaged_checkpoint, doubtful, in_doubt, is_damaged, require_told
from openoxide.checkpoints.gitposition import moved_since, read_git
from openoxide.checkpoints.ignore import IGNORE_FILES
from openoxide.checkpoints.journal import CHANGED, Operation, OperationKind, Outcome, OutcomeKind, Phase
from openoxide.checkpoints.merging import Resolution
from openoxide.checkpoints.model import DAMAGED, Checkpoint, Trigger, split
from openoxide.checkpoints.plan import PARENT_NOT_DIRECTORY, RewindPlan, Scope, hold_back
from openoxide.checkpoints.rewind import Request as PlanRequest
from openoxide.checkpoints.rewind import plan_reverse, plan_rewind
from openoxide.checkpoints.timeline import Attribute
from openoxide.checkpoints.tree import go_on_here, identity_of
from openoxide.daemon.answers import checkpoint_object, left_entries, outcome_entries, planned_outcomes, time_or_none
from openoxide.daemon.operations.looking import holds, named_checkpoint, require_known
from openoxide.daemon.operations.proposing import absences, typed
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.protocol.rewinds import RewindAnswer
from openoxide.daemon.requests import Request, flag, number, optional_text, path, paths, text
from openoxide.daemon.watched import Label, Watched, writer_between_windows
from openoxide.db import Transaction
from openoxide.errors import (
    ConflictError,
    InterruptedOperationError,
    NotFoundError,
    OpenOxideError,
    UsageError,
)
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


def rewind(service: Service, request: Request, report: Reporter) -> RewindAnswer:
    """``rewind CKPT``, and with ``turn`` in its place ``rewind --turn PROMPT --only``."""
    with service.using(path(request)) as watched:
        _refuse_while_interrupted(service, watched)
        intent = _intent(service, watched, request)
        chosen = paths(request, watched.worktree.root)
        require_known(service.view(watched.worktree), chosen)
        dry_run = flag(request, "dry_run")
        report({"stage": "checkpoint", "done": 0, "total": 0, "bytes": 0})
        before, now_seq = _take_before(service, watched, full=intent.scope is Scope.ALL, dry_run=dry_run)
        plan = _plan(service, watched, intent, chosen, now_seq, number(request, "plan_seq", least=0))
        assert intent.target is not None, "a rewind has a target"
        absent = absences(service.view(watched.worktree), request, intent.target, now_seq, chosen)
        intent = replace(intent, notes=(*intent.notes, *absent, *_remarks(plan, intent.target, exact=intent.exact)))
        if intent.exact and plan.conflicts and intent.resolution is not Resolution.OVERWRITE:
            raise _refused_for(plan)
        answer = _carry_out(service, watched, intent, plan, before, report)
        if answer["conflicts"] and (ways := _ways_on(intent)):
            answer["hint"] = ways
        if dry_run:
            answer["plan_seq"] = now_seq
        return answer


def _ways_on(intent: Intent) -> str:
    """How to go on where others changed the same paths."""
    merge = f"--conflict merge takes the {intent.scope.value}'s lines out of what others changed too, "
    overwrite = "--conflict overwrite brings it back as a whole"
    if intent.scope is Scope.ALL or intent.resolution is Resolution.OVERWRITE:
        return ""
    return overwrite if intent.resolution is Resolution.MERGE else merge + overwrite


def _remarks(plan: RewindPlan, target: Checkpoint | None, *, exact: bool) -> Iterator[str]:
    """Notes on what is recorded and what not: it changes with the files that come back, and a secret may be left out by a
    newer rule; and what is left out today is not made equal to the checkpoint. One on what stands in a directory's place.
    """
    if exact and plan.skipped:
        yield "what is listed as not recorded was left as it stands, or gone: there the tree does not equal the checkpoint"
    # not which paths: that is known when the tree has been looked at with the rules of then
    rules = [os.fsdecode(change.path) for change in plan.changes if split(change.path)[1] in IGNORE_FILES]
    if rules:
        yield f"{', '.join(rules)} changes too: what it does not leave out any more is recorded, also by this rewind"
    if target is not None and is_damaged(target):
        yield in_doubt(target, ())
    if any(left.reason == PARENT_NOT_DIRECTORY for left in plan.conflicts):
        yield "a directory above is a file or a link now: rewind that path first, or move what is there away"


def _intent(service: Service, watched: Watched, request: Request) -> Intent:
    only = _only(request)
    named = text(request, "checkpoint") if only is None else f"turn:{only}"
    target, note = named_checkpoint(service.view(watched.worktree), named)
    intent = Intent(
        kind=OperationKind.REWIND,
        scope=_scope(request, target) if only is None else Scope.TURN,
        exact=flag(request, "exact"),
        touch=flag(request, "touch"),
        partial=flag(request, "partial"),
        resolution=_resolution(request),
        target=target,
    )
    notes = [note] if note else []
    if only is not None:
        notes.append(f"turn {target.prompt} alone is undone; what came after it stays")
    if intent.exact and target.session:
        notes.append("--exact asks no writer: what others changed since goes back too")
    if intent.resolution is Resolution.MERGE and intent.scope is Scope.ALL:
        notes.append("scope all asks no writer: there is nothing to merge")
    return replace(intent, notes=tuple(notes))


def _only(request: Request) -> str | None:
    """The prompt of the turn that is to be undone alone."""
    turn = optional_text(request, "turn")
    if turn is not None and (flag(request, "exact") or any(request.get(name) for name in ("checkpoint", "scope"))):
        raise UsageError("--turn and --only stand for the checkpoint and the scope", hint="leave out the others")
    return turn


def _plan(
    service: Service, watched: Watched, intent: Intent, chosen: tuple[bytes, ...], now_seq: int, agreed_seq: int | None
) -> RewindPlan:
    """The plan at ``now_seq``. ``agreed_seq``: the position of a plan that somebody agreed to."""
    assert intent.target is not None, "a rewind has a target"
    now_ns = service.clock.now_ms() * 1_000_000
    wanted = PlanRequest(
        target_seq=intent.target.seq,
        now_seq=now_seq,
        scope=intent.scope,
        exact=intent.exact,
        session=intent.target.session,
        turn=intent.target.turn,
        paths=chosen,
        resolution=intent.resolution,
        touch_ns=now_ns if intent.touch else None,
        now_ns=now_ns,
    )
    worktree = watched.worktree.id
    with service.timeline.database.reading() as db, watched.open_tree() as tree:
        # not only what the plan has: a path whose states are lost is in no plan
        if not intent.partial:
            require_told(db, intent.target, chosen)
        plan = plan_rewind(db, tree, worktree, wanted, service.timeline.blobs.read)
        plan = _as_agreed(db, worktree, plan, agreed_seq, now_seq)
        plan = _trusted(db, plan, intent.target, in_part=intent.partial)
    if intent.partial:
        with watched.open_tree() as tree:
            plan = hold_back(plan, Applier(service.timeline, tree).unsound(plan), DAMAGED)
    return plan


def _trusted(db: Transaction, plan: RewindPlan, target: Checkpoint, *, in_part: bool) -> RewindPlan:
    """``plan`` less what nobody can tell of a checkpoint that is marked as damaged. Raises StoreDamagedError that names it,
    unless ``in_part``.
    """
    doubt = doubtful(db, target)
    affected = [change.path for change in plan.changes if change.path in doubt]
    if affected and not in_part:
        raise damaged_checkpoint(target, affected)
    return hold_back(plan, doubt, DAMAGED) if affected else plan


def _as_agreed(db: Transaction, worktree: int, plan: RewindPlan, agreed_seq: int | None, now_seq: int) -> RewindPlan:
    """``plan`` less what changed since ``agreed_seq``, the position of one that somebody agreed to."""
    if agreed_seq is None:
        return plan
    return hold_back(plan, set(rows.changed_paths(db, worktree, agreed_seq, now_seq)))


def undo(service: Service, request: Request, report: Reporter) -> RewindAnswer:
    """``undo [N]``."""
    return _walk(service, request, report, OperationKind.UNDO)


def redo(service: Service, request: Request, report: Reporter) -> RewindAnswer:
    """``redo [N]``."""
    return _walk(service, request, report, OperationKind.REDO)


def _walk(service: Service, request: Request, report: Reporter, kind: OperationKind) -> RewindAnswer:
    dry_run = flag(request, "dry_run")
    count = number(request, "count") or 1
    agreed, agreed_seq = optional_text(request, "reverses"), number(request, "plan_seq", least=0)
    with service.using(path(request)) as watched:
        _refuse_while_interrupted(service, watched)
        stack = _stack(service, watched, kind)
        # no more than the last one is asked for: those before it are the same as long as it is
        if agreed is not None and agreed not in (operation.public_id for operation in stack[-1:]):
            raise ConflictError(
                f"somebody else came first: operation {short(agreed)} is not the one to {kind.value} any more",
                hint=f"nothing was changed; `oxide-ctl {kind.value}` shows what it would reverse now",
            )
        if count > len(stack):
            raise NotFoundError(
                f"there are not {count} operations to {kind.value}"
                if count > 1
                else f"there is nothing to {kind.value}",
                hint="run `oxide-ctl operations`",
            )
        answers = [_reverse_one(service, watched, request, kind, report, agreed_seq, dry_run=dry_run)]
        if dry_run and count > 1:
            answers[0]["notes"].append(f"only the first of {count} steps is planned here")
        if not dry_run:  # a second step cannot be planned before the first is done
            answers += [
                _reverse_one(service, watched, request, kind, report, None, dry_run=False) for _ in range(1, count)
            ]
        return answers[0] if len(answers) == 1 else _joined(answers)


def _reverse_one(
    service: Service,
    watched: Watched,
    request: Request,
    kind: OperationKind,
    report: Reporter,
    agreed_seq: int | None,
    *,
    dry_run: bool,
) -> RewindAnswer:
    reverses = _stack(service, watched, kind)[-1]
    if reverses.before is None or reverses.after is None:
        raise NotFoundError(
            f"operation {short(reverses.public_id)} cannot be reversed any more: the checkpoints that it needs have expired",
            hint="`oxide-ctl log` lists what is kept, and `oxide-ctl rewind` goes back to it",
        )
    before, now_seq = _take_before(service, watched, full=False, dry_run=dry_run)
    with service.timeline.database.reading() as db, watched.open_tree() as tree:
        plan = plan_reverse(db, tree, reverses, now_seq)
        plan = _as_agreed(db, watched.worktree.id, plan, agreed_seq, now_seq)
        target = store.CheckpointQuery(db, watched.worktree.id).by_row(reverses.before or 0)
        if target is not None:
            plan = _trusted(db, plan, target, in_part=False)
    answer = _carry_out(service, watched, _reversal(kind, target, reverses), plan, before, report)
    answer["reverses"] = reverses.public_id
    if dry_run:
        answer["plan_seq"] = now_seq
    if target is not None and answer["conflicts"]:
        named = typed(request, watched.worktree.root, [item.path for item in plan.conflicts])
        answer["hint"] = f"`oxide-ctl rewind {target.number} -- {named}` brings back what is in conflict"
    return answer


def _reversal(kind: OperationKind, target: Checkpoint | None, reverses: Operation) -> Intent:
    note = f"reverses {reverses.kind.value} {short(reverses.public_id)}: {reverses.summary}"
    return Intent(kind=kind, target=target, reverses=reverses, notes=(note,))


def _stack(service: Service, watched: Watched, kind: OperationKind) -> list[Operation]:
    with service.timeline.database.reading() as db:
        undoable, redoable = journal.undo_stack(journal.operations(db, watched.worktree.id))
    return undoable if kind is OperationKind.UNDO else redoable


def _joined(answers: Sequence[RewindAnswer]) -> RewindAnswer:
    """Several steps as one answer: the lists together, the rest from the last step."""
    joined = RewindAnswer(**answers[-1])
    for name in ("restored", "removed", "merged", "kept", "conflicts", "skipped", "changed_since"):
        joined[name] = [entry for answer in answers for entry in answer[name]]
    joined["notes"] = [note for answer in answers for note in answer["notes"]]
    joined["pre_rewind_checkpoint"] = answers[0]["pre_rewind_checkpoint"]
    return joined


def _scope(request: Request, target: Checkpoint) -> Scope:
    named = optional_text(request, "scope")
    try:
        scope = Scope(named) if named else Scope.SESSION if target.session else Scope.ALL
    except ValueError as error:
        raise UsageError(f"scope {named!r} is not turn, session or all") from error
    if flag(request, "exact"):
        if named not in (None, Scope.ALL.value):
            raise UsageError("--exact makes the tree equal the checkpoint, so it goes with scope all only")
        return Scope.ALL
    if (scope is Scope.SESSION and not target.session) or (scope is Scope.TURN and target.turn is None):
        raise UsageError(
            f"checkpoint {target.number} belongs to no {scope.value}", hint="use --scope all, or another checkpoint"
        )
    return scope


def _resolution(request: Request) -> Resolution:
    named = optional_text(request, "conflict")
    try:
        return Resolution(named) if named else Resolution.KEEP
    except ValueError as error:
        raise UsageError(f"conflict {named!r} is not keep, merge or overwrite") from error


def _refuse_while_interrupted(service: Service, watched: Watched) -> None:
    with service.timeline.database.reading() as db:
        begun = [o for o in journal.open_operations(db, watched.worktree.id) if o.phase is not Phase.PREPARED]
    if begun:
        raise InterruptedOperationError(
            f"operation {short(begun[-1].public_id)} was interrupted and is not settled",
            hint="run `oxide-ctl rewind --continue` or `oxide-ctl rewind --abort` first",
        )


def _refused_for(plan: RewindPlan) -> ConflictError:
    listed = left_entries(plan.conflicts)
    first = listed[0]
    return ConflictError(
        f"{len(listed)} paths cannot be made equal to the checkpoint, first {first['path']!r}: {first['reason']}",
        hint="nothing was changed; let go of these paths, leave out --exact, or do the rest with --conflict overwrite",
        details={"conflicts": listed},
    )


def _take_before(service: Service, watched: Watched, *, full: bool, dry_run: bool) -> tuple[Checkpoint | None, int]:
    """The pre-rewind checkpoint and its position; a dry run records, but seals nothing."""
    label = None if dry_run else Label(trigger=Trigger.REWIND)
    sealed = None
    if full:
        sealed = service.reserve.spend(lambda: watched.full_pass(label))
    elif label is not None:
        sealed = service.reserve.spend(lambda: watched.seal(label))
    return sealed, sealed.seq if sealed is not None else service.reserve.spend(watched.record)


def _carry_out(
    service: Service,
    watched: Watched,
    intent: Intent,
    plan: RewindPlan,
    before: Checkpoint | None,
    report: Reporter,
) -> RewindAnswer:
    if before is None or not plan.changes:
        return _answer(watched, intent, plan, planned_outcomes(plan, (), ()), before, None)
    report({"stage": intent.kind.value, "done": 0, "total": len(plan.changes), "bytes": 0})
    with watched.open_tree() as tree:
        applier = Applier(service.timeline, tree)
        operation, applied = service.reserve.spend(lambda: _exchange(service, watched, applier, intent, before, plan))
        since = applier.verify(applied)
    outcomes = planned_outcomes(plan, applied.left, since)
    by = attribution(operation, applied.steps, writer_between_windows(watched.windows))
    outcomes = [*conclude(service, watched, operation, Phase.DONE, applied, outcomes, by)]
    service.background.submit(f"sweep {operation.id}", lambda: sweep_ended(service, watched))
    notes = [*applied.notes, *_made_anew(service, watched)]
    return _answer(watched, intent, plan, outcomes, before, operation, notes)


def _exchange(
    service: Service, watched: Watched, applier: Applier, intent: Intent, before: Checkpoint, plan: RewindPlan
) -> tuple[Operation, Applied]:
    """Begin the operation and carry it out. A full disk stops it before anything is touched, and never later: what was begun
    is given up, now or by whoever comes next.
    """
    # the one before may have come further than its error tells
    _refuse_while_interrupted(service, watched)
    with service.timeline.database.reading() as db:
        begun = journal.open_operations(db, watched.worktree.id)
    for operation in begun:
        applier.give_up(operation)
    operation = _begin(service, watched, intent, before, plan)
    return operation, applier.apply(operation, plan)


def _made_anew(service: Service, watched: Watched) -> Iterator[str]:
    """Watched projects inside this one whose root is another directory now, which nobody but the user may take for theirs."""
    outer = watched.worktree.root
    for inner in service.all_watched():
        root = inner.worktree.root
        with suppress(OSError):  # it is not there: that is told of by status
            if root != outer and holds(outer, root) and not identity_of(root).same_as(inner.identity):
                root_shown = os.fsdecode(root)
                yield f"{root_shown} is watched too and is another directory now: {go_on_here(root_shown)}"


def _begin(service: Service, watched: Watched, intent: Intent, before: Checkpoint, plan: RewindPlan) -> Operation:
    merged = {
        change.wanted.blob: change.merged for change in plan.merge if change.wanted.blob and change.merged is not None
    }
    blobs = service.timeline.blobs
    stored = blobs.write(merged)
    with service.timeline.database.writing() as db:
        blobs.adopt(db, stored, merged)
        checkpoints = store.CheckpointQuery(db, watched.worktree.id)
        operation = Operation(
            id=0,
            public_id=letters(os.urandom(ID_BYTES)),
            worktree=watched.worktree.id,
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
            before=checkpoints.row_id(before.id),
            summary=f"{len(plan.restore)} to restore, {len(plan.remove)} to remove, {len(plan.merge)} to merge",
        )
        begun = journal.begin(db, operation)
        merging = [Outcome(kind=OutcomeKind.MERGING, path=c.path, blob=c.wanted.blob) for c in plan.merge]
        journal.add_outcomes(db, begun.id, merging)
        return begun


def conclude(
    service: Service,
    watched: Watched,
    operation: Operation,
    phase: Phase,
    applied: Applied,
    outcomes: Sequence[Outcome],
    by: Attribute,
) -> Sequence[Outcome]:
    """Record what the exchange did, seal the checkpoint after it, end the operation; what became of each path, as it was
    recorded. The caller holds the lock.
    """
    try:
        label = Label(trigger=Trigger.REWIND)
        after = service.reserve.spend(lambda: watched.seal(label, by, applied.paths, applied.placed))
        outcomes = _as_recorded(service, operation, after, outcomes)
        service.reserve.spend(lambda: _finish(service, operation, phase, after, outcomes))
    except OpenOxideError as error:
        error.hint = "the files are in place, the record is not: run `oxide-ctl rewind --continue` when this is mended"
        raise
    return outcomes


def _finish(
    service: Service, operation: Operation, phase: Phase, after: Checkpoint, outcomes: Sequence[Outcome]
) -> None:
    with service.timeline.database.writing() as db:
        row = store.CheckpointQuery(db, operation.worktree).row_id(after.id)
        journal.finish(db, operation.id, phase, row, _summary(outcomes), outcomes)


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


def answer_of(service: Service, watched: Watched, operation: Operation, outcomes: Sequence[Outcome]) -> RewindAnswer:
    """The answer for an operation that was settled later."""
    with service.timeline.database.reading() as db:
        checkpoints = store.CheckpointQuery(db, watched.worktree.id)
        before = checkpoints.by_row(operation.before or 0)
        target = checkpoints.by_row(operation.target or 0)
    intent = Intent(kind=operation.kind, scope=Scope(operation.scope), exact=operation.exact, target=target)
    return _answer(watched, intent, RewindPlan(), outcomes, before, operation)
