"""`repair` with an installed command line and a real daemon: beside one that runs, and where none starts."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest


def lose_packs(machine):
    for pack in (machine.home / "blobs").glob("*.pack"):
        pack.unlink()


def zero_page(machine, table):
    timeline = machine.home / "timeline.db"
    with closing(sqlite3.connect(timeline)) as db:
        (page,) = db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()
        (size,) = db.execute("pragma page_size").fetchone()
    with timeline.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))


@pytest.fixture
def two(machine, project):
    """A checkpoint of a content that is in the tree no more, and one of what is."""
    machine.json("checkpoint", "-m", "old")
    (project / "src" / "a.py").write_text("two\n")
    machine.json("checkpoint", "-m", "new")
    return project


def test_a_store_beside_a_daemon_is_mended_and_the_daemon_goes_on(machine, two):
    assert not machine.json("repair", "--dry-run")["needed"]
    lose_packs(machine)
    before = machine.json("status")["daemon"]["pid"]

    plan = machine.json("repair", "--dry-run", code=3)
    refused = machine.failure("repair", code=8)
    assert machine.json("status")["daemon"]["pid"] == before
    done = machine.json("repair", "--yes", code=3)

    assert (plan["needed"], plan["kept"], plan["mended_count"]) == (True, None, done["mended_count"])
    assert refused["kind"] == "refused"
    assert [one["source"] for one in done["mended"]] == ["tree", "tree"]
    (lost,) = done["lost"]
    assert [entry["path"] for about in lost["affected"] for entry in about["paths"]] == ["src/a.py"]
    assert (machine.home / done["kept"].rpartition("/")[2] / "timeline.db").exists()
    assert machine.json("status")["daemon"]["pid"] != before
    # what is lost is told from then on, and no more than that
    told = machine.json("check", "--read-data", code=1)["problems"]
    assert {problem["kind"] for problem in told} == {"lost"}
    assert machine.json("repair", code=3)["kept"] is None

    damaged = machine.failure("rewind", "old", "--yes", code=7)
    assert damaged["paths"] == ["src/a.py"]
    (two / "run.sh").write_text("changed\n")
    answer = machine.json("rewind", "old", "--yes", "--partial", code=3)
    assert [entry["path"] for entry in answer["restored"]] == ["run.sh"]
    assert (two / "run.sh").read_text() == "#!/bin/sh\n"
    assert machine.failure("restore", "old", "--to", str(machine.home.parent / "then"), code=7)["paths"] == ["src/a.py"]
    copied = machine.json("restore", "old", "--to", str(machine.home.parent / "there"), "--partial", code=3)
    assert [entry["reason"] for entry in copied["skipped"]] == ["damaged"]


def test_a_store_that_no_daemon_starts_on_is_made_again(machine, two):
    machine.json("stop")
    zero_page(machine, "meta")
    assert machine.failure("status", code=7)["kind"] == "store_damaged"

    done = machine.json("repair", "--yes")

    assert any("table meta" in text for text in done["structure"])
    assert machine.json("check", "--read-data")["problems"] == []
    machine.json("rewind", "old", "--yes")
    assert (two / "src" / "a.py").read_text() == "one\n"


def test_what_it_says_is_for_people_too(machine, two):
    lose_packs(machine)

    ended = machine.run("repair", "--yes")

    assert ended.code == 3
    assert "brought back  2 contents found in the watched trees" in ended.text
    assert "1 path (src/a.py), 2 checkpoints (#1, #2)" in ended.text
    assert "the state before is in " in ended.text
    # as it says, and check
    way = "the next look takes it up"
    assert way in ended.text
    assert way in machine.run("check").text
    (two / "src" / "a.py").write_text("one\n")
    machine.json("checkpoint")
    assert machine.json("check", "--read-data")["problems"] == []


def test_a_repair_finds_what_was_put_back_before_as_its_dry_run_says(machine, two):
    lose_packs(machine)
    planned = machine.run("repair", "--dry-run")
    assert planned.code == 3
    assert "put back at its path in the watched tree: the repair finds it there" in planned.text
    (two / "src" / "a.py").write_text("one\n")

    machine.json("repair", "--yes", code=3)  # that of the other checkpoint is the one that is nowhere now

    assert machine.run("rewind", "old", "--yes").code == 0


def test_a_home_without_a_store_has_none_to_repair(machine):
    machine.home.mkdir(mode=0o700)

    assert machine.failure("repair", "--yes", code=5)["kind"] == "not_found"


def test_what_a_repair_leaves_goes_with_an_uninstall(machine, two):
    lose_packs(machine)
    machine.json("repair", "--yes", code=3)

    machine.json("uninstall", "--yes")

    assert not machine.home.exists()
    machine.home.parent.mkdir(exist_ok=True)
