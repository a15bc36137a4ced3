"""docs/hooks.md as it is: its settings, given to the real agents, declare their turns and tool calls."""

from __future__ import annotations

import importlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.cli.agents import ARGUMENTS, HOOK, PLACES, configure, documented, need, scripted, settings, trust_hooks
from tests.cli.harness import ROOT
from tests.kit import wait_until

TITLES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
READERS = {"claude": "openoxide.agents.claude", "codex": "openoxide.agents.codex", "gemini": "openoxide.agents.gemini"}
LATE_SECONDS = 60


def code(title, language):
    (found,) = documented("hooks.md", title, language)
    return found


def hooks(agent, program="/path/to/oxide-hook"):
    return settings(code(TITLES[agent], "json"), program)


@pytest.mark.parametrize("agent", PLACES)
def test_each_documented_hook_is_one_that_is_understood(agent):
    kinds = importlib.import_module(READERS[agent]).KINDS

    for event, ((group,),) in ((event, [groups]) for event, groups in hooks(agent)["hooks"].items()):
        (handler,) = group["hooks"]
        assert handler["command"] == f"/path/to/oxide-hook {agent} {event}"
        assert event in kinds


def test_the_short_settings_of_the_readme_are_some_of_them():
    readme = (ROOT / "README.md").read_text("utf-8").split("### Let the agent tell")[1].split("\n### ")[0]
    (found,) = re.findall(r"^```json\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)

    assert json.loads(found)["hooks"] == {
        event: hooks("claude")["hooks"][event] for event in ("UserPromptSubmit", "Stop")
    }


def test_the_lines_that_name_the_fast_command_print_one_that_works(tmp_path, openoxide_home):
    script = tmp_path / "bin" / "oxide-hook"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    openoxide_home.mkdir()
    (openoxide_home / "timeline.db").touch()
    environ = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    printed = subprocess.run(["sh", "-c", code("The command", "sh")], env=environ, capture_output=True, check=True)
    subprocess.run([*printed.stdout.decode().split(), "claude", "Stop"], input=b"{}", timeout=LATE_SECONDS, check=True)

    assert len(list((openoxide_home / "spool").iterdir())) == 1


STAGING = ".openoxide-staging/"
# of the scripted turn: a read, an edit and a write; Codex reads with a shell
TOOLS = {"claude": ["tool"] * 2, "codex": ["tool"] * 3, "gemini": ["tool"] * 2}


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agent", PLACES)
def test_a_turn_of_the_real_agent_is_declared_with_its_tool_calls(agent, clients, machine, tmp_path):
    need(clients, agent)
    clients.make_project(machine.project)
    before = clients.tree(machine.project)
    machine.json("watch")
    with scripted(clients, "basic", machine.project, tmp_path) as model:
        environ = {"OPENOXIDE_HOME": str(machine.home)}
        client = clients.Client(agent, model, tmp_path / "user", env=environ, args=ARGUMENTS.get(agent, []))
        configure(agent, client.home, hooks(agent, HOOK))
        if agent == "codex":
            trust_hooks(clients, client)
        turn = client.start("[[t1]] edit")

    def prompts():
        return [item for item in machine.json("log")["items"] if item["trigger"] == "prompt"]

    (prompt,) = wait_until(prompts, LATE_SECONDS)
    assert (prompt["agent"], prompt["session"]) == (agent, turn.session)
    wait_until(lambda: all(ended for _, ended in windows(machine)), LATE_SECONDS)
    assert [kind for kind, _ in windows(machine)] == ["turn", *TOOLS[agent]]
    (machine.project / "mine.txt").write_text("by the user\n")
    written = {item["path"]: item["certainty"] for item in machine.json("diff", f"turn:{prompt['prompt']}")["items"]}
    sure = {"app.py", "new.txt"} if agent != "codex" else {"new.txt"}
    # a hook that gets no processor within its deadline tells nothing: then a call is not surely the writer
    assert {path for path, certainty in written.items() if certainty == "sure"} <= sure
    assert {written["app.py"], written["new.txt"]} <= {"sure", "likely"}

    machine.json("rewind", "turn:-1", "--yes")

    after = {name: text for name, text in clients.tree(machine.project).items() if not name.startswith(STAGING)}
    assert after == before | {"mine.txt": "by the user\n"}


def windows(machine):
    """Kind of each window that was declared, and whether it has ended."""
    with closing(sqlite3.connect(f"file:{machine.home / 'timeline.db'}?mode=ro", uri=True)) as db:
        return db.execute("select kind, ended_seq is not null from window order by id").fetchall()
