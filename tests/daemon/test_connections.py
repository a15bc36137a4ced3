from __future__ import annotations

import hashlib
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import pytest

import openoxide
from openoxide.daemon.connections import MAX_CONNECTIONS, Connections
from openoxide.daemon.server import Reporter, Server
from tests.daemon.raw_http import (
    DRAIN_MS,
    MEANT_TO_LAST_MS,
    SECONDS,
    Daemon,
    Gate,
    answer,
    echo,
    read_answer,
    request,
    response,
    starting,
)

ROOT = Path(openoxide.__file__).parents[1]
NOBODY = 65534


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    with starting(tmp_path / "s") as start:
        yield start


@pytest.mark.parametrize("cut", [5, 30, -1])
def test_a_client_that_leaves_in_the_middle_of_its_request_runs_nothing_and_harms_nobody(start, cut):
    ran = threading.Event()
    daemon = start(run=lambda _request, _report: ran.set() or {}, echo=echo)
    with daemon.connect() as connection:
        connection.sendall(request("run", b'{"path": "/a"} ')[:cut])  # cut by one byte it is still valid JSON
    assert daemon.ask("echo")[0] == 200
    daemon.server.close(DRAIN_MS)
    assert not ran.is_set()


def test_a_client_that_leaves_before_its_answer_harms_nobody(start, gate):
    daemon = start(slow=gate, echo=echo)
    with daemon.connect() as connection:
        connection.sendall(request("slow"))
        assert gate.running.acquire(timeout=SECONDS)
    gate.open.set()
    assert gate.finished.acquire(timeout=SECONDS)
    assert daemon.ask("echo")[0] == 200
    assert daemon.server.internal_errors == 0


def test_requests_run_side_by_side(start):
    meeting = threading.Barrier(16)

    def meet(_request, _report):
        return {"place": meeting.wait(SECONDS)}

    daemon = start(meet=meet)
    with ExitStack() as open_connections:
        connections = [open_connections.enter_context(daemon.connect()) for _ in range(16)]
        for connection in connections:
            connection.sendall(request("meet"))
        assert {answer(connection)[1]["place"] for connection in connections} == set(range(16))


def test_two_hundred_idle_connections_keep_nobody_out(start):
    daemon = start(echo=echo)
    with ExitStack() as idle:
        connections = [idle.enter_context(daemon.connect()) for _ in range(200)]
        for n in range(5):
            assert daemon.ask("echo", b'{"n": %d}' % n) == (200, {"ok": True, "n": n})
        # the oldest had to go and were told that nothing of theirs was run; the youngest are still served
        status, said = answer(connections[0])
        assert (status, said["error"]["kind"]) == (503, "daemon_unreachable")
        connections[-1].sendall(request("echo"))
        assert answer(connections[-1])[0] == 200


def test_half_sent_requests_keep_nobody_out(start):
    daemon = start(echo=echo)
    with ExitStack() as half:
        for _ in range(100):
            half.enter_context(daemon.connect()).sendall(request("echo", b'{"a": 1}')[:-3])
        assert daemon.ask("echo")[0] == 200


def test_who_has_sent_a_request_and_left_is_not_turned_out_for_others(tmp_path):
    """As the hooks of a daemon that was halted: each has gone by the time it is served."""
    done, one_at_a_time = threading.Semaphore(0), threading.Lock()

    def work(_request: dict[str, Any], _report: Reporter) -> dict[str, Any]:
        with one_at_a_time:
            hashlib.blake2b(bytes(4 << 20))
        done.release()
        return {}

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "s"))
    listener.listen(256)
    for _ in range(4 * MAX_CONNECTIONS - 6):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(tmp_path / "s"))
            client.sendall(request("work"))
    server = Server(listener, {"work": work}, "1.2.3")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert all(done.acquire(timeout=SECONDS) for _ in range(4 * MAX_CONNECTIONS - 6))
    finally:
        server.close(DRAIN_MS)
        thread.join()


def test_a_connection_that_runs_a_request_is_never_closed_for_another(start, gate):
    daemon = start(slow=gate, echo=echo)
    with daemon.connect() as busy, ExitStack() as idle:
        busy.sendall(request("slow"))
        assert gate.running.acquire(timeout=SECONDS)
        for _ in range(2 * MAX_CONNECTIONS):
            idle.enter_context(daemon.connect())
        assert daemon.ask("echo")[0] == 200
        gate.open.set()
        assert answer(busy) == (200, {"ok": True, "passed": True})


def test_beyond_the_limit_of_running_requests_the_next_one_waits_for_its_turn(start, gate):
    daemon = start(slow=gate, echo=echo)
    with ExitStack() as stack:
        running = [stack.enter_context(daemon.connect()) for _ in range(MAX_CONNECTIONS)]
        for connection in running:
            connection.sendall(request("slow"))
        for _ in running:
            assert gate.running.acquire(timeout=SECONDS)
        late = stack.enter_context(daemon.connect())
        late.sendall(request("echo"))
        gate.open.set()
        assert answer(late)[0] == 200
        assert {answer(connection)[0] for connection in running} == {200}


@pytest.mark.parametrize("sent", [b"", b"POST /v1/echo HT", request("echo", b'{"a": 1}')[:-3]])
def test_a_silent_connection_is_closed_after_the_timeout(start, sent):
    with start(idle_timeout_seconds=MEANT_TO_LAST_MS / 1000, echo=echo).connect() as connection:
        connection.sendall(sent)
        with suppress(ConnectionResetError):  # where what was sent lies unread
            assert connection.recv(1) == b""


