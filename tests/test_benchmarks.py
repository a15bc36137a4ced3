"""The program that takes the figures: every row comes out, and its proof of what a checkpoint looks at can fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.tracing import Place, Scene, Touch, by_place, touches

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "run.py"
FILES = 60
ROWS = [
    ("checkpoint", "checkpoint with 1 changed file"),
    ("strace", "what a checkpoint looks at"),
    ("capture", "first capture"),
    ("capture", "store after the first capture"),
    ("capture", "memory at rest after the first capture"),
    ("capture", "memory after a full pass"),
    ("rewind", "rewind of 30 changed files, scope session"),
    ("rewind", "rewind of 30 changed files, scope session, turn still open"),
    ("rewind", "rewind of 30 changed files, exact"),
    ("hook", "hook: end of a tool call, not waited for"),
    ("hook", "hook: begin of a tool call, answered"),
    ("store", "store after the first capture of a real tree, written"),
    ("repack", "store after 100 edits of a line of a text of 1 MB, and a prune"),
    ("prune", "checkpoint with 1 changed file beside a prune"),
    ("check", "checkpoint with 1 changed file beside a check --read-data"),
    ("expire", "checkpoint with 1 changed file beside an expire of 20,000"),
]
SCENE = Scene(root="/p", home="/h", changed="src/a.py", files=frozenset({"src/a.py", "src/b.py", "src/\u00e9 x.py"}))


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def written(tmp_path):
    """A real tree, small."""
    folder = tmp_path / "written"
    folder.mkdir()
    shutil.copy(__file__, folder)
    return folder


def arguments(scratch, written, *more):
    return [sys.executable, PROGRAM, "--files", str(FILES), "--scratch", scratch, "--real-tree", written, *more]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_run_writes_every_row_and_leaves_nothing_behind(scratch, written, tmp_path):
    results = tmp_path / "results"

    done = subprocess.run(
        arguments(scratch, written, "--rounds", "1", "--results", results), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((results / "main-job.json").read_text("utf-8"))
    assert [(row["claim"]["figure"], row["claim"]["what"]) for row in report["rows"]] == ROWS
    for row in report["rows"]:
        assert row["measured"] is not None or cannot_trace(row), row
    assert report.keys() >= {"date", "machine", "versions", "command"}
    table = (results / "main-job.md").read_text("utf-8")
    assert all(
        f"| {what} |" in table and row["command"] in table for (_, what), row in zip(ROWS, report["rows"], strict=True)
    )
    assert list(scratch.iterdir()) == []


def cannot_trace(row):
    """Whether this machine has no strace, or forbids it: the row says so."""
    return row["claim"]["figure"] == "strace" and row["verdict"].startswith("not measured: strace")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_terminated_stops_its_daemon_and_removes_its_folder(scratch, written):
    command = arguments(scratch, written, "--only", "checkpoint", "--rounds", "100")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as program:
        try:
            pid = daemon_of(program)
            program.send_signal(signal.SIGTERM)
            program.wait()
        finally:
            program.kill()

    assert program.returncode == 128 + signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()
    assert list(scratch.iterdir()) == []


def daemon_of(program):
    """The process id of the daemon that the program has started."""
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    while program.poll() is None:
        for pid in children.read_text().split():
            if b"oxided" in command_line(pid):
                return int(pid)
        with suppress(subprocess.TimeoutExpired):
            program.wait(0.01)
    raise AssertionError(f"ended with {program.returncode} and without a daemon")


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.slow
def test_a_figure_that_cannot_be_taken_says_why_and_fails_the_run(scratch, written, tmp_path):
    programs = tmp_path / "programs"  # no git, no strace
    programs.mkdir()
    for name in ("cp", "sync"):
        (programs / name).symlink_to(shutil.which(name))

    done = subprocess.run(
        arguments(scratch, written, "--only", "strace", "capture", "--rounds", "1"),
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "not measured: strace is not installed" in done.stdout
    assert "No such file or directory: 'git'" in done.stdout


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('7 newfstatat(5</p/src>, "b.py", {st_mode=S_IFREG|0644, ...}, AT_SYMLINK_NOFOLLOW) = 0', Place.UNCHANGED),
        ('7 newfstatat(5</p/src>, "b.py",  <unfinished ...>', Place.UNCHANGED),
        ('7 lstat("/p/src/b.py", {st_mode=S_IFREG|0644, ...}) = 0', Place.UNCHANGED),
        ('openat(AT_FDCWD</p>, "src/b.py", O_RDONLY) = 9</p/src/b.py>', Place.UNCHANGED),
        (
            '7 openat2(4</p>, "src/b.py", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = 9</p/src/b.py>',
            Place.UNCHANGED,
        ),
        ('7 statx(5</p/src>, "../src/./b.py", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=0}) = 0', Place.UNCHANGED),
        ("7 fstat(9</p/src/b.py>, {st_mode=S_IFREG|0644, st_size=4, ...}) = 0", Place.UNCHANGED),
        ('7 newfstatat(9</p/src/b.py>, "", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0', Place.UNCHANGED),
        ('7 read(9</p/src/b.py>, ""..., 512) = 4', Place.UNCHANGED),
        (r'7 newfstatat(5</p/src>, "\303\251 x.py", {st_mode=S_IFREG|0644, ...}, 0) = 0', Place.UNCHANGED),
        ('7 newfstatat(5</p/src>, "a.py", {st_mode=S_IFREG|0644, ...}, AT_SYMLINK_NOFOLLOW) = 0', Place.CHANGED),
        ('7 newfstatat(4</p>, "new.py", 0x7ffd, 0) = -1 ENOENT (No such file or directory)', Place.OTHER),
        ("7 getdents64(5</p/src>, 0x7f, 32768) = 80", Place.PARENT),
        ('7 newfstatat(AT_FDCWD</>, "/p", {st_mode=S_IFDIR|0755, ...}, AT_SYMLINK_NOFOLLOW) = 0', Place.PARENT),
        ('7 openat(AT_FDCWD</>, "/p/.git/HEAD", O_RDONLY|O_CLOEXEC) = 9</p/.git/HEAD>', Place.GIT),
        ("7 fdatasync(6</h/timeline.db-wal>) = 0", Place.STORE),
        ('7 readlink("/etc/localtime", "", 4095) = 20', Place.ELSEWHERE),
    ],
)
def test_a_traced_call_counts_where_its_path_lies(line, found):
    counted = by_place(touches([line]), SCENE)

    assert {place: sum(calls.values()) for place, calls in counted.items() if calls} == {found: 1}


@pytest.mark.parametrize(
    "line",
    [
        "7 poll([{fd=14<socket:[69025532]>, events=POLLIN}], 1, 30000) = 1",
        '7 write(3<socket:[1]>, "9</p/src/b.py>"..., 20) = 20',
        "7 <... newfstatat resumed>{st_mode=S_IFREG|0644, ...}, 0) = 0",
        "7 --- SIGINT {si_signo=SIGINT, si_code=SI_USER} ---",
        "7 +++ exited with 0 +++",
    ],
)
def test_a_line_without_a_path_counts_nowhere(line):
    assert list(touches([line])) == []


def test_a_call_with_two_paths_counts_for_both():
    line = '7 renameat2(5</p/src>, "a.py", 4</p>, "b.py", RENAME_EXCHANGE) = 0'

    found = [Touch(call="renameat2", path="/p/src/a.py"), Touch(call="renameat2", path="/p/b.py")]
    assert list(touches([line])) == found
