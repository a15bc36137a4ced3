"""A store that others lock or shut, and a clock that jumps: recording says so, goes on when it can, and loses nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import pytest

from openoxide import db
from openoxide.settings import CaptureSettings
from tests.daemon.trouble import fill, paths, refused, small_disk, unprivileged, with_own_mounts, write
from tests.kit import FakeClock, wait_until
from tests.kit.box import NO_QUIET, Box

YEAR_MS = 365 * 86_400_000
DEADLINE_S = 30
AT_ONCE = CaptureSettings(quiet_ms=1, max_interval_ms=1)
BIG = bytes(5 << 20)


def damage(box: Box) -> list[str]:
    problems = box.call("check", read_data=True)["problems"]
    return [problem["message"] for problem in problems if problem["severity"] == "error"]


# A database that a foreign program holds

HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin exclusive")
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(box: Box) -> Iterator[None]:
    """Another program has the database for itself, for longer than anybody waits."""
    command = [sys.executable, "-c", HOLDER, str(box.home.timeline_db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate(b"\n")


@pytest.fixture
def impatient(monkeypatch):
    """Nobody waits for five seconds, as the product does, for what is not to come."""
    monkeypatch.setattr(db, "BUSY_TIMEOUT_S", 0.05)


def test_a_database_that_another_program_holds_is_told_and_read_and_gone_on_with(impatient, tmp_path):
    with Box(tmp_path) as box:
        write(box.root / "file", "first")
        box.watch()
        write(box.root / "file", "second")
        with held(box):
            for name, request in {
                "checkpoint": {},
                "rewind": {"checkpoint": "1"},
                "pin": {"checkpoint": "1"},
                "turn_begin": {"agent": "claude", "session": "S", "prompt": "P"},
            }.items():
                with refused(box, "failed", f"{box.home.timeline_db} is held by another program") as caught:
                    box.call(name, **request)
                assert "close what has it open" in caught.value.hint
            assert box.call("cat", checkpoint="1", file="file") == b"first"
            status = box.call("status")
            assert (status["worktrees"][0]["state"], status["daemon"]["store_trouble"]) == ("degraded", "failed")
            hints = {problem["kind"]: problem["hint"] for problem in box.call("doctor")["problems"]}
            assert "close what has it open" in hints["degraded"]

        assert box.checkpoint()["changed"]["modified"] == 1
        status = box.call("status")
        assert (status["worktrees"][0]["state"], status["daemon"]["store_trouble"]) == ("watching", "")
        assert paths(box.rewind("1")["restored"]) == [b"file"]


def test_what_could_not_be_recorded_while_it_was_held_is_recorded_by_itself(impatient, tmp_path):
    with Box(tmp_path, capture=AT_ONCE) as box:
        write(box.root / "file", "first")
        box.watch()
        with held(box):
            write(box.root / "file", "second")
            wait_until(lambda: box.call("status")["worktrees"][0]["state"] == "degraded", DEADLINE_S)
        box.service.beat()  # nothing else changes
        wait_until(lambda: box.call("log")["items"][0]["trigger"] == "quiet", DEADLINE_S)

        assert box.call("cat", checkpoint="last", file="file") == b"second"
        wait_until(lambda: box.call("status")["daemon"]["problems"] == [], DEADLINE_S)


# Rights that are lost while a daemon runs


@unprivileged
def test_a_store_that_lost_its_rights_is_told_and_read_and_gone_on_with(tmp_path):
    with Box(tmp_path) as box:
        write(box.root / "file", "first")
        box.watch()
        write(box.root / "file", "second")
        write(box.root / "big", BIG)
        folders = [box.home.blobs / "big", box.home.blobs, box.home.folder]
        for folder in folders:
            folder.chmod(0o500)

        for name, request in {"checkpoint": {}, "rewind": {"checkpoint": "1", "exact": True}}.items():
            with refused(box, "store_read_only", "content store") as caught:
                box.call(name, **request)
            assert caught.value.hint
        assert box.call("cat", checkpoint="1", file="file") == b"first"
        status = box.call("status")
        assert (status["worktrees"][0]["state"], status["daemon"]["store_writable"]) == ("degraded", False)
        assert status["daemon"]["store_trouble"] == "store_read_only"

        for folder in reversed(folders):
            folder.chmod(0o700)
        assert box.checkpoint()["changed"] == {"added": 1, "modified": 1, "removed": 0}
        assert box.call("cat", checkpoint="last", file="big") == BIG
        assert box.call("status")["worktrees"][0]["state"] == "watching"
        assert damage(box) == []


@unprivileged
def test_a_store_that_may_not_be_read_any_more_is_told_and_not_taken_for_damaged(tmp_path):
    with Box(tmp_path) as box:
        write(box.root / "big", BIG)
        box.watch()
        box.stop()
        box.start()
        (box.root / "big").unlink()
        box.checkpoint()
        folder = box.home.blobs / "big"
        folder.chmod(0)
        for name, request in {
            "rewind": {"checkpoint": "1"},
            "cat": {"checkpoint": "1", "file": "big"},
            "check": {},
        }.items():
            with refused(box, "failed", "the content store may not be read: Permission denied") as caught:
                box.call(name, read_data=True, **request)
            assert "nothing is lost" in caught.value.hint
        kinds = {problem["kind"] for problem in box.call("doctor")["problems"]}
        assert ("store_shut" in kinds, "store_damaged" in kinds) == (True, False)
        folder.chmod(0o700)

        assert paths(box.rewind("1")["restored"]) == [b"big"]


# A disk that was full


@with_own_mounts
def test_what_found_no_space_is_recorded_by_itself_when_there_is_some(tmp_path):
    disk = small_disk(tmp_path / "home", "4m")
    with Box(tmp_path, capture=AT_ONCE) as box:
        write(box.root / "file", "first")
        box.watch()
        ballast = fill(disk)
        content = random.Random(1).randbytes(1 << 20)
        write(box.root / "file", content)
        wait_until(lambda: box.call("status")["worktrees"][0]["state"] == "degraded", DEADLINE_S)
        ballast.unlink()
        box.service.beat()
        wait_until(lambda: box.call("log")["items"][0]["trigger"] == "quiet", DEADLINE_S)

        assert box.call("cat", checkpoint="last", file="file") == content
        assert box.call("status")["worktrees"][0]["state"] == "watching"


@with_own_mounts
def test_a_full_disk_is_made_room_on_by_hand(tmp_path):
    disk = small_disk(tmp_path / "home", "40m")
    with Box(tmp_path) as box:
        box.watch()
        for number in range(6):
            write(box.root / "file", random.Random(number).randbytes(1 << 20))
            box.checkpoint()
        write(box.root / "file", "last")
        box.checkpoint()
        box.call("forget", checkpoints=[str(number) for number in range(2, 7)])
        ballast = fill(disk)

        box.call("expire", trash=True)
        box.call("prune")

        # a pack of which something lives is written anew once there is room for that
        assert [item["number"] for item in box.call("log", all=True)["items"]] == [8, 7, 1]
        assert damage(box) == []
        ballast.unlink()
        box.call("prune")
        assert sum(pack.stat().st_size for pack in box.home.blobs.glob("*.pack")) < 3 << 20
        assert damage(box) == []


# A clock that jumps


@pytest.mark.parametrize("jumps", [(-YEAR_MS, 11 * YEAR_MS), (10 * YEAR_MS, -11 * YEAR_MS), (-50 * YEAR_MS, YEAR_MS)])
@pytest.mark.parametrize("restarted", [False, True])
def test_recording_goes_on_whatever_the_clock_says(tmp_path, jumps, restarted):
    clock = FakeClock()
    with Box(tmp_path, clock=clock, capture=replace(NO_QUIET, full_pass_ms=60_000)) as box:
        write(box.root / "file", "0")
        box.watch()
        for number, jump in enumerate([*jumps, -sum(jumps)], 1):
            clock.wall += jump
            if restarted:
                box.stop()
                clock.boot = f"boot-{number + 1}"
                box.start()
            box.service.beat()
            write(box.root / "file", str(number))
            sealed = box.checkpoint(f"state {number}")  # what a full pass finds first may have one of its own
            # as long as it was promised, from what the clock said when it was sealed
            lives = datetime.fromisoformat(sealed["expires_at"]) - datetime.fromisoformat(sealed["created_at"])
            assert lives.days == 30
            assert box.call("status")["daemon"]["uptime_ms"] >= 0
            box.call("du")

        log = box.call("log", all=True)["items"]
        assert [item["name"] for item in log if item["name"]] == ["state 3", "state 2", "state 1"]
        assert [item["number"] for item in log] == list(range(len(log), 0, -1))
        assert {item["forgotten_at"] for item in log} == {None}
        for name, content in {"1": "0", "state 1": "1", "state 2": "2"}.items():
            box.rewind(name, exact=True)
            assert (box.root / "file").read_text() == content
            box.call("undo")
            assert (box.root / "file").read_text() == "3"
        assert damage(box) == []


def test_a_clock_that_came_back_from_the_future_is_told(tmp_path):
    clock = FakeClock()
    with Box(tmp_path, clock=clock) as box:
        box.watch()
        clock.wall += 10 * YEAR_MS
        box.checkpoint()
        clock.wall -= 10 * YEAR_MS

        kinds = {problem["kind"] for problem in box.call("doctor")["problems"]}
        assert "clock" in kinds


def test_a_pause_ends_though_the_clock_was_set_forward_and_not_before_it_was(tmp_path):
    clock = FakeClock()
    with Box(tmp_path, clock=clock) as box:
        box.watch()
        box.call("pause", for_ms=3_600_000)
        clock.wall -= YEAR_MS
        box.service.beat()
        assert box.call("status")["worktrees"][0]["state"] == "paused"
        clock.wall += 11 * YEAR_MS
        wait_until(lambda: box.call("status")["worktrees"][0]["state"] == "watching", DEADLINE_S)
