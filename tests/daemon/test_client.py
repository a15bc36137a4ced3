from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import openoxide
from openoxide.daemon.client import Client, socket_path
from openoxide.daemon.instance import acquire
from openoxide.daemon.protocol import MAX_REQUEST_BYTES, PROTOCOL, PROTOCOL_HEADER
from openoxide.daemon.server import Handler, Server
from openoxide.errors import (
    EXIT_CODES,
    AmbiguousError,
    DaemonUnreachableError,
    FailedError,
    NotFoundError,
    OpenOxideError,
    UsageError,
    VersionMismatchError,
)
from openoxide.paths import Home, home_from

ROOT = Path(openoxide.__file__).parents[1]
SECONDS = 60  # how long a test waits for what must come
OURS = f"{PROTOCOL_HEADER}: {PROTOCOL}\r\n".encode()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def client(path: str) -> Client:
    return Client(path, autostart=False, timeout_seconds=SECONDS)


@pytest.fixture
def serve(path: str) -> Iterator[Callable[..., Server]]:
    """Starts the real server."""
    with ExitStack() as started:

        def serve(**routes: Handler) -> Server:
            server = Server(listener(path), routes, "1.2.3")
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            started.callback(thread.join)
            started.callback(server.close, 0)
            return server

        yield serve


@pytest.fixture
def foreign(path: str) -> Iterator[Callable[..., None]]:
    """Starts something else in the daemon's place: it says one text to each caller, then hangs up or keeps silent."""
    with ExitStack() as started:

        def foreign(*texts: bytes, hang_up: bool = True) -> None:
            place = started.enter_context(listener(path))

            def say() -> None:
                for text in texts:
                    connection = started.enter_context(place.accept()[0])
                    connection.recv(1 << 16)
                    connection.sendall(text)
                    if hang_up:
                        connection.close()

            thread = threading.Thread(target=say)
            thread.start()
            started.callback(thread.join)

        yield foreign


def listener(path: str) -> socket.socket:
    place = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place.bind(path)
    place.listen()
    return place


def answer(body: bytes, status: bytes = b"200 OK", head: bytes = OURS) -> bytes:
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, head, len(body), body)


WINDOW = {"agent": "claude", "session": "s-1"}


