"""The operation log of a worktree: what was rewound, what of it can be reversed, and what came too late to be part of it."""

from __future__ import annotations

from collections import Counter

from openoxide.checkpoints import journal, store
from openoxide.checkpoints.journal import Operation, OutcomeKind
from openoxide.clock import rfc3339
from openoxide.daemon.answers import late_entries, time_or_none
from openoxide.daemon.operations.looking import View
from openoxide.daemon.protocol import Items
from openoxide.daemon.protocol.rewinds import OperationItem
from openoxide.daemon.requests import Request, number
from openoxide.db import Transaction


def operations(view: View, request: Request) -> Items:
    """``operations``: newest first, with what ``undo`` and ``redo`` would reverse."""
    limit = number(request, "limit")
    with view.timeline.database.reading() as db:
        found = journal.operations(db, view.id)
        undoable, redoable = journal.undo_stack(found)
        shown = list(reversed(found))[: limit or len(found)]
        items = [_operation_item(db, view, operation, undoable, redoable, found) for operation in shown]
    return {"ok": True, "items": items}


def _operation_item(
    db: Transaction,
    view: View,
    operation: Operation,
    undoable: list[Operation],
    redoable: list[Operation],
    known: list[Operation],
) -> OperationItem:
    checkpoints = store.CheckpointQuery(db, view.id)
    before = checkpoints.by_row(operation.before or 0)
    target = checkpoints.by_row(operation.target or 0)
    outcomes = journal.outcomes(db, operation.id)
    counts = Counter(outcome.kind for outcome in outcomes)
    names = {o.id: o.public_id for o in known}
    return {
        "operation": operation.public_id,
        "kind": operation.kind.value,
        "at": rfc3339(operation.at_ms),
        "phase": operation.phase.value,
        "reverses": names.get(operation.reverses or 0),
        "undone": any(o.reverses == operation.id and o.phase is journal.Phase.DONE for o in known),
        "undoable": operation in undoable,
        "undoable_until": time_or_none(before.expires_at_ms) if before and operation in undoable + redoable else None,
        "checkpoint": target.id if target else None,
        "pre_rewind_checkpoint": before.id if before else None,
        "restored": counts[OutcomeKind.RESTORED],
        "removed": counts[OutcomeKind.REMOVED],
        "merged": counts[OutcomeKind.MERGED],
        "conflicts": counts[OutcomeKind.CONFLICT],
        "late": late_entries(operation, outcomes),
        "summary": operation.summary,
    }
