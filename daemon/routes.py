"""Names of operations to what carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from openoxide.clock import rfc3339
from openoxide.daemon.operations import (
    accepting,
    backing,
    briefing,
    checking,
    checkpointing,
    declaring,
    examining,
    expiring,
    forgetting,
    hooking,
    keeping,
    leaving,
    logbook,
    looking,
    measuring,
    moving,
    pausing,
    promoting,
    pruning,
    purging,
    recalling,
    remembering,
    restoring,
    reviewing,
    rewinding,
    settling,
    surveying,
    unwatching,
    watching,
)
from openoxide.daemon.operations.looking import View
from openoxide.daemon.requests import Request, path
from openoxide.errors import (
    FailedError,
    NotFoundError,
    RefusedError,
    RootVanishedError,
    StoreFullError,
    StoreReadOnlyError,
)

if TYPE_CHECKING:
    from openoxide.daemon.server import Handler, Reporter
    from openoxide.daemon.service import Service

NOT_RECORDED = (NotFoundError, RefusedError, RootVanishedError)
"""Why nothing can be added to a history that can still be read: not watched, paused, gone."""
NOT_RECORDABLE = (StoreFullError, StoreReadOnlyError, FailedError)
"""What the store says to it: no room, no right, somebody else has it."""

LOOKING: Mapping[str, Callable[[View, Request], Any]] = {
    "diff": looking.diff,
    "log": looking.log,
    "show": looking.show,
    "cat": looking.cat,
    "restore": restoring.restore,
    "operations": logbook.operations,
    "history": recalling.history,
}

DOING: Mapping[str, Callable[[Service, Request, Reporter], Any]] = {
    "watch": watching.watch,
    "survey": surveying.survey,
    "unwatch": unwatching.unwatch,
    "doctor": examining.doctor,
    "leave": leaving.leave,
    "pause": pausing.pause,
    "unpause": pausing.unpause,
    "projects": watching.projects,
    "projects_move": moving.move,
    "projects_join": moving.join,
    "status": watching.status,
    "du": measuring.du,
    "check": checking.check,
    "backup": backing.backup,
    "prune": pruning.prune,
    "stop": watching.stop,
    "checkpoint": checkpointing.checkpoint,
    "pin": keeping.pin,
    "unpin": keeping.unpin,
    "name": keeping.name,
    "forget": forgetting.forget,
    "unforget": forgetting.unforget,
    "expire": expiring.expire,
    "purge": purging.purge,
    "rewind": rewinding.rewind,
    "undo": rewinding.undo,
    "redo": rewinding.redo,
    "settle": settling.settle,
    "turn_begin": declaring.turn_begin,
    "turn_end": declaring.turn_end,
    "tool_begin": declaring.tool_begin,
    "tool_end": declaring.tool_end,
    "hook": hooking.hook,
    "memory_index": remembering.index,
    "memory_context": briefing.briefing,
    "memory_topics": remembering.topics,
    "memory_read": remembering.read,
    "memory_read_version": reviewing.read_version,
    "memory_search": remembering.search,
    "memory_lint": remembering.lint,
    "memory_save": remembering.save,
    "memory_edit": remembering.edit,
    "memory_delete": remembering.delete,
    "memory_rename": remembering.rename,
    "memory_tool": remembering.tool,
    "memory_history": reviewing.history,
    "memory_blame": reviewing.blame,
    "memory_revert": reviewing.revert,
    "memory_promote": promoting.promoting,
    "memory_review": accepting.review,
    "memory_mark": accepting.mark,
    "memory_reject": accepting.reject,
}

READING = frozenset({*LOOKING, "rewind", "undo", "redo", "settle"})
"""What names states first and asks for them and their contents later."""


def routes(service: Service) -> dict[str, Handler]:
    """Every operation of ``service``."""
    found: dict[str, Handler] = {name: _doing(service, act) for name, act in DOING.items()}
    found |= {name: _looking(service, look) for name, look in LOOKING.items()}
    found["diff"] = _diff(service)
    found["history"] = _history(service)
    return {name: _leased(service, handle) if name in READING else handle for name, handle in found.items()}


def _leased(service: Service, handle: Handler) -> Handler:
    """What it finds in the rows is there until it has answered, whatever a prune deletes."""

    def handle_leased(request: Request, report: Reporter) -> Any:
        with service.timeline.blobs.leases.holding():
            return handle(request, report)

    return handle_leased


def _doing(service: Service, act: Callable[[Service, Request, Reporter], Any]) -> Handler:
    return lambda request, report: act(service, request, report)


def _looking(service: Service, look: Callable[[View, Request], Any]) -> Handler:
    return lambda request, _report: look(service.view(service.known(path(request))), request)


def _diff(service: Service) -> Handler:
    """A diff against now records first; one between two checkpoints only looks."""

    def handle(request: Request, _report: Reporter) -> Any:
        if request.get("b") is not None:
            return looking.diff(service.view(service.known(path(request))), request)
        with service.using(path(request)) as watched:
            watched.record()
            return looking.diff(service.view(watched.worktree), request)

    return handle


def _history(service: Service) -> Handler:
    """A history ends with what stands there now, where that is watched, not paused, and can be recorded."""

    def handle(request: Request, report: Reporter) -> Any:
        trouble = ""
        try:
            with suppress(*NOT_RECORDED), service.using(path(request)) as watched:
                watched.record()
        except NOT_RECORDABLE as error:
            trouble = error.message
        worktree = service.known(path(request))
        answer = recalling.history(service.view(worktree), request, report)
        if worktree.paused_ms is not None:
            trouble = f"paused since {rfc3339(worktree.paused_ms)}"
        return {**answer, "note": f"{trouble}: what changed since then is not in this"} if trouble else answer

    return handle
