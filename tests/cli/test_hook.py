"""`oxide-hook` as an agent runs it: it hands on, it spools, and whatever happens it ends with 0 and in silence."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openoxide.cli import hook
from openoxide.daemon import protocol
from openoxide.daemon.spool import Spool
from tests.cli.harness import ROOT
from tests.kit import wait_until

HOOK = ROOT / "cli" / "hook.py"
HANG_SECONDS = 60  # what nothing here takes unless it hangs: the hook ends itself after a fraction of a second
PAYLOAD = b'{"session_id": "s", "prompt_id": "p", "prompt": "\xc3\xa4 \\"x\\""}'


def run(*arguments, stdin=PAYLOAD, program=(sys.executable, "-I", "-S", str(HOOK)), **environ):
    """One hook; it says nothing on standard error, ever."""
    done = subprocess.run(
        [*program, *arguments],
        input=stdin,
        env={**os.environ, "CLAUDE_CODE_MESSAGING_TOKEN": "s3cret", **environ},
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not environ.get("OPENOXIDE_HOME") or "s3cret" not in everything_in(Path(environ["OPENOXIDE_HOME"]))
    return done.stdout


def everything_in(folder):
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def home(openoxide_home):
    """A home with a history, and nobody who listens."""
    openoxide_home.mkdir()
    (openoxide_home / "timeline.db").touch()
    return openoxide_home


@pytest.fixture
def answering(daemon):
    """A daemon that has nothing to say."""
    (daemon.home / "timeline.db").touch()
    daemon.answers["hook"] = {"stdout": "", "notes": ['"stdout": "no"']}
    return daemon


def spooled(home):
    return [entry.request for entry in Spool(home / "spool").entries(now_ms=0)]


def test_what_it_has_of_the_protocol_is_right():
    assert hook.PROTOCOL == protocol.PROTOCOL
    assert hook.MAX_REQUEST_BYTES == protocol.MAX_REQUEST_BYTES


# with a daemon


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop"])
def test_the_payload_goes_to_the_daemon_as_it_is(answering, event):
    assert run("claude", event, CLAUDE_PROJECT_DIR='/p/"\u00e9\\\udcff') == b""

    wait_until(lambda: answering.requests, HANG_SECONDS)  # nobody waits for the answer of a Stop
    ((name, request),) = answering.requests
    assert name == "hook"
    began = request.pop("at_ms") + hook.ANSWER_MS
    assert request.pop("due_ms", None) == (began if event == "UserPromptSubmit" else None)
    assert request == {
        "payload": json.loads(PAYLOAD),
        "agent": "claude",
        "event": event,
        "project_dir": '/p/"\u00e9\\\udcff',
    }
    assert not (answering.home / "spool").exists()


def test_a_payload_cannot_speak_for_the_hook(answering):
    run("codex", "Stop", stdin=b'{}, "agent": "claude", "event": "SessionEnd"', CLAUDE_PROJECT_DIR="/not/codex")

    wait_until(lambda: answering.requests, HANG_SECONDS)
    ((_, request),) = answering.requests
    assert request.pop("at_ms") > 0
    assert request == {"payload": {}, "agent": "codex", "event": "Stop"}


@pytest.mark.parametrize("said", ["context: \u00e4\n", '"stdout": "no", \\ \U0001f600\x00', "x" * 300_000])
def test_what_the_daemon_says_to_the_agent_is_printed(answering, said):
    answering.answers["hook"] = {"stdout": said, "notes": []}

    assert run("claude", "SessionStart") == said.encode()


def test_a_refusal_is_silent(answering):
    answering.routes["hook"] = lambda request, report: 1 / 0

    assert run("claude", "UserPromptSubmit") == b""
    assert not (answering.home / "spool").exists()


def test_what_is_too_large_is_dropped_and_said_to_be(answering):
    run("claude", "PostToolUse", stdin=b" " * (20 << 20))

    wait_until(lambda: answering.requests, HANG_SECONDS)
    ((_, request),) = answering.requests
    assert (request["payload"], request["dropped_bytes"]) == (None, 20 << 20)


def test_the_largest_payload_goes_through(answering):
    payload = b'{"x": "' + b"x" * (hook.MAX_PAYLOAD_BYTES - 9) + b'"}'
    run("claude", "PreToolUse", stdin=payload)

    if not spooled(answering.home):  # a machine that is too slow for it spools
        wait_until(lambda: answering.requests, HANG_SECONDS)
        assert len(answering.requests[0][1]["payload"]["x"]) == hook.MAX_PAYLOAD_BYTES - 9


@pytest.mark.parametrize("stdin", [b"", b"no JSON", b"\xff\xfe", b"{", b"\0" * 100, b'"\\ud800"'])
@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop"])
def test_whatever_an_agent_says_it_ends_well(answering, stdin, event):
    assert run("claude", event, stdin=stdin) == b""


@pytest.mark.parametrize(
    "arguments", [(), ("claude",), ("", ""), ("claude", 'x"y\r\n\u00e9', "more"), ("a" * 9_000, "b")]
)
def test_whatever_its_arguments_are_it_ends_well(answering, arguments):
    assert run(*arguments) == b""


def test_an_answer_that_never_comes_does_not_hold_up_the_agent(answering):
    asked, ended = threading.Event(), threading.Event()

    def answer(request, report):
        asked.set()
        ended.wait(HANG_SECONDS)
        return {"stdout": "too late", "notes": []}

    answering.routes["hook"] = answer
    try:
        assert run("claude", "UserPromptSubmit") == b""
        assert asked.is_set()
        assert not (answering.home / "spool").exists()  # it may be carried out: it is not told twice
    finally:
        ended.set()


def test_an_input_that_is_never_closed_does_not_hold_up_the_agent(answering):
    reader, writer = os.pipe()
    program = [sys.executable, "-I", "-S", str(HOOK), "claude", "Stop"]
    with subprocess.Popen(program, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.close(reader)
        said, _ = process.communicate(timeout=HANG_SECONDS)
    os.close(writer)

    assert (process.returncode, said) == (0, b"")


def test_closed_streams_are_no_reason_to_fail(home):
    command = f'exec "$0" -I -S {HOOK} claude Stop <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], timeout=HANG_SECONDS, check=False)

    assert done.returncode == 0
    assert [(request["payload"], request["event"]) for request in spooled(home)] == [(None, "Stop")]


# without one


def test_what_nobody_takes_waits_in_the_spool(home):
    for event in ("UserPromptSubmit", "Stop"):
        run("claude", event)

    assert [request["event"] for request in spooled(home)] == ["UserPromptSubmit", "Stop"]
    assert spooled(home)[1]["payload"] == json.loads(PAYLOAD)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (home / "spool").iterdir()}
    assert (stat.S_IMODE((home / "spool").stat().st_mode), modes) == (0o700, {0o600})


def test_a_daemon_that_is_halted_gets_it_when_it_goes_on(machine, project):
    pid = machine.json("status")["daemon"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        payload = json.dumps({"session_id": "s", "prompt_id": "p", "cwd": str(project)}).encode()
        assert run("claude", "UserPromptSubmit", stdin=payload, OPENOXIDE_HOME=str(machine.home)) == b""
    finally:
        os.kill(pid, signal.SIGCONT)

    def late():
        return [item["late"] for item in machine.json("log")["items"] if item["prompt"] == "p"]

    assert wait_until(late, HANG_SECONDS) == [True]


def test_a_socket_that_nobody_accepts_from_any_more_is_as_good_as_none(home):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "oxided.sock"))
        listener.listen(0)
        filling = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            filling.append(client)
            client.setblocking(False)
            if client.connect_ex(str(home / "oxided.sock")):
                break
        run("claude", "Stop")
        for client in filling:
            client.close()

    assert [request["event"] for request in spooled(home)] == ["Stop"]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", b""])
def test_what_a_daemon_says_it_has_not_run_or_does_not_answer_any_more_waits_in_the_spool(home, answer):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "oxided.sock"))
        listener.listen()
        stopping = threading.Thread(target=turn_away, args=(listener, answer))
        stopping.start()
        run("claude", "UserPromptSubmit")
        stopping.join()

    assert [request["event"] for request in spooled(home)] == ["UserPromptSubmit"]


def turn_away(listener, answer):
    """As a daemon does that is stopping, or that is killed."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)


