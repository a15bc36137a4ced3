"""The one typed client of the daemon: an error answer comes back as the exception it was made from.

Every command pays for what is imported here, so it is little: no http.client, pathlib, dataclasses or subprocess. Each
call is a connection of its own. A request is sent again only if the daemon said that it did not run it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from openoxide import __version__
from openoxide.daemon.protocol import (
    ANY_VERSION,
    EVENT_STREAM,
    HOST,
    MAX_SOCKET_PATH,
    NOT_RUN,
    OCTETS,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    VERSION_HEADER,
    Progress,
)
from openoxide.errors import DaemonUnreachableError, FailedError, VersionMismatchError, from_object

if TYPE_CHECKING:
    from openoxide.daemon.launch import Launch
    from openoxide.daemon.protocol import Items
    from openoxide.daemon.protocol.checkpoints import (
        CheckpointObject,
        ForgetAnswer,
        KeepAnswer,
        RestoreAnswer,
        SearchAnswer,
        ShowAnswer,
        WindowAnswer,
    )
    from openoxide.daemon.protocol.health import DoctorAnswer, DuAnswer, LeaveAnswer, StatusAnswer
    from openoxide.daemon.protocol.projects import JoinAnswer, MoveAnswer, PauseAnswer, SurveyAnswer, WatchAnswer
    from openoxide.daemon.protocol.rewinds import RewindAnswer

STOP_HINT = "run `oxide-ctl stop`; the next command starts a daemon of its own version"

START_SECONDS = 10.0
SILENCE_SECONDS = 600.0
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.02
MAX_LINE_BYTES = 64 << 10

ProgressCallback = Callable[[Progress], None]


class Client:
    """One method for each operation. ``timeout_seconds`` is how long the daemon may be silent.

    With ``autostart`` a daemon that is not there is started, by ``daemon_argv`` where given.
    """

    def __init__(
        self,
        socket_path: str,
        *,
        autostart: bool,
        timeout_seconds: float = SILENCE_SECONDS,
        daemon_argv: Sequence[str] | None = None,
    ) -> None:
        self._path = socket_path
        self._autostart = autostart
        self._timeout_seconds = timeout_seconds
        self._daemon_argv = daemon_argv

    def status(self) -> StatusAnswer:
        return cast("StatusAnswer", self.call("status", {}))

    def du(self) -> DuAnswer:
        return cast("DuAnswer", self.call("du", {}))

    def projects(self) -> Items:
        return cast("Items", self.call("projects", {}))

    def watch(self, path: str, *, allow_broad: bool = False, progress: ProgressCallback | None = None) -> WatchAnswer:
        request = {"path": path, "allow_broad": allow_broad}
        return cast("WatchAnswer", self.call("watch", request, progress))

    def survey(self, path: str, *, allow_broad: bool = False, progress: ProgressCallback | None = None) -> SurveyAnswer:
        return cast("SurveyAnswer", self.call("survey", {"path": path, "allow_broad": allow_broad}, progress))

    def unwatch(self, path: str, *, delete_history: bool = False, dry_run: bool = False) -> dict[str, Any]:
        return self.call("unwatch", {"path": path, "delete_history": delete_history, "dry_run": dry_run})

    def move_project(
        self,
        old: str,
        new: str,
        *,
        history: int | None = None,
        yes: bool = False,
        progress: ProgressCallback | None = None,
    ) -> MoveAnswer:
        request = _given(old=old, new=new, history=history, yes=yes)
        return cast("MoveAnswer", self.call("projects_move", request, progress))

    def join_projects(self, a: str, b: str) -> JoinAnswer:
        return cast("JoinAnswer", self.call("projects_join", {"a": a, "b": b}))

    def doctor(self, *, fix: bool = False) -> DoctorAnswer:
        return cast("DoctorAnswer", self.call("doctor", {"fix": fix}))

    def leave(self, *, keep_history: bool, dry_run: bool) -> LeaveAnswer:
        return cast("LeaveAnswer", self.call("leave", {"keep_history": keep_history, "dry_run": dry_run}))

    def pause(self, path: str, *, for_ms: int | None = None) -> PauseAnswer:
        return cast("PauseAnswer", self.call("pause", _given(path=path, for_ms=for_ms)))

    def unpause(self, path: str, *, progress: ProgressCallback | None = None) -> PauseAnswer:
        return cast("PauseAnswer", self.call("unpause", {"path": path}, progress))

    def stop(self) -> dict[str, Any]:
        """Stop the daemon; returns when its socket is gone, the last thing it removes. Never starts one."""
        before = _identity(self._path)
        answer = self._at_once("stop")
        deadline = time.monotonic() + START_SECONDS
        while before and _identity(self._path) == before and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return answer

    def runs(self) -> bool:
        """Whether a daemon is there, of whatever version. Never starts one. Raises DaemonUnreachableError where it does
        not answer.
        """
        try:
            self._at_once("ping")
        except DaemonUnreachableError as error:
            if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                return False
            raise
        return True

    def _at_once(self, name: str) -> dict[str, Any]:
        """The answer of what a daemon does at once, of whatever version: one that does not is halted or hangs."""
        patience = min(self._timeout_seconds, ANSWER_SECONDS)
        try:
            return Client(self._path, autostart=False, timeout_seconds=patience).call(name, {})
        except DaemonUnreachableError as error:
            if isinstance(error.__cause__, TimeoutError):
                pid = _pid(self._path)
                error.hint = f"`kill -CONT {pid}` lets it go on if it is halted, `kill -KILL {pid}` ends it"
            raise

    def checkpoint(
        self,
        path: str,
        *,
        name: str | None = None,
        pin: bool = False,
        trigger: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> CheckpointObject:
        request = _given(path=path, name=name, pin=pin, trigger=trigger)
        return cast("CheckpointObject", self.call("checkpoint", request, progress))

    def log(
        self,
        path: str,
        *,
        limit: int | None = None,
        all: bool = False,  # noqa: A002 the field's name on the wire
        named: bool = False,
        session: str | None = None,
        since: str | None = None,
        cursor: str | None = None,
    ) -> Items:
        request = _given(path=path, limit=limit, all=all, named=named, session=session, since=since, cursor=cursor)
        return cast("Items", self.call("log", request))

    def show(self, path: str, checkpoint: str) -> ShowAnswer:
        return cast("ShowAnswer", self.call("show", {"path": path, "checkpoint": checkpoint}))

    def pin(self, path: str, checkpoint: str) -> KeepAnswer:
        return cast("KeepAnswer", self.call("pin", {"path": path, "checkpoint": checkpoint}))

    def unpin(self, path: str, checkpoint: str) -> KeepAnswer:
        return cast("KeepAnswer", self.call("unpin", {"path": path, "checkpoint": checkpoint}))

    def name(self, path: str, checkpoint: str, name: str) -> KeepAnswer:
        """An empty ``name`` takes the name off."""
        return cast("KeepAnswer", self.call("name", {"path": path, "checkpoint": checkpoint, "name": name}))

    def forget(self, path: str, checkpoints: Sequence[str], *, dry_run: bool = False) -> ForgetAnswer:
        request = {"path": path, "checkpoints": list(checkpoints), "dry_run": dry_run}
        return cast("ForgetAnswer", self.call("forget", request))

    def unforget(self, path: str, checkpoints: Sequence[str]) -> Items:
        return cast("Items", self.call("unforget", {"path": path, "checkpoints": list(checkpoints)}))

    def diff(self, path: str, a: str, b: str | None = None, *, paths: Sequence[str] = (), patch: bool = False) -> Items:
        return cast("Items", self.call("diff", _given(path=path, a=a, b=b, paths=list(paths), patch=patch)))

    def cat(self, path: str, checkpoint: str, file: str) -> bytes:
        return self.call_bytes("cat", {"path": path, "checkpoint": checkpoint, "file": file})

    def history(
        self,
        path: str,
        *,
        file: str | None = None,
        paths: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Items:
        """Every version of ``file``; without one what vanished of ``paths``."""
        request = _given(path=path, file=file, deleted=file is None, paths=list(paths), limit=limit, cursor=cursor)
        return cast("Items", self.call("history", request))

    def search(
        self,
        path: str,
        text: str,
        *,
        binary: bool = False,
        paths: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> SearchAnswer:
        """``history`` of a text."""
        request = _given(path=path, search=text, binary=binary, paths=list(paths), limit=limit, cursor=cursor)
        return cast("SearchAnswer", self.call("history", request, progress))

    def restore(
        self,
        path: str,
        checkpoint: str,
        to: str,
        *,
        paths: Sequence[str] = (),
        force: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RestoreAnswer:
        request = {"path": path, "checkpoint": checkpoint, "to": to, "paths": list(paths), "force": force}
        return cast("RestoreAnswer", self.call("restore", request, progress))

    def rewind(
        self,
        path: str,
        checkpoint: str | None = None,
        *,
        turn: str | None = None,
        scope: str | None = None,
        exact: bool = False,
        conflict: str = "keep",
        dry_run: bool = False,
        touch: bool = False,
        paths: Sequence[str] = (),
        plan_seq: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> RewindAnswer:
        request = _given(
            path=path,
            checkpoint=checkpoint,
            turn=turn,
            plan_seq=plan_seq,
            scope=scope,
            exact=exact,
            conflict=conflict,
            dry_run=dry_run,
            touch=touch,
            paths=list(paths),
        )
        return cast("RewindAnswer", self.call("rewind", request, progress))

    def settle(self, path: str, action: str, *, progress: ProgressCallback | None = None) -> RewindAnswer:
        """``action`` is ``continue`` or ``abort``."""
        return cast("RewindAnswer", self.call("settle", {"path": path, "action": action}, progress))

    def turn_begin(self, path: str, *, agent: str, session: str, prompt: str) -> WindowAnswer:
        request = {"path": path, "agent": agent, "session": session, "prompt": prompt}
        return cast("WindowAnswer", self.call("turn_begin", request))

    def turn_end(self, path: str, *, agent: str, session: str, prompt: str | None = None) -> WindowAnswer:
        request = _given(path=path, agent=agent, session=session, prompt=prompt)
        return cast("WindowAnswer", self.call("turn_end", request))

    def tool_begin(self, path: str, *, agent: str, session: str, tool: str, prompt: str | None = None) -> WindowAnswer:
        request = _given(path=path, agent=agent, session=session, prompt=prompt, tool=tool)
        return cast("WindowAnswer", self.call("tool_begin", request))

    def tool_end(
        self, path: str, *, agent: str, session: str, tool: str, writes: Sequence[Mapping[str, str]] | None = None
    ) -> WindowAnswer:
        """``writes`` says what the tool wrote: ``{"path", "hash"}`` of each file."""
        said = None if writes is None else list(writes)
        request = _given(path=path, agent=agent, session=session, tool=tool, writes=said)
        return cast("WindowAnswer", self.call("tool_end", request))

    def undo(
        self, path: str, *, count: int = 1, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> RewindAnswer:
        return cast("RewindAnswer", self.call("undo", {"path": path, "count": count, "dry_run": dry_run}, progress))

    def redo(
        self, path: str, *, count: int = 1, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> RewindAnswer:
        return cast("RewindAnswer", self.call("redo", {"path": path, "count": count, "dry_run": dry_run}, progress))

    def operations(self, path: str, *, limit: int | None = None) -> Items:
        return cast("Items", self.call("operations", _given(path=path, limit=limit)))

    def call(self, name: str, request: Mapping[str, Any], progress: ProgressCallback | None = None) -> dict[str, Any]:
        """The answer of operation ``name``; ``progress`` is told how far it is."""
        return _answer_object(self._ask(name, request, progress))

    def call_bytes(self, name: str, request: Mapping[str, Any]) -> bytes:
        """The answer of an operation that answers bytes."""
        reply = self._ask(name, request, None)
        if reply.headers.get("content-type") == OCTETS:
            return reply.body
        _answer_object(reply)
        raise FailedError(f"{name} did not answer with bytes")

    def _ask(self, name: str, request: Mapping[str, Any], progress: ProgressCallback | None) -> _Reply:
        message = _message(name, request, EVENT_STREAM if progress else "*/*")
        deadline = time.monotonic() + START_SECONDS
        reply = self._exchange(message, progress)
        while reply.status == NOT_RUN and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            reply = self._exchange(message, progress)
        if name not in ANY_VERSION:
            _check_version(reply.headers)
        return reply

    def _exchange(self, message: bytes, progress: ProgressCallback | None) -> _Reply:
        with self._connect() as connection:
            connection.settimeout(self._timeout_seconds)
            try:
                # A request that is refused before it was read whole breaks the pipe; the answer that came says why
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(message)
                with connection.makefile("rb") as stream:
                    return _read_reply(stream, progress)
            except TimeoutError as error:
                silence = f"the daemon (pid {_pid(self._path)}) was silent for {self._timeout_seconds:g} s"
                raise DaemonUnreachableError(silence, hint="what was asked for may still be running") from error
            except ConnectionError as error:
                raise _cut() from error

    def _connect(self) -> socket.socket:
        launch: Launch | None = None
        deadline = time.monotonic() + START_SECONDS
        try:
            while True:
                try:
                    return _open(self._path)
                except (FileNotFoundError, ConnectionRefusedError) as error:
                    failure: OSError = error
                    launch = self._start(launch, error)
                except BlockingIOError as error:  # the backlog is full
                    failure = error
                except OSError as error:
                    reason = error.strerror or error
                    raise DaemonUnreachableError(f"cannot connect to {self._path}: {reason}") from error
                if time.monotonic() > deadline:
                    message = f"no daemon answered on {self._path} within {START_SECONDS:g} s"
                    hint = "the daemon's log lies in logs beside it"
                    raise DaemonUnreachableError(message, hint=hint) from failure
                time.sleep(POLL_SECONDS)
        finally:
            if launch:
                launch.release()

    def _start(self, launch: Launch | None, refusal: OSError) -> Launch:
        if not self._autostart:
            hint = "start it with `oxided`, or unset OPENOXIDE_NO_AUTOSTART"
            raise DaemonUnreachableError(f"no daemon listens on {self._path}", hint=hint) from refusal
        if launch:
            launch.tend()
            return launch
        from openoxide.daemon.launch import spawn  # noqa: PLC0415 subprocess and tempfile are paid for here only

        return spawn({**os.environ, "OPENOXIDE_HOME": os.path.dirname(self._path)}, self._daemon_argv)


class _Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def socket_path(environ: Mapping[str, str]) -> str:
    """``Home.socket`` of the home that ``environ`` names, without what openoxide.paths imports."""
    folder = environ.get("OPENOXIDE_HOME") or os.path.join(os.path.expanduser("~"), ".openoxide")
    if not os.path.isabs(folder):
        folder = os.path.join(os.getcwd(), folder)
    return os.path.join(folder, "oxided.sock")


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns  # an inode number alone is used again at once


def _pid(path: str) -> str:
    """The pid that the daemon wrote beside its socket."""
    with (
        suppress(OSError, ValueError),
        open(os.path.join(os.path.dirname(path), "oxided.lock"), encoding="ascii") as lock,
    ):
        return str(int(lock.read(20)))
    return "not known"


def _open(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)  # a connect would wait without end for room in the backlog of a daemon that hangs
    try:
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH or sys.platform != "linux":
            connection.connect(path)
            return connection
        # sun_path is short; /proc leads to an open folder without naming it
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        finally:
            os.close(folder)
    except BaseException:
        connection.close()
        raise
    return connection


def _message(name: str, request: Mapping[str, Any], accept: str) -> bytes:
    body = json.dumps(request).encode()  # all ASCII: a lone surrogate (an undecodable byte of a path) goes as an escape
    lines = (
        f"POST {PREFIX}{name} HTTP/1.1",
        f"Host: {HOST}",
        f"{PROTOCOL_HEADER}: {PROTOCOL}",
        f"{VERSION_HEADER}: {__version__}",
        f"Accept: {accept}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body


def _read_reply(stream: IO[bytes], progress: ProgressCallback | None) -> _Reply:
    words = stream.readline(MAX_LINE_BYTES).split(None, 2)
    if not words:
        raise _cut()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise DaemonUnreachableError("what answers on the daemon's socket does not speak HTTP")
    headers: dict[str, str] = {}
    while line := stream.readline(MAX_LINE_BYTES).strip():
        key, _, value = line.decode("latin-1").partition(":")
        headers[key.lower()] = value.strip()
    if headers.get("content-type") == EVENT_STREAM:
        return _Reply(int(words[1]), headers, _read_events(stream, progress))
    length = headers.get("content-length", "0")
    body = stream.read(int(length) if length.isdigit() else 0)
    if str(len(body)) != length:
        raise _cut()
    return _Reply(int(words[1]), headers, body)


def _read_events(stream: IO[bytes], progress: ProgressCallback | None) -> bytes:
    event = b""
    for line in stream:
        field, _, value = line.strip().partition(b": ")
        if field == b"event":
            event = value
        elif field == b"data" and event == b"answer":
            return value
        elif field == b"data" and progress:
            progress(_loads(value))
    raise _cut()


def _cut() -> DaemonUnreachableError:
    return DaemonUnreachableError(
        "the daemon closed the connection before its answer was complete",
        hint="it may have been stopped; `oxide-ctl operations` shows what was done",
    )


def _check_version(headers: dict[str, str]) -> None:
    spoken = headers.get(PROTOCOL_HEADER.lower(), "none")
    if spoken != str(PROTOCOL):
        theirs = f"{spoken} (version {headers.get(VERSION_HEADER.lower(), 'not known')})"
        ours = f"{PROTOCOL} (version {__version__})"
        raise VersionMismatchError(f"the daemon speaks protocol {theirs}, this client {ours}", hint=STOP_HINT)


def _answer_object(reply: _Reply) -> dict[str, Any]:
    answer = _loads(reply.body)
    if answer.get("ok"):
        return answer
    error = answer.get("error")
    raise from_object(error if isinstance(error, dict) else {"message": f"the daemon answered with {reply.status}"})


def _loads(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise FailedError("what the daemon answered is not JSON") from error
    if not isinstance(value, dict):
        raise FailedError("what the daemon answered is not an object")
    return value
