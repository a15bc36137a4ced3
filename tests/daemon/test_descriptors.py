"""A daemon that may open no more files says so, and takes that for nothing else."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openoxide.daemon.client import Client
from openoxide.errors import FailedError, OpenOxideError
from tests.daemon.trouble import isolated, paths, write
from tests.kit import wait_until
from tests.kit.box import Box

ROOT = Path(__file__).resolve().parents[2]
OUT = "out of file descriptors"


@contextmanager
def no_descriptors(left: int) -> Iterator[None]:
    """This process may open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for descriptor in taken[len(taken) - left :]:
            os.close(descriptor)
    try:
        yield
    finally:
        for descriptor in taken[: len(taken) - left]:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def failure(box: Box, left: int, name: str, request: dict[str, str]) -> str:
    """What an operation says that may open so many files more."""
    with no_descriptors(left):
        try:
            box.call(name, **request)
        except OpenOxideError as error:
            return OUT if OUT in error.message else error.message
        except OSError as error:  # what the server makes of it is below
            return OUT if error.errno == errno.EMFILE else str(error)
        return ""


@isolated
def test_nothing_is_taken_for_lost_or_damaged_where_no_file_can_be_opened(tmp_path):
    with Box(tmp_path) as box:
        for number in range(5):
            write(box.root / f"d{number}" / "file", f"first {number}")
        box.watch()
        write(box.root / "d1" / "file", "second")

        for left in range(12):
            for name, request in (("checkpoint", {}), ("cat", {"checkpoint": "1", "file": "d1/file"})):
                said = failure(box, left, name, request)
                assert said in {"", OUT}, (left, name)

        assert paths(box.rewind("1", exact=True)["restored"]) == [b"d1/file"]
        assert (box.root / "d1" / "file").read_text() == "first 1"
        assert box.call("status")["worktrees"][0]["state"] == "watching"


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oxide-") as folder:
        yield Path(folder) / "home"


@contextmanager
def daemon(home: Path, soft: int, hard: int) -> Iterator[Client]:
    process = subprocess.Popen(
        [
            *("sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"),
            *(sys.executable, "-m", "openoxide.daemon.main", "--foreground"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENOXIDE_HOME": str(home)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: (home / "oxided.sock").exists() or process.poll() is not None, 60)
        yield Client(str(home / "oxided.sock"), autostart=False)
    finally:
        process.terminate()
        process.wait()


def test_a_client_that_cannot_be_served_is_told_why(home):
    with daemon(home, 40, 40) as client:
        idle = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for connection in idle:
            connection.connect(str(home / "oxided.sock"))
        try:
            with pytest.raises(FailedError, match=OUT):
                client.status()
        finally:
            for connection in idle:
                connection.close()
        assert client.status()["ok"]


def test_what_an_operation_cannot_open_is_said_as_such(home, tmp_path):
    for number in range(50):
        write(tmp_path / "tree" / f"d{number}" / "file", "x")
    with daemon(home, 30, 30) as client, pytest.raises(FailedError, match=OUT):
        client.watch(str(tmp_path / "tree"))


def test_a_daemon_takes_all_that_it_may_have(home):
    with daemon(home, 64, 256) as client:
        pid = client.status()["daemon"]["pid"]
        (line,) = [text for text in Path(f"/proc/{pid}/limits").read_text().splitlines() if "open files" in text]
        assert line.split()[3:5] == ["256", "256"]
