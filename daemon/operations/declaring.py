"""``turn begin|end`` and ``tool begin|end``: who writes, and from when to when.

Each boundary records under the windows that were open until then, and only then changes them. A window whose own end
nobody could have recorded was ended where the record was (``sight.lose_sight``); its end is answered all the same, and
tool calls of such a turn can still begin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from openoxide.checkpoints import sight, store
from openoxide.checkpoints.attribution import writer_between
from openoxide.checkpoints.model import BlobHash, Checkpoint, Trigger, Window, WindowKind
from openoxide.checkpoints.timeline import Attribute
from openoxide.clock import rfc3339
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.operations.looking import holds
from openoxide.daemon.protocol.checkpoints import WindowAnswer
from openoxide.daemon.requests import Request, inside, number, optional_text, path, text
from openoxide.daemon.watched import Label, Watched, with_sure_writes, writer_between_windows
from openoxide.errors import NotFoundError, RefusedError, RootVanishedError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

_NOT_RECORDED = (NotFoundError, RefusedError, RootVanishedError)


def turn_begin(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A prompt was given: checkpoint first, then the turn is open. An open turn of the same session ends.
    ``due_ms`` (boot clock): until when whoever asks waits with what it does next.
    """
    due_ms = number(request, "due_ms", least=0)
    with service.using(path(request)) as watched:
        session = text(request, "session")
        # one that has come to be is of those who worked until now
        service.memories.sync(watched.worktree)
        until_now = writer_between_windows(watched.windows)
        seq = watched.record()
        ended = [window for window in watched.windows if window.session == session]
        watched.end_windows(frozenset(window.id for window in ended), seq)
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
        service.memories.sync(watched.worktree)
        sealed = watched.seal(Label(trigger=Trigger.PROMPT, turn=turn, due_ms=due_ms), until_now)
        open_turns = [window.prompt for window in ended if window.kind is WindowKind.TURN]
        notes = [
            f"turn {prompt} had not ended and ends here: a session has one turn at a time" for prompt in open_turns
        ]
        return _answer(turn, None, sealed, notes)


def turn_end(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """The turn is over; tool calls of its session that are still open end with it."""
    session, prompt = text(request, "session"), optional_text(request, "prompt")

    def meant(worktree: int) -> Window | None:
        with service.timeline.database.reading() as db:
            return sight.undeclared_end(db, worktree, session, WindowKind.TURN, prompt=prompt)

    try:
        with service.using(path(request)) as watched:
            turn = meant(watched.worktree.id)
            if turn is None:
                raise NotFoundError(
                    f"session {session!r} has no open turn" + (f" for prompt {prompt!r}" if prompt else "")
                )
            sealed = _seal_boundary(watched, turn)
            seq = watched.record()
            watched.end_windows(frozenset(w.id for w in watched.windows if turn.id in (w.id, w.parent)), seq)
            service.memories.sync(watched.worktree)
            return _answer(turn, None, sealed, _notes(service, turn))
    except _NOT_RECORDED:
        if (answer := _lost(service, request, meant)) is None:
            raise
        return answer


def tool_begin(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A tool call starts inside a turn, also inside one that was lost: that its agent goes on proves this call alone."""
    with service.using(path(request)) as watched:
        with service.timeline.database.reading() as db:
            turn = sight.undeclared_end(db, watched.worktree.id, text(request, "session"), WindowKind.TURN)
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
        service.memories.sync(watched.worktree)
        return _answer(turn, tool, sealed, [])


def tool_end(service: Service, request: Request, _report: Reporter) -> WindowAnswer:
    """A tool call is over. ``writes`` names paths and the BLAKE3 of the bytes it wrote there: these are surely its,
    also where they were recorded before it ended.
    """
    session, name = text(request, "session"), text(request, "tool")

    def meant(worktree: int) -> Window | None:
        with service.timeline.database.reading() as db:
            return sight.undeclared_end(db, worktree, session, WindowKind.TOOL, tool=name)

    try:
        with service.using(path(request)) as watched:
            tool = meant(watched.worktree.id)
            if tool is None:
                raise NotFoundError(f"session {session!r} has no open call of tool {name!r}")
            writes, noted = _writes(request, watched.worktree.root, service.memories.roots(watched.worktree))
            watched.claim(tool, writes)
            service.memories.wrote(watched.worktree, tool, noted)
            # asked for each path: what the recording drains may tell that sight was lost
            by = with_sure_writes(tool, writes, lambda _: writer_between(watched.windows))
            turn = _turn_of(service, tool)
            sealed = _seal_boundary(watched, turn, by)
            watched.end_windows(frozenset({tool.id}), watched.record())
            service.memories.sync(watched.worktree)
            return _answer(turn, tool, sealed, _notes(service, tool))
    except _NOT_RECORDED:
        if (answer := _lost(service, request, meant)) is None:
            raise
        return answer


def _seal_boundary(watched: Watched, turn: Window, by: Attribute | None = None) -> Checkpoint:
    """What changed until now; what a turn left behind that has been lost sight of is nobody's checkpoint."""
    label = Label(trigger=Trigger.TOOL, turn=None if turn.lost else turn, only_if_changed=True)
    return watched.seal(label, by)


def _turn_of(service: Service, window: Window) -> Window:
    with service.timeline.database.reading() as db:
        return sight.windows_by_id(db, frozenset({window.parent or window.id}))[0]


def _lost(service: Service, request: Request, meant: Callable[[int], Window | None]) -> WindowAnswer | None:
    """The answer for the end of a window that was lost, where nothing can be recorded now; None: it is another error."""
    known = service.known(path(request))
    service.memories.sync(known)
    worktree = known.id
    window = meant(worktree)
    with service.timeline.database.reading() as db:
        newest = store.CheckpointQuery(db, worktree).newest()
    if window is None or not window.lost or newest is None:
        return None
    tool = window if window.kind is WindowKind.TOOL else None
    return _answer(_turn_of(service, window), tool, newest, _notes(service, window))


def _notes(service: Service, window: Window) -> list[str]:
    """What is to be said of the end that ``window`` has."""
    with service.timeline.database.reading() as db:
        (ended,) = sight.windows_by_id(db, frozenset({window.id}))
    if not ended.lost or ended.ended_at_ms is None:
        return []
    when = f"it had ended at {rfc3339(ended.ended_at_ms)}, when the project was lost sight of ({ended.lost})"
    return [f"{when}; what changed after that is not taken for its own"]


def _writes(
    request: Request, root: bytes, memories: Sequence[bytes]
) -> tuple[dict[bytes, BlobHash], dict[bytes, dict[bytes, BlobHash]]]:
    """What the request says was written in the tree, and what in each of its memories, by their roots."""
    found: dict[bytes, BlobHash] = {}
    noted: dict[bytes, dict[bytes, BlobHash]] = {}
    for write in request.get("writes") or []:
        try:
            memory = next((one for one in memories if holds(one, os.fsencode(write["path"]))), None)
            name = inside(root if memory is None else memory, write["path"])
            digest = bytes.fromhex(write["hash"])
        except (TypeError, KeyError, ValueError) as error:
            raise UsageError("writes is not a list of {path, hash}") from error
        (found if memory is None else noted.setdefault(memory, {}))[name] = BlobHash(digest)
    return found, noted


def _answer(turn: Window, tool: Window | None, sealed: Checkpoint, notes: list[str]) -> WindowAnswer:
    return {
        "ok": True,
        "turn": turn.prompt,
        "tool": tool.tool if tool else None,
        "checkpoint": checkpoint_object(sealed),
        "notes": notes,
    }
