"""HTTP/1.1 over the Unix socket: only this user's processes are heard, and one bad client never costs another its answer.

A request that was read is answered or its client is gone; one that will not be run is told so (503), so that it may
safely be sent again. A handler never waits for a client: progress is dropped rather than queued, only the answer
waits, and not longer than the timeout. Connections that run nothing are closed first when there are too many.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

from openoxide.daemon.connections import Connections, peer_uid
from openoxide.daemon.protocol import (
    ANY_VERSION,
    EVENT_STREAM,
    HOST,
    MAX_REQUEST_BYTES,
    NOT_RUN,
    OCTETS,
    ONLY_READS,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    STATUS_BY_KIND,
    STOP_HINT,
    VERSION_HEADER,
    Progress,
    printable,
)
from openoxide.errors import (
    DaemonUnreachableError,
    FailedError,
    NotFoundError,
    OpenOxideError,
    RefusedError,
    UsageError,
    VersionMismatchError,
    error_object,
)
from openoxide.fileio import require_descriptors

Reporter = Callable[[Progress], None]
Handler = Callable[[dict[str, Any], Reporter], dict[str, Any] | bytes]

MAX_HEAD_BYTES = 32 << 10
SEND_CHUNK_BYTES = 1 << 20
ACCEPT_PAUSE_SECONDS = 0.1
PATIENT_REFUSALS = 50  # five seconds
IDLE_TIMEOUT_SECONDS = 30.0
_JSON = "application/json"
_REQUEST_LINE = re.compile(rb"[A-Z]{1,16} \S+ HTTP/1\.[01]\r?\n")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    media: str
    body: bytes


class Server:
    """Answers ``POST /v1/NAME`` with what ``routes[NAME]`` returns. ``listener`` is bound, listening and ours to close. As
    soon as the home no longer ``stands`` where it was, nothing is run, nor is told what was read of it.
    """

    def __init__(
        self,
        listener: socket.socket,
        routes: Mapping[str, Handler],
        version: str,
        *,
        stands: Callable[[], bool] = lambda: True,
        idle_timeout_seconds: float = IDLE_TIMEOUT_SECONDS,
    ) -> None:
        self._stands = stands
        self.version = version
        self.routes: Mapping[str, Handler] = {"ping": self._ping, **routes}
        self.idle_timeout_seconds = idle_timeout_seconds
        self.connections = Connections()
        self.internal_errors = 0
        self._count_lock = threading.Lock()
        self._listener = listener
        # a client that left after the select would let accept wait (accept(2))
        self._listener.setblocking(False)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._refusals = 0
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._accepting = threading.Lock()

    def serve_forever(self) -> None:
        """Accept until :meth:`close`, which has to come from another thread."""
        with self._accepting, selectors.DefaultSelector() as selector:
            if self.connections.closing():
                return
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self.connections.closing():
                selector.select()
                self._admit()

    def close(self, drain_ms: int) -> None:
        """Stop accepting, let running requests end within ``drain_ms``, then cut what is left."""
        self.connections.refuse()
        with suppress(OSError):  # closed before
            self._wake_writer.send(b"x")
        with self._accepting:
            # Refuses who comes from here on: between the last accept and the close they would be reset, not told
            with suppress(OSError):  # closed before
                self._listener.shutdown(socket.SHUT_RD)
            # Whoever stands in the queue learns that nothing was run
            while self._listener.fileno() >= 0 and self._admit():
                pass
            for end in (self._listener, self._wake_reader, self._wake_writer):
                end.close()
            if self._spare is not None:
                os.close(self._spare)
                self._spare = None
        cut = self.connections.drain(drain_ms / 1000)
        if cut:
            log.warning("%d requests were cut after %d ms", cut, drain_ms)

    def may_run(self, name: str) -> bool:
        """Whether the home is still where it was; what is not about the home is run all the same."""
        return name in ANY_VERSION or self._stands()

    def run(self, name: str, request: dict[str, Any], report: Reporter) -> _Answer:
        """The answer of operation ``name``: whatever goes wrong in it becomes an error object."""
        answer = self._run(name, request, report)
        # what was opened by path meanwhile may have been another home's
        return _NOT_RUN if name in ONLY_READS and not self.may_run(name) else answer

    def _run(self, name: str, request: dict[str, Any], report: Reporter) -> _Answer:
        try:
            answer = self.routes[name](request, report)
            if isinstance(answer, bytes):
                return _Answer(status=200, media=OCTETS, body=answer)
            return _Answer(status=200, media=_JSON, body=_dumps({"ok": True, **answer}))
        except OpenOxideError as error:
            return _error_answer(error)
        except Exception as error:  # the edge of the daemon: one broken operation must not take the others down
            log.exception("internal error in %s", name)
            if (exhausted := _exhausted(error)) is not None:
                return _error_answer(exhausted)
            with self._count_lock:
                self.internal_errors += 1
            return _error_answer(FailedError(f"internal error in {name}", hint="the daemon's log has the traceback"))

    def head(self, status: int, media: str, length: int | None, *, close: bool) -> bytes:
        """The head of an answer; without ``length`` the body ends with the connection."""
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"{PROTOCOL_HEADER}: {PROTOCOL}",
            f"{VERSION_HEADER}: {self.version}",
            f"Content-Type: {media}",
        ]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        if close:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _ping(self, _request: dict[str, Any], _report: Reporter) -> dict[str, Any]:
        return {"version": self.version, "protocol": PROTOCOL, "pid": os.getpid()}

    def _admit(self) -> bool:
        """Take one connection from the queue; False if there is none."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            log.warning("cannot accept a connection: %s", error)
            self._refusals += 1
            # most likely one is closed soon, and then this was a delay and no more
            if self._refusals >= PATIENT_REFUSALS and (exhausted := _exhausted(error)) is not None:
                self._turn_next_away(exhausted)
            time.sleep(ACCEPT_PAUSE_SECONDS)  # without a pause this would spin
            return False
        self._refusals = 0
        if peer_uid(connection) != os.geteuid():
            self._turn_away(connection, _error_answer(RefusedError("the daemon serves another user")))
        elif not self.connections.enter(connection):
            self._turn_away(connection, _NOT_RUN)
        else:
            self._start(connection)
        return True

    def _turn_next_away(self, error: OpenOxideError) -> None:
        """Tell the next client why it is not served, with the descriptor that is kept for that: it would wait in silence."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        with suppress(OSError):
            connection, _ = self._listener.accept()
            self._turn_away(connection, _error_answer(error))
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _start(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="oxided-connection", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the limit of threads
            log.warning("cannot serve a connection: %s", error)
            self.connections.leave(connection)
            self._turn_away(connection, _NOT_RUN)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with suppress(ConnectionError, TimeoutError):
                _Exchange(connection, self)
            if self.connections.dismissed(connection):
                self._tell(connection, _NOT_RUN)
        finally:
            self.connections.leave(connection)
            connection.close()

    def _turn_away(self, connection: socket.socket, answer: _Answer) -> None:
        with connection:
            self._tell(connection, answer)

    def _tell(self, connection: socket.socket, answer: _Answer) -> None:
        with suppress(OSError):
            connection.setblocking(False)
            connection.send(self.head(answer.status, answer.media, len(answer.body), close=True) + answer.body)


class _Exchange(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"

    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._server = server
        super().__init__(connection, ("", 0), cast(Any, server))  # the base class only keeps it

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self._server.idle_timeout_seconds)

    def parse_request(self) -> bool:
        """Read the head under one size limit before it is parsed; what is no HTTP/1 is refused at its first line."""
        if not _REQUEST_LINE.fullmatch(self.raw_requestline):  # type: ignore[attr-defined]  # missing in typeshed
            self.send_error(400, "this is not an HTTP/1.1 request")
            return False
        head = self._read_head()
        if head is None:
            self.send_error(431, f"the head of the request is larger than {MAX_HEAD_BYTES} bytes")
            return False
        body, self.rfile = self.rfile, io.BytesIO(head)
        try:
            if not super().parse_request():
                return False
        finally:
            self.rfile = body
        fault = _framing_fault(self.headers)
        if fault:
            self.send_error(*fault)
        return not fault

    def do_GET(self) -> None:
        """Only ``ping`` can be asked with GET."""
        name = self.path.removeprefix(PREFIX)
        if name in self._server.routes and name != "ping":
            self.send_error(405, f"{name} has to be asked with POST")
        else:
            self.do_POST()

    def do_POST(self) -> None:
        """Run one operation."""
        try:
            name = self._operation()
            request = self._request_object()
        except OpenOxideError as error:
            self.close_connection = True  # what is left of the body must not be taken for the next request
            self._send(_error_answer(error))
            return
        connections = self._server.connections
        if request is None or not connections.begin(self.connection):
            self.close_connection = True
            return
        if not self._server.may_run(name):
            self.close_connection = True
            self._send(_NOT_RUN)
            return
        try:
            self._answer(name, request)
        finally:
            if not self.close_connection:
                connections.end(self.connection)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """As every error, an object; http.server calls this for what it cannot parse."""
        self.close_connection = True
        text = message or explain or HTTPStatus(code).phrase
        self._send(_error_answer(UsageError(printable(text[:200])), code))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name is http.server's
        """Into the daemon's log instead of onto standard error."""
        log.debug(format, *args)

    def _read_head(self) -> bytes | None:
        head = bytearray()
        while len(head) <= MAX_HEAD_BYTES:
            line = self.rfile.readline(MAX_HEAD_BYTES + 1 - len(head))
            head += line
            if line in {b"\r\n", b"\n", b""}:
                return bytes(head)
        return None

    def _operation(self) -> str:
        hosts = [host.lower() for host in self.headers.get_all("Host", [])]
        if hosts != [HOST] or "Origin" in self.headers or "Referer" in self.headers:
            raise RefusedError(
                "a request that may come from a web page is refused",
                hint=f"send `Host: {HOST}` and neither Origin nor Referer",
            )
        name = self.path.removeprefix(PREFIX)
        spoken = self.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
        if spoken != str(PROTOCOL) and name not in ANY_VERSION:
            theirs, ours = printable(spoken[:20]), f"{PROTOCOL} (version {self._server.version})"
            raise VersionMismatchError(f"the client speaks protocol {theirs}, the daemon {ours}", hint=STOP_HINT)
        if name == self.path or name not in self._server.routes:
            raise NotFoundError(f"no operation {printable(self.path[:100])}")
        return name

    def _request_object(self) -> dict[str, Any] | None:
        """The request, None if the client left or was dismissed in the middle of it."""
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:
            return None
        try:
            request = json.loads(body or b"{}")
        # deeply nested JSON is no ValueError
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the request is not JSON: {error}") from error
        if not isinstance(request, dict):
            raise UsageError("the request is not a JSON object")
        return request

    def _answer(self, name: str, request: dict[str, Any]) -> None:
        if EVENT_STREAM not in self.headers.get("Accept", ""):
            self._send(self._server.run(name, request, _unreported))
            return
        self.close_connection = True
        events = _Events(self.connection, self._server.head(200, EVENT_STREAM, None, close=True))
        answer = self._server.run(name, request, events.progress)
        if answer.media != _JSON:
            answer = _error_answer(UsageError(f"{name} answers bytes, not events"))
        events.finish(answer.body, self._server.idle_timeout_seconds)

    def _send(self, answer: _Answer) -> None:
        head = self._server.head(answer.status, answer.media, len(answer.body), close=self.close_connection)
        _send_all(self.connection, head + answer.body)


