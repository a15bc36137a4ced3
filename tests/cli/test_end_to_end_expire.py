"""``expire`` against the real daemon. Time passes by what stands in the rows: nobody sets the clock of a machine for a test."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from tests.cli.contract import CHECKPOINT, TIME, sealed

DAY_MS = 86_400_000


def change(machine, *statements: str) -> None:
    """Change rows while no daemon runs."""
    machine.json("stop")
    with closing(sqlite3.connect(machine.home / "timeline.db")) as db, db:
        for statement in statements:
            db.execute(statement)


def age(machine, days: int) -> None:
    """Everything is so much older."""
    change(
        machine,
        f"update checkpoint set created_ms = created_ms - {days * DAY_MS}, expires_ms = expires_ms - {days * DAY_MS},"
        f" forgotten_ms = forgotten_ms - {days * DAY_MS}",
    )


def reasons(items) -> dict[int, str]:
    return {item["number"]: item["reason"] for item in items}


@pytest.fixture
def project(machine, project):
    """With the checkpoints 1 to 4; the third is pinned."""
    for number in (2, 3, 4):
        (project / "src" / "a.py").write_text(f"{number}\n")
        sealed(machine)
    machine.json("pin", "3")
    return project


def test_what_is_over_goes_to_trash_and_later_out_of_the_store(machine, project):
    age(machine, 31)

    assert machine.failure("expire", code=8)["kind"] == "refused"
    plan = machine.json("expire", "--dry-run")
    answer = machine.json("expire", "--yes")

    assert plan == {**answer, "dry_run": True}
    assert reasons(answer["forgotten"]) == {1: "expired", 2: "expired"}
    assert answer["forgotten"][0].keys() >= CHECKPOINT | {"root", "reason"}
    assert reasons(answer["kept"]) == {3: "pinned", 4: "newest"}
    assert (answer["freed_bytes"], answer["released"]) == (0, [])
    assert machine.json("unforget", "2")["items"][0]["number"] == 2

    age(machine, 8)
    text = machine.run("expire", "--yes").text
    assert "0 checkpoints into trash, 1 checkpoint out of the store" in text
    assert [item["number"] for item in machine.json("log", "--all")["items"]] == [4, 3, 2]
    assert machine.json("check")["problems"] == []
    assert sealed(machine)["number"] == 5


def test_a_clock_that_was_set_pauses_it_until_somebody_says_that_it_is_right(machine, project):
    age(machine, 31)
    # as if the clock had been set forward by a year since the daemon looked last
    change(
        machine,
        f"update meta set value = value - {365 * DAY_MS} where key in ('clock.seen_wall_ms', 'clock.run_wall_ms')",
    )

    error = machine.failure("expire", "--yes", code=8)
    status = machine.json("status")["retention"]

    assert error["message"] == "nothing expires: the clock was set forward by 365 days"
    assert "expire --force" in error["hint"]
    assert (status["paused"], status["reason"]) == (True, "clock")
    assert "nothing expires: the clock was set forward by 365 days" in machine.run("status").text
    assert machine.json("expire", "--dry-run")["forgotten"] == []
    assert reasons(machine.json("expire", "--dry-run", "--force")["forgotten"]) == {1: "expired", 2: "expired"}
    assert machine.json("status")["retention"]["paused"]
    assert reasons(machine.json("expire", "--force", "--yes")["forgotten"]) == {1: "expired", 2: "expired"}
    assert not machine.json("status")["retention"]["paused"]


def test_settings_that_cannot_be_read_let_nothing_expire(machine, project):
    age(machine, 31)
    (machine.home / "config.toml").write_text("[retention")
    assert "config.toml" in machine.failure("expire", "--yes", "--force", code=8)["message"]
    assert len(machine.json("log")["items"]) == 4


def test_a_quota_that_nothing_fits_into_is_refused(machine, project):
    (project / "big").write_bytes(os.urandom(1_500_000))
    sealed(machine)
    machine.json("config", "set", "retention.quota_bytes", "1MB")
    age(machine, 2)
    assert "is 976.6 KiB, and the newest" in machine.failure("expire", "--yes", code=8)["message"]
    assert len(machine.json("log")["items"]) == 5


def test_status_tells_of_the_jobs(machine, project):
    jobs = {job["name"]: job for job in machine.json("status")["jobs"]}
    assert jobs["expire"]["failures"] == 0
    assert TIME.fullmatch(jobs["expire"]["next_run_at"])
    assert "expire, every 1h" in machine.run("-v", "status").text