def test_a_socket_may_lie_deeper_than_its_path_may_be_long(tmp_path):
    home = tmp_path / ("x" * 100) / "home"
    home.mkdir(parents=True)
    (home / "timeline.db").touch()
    before = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(home)
        listener.bind("oxided.sock")
        os.fchdir(before)
        listener.listen()
        run("claude", "Stop", OPENOXIDE_HOME=str(home))
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            said = stream.read()
    os.close(before)

    assert json.loads(said.partition(b"\r\n\r\n")[2])["event"] == "Stop"


@pytest.mark.parametrize(
    "make",
    [
        lambda home: None,
        lambda home: home.mkdir(),
        lambda home: home.write_text("a file"),
        lambda home: home.symlink_to("nowhere"),
    ],
)
def test_where_nothing_was_set_up_nothing_is_made(openoxide_home, make):
    make(openoxide_home)
    before = sorted(openoxide_home.parent.rglob("*"))

    assert run("claude", "UserPromptSubmit") == b""
    assert run("claude", "UserPromptSubmit", OPENOXIDE_HOME="") == b""
    assert sorted(openoxide_home.parent.rglob("*")) == before


def test_without_a_home_directory_too_it_ends_well(tmp_path):
    program = ["env", "-u", "HOME", "-u", "OPENOXIDE_HOME", sys.executable, "-I", "-S", str(HOOK)]

    assert run("claude", "Stop", program=program) == b""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_no_reason_to_fail(home):
    home.chmod(0o500)

    assert run("claude", "Stop") == b""
    assert not (home / "spool").exists()


