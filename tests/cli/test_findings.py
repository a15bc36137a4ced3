"""Whole screens of ``check``, and what it exits with."""

from __future__ import annotations

import json

import pytest

from openoxide.cli import findings
from tests.cli.test_commands import CHECKED
from tests.cli.test_render import EVIL, screen

LOOKED = {"versions": 9, "checkpoints": 2, "paths": 4, "contents": 3}


def about(**changes):
    whole = {"root": "/src/app", "paths": [{"path": "a"}], "path_count": 1, "checkpoints": [1], "checkpoint_count": 1}
    return {**whole, **changes}


def problem(kind, *affected, severity="error", **changes):
    whole = {"kind": kind, "severity": severity, "object": "frame 1", "message": "it is wrong", "hint": "bring it back"}
    return {**whole, "affected": [*affected], **changes}


def answer(*problems, **changes):
    return {**CHECKED, "problems": [*problems], "problem_count": len(problems), "checked": LOOKED, **changes}


def test_a_sound_store():
    assert findings.check(answer()) == screen("""
        nothing is wrong
        looked at 2 checkpoints, 9 versions, 4 paths, 3 contents
        no content was read: --read-data does that
    """)


def test_problems_stand_by_kind_the_worst_first():
    many = about(
        paths=[{"path": f"p{n}"} for n in range(20)], path_count=31, checkpoints=[1, 2, 3, 4], checkpoint_count=4
    )
    mode = problem("mode", severity="warning", object="/h", message="others may", hint="doctor")
    found = answer(mode, problem("content", many), problem("frame", about()), problem("content", object="frame 2"))

    assert findings.check(
        {**found, "problem_count": 7, "checked": {**LOOKED, "read": 3}, "bytes_read": 2048}
    ) == screen("""
        error    contents that are not what they were: 2
                 frame 1: it is wrong
                   in /src/app: 31 paths (p0, p1, p2, ...), 4 checkpoints (#1, #2, #3, ...)
                 frame 2: it is wrong
                 bring it back
        error    places in packs that hold something else: 1
                 frame 1: it is wrong
                   in /src/app: 1 path (a), 1 checkpoint (#1)
                 bring it back
        warning  rights of others: 1
                 /h: others may
                 doctor
        and 3 problems more
        looked at 2 checkpoints, 9 versions, 4 paths, 3 contents
        read 3 contents, 2.0 KiB
    """)


def test_what_sqlite_says_is_one_line_for_a_table_or_for_all_that_say_the_same():
    pages = [problem("sqlite", object=f"table blob: page {n}", message="SQLite finds it damaged") for n in range(20)]
    rows = [problem("unreadable", object=table, message="no database") for table in ("blob", "gap", "head", "live")]
    found = answer(*pages, *rows)

    assert (
        findings.check(found).splitlines()[:6]
        == screen("""
        error    SQLite's own structure: 20
                 table blob: page 0: SQLite finds it damaged (and 19 more, -v lists all)
                 bring it back
        error    rows that cannot be read: 4
                 blob, gap, head and 1 more: no database
                 bring it back
    """).splitlines()
    )
    assert sum("page" in line for line in findings.check(found, verbose=True).splitlines()) == 20


def test_what_a_repair_makes_anew_is_a_line_for_each_table():
    structure = [*(f"table live: NULL value in live.{n}" for n in range(9)), "table gap: a part of it cannot be read"]
    plan = {"needed": True, "dry_run": True, "structure": structure, "fixes": [], "mended": [], "mended_count": 0}

    text = findings.repair({**plan, "newly_lost": 0, "lost": [], "kept": None})

    assert text.splitlines()[:2] == [
        "would be made anew  table live: NULL value in live.0 (and 8 more, -v lists all)",
        "would be made anew  table gap: a part of it cannot be read",
    ]


def test_a_sample_says_how_it_was_drawn():
    text = findings.check(answer(sampled={"percent": 2.5, "seed": 7}, bytes_read=10, unnamed_count=1))

    assert "read 0 contents, 10 B: a sample of 2.5 %, drawn with --seed 7" in text
    assert "1 file of ours that no row names, which is no harm" in text


def test_what_others_named_reaches_the_screen_escaped():
    evil = problem("content", about(root=EVIL, paths=[{"path": "a"}]), object=EVIL, message=EVIL, hint=EVIL)

    assert all(char.isprintable() or char == "\n" for char in findings.check(answer(evil)))


@pytest.mark.parametrize(
    ("problems", "code", "kind"),
    [
        ([], 0, None),
        ([problem("content")], 7, "store_damaged"),
        ([problem("mode", severity="warning")], 1, "failed"),
        ([problem("mode", severity="warning"), problem("head")], 7, "store_damaged"),
    ],
)
def test_the_exit_code_tells_damage_from_less(run, daemon, problems, code, kind):
    daemon.answers["check"] = answer(*problems)

    ended = run("--json", "check")

    told = json.loads(ended.out)
    assert (ended.code, told["ok"], told["problems"]) == (code, not problems, problems)
    assert told.get("error", {}).get("kind") == kind


@pytest.mark.parametrize("line", ["check --sample lots", "check --seed 3", "check --sample 5% --seed -1"])
def test_what_cannot_be_drawn_is_wrong_usage(run, daemon, line):
    assert run(*line.split()).code == 2
