"""``hook``: what an agent's hook tells becomes the begin or the end of a turn or a tool call.

A hook never fails: what cannot be declared (no watched project, no open turn, a pause, a payload that says nothing) is a
note of the answer. Nothing is watched because an agent runs there.

Spooled calls come first, oldest first. They are not played back: what was written while no daemon ran is nobody's, and a
state before the prompt was never seen. So of each session only what is open at the end of the spool is declared, from now
on: its turn with a checkpoint that says ``late``, its tool calls. What is older than this boot, or than the silence after
which a turn is told of as forgotten, is dropped. A file is removed after its session was declared; to declare a turn
twice changes nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from openoxide.agents import claude, codex, gemini
from openoxide.agents.hooks import HookCall, Kind, Reader, nothing
from openoxide.checkpoints import sight, store
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.idle import SILENT_MS
from openoxide.checkpoints.model import WindowKind
from openoxide.clock import rfc3339
from openoxide.daemon.operations import declaring
from openoxide.daemon.operations.briefing import at_start
from openoxide.daemon.operations.looking import holds
from openoxide.daemon.protocol.hooks import HookAnswer
from openoxide.daemon.requests import Request, inside, number, path
from openoxide.errors import NotFoundError, OpenOxideError, RefusedError, RootVanishedError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

READERS: Mapping[str, Reader] = {"claude": claude.read, "codex": codex.read, "gemini": gemini.read}
LONG_AGO = 0  # of the boot clock: whoever was due then is late
# a hook that comes so late was held up, and so were others, which all come at once then
DELAYED_MS, GRACE_SECONDS = 100, 0.05

log = logging.getLogger(__name__)


class Told(NamedTuple):
    """A hook's call with where it belongs: the folder that the agent was started in, if it says. By the boot clock: when
    the hook began, and until when its agent waits.
    """

    agent: str
    call: HookCall
    project: bytes
    at_ms: int
    due_ms: int | None


def hook(service: Service, request: Request, report: Reporter) -> HookAnswer:
    """Declare what a hook tells, after all that its session told before it."""
    told = understood(request, rfc3339(service.clock.now_ms()), service.clock.boot_ms())
    # an agent does not wait for every hook: an end must not overtake its begin while both wait
    age_ms = service.clock.boot_ms() - told.at_ms
    grace_seconds = GRACE_SECONDS if age_ms > DELAYED_MS else 0.0
    with service.sessions.turn((told.agent, told.call.session), told.at_ms, grace_seconds):
        take_up(service)
        notes = _declare(service, told, report)
    said = at_start(service, told.agent, told.project) if told.call.kind is Kind.SESSION_START and told.project else ""
    log.debug("%s of %s: %s", told.call.kind.value, told.agent, notes)
    return {"ok": True, "stdout": said, "notes": notes}


def take_up(service: Service) -> None:
    """Declare what is still open of what hooks told while nobody listened."""
    with service.spool.lock:
        now_ms = service.clock.now_ms()
        entries = service.spool.entries(now_ms)
        # no agent outlives its boot; and a turn that is told of as forgotten need not be opened any more
        oldest_ms = now_ms - min(SILENT_MS, service.clock.boot_ms())
        fresh = [entry for entry in entries if entry.at_ms >= oldest_ms]
        open_now = still_open(understood(entry.request, rfc3339(entry.at_ms)) for entry in fresh)
        try:
            for told in open_now:
                for note in _declare(service, told._replace(due_ms=LONG_AGO), lambda _: None):
                    log.info("spooled %s of %s: %s", told.call.kind.value, told.agent, note)
        except OpenOxideError as error:  # a full store, most likely: what is told now need not fail for that
            log.warning("the spool is not taken up yet: %s", error)
            return
        if entries:
            log.info("%d spooled calls of hooks, %d of them still open", len(entries), len(open_now))
        service.spool.remove(entries)


def understood(request: Request, moment: str, now_ms: int = LONG_AGO) -> Told:
    """What a request of the hook says; ``moment`` names a prompt that has no name. Never raises."""
    at_ms = _number(request, "at_ms")
    agent, event, payload = request.get("agent"), request.get("event"), request.get("payload")
    reader = READERS.get(agent) if isinstance(agent, str) else None
    if reader is None or not isinstance(agent, str) or not isinstance(event, str):
        return Told("", nothing("no agent that is known has this hook"), b"", now_ms, None)
    if "dropped_bytes" in request:
        call = nothing(f"the payload of {event} had {request['dropped_bytes']} bytes and was not sent")
        log.warning("%s: %s", agent, call.reason)
    else:
        call = reader(event, payload, moment) if isinstance(payload, dict) else nothing("the payload is no object")
    project = _project(request) or os.fsencode(call.cwd)
    return Told(agent, call, project, now_ms if at_ms is None else at_ms, _number(request, "due_ms"))


def still_open(calls: Iterable[Told]) -> list[Told]:
    """Of ``calls``, oldest first: the begins of the turns and tool calls that nothing has ended."""
    found: dict[tuple[str, str], list[Told]] = {}
    for told in calls:
        key = told.agent, told.call.session
        match told.call.kind:
            case Kind.TURN_BEGIN:
                found[key] = [told]
            case Kind.TOOL_BEGIN:
                found.setdefault(key, []).append(told)
            case Kind.TOOL_END:
                found[key] = [other for other in found.get(key, []) if other.call.tool != told.call.tool]
            case Kind.TURN_END | Kind.SESSION_END:
                found.pop(key, None)
            case _:
                pass
    return [told for session in found.values() for told in session]


def _declare(service: Service, told: Told, report: Reporter) -> list[str]:
    if told.call.kind is Kind.NONE:
        return [told.call.reason]
    try:
        return _declared(service, told, _place(service, told), report)
    except (NotFoundError, RefusedError, RootVanishedError) as error:
        return [error.message]


def _declared(service: Service, told: Told, place: str, report: Reporter) -> list[str]:
    call = told.call
    request: dict[str, Any] = {"path": place, "agent": told.agent, "session": call.session, "tool": call.tool}
    match call.kind:
        case Kind.TURN_BEGIN:
            return _begin_turn(service, request | {"prompt": call.prompt, "due_ms": told.due_ms}, report)
        case Kind.TOOL_BEGIN:
            return declaring.tool_begin(service, request, report)["notes"]
        case Kind.TOOL_END:
            return declaring.tool_end(service, request | {"writes": _writes(service, call, place)}, report)["notes"]
        case Kind.TURN_END:
            return declaring.turn_end(service, request | {"prompt": call.prompt}, report)["notes"]
        case Kind.SESSION_END:
            return declaring.turn_end(service, request, report)["notes"]
        case _:
            return []


def _begin_turn(service: Service, request: Request, report: Reporter) -> list[str]:
    """Once for each prompt: a hook that is installed twice tells twice, the second time when the agent may be at work."""
    with service.using(path(request)) as watched:
        with service.timeline.database.reading() as db:
            known = store.CheckpointQuery(db, watched.worktree.id).turn_prompt(request["prompt"])
        # by its checkpoint: a crash may have left a turn that has none (tests/faults/test_hooks.py)
        if any(checkpoint.session == request["session"] for checkpoint in known):
            return [f"turn {request['prompt']} had begun before"]
        return declaring.turn_begin(service, request, report)["notes"]


def _place(service: Service, told: Told) -> str:
    """A folder in the worktree that the call belongs to. Once a turn has begun that is its own: the cwd that later hooks
    name is the tool's.
    """
    if told.call.kind is not Kind.TURN_BEGIN:
        # asked of every worktree: a tool may work in another one that is watched too
        with service.timeline.database.reading() as db:
            turns = {
                watched.worktree.root: sight.undeclared_end(db, watched.worktree.id, told.call.session, WindowKind.TURN)
                for watched in service.trees()
            }
        newest = max((turn.id, root) for root, turn in turns.items() if turn) if any(turns.values()) else None
        if newest is not None:
            return os.fsdecode(newest[1])
    if not told.project:
        raise NotFoundError("the hook names no folder")
    service.find(told.project)
    return os.fsdecode(told.project)


def _writes(service: Service, call: HookCall, place: str) -> list[dict[str, str]]:
    worktree = service.known(os.fsencode(place))
    memories = service.memories.roots(worktree)
    found = []
    for write in call.writes:
        try:
            if not any(holds(memory, os.fsencode(write.path)) for memory in memories):
                inside(worktree.root, write.path)
        except UsageError:  # tools write elsewhere too
            continue
        found.append({"path": write.path, "hash": blob_hash(write.content).hex()})
    return found


def _project(request: Request) -> bytes:
    try:
        return path(request, "project_dir")
    except (UsageError, ValueError):  # not told, or no path that a system has
        return b""


def _number(request: Request, name: str) -> int | None:
    try:
        return number(request, name, least=0)
    except UsageError:
        return None
