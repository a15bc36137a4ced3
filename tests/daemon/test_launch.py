from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import openoxide
from openoxide.checkpoints.migrating import UNFINISHED
from openoxide.daemon import caller
from openoxide.daemon.client import Client
from openoxide.daemon.launch import daemon_argv, last_words, scrubbed
from openoxide.daemon.logs import FILE_BYTES, FILES_KEPT
from openoxide.errors import DaemonUnreachableError, RefusedError, StoreDamagedError, StoreReadOnlyError

ROOT = Path(openoxide.__file__).parents[1]
SECONDS = 60  # how long a test waits for what must come

# The smallest program that keeps to what daemon/launch.py asks of a daemon. It ends with its test, however late it came.
DAEMON = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from openoxide.daemon import instance, launch, logs, server
from openoxide.errors import AlreadyRunningError, OpenOxideError
from openoxide.paths import home_from

def facts(_request, _report):
    found = {{"environ": dict(os.environ), "cwd": os.getcwd(), "session": os.getsid(0), "pid": os.getpid()}}
    if sys.platform == "linux":
        found["open"] = {{link.name: os.readlink(link) for link in os.scandir("/proc/self/fd") if os.path.lexists(link)}}
    return found

def end_with_the_test():
    lifeline = os.open(LIFELINE, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(lifeline, True)
    os.read(lifeline, 1)
    stop.set()

home = home_from(os.environ)
try:
    held = instance.acquire(home)
    logs.configure(os.environ, home.logs)
    listener = held.listen()
except AlreadyRunningError:
    sys.exit(launch.EXIT_ALREADY_RUNNING)
except OpenOxideError as error:
    print(launch.last_words(error))
    sys.exit(1)
stop = threading.Event()
threading.Thread(target=end_with_the_test, daemon=True).start()
routes = {{"facts": facts, "stop": lambda _request, _report: stop.set() or {{}}}}
serving = server.Server(listener, routes, "1.2.3")
threading.Thread(target=serving.serve_forever).start()
stop.wait()
serving.close(5_000)
held.close()
"""


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[str]:
    """A pipe that has a writer for as long as the test runs."""
    pipe = tmp_path / "lifeline"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    yield str(pipe)
    os.close(writer)


@pytest.fixture
def argv(tmp_path: Path, lifeline: str) -> list[str]:
    program = tmp_path / "daemon.py"
    program.write_text(DAEMON.replace("LIFELINE", repr(lifeline)))
    return [sys.executable, "-P", str(program)]


@pytest.fixture
def path(openoxide_home: Path) -> str:
    return str(openoxide_home / "oxided.sock")


@pytest.fixture
def client(path: str, argv: list[str]) -> Client:
    return Client(path, autostart=True, timeout_seconds=SECONDS, daemon_argv=argv)


def dying(tmp_path: Path, body: str) -> list[str]:
    """A daemon that does ``body`` and ends."""
    program = tmp_path / "dying.py"
    program.write_text(body)
    return [sys.executable, str(program)]


def test_a_call_starts_the_daemon_that_is_not_there(client):
    pid = client.call("ping", {})["pid"]
    assert pid != os.getpid()
    assert client.call("ping", {})["pid"] == pid


@pytest.mark.parametrize("migrates", [True, False])
def test_a_daemon_that_migrates_is_waited_for_beyond_the_usual(client, openoxide_home, monkeypatch, migrates):
    monkeypatch.setattr(caller, "START_SECONDS", 0.0)  # no daemon is there so soon
    openoxide_home.mkdir(mode=0o700)
    assert f"timeline.db{UNFINISHED}" == caller.MIGRATING
    if migrates:
        (openoxide_home / caller.MIGRATING).touch()
        assert client.call("ping", {})["ok"] is True
    else:
        with pytest.raises(DaemonUnreachableError):
            client.call("ping", {})


@pytest.mark.skipif(sys.platform != "linux", reason="open files are seen through /proc")
def test_the_daemon_is_detached_and_holds_nothing_of_its_starter(client, path):
    with open(__file__, "rb") as held:
        os.set_inheritable(held.fileno(), True)
        facts = client.call("facts", {})
    assert (facts["cwd"], facts["session"]) == ("/", facts["pid"])
    assert facts["open"]["0"] == "/dev/null"
    assert facts["open"]["1"].endswith("(deleted)")
    assert facts["open"]["2"] == os.path.dirname(path) + "/logs/oxided.log"
    assert __file__ not in facts["open"].values()


def test_the_daemon_inherits_no_secret(client, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("PYTHONSTARTUP", "/evil.py")
    monkeypatch.setenv("LC_MESSAGES", "C")
    environ = client.call("facts", {})["environ"]
    assert set(environ) <= {
        "HOME",
        "PATH",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LC_MESSAGES",
        "TZ",
        "TMPDIR",
        "OPENOXIDE_HOME",
    }
    assert environ["LC_MESSAGES"] == "C"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *((name, True) for name in ("PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")),
        *((name, True) for name in ("OPENOXIDE_HOME", "OPENOXIDE_LOG")),
        *(
            (name, False)
            for name in ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "OPENOXIDE_NO_AUTOSTART", "LCX", "path")
        ),
    ],
)
def test_only_what_a_daemon_needs_is_passed_on(name, kept):
    assert scrubbed({name: "/value"}) == ({name: "/value"} if kept else {})


def test_a_relative_home_means_the_same_folder_to_the_daemon_which_runs_elsewhere():
    assert scrubbed({"OPENOXIDE_HOME": "a/home"}) == {"OPENOXIDE_HOME": os.path.join(os.getcwd(), "a/home")}


def test_the_daemon_is_this_very_installation_and_searches_no_folder_of_its_starter():
    assert daemon_argv() == [sys.executable, "-P", "-m", "openoxide.daemon.main"]


def test_a_signal_to_the_starters_group_does_not_reach_the_daemon(path, argv):
    script = f"""if True:
        from openoxide.daemon.client import Client
        print(Client({path!r}, autostart=True, daemon_argv={argv!r}).call("ping", {{}})["pid"], flush=True)
        input()
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    os.killpg(starter.pid, signal.SIGINT)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.communicate()
    assert Client(path, autostart=False).call("ping", {})["pid"] == pid


def test_clients_that_start_a_daemon_at_the_same_time_end_up_with_the_same_one(path, argv):
    together = threading.Barrier(8)

    def ping(_: int) -> int:
        together.wait(SECONDS)
        return Client(path, autostart=True, daemon_argv=argv).call("ping", {})["pid"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ping, range(8)))) == 1