class _Events:
    """Server-Sent Events to one client. A progress that the client does not take at once is dropped."""

    def __init__(self, connection: socket.socket, head: bytes) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._open = True
        self._pending = head
        connection.setblocking(False)
        self._flush()

    def progress(self, progress: Progress) -> None:
        """A :data:`Reporter`. An event goes out whole or not at all, so one that was begun is finished first."""
        event = _event("progress", _dumps(progress))
        with self._lock:
            if self._open and self._flush():
                self._pending = event
                self._flush()

    def finish(self, answer: bytes, timeout_seconds: float) -> None:
        """Send the answer, for which alone the client is waited for."""
        with self._lock:
            gone, self._open = not self._open, False
            if not gone:
                self._connection.settimeout(timeout_seconds)
                _send_all(self._connection, self._pending + _event("answer", answer))

    def _flush(self) -> bool:
        while self._pending:
            try:
                sent = self._connection.send(self._pending)
            except BlockingIOError:
                return False
            except OSError:
                self._open = False
                return False
            self._pending = self._pending[sent:]
        return True


def _framing_fault(headers: Message) -> tuple[int, str] | None:
    # two ways to tell the length are two opinions on where the next request begins (RFC 9112, 6.3)
    if "Transfer-Encoding" in headers:
        return 411, "a request needs Content-Length, not Transfer-Encoding"
    lengths = headers.get_all("Content-Length", ["0"])
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
        return 400, "Content-Length is not one number"
    if int(lengths[0]) > MAX_REQUEST_BYTES:
        return 413, f"the request is larger than {MAX_REQUEST_BYTES} bytes"
    return None


