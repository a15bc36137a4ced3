"""What agents get of a memory: in the answer of a hook, in a generated file, and as `memory context` tells it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from openoxide.errors import UsageError
from tests.kit import wait_until
from tests.kit.box import Box

CLAUDE, CODEX = "claude", "codex"


def start(box: Box, agent: str, folder: Path | None = None):
    cwd = os.fspath(folder or box.root)
    payload = {"session_id": "s1", "cwd": cwd, "source": "startup", "transcript_path": f"{cwd}/t.jsonl"}
    return box.call("hook", payload=payload, agent=agent, event="SessionStart")["stdout"]


def given(stdout: str) -> str:
    said = json.loads(stdout)
    assert set(said) == {"hookSpecificOutput"}  # Codex refuses a field that it does not know
    assert set(said["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    assert said["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    return said["hookSpecificOutput"]["additionalContext"]


def save(box: Box, name: str = "api.md", text: str = "# API\n\nuse v2\n"):
    return box.call("memory_save", name=name, text=text)


def index(box: Box) -> Path:
    return Path(box.call("memory_index")["path"]) / "MEMORY.md"


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, "gemini"])
def test_a_session_starts_with_the_index(box, agent):
    save(box)
    text = given(start(box, agent))
    assert "[API](api.md)" in text
    assert str(index(box).parent) in text


@pytest.mark.parametrize("agent", [CLAUDE, CODEX])
def test_what_a_session_gets_stays_under_the_cap_and_says_what_is_missing(box, agent):
    save(box)
    index(box).write_text("".join(f"- note {number} \U0001f600 äöü with some words\n" for number in range(1_000)))
    text = given(start(box, agent))
    assert len(text.encode("utf-16-le")) // 2 <= 9_500
    assert "note 0 " in text
    assert "note 999" not in text
    assert "not loaded" in text or "only" in text.lower()


@pytest.mark.parametrize("agent", [CLAUDE, CODEX])
def test_without_a_memory_nothing_is_said(box, agent):
    assert start(box, agent) == ""
    assert not (box.home.folder / "projects").exists()


def test_outside_of_a_project_nothing_is_said(box, tmp_path):
    save(box)
    (tmp_path / "elsewhere").mkdir()
    assert start(box, CLAUDE, tmp_path / "elsewhere") == ""


def test_a_secret_is_not_handed_on_nor_are_bytes_that_are_no_text(box):
    save(box)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    index(box).write_bytes(f"- {token}\n".encode() + b"- \xff\xfe bytes\n")
    stdout = start(box, CODEX)
    assert token not in stdout
    assert "\\ud" not in stdout


def test_an_agent_that_loads_the_memory_by_itself_is_not_given_it_twice(box, monkeypatch, tmp_path):
    save(box)
    (tmp_path / "user/.claude").mkdir(parents=True)
    settings = {"autoMemoryDirectory": str(index(box).parent)}
    (tmp_path / "user/.claude/settings.json").write_text(json.dumps(settings))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert start(box, CLAUDE) == ""
    assert start(box, CODEX) != ""


def test_a_topic_that_somebody_wrote_gets_its_line_by_the_next_session(box):
    save(box)
    (index(box).parent / "new.md").write_text("# New\n\nsomething\n")
    assert "new.md" in given(start(box, CLAUDE))
    wait_until(lambda: "(new.md)" in index(box).read_text(), 10)


def test_the_context_names_every_source_and_what_it_left_out(box):
    (box.root / "AGENTS.md").write_text("# Agents\n")
    (box.root / "CLAUDE.md").write_text("# Claude\n")
    save(box)

    answer = box.call("memory_context", agent=CLAUDE, environ={"HOME": str(box.home.folder)})

    sources = {os.path.basename(source["path"]): source["level"] for source in answer["sources"]}
    assert sources["CLAUDE.md"] == "project"
    assert sources["MEMORY.md"] == "auto memory"
    assert [os.path.basename(one["path"]) for one in answer["skipped"]] == ["AGENTS.md"]
    assert answer["memory"]["way"] == "hook"
    assert answer["memory"]["text"] == given(start(box, CLAUDE))


def test_a_file_is_generated_outside_of_the_tree_and_follows_the_memory(box):
    save(box)
    before = sorted(box.root.rglob("*"))
    written = Path(box.call("memory_context", agent="opencode", write=True)["written"])
    assert written.read_text() == box.call("memory_context", agent="opencode")["memory"]["text"]
    assert (written.stat().st_mode & 0o777, sorted(box.root.rglob("*"))) == (0o600, before)
    assert not written.is_relative_to(index(box).parent)

    save(box, "other.md", "# Other\n\nmore\n")
    wait_until(lambda: "other.md" in written.read_text(), 10)
    with pytest.raises(UsageError):
        box.call("memory_context", agent=CLAUDE, write=True)
    with pytest.raises(UsageError):
        box.call("memory_context", agent="somebody")
