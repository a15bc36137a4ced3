"""``pin unpin name``: what happens to a checkpoint after it was sealed.

What was typed is resolved in the transaction that acts on it, so nothing is done to a checkpoint that another request
has just named, forgotten or taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openoxide.checkpoints import store
from openoxide.checkpoints.clockmark import count_from, doubt
from openoxide.checkpoints.model import Checkpoint, Worktree
from openoxide.checkpoints.naming import valid_name
from openoxide.checkpoints.store import CheckpointQuery
from openoxide.checkpoints.timeline import DAY_MS
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.operations.checkpointing import refuse_taken
from openoxide.daemon.operations.looking import resolved
from openoxide.daemon.protocol.checkpoints import KeepAnswer
from openoxide.daemon.requests import Request, path, text
from openoxide.db import Transaction
from openoxide.errors import UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

Change = Callable[[Transaction, Checkpoint], None]


def pin(service: Service, request: Request, _report: Reporter) -> KeepAnswer:
    """``pin CKPT``: it is never forgotten."""

    def change(db: Transaction, found: Checkpoint) -> None:
        store.set_pinned(db, found.id, pinned=True, expires_at_ms=None)

    return _changed(service, request, change)


def unpin(service: Service, request: Request, _report: Reporter) -> KeepAnswer:
    """``unpin CKPT``: its time counts from now, however old it is; one that is not pinned stays as it is."""
    worktree = service.known(path(request))
    trusted = service.clock_mark.look().trusted

    def change(db: Transaction, found: Checkpoint) -> None:
        if found.pinned:
            store.set_pinned(db, found.id, pinned=False, expires_at_ms=expiry(service, worktree))
            begin_anew(db, service, found, trusted=trusted)

    return _changed(service, request, change)


def name(service: Service, request: Request, _report: Reporter) -> KeepAnswer:
    """``name CKPT NAME``; an empty name takes the name off."""
    wanted = request.get("name")
    if not isinstance(wanted, str):
        raise UsageError("name is missing or is not text")
    if wanted:
        valid_name(wanted)

    def change(db: Transaction, found: Checkpoint) -> None:
        if wanted:
            refuse_taken(db, found.worktree, wanted, but=found.id)
        store.set_name(db, found.id, wanted or None)

    return _changed(service, request, change)


def _changed(service: Service, request: Request, change: Change) -> KeepAnswer:
    """The checkpoint that the request names, after ``change``."""
    worktree = service.known(path(request))
    with service.timeline.database.writing() as db:
        checkpoints = CheckpointQuery(db, worktree.id)
        found = resolved(checkpoints, text(request, "checkpoint"), service.clock.now_ms())
        change(db, found.checkpoint)
        (after,) = checkpoints.by_id_prefix(found.checkpoint.id)
    answer: KeepAnswer = {"ok": True, **checkpoint_object(after)}  # type: ignore[typeddict-item]
    if found.note:
        answer["note"] = found.note
    return answer


def begin_anew(db: Transaction, service: Service, found: Checkpoint, *, trusted: bool) -> None:
    """The time of a checkpoint counts from now, for thinning too: the next one would take it again."""
    now_ms = service.clock.now_ms()
    count_from(db, [found.id], now_ms)
    if not trusted:
        doubt(db, [found.id], now_ms)


def expiry(service: Service, worktree: Worktree) -> int | None:
    """When a checkpoint of ``worktree`` expires whose time begins now."""
    ttl_days = service.settings.of(worktree.root).retention.ttl_days
    return service.clock.now_ms() + ttl_days * DAY_MS if ttl_days else None
