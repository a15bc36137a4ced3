"""``checkpoint``: seal now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openoxide.checkpoints import store
from openoxide.checkpoints.model import Trigger
from openoxide.checkpoints.naming import valid_name
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.requests import Request, flag, optional_text, path
from openoxide.daemon.watched import Label
from openoxide.errors import UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def checkpoint(service: Service, request: Request, _report: Reporter) -> dict[str, Any]:
    """Seals always, also with nothing changed."""
    name = optional_text(request, "name")
    if name is not None:
        valid_name(name)
    with service.using(path(request)) as watched:
        if name is not None:
            with service.timeline.database.reading() as db:
                refuse_taken(store.CheckpointQuery(db, watched.worktree.id), name)
        label = Label(trigger=Trigger.MANUAL, name=name, pinned=flag(request, "pin"), turn=watched.only_turn)
        return {"ok": True, **checkpoint_object(watched.seal(label))}


def refuse_taken(checkpoints: store.CheckpointQuery, name: str, but: str = "") -> None:
    """A name means one checkpoint: raises UsageError where another one than ``but`` (an id) has it."""
    taken = [checkpoint for checkpoint in checkpoints.by_name(name) if checkpoint.id != but]
    if taken:
        number = taken[0].number
        hint = f"choose another name, or free it: `oxide-ctl name {number} ''`"
        raise UsageError(f"checkpoint {number} has the name {name!r} already", hint=hint)