@pytest.mark.parametrize(
    ("call", "name", "request_fields"),
    [
        (lambda c: c.status(), "status", {}),
        (lambda c: c.projects(), "projects", {}),
        (lambda c: c.du(), "du", {}),
        (lambda c: c.check(), "check", {"read_data": False}),
        (lambda c: c.check(sample=5.0, seed=1), "check", {"read_data": False, "sample": 5.0, "seed": 1}),
        (lambda c: c.backup("/d"), "backup", {"to": "/d", "dry_run": False}),
        (lambda c: c.watch("/w"), "watch", {"path": "/w", "allow_broad": False}),
        (lambda c: c.watch("/", allow_broad=True), "watch", {"path": "/", "allow_broad": True}),
        (lambda c: c.unwatch("/w"), "unwatch", {"path": "/w", "delete_history": False, "dry_run": False}),
        (lambda c: c.checkpoint("/w"), "checkpoint", {"path": "/w", "pin": False}),
        (
            lambda c: c.checkpoint("/w", name="good", pin=True, trigger="prompt"),
            "checkpoint",
            {"path": "/w", "name": "good", "pin": True, "trigger": "prompt"},
        ),
        (lambda c: c.log("/w"), "log", {"path": "/w", "all": False, "named": False}),
        (
            lambda c: c.log("/w", limit=0, all=True, session="s", since="@10m", cursor="9"),
            "log",
            {"path": "/w", "limit": 0, "all": True, "named": False, "session": "s", "since": "@10m", "cursor": "9"},
        ),
        (lambda c: c.show("/w", "last"), "show", {"path": "/w", "checkpoint": "last"}),
        (lambda c: c.pin("/w", "1"), "pin", {"path": "/w", "checkpoint": "1"}),
        (lambda c: c.unpin("/w", "1"), "unpin", {"path": "/w", "checkpoint": "1"}),
        (lambda c: c.name("/w", "1", ""), "name", {"path": "/w", "checkpoint": "1", "name": ""}),
        (lambda c: c.forget("/w", ("1",)), "forget", {"path": "/w", "checkpoints": ["1"], "dry_run": False}),
        (lambda c: c.expire(dry_run=True), "expire", {"dry_run": True, "force": False, "trash": False}),
        (lambda c: c.unforget("/w", ("1",)), "unforget", {"path": "/w", "checkpoints": ["1"]}),
        (lambda c: c.diff("/w", "1"), "diff", {"path": "/w", "a": "1", "paths": [], "patch": False}),
        (
            lambda c: c.diff("/w", "1", "2", paths=("/w/a",), patch=True),
            "diff",
            {"path": "/w", "a": "1", "b": "2", "paths": ["/w/a"], "patch": True},
        ),
        (lambda c: c.history("/w", file="/w/a"), "history", {"path": "/w", "file": "/w/a", "deleted": False, "paths": []}),
        (
            lambda c: c.history("/w", paths=("/w/a",), limit=3, cursor="9"),
            "history",
            {"path": "/w", "deleted": True, "paths": ["/w/a"], "limit": 3, "cursor": "9"},
        ),
        (
            lambda c: c.search("/w", "x", binary=True, paths=("/w/a",), limit=3, cursor="9"),
            "history",
            {"path": "/w", "search": "x", "binary": True, "paths": ["/w/a"], "limit": 3, "cursor": "9"},
        ),
        (
            lambda c: c.restore("/w", "1", "/to"),
            "restore",
            {"path": "/w", "checkpoint": "1", "to": "/to", "paths": [], "force": False},
        ),
        (
            lambda c: c.rewind("/w", "1"),
            "rewind",
            {"path": "/w", "checkpoint": "1", "exact": False, "conflict": "keep", "dry_run": False, "touch": False,
             "paths": []},
        ),
        (
            lambda c: c.rewind("/w", "1", scope="all", exact=True, conflict="merge", dry_run=True, touch=True, paths=["a"]),
            "rewind",
            {"path": "/w", "checkpoint": "1", "scope": "all", "exact": True, "conflict": "merge", "dry_run": True,
             "touch": True, "paths": ["a"]},
        ),
        (lambda c: c.settle("/w", "abort"), "settle", {"path": "/w", "action": "abort"}),
        (lambda c: c.turn_begin("/w", prompt="p", **WINDOW), "turn_begin", {"path": "/w", "prompt": "p", **WINDOW}),
        (lambda c: c.turn_end("/w", **WINDOW), "turn_end", {"path": "/w", **WINDOW}),
        (lambda c: c.tool_begin("/w", tool="t", **WINDOW), "tool_begin", {"path": "/w", "tool": "t", **WINDOW}),
        (
            lambda c: c.tool_begin("/w", tool="t", prompt="p", **WINDOW),
            "tool_begin",
            {"path": "/w", "tool": "t", "prompt": "p", **WINDOW},
        ),
        (lambda c: c.tool_end("/w", tool="t", **WINDOW), "tool_end", {"path": "/w", "tool": "t", **WINDOW}),
        (
            lambda c: c.tool_end("/w", tool="t", writes=({"path": "a", "hash": "00"},), **WINDOW),
            "tool_end",
            {"path": "/w", "tool": "t", "writes": [{"path": "a", "hash": "00"}], **WINDOW},
        ),
        (lambda c: c.undo("/w"), "undo", {"path": "/w", "count": 1, "dry_run": False}),
        (lambda c: c.redo("/w", count=2, dry_run=True), "redo", {"path": "/w", "count": 2, "dry_run": True}),
        (lambda c: c.operations("/w", limit=3), "operations", {"path": "/w", "limit": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_method_asks_for_its_operation_with_the_fields_of_the_contract(serve, client, call, name, request_fields):
    serve(**{name: lambda request, _report: {"asked": request}})
    assert call(client) == {"ok": True, "asked": request_fields}


def test_cat_answers_bytes(serve, client):
    serve(cat=lambda request, _report: json.dumps(request).encode() + b"\xff\x00")
    fields = {"path": "/w", "checkpoint": "1", "file": "a"}
    assert client.cat("/w", "1", "a") == json.dumps(fields).encode() + b"\xff\x00"


def test_an_operation_that_should_answer_bytes_and_does_not_is_an_error(serve, client):
    serve(cat=lambda _request, _report: {})
    with pytest.raises(FailedError, match="cat did not answer with bytes"):
        client.cat("/w", "1", "a")


@pytest.mark.parametrize("name", [b"caf\xc3\xa9", b"\xff\xfe", b"a\nb\x1b[2J", b"trailing "])
def test_a_path_arrives_byte_for_byte(serve, client, name):
    serve(show=lambda request, _report: {"hex": os.fsencode(request["path"]).hex()})
    assert client.show(os.fsdecode(b"/w/" + name), "last")["hex"] == (b"/w/" + name).hex()


@pytest.mark.parametrize("cls", EXIT_CODES, ids=lambda cls: cls.kind)
@pytest.mark.parametrize("progress", [None, lambda _progress: None])
def test_every_error_comes_back_as_what_it_was(serve, client, cls, progress):
    def fail(_request, _report):
        raise cls("it failed", hint="do this", details={"candidates": ["k", "l"]})

    serve(fail=fail)
    with pytest.raises(OpenOxideError) as caught:
        client.call("fail", {}, progress)
    error = caught.value
    assert (type(error), error.message, error.hint) == (cls, "it failed", "do this")
    assert error.details == {"candidates": ["k", "l"]}


def test_an_error_where_bytes_were_asked_for_comes_back_too(serve, client):
    def fail(_request, _report):
        raise AmbiguousError("two fit")

    serve(cat=fail)
    with pytest.raises(AmbiguousError):
        client.cat("/w", "k", "a")


def test_progress_is_told_in_order_before_the_answer_returns(serve, client):
    steps = [{"stage": "reading", "done": done, "total": 3, "bytes": 10 * done} for done in range(3)]

    def watch(_request, report):
        for step in steps:
            report(step)
        return {"files": 3}

    serve(watch=watch)
    told: list[dict[str, Any]] = []
    assert client.watch("/w", progress=told.append) == {"ok": True, "files": 3}
    assert told == steps


def test_an_operation_the_daemon_does_not_know_is_not_found(serve, client):
    serve()
    with pytest.raises(NotFoundError, match="no operation"):
        client.status()


def test_a_request_that_is_too_large_says_so_although_the_daemon_hangs_up(serve, client):
    serve(diff=lambda _request, _report: {})
    with pytest.raises(UsageError, match="larger than"):
        client.diff("/w", "1", paths=["x" * MAX_REQUEST_BYTES])


@pytest.mark.parametrize("stale_socket", [True, False])
def test_without_a_daemon_and_without_autostart_it_is_unreachable_and_nothing_is_started(client, path, stale_socket):
    if stale_socket:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
    with pytest.raises(DaemonUnreachableError, match="no daemon listens") as caught:
        client.status()
    assert "oxided" in caught.value.hint


def test_a_daemon_that_speaks_another_protocol_is_named_with_the_way_out(foreign, client):
    foreign(answer(b'{"ok": true}', head=b"X-OpenOxide-Protocol: 99\r\nX-OpenOxide-Version: 9.9.9\r\n"))
    with pytest.raises(VersionMismatchError) as caught:
        client.status()
    for part in ("protocol 99", "9.9.9", f"client {PROTOCOL}", openoxide.__version__):
        assert part in caught.value.message
    assert "oxide-ctl stop" in caught.value.hint


@pytest.mark.parametrize("name", ["stop", "ping"])
def test_a_daemon_of_another_version_can_be_stopped_and_asked_who_it_is(foreign, client, name):
    foreign(answer(b'{"ok": true}', head=b"X-OpenOxide-Protocol: 99\r\n"))
    assert client.call(name, {}) == {"ok": True}


NOT_RUN = answer(b'{"ok": false, "error": {"kind": "daemon_unreachable", "message": "stopping"}}', b"503 Busy")


def test_what_the_daemon_says_it_did_not_run_is_sent_again(foreign, client):
    foreign(NOT_RUN, NOT_RUN, answer(b'{"ok": true, "n": 1}'))
    assert client.call("status", {}) == {"ok": True, "n": 1}


def test_what_the_daemon_did_not_run_before_it_went_is_reported_as_unreachable(serve, client, path):
    serve().close(0)
    with pytest.raises(DaemonUnreachableError, match="no daemon listens"):
        client.status()


EVENTS = b"HTTP/1.1 200 OK\r\nX-OpenOxide-Protocol: 1\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        (b"", DaemonUnreachableError, "closed the connection"),
        (answer(b'{"ok": true}')[:-3], DaemonUnreachableError, "closed the connection"),
        (EVENTS, DaemonUnreachableError, "closed the connection"),
        (EVENTS + b'event: progress\ndata: {"done": 1}\n\n', DaemonUnreachableError, "closed the connection"),
        (EVENTS + b'event: answer\ndata: {"ok"', FailedError, "not JSON"),
        (EVENTS + b"event: progress\ndata: half", FailedError, "not JSON"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", DaemonUnreachableError, "does not speak HTTP"),
        (b"\xff" * 100_000, DaemonUnreachableError, "does not speak HTTP"),
        (b"HTTP/1.1 two OK\r\n\r\n", DaemonUnreachableError, "does not speak HTTP"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"ok": true}', VersionMismatchError, "protocol none"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", DaemonUnreachableError, "closed the connection"),
        (answer(b"<html>"), FailedError, "not JSON"),
        (answer(b"[]"), FailedError, "not an object"),
        (answer(b"{}", b"500 Oops"), FailedError, "answered with 500"),
        (answer(b'{"ok": false, "error": "text"}', b"400 Oops"), FailedError, "answered with 400"),
        (answer(b'{"ok": false, "error": {}}'), FailedError, "unknown error"),
        (answer(b'{"ok": false, "error": {"kind": "of a later version", "message": "m"}}'), FailedError, "m"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_an_answer_that_cannot_be_is_an_error_and_never_a_result(foreign, client, said, error, message):
    foreign(said)
    with pytest.raises(error, match=message) as caught:
        client.call("rewind", {}, lambda _progress: None)
    assert type(caught.value) is error


@pytest.mark.parametrize(("name", "times"), [("log", 2), ("rewind", 1), ("checkpoint", 1)])
def test_only_what_changes_nothing_is_asked_again_of_a_daemon_that_went_away(path, name, times):
    asked = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def hang_up() -> None:
            for _ in range(times):
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(1 << 16))

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(DaemonUnreachableError, match="closed the connection"):
            Client(path, autostart=False).call(name, {})
        thread.join(SECONDS)
    assert len(asked) == times


@pytest.mark.parametrize("said", [b"", answer(b'{"ok": true}')[:-3], EVENTS])
def test_a_silent_daemon_is_given_up_after_the_timeout(foreign, path, said):
    foreign(said, hang_up=False)
    with pytest.raises(DaemonUnreachableError, match=r"silent for 0\.05 s"):
        Client(path, autostart=False, timeout_seconds=0.05).status()


def test_a_socket_that_may_not_be_opened_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DaemonUnreachableError, match=r"cannot connect to .*/file/oxided\.sock"):
        Client(str(tmp_path / "file" / "oxided.sock"), autostart=True).status()


@contextmanager
def full_queue(path: str) -> Iterator[socket.socket]:
    """A daemon that hangs, with as many callers before it as its backlog holds."""
    with ExitStack() as queue, listener(path) as place:
        place.listen(0)
        with suppress(BlockingIOError):
            while True:
                queue.enter_context(waiting := socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                waiting.setblocking(False)
                waiting.connect(path)
        yield place


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses")
def test_a_daemon_whose_queue_is_full_is_waited_for(client, path):
    with full_queue(path) as place:
        caller = threading.Thread(target=client.call, args=("ping", {}))
        caller.start()
        while caller.is_alive():  # whoever stands before it in the queue says nothing
            with place.accept()[0] as connection:
                connection.settimeout(0.05)
                with suppress(TimeoutError):
                    connection.recv(1 << 16)
                    connection.sendall(answer(b'{"ok": true}'))
                    break
        caller.join(SECONDS)
        assert not caller.is_alive()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses")
def test_a_daemon_whose_queue_stays_full_is_given_up(client, path):
    with full_queue(path), pytest.raises(DaemonUnreachableError, match="no daemon answered"):
        client.call("ping", {})


def test_stop_returns_when_the_socket_is_gone(tmp_path):
    before = os.umask(0o022)
    home = Home(tmp_path / "home")
    instance = acquire(home)
    asked, returned = threading.Event(), threading.Event()
    server = Server(instance.listen(), {"stop": lambda _request, _report: asked.set() or {}}, "1.2.3")

    def stop() -> None:
        assert Client(str(home.socket), autostart=False).stop() == {"ok": True}
        returned.set()

    threads = [threading.Thread(target=target) for target in (server.serve_forever, stop)]
    for thread in threads:
        thread.start()
    assert asked.wait(SECONDS)
    server.close(1_000)
    assert not returned.wait(0.1)
    instance.close()
    assert returned.wait(SECONDS)
    for thread in threads:
        thread.join()
    os.umask(before)


def test_stop_never_starts_a_daemon(path):
    with pytest.raises(DaemonUnreachableError, match="no daemon listens"):
        Client(path, autostart=True, daemon_argv=["/bin/false"]).stop()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OPENOXIDE_HOME": ""},
        {"OPENOXIDE_HOME": "/srv/oxide"},
        {"OPENOXIDE_HOME": "/srv/oxide/"},
        {"OPENOXIDE_HOME": "/srv//./oxide/../other"},
        {"OPENOXIDE_HOME": "relative/home"},
        {"OPENOXIDE_HOME": "../up"},
        {"OPENOXIDE_HOME": "~"},
        {"OPENOXIDE_HOME": "/srv/\udcff"},
    ],
)
def test_the_client_finds_the_socket_of_the_home_that_the_daemon_would_use(environ):
    assert Path(socket_path(environ)) == home_from(environ).socket
    assert os.path.isabs(socket_path(environ))


def test_the_socket_is_found_from_a_working_directory_that_was_deleted(tmp_path):
    script = "import os; from openoxide.daemon.client import socket_path; os.rmdir(os.getcwd()); print(socket_path(os.environ))"
    (tmp_path / "gone").mkdir()
    assert run(script, cwd=tmp_path / "gone") == os.environ["OPENOXIDE_HOME"] + "/oxided.sock\n"


def test_importing_the_client_imports_nothing_that_costs():
    costly = {
        "asyncio",
        "dataclasses",
        "email",
        "http.client",
        "inspect",
        "logging",
        "pathlib",
        "subprocess",
        "tempfile",
    }
    imported = set(run("import sys, openoxide.daemon.client; print(*sys.modules)").split())
    assert not imported & costly
    assert {name for name in imported if name.startswith("openoxide")} == {
        "openoxide", "openoxide.daemon", "openoxide.daemon.caller", "openoxide.daemon.client", "openoxide.daemon.protocol",
        "openoxide.errors",
    }  # fmt: skip


def run(script: str, cwd: Path = ROOT) -> str:
    # -S: what site imports is the interpreter's affair
    finished = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    return finished.stdout
