"""The contract against the real daemon that the first command starts: watching, the daemon, trouble, text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.contract import CHECKPOINT, IDENT, paths, sealed
from tests.cli.harness import ENTRY, Ended
from tests.kit import diff_trees, tree_of, wait_until


def test_watch_returns_with_the_first_checkpoint(machine):
    (machine.project / "a").write_bytes(b"12345")
    answer = machine.json("watch")

    assert answer["root"] == str(machine.project)
    assert {"project", "worktree", "skipped"} <= answer.keys()
    assert (answer["files"], answer["bytes"]) == (1, 5)
    assert answer["checkpoint"].keys() >= CHECKPOINT
    assert answer["checkpoint"]["complete"] is True


def test_watching_again_changes_nothing(machine, project):
    first = machine.json("projects")["items"]

    again = machine.json("watch", str(project))

    assert (again["created"], again["root"]) == (False, str(project))
    assert [(item["project"], item["root"]) for item in machine.json("projects")["items"]] == [
        (item["project"], item["root"]) for item in first
    ]


def test_a_tree_in_a_watched_tree_is_watched_and_that_is_said(machine, project):
    inner = project / "src"
    said = (
        f"{inner} is inside {project}, and both are watched: its files are recorded in both, "
        f"and a command given in it acts on it alone; `oxide-ctl unwatch {inner}` leaves it to the outer one"
    )
    assert machine.json("watch")["notes"] == []

    assert machine.json("watch", "src")["notes"] == [said]
    assert machine.json("watch")["notes"] == [said]
    assert said in machine.run("watch", "src").complaint
    (inner / "a.py").write_text("two\n")
    assert paths(machine.json("-C", str(inner), "diff", "1")["items"]) == ["a.py"]
    assert paths(machine.json("-C", str(project), "diff", "1")["items"]) == ["src/a.py"]

    assert machine.run(*re.findall("`oxide-ctl ([^`]+)`", said)[0].split()).code == 0
    assert machine.json("watch")["notes"] == []


def test_quiet_watch_prints_the_id(machine):
    assert IDENT.fullmatch(machine.run("-q", "watch").text.strip())


def test_too_broad_a_tree_is_refused(machine):
    home = os.environ["HOME"]

    for path in ("/", home, f"{home}/.."):
        assert machine.failure("watch", path, code=8)["kind"] == "refused", path
        assert machine.json("projects")["items"] == []


def test_too_broad_a_tree_is_watched_when_that_is_typed(machine):
    home = os.environ["HOME"]

    assert machine.json("watch", home, "--allow-broad")["root"] == home


def test_only_directories_are_watched(machine):
    (machine.project / "file").touch()

    assert machine.run("watch", "file").code == 2
    assert machine.run("watch", "missing").code in (2, 5)


def test_unwatch_keeps_the_history_unless_told_otherwise(machine, project):
    number = sealed(machine)["number"]

    machine.json("unwatch")
    assert [item["watching"] for item in machine.json("projects")["items"]] == [False]
    machine.json("watch")
    assert number in [item["number"] for item in machine.json("log")["items"]]

    assert machine.run("unwatch", "--delete-history").code == 8
    machine.json("unwatch", "--delete-history", "--yes")
    assert machine.json("projects")["items"] == []
    assert machine.failure("log", code=5)["kind"] == "not_found"


def test_the_daemon_is_started_on_demand_once(machine):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: machine.json("status"), range(4)))

    assert len({answer["daemon"]["pid"] for answer in answers}) == 1


def test_status_tells_health(machine, project):
    answer = machine.json("status")

    assert {"pid", "version", "uptime_ms", "rss_bytes"} <= answer["daemon"].keys()
    (worktree,) = answer["worktrees"]
    assert {
        "root",
        "state",
        "complete",
        "pending",
        "watches",
        "seq",
        "gaps",
        "interrupted",
        "next_expiry",
    } <= worktree.keys()
    assert (worktree["root"], worktree["state"], worktree["complete"]) == (str(project), "watching", True)


def test_projects_lists_each_worktree(machine, project):
    (item,) = machine.json("projects")["items"]

    assert {"project", "root", "watching", "checkpoints", "store_bytes", "last_change_at"} <= item.keys()
    assert (item["root"], item["watching"]) == (str(project), True)
    assert item["checkpoints"] >= 1


def test_stop_stops_and_the_next_command_starts_another(machine, project):
    first = machine.json("status")["daemon"]["pid"]

    assert machine.json("stop")["stopped"] is True
    wait_until(lambda: not Path(f"/proc/{first}").exists(), 10)
    assert machine.json("stop")["stopped"] is False
    answer = machine.json("status")
    assert answer["daemon"]["pid"] != first
    assert [worktree["root"] for worktree in answer["worktrees"]] == [str(project)]


def test_what_changed_while_no_daemon_ran_is_in_the_next_checkpoint(machine, project):
    before = sealed(machine)
    machine.json("stop")
    (project / "meanwhile").write_text("x")

    after = sealed(machine)

    assert paths(machine.json("diff", before["id"], after["id"])["items"]) == ["meanwhile"]


def test_without_autostart_no_daemon_means_six(machine):
    ended = machine.run("--json", "status", OPENOXIDE_NO_AUTOSTART="1")

    assert (ended.code, ended.json["error"]["kind"]) == (6, "daemon_unreachable")


def test_a_home_that_cannot_be_means_six(machine, tmp_path):
    (tmp_path / "file").touch()

    assert machine.run("status", OPENOXIDE_HOME=str(tmp_path / "file")).code == 6


def test_a_root_that_vanished_is_not_recorded_as_deleted(machine, project, tmp_path):
    number = sealed(machine)["number"]
    project.rename(tmp_path / "moved")

    ended = machine.run("--json", "-C", str(project), "checkpoint", cwd=tmp_path)

    assert (ended.code, ended.json["error"]["kind"]) == (1, "root_vanished")
    (worktree,) = machine_status(machine, tmp_path)["worktrees"]
    assert worktree["state"] == "paused"
    (tmp_path / "moved").rename(project)
    assert machine.json("log")["items"][0]["number"] == number


def machine_status(machine, cwd):
    return machine.run("--json", "status", cwd=cwd).json


def test_damage_is_found_before_anything_is_touched(machine, project):
    (project / "big").write_bytes(os.urandom(5 << 20))
    before = sealed(machine)["id"]
    (project / "big").write_bytes(b"small")
    (project / "src" / "a.py").write_text("two\n")
    sealed(machine)
    machine.json("stop")
    damage(max((machine.home / "blobs").rglob("*"), key=lambda path: path.stat().st_size))
    now = tree_of(project, skip={b".openoxide-staging"})

    assert machine.failure("cat", before, "big", code=7)["kind"] == "store_damaged"
    error = machine.failure("rewind", before, "--yes", code=7)
    assert "big" in str(error["paths"])
    assert diff_trees(now, tree_of(project, skip={b".openoxide-staging"})) == []


def damage(path: Path) -> None:
    """Turns one byte in the middle around."""
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


MOUNTED = """mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@" """


