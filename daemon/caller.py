"""One request to the daemon and its answer: an error answer comes back as the exception it was made from.

Every command pays for what is imported here, so it is little: no http.client, pathlib, dataclasses or subprocess. Each
call is a connection of its own. A request is sent again only if the daemon said that it did not run it, or if it changes
nothing.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from openoxide import __version__
from openoxide.daemon.protocol import (
    ANY_VERSION,
    EVENT_STREAM,
    HOST,
    MAX_SOCKET_PATH,
    NOT_RUN,
    OCTETS,
    ONLY_READS,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    STOP_HINT,
    VERSION_HEADER,
    ProgressCallback,
)
from openoxide.errors import DaemonUnreachableError, FailedError, VersionMismatchError, from_object

if TYPE_CHECKING:
    from openoxide.daemon.launch import Launch

START_SECONDS = 10.0
SILENCE_SECONDS = 600.0
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.02
MIGRATING = "timeline.db.migrating"  # what openoxide.checkpoints.migrating works on, without what that imports
MAX_LINE_BYTES = 64 << 10


class Caller:
    """A way to the daemon. ``timeout_seconds`` is how long it may be silent.

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
        try:
            reply = self._answered(message, progress, again=name in ONLY_READS)
        except _CutOffError as error:
            raise DaemonUnreachableError(
                "the daemon closed the connection before its answer was complete",
                hint="it may have been stopped; `oxide-ctl operations` shows what was done",
            ) from error
        if name not in ANY_VERSION:
            _check_version(reply.headers)
        return reply

    def _answered(self, message: bytes, progress: ProgressCallback | None, *, again: bool) -> _Reply:
        """The reply of a daemon that carried it out, or refused to. One that is stopping is asked again; one that went away
        in the middle only with ``again``.
        """
        deadline = time.monotonic() + START_SECONDS
        try:
            reply = self._exchange(message, progress)
        except _CutOffError:
            if not again:
                raise
            reply = self._exchange(message, progress)
        while reply.status == NOT_RUN and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            reply = self._exchange(message, progress)
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
                raise _CutOffError from error

    def _connect(self) -> socket.socket:
        launch: Launch | None = None
        latest = time.monotonic() + SILENCE_SECONDS
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
                now = time.monotonic()
                # a store of an older version is migrated before the daemon listens, and that takes as long as it is large
                if now < latest and os.path.exists(os.path.join(os.path.dirname(self._path), MIGRATING)):
                    deadline = now + START_SECONDS
                if now > deadline:
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
            return Caller(self._path, autostart=False, timeout_seconds=patience).call(name, {})
        except DaemonUnreachableError as error:
            if isinstance(error.__cause__, TimeoutError):
                pid = _pid(self._path)
                error.hint = f"`kill -CONT {pid}` lets it go on if it is halted, `kill -KILL {pid}` ends it"
            raise


class _Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


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
        raise _CutOffError
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
        raise _CutOffError
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
    raise _CutOffError


class _CutOffError(Exception):
    """The daemon went away in the middle: whether it did what was asked for is not known."""


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
