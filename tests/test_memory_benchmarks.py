"""The figures of a project's memory: every row comes out, each with its target, and a writer that loses a note is seen."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import memoryjob
import notetakers
import pytest
from noted import index_of, name_of, text_of
from report import Measured
from run import main

from openoxide.memory.index import entries
from openoxide.memory.lint import lint

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "run.py"
AGENTS = ("claude", "codex", "opencode", "gemini", "aider")
ROWS = [
    ("index", "load of an index of 200 lines"),
    ("index", "load of an index of 1 MB"),
    ("index", "`oxide-ctl memory index`"),
    *(("context", f"context of 50 topics for {agent}") for agent in AGENTS),
    *(("context", f"hook: start of a session of {agent}, with 50 topics") for agent in ("claude", "codex", "gemini")),
    ("search", "first search over 2,000 topics after a start"),
    ("search", "search over 2,000 topics after a change of one"),
    ("save", "save of a new topic, 50 in a row"),
    ("append", "append by 8 processes, by the library"),
    ("append", "append by 8 processes, by the socket"),
    ("seal", "checkpoint with 1 changed file: what a memory of 50 topics adds"),
    ("seal", "checkpoint with nothing changed: what a memory of 50 topics adds"),
]


def claims(**given):
    options = argparse.Namespace(**{"files": None, "rounds": None, "quick": False, "only": None} | given)
    return [(task, claim) for task in memoryjob.tasks(None, options) for claim in task.claims]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_run_writes_every_row_and_leaves_nothing_behind(tmp_path):
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    scratch.mkdir()
    small = ["--files", "60", "--rounds", "1", "--scratch", scratch, "--results", results]

    done = subprocess.run([sys.executable, PROGRAM, "--memory", *small], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((results / "memory.json").read_text("utf-8"))
    rows = {row["claim"]["what"]: row for row in report["rows"]}
    assert [(row["claim"]["figure"], what) for what, row in rows.items()] == ROWS
    assert all(row["measured"] is not None for row in rows.values()), report["rows"]
    # whatever the load: nothing that eight processes wrote is lost
    assert [row["verdict"] for row in rows.values() if row["claim"]["figure"] == "append"] == ["met", "met"]
    table = (results / "memory.md").read_text("utf-8")
    assert all(f"| {what} |" in table and row["command"] in table for what, row in rows.items())
    assert list(scratch.iterdir()) == []


def test_a_run_holds_each_figure_and_its_target():
    found = claims()

    assert [(claim.figure, claim.what) for _, claim in found] == ROWS
    assert {claim.files for _, claim in found} == {2_000}
    targets = {claim.what: claim.targets for _, claim in found if claim.targets}
    assert targets == {
        "load of an index of 200 lines": {"ms_median": 5},
        "load of an index of 1 MB": {"ms_median": 5},
        **{what: {"unanswered": 0} for _, what in ROWS if what.startswith("hook: ")},
        **{what: {"wrong": 0} for figure, what in ROWS if figure == "append"},
    }


def test_what_is_asked_for_is_measured_and_said():
    ((task, _),) = claims(only=["save"], quick=True, files=60)

    assert (task.rounds, task.again) == (3, "--files 60 --rounds 3")


def test_a_note_that_is_missing_twice_there_or_of_nobody_is_counted(tmp_path):
    note = tmp_path / "log.md"
    lines = [f"- w{number} {entry}" for number in range(notetakers.WRITERS) for entry in range(notetakers.ENTRIES)]

    note.write_text("\n".join(lines) + "\n")
    assert notetakers.wrong(note) == 0
    note.write_text("\n".join([lines[1], "of nobody", *lines[1:]]) + "\n")
    assert notetakers.wrong(note) == 3


def test_the_rate_is_that_of_all_writers():
    found = notetakers.summed_up([(2.0, 0), (4.0, 1), (1.0, 0)], "")

    assert isinstance(found, Measured)
    assert found.values == {"wrong": 1, "entries_per_s_median": 800}
    assert "4,799 of 4,800 kept" in found.summary


def test_the_notes_that_are_measured_are_sound():
    topics = {name_of(number): text_of(number) for number in range(60)}

    index = index_of(60)

    assert [entry.name for entry in entries(index)] == list(topics)
    assert [finding for finding in lint(index, topics) if finding.is_error] == []


def test_what_is_no_part_of_it_is_a_mistake(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--memory", "--only", "rest"])

    assert ended.value.code == 2
    assert "no figure rest here; there are: index," in capsys.readouterr().err