def read_only(machine, *arguments: str) -> Ended:
    """`oxide-ctl` where the home is mounted read-only."""
    command = ["unshare", "--mount", "sh", "-c", MOUNTED, machine.home, machine.python, *ENTRY, *arguments]
    environ = {**os.environ, "OPENOXIDE_HOME": str(machine.home)}
    done = subprocess.run(command, cwd=machine.project, env=environ, capture_output=True, check=False)
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs Linux namespaces")
def test_a_store_that_cannot_be_written_is_still_read(machine, project, tmp_path):
    before = sealed(machine)
    machine.json("stop")
    if subprocess.run(["unshare", "--mount", "sh", "-c", MOUNTED, machine.home, "true"], check=False).returncode:
        pytest.skip("mounts are not permitted here")

    assert read_only(machine, "--json", "log").json["items"][0]["id"] == before["id"]
    assert read_only(machine, "cat", "last", "src/a.py").out == b"one\n"
    lines = [
        "status",
        "du",
        "check --read-data",
        "show last",
        "diff 1 last",
        "history src/a.py",
        "history --deleted",
        "history --search one",
    ]
    for line in (*lines, f"restore last --to {tmp_path / 'out'}"):
        assert read_only(machine, "--json", *line.split()).json["ok"] is True, line
    assert "cannot be written" in read_only(machine, "log").complaint
    told = read_only(machine, "status")
    assert b"none runs" in told.out
    assert not any(untrue in told.out for untrue in (b"pid 0", b"memory", b"up 0", b"  0 B"))
    assert read_only(machine, "--json", "status").json["daemon"]["store_bytes"] > 0
    for line in ("checkpoint", "rewind last --yes", "watch", "prune --dry-run", "expire --dry-run"):
        ended = read_only(machine, "--json", *line.split())
        assert (ended.code, ended.json["error"]["kind"]) == (6, "store_read_only"), line


def test_text_answers_have_no_control_characters(machine, project):
    (project / "a\x1b[31m\u202eb").touch()
    machine.json("checkpoint", "-m", "caf\N{LATIN SMALL LETTER E WITH ACUTE}")

    for line in (
        "status",
        "projects",
        "log",
        "log --all",
        "show last",
        "operations",
        "diff last --stat",
        "checkpoint",
        "watch",
    ):
        ended = machine.run(*line.split())
        assert (ended.code, ended.complaint) == (0, ""), line
        assert ended.text, line
        assert all(char.isprintable() or char in "\n\t" for char in ended.text), line


def test_nothing_is_left_in_the_tree(machine, project):
    before = sealed(machine)["id"]
    (project / "src" / "a.py").write_text("two\n")
    names = tree_of(project, skip={b".openoxide-staging"}).keys()
    machine.json("rewind", before, "--yes")

    wait_until(lambda: tree_of(project).keys() == names, 10)
