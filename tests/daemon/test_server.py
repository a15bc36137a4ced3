from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openoxide.daemon.protocol import MAX_REQUEST_BYTES, PROTOCOL, PROTOCOL_HEADER, VERSION_HEADER
from openoxide.daemon.server import MAX_HEAD_BYTES, Handler
from openoxide.errors import (
    AmbiguousError,
    ConflictError,
    NotFoundError,
    RefusedError,
    RootVanishedError,
    StoreFullError,
    UsageError,
)
from tests.daemon.raw_http import (
    DRAIN_MS,
    SECONDS,
    Daemon,
    Gate,
    answer,
    echo,
    events,
    read_answer,
    request,
    response,
    starting,
)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    with starting(tmp_path / "s") as start:
        yield start


def test_ping_says_who_answers_and_every_answer_names_protocol_and_version(start):
    daemon = start()
    with daemon.connect() as connection:
        connection.sendall(request("ping", b"", "GET"))
        with response(connection) as reply:
            assert (reply.getheader(PROTOCOL_HEADER), reply.getheader(VERSION_HEADER)) == (str(PROTOCOL), "1.2.3")
            assert json.loads(reply.read()) == {
                "ok": True, "version": "1.2.3", "protocol": PROTOCOL, "pid": os.getpid()}  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [{}, {"path": "/a/\udcff\x1b[2J\u202e"}, {"nested": [{"a": None}], "big": 2**70}, {"ok": True, "n": 1}],
)
def test_a_request_reaches_its_handler_and_the_answer_comes_back_unchanged(start, fields):
    assert start(echo=echo).ask("echo", json.dumps(fields).encode()) == (200, {"ok": True, **fields})


def test_bytes_are_answered_as_they_are(start):
    content = bytes(range(256)) * 20_000
    daemon = start(cat=lambda _request, _report: content)
    with daemon.connect() as connection:
        connection.sendall(request("cat"))
        with response(connection) as reply:
            assert reply.getheader("Content-Type") == "application/octet-stream"
            assert reply.read() == content


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("no directory", hint="name one"), 400),
        (RefusedError("no"), 403),
        (NotFoundError("no checkpoint 7"), 404),
        (AmbiguousError("two fit", details={"candidates": ["k", "l"]}), 409),
        (ConflictError("changed"), 409),
        (StoreFullError("disk full"), 507),
        (RootVanishedError("gone"), 500),
    ],
)
def test_an_error_of_ours_is_answered_as_its_object_with_the_status_of_its_kind(start, error, status):
    def fail(_request, _report):
        raise error

    assert start(fail=fail).ask("fail") == (
        status,
        {"ok": False, "error": {**error.details, "kind": error.kind, "message": error.message, "hint": error.hint}},
    )


def raise_key_error(_request, _report):
    raise KeyError("secret")


def exhaust_the_stack(request, report):
    return exhaust_the_stack(request, report)


