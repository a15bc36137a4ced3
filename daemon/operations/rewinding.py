"""``rewind``, ``undo`` and ``redo``: pre-rewind checkpoint, plan, exchange, checkpoint after, record.

Everything happens under the worktree's lock: no checkpoint is sealed in the middle of an exchange.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, sight, store
from openoxide.checkpoints.apply import Applier
from openoxide.checkpoints.doubt import damaged_checkpoint, doubtful, in_doubt, is_damaged, require_told
from openoxide.checkpoints.ignore import IGNORE_FILES
from openoxide.checkpoints.journal import Operation, OperationKind, Phase
from openoxide.checkpoints.merging import Resolution
from openoxide.checkpoints.model import DAMAGED, Checkpoint, Trigger, WindowKind, split
from openoxide.checkpoints.plan import PARENT_NOT_DIRECTORY, RewindPlan, Scope, hold_back
from openoxide.checkpoints.rewind import Request as PlanRequest
from openoxide.checkpoints.rewind import plan_reverse, plan_rewind
from openoxide.daemon.answers import left_entries
from openoxide.daemon.operations.carrying import Intent, Part, carry_out, refuse_while_interrupted
from openoxide.daemon.operations.looking import named_checkpoint, require_known
from openoxide.daemon.operations.proposing import absences, typed
from openoxide.daemon.protocol.rewinds import RewindAnswer
from openoxide.daemon.requests import Request, flag, number, optional_text, path, paths, text
from openoxide.daemon.watched import Label, Watched
from openoxide.db import Transaction
from openoxide.errors import (
    ConflictError,
    NotFoundError,
    UsageError,
)
from openoxide.ids import short

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def rewind(service: Service, request: Request, report: Reporter) -> RewindAnswer:
    """``rewind CKPT``, and with ``turn`` in its place ``rewind --turn PROMPT --only``."""
    with service.using(path(request)) as watched:
        refuse_while_interrupted(service, watched)
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
        code = Part(watched=watched, intent=intent, plan=plan, before=before, now_seq=now_seq)
        wanted = service.memories.own(watched.worktree) if flag(request, "memory") else None
        with _locked(service, wanted) as memory:
            noted = _memory_part(service, memory, intent, request, dry_run=dry_run) if memory is not None else None
            answer = carry_out(service, code, report, noted)
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
        refuse_while_interrupted(service, watched)
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
    code = Part(watched=watched, intent=_reversal(kind, target, reverses), plan=plan, before=before, now_seq=now_seq)
    with _bound_memory(service, reverses) as (memory, bound):
        noted = None
        if memory is not None and bound is not None:
            noted = _reversed_memory(service, memory, bound, kind, request, dry_run=dry_run)
        answer = carry_out(service, code, report, noted)
        if memory is None and bound is not None:
            answer["notes"].append("the memory that it changed too is gone, and stays so")
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


# the memory's part


@contextmanager
def _locked(service: Service, memory: Watched | None) -> Iterator[Watched | None]:
    """``memory``, attached and locked; None where there is none, or none is wanted. The caller has the lock of its tree."""
    if memory is None:
        yield None
        return
    with memory.lock:
        service.attach(memory)
        refuse_while_interrupted(service, memory)
        yield memory


@contextmanager
def _bound_memory(service: Service, reverses: Operation) -> Iterator[tuple[Watched | None, Operation | None]]:
    """The memory, if ``reverses`` changed it too, and what it did there."""
    with service.timeline.database.reading() as db:
        bound = journal.bound_to(db, reverses.id)
    done = bound if bound is not None and bound.phase is Phase.DONE and bound.before and bound.after else None
    # by its row: what the worktree reads by now may be another one
    with _locked(service, service.memories.by_row(done.worktree) if done is not None else None) as memory:
        yield memory, done


def _memory_part(service: Service, memory: Watched, code: Intent, request: Request, *, dry_run: bool) -> Part:
    """The plan for the memory: where it stood at the checkpoint, and by default only what the session of that wrote since."""
    assert code.target is not None, "a rewind has a target"
    before, now_seq = _take_before(service, memory, full=True, dry_run=dry_run)
    # --exact is about the tree: a memory that is not asked for by its writer would lose what the user noted
    scope = code.scope if not code.exact else Scope.SESSION if code.target.session else Scope.ALL
    with service.timeline.database.reading() as db, memory.open_tree() as tree:
        target_seq = _position(db, memory.worktree.id, code.target)
        wanted = PlanRequest(
            target_seq=target_seq,
            now_seq=now_seq,
            scope=scope,
            session=code.target.session,
            turn=_turn(db, memory.worktree.id, code.target),
            resolution=code.resolution,
            now_ns=service.clock.now_ms() * 1_000_000,
        )
        plan = plan_rewind(db, tree, memory.worktree.id, wanted, service.timeline.blobs.read)
        agreed = number(request, "memory_seq", least=0)
        plan = _as_agreed(db, memory.worktree.id, plan, agreed, now_seq)
    intent = Intent(kind=code.kind, scope=scope, resolution=code.resolution)
    return Part(watched=memory, intent=intent, plan=plan, before=before, now_seq=now_seq, target_seq=target_seq)


def _position(db: Transaction, memory: int, target: Checkpoint) -> int:
    """Where the memory stood at a checkpoint of the code. One from before there was a memory: nothing stood there."""
    known = store.position_of(db, target.id, memory)
    if known is not None:
        return known
    # before it: what was sealed along with it is what a position would say
    last = store.CheckpointQuery(db, memory).at_moment(target.created_at_ms - 1)
    return last.seq if last is not None else 0


def _turn(db: Transaction, memory: int, target: Checkpoint) -> int:
    """The memory's own window of the turn that ``target`` was sealed for; 0, which none is, where it had none."""
    known = sight.session_windows(db, memory, target.session or "")
    turns = [w.id for w in known if w.kind is WindowKind.TURN and w.prompt == target.prompt]
    return turns[-1] if turns else 0


def _reversed_memory(
    service: Service, memory: Watched, reverses: Operation, kind: OperationKind, request: Request, *, dry_run: bool
) -> Part:
    before, now_seq = _take_before(service, memory, full=False, dry_run=dry_run)
    with service.timeline.database.reading() as db, memory.open_tree() as tree:
        plan = plan_reverse(db, tree, reverses, now_seq)
        agreed = number(request, "memory_seq", least=0)
        plan = _as_agreed(db, memory.worktree.id, plan, agreed, now_seq)
        target = store.CheckpointQuery(db, memory.worktree.id).by_row(reverses.before or 0)
    intent = Intent(kind=kind, reverses=reverses)
    seq = target.seq if target is not None else 0
    return Part(watched=memory, intent=intent, plan=plan, before=before, now_seq=now_seq, target_seq=seq)