def test_no_call_is_lost_while_daemons_are_stopped_and_started(client, path):
    ending = threading.Event()
    answered: set[int] = set()

    def ping() -> None:
        while not ending.is_set():
            answered.add(client.call("ping", {})["pid"])

    with ThreadPoolExecutor(2) as pool:
        callers = [pool.submit(ping) for _ in range(2)]
        while len(answered) < 4 and not any(caller.done() for caller in callers):
            client.call("ping", {})
            client.stop()
        ending.set()
        for caller in callers:
            caller.result(SECONDS)


def test_a_daemon_that_was_killed_is_replaced(client):
    pid = client.call("ping", {})["pid"]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert client.call("ping", {})["pid"] != pid


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """As by Ctrl-Z, or a debugger."""
    os.kill(pid, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("what", [Client.stop, Client.runs])
def test_a_daemon_that_is_halted_is_named_instead_of_waited_for(client, path, monkeypatch, what):
    pid = client.call("ping", {})["pid"]
    monkeypatch.setattr("openoxide.daemon.caller.ANSWER_SECONDS", 0.2)

    with halted(pid), pytest.raises(DaemonUnreachableError, match=rf"pid {pid}\) was silent") as caught:
        what(client)

    assert f"kill -CONT {pid}" in caught.value.hint


@pytest.mark.parametrize(
    "error",
    [
        StoreReadOnlyError("/home cannot be written", hint="check its mount"),
        StoreDamagedError("a blob is missing", details={"paths": ["a"]}),
    ],
)
def test_what_a_daemon_dies_of_becomes_the_clients_exception(path, tmp_path, error):
    argv = dying(tmp_path, f"print('noise'); print({last_words(error)!r}); raise SystemExit(1)")
    with pytest.raises(type(error)) as caught:
        Client(path, autostart=True, daemon_argv=argv).status()
    assert (caught.value.message, caught.value.hint) == (error.message, error.hint)
    assert caught.value.details == error.details


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("import openoxide_is_not_installed", "exit code 1", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "exit code 3", ""),
        ("import os; os.kill(os.getpid(), 9)", "signal 9", ""),
        ("print('half a line\\x1b[2J', end=''); exit(1)", "exit code 1", r"half a line\x1b[2J"),
        (
            "import sys; sys.stdout.buffer.write(b'\\xff' * 100_000); exit(1)",
            "exit code 1",
            "\N{REPLACEMENT CHARACTER}",
        ),
        ("print('[1]'); exit(1)", "exit code 1", "[1]"),
        ("print('{\"error\": 1}'); exit(1)", "exit code 1", "error"),
    ],
)
def test_a_daemon_that_dies_without_a_word_of_ours_is_unreachable_with_its_last_line(
    path, tmp_path, body, message, hint
):
    with pytest.raises(DaemonUnreachableError, match=message) as caught:
        Client(path, autostart=True, daemon_argv=dying(tmp_path, body)).status()
    assert hint in caught.value.hint
    assert "\x1b" not in caught.value.hint