def test_a_client_that_never_reads_its_large_answer_is_given_up(start):
    running = threading.Semaphore(0)

    def cat(_request, _report):
        running.release()
        return b"x" * (8 << 20)

    daemon = start(idle_timeout_seconds=MEANT_TO_LAST_MS / 1000, cat=cat)
    with daemon.connect() as connection:
        connection.sendall(request("cat"))
        assert running.acquire(timeout=SECONDS)
        daemon.server.close(DRAIN_MS)  # returns although the answer was not read
        with pytest.raises(IncompleteRead), response(connection) as reply:
            reply.read()


def test_close_lets_a_running_request_end_and_answers_it(start, gate):
    daemon = start(slow=gate)
    with daemon.connect() as connection:
        connection.sendall(request("slow"))
        assert gate.running.acquire(timeout=SECONDS)
        closing = threading.Thread(target=daemon.server.close, args=(DRAIN_MS,))
        closing.start()
        daemon.thread.join(SECONDS)  # nobody is accepted any more
        assert closing.is_alive()
        gate.open.set()
        with connection.makefile("rb") as stream:
            assert read_answer(stream) == {"ok": True, "passed": True}
            assert read_answer(stream)["error"]["kind"] == "daemon_unreachable"  # for what it might have sent next
            assert stream.read() == b""
        closing.join(SECONDS)
    with pytest.raises(ConnectionRefusedError):
        daemon.connect()


def test_close_cuts_what_is_still_running_after_the_drain_time(start, gate):
    daemon = start(slow=gate)
    with daemon.connect() as connection:
        connection.sendall(request("slow"))
        assert gate.running.acquire(timeout=SECONDS)
        daemon.server.close(MEANT_TO_LAST_MS)
        assert connection.recv(1) == b""
        assert not gate.open.is_set()


def test_whoever_was_connected_when_the_server_closed_learns_that_nothing_was_run(start, gate):
    daemon = start(slow=gate, echo=echo)
    with ExitStack() as stack:
        busy = [stack.enter_context(daemon.connect()) for _ in range(MAX_CONNECTIONS)]
        for connection in busy:
            connection.sendall(request("slow"))
        for _ in busy:
            assert gate.running.acquire(timeout=SECONDS)
        queued = [stack.enter_context(daemon.connect()) for _ in range(20)]
        for connection in queued:
            connection.sendall(request("echo", b" " * 100_000))
        daemon.server.close(0)
        assert {answer(connection)[0] for connection in queued} == {503}


def test_close_ends_an_idle_connection_at_once(start):
    daemon = start(idle_timeout_seconds=10 * SECONDS, echo=echo)
    with daemon.connect() as connection:
        connection.sendall(request("echo"))
        assert answer(connection)[0] == 200
        daemon.server.close(DRAIN_MS)
        assert answer(connection)[0] == 503


def test_a_connection_that_was_asked_to_leave_begins_nothing_any_more():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connections = Connections()
        assert connections.enter(ours)
        connections.refuse()
        assert connections.dismissed(ours)
        assert not connections.begin(ours)


def test_a_server_that_was_closed_before_it_served_does_not_serve(tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    server = Server(listener, {"echo": echo}, "1.2.3")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as early:
        early.connect(str(tmp_path / "s"))
        early.sendall(request("echo"))
        server.close(0)
        assert answer(early)[0] == 503
    server.close(0)
    server.serve_forever()


class Latecomer(socket.socket):
    """A listener at which somebody connects whenever it was found to have nobody waiting."""

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = path
        self.bind(str(path))
        self.listen()
        self.callers: list[socket.socket] = []

    def accept(self):
        try:
            return super().accept()
        except BlockingIOError:
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                caller.connect(str(self.path))
                self.callers.append(caller)
            except ConnectionRefusedError:  # says as clearly that nothing was run
                caller.close()
            raise


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a listener cannot be shut before it is closed")
def test_nobody_who_comes_while_the_server_closes_is_left_without_an_answer(tmp_path):
    listener = Latecomer(tmp_path / "s")
    server = Server(listener, {"echo": echo}, "1.2.3")
    server.close(0)
    for caller in listener.callers:
        with caller:
            assert answer(caller)[0] == 503


class Heard(logging.Handler):
    """Waits for something to be logged."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "cannot accept" in record.getMessage():
            self.event.set()


@contextmanager
def all_descriptors_taken_but(spare: int) -> Iterator[None]:
    """For this process, by a limit just above those in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_running_out_of_descriptors_delays_a_connection_and_breaks_nothing(start):
    daemon = start(echo=echo)
    heard = Heard()
    logging.getLogger("openoxide.daemon.server").addHandler(heard)
    with daemon.connect() as first:
        first.sendall(request("echo"))
        assert answer(first)[0] == 200  # the server is up and will open nothing more but connections
        with ExitStack() as stack:
            with all_descriptors_taken_but(1):
                late = stack.enter_context(daemon.connect())
                late.sendall(request("echo"))
                assert heard.event.wait(SECONDS)
            assert answer(late)[0] == 200
    logging.getLogger("openoxide.daemon.server").removeHandler(heard)


CALL_AS = """
import os, sys
from openoxide.daemon.client import Client
from openoxide.errors import OpenOxideError
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
try:
    print(Client("s", autostart=False).call("run", {}))
except OpenOxideError as error:
    print(error.kind, error.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("uid", "said"), [(0, "{'ok': True}\n"), (NOBODY, "refused the daemon serves another user\n")])
def test_only_the_daemons_own_user_is_heard(start, tmp_path, uid, said):
    ran = threading.Event()
    daemon = start(run=lambda _request, _report: ran.set() or {})
    daemon.path.chmod(0o666)
    tmp_path.chmod(0o711)
    caller = subprocess.run(
        [sys.executable, "-c", CALL_AS, str(uid)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        timeout=SECONDS,
    )
    assert caller.stdout == said
    assert ran.is_set() == (uid == 0)
