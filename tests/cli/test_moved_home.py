"""A home that is moved, or replaced, while its daemon runs: nothing is written into another one, nor told of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cli.harness import Machine

BIG = 5_000_000


@pytest.fixture
def moved(machine: Machine, project) -> Iterator[Machine]:
    """The machine as it finds its home at another place; the daemon that was started at the first place still runs."""
    there = machine.home.with_name("moved")
    machine.home.rename(there)
    moved = replace(machine, home=there)
    yield moved
    assert moved.run("stop").code == 0


def test_a_checkpoint_goes_into_the_home_that_was_moved(machine, moved):
    pid = moved.json("status")["daemon"]["pid"]
    content = os.urandom(BIG)
    (moved.project / "big").write_bytes(content)
    small = os.urandom(100)
    (moved.project / "small").write_bytes(small)

    number = str(moved.json("checkpoint")["number"])

    assert not machine.home.exists(), "nobody made a home where there is none"
    assert moved.json("status")["daemon"]["pid"] == pid, "the daemon that was started there stays"
    moved.run("stop")
    assert moved.run("cat", number, "big").out == content
    assert moved.run("cat", number, "small").out == small


def test_a_checkpoint_does_not_go_into_the_home_that_came_in_its_place(machine, moved):
    machine.json("projects")  # a daemon of its own, for a home of its own
    content = os.urandom(BIG)
    (moved.project / "big").write_bytes(content)

    moved.json("checkpoint", "-m", "keep")
    (moved.project / "big").unlink()

    assert list((machine.home / "blobs" / "big").iterdir()) == []
    assert machine.json("projects")["items"] == [], "and the other home knows nothing"
    moved.run("stop")
    assert moved.json("rewind", "keep", "--yes")["restored"] == [{"path": "big"}]
    assert (moved.project / "big").read_bytes() == content


def test_a_history_is_not_read_from_the_home_that_came_in_its_place(machine, moved):
    other = moved.project.with_name("other")
    other.mkdir()
    machine.json("-C", str(other), "watch")

    assert [item["root"] for item in moved.json("projects")["items"]] == [str(moved.project)]
    assert [item["root"] for item in machine.json("projects")["items"]] == [str(other)]


def test_a_store_that_was_restored_over_a_running_daemon_is_the_one_that_counts(machine, project):
    machine.json("checkpoint", "-m", "kept")
    machine.run("stop")
    copy = machine.home.with_name("copy")
    shutil.copytree(machine.home, copy)
    machine.json("checkpoint", "-m", "later")

    # as `rsync --delete` does it: each file is made beside its place and renamed
    for name in ("timeline.db-wal", "timeline.db-shm"):
        (machine.home / name).unlink()
    (copy / "timeline.db").rename(machine.home / "timeline.db")

    assert [item["name"] for item in machine.json("log")["items"]] == ["kept", None]
    number = machine.json("checkpoint")["number"]
    machine.run("stop")
    assert machine.json("log")["items"][0]["number"] == number
