"""``turn begin|end`` and ``tool begin|end``: who writes, and from when to when.

Each boundary records under the windows that were open until then, and only then changes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.checkpoints.model import BlobHash, Checkpoint, Trigger, Window, WindowKind
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.protocol import WindowAnswer
from openoxide.daemon.requests import Request, inside, optional_text, path, text
from openoxide.daemon.watched import Label, Watched, with_sure_writes, writer_between_windows
from openoxide.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def turn_begin(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A prompt was given: checkpoint first, then the turn is open. An open turn of the same session ends."""
    with service.using(path(request)) as watched:
        session = text(request, "session")
        until_now = writer_between_windows(watched.windows)
        seq = watched.record()
        watched.end_windows(frozenset(w.id for w in _of_session(watched, session)), seq)
        turn = watched.begin_window(
            Window(
                id=0,
                kind=WindowKind.TURN,
                agent=text(request, "agent"),
                session=session,
                prompt=text(request, "prompt"),
                began_seq=seq,
            )
        )
        sealed = watched.seal(Label(trigger=Trigger.PROMPT, turn=turn), until_now)
        return _answer(turn, None, sealed)


def turn_end(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """The turn is over; tool calls of its session that are still open end with it."""
    with service.using(path(request)) as watched:
        turn = _open_turn(watched, text(request, "session"))
        prompt = optional_text(request, "prompt")
        if turn is None or (prompt is not None and turn.prompt != prompt):
            raise NotFoundError(
                f"session {request['session']!r} has no open turn" + (f" for prompt {prompt!r}" if prompt else "")
            )
        sealed = _seal_boundary(watched, turn)
        ended = {window.id for window in _of_session(watched, turn.session)}
        watched.end_windows(frozenset(ended), watched.record())
        return _answer(turn, None, sealed)


def tool_begin(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A tool call starts inside a turn."""
    with service.using(path(request)) as watched:
        turn = _open_turn(watched, text(request, "session"))
        if turn is None:
            raise NotFoundError(
                f"session {request['session']!r} has no open turn", hint="declare it with `oxide-ctl turn begin` first"
            )
        sealed = _seal_boundary(watched, turn)
        tool = watched.begin_window(
            Window(
                id=0,
                kind=WindowKind.TOOL,
                agent=text(request, "agent"),
                session=turn.session,
                prompt=turn.prompt,
                tool=text(request, "tool"),
                parent=turn.id,
                began_seq=watched.record(),
            )
        )
        return _answer(turn, tool, sealed)


def tool_end(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A tool call is over. ``writes`` names paths and the BLAKE3 of the bytes it wrote there: these are surely its,
    also where they were recorded before it ended.
    """
    with service.using(path(request)) as watched:
        session, name = text(request, "session"), text(request, "tool")
        calls = [w for w in _of_session(watched, session) if w.kind is WindowKind.TOOL and w.tool == name]
        turn = _open_turn(watched, session)
        if not calls or turn is None:
            raise NotFoundError(f"session {session!r} has no open call of tool {name!r}")
        tool = calls[-1]
        writes = _writes(request, watched)
        watched.claim(tool, writes)
        by = with_sure_writes(tool, writes, writer_between_windows(watched.windows))
        sealed = watched.seal(Label(trigger=Trigger.TOOL, turn=turn, only_if_changed=True), by)
        watched.end_windows(frozenset({tool.id}), watched.record())
        return _answer(turn, tool, sealed)


def _seal_boundary(watched: Watched, turn: Window) -> Checkpoint:
    return watched.seal(Label(trigger=Trigger.TOOL, turn=turn, only_if_changed=True))


def _of_session(watched: Watched, session: str) -> list[Window]:
    return [window for window in watched.windows if window.session == session]


def _open_turn(watched: Watched, session: str) -> Window | None:
    turns = [window for window in _of_session(watched, session) if window.kind is WindowKind.TURN]
    return turns[-1] if turns else None


def _writes(request: Request, watched: Watched) -> dict[bytes, BlobHash]:
    found = {}
    for write in request.get("writes") or []:
        try:
            name, digest = inside(watched.worktree.root, write["path"]), bytes.fromhex(write["hash"])
        except (TypeError, KeyError, ValueError) as error:
            raise UsageError("writes is not a list of {path, hash}") from error
        found[name] = BlobHash(digest)
    return found


def _answer(turn: Window, tool: Window | None, sealed: Checkpoint) -> WindowAnswer:
    return {
        "ok": True,
        "turn": turn.prompt,
        "tool": tool.tool if tool else None,
        "checkpoint": checkpoint_object(sealed),
    }