def _send_all(connection: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    # sendall's timeout spans the whole call, and a large answer to a slow reader is not a stuck client
    for start in range(0, len(view), SEND_CHUNK_BYTES):
        connection.sendall(view[start : start + SEND_CHUNK_BYTES])


def _event(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _dumps(value: Mapping[str, Any]) -> bytes:
    return f"{{{', '.join(f'{json.dumps(key)}: {_member(item)}' for key, item in value.items())}}}".encode()


def _member(value: Any) -> str:
    # an item at a time: json lets no other thread run until it is done, and 20,000 checkpoints are 150 ms
    return f"[{', '.join(map(json.dumps, value))}]" if isinstance(value, list) else json.dumps(value)


def _error_answer(error: OpenOxideError, status: int | None = None) -> _Answer:
    body = _dumps({"ok": False, "error": error_object(error)})
    return _Answer(status=status or STATUS_BY_KIND.get(error.kind, 500), media=_JSON, body=body)


def _exhausted(error: Exception) -> OpenOxideError | None:
    """What ``error`` is where no file can be opened any more."""
    try:
        require_descriptors(error)
    except OpenOxideError as found:
        return found
    return None


def _unreported(_progress: Progress) -> None:
    """For a client that did not ask for events."""


_NOT_RUN = _error_answer(DaemonUnreachableError("the daemon is stopping or has too many connections"), NOT_RUN)
