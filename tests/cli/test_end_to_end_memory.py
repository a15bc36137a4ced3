"""The contract of the memory commands against the real daemon, and what agents and editors do beside it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from openoxide.cli import hook
from tests.cli.contract import TURN, sealed
from tests.cli.harness import ENTRY
from tests.kit import wait_until

NOTE = "# Debugging\n\nrun make debug first\n"


def memory(machine) -> Path:
    return Path(machine.json("memory", "index")["path"])


def names(items) -> list[str]:
    return [item["name"] for item in items]


def tell(machine, agent: str, event: str, payload: dict[str, object]) -> str:
    """What the hook prints, as the agent starts it."""
    done = subprocess.run(
        [machine.python, "-I", "-S", hook.__file__, agent, event],
        input=json.dumps(payload).encode(),
        env={"OPENOXIDE_HOME": str(machine.home), "HOME": os.environ["HOME"]},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def test_notes_are_saved_read_edited_searched_and_brought_back(machine, project):
    assert machine.failure("memory", "read", "debugging.md", code=5)["kind"] == "not_found"
    saved = machine.json("memory", "save", "debugging.md", "--text", NOTE)
    assert saved["index"] == [{"did": "added", "name": "debugging.md"}]
    assert machine.run("memory", "read", "debugging.md").text == NOTE
    assert names(machine.json("memory", "topics")["items"]) == ["debugging.md"]
    assert "debugging.md" in names(machine.json("memory", "search", "make debug")["items"])

    assert machine.failure("memory", "save", "debugging.md", "--text", "x", code=4)["kind"] == "conflict"
    edited = machine.json("memory", "edit", "debugging.md", "--append", "- then look", "--if-hash", saved["hash"])
    assert machine.failure("memory", "edit", "debugging.md", "--append", "x", "--if-hash", saved["hash"], code=4)
    assert machine.json("memory", "read", "debugging.md")["hash"] == edited["hash"]
    assert machine.run("memory", "read", "debugging.md", "--at", str(saved["version"])).text == NOTE

    assert len(machine.json("memory", "history", "debugging.md")["items"]) == 2
    assert [line["version"] for line in machine.json("memory", "blame", "debugging.md")["lines"]][-1] == edited[
        "version"
    ]
    machine.json("memory", "revert", "debugging.md")
    assert machine.run("memory", "read", "debugging.md").text == NOTE
    machine.json("memory", "rename", "debugging.md", "howto/debugging.md")
    assert machine.failure("memory", "delete", "howto/debugging.md", code=8)["kind"] == "refused"
    assert machine.json("memory", "delete", "howto/debugging.md", "--yes")["trash"]
    assert machine.json("memory", "lint")["errors"] == 0
    assert subprocess.run(["ls", "-A", project], capture_output=True, check=True).stdout.split() == [
        b"empty", b"link", b"run.sh", b"src",
    ]  # fmt: skip


def test_a_secret_is_refused_and_told_of(machine, project):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert machine.failure("memory", "save", "keys.md", "--text", token, code=8)["kind"] == "refused"
    machine.json("memory", "save", "keys.md", "--text", "none yet")
    (memory(machine) / "keys.md").write_text(f"{token}\n")

    lint = machine.json("memory", "lint", code=1)
    assert lint["errors"] == 1
    ended = machine.run("memory", "read", "keys.md")
    assert (token in ended.text, "--raw" in ended.complaint) == (False, True)


def test_a_plain_editor_is_seen_without_a_command(machine, project):
    machine.json("memory", "save", "a.md", "--text", "one")
    machine.json("turn", "begin", *TURN)
    (memory(machine) / ".a.md.tmp").write_text("two\n")
    os.replace(memory(machine) / ".a.md.tmp", memory(machine) / "a.md")
    machine.json("turn", "end", *TURN[:4])

    newest = machine.json("memory", "history", "a.md")["items"][0]
    assert (newest["status"], newest["prompts"], newest["certainty"]) == ("M", ["p1"], "likely")


def test_what_an_agent_notes_waits_for_the_user(machine, project):
    machine.json("memory", "save", "mine.md", "--text", "# Mine\n\nmine\n")
    tell(machine, "claude", "UserPromptSubmit", {"session_id": "s", "cwd": str(project), "prompt_id": "p1"})
    web = {"session_id": "s", "cwd": str(project), "tool_name": "WebFetch", "tool_use_id": "c", "tool_input": {}}
    tell(machine, "claude", "PreToolUse", web)
    for name in ("good", "bad"):
        (memory(machine) / f"{name}.md").write_text(f"# {name}\n\n{name} words\n")
    tell(machine, "claude", "Stop", {"session_id": "s", "cwd": str(project), "prompt_id": "p1"})
    standing = {item["name"]: (item["standing"], item["tainted"]) for item in machine.json("memory", "topics")["items"]}
    assert standing == {
        "mine.md": ("verified", ""), "good.md": ("unverified", "WebFetch"), "bad.md": ("unverified", "WebFetch"),
    }  # fmt: skip
    assert names(machine.json("memory", "review")["items"]) == ["bad.md", "good.md"]
    assert "after WebFetch" in machine.run("memory", "review").text

    assert machine.json("memory", "review", "--accept", "good.md")["names"] == ["good.md"]
    assert machine.failure("memory", "review", "--reject", "--all", code=8)["kind"] == "refused"
    assert machine.json("memory", "review", "--reject", "--all", "--yes")["left"] == []
    assert machine.json("memory", "review")["items"] == []
    assert sorted(path.name for path in memory(machine).glob("*.md") if path.name != "MEMORY.md") == [
        "good.md",
        "mine.md",
    ]
    assert machine.json("memory", "dispute", "good.md")["standing"] == "disputed"
    assert machine.json("memory", "verify", "good.md")["standing"] == "verified"
    for wrong in ("--accept", "--reject --accept good.md", "good.md", "--all", "--all --accept good.md"):
        assert machine.failure("memory", "review", *wrong.split(), code=2)["kind"] == "usage"


def test_a_rewind_takes_both_back_and_an_undo_too(machine, project):
    machine.json("memory", "save", "a.md", "--text", "one")
    sealed(machine)
    machine.json("turn", "begin", *TURN)
    (project / "src" / "a.py").write_text("two\n")
    (memory(machine) / "a.md").write_text("two\n")
    (memory(machine) / "b.md").write_text("new\n")
    machine.json("turn", "end", *TURN[:4])

    plan = machine.json("rewind", "turn:p1", "--memory", "--dry-run")
    assert [entry["path"] for entry in plan["memory"]["removed"]] == ["b.md"]
    done = machine.run("rewind", "turn:p1", "--memory", "--yes")
    assert (done.code, "memory, scope session: 1 restored, 1 removed" in done.text) == (0, True), done
    assert ((project / "src" / "a.py").read_text(), (memory(machine) / "a.md").read_text()) == ("one\n", "one\n")
    assert not (memory(machine) / "b.md").exists()
    assert machine.json("undo", "--yes")["memory"]["restored"] == [{"path": "a.md"}, {"path": "b.md"}]
    assert ((project / "src" / "a.py").read_text(), (memory(machine) / "a.md").read_text()) == ("two\n", "two\n")
    assert "memory" not in machine.json("rewind", "turn:p1", "--yes")
    assert (memory(machine) / "a.md").read_text() == "two\n"


def test_a_session_starts_with_the_notes(machine, project):
    machine.json("memory", "save", "debugging.md", "--text", NOTE)
    for agent in ("claude", "codex"):
        payload = {"session_id": "s", "cwd": str(project), "source": "startup", "transcript_path": "/t"}
        said = json.loads(tell(machine, agent, "SessionStart", payload))["hookSpecificOutput"]
        assert "[Debugging](debugging.md)" in said["additionalContext"]
        told = machine.json("memory", "context", "--agent", agent)
        assert told["memory"]["text"] == said["additionalContext"]
    written = Path(machine.json("memory", "context", "--agent", "aider", "--write")["written"])
    assert "[Debugging](debugging.md)" in written.read_text()
    machine.json("memory", "save", "other.md", "--text", "# Other\n\nmore\n")
    wait_until(lambda: "other.md" in written.read_text(), 30)


def test_a_project_that_is_moved_keeps_its_memory(machine, project, tmp_path):
    machine.json("memory", "save", "a.md", "--text", "one")
    place = memory(machine)
    moved = tmp_path / "moved"
    project.rename(moved)
    project.mkdir()  # where the commands are called
    machine.json("projects", "move", str(project), str(moved))

    assert Path(machine.json("-C", str(moved), "memory", "index")["path"]) == place


def test_notes_of_a_branch_stay_there_until_they_are_promoted(machine, project, tmp_path):
    side = tmp_path / "side"
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["worktree", "add", "-q", str(side)]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=project, check=True)
    machine.json("watch", str(side))
    machine.json("projects", "join", str(project), str(side))  # it was watched before it was a repository
    machine.json("config", "set", "memory.worktrees", "staged", "--project")
    machine.json("stop")
    there = ("-C", str(side), "memory")
    machine.json("memory", "save", "old.md", "--text", "# Old\n\nof the project\n")
    machine.json(*there, "save", "new.md", "--text", "# New\n\nof the branch\n")

    assert names(machine.json("memory", "topics")["items"]) == ["old.md"]
    assert machine.failure(*there, "promote", code=8)["kind"] == "refused"
    assert [item["became"] for item in machine.json(*there, "promote", "--dry-run")["items"]] == ["added"]
    assert names(machine.json("memory", "topics")["items"]) == ["old.md"]
    subprocess.run(["git", "worktree", "remove", "--force", str(side)], cwd=project, check=True)

    (told,) = machine.json("status")["worktrees"][0]["unread_memories"]
    assert f"`{told['command']}`" in machine.run("status").text
    done = machine.json("memory", "promote", "--from", told["worktree"], "--yes")
    assert [(item["became"], item["retired"]) for item in done["items"]] == [("added", True)]
    assert names(machine.json("memory", "topics")["items"]) == ["new.md", "old.md"]
    assert machine.json("status")["worktrees"][0]["unread_memories"] == []
    assert machine.failure("memory", "promote", "--from", str(side), "--yes", code=5)["kind"] == "not_found"


def test_status_tells_of_the_memory(machine, project):
    machine.json("memory", "save", "a.md", "--text", "one")
    (memory(machine) / "MEMORY.md").write_text("".join(f"- note {number}\n" for number in range(300)))
    found = machine.json("status")["worktrees"][0]["memory"]
    assert (found["state"], bool(found["warning"])) == ("watching", True)
    assert str(memory(machine)) in machine.run("status").text
    assert len(machine.json("projects")["items"]) == 1


def test_an_index_over_its_limit_is_an_error_of_lint_and_a_line_of_the_log(machine, project):
    machine.json("memory", "save", "a.md", "--text", "one")
    index = memory(machine) / "MEMORY.md"
    rest = "".join(f"- note {number}\n" for number in range(2, 201))
    with index.open("a") as file:
        file.write(rest)
    assert machine.run("memory", "lint").code == 0

    subprocess.run(["sh", "-c", 'echo "- note 201, lost" >> "$0"', index], check=True)

    ended = machine.run("memory", "lint")
    assert (ended.code, "line 201 is the first that no agent gets: - note 201, lost" in ended.text) == (1, True), ended
    log = machine.home / "logs" / "oxided.log"
    wait_until(lambda: "memory.index_over: no agent gets line 201 of 201" in log.read_text(), 60)
    assert "201, lost" not in log.read_text()
    assert "MEMORY.md is 201 lines" in machine.run("status").text


def test_a_text_comes_from_standard_input(machine, project):
    def save(name, **streams):
        line = [machine.python, *ENTRY, "--json", "memory", "save", name]
        environ = {**os.environ, "OPENOXIDE_HOME": str(machine.home)}
        return subprocess.run(line, cwd=project, env=environ, capture_output=True, check=False, **streams)

    assert json.loads(save("a.md", input=b"from a pipe\n").stdout)["changed"] is True
    assert machine.run("memory", "read", "a.md").text == "from a pipe\n"
    unreadable = os.open(os.devnull, os.O_WRONLY)
    try:
        refused = save("b.md", stdin=unreadable)
    finally:
        os.close(unreadable)
    assert (refused.returncode, json.loads(refused.stdout)["error"]["kind"]) == (1, "failed")
