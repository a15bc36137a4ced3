"""``forget`` and ``unforget``: into trash and back. No byte goes; that is for a prune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import store
from openoxide.checkpoints.clockmark import doubt
from openoxide.checkpoints.expiry import needed
from openoxide.checkpoints.model import Checkpoint
from openoxide.checkpoints.retention import Kept, floor, spare
from openoxide.checkpoints.store import CheckpointQuery
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.operations.keeping import begin_anew, expiry
from openoxide.daemon.operations.looking import resolved
from openoxide.daemon.protocol import Items
from openoxide.daemon.protocol.checkpoints import ForgetAnswer, KeptObject
from openoxide.daemon.requests import Request, flag, path, texts
from openoxide.db import Transaction
from openoxide.errors import NotFoundError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def forget(service: Service, request: Request, _report: Reporter) -> ForgetAnswer:
    """``forget CKPT...``: all that were named and may go, in one transaction; a name that names nothing stops it."""
    worktree = service.known(path(request))
    names, dry_run = texts(request, "checkpoints"), flag(request, "dry_run")
    database, now_ms, trusted = service.timeline.database, service.clock.now_ms(), service.clock_mark.look().trusted
    with database.reading() if dry_run else database.writing() as db:
        checkpoints = CheckpointQuery(db, worktree.id)
        asked = [resolved(checkpoints, name, now_ms) for name in names]
        reasons = floor(checkpoints.listing(), needed(db, worktree.id))
        gone, kept = spare([found.checkpoint for found in asked], reasons)
        if not dry_run:
            ids = [checkpoint.id for checkpoint in gone]
            store.set_forgotten(db, ids, now_ms)
            if not trusted:
                doubt(db, ids, now_ms)
            gone = [replace(checkpoint, forgotten_at_ms=now_ms) for checkpoint in gone]
    return {
        "ok": True,
        "dry_run": dry_run,
        "forgotten": [checkpoint_object(checkpoint) for checkpoint in gone],
        "kept": [_kept(item) for item in kept],
        "freed_bytes": 0,
        "notes": [found.note for found in asked if found.note],
    }


def _kept(item: Kept) -> KeptObject:
    found = item.checkpoint
    return {"id": found.id, "number": found.number, "name": found.name, "reason": item.reason.value}


def unforget(service: Service, request: Request, _report: Reporter) -> Items:
    """``unforget CKPT...``: back out of trash, with at least the whole time to live. A name that another checkpoint has got
    meanwhile stays there.
    """
    worktree = service.known(path(request))
    names = texts(request, "checkpoints")
    trusted = service.clock_mark.look().trusted
    with service.timeline.database.writing() as db:
        trash = CheckpointQuery(db, worktree.id, trash=True)
        found = {c.id: c for c in (_in_trash(trash, name, service.clock.now_ms()) for name in names)}
        anew = expiry(service, worktree)
        notes = [note for c in found.values() if (note := _take_back(db, service, c, anew, trusted=trusted))]
        kept = CheckpointQuery(db, worktree.id)
        items = [checkpoint_object(c) for public_id in found for c in kept.by_id_prefix(public_id)]
    answer: Items = {"ok": True, "items": items}
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _in_trash(trash: CheckpointQuery, name: str, now_ms: int) -> Checkpoint:
    try:
        return resolved(trash, name, now_ms).checkpoint
    except NotFoundError as error:
        raise NotFoundError(f"{error.message} in trash", hint="`oxide-ctl log --all` marks what is in trash") from error


def _take_back(db: Transaction, service: Service, found: Checkpoint, anew: int | None, *, trusted: bool) -> str:
    """What could not be taken back with it, empty if nothing. ``anew``: when it expires if its time begins now."""
    taken: Sequence[Checkpoint] = CheckpointQuery(db, found.worktree).by_name(found.name) if found.name else ()
    store.set_forgotten(db, [found.id], None)
    before = found.expires_at_ms
    later = None if anew is None or before is None else max(anew, before)  # None: never
    store.set_pinned(db, found.id, pinned=found.pinned, expires_at_ms=later)
    begin_anew(db, service, found, trusted=trusted)
    if not taken:
        return ""
    store.set_name(db, found.id, None)
    return f"checkpoint {found.number} has no name any more: {found.name!r} is checkpoint {taken[0].number} now"
