"""The contract against the real daemon: rewind, undo, redo, turns and tools."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.cli.contract import CHECKPOINT, REWIND, TOOL, TURN, paths, sealed
from tests.kit import diff_trees, tree_of


def test_rewind_brings_back_and_keeps_what_is_newer(machine, project):
    before = sealed(machine)
    then = tree_of(project, skip={b".openoxide-staging"})
    (project / "src" / "a.py").write_text("two\n")
    (project / "run.sh").unlink()
    shutil.rmtree(project / "empty")
    (project / "newer").write_text("mine")

    answer = machine.json("rewind", before["id"], "--yes")

    assert answer.keys() >= REWIND
    assert answer["checkpoint"]["id"] == before["id"]
    assert answer["pre_rewind_checkpoint"]["trigger"] == "rewind"
    assert set(paths(answer["restored"])) == {"src/a.py", "run.sh", "empty"}
    assert [(entry["path"], entry["reason"]) for entry in answer["kept"]] == [("newer", "newer")]
    assert (answer["removed"], answer["merged"], answer["conflicts"], answer["changed_since"]) == ([], [], [], [])
    assert answer["untouched"] >= 1
    assert diff_trees(then, tree_of(project, skip={b".openoxide-staging"})) == ["newer: new: file"]


def test_an_exact_rewind_makes_the_tree_equal(machine, project):
    before = sealed(machine)["id"]
    then = tree_of(project, skip={b".openoxide-staging"})
    (project / "src" / "a.py").write_text("two\n")
    (project / "newer").mkdir()
    (project / "newer" / "file").touch()

    answer = machine.json("rewind", before, "--exact", "--yes")

    assert set(paths(answer["removed"])) == {"newer", "newer/file"}
    assert diff_trees(then, tree_of(project, skip={b".openoxide-staging"})) == []


def test_a_dry_run_shows_the_plan_and_changes_nothing(machine, project):
    before = sealed(machine)["id"]
    (project / "src" / "a.py").write_text("two\n")
    now = tree_of(project, skip={b".openoxide-staging"})

    answer = machine.json("rewind", before, "--dry-run")

    assert answer.keys() >= REWIND
    assert (answer["operation"], paths(answer["restored"])) == (None, ["src/a.py"])
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []
    assert machine.json("operations")["items"] == []


def test_paths_narrow_a_rewind(machine, project):
    before = sealed(machine)["id"]
    (project / "src" / "a.py").write_text("two\n")
    (project / "run.sh").write_text("changed")

    answer = machine.json("rewind", before, "--yes", "--", "src")

    assert paths(answer["restored"]) == ["src/a.py"]
    assert (project / "run.sh").read_text() == "changed"


def commands(text: str) -> list[str]:
    """The command lines that a text proposes."""
    return re.findall("`oxide-ctl ([^`]+)`", text)


def test_a_named_path_that_the_checkpoint_lacks_comes_with_the_way_to_it(machine, project):
    first = sealed(machine)["number"]
    lost, brief = project / "src" / "it's lost", project / "brief"
    lost.write_text("precious")
    held = sealed(machine)["number"]
    lost.unlink()
    brief.touch()
    machine.json("diff", "last")
    brief.unlink()
    sealed(machine)
    named = ("--yes", "--", "it's lost", "../brief", "a.py")

    ended = machine.run("rewind", str(first), *named, cwd=project / "src")

    assert (ended.code, "rewound" in ended.text) == (0, False), ended
    assert f"nothing changed: rewind to #{first}" in ended.text
    assert f"src/it's lost is not in checkpoint #{first}; #{held} has it: " in ended.text
    assert f"brief is not in checkpoint #{first}, nor in another" in ended.text
    assert "a.py" not in ended.text
    (proposed,) = [line for line in commands(ended.text) if line.startswith("rewind")]
    words = shlex.split(proposed)
    assert machine.run(*words[:2], "--yes", *words[2:], cwd=project / "src").code == 0
    assert lost.read_text() == "precious"


def test_what_a_rewind_proposes_works_whoever_changed_the_path(machine, project):
    first = sealed(machine)["number"]
    lost = project / "lost"
    lost.touch()
    turn = ("--agent", "codex", "--session", "s", "--prompt", "p")
    machine.json("turn", "begin", *turn)
    machine.json("turn", "end", *turn)
    lost.unlink()

    (note,) = machine.json("rewind", str(first), "--dry-run", "--", "lost")["notes"]
    listed = machine.run("history", "--deleted")

    assert commands(note) == commands(listed.complaint)
    machine.run(*shlex.split(commands(note)[0].replace("rewind", "rewind --yes")))
    assert lost.exists()


def test_undo_and_redo_walk_the_operations(machine, project):
    before = sealed(machine)["id"]
    then = tree_of(project, skip={b".openoxide-staging"})
    (project / "src" / "a.py").write_text("two\n")
    (project / "newer").write_text("mine")
    now = tree_of(project, skip={b".openoxide-staging"})
    rewound = machine.json("rewind", before, "--exact", "--yes")

    undone = machine.json("undo", "--yes")
    assert undone.keys() >= REWIND | {"undoable_until"}
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []
    machine.json("redo", "--yes")
    assert diff_trees(then, tree_of(project, skip={b".openoxide-staging"})) == []
    machine.json("undo", "1", "--yes")
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []

    items = machine.json("operations")["items"]
    assert rewound["operation"] in [item["operation"] for item in items]
    assert all(item.keys() >= {"operation", "kind", "undoable_until"} for item in items)
    assert len(machine.json("operations", "--limit", "1")["items"]) == 1


def test_nothing_to_walk_or_settle_is_not_found(machine, project):
    for line in ("undo --yes", "redo --yes", "undo 5 --yes", "rewind --continue", "rewind --abort"):
        assert machine.failure(*line.split(), code=5)["kind"] == "not_found", line


def test_what_needs_a_yes_is_refused_without(machine, project):
    (project / "src" / "a.py").write_text("two\n")
    machine.json("rewind", "1", "--yes")
    (project / "src" / "a.py").write_text("three\n")
    sealed(machine)
    now, known = tree_of(project, skip={b".openoxide-staging"}), machine.json("log")

    for line, code in (
        ("rewind 1", 8),
        ("undo", 8),
        ("unwatch --delete-history", 8),
        # what no yes would mend is told first
        ("rewind nosuch", 5),
        ("rewind 1 -- nosuch", 5),
        ("rewind 1 -- ..", 2),
        ("redo", 5),
        ("undo 2", 5),
        ("unwatch / --delete-history", 5),
        ("unwatch src --delete-history", 2),
    ):
        machine.failure(*line.split(), code=code)
        assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == [], line
        assert machine.json("log") == known, line
        assert [item["watching"] for item in machine.json("projects")["items"]] == [True], line


def agent_writes(machine, project):
    """A turn that changes one file and makes another."""
    machine.json("turn", "begin", *TURN)
    (project / "src" / "a.py").write_text("agent\n")
    (project / "made").write_text("agent\n")
    machine.json("turn", "end", *TURN)


def test_a_turn_is_declared_and_taken_back(machine, project):
    begun = machine.json("turn", "begin", *TURN)
    assert (begun["checkpoint"]["trigger"], begun["checkpoint"]["prompt"]) == ("prompt", "p1")
    (project / "made").write_text("agent\n")
    ended = machine.json("turn", "end", "--agent", "codex", "--session", "s1")
    assert ended["turn"] == begun["turn"]
    (project / "mine").write_text("mine")

    answer = machine.json("rewind", "turn:-1", "--yes")

    assert answer["scope"] == "session"
    assert paths(answer["removed"]) == ["made"]
    assert (project / "mine").read_text() == "mine"


def test_a_tool_call_is_declared(machine, project):
    machine.json("turn", "begin", *TURN)
    begun = machine.json("tool", "begin", *TOOL)
    (project / "made").touch()
    ended = machine.json("tool", "end", *TOOL)

    assert begun["tool"] == ended["tool"]
    assert begun["checkpoint"].keys() >= CHECKPOINT
    (item,) = machine.json("diff", "turn:-1")["items"]
    assert (item["path"], item["certainty"]) == ("made", "likely")


def test_a_later_edit_is_a_conflict_and_the_rest_is_done(machine, project):
    agent_writes(machine, project)
    (project / "src" / "a.py").write_text("mine\n")

    answer = machine.json("rewind", "turn:-1", "--yes", code=3)

    assert [(entry["path"], bool(entry["reason"])) for entry in answer["conflicts"]] == [("src/a.py", True)]
    assert paths(answer["removed"]) == ["made"]
    assert (project / "src" / "a.py").read_text() == "mine\n"
    text = machine.run("rewind", "turn:-1", "--yes")
    assert text.code == 3
    assert "  ! src/a.py" in text.text


@pytest.mark.parametrize("scope", ["turn", "session", "all"])
def test_the_scope_can_be_typed(machine, project, scope):
    agent_writes(machine, project)

    answer = machine.json("rewind", "turn:-1", "--yes", "--scope", scope)

    assert answer["scope"] == scope
    assert paths(answer["removed"]) == ["made"]
    assert (project / "src" / "a.py").read_text() == "one\n"


@pytest.fixture
def held_database(machine, project):
    """A database of the project that this process holds open, changed since the checkpoint `before`."""
    with sqlite3.connect(project / "app.db") as database:
        database.execute("create table t(x)")
        database.commit()
        sealed(machine, "before")
        database.execute("insert into t values (1)")
        database.commit()
        (project / "src" / "a.py").write_text("two\n")
        yield database
    database.close()


def test_a_database_that_is_held_open_is_left_alone(machine, project, held_database):
    answer = machine.json("rewind", "before", "--yes", code=3)

    assert "app.db" in paths(answer["conflicts"])
    assert str(os.getpid()) in next(entry["reason"] for entry in answer["conflicts"] if entry["path"] == "app.db")
    assert paths(answer["restored"]) == ["src/a.py"]
    assert held_database.execute("select count(*) from t").fetchone() == (1,)


def test_an_exact_rewind_with_a_conflict_is_refused_as_a_whole(machine, project, held_database):
    now = tree_of(project, skip={b".openoxide-staging"})

    assert machine.failure("rewind", "before", "--exact", "--yes", code=4)["kind"] == "conflict"
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []


def test_it_says_what_git_will_say(machine):
    root = machine.project
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "a").write_text("one")
    subprocess.run(["git", "-C", root, "add", "a"], check=True)
    subprocess.run(["git", "-C", root, "commit", "-q", "-m", "one"], check=True)
    machine.json("watch")
    sealed(machine, "before")
    (root / "a").write_text("two")
    subprocess.run(["git", "-C", root, "commit", "-q", "-a", "-m", "two"], check=True)
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, check=True).stdout

    answer = machine.json("rewind", "before", "--yes")

    assert "git " in answer["git_note"]
    assert subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, check=True).stdout == head


def test_modes_and_times_come_back(machine, project):
    os.utime(project / "run.sh", ns=(1_000_000_000_000_000_001, 1_000_000_000_000_000_001))
    before = sealed(machine)["id"]
    (project / "run.sh").write_text("x")
    (project / "run.sh").chmod(0o600)

    machine.json("rewind", before, "--yes")

    found = (project / "run.sh").stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns) == (0o755, 1_000_000_000_000_000_001)


def test_a_path_that_is_no_text_comes_with_its_bytes(machine, project):
    before = sealed(machine)["id"]
    Path(os.fsdecode(os.fsencode(project) + b"/\xff\n")).write_text("x")

    (item,) = machine.json("diff", before)["items"]

    assert (item["path"], item["path_b64"]) == ("\\xff\\x0a", "/wo=")
    assert machine.run("cat", "last", os.fsdecode(b"\xff\n")).code == 5
    sealed(machine)
    assert machine.run("cat", "last", os.fsdecode(b"\xff\n")).out == b"x"


@pytest.mark.parametrize(
    ("conflict", "group", "content"),
    [
        ("keep", "conflicts", "agent\n2\n3\nmine\n"),
        ("merge", "merged", "one\n2\n3\nmine\n"),
        ("overwrite", "restored", "one\n2\n3\n"),
    ],
)
def test_what_the_user_changed_too_is_kept_merged_or_overwritten(machine, project, conflict, group, content):
    (project / "text").write_text("one\n2\n3\n")
    machine.json("turn", "begin", *TURN)
    (project / "text").write_text("agent\n2\n3\n")
    machine.json("turn", "end", *TURN)
    (project / "text").write_text("agent\n2\n3\nmine\n")

    answer = machine.json("rewind", "turn:-1", "--yes", "--conflict", conflict, code=3 if conflict == "keep" else 0)

    assert paths(answer[group]) == ["text"]
    assert ("--conflict merge" in answer.get("hint", "")) is (conflict == "keep")
    assert (project / "text").read_text() == content
    if conflict != "keep":
        machine.json("undo", "--yes")
        assert (project / "text").read_text() == "agent\n2\n3\nmine\n"


def test_an_undo_in_conflict_says_what_brings_the_path_back(machine, project):
    (project / "src" / "a.py").write_text("mine\n")
    sealed(machine)
    machine.json("rewind", "1", "--yes")
    (project / "src" / "a.py").write_text("changed since\n")

    ended = machine.run("undo", "--yes", cwd=project / "src")

    assert (ended.code, "undone" in ended.text, "nothing changed: undo" in ended.text) == (3, False, True), ended
    (proposed,) = commands(ended.complaint)
    words = shlex.split(proposed)
    assert machine.run(*words[:2], "--yes", *words[2:], cwd=project / "src").code == 0
    assert (project / "src" / "a.py").read_text() == "mine\n"


def test_one_turn_is_undone_alone(machine, project):
    agent_writes(machine, project)
    machine.json("turn", "begin", *TURN[:-1], "p2")
    (project / "later").write_text("agent\n")
    machine.json("turn", "end", *TURN[:-1], "p2")

    answer = machine.json("rewind", "--turn", "p1", "--only", "--yes")

    assert answer.keys() >= REWIND
    assert (paths(answer["restored"]), paths(answer["removed"])) == (["src/a.py"], ["made"])
    assert (project / "later").read_text() == "agent\n"


def test_touched_files_have_the_time_of_now(machine, project):
    os.utime(project / "run.sh", (1_000_000_000, 1_000_000_000))
    before = sealed(machine)["id"]
    (project / "run.sh").write_text("x")
    written = (project / "run.sh").stat().st_mtime

    machine.json("rewind", before, "--touch", "--yes")

    assert (project / "run.sh").stat().st_mtime >= written - 1  # the daemon's clock is in milliseconds


def test_an_exact_rewind_that_overwrites_does_the_rest(machine, project, held_database):
    answer = machine.json("rewind", "before", "--exact", "--conflict", "overwrite", "--yes", code=3)

    assert "app.db" in paths(answer["conflicts"])
    assert paths(answer["restored"]) == ["src/a.py"]