@pytest.mark.parametrize(
    "broken", [raise_key_error, exhaust_the_stack, lambda _r, _p: {"a": object()}, lambda _r, _p: None]
)
def test_a_broken_handler_is_an_internal_error_that_is_counted_and_leaves_the_connection_usable(start, broken, caplog):
    daemon = start(broken=broken, echo=echo)
    with daemon.connect() as connection:
        connection.sendall(request("broken"))
        status, said = answer(connection)
        assert (status, said["error"]["kind"], said["error"]["message"]) == (500, "failed", "internal error in broken")
        assert "secret" not in json.dumps(said)
        connection.sendall(request("echo"))
        assert answer(connection) == (200, {"ok": True})
    assert daemon.server.internal_errors == 1
    assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [True]


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"Host": "evil.test"}, 403, "refused"),
        ({"Host": "localhost"}, 403, "refused"),
        ({"Host": "openoxide.evil.test"}, 403, "refused"),
        ({"Host": ""}, 403, "refused"),
        ({"Host": "openoxide\r\nHost: evil.test"}, 403, "refused"),
        ({"Origin": "http://evil.test"}, 403, "refused"),
        ({"Origin": "null"}, 403, "refused"),
        ({"Referer": "http://openoxide/"}, 403, "refused"),
        ({"X_OpenOxide_Protocol": "99"}, 426, "version_mismatch"),
        ({"X_OpenOxide_Protocol": "1.0"}, 426, "version_mismatch"),
        ({"Content_Length": "-1"}, 400, "usage"),
        ({"Content_Length": "two"}, 400, "usage"),
        ({"Content_Length": "2\r\nContent-Length: 3"}, 400, "usage"),
        ({"Content_Length": str(MAX_REQUEST_BYTES + 1)}, 413, "usage"),
        ({"Content_Length": "9" * 15}, 413, "usage"),
        ({"Content_Length": "9" * 5000}, 400, "usage"),
        ({"Transfer_Encoding": "chunked"}, 411, "usage"),
        ({"X_Large": "a" * MAX_HEAD_BYTES}, 431, "usage"),
        ({f"X_{n}": "a" for n in range(200)}, 431, "usage"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_request_with_a_bad_head_is_refused_and_never_reaches_a_handler(start, change, status, kind):
    reached = threading.Event()
    daemon = start(run=lambda _request, _report: reached.set() or {})
    got, said = daemon.ask("run", **change)
    assert (got, said["ok"], said["error"]["kind"]) == (status, False, kind)
    assert not reached.is_set()


def test_a_host_in_capitals_is_the_same_host(start):
    assert start(echo=echo).ask("echo", Host="OpenOxide")[0] == 200


def test_a_version_mismatch_names_both_versions_and_the_way_out(start):
    _, said = start(echo=echo).ask("echo", X_OpenOxide_Protocol="99")
    assert "protocol 99" in said["error"]["message"]
    assert f"the daemon {PROTOCOL} (version 1.2.3)" in said["error"]["message"]
    assert "oxide-ctl stop" in said["error"]["hint"]


@pytest.mark.parametrize("name", ["ping", "stop"])
def test_a_client_of_another_version_can_ask_who_runs_and_stop_it(start, name):
    assert start(stop=echo).ask(name, X_OpenOxide_Protocol="99")[0] == 200


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 400),
        (b"\x00" * 100 + b"\n", 400),
        (b"\xff" * 70_000, 414),
        (b"\r\n\r\n", 400),
        (b"GET /v1/ping\r\n\r\n", 400),
        (b"GET /v1/ping HTTP/2.0\r\n\r\n", 400),
        (b"post /v1/ping HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/\x1b[2J HTTP/1.1\r\nHost: openoxide\r\n\r\n", 404),
        (request("../../etc/passwd"), 404),
        (request("nothing"), 404),
        (request("nothing", method="GET"), 404),
        (request("echo?x=1"), 404),
        (request("echo", method="GET"), 405),
        (request("echo", method="PUT"), 501),
        (b"POST /v2/echo HTTP/1.1\r\nHost: openoxide\r\n\r\n", 404),
        (b"POST echo HTTP/1.1\r\nHost: openoxide\r\n\r\n", 404),
        (b"POST http://openoxide/v1/echo HTTP/1.1\r\nHost: openoxide\r\n\r\n", 404),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_request_of_ours_is_answered_with_an_error_object(start, raw, status):
    with start(echo=echo).connect() as connection:
        connection.sendall(raw)
        got, said = answer(connection)
        assert (got, said["ok"]) == (status, False)
        assert "\x1b" not in said["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b"7", b"\xff\xfe", b"[" * 200_000, b'{"n": ' + b"9" * 5000 + b"}", b"{} {}"],
    ids=lambda value: repr(value)[:20],
)
def test_a_body_that_is_no_object_is_a_usage_error(start, body):
    status, said = start(echo=echo).ask("echo", body)
    assert (status, said["error"]["kind"]) == (400, "usage")


def test_a_request_of_the_largest_size_is_taken(start):
    body = json.dumps({"a": "x" * (MAX_REQUEST_BYTES - 9)}).encode()
    assert len(body) == MAX_REQUEST_BYTES
    daemon = start(count=lambda request, _report: {"n": len(request["a"])})
    assert daemon.ask("count", body) == (200, {"ok": True, "n": MAX_REQUEST_BYTES - 9})


def test_a_body_that_is_really_too_large_is_refused_while_it_is_being_sent(start):
    with start(echo=echo).connect() as connection:
        with pytest.raises(BrokenPipeError):
            connection.sendall(request("echo", b" " * (MAX_REQUEST_BYTES + 1)))
        assert answer(connection)[0] == 413