def test_a_program_that_cannot_be_run_is_named(path):
    with pytest.raises(DaemonUnreachableError, match="cannot start /nowhere/python"):
        Client(path, autostart=True, daemon_argv=["/nowhere/python"]).status()


def test_starting_leaves_nothing_in_a_home_that_the_daemon_refuses(path, tmp_path, openoxide_home):
    argv = dying(tmp_path, f"print({last_words(RefusedError('not yours'))!r}); raise SystemExit(1)")
    with pytest.raises(RefusedError):
        Client(path, autostart=True, daemon_argv=argv).status()
    assert not openoxide_home.exists()


def test_a_client_whose_daemon_lost_to_one_on_its_way_out_starts_another(client, path, argv, tmp_path):
    first = client.call("ping", {})["pid"]
    os.kill(first, signal.SIGSTOP)  # it holds the home ...
    os.unlink(path)  # ... and cannot be reached any more
    os.mkfifo(tmp_path / "lost")
    lost = os.open(tmp_path / "lost", os.O_RDWR)
    tell = f"""os.write(os.open({str(tmp_path / "lost")!r}, os.O_WRONLY), b"x"); sys.exit(launch"""
    told = dying(tmp_path, Path(argv[-1]).read_text().replace("sys.exit(launch", tell))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Client(path, autostart=True, daemon_argv=told).call, "ping", {})
        assert select.select([lost], [], [], SECONDS)[0]
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        assert waiting.result(SECONDS)["pid"] != first
    os.close(lost)


def test_a_daemon_that_was_stopped_before_its_starter_came_to_it_is_started_again(path, argv, tmp_path):
    stopped_first = f"""if True:
        import os
        if not os.path.exists({str(tmp_path / "ran")!r}):
            open({str(tmp_path / "ran")!r}, "w").close()
            raise SystemExit(0)
    """
    program = dying(tmp_path, stopped_first + Path(argv[-1]).read_text())
    assert Client(path, autostart=True, daemon_argv=program).call("ping", {})["ok"]


LOG = """
import logging, os, sys
from pathlib import Path
from openoxide.daemon.logs import configure
configure(os.environ, Path(sys.argv[1]) if sys.argv[1:] else None)
log = logging.getLogger("openoxide.daemon.test")
"""


