"""``checkpoint``: seal now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.checkpoints import rows, store
from openoxide.checkpoints.model import Checkpoint, SkipReason, Trigger
from openoxide.checkpoints.naming import may_be_id, valid_name
from openoxide.daemon.answers import checkpoint_object, skip_reason, skipped_entries
from openoxide.daemon.protocol import PathEntry
from openoxide.daemon.protocol.checkpoints import SealedAnswer
from openoxide.daemon.requests import Request, flag, optional_text, path
from openoxide.daemon.watched import Label, Watched
from openoxide.db import Transaction
from openoxide.errors import UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def checkpoint(service: Service, request: Request, _report: Reporter) -> SealedAnswer:
    """Seals always, also with nothing changed."""
    name = optional_text(request, "name")
    if name is not None:
        valid_name(name)
    with service.using(path(request)) as watched:
        if name is not None:
            with service.timeline.database.reading() as db:
                refuse_taken(db, watched.worktree.id, name)
        label = Label(trigger=Trigger.MANUAL, name=name, pinned=flag(request, "pin"), turn=watched.only_turn)
        sealed = watched.seal(label)
        return {"ok": True, **checkpoint_object(sealed), "over_quota": _over_quota(service, watched, sealed)}


def _over_quota(service: Service, watched: Watched, sealed: Checkpoint) -> list[PathEntry]:
    """What ``sealed`` lacks since a quota has no room for it."""
    if not watched.over_quota:
        return []
    with service.timeline.database.reading() as db:
        states = rows.states_at(db, watched.worktree.id, sealed.seq, sorted(watched.over_quota))
    return skipped_entries(
        (path, state) for path, state in states.items() if skip_reason(state) == SkipReason.OVER_QUOTA
    )


def refuse_taken(db: Transaction, worktree: int, name: str, but: str = "") -> None:
    """A name means one checkpoint: raises UsageError where another one than ``but`` (an id) has it, or an id that begins
    like it, in trash too, from where it may come back.
    """
    kept, trash = (store.CheckpointQuery(db, worktree, trash=trash) for trash in (False, True))
    for taken in kept.by_name(name):
        if taken.id != but:
            hint = f"choose another name, or free it: `oxide-ctl name {taken.number} ''`"
            raise UsageError(f"checkpoint {taken.number} has the name {name!r} already", hint=hint)
    if not may_be_id(name):
        return
    for taken in [*kept.by_id_prefix(name), *trash.by_id_prefix(name)]:
        if taken.id != but:
            hint = "choose another name, a longer one or one with a letter from a to j"
            raise UsageError(f"{name!r} already means checkpoint {taken.number}, whose id begins like it", hint=hint)
