"""``pause`` and ``unpause``: a stretch in which nothing of a worktree is recorded, and which is a gap until the end. A memory is
paused with the last of the trees that read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.checkpoints.model import Trigger
from openoxide.daemon.answers import checkpoint_object, time_or_none
from openoxide.daemon.operations.watching import counting, shown
from openoxide.daemon.pauses import follow
from openoxide.daemon.protocol.projects import PauseAnswer
from openoxide.daemon.requests import Request, number, path
from openoxide.daemon.watched import Label, Watched
from openoxide.errors import UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

LONGEST_MS = 365 * 86_400_000


def pause(service: Service, request: Request, report: Reporter) -> PauseAnswer:
    """Seal what has changed so far, then let go of the tree. Where it is paused already, only the end is set anew."""
    for_ms = number(request, "for_ms")
    if for_ms is not None and for_ms > LONGEST_MS:
        raise UsageError(
            "a pause with an end lasts a year at most", hint="without --for it lasts until `oxide-ctl unpause`"
        )
    watched = service.find(path(request))
    with watched.lock:
        if not watched.paused:
            service.attach(watched, counting(report))
            watched.seal(Label(trigger=Trigger.MANUAL, turn=watched.only_turn, only_if_changed=True))
        service.pause(watched, None if for_ms is None else service.clock.now_ms() + for_ms)
        follow(service, watched.worktree)
        return _answer(watched)


def unpause(service: Service, request: Request, report: Reporter) -> PauseAnswer:
    """Go on recording; answers when the full pass has found what changed meanwhile. Nothing to do is no error."""
    watched = service.find(path(request))
    with watched.lock:
        if watched.paused:
            watched.set_pause(None, None)
        # before the tree, whose checkpoint tells where the memory stands
        follow(service, watched.worktree)
        service.attach(watched, counting(report))
        return _answer(watched)


def _answer(watched: Watched) -> PauseAnswer:
    newest = watched.newest()
    assert newest is not None, "an attached worktree has a checkpoint"
    return {
        "ok": True,
        "root": shown(watched.worktree.root),
        "paused_at": time_or_none(watched.worktree.paused_ms),
        "paused_until": time_or_none(watched.worktree.paused_until_ms),
        "checkpoint": checkpoint_object(newest),
    }
