"""A real server in this process and clients that speak to it in raw bytes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any

from openoxide.daemon.server import Handler, Reporter, Server

SECONDS = 60  # how long a test waits for what must come
DRAIN_MS = 20_000
MEANT_TO_LAST_MS = 50


class Gate:
    """An operation that says when it runs and ends when it is let go."""

    def __init__(self) -> None:
        self.running = threading.Semaphore(0)
        self.open = threading.Event()
        self.finished = threading.Semaphore(0)

    def __call__(self, _request: dict[str, Any], _report: Reporter) -> dict[str, Any]:
        self.running.release()
        assert self.open.wait(SECONDS)
        self.finished.release()
        return {"passed": True}


class Daemon:
    """A server that runs in this process, and raw connections to it."""

    def __init__(self, path: Path, routes: dict[str, Handler], idle_timeout_seconds: float) -> None:
        self.path = path
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(256)
        self.server = Server(listener, routes, "1.2.3", idle_timeout_seconds=idle_timeout_seconds)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(SECONDS)
        try:
            connection.connect(str(self.path))
        except OSError:
            connection.close()
            raise
        return connection

    def ask(self, name: str, body: bytes = b"{}", **headers: str) -> tuple[int, Any]:
        with self.connect() as connection:
            connection.sendall(request(name, body, **headers))
            return answer(connection)


def request(name: str, body: bytes = b"{}", method: str = "POST", **headers: str) -> bytes:
    fields = {"Host": "openoxide", "Content-Length": str(len(body))}
    fields |= {key.replace("_", "-"): value for key, value in headers.items()}
    head = [f"{method} /v1/{name} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items() if value)]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def response(connection: socket.socket) -> HTTPResponse:
    reply = HTTPResponse(connection)
    try:
        reply.begin()
    except BaseException:
        reply.close()
        raise
    return reply


def answer(connection: socket.socket) -> tuple[int, Any]:
    with response(connection) as reply:
        return reply.status, json.loads(reply.read())


def events(connection: socket.socket) -> Iterator[tuple[str, Any]]:
    with response(connection) as reply:
        assert reply.getheader("Content-Type") == "text/event-stream"
        for block in reply.read().decode().split("\n\n")[:-1]:
            name, data = block.split("\n")
            yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def echo(request: dict[str, Any], _report: Reporter) -> dict[str, Any]:
    return request


def read_answer(stream: IO[bytes]) -> Any:
    """One answer of several on a stream; HTTPResponse would read ahead."""
    length = 0
    while line := stream.readline().strip():
        if line.startswith(b"Content-Length: "):
            length = int(line.split()[1])
    return json.loads(stream.read(length))


@contextmanager
def starting(path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts servers that are closed at the end."""
    with ExitStack() as started:

        def start(idle_timeout_seconds: float = SECONDS, **routes: Handler) -> Daemon:
            daemon = Daemon(path, routes, idle_timeout_seconds)
            started.callback(daemon.thread.join)
            started.callback(daemon.server.close, 0)
            return daemon

        yield start