@pytest.mark.parametrize("make", [lambda path, other: path.symlink_to(other), lambda path, _: path.write_text("file")])
def test_a_spool_that_is_a_link_or_a_file_is_not_written_to(home, tmp_path, make):
    other = tmp_path / "other"
    other.mkdir()
    make(home / "spool", other)

    assert run("claude", "Stop") == b""
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(("files", "size"), [(hook.SPOOL_FILES, 0), (1, hook.SPOOL_BYTES)])
def test_a_full_spool_takes_nothing_more(home, files, size):
    (home / "spool").mkdir()
    for number in range(files):
        with (home / "spool" / str(number)).open("wb") as file:
            file.truncate(size)

    assert run("claude", "Stop") == b""
    assert len(list((home / "spool").iterdir())) == files


def test_the_console_script_is_the_same_program(home):
    assert run("claude", "Stop", program=[sys.executable, "-m", "openoxide.cli.hook"]) == b""
    code = "import sys; from openoxide.cli.hook import main; sys.exit(main())"
    assert run("codex", "Stop", program=[sys.executable, "-c", code]) == b""

    assert [request["agent"] for request in spooled(home)] == ["claude", "codex"]


def test_it_loads_next_to_nothing(home):
    program = [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK), "claude", "UserPromptSubmit"]
    bare = [sys.executable, "-I", "-S", "-X", "importtime", "-c", "pass"]

    more = imported(program) - imported(bare)

    assert more - {"_socket", "encodings.ascii"} == set()
    assert len(spooled(home)) == 1


def test_what_it_prints_costs_next_to_nothing_either(answering):
    answering.answers["hook"] = {"stdout": "notes", "notes": []}
    program = [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK), "claude", "SessionStart"]
    bare = [sys.executable, "-I", "-S", "-X", "importtime", "-c", "pass"]

    assert imported(program) - imported(bare) - {"_socket", "encodings.ascii"} == {"_json"}


def imported(program):
    done = subprocess.run(program, input=PAYLOAD, capture_output=True, check=True, timeout=HANG_SECONDS)
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
