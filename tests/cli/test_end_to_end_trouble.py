"""A store that is taken from under a daemon that runs: what was acknowledged stays, and it goes on when it can."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from openoxide.daemon.reserve import RESERVE_BYTES, ROOM_BYTES, Reserve
from openoxide.paths import Home
from tests.cli.contract import paths, sealed
from tests.cli.harness import Machine
from tests.daemon.trouble import fill, small_disk, with_own_mounts
from tests.kit import diff_trees, tree_of, wait_until

DEADLINE_S = 60


def names(machine: Machine) -> list[str]:
    """Of what was sealed under one, newest first."""
    return [item["name"] for item in machine.json("log", "--named")["items"]]


def kill(machine: Machine) -> None:
    """As a crash, or the power, ends it."""
    pid = machine.json("status")["daemon"]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or _is_zombie(pid), DEADLINE_S)


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


# Files of SQLite that are deleted


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
@pytest.mark.parametrize("gone", [["timeline.db-wal"], ["timeline.db-shm"], ["timeline.db-wal", "timeline.db-shm"]])
def test_nothing_that_is_acknowledged_lives_in_a_wal_that_was_deleted(machine, project, gone):
    sealed(machine, "before")
    for name in gone:
        (machine.home / name).unlink()

    (project / "src" / "a.py").write_text("two\n")
    sealed(machine, "after")
    kill(machine)

    assert names(machine) == ["after", "before"]
    assert machine.run("cat", "after", "src/a.py").out == b"two\n"
    assert machine.json("check", "--read-data")["problems"] == []


def test_a_wal_that_was_deleted_is_folded_though_another_program_reads(machine, project):
    """Closing the last of our connections leaves that to whoever has the database open."""
    sealed(machine, "before")
    with subprocess.Popen(
        [sys.executable, "-c", READER, machine.home / "timeline.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"(2,)\n"
        (machine.home / "timeline.db-wal").unlink()
        machine.json("stop")
        reader.kill()  # a browser that is closed would do it for us
    for name in ("timeline.db-wal", "timeline.db-shm"):  # what the other one has left
        (machine.home / name).unlink(missing_ok=True)

    assert names(machine) == ["before"]
    assert machine.json("check", "--read-data")["problems"] == []


READER = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("select count(*) from checkpoint").fetchone(), flush=True)
sys.stdin.readline()
"""

# A database that is replaced


def test_a_database_that_is_replaced_is_the_one_that_counts(machine, project):
    sealed(machine, "old")
    machine.json("stop")
    copy = machine.home.with_name("copy.db")
    shutil.copy(machine.home / "timeline.db", copy)
    sealed(machine, "new")

    copy.rename(machine.home / "timeline.db")

    assert names(machine) == ["old"]
    (project / "src" / "a.py").write_text("three\n")
    sealed(machine, "again")
    assert names(machine) == ["again", "old"]
    assert machine.run("cat", "again", "src/a.py").out == b"three\n"
    assert machine.json("check", "--read-data")["problems"] == []


# A full disk


@contextmanager
def on_a_small_disk(machine: Machine) -> Iterator[None]:
    """The home is on a disk of its own; the daemon ends before that does."""
    small_disk(machine.home, "6m")
    machine.home.chmod(0o700)
    try:
        yield
    finally:
        machine.run("stop")


