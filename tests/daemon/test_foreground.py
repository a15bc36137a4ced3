"""A daemon in the foreground whose timeline goes into a pipe, as a program of its own."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("stderr", [subprocess.DEVNULL, subprocess.STDOUT])
def test_it_ends_well_when_nobody_reads_its_timeline_any_more(home, tmp_path, stderr):
    (tmp_path / "file").touch()
    daemon = subprocess.Popen(
        [sys.executable, "-m", "openoxide.daemon.main", "--foreground", "--watch", tmp_path, "--timeline"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENOXIDE_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
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
