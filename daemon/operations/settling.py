"""Settle what a crash left: at the start by itself where that is safe, else by ``rewind --continue | --abort``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applied, Applier, attribution, returned
from openoxide.checkpoints.journal import Operation, Outcome, OutcomeKind, Phase
from openoxide.checkpoints.model import Kind, Trigger
from openoxide.checkpoints.steps import Step
from openoxide.checkpoints.timeline import Attribute, by_nobody
from openoxide.daemon.operations import rewinding
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
        watched.full_pass(label, attribute if begun else None, progress)
    for operation in begun:
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


def finish_forward(service: Service, watched: Watched, operation: Operation) -> list[Outcome]:
    """Do what is left of an operation and record it. The caller holds the lock."""
    with watched.open_tree() as tree:
        applier = Applier(service.timeline, tree)
        applied = applier.continue_operation(operation)
        since = applier.verify(applied)
    outcomes = _outcomes_of_steps(applied, {left.path for left in since}, _merging(service, operation))
    by = attribution(operation, applied.steps, by_nobody)
    return [*rewinding.conclude(service, watched, operation, Phase.DONE, applied, outcomes, by)]


def finish_backward(service: Service, watched: Watched, operation: Operation) -> list[Outcome]:
    """Take back what was done of an operation and record it. The caller holds the lock."""
    with watched.open_tree() as tree:
        applied = Applier(service.timeline, tree).abort_operation(operation)
    outcomes = [Outcome(kind=OutcomeKind.CONFLICT, path=left.path, reason=left.reason) for left in applied.left]
    by = returned(operation, applied.steps, by_nobody)
    return [*rewinding.conclude(service, watched, operation, Phase.ABORTED, applied, outcomes, by)]


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
        operation = begun[-1]
        if action == "continue":
            outcomes = finish_forward(service, watched, operation)
        else:
            outcomes = finish_backward(service, watched, operation)
        service.background.submit(f"sweep {operation.id}", lambda: sweep_ended(service, watched))
        return rewinding.answer_of(service, watched, operation, outcomes)
