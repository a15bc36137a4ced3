"""``purge`` as a user meets it: the real command line, the real daemon, a kill, and every byte of the home afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.cli.contract import paths, sealed
from tests.kit.rawhome import texts, traces

TOKEN = b"ghp_" + b"q8Zr2Lk9TmB4vN7c" * 2 + b"Xy1a"
SECRET = b"AWS_SECRET=marker-of-the-secret\n"


def recorded(machine, project) -> str:
    """The number of a checkpoint that has ``.env``, which is gone again."""
    (project / ".env").write_bytes(SECRET)
    number = str(sealed(machine)["number"])
    (project / ".env").unlink()
    sealed(machine)
    return number


def test_a_secret_is_purged(machine, project):
    (project / ".env").write_bytes(SECRET)
    with_secret = str(sealed(machine)["number"])
    error = machine.failure("purge", ".env", "--yes", code=8)
    assert (error["kind"], paths(error["paths"])) == ("refused", [".env"])
    (project / ".env").unlink()

    assert machine.failure("purge", ".env", code=8)["kind"] == "refused"  # nobody to ask
    plan = machine.json("purge", ".env", "--dry-run")
    assert (paths(plan["paths"]), plan["places"]["versions"]) == ([".env"], 1)
    assert traces(machine.home, SECRET)
    answer = machine.json("purge", ".env", "--yes")

    assert answer == {**plan, "dry_run": False, "finished": True}
    assert traces(machine.home, SECRET) == []
    assert machine.failure("cat", with_secret, ".env", code=5)["message"].startswith(".env was purged")
    assert machine.run("cat", with_secret, "src/a.py").out == b"one\n"
    assert machine.json("history", ".env")["items"][-1]["reason"] == "purged"
    skipped = machine.json("rewind", with_secret, "--exact", "--yes")["skipped"]
    assert [(item["path"], item["reason"]) for item in skipped] == [(".env", "purged, and it is gone")]
    machine.json("check", "--read-data")
    assert machine.failure("purge", ".env", "--yes", code=5)["kind"] == "not_found"


def test_one_content_by_the_hash_that_history_shows(machine, project):
    recorded(machine, project)
    (state,) = [item["state"] for item in machine.json("history", ".env")["items"] if item["state"]]
    assert machine.json("purge", "--blob", state["hash"][:12], "--yes")["contents"] == 1
    assert traces(machine.home, SECRET) == []
    # what was asked for is in no log either
    machine.json("stop")
    assert traces(machine.home, SECRET) == []


def test_a_daemon_that_is_killed_afterwards_has_nothing_of_it(machine, project):
    recorded(machine, project)
    machine.json("purge", ".env", "--yes")
    os.kill(machine.json("status")["daemon"]["pid"], signal.SIGKILL)
    assert traces(machine.home, SECRET) == []
    machine.json("check", "--read-data")
    assert traces(machine.home, SECRET) == []


def test_a_token_in_a_note_goes_by_the_name_of_the_note(machine, project):
    place = Path(machine.json("memory", "index")["path"])
    place.mkdir(mode=0o700, parents=True)
    (place / "api.md").write_bytes(b"# Api\n\nkey: %s\n" % TOKEN)
    sealed(machine)
    lint = machine.run("memory", "lint")
    assert (lint.code, "purge --memory" in lint.text) == (1, True)
    error = machine.failure("purge", "--memory", "api.md", "--yes", code=8)
    assert "oxide-ctl memory edit api.md" in error["hint"]

    machine.json("memory", "edit", "api.md", "--replace", f"key: {TOKEN.decode()}", "--with", "key: in the vault")
    plan = machine.json("purge", "--memory", "api.md", "--dry-run")
    assert [(item["path"], item["memory"], item["versions"]) for item in plan["paths"]] == [("api.md", True, 1)]
    answer = machine.json("purge", "--memory", "api.md", "--yes")

    assert answer == {**plan, "dry_run": False, "finished": True}
    machine.json("stop")
    assert [where for where, data in texts(machine.home) if TOKEN in data] == []
    assert (place / "api.md").read_bytes() == b"# Api\n\nkey: in the vault\n"
    assert [item["reason"] for item in machine.json("memory", "history", "api.md")["items"]] == ["", "purged"]
    assert "api.md (purged)" in machine.run("memory", "history", "api.md").text