def logged(script: str, *arguments: str, level: str | None = None) -> str:
    """What ``script`` leaves on standard error."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)} | ({"OPENOXIDE_LOG": level} if level else {})
    program = [sys.executable, "-c", LOG + script, *arguments]
    return subprocess.run(program, env=environ, capture_output=True, text=True, check=True, timeout=SECONDS).stderr


def entries(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_without_a_terminal_a_log_line_is_one_object():
    one, two = entries(
        logged("log.info('a %s\\n%d', 'b\\x1b', 7)\ntry: 1/0\nexcept ZeroDivisionError: log.exception('broke')")
    )
    assert (one["level"], one["logger"], one["message"]) == ("info", "openoxide.daemon.test", "a b\x1b\n7")
    assert one["at"].endswith("Z")
    assert "traceback" not in one
    assert (two["level"], two["message"]) == ("error", "broke")
    assert two["traceback"].endswith("ZeroDivisionError: division by zero")


def test_on_a_terminal_a_log_line_is_plain_and_cannot_move_the_cursor():
    ours, theirs = os.openpty()
    script = (
        LOG
        + "log.warning('name %s', 'a\\x1b[2J\\u202e')\ntry: raise ValueError('\\x07')\nexcept ValueError: log.exception('x')"
    )
    with os.fdopen(theirs, "w") as terminal:
        subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(ROOT)}, stderr=terminal, check=True)
    ready, _, _ = select.select([ours], [], [], SECONDS)
    assert ready
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert r" warning name a\x1b[2J\u202e" in text.splitlines()[0]
    assert text.rstrip().endswith(r"ValueError: \x07")
    assert all(char.isprintable() for line in text.splitlines() for char in line)


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        (None, ["info", "warning", "error"]),
        ("debug", ["debug", "info", "warning", "error"]),
        ("WARNING", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_comes_from_the_environment(level, heard):
    script = "for level in ('debug', 'info', 'warning', 'error'): getattr(log, level)('x')"
    assert [entry["level"] for entry in entries(logged(script, level=level))] == heard


def test_an_unknown_level_is_said_and_means_info():
    first, second = entries(logged("log.debug('a'); log.info('b')", level="loud"))
    assert ("OPENOXIDE_LOG=loud" in first["message"], second["message"]) == (True, "b")


def test_other_libraries_keep_to_warnings_even_when_we_debug():
    script = "logging.getLogger('peewee').debug('values'); logging.getLogger('peewee').warning('w')"
    assert [entry["message"] for entry in entries(logged(script, level="debug"))] == ["w"]


def test_the_log_file_is_private_and_holds_what_the_interpreter_reports(tmp_path):
    folder = tmp_path / "logs"
    assert logged("os.umask(0); log.info('a'); sys.stderr.write('fatal\\n')", str(folder)) == ""
    lines = (folder / "oxided.log").read_text().splitlines()
    assert (json.loads(lines[0])["message"], lines[1]) == ("a", "fatal")
    assert stat.S_IMODE((folder / "oxided.log").stat().st_mode) == 0o600


def test_the_log_files_are_bounded_and_each_is_private(tmp_path):
    folder = tmp_path / "logs"
    logged(f"for _ in range({6 * FILE_BYTES // 1000}): log.info('x' * 1000)\nsys.stderr.write('fatal\\n')", str(folder))
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    assert set(sizes) == {"oxided.log", *(f"oxided.log.{n}" for n in range(1, FILES_KEPT + 1))}
    assert max(sizes.values()) <= FILE_BYTES
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert (folder / "oxided.log").read_text().endswith("fatal\n")


def test_an_old_log_that_others_could_read_becomes_private(tmp_path):
    file = tmp_path / "oxided.log"
    file.write_text("old\n")
    file.chmod(0o644)
    logged("log.info('a')", str(tmp_path))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().startswith("old\n")


def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "oxided.log").symlink_to("victim")
    with pytest.raises(subprocess.CalledProcessError):
        logged("log.info('a')", str(tmp_path))
    assert (tmp_path / "victim").read_text() == "precious"