def test_requests_follow_one_another_on_one_connection(start):
    with start(echo=echo).connect() as connection:
        for n in range(50):
            connection.sendall(request("echo", json.dumps({"n": n}).encode()))
            assert answer(connection) == (200, {"ok": True, "n": n})


def test_requests_sent_ahead_are_answered_in_order(start):
    with start(echo=echo).connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(b"".join(request("echo", b'{"n": %d}' % n) for n in range(5)))
        assert [read_answer(stream)["n"] for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", [request("echo", b"[]"), request("echo", Host="evil.test"), request("nothing")])
def test_what_follows_a_refused_request_is_not_taken_for_a_request(start, bad):
    ran = threading.Event()
    daemon = start(echo=echo, run=lambda _request, _report: ran.set() or {})
    with daemon.connect() as connection:
        connection.sendall(bad + request("run"))
        with response(connection) as reply:
            assert (reply.status >= 400, reply.getheader("Connection")) == (True, "close")
    daemon.server.close(DRAIN_MS)
    assert not ran.is_set()


def test_progress_comes_as_events_and_the_answer_is_the_last_one(start):
    def count(_request, report):
        for done in range(3):
            report({"stage": "reading\n\n", "done": done, "total": 3, "bytes": 0})
        return {"files": 3}

    with start(count=count).connect() as connection:
        connection.sendall(request("count", Accept="text/event-stream"))
        got = list(events(connection))
    assert got == [
        *(("progress", {"stage": "reading\n\n", "done": done, "total": 3, "bytes": 0}) for done in range(3)),
        ("answer", {"ok": True, "files": 3}),
    ]


def fail_after_progress(_request, report):
    report({"stage": "reading", "done": 1, "total": 0, "bytes": 0})
    raise ConflictError("changed meanwhile")


@pytest.mark.parametrize(
    ("handler", "kind"),
    [(fail_after_progress, "conflict"), (raise_key_error, "failed"), (lambda _request, _report: b"raw", "usage")],
)
def test_with_events_an_error_is_the_answer_event(start, handler, kind):
    with start(run=handler).connect() as connection:
        connection.sendall(request("run", Accept="text/event-stream"))
        name, said = list(events(connection))[-1]
        assert (name, said["ok"], said["error"]["kind"]) == ("answer", False, kind)


def test_a_refusal_keeps_its_status_where_events_were_asked_for(start):
    assert start().ask("nothing", Accept="text/event-stream")[0] == 404


def test_progress_without_events_asked_for_goes_nowhere(start):
    status, said = start(run=fail_after_progress).ask("run")
    assert (status, said["error"]["kind"]) == (409, "conflict")


def report_a_lot(finished: threading.Event) -> Handler:
    """Far more progress than a socket holds."""

    def work(_request, report):
        for done in range(5_000):
            report({"stage": "x" * 1_000, "done": done, "total": 0, "bytes": 0})
        finished.set()
        return {"files": 5_000}

    return work


def test_a_client_that_does_not_read_never_holds_the_handler_up_and_still_gets_its_answer(start):
    finished = threading.Event()
    with start(work=report_a_lot(finished)).connect() as connection:
        connection.sendall(request("work", Accept="text/event-stream"))
        assert finished.wait(SECONDS)  # before a byte was read
        *progress, last = events(connection)
    assert last == ("answer", {"ok": True, "files": 5_000})
    seen = [said["done"] for name, said in progress if name == "progress"]
    assert seen == list(range(len(seen)))  # whole events, in order, up to where the socket was full
    assert 0 < len(seen) < 5_000


def test_a_client_that_went_away_cancels_nothing(start, gate):
    reported = threading.Event()

    def work(request, report):
        gate(request, report)
        for done in range(100):
            report({"stage": "writing", "done": done, "total": 100, "bytes": 0})
        reported.set()
        return {}

    daemon = start(work=work, echo=echo)
    with daemon.connect() as connection:
        connection.sendall(request("work", Accept="text/event-stream"))
        assert gate.running.acquire(timeout=SECONDS)
    gate.open.set()
    assert reported.wait(SECONDS)
    assert daemon.ask("echo")[0] == 200
    assert daemon.server.internal_errors == 0
