"""The questions of day one in the README: each answer works as it is typed, in a real project with a real daemon."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import ENTRY

README = Path(__file__).resolve().parents[2] / "README.md"
MAIN = "def main():\n    return 'first'\n"
TYPED_AT_THE_END = {"oxide-ctl uninstall"}  # it asks, and there is nobody here to answer


def answers() -> dict[str, list[str]]:
    """Each question with the command lines of its answer."""
    section = README.read_text("utf-8").split("## The first day")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)[2:]
    return {question: re.findall(r"`((?:oxide-ctl|echo) [^`]+)`", answer) for question, answer in rows}


def agreed(line: str) -> str:
    """``line`` with the yes that a person would give on a terminal."""
    return re.sub(r"(oxide-ctl \w+)", r"\1 --yes", line, count=1)


ANSWERS = answers()


def test_every_question_has_an_answer_that_can_be_typed():
    assert len(ANSWERS) >= 12
    assert all(ANSWERS.values()), ANSWERS


@pytest.fixture
def shell(machine, project, tmp_path):
    """Types a line into a shell in the project; answers with what it printed. No time of a minute ago is known yet."""
    program = tmp_path / "bin" / "oxide-ctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {machine.python} {shlex.join(ENTRY)} "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "OPENOXIDE_HOME": str(machine.home), "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def type_line(line: str) -> str:
        typed = re.sub(r"@(10m|1d)\b", "before", line)
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return type_line


@pytest.fixture
def after_a_turn(project, machine, shell):
    """An agent has changed a file, made one and removed one in the turn that has just ended."""
    main = project / "src/main.py"
    main.parent.mkdir(exist_ok=True)
    main.write_text(MAIN)
    (project / "gone.txt").write_text("gone\n")
    machine.json("checkpoint", "-m", "before")
    machine.json("turn", "begin", "--agent", "codex", "--session", "s", "--prompt", "p")
    main.write_text("def other():\n    return 'second'\n")
    (project / "made.txt").write_text("made\n")
    (project / "gone.txt").unlink()
    machine.json("turn", "end", "--agent", "codex", "--session", "s", "--prompt", "p")
    return main


def test_what_the_agent_did_is_shown_undone_and_done_again(after_a_turn, project, shell):
    shown = shell(ANSWERS["What did the agent just do?"][0])
    assert all(name in shown for name in ("src/main.py", "made.txt", "gone.txt"))

    undo, only_the_turn = ANSWERS["Undo what it just did"]
    assert "rewound" in shell(agreed(undo))
    assert (after_a_turn.read_text(), (project / "gone.txt").exists(), (project / "made.txt").exists()) == (
        MAIN,
        True,
        False,
    )
    back, again = ANSWERS["Take that back"]
    shell(agreed(back))
    assert (project / "made.txt").exists()
    shell(agreed(again))
    assert not (project / "made.txt").exists()
    shell(agreed(back))
    shell(agreed(only_the_turn))
    assert after_a_turn.read_text() == MAIN


def test_a_file_that_is_gone_and_a_line_that_vanished_are_found(after_a_turn, project, shell):
    (listed,) = ANSWERS["My file is gone"]
    (come_back,) = re.findall("`(oxide-ctl rewind [^`]+)`", shell(listed))
    shell(agreed(come_back))
    assert (project / "gone.txt").read_text() == "gone\n"
    after_a_turn.write_text("nothing\n")
    shell("oxide-ctl checkpoint")
    (searched,) = ANSWERS["When did this line vanish, and who did it?"]
    found = shell(searched)
    assert "src/main.py" in found
    assert "codex/s" in found


def test_a_past_version_stands_beside_todays(after_a_turn, project, shell):
    diff, copied = ANSWERS["Yesterday's version beside today's"]
    assert "-def main():" in shell(diff)
    shell(copied)
    assert (project / "main.yesterday.py").read_text() == MAIN


SAID = {
    "What did the agent just do?": "src/main.py",
    "No hooks, no turns: how it was ten minutes ago": "src/main.py",
    "Stop for an hour": "paused",
    "Does it protect me now?": "watching",
    "What do you store, and where?": "contents",
    "Is all of it still sound?": "nothing is wrong",
    "Leave something out": "",
    "Get rid of you": "would be removed",
}


def test_the_other_answers_do_what_they_say(after_a_turn, shell):
    for question, said in SAID.items():
        lines = [line for line in ANSWERS[question] if line not in TYPED_AT_THE_END]
        assert said in "".join(shell(line) for line in lines), question


def test_space_is_given_back_and_a_sound_store_needs_no_mending(after_a_turn, shell):
    plan, prune = ANSWERS["Give space back"]
    assert shell(plan).startswith("plan: ")
    shell(agreed(prune))
    mends, mend = ANSWERS["It is not: mend it"]
    assert "nothing" in shell(mends)
    assert "nothing" in shell(agreed(mend))


def test_a_home_comes_back_from_a_copy_of_it(after_a_turn, shell, tmp_path):
    backup, restore = ANSWERS["What if this disk dies?"]
    copy = tmp_path / "disk" / "openoxide"
    copy.parent.mkdir()
    shell(backup.replace("/mnt/disk/openoxide", str(copy)))
    shell(f"{restore} {copy} --home {tmp_path / 'other'} --yes")
    assert (tmp_path / "other" / "timeline.db").is_file()


def test_a_secret_leaves_the_home(after_a_turn, project, machine, shell):
    (project / ".env").write_text("TOKEN=of a test\n")
    machine.json("checkpoint")
    (project / ".env").unlink()
    purge, purge_note = ANSWERS["A secret was recorded"]
    shell(agreed(purge))
    assert not any(b"of a test" in path.read_bytes() for path in machine.home.rglob("*") if path.is_file())

    machine.json("memory", "save", "howto.md", "--text", "# How to\n\nread it\n")
    machine.json("memory", "edit", "howto.md", "--replace", "read it", "--with", "ask")
    shell(agreed(purge_note.replace("NAME", "howto.md")))
    versions = machine.json("memory", "history", "howto.md")["items"]
    assert [version["reason"] for version in versions] == ["", "purged"]


def test_agents_share_notes(after_a_turn, shell):
    shown, saved, blamed = ANSWERS["What do my agents know of this project?"]
    shell(saved)
    assert "howto.md" in shell(shown)
    assert "howto.md" in shell(blamed)


def test_every_answer_is_tried():
    elsewhere = {"Undo what it just did", "Take that back", "My file is gone"}
    elsewhere |= {"Give space back", "It is not: mend it", "What if this disk dies?", "A secret was recorded"}
    elsewhere |= {"What do my agents know of this project?"}
    elsewhere |= {"When did this line vanish, and who did it?", "Yesterday's version beside today's"}
    assert ANSWERS.keys() == SAID.keys() | elsewhere
