"""The contract of the everyday commands against the real daemon: keep, forget, look back, measure, configure."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from tests.cli.contract import CHECKPOINT, IDENT, TIME, paths, sealed


def test_pin_unpin_and_name_answer_with_the_checkpoint(machine, project):
    first = sealed(machine)

    pinned = machine.json("pin", first["id"])
    assert pinned.keys() >= CHECKPOINT
    assert (pinned["pinned"], pinned["expires_at"]) == (True, None)
    assert TIME.fullmatch(machine.json("unpin", str(first["number"]))["expires_at"])
    assert machine.json("name", "last", "it works")["name"] == "it works"
    assert machine.json("show", "it works")["id"] == first["id"]
    sealed(machine)
    assert machine.failure("name", "last", "it works", code=2)["kind"] == "usage"
    assert machine.json("name", "it works", "")["name"] is None


def test_forget_and_unforget(machine, project):
    first, kept, _ = sealed(machine), sealed(machine, "mine"), sealed(machine)
    machine.json("pin", "mine")

    assert machine.failure("forget", first["id"], code=8)["kind"] == "refused"
    plan = machine.json("forget", first["id"], "mine", "--dry-run")
    answer = machine.json("forget", first["id"], "mine", "--yes", code=3)

    assert [item["forgotten_at"] is None for item in answer["forgotten"]] == [False]
    planned = [{**item, "forgotten_at": None} for item in answer["forgotten"]]
    assert plan == {**answer, "dry_run": True, "forgotten": planned}
    assert [item["id"] for item in answer["forgotten"]] == [first["id"]]
    assert [(item["id"], item["reason"]) for item in answer["kept"]] == [(kept["id"], "pinned")]
    assert answer["freed_bytes"] == 0
    assert machine.failure("show", first["id"], code=5)["kind"] == "not_found"
    (trashed,) = [item for item in machine.json("log", "--all")["items"] if item["forgotten_at"]]
    assert (trashed["id"], bool(TIME.fullmatch(trashed["forgotten_at"]))) == (first["id"], True)
    assert "in trash" in machine.run("log", "--all").text
    assert machine.json("unforget", first["id"])["items"][0]["id"] == first["id"]
    assert machine.failure("unforget", first["id"], code=5)["kind"] == "not_found"


def test_history_of_a_path_of_what_vanished_and_of_a_text(machine, project):
    (project / "src" / "a.py").write_text("one\nthe line\n")
    with_line = sealed(machine)
    (project / "src" / "a.py").write_text("one\n")
    without = sealed(machine)
    (project / "run.sh").unlink()
    sealed(machine)

    items = machine.json("history", "src/a.py")["items"]
    assert [item["status"] for item in items] == ["M", "M", "A"]
    assert {"seq", "at", "checkpoint", "state", "writer", "certainty"} <= items[0].keys()
    assert [item["checkpoint"]["id"] for item in items[:2]] == [without["id"], with_line["id"]]
    assert IDENT.fullmatch(items[2]["checkpoint"]["id"])
    page = machine.json("history", "src/a.py", "--limit", "2")
    assert (page["items"], page["next"]) == (items[:2], str(items[1]["seq"]))

    (gone,) = machine.json("history", "--deleted")["items"]
    assert (gone["path"], gone["checkpoint"]["id"]) == ("run.sh", without["id"])
    assert machine.run("cat", gone["checkpoint"]["id"], gone["path"]).out == b"#!/bin/sh\n"
    assert machine.json("history", "--deleted", "--", "src")["items"] == []

    (found,) = machine.json("history", "--search", "the line", "--", "src")["items"]
    assert (found["path"], found["versions"]) == ("src/a.py", 1)
    assert [found[key]["checkpoint"]["id"] for key in ("first", "last", "vanished")] == [
        with_line["id"],
        with_line["id"],
        without["id"],
    ]
    assert machine.failure("history", "never", code=5)["kind"] == "not_found"
    assert machine.failure("history", "../x", code=2)["kind"] == "usage"


def test_du_tells_of_every_part_and_worktree(machine, project):
    answer = machine.json("du")

    assert answer["total_bytes"] == sum(part["size_bytes"] for part in answer["parts"]) > 0
    (worktree,) = answer["worktrees"]
    assert worktree["root"] == str(project)
    assert worktree["logical_bytes"] == worktree["history_bytes"] == len("one\n#!/bin/sh\n")
    assert paths(worktree["largest"]) == ["run.sh", "src/a.py"]
    assert answer["freeable_bytes"] == 0
    assert str(machine.home) in machine.run("du").text


def test_prune_frees_the_bytes_of_what_went(machine, project):
    big = project / "big.bin"
    big.write_bytes(os.urandom(6 << 20))
    sealed(machine)
    big.unlink()
    kept = sealed(machine)
    machine.json("unwatch", "--delete-history", "--yes")
    machine.json("watch")
    assert kept["id"]
    machine.json("checkpoint")

    plan = machine.json("prune", "--dry-run")
    answer = machine.json("prune", "--yes")

    assert (plan["ok"], plan["dry_run"], answer["dry_run"]) == (True, True, False)
    assert answer.keys() == plan.keys()
    assert answer["freed_bytes"] >= 0
    assert machine.json("check", "--read-data")["problems"] == []
    assert machine.run("cat", "last", "src/a.py").out == b"one\n"
    assert machine.failure("prune", code=8)["kind"] == "refused"


def test_check_finds_a_store_sound_and_then_damaged(machine, project):
    sealed(machine)
    sound = machine.json("check", "--sample", "100%")
    assert (sound["problems"], sound["sampled"]) == ([], None)
    assert sound["checked"]["contents"] == sound["checked"]["read"] > 0
    for pack in (machine.home / "blobs").glob("*.pack"):
        pack.unlink()

    damaged = machine.json("check", code=7)

    assert {problem["kind"] for problem in damaged["problems"]} == {"file_missing"}
    assert damaged["error"]["kind"] == "store_damaged"
    assert damaged["problems"][0]["affected"][0]["checkpoints"]


def test_check_looks_at_what_no_daemon_starts_on(machine, project):
    sealed(machine)
    machine.json("stop")
    timeline = machine.home / "timeline.db"
    with closing(sqlite3.connect(timeline)) as db:
        (page,) = db.execute("select rootpage from sqlite_master where name = 'worktree'").fetchone()
        (size,) = db.execute("pragma page_size").fetchone()
    with timeline.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))

    answer = machine.json("check", code=7)

    assert machine.failure("status", code=7)["kind"] == "store_damaged"
    assert {"sqlite", "unreadable"} & {problem["kind"] for problem in answer["problems"]}
    assert "it was checked without one" in machine.run("check").complaint


def test_a_setting_counts_from_the_next_daemon_on(machine, project):
    before = machine.json("config", "set", "retention.ttl_days", "60d")
    assert (before["previous"], before["value"], before["restart_needed"]) == (30, 60, True)
    with_thirty = sealed(machine)
    machine.json("stop")

    with_sixty = sealed(machine)

    assert with_sixty["expires_at"] > with_thirty["expires_at"]
    assert machine.json("config", "get", "retention.ttl_days")["value"] == 60


def problems(machine, code=0):
    return {problem["kind"]: problem["severity"] for problem in machine.json("doctor", code=code)["problems"]}


def test_a_project_s_setting_counts_for_it_alone(machine, project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    machine.json("-C", str(other), "watch")
    assert machine.json("config", "set", "retention.ttl_days", "60d", "--project")["root"] == str(project)
    machine.json("stop")

    own, others = sealed(machine), machine.json("-C", str(other), "checkpoint")

    assert own["expires_at"] > others["expires_at"]
    assert machine.json("config", "get", "retention.ttl_days")["value"] == 30
    assert "config_waits" not in problems(machine)
    machine.json("config", "unset", "retention.ttl_days", "--project")
    assert problems(machine)["config_waits"] == "note"


def test_a_file_that_went_wrong_leaves_the_settings_of_before(machine, project):
    machine.json("config", "set", "retention.ttl_days", "60d")
    machine.json("stop")
    before = sealed(machine)
    config = machine.home / "config.toml"
    config.write_text("[retention]\nttl_days = 5_000_000\n")
    told = machine.json("status")["daemon"]["problems"]
    machine.json("stop")

    after = sealed(machine)

    assert after["expires_at"] > before["expires_at"]
    (still,) = machine.json("status")["daemon"]["problems"]
    assert "goes on with the settings that it started with" in told[0]
    for text in (*told, still):
        assert f"{config}: retention.ttl_days = 5000000 is not a whole number of days from 1 to 36500" in text
    assert problems(machine, code=1)["config"] == "error"
    config.write_text("[retention]\nttl_days = 90\n")
    assert "is right again" in machine.json("status")["daemon"]["problems"][0]
    machine.json("stop")
    assert machine.json("status")["daemon"]["problems"] == []


def test_text_answers_have_no_control_characters(machine, project):
    (project / "a\x1b[31m\u202eb").write_text("one")
    machine.json("checkpoint", "-m", "caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    (project / "a\x1b[31m\u202eb").unlink()
    machine.json("checkpoint")

    for line in ("history src/a.py", "history --deleted", "history --search one", "du", "check", "pin last"):
        ended = machine.run(*line.split())
        assert ended.code == 0, line
        assert ended.text, line
        assert all(char.isprintable() or char in "\n\t" for char in ended.text + ended.complaint), line