@with_own_mounts
def test_a_full_disk_is_told_read_from_and_recovered_from(machine):
    root = machine.project
    with on_a_small_disk(machine):
        machine.json("config", "set", "capture.quiet_ms", "50")
        (root / "plain").write_text("first")
        (root / "data").write_bytes(random.Random(1).randbytes(1 << 20))
        machine.json("watch")
        then = tree_of(root)
        ballast = fill(machine.home)
        (root / "plain").write_text("second")
        (root / "data").write_bytes(random.Random(2).randbytes(1 << 20))
        now = tree_of(root)

        for line in (["checkpoint"], ["rewind", "1", "--exact", "--yes"]):
            assert machine.failure(*line, code=1)["kind"] == "store_full"
        assert diff_trees(now, tree_of(root)) == []

        assert machine.run("cat", "1", "plain").out == b"first"
        assert [item["number"] for item in machine.json("log")["items"]] == [1]
        history = machine.json("history", "plain")
        assert ([item["status"] for item in history["items"]], "no space left" in history["note"]) == (["A"], True)
        assert machine.run("restore", "1", "--to", str(root.with_name("copy"))).code == 0
        status = machine.json("status")
        (worktree,) = status["worktrees"]
        assert (worktree["state"], worktree["complete"], status["daemon"]["store_writable"]) == (
            "degraded",
            False,
            False,
        )
        assert any("no space left" in problem for problem in status["daemon"]["problems"])
        assert {"disk_space", "degraded"} <= {p["kind"] for p in machine.json("doctor", code=1)["problems"]}

        ballast.unlink()  # and nobody types anything, nor does any file change
        wait_until(lambda: machine.json("log", "--limit", "1")["items"][0]["trigger"] == "quiet", DEADLINE_S)

        assert machine.json("status")["worktrees"][0]["state"] == "watching"
        assert machine.run("cat", "last", "plain").out == b"second"
        assert machine.json("check", "--read-data")["problems"] == []
        assert paths(machine.json("rewind", "1", "--exact", "--yes")["restored"]) == ["data", "plain"]
        assert diff_trees(then, tree_of(root, {b".openoxide-staging"})) == []


@with_own_mounts
def test_on_a_disk_that_leaves_a_daemon_no_room_to_start_the_history_is_read(machine):
    with on_a_small_disk(machine):
        (machine.project / "plain").write_text("first")
        machine.json("watch")
        machine.json("stop")
        fill(machine.home)

        assert [item["number"] for item in machine.json("log")["items"]] == [1]
        assert machine.run("cat", "1", "plain").out == b"first"
        assert machine.run("restore", "1", "--to", str(machine.project.with_name("copy"))).code == 0
        assert machine.json("check", "--read-data")["problems"] == []
        assert machine.json("status")["daemon"]["store_writable"] is False
        assert machine.failure("checkpoint", code=1)["kind"] == "store_full"


@with_own_mounts
@pytest.mark.parametrize("running", [True, False])
def test_with_home_and_project_on_one_full_disk_a_rewind_is_whole(machine, running):
    """The daemon may have ended before: to start one takes room too."""
    disk = small_disk(machine.home.with_name("disk"), f"{(ROOM_BYTES >> 20) + 32}m")
    machine = replace(machine, home=disk / "home", project=disk / "project")
    for folder in (machine.home, machine.project):
        folder.mkdir(mode=0o700)
    root = machine.project
    (root / "plain").write_text("first")
    (root / "data").write_bytes(random.Random(1).randbytes(5 << 20))
    try:
        machine.json("watch")
        assert Reserve(Home(machine.home).reserve).make()
        then = tree_of(root)
        (root / "data").write_bytes(random.Random(2).randbytes(5 << 20))
        (root / "plain").unlink()
        if not running:
            machine.json("stop")
            (root / "data").write_bytes(random.Random(3).randbytes(5 << 20))
        fill(disk)
        assert os.statvfs(disk).f_bavail == 0

        answer = machine.json("rewind", "1", "--exact", "--yes")

        assert paths(answer["restored"]) == ["data", "plain"]
        wait_until(lambda: not (root / ".openoxide-staging").exists(), DEADLINE_S)
        assert diff_trees(then, tree_of(root)) == []
        assert machine.json("status")["daemon"]["reserve_bytes"] == 0
        assert "reserve_spent" in {p["kind"] for p in machine.json("doctor", code=1)["problems"]}
        assert machine.json("check", "--read-data")["problems"] == []
        du = {kind["name"]: kind["size_bytes"] for kind in machine.json("du")["kinds"]}
        (disk / "ballast").unlink()
        assert Reserve(Home(machine.home).reserve).make()
        again = {kind["name"]: kind["size_bytes"] for kind in machine.json("du")["kinds"]}
        assert (du["reserve"], again["reserve"]) == (0, RESERVE_BYTES)
    finally:
        machine.run("stop")
