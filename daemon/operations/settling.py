"""Settle what a crash left: at the start by itself where that is safe, else by ``rewind --continue | --abort``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applied, Applier, attribution, returned
from openoxide.checkpoints.journal import OPEN_PHASES, Operation, Outcome, OutcomeKind, Phase
from openoxide.checkpoints.model import Kind, Trigger
from openoxide.checkpoints.steps import Step
from openoxide.checkpoints.timeline import Attribute, by_nobody
from openoxide.daemon.operations.carrying import Ended, answer_of, conclude, memory_answer_of, sweep_soon
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.protocol.rewinds import RewindAnswer
from openoxide.daemon.requests import Request, path, text
from openoxide.daemon.watched import FullPassProgress, Label, Watched
from openoxide.errors import InterruptedOperationError, NotFoundError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

log = logging.getLogger(__name__)

FRESH_MS = 600_000  # an operation interrupted longer ago is not finished behind the user's back


def settle_at_start(service: Service, watched: Watched, progress: FullPassProgress | None) -> None:
    """Give up what had not begun, compare the tree with the record, finish what is fresh, leave the rest interrupted.
    The caller holds the lock.
    """
    open_operations = _open_operations(service, watched)
    with watched.open_tree() as tree:
        applier = Applier(service.timeline, tree)
        for operation in open_operations:
            if operation.phase is Phase.PREPARED:
                applier.give_up(operation)
        begun = [operation for operation in open_operations if operation.phase is not Phase.PREPARED]
        attribute: Attribute = by_nobody
        for operation in begun:
            attribute = attribution(operation, _steps(service, operation), attribute)
        label = Label(trigger=Trigger.MANUAL if progress else Trigger.QUIET, only_if_changed=True)
        first = service.memories.greet(watched) if watched.worktree.is_memory else None
        watched.full_pass(label, attribute if begun else first, progress)
    for operation in begun:
        # what is bound to an operation on the code is settled with that one
        if operation.bound is None:
            _settle_begun(service, watched, operation)
    sweep_ended(service, watched)


def _settle_begun(service: Service, watched: Watched, operation: Operation) -> None:
    if operation.phase is Phase.SWAPPING and _is_fresh(service, operation):
        try:
            finish_forward(service, watched, operation)
        except InterruptedOperationError as error:
            log.warning("operation %s could not be finished: %s", operation.public_id, error)
        return
    with service.timeline.database.writing() as db:
        journal.set_phase(db, operation.id, Phase.INTERRUPTED)


def _is_fresh(service: Service, operation: Operation) -> bool:
    same_boot = operation.boot_id == service.clock.boot_id()
    return same_boot and service.clock.boot_ms() - operation.boot_ms < FRESH_MS


def _open_operations(service: Service, watched: Watched) -> list[Operation]:
    with service.timeline.database.reading() as db:
        return journal.open_operations(db, watched.worktree.id)


def _steps(service: Service, operation: Operation) -> tuple[Step, ...]:
    with service.timeline.database.reading() as db:
        return journal.steps(db, operation.id)


def finish_forward(
    service: Service, watched: Watched, operation: Operation
) -> list[tuple[Watched, Operation, list[Outcome]]]:
    """Do what is left of an operation, in the memory too if it is about that, and record it. The caller holds the lock."""
    with _shares(service, watched, operation) as shares:
        return _concluded(service, [_forward(service, *share) for share in shares], Phase.DONE)


def _forward(service: Service, watched: Watched, operation: Operation) -> Ended:
    with watched.open_tree() as tree:
        applier = Applier(service.timeline, tree)
        applied = applier.continue_operation(operation)
        since = applier.verify(applied)
    outcomes = _outcomes_of_steps(applied, {left.path for left in since}, _merging(service, operation))
    by = attribution(operation, applied.steps, by_nobody)
    return Ended(watched=watched, operation=operation, applied=applied, outcomes=outcomes, by=by)


def finish_backward(
    service: Service, watched: Watched, operation: Operation
) -> list[tuple[Watched, Operation, list[Outcome]]]:
    """Take back what was done of an operation, in the memory too, and record it. The caller holds the lock."""
    with _shares(service, watched, operation) as shares:
        return _concluded(service, [_backward(service, *share) for share in shares], Phase.ABORTED)


def _backward(service: Service, watched: Watched, operation: Operation) -> Ended:
    with watched.open_tree() as tree:
        applied = Applier(service.timeline, tree).abort_operation(operation)
    outcomes = [Outcome(kind=OutcomeKind.CONFLICT, path=left.path, reason=left.reason) for left in applied.left]
    by = returned(operation, applied.steps, by_nobody)
    return Ended(watched=watched, operation=operation, applied=applied, outcomes=outcomes, by=by)


def _concluded(
    service: Service, ended: Sequence[Ended], phase: Phase
) -> list[tuple[Watched, Operation, list[Outcome]]]:
    outcomes = conclude(service, ended, phase)
    return [(one.watched, one.operation, found) for one, found in zip(ended, outcomes, strict=True)]


@contextmanager
def _shares(service: Service, watched: Watched, operation: Operation) -> Iterator[list[tuple[Watched, Operation]]]:
    """``operation`` and what is bound to it, with the memory that is about locked."""
    with service.timeline.database.reading() as db:
        bound = journal.bound_to(db, operation.id)
    if bound is None or bound.phase not in OPEN_PHASES:
        yield [(watched, operation)]
        return
    # by its row: what the worktree reads by now may be another one
    memory = service.memories.by_row(bound.worktree)
    if memory is None:
        # nothing is there that it could be done to; what was displaced is in the checkpoint before it
        with service.timeline.database.writing() as db:
            journal.finish(db, bound.id, Phase.ABORTED, None, "the memory was gone", ())
            journal.drop_steps(db, bound.id)
        yield [(watched, operation)]
        return
    with memory.lock:
        service.attach(memory)
        yield [(watched, operation), (memory, bound)]


def _merging(service: Service, operation: Operation) -> set[bytes]:
    with service.timeline.database.reading() as db:
        return {o.path for o in journal.outcomes(db, operation.id) if o.kind is OutcomeKind.MERGING}


def _outcomes_of_steps(applied: Applied, since: set[bytes], merging: set[bytes]) -> list[Outcome]:
    left = {item.path: item.reason for item in applied.left}
    wanted = {step.path: step.new for step in applied.steps}
    found = []
    for path_, state in wanted.items():
        if path_ in left:
            kind = OutcomeKind.KEPT if left[path_] == "not_empty" else OutcomeKind.CONFLICT
        elif path_ in since:
            kind = OutcomeKind.CHANGED_SINCE
        elif path_ in merging:
            kind = OutcomeKind.MERGED
        else:
            kind = OutcomeKind.REMOVED if state.kind is Kind.ABSENT else OutcomeKind.RESTORED
        found.append(Outcome(kind=kind, path=path_, reason=left.get(path_, "")))
    return sorted(found, key=lambda outcome: outcome.path)


def settle(service: Service, request: Request, _report: Reporter) -> RewindAnswer:
    """``rewind --continue | --abort``."""
    action = text(request, "action")
    if action not in ("continue", "abort"):
        raise UsageError(f"action {action!r} is neither continue nor abort")
    with service.using(path(request)) as watched:
        begun = [o for o in _open_operations(service, watched) if o.phase is not Phase.PREPARED]
        if not begun:
            raise NotFoundError("there is no interrupted operation", hint="run `oxide-ctl operations` for the others")
        finish = finish_forward if action == "continue" else finish_backward
        ended = finish(service, watched, begun[-1])
        for tree, operation, _ in ended:
            sweep_soon(service, tree, operation)
        answer = answer_of(service, *ended[0])
        if len(ended) > 1:
            answer["memory"] = memory_answer_of(*ended[1])
        return answer
