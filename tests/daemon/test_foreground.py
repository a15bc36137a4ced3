"""A daemon in the foreground whose timeline goes into a pipe, as a program of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from openoxide.daemon.terminal import when_reader_leaves

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 60


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a path short enough for its socket."""
    with tempfile.TemporaryDirectory(prefix="oxide-") as folder:
        yield Path(folder) / "home"


def started(home: Path, tree: Path, stderr: int) -> subprocess.Popen[bytes]:
    """A daemon that watches ``tree`` and tells its timeline."""
    return subprocess.Popen(
        [sys.executable, "-m", "openoxide.daemon.main", "--foreground", "--watch", tree, "--timeline"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENOXIDE_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def typed(home: Path, command: str) -> None:
    """Runs an `oxide-ctl` command line as it was proposed."""
    words = [sys.executable, "-m", "openoxide.cli.entry", *shlex.split(command)[1:]]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OPENOXIDE_HOME": str(home), "OPENOXIDE_NO_AUTOSTART": "1"}
    subprocess.run(words, env=environ, stdin=subprocess.DEVNULL, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    """A project with a name that a shell would take apart."""
    tree = tmp_path / "my app"
    tree.mkdir()
    (tree / "file").touch()
    return tree


@pytest.fixture
def running(home, tree):
    """A daemon that was started and watches the tree."""
    with started(home, tree, subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        while b" watching " not in daemon.stdout.readline():
            assert daemon.poll() is None
        yield daemon
        daemon.terminate()


def test_a_second_one_names_the_first_and_what_can_be_typed(home, running, tmp_path):
    other = tmp_path / "an other"
    other.mkdir()

    out, err = (second := started(home, other, subprocess.PIPE)).communicate(timeout=DEADLINE_SECONDS)

    assert (second.returncode, out) == (1, b"")
    assert f"pid {running.pid}" in err.decode()
    watch, stop = re.findall("`([^`]+)`", err.decode())
    assert shlex.split(watch)[0].endswith("oxide-ctl")
    assert shlex.split(watch)[1:] == ["watch", str(other)]
    typed(home, watch)
    typed(home, stop)
    assert running.wait(DEADLINE_SECONDS) == 0


def test_the_timeline_is_on_standard_output_and_the_log_on_standard_error(home, running):
    typed(home, "oxide-ctl stop")

    assert [line.split()[1] for line in running.stdout.read().splitlines()] == [b"stopped"]
    assert {json.loads(line)["level"] for line in running.stderr.read().splitlines()} == {"info"}


# the main thread is in a write to a full pipe, and another one takes the signal: nothing wakes the main thread
DEAF = """
import os, signal, sys, threading
from openoxide.daemon.main import _stop_on_signals
stop, size = threading.Event(), 1 << 20
_stop_on_signals(stop)
ours, theirs = os.pipe()
def send():
    read = len(os.read(ours, 1))
    signal.pthread_kill(threading.get_ident(), int(sys.argv[1]))
    print("stopped:", stop.wait(5), flush=True)
    while read < size:
        read += len(os.read(ours, size))
threading.Thread(target=send).start()
os.write(theirs, bytes(size))
"""
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


@BOTH
def test_a_signal_is_heard_though_the_main_thread_does_not_wake_up(number):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, "-c", DEAF, str(int(number))], env=environ, check=False, capture_output=True, text=True
    )

    assert (done.stdout, done.returncode) == ("stopped: True\n", 0)


@BOTH
def test_a_signal_at_the_moment_in_which_the_tree_is_watched_ends_it(running, number):
    running.send_signal(number)

    assert running.wait(DEADLINE_SECONDS) == 0


@pytest.mark.parametrize("stderr", [subprocess.DEVNULL, subprocess.STDOUT])
def test_it_ends_well_when_nobody_reads_its_timeline_any_more(home, tree, stderr):
    daemon = started(home, tree, stderr)
    assert daemon.stdout is not None
    assert daemon.stdout.readline()
    daemon.stdout.close()

    assert daemon.wait(DEADLINE_SECONDS) == 0
    assert not (home / "oxided.sock").exists()


def test_a_file_has_no_reader_that_could_leave(tmp_path):
    with (tmp_path / "timeline").open("w") as out:
        when_reader_leaves(out, pytest.fail)


def test_what_is_written_after_the_reader_left_goes_nowhere():
    left = threading.Event()
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as out:
        when_reader_leaves(out, left.set)
        print("read", file=out, flush=True)
        assert os.read(ours, 100) == b"read\n"
        assert not left.is_set()
        os.close(ours)
        assert left.wait(DEADLINE_SECONDS)
        print("not read", file=out, flush=True)
