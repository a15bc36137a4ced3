"""The contract against the real daemon: looking before watching, pauses, projects, health, and the end of it all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.contract import paths, sealed
from tests.kit import diff_trees, tree_of, wait_until


def test_a_dry_watch_starts_a_daemon_and_writes_nothing(machine):
    (machine.project / ".env").write_text("KEY=1")

    answer = machine.json("watch", "--dry-run")

    assert {"root", "files", "bytes", "skipped", "skips", "secrets", "watching"} <= answer.keys()
    assert (answer["files"], answer["bytes"], answer["secrets"]) == (1, 5, [{"path": ".env", "size_bytes": 5}])
    assert machine.json("projects")["items"] == []
    assert [entry.name for entry in machine.project.iterdir()] == [".env"]
    ended = machine.run("watch", "--dry-run")
    assert (ended.code, ".oxideignore" in ended.complaint, ".env" in ended.text) == (0, True, True)


def test_a_dry_watch_of_what_is_watched_does_not_promise_that_every_copy_can_go(machine, project):
    (project / ".env").write_text("KEY=1")

    told = machine.run("watch", "--dry-run").complaint

    assert "`oxide-ctl unwatch --delete-history` takes those away that share no pack" in told
    assert "`oxide-ctl uninstall` all of them" in told


def test_a_dry_watch_of_what_cannot_be_watched_fails_as_watching_does(machine):
    assert machine.failure("watch", "missing", "--dry-run", code=2)["kind"] == "usage"
    assert machine.failure("watch", "/", "--dry-run", code=8)["kind"] == "refused"


def test_a_pause_outlives_the_daemon(machine, project):
    assert machine.json("pause", "--for", "1h30m")["paused_until"] is not None
    machine.json("stop")
    (project / "new").write_text("x")

    (worktree,) = machine.json("status")["worktrees"]
    assert (worktree["state"], worktree["gaps"][0]["cause"]) == ("paused", "paused")
    assert machine.failure("checkpoint", code=8)["kind"] == "refused"
    assert "ends in 1h" in machine.run("status").text
    assert machine.json("unpause")["checkpoint"]["changed"]["added"] == 1


def test_a_path_that_is_empty_or_misspelled_never_stands_for_the_whole_project(machine, project):
    for line, code in (
        (["pause", "misspelled"], 5),
        (["unpause", "misspelled"], 5),
        (["pause", ""], 2),
        (["rewind", "1", "--yes", "--", ""], 2),
        (["history", "--deleted", "--", ""], 2),
        (["watch", ""], 2),
    ):
        machine.failure(*line, code=code)
        assert machine.json("status")["worktrees"][0]["state"] == "watching", line


def test_a_pause_without_a_sensible_length_is_wrong_usage(machine, project):
    assert machine.failure("pause", "--for", "soon", code=2)["kind"] == "usage"


def test_a_history_follows_a_moved_project(machine, project, tmp_path):
    sealed(machine, "before")
    new = project.rename(tmp_path / "moved")
    ended = machine.run("-C", str(new), "watch", cwd=tmp_path)
    assert f"oxide-ctl projects move {project} {new}" in ended.complaint

    answer = machine.run("--json", "projects", "move", str(project), str(new), cwd=tmp_path).json

    assert (answer["ok"], answer["root"], answer["old_root"]) == (True, str(new), str(project))
    items = machine.run("--json", "-C", str(new), "log", cwd=tmp_path).json["items"]
    assert "before" in [item["name"] for item in items]
    project.mkdir()  # where the machine stops its daemon


def test_moving_away_from_a_tree_that_is_there_needs_a_yes(machine, project, tmp_path):
    (tmp_path / "copy").mkdir()

    assert machine.failure("projects", "move", str(project), str(tmp_path / "copy"), code=8)["kind"] == "refused"
    assert machine.json("projects", "move", str(project), str(tmp_path / "copy"), "--yes")["root"] == str(
        tmp_path / "copy"
    )


OF_THE_MACHINE = {
    "home_in_memory",
    "home_in_container",
    "home_not_local",
    "tree_not_local",
    "disk_space",
    "watch_limit",
}


def test_a_doctor_finds_what_is_wrong_and_exits_with_one(machine, project):
    sound = machine.run("--json", "doctor").json
    assert [p for p in sound["problems"] if p["severity"] != "note" and p["kind"] not in OF_THE_MACHINE] == []
    assert sound["daemon"]["pid"] > 0
    (machine.home / "timeline.db").chmod(0o644)

    ended = machine.run("--json", "doctor")

    assert (ended.code, ended.json["ok"], ended.json["error"]["kind"]) == (1, False, "failed")
    (problem,) = [p for p in ended.json["problems"] if p["kind"] == "home_permissions"]
    assert {"kind", "severity", "message", "hint", "fixed"} == problem.keys()
    fixed = machine.run("--json", "doctor", "--fix").json["problems"]
    assert [p["fixed"] for p in fixed if p["kind"] == "home_permissions"] == [True]


def test_a_doctor_without_a_daemon_still_looks(machine):
    machine.home.mkdir()
    machine.home.chmod(0o755)  # whatever the umask is

    ended = machine.run("--json", "doctor", OPENOXIDE_NO_AUTOSTART="1")

    assert (ended.code, ended.json["daemon"]) == (1, None)
    assert {"daemon_unreachable", "home_permissions"} <= {p["kind"] for p in ended.json["problems"]}
    assert "no daemon answers" in machine.run("doctor", OPENOXIDE_NO_AUTOSTART="1").text


def test_a_doctor_touches_nothing_in_a_folder_that_is_not_ours(machine):
    machine.home.mkdir()
    machine.home.chmod(0o755)  # whatever the umask is
    (machine.home / "theirs").touch(mode=0o644)
    before = tree_of(machine.home)

    ended = machine.run("--json", "doctor", "--fix")

    assert (ended.code, ended.json["daemon"]) == (1, None)
    assert [problem["kind"] for problem in ended.json["problems"]] == ["foreign_home"]
    assert tree_of(machine.home) == before
    assert machine.home.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("arguments", [("status",), ("watch",), ("config", "set", "retention.ttl_days", "9")])
def test_no_command_touches_a_folder_that_is_not_ours(machine, arguments):
    machine.home.mkdir()
    machine.home.chmod(0o755)  # whatever the umask is
    (machine.home / "theirs").touch(mode=0o644)
    before = tree_of(machine.home)

    error = machine.failure(*arguments, code=8)

    assert (error["kind"], "no OpenOxide home" in error["message"]) == ("refused", True)
    assert tree_of(machine.home) == before
    assert machine.home.stat().st_mode & 0o777 == 0o755


def test_a_home_with_nothing_but_settings_is_taken_and_taken_away(machine):
    machine.json("config", "set", "retention.ttl_days", "9")

    assert machine.json("uninstall", "--yes")["stopped"] is False
    assert not machine.home.exists()
    machine.json("config", "set", "retention.ttl_days", "9")
    machine.json("watch")
    machine.json("uninstall", "--yes")
    assert not machine.home.exists()


def test_an_uninstall_takes_everything_of_ours_and_nothing_else(machine, project):
    tree = tree_of(project)
    (project / ".openoxide-staging").mkdir()
    (machine.home / "notes.txt").write_text("mine")
    pid = machine.json("status")["daemon"]["pid"]
    assert machine.failure("uninstall", code=8)["kind"] == "refused"

    planned = machine.json("uninstall", "--dry-run")
    assert (planned["dry_run"], planned["stopped"], machine.json("status")["daemon"]["pid"]) == (True, False, pid)
    done = machine.json("uninstall", "--yes")

    assert {"removed", "kept", "left", "freed_bytes", "notes", "package", "home"} <= done.keys()
    assert (done["stopped"], paths(done["left"])) == (True, [str(machine.home / "notes.txt")])
    assert str(project / ".openoxide-staging") in paths(done["removed"])
    assert [path.name for path in machine.home.iterdir()] == ["notes.txt"]
    assert diff_trees(tree, tree_of(project)) == []
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10)
    again = machine.json("uninstall", "--yes")
    assert (again["removed"], paths(again["left"])) == ([], [str(machine.home / "notes.txt")])
    assert [path.name for path in machine.home.iterdir()] == ["notes.txt"]


def test_an_uninstall_can_keep_the_history(machine, project):
    sealed(machine, "before")

    kept = machine.json("uninstall", "--keep-history", "--yes")["kept"]

    assert str(machine.home / "timeline.db") in paths(kept)
    assert "before" in [item["name"] for item in machine.json("log")["items"]]


def test_an_uninstall_of_nothing_starts_nothing(machine):
    ended = machine.run("uninstall", "--yes")

    assert (ended.code, machine.home.exists()) == (0, False)
    assert "nothing of ours" in ended.text
    assert "pip uninstall openoxide" in ended.text


def test_an_uninstall_goes_on_where_the_store_is_damaged(machine, project):
    machine.json("stop")
    with (machine.home / "timeline.db").open("r+b") as file:
        file.truncate(200)

    answer = machine.json("uninstall", "--yes")

    assert "staging" in answer["notes"][0]
    assert not machine.home.exists()


def test_an_uninstall_that_cannot_ask_a_daemon_deletes_nothing(machine, project):
    machine.json("stop")

    ended = machine.run("--json", "uninstall", "--yes", OPENOXIDE_NO_AUTOSTART="1")

    assert (ended.code, ended.json["error"]["kind"]) == (6, "daemon_unreachable")
    assert (machine.home / "timeline.db").exists()


def test_a_deleted_project_comes_back_by_the_commands_that_are_told(machine, project, tmp_path):
    sealed(machine, "before")
    was = tree_of(project)
    shutil.rmtree(project)
    told = [
        machine.run("doctor", cwd=tmp_path).text,
        machine.run("-C", str(project), "rewind", "last", "--yes", cwd=tmp_path).complaint,
        machine.run("-C", str(project), "restore", "last", "--to", str(project / "src"), cwd=tmp_path).complaint,
    ]
    restore, move = f"-C {project} restore last --to {project}", f"projects move {project} {project}"
    assert all(f"`oxide-ctl {restore}`" in text and f"`oxide-ctl {move}`" in text for text in told)

    answer = machine.run("--json", *restore.split(), cwd=tmp_path).json
    assert f"`oxide-ctl {move}`" in answer["notes"][0]
    assert machine.run(*move.split(), cwd=tmp_path).code == 0

    assert diff_trees(was, tree_of(project)) == []
    assert [item["name"] for item in machine.json("log")["items"]] == ["before", None]
    (project / "more").write_text("x")
    assert machine.json("checkpoint")["changed"]["added"] == 1


def test_a_folder_that_does_not_exist_is_not_to_be_watched(machine, project, tmp_path):
    error = machine.failure("-C", str(tmp_path / "nowhere"), "log", code=5)

    assert error["message"] == f"{tmp_path}/nowhere does not exist"
    assert "watch" not in error["hint"]
