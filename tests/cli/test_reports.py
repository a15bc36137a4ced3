"""Findings about trees and about the installation, as people read them."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from openoxide.cli import reports

SURVEY = {
    "ok": True,
    "dry_run": True,
    "root": "/src/app",
    "watching": False,
    "files": 3,
    "bytes": 2048,
    "new_files": 3,
    "new_bytes": 2048,
    "skipped": 4,
    "skips": [
        {
            "reason": "too_large",
            "count": 3,
            "bytes": 3 << 20,
            "largest": [{"path": f"{n}.bin", "size_bytes": 1 << 20} for n in "abc"],
        },
        {"reason": "dependencies", "count": 1, "bytes": 0, "largest": [{"path": "node_modules"}]},
    ],
    "lookalikes": [],
    "secrets": [{"path": ".env", "size_bytes": 12}],
}


def test_what_an_unwatch_would_do_is_said():
    plan = {"root": "/src/app", "checkpoints": 3}
    assert reports.unwatching(plan, delete_history=False).endswith("its history, 3 checkpoints, stays readable")
    assert reports.unwatching(plan, delete_history=True).endswith("is deleted with it, which cannot be undone")


def test_what_stays_of_a_deleted_history_is_said():
    gone = {"root": "/src/app", "remaining_bytes": 0, "memories": []}
    assert reports.unwatched(gone) == "no longer watching /src/app"
    told = reports.unwatched({**gone, "remaining_bytes": 2048}).splitlines()[1]
    assert told.startswith("2.0 KiB of its history stay readable on disk, in packs")
    # and what README says of it: a prune does, from a third on
    assert "`oxide-ctl prune` writes a pack anew without them" in told
    assert "more than a third of it" in told
    assert told.endswith("`oxide-ctl uninstall` removes all")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"history_deleted": True},
            "its notes (2 files) stay in /h/memory; their history is deleted too, and no project",
        ),
        ({}, "its notes (2 files) stay in /h/memory; other worktrees of the project have them"),
        (
            {"worktree": "2", "history_deleted": True, "command": "oxide-ctl memory promote --from 2"},
            "its own notes (2 files) stay in /h/memory; their history is deleted too; `oxide-ctl memory promote --from 2`",
        ),
    ],
)
def test_what_becomes_of_the_notes_of_a_deleted_history_is_said(more, said):
    notes = {"worktree": "", "path": "/h/memory", "files": 2, "versions": 5, "history_deleted": False, "command": None}
    answer = {"root": "/src/app", "remaining_bytes": 0, "memories": [{**notes, **more}]}
    assert reports.unwatched(answer).splitlines()[1].startswith(said)


def test_a_survey_reads_as_a_short_page():
    assert reports.survey(SURVEY).splitlines() == [
        "/src/app would be watched and has to copy: 3 files, 2.0 KiB, 4 skipped",
        "left out:",
        "  too_large     3  3.0 MiB  a.bin (1.0 MiB), b.bin (1.0 MiB), ...",
        "  dependencies  1           node_modules",
        "likely secrets that would be copied, judged by name alone:",
        "  .env (12 B)",
    ]


@pytest.mark.parametrize(
    ("new_files", "told"),
    [(0, "nothing"), (1, "1 new or changed file, 12 B"), (2, "2 new or changed files, 12 B")],
)
def test_a_survey_of_a_watched_tree_tells_what_is_new(new_files, told):
    plain = {**SURVEY, "skips": [], "skipped": 0, "secrets": [], "watching": True, "new_bytes": 12}

    line = reports.survey({**plain, "new_files": new_files})

    assert line == f"/src/app is watched already; of 3 files, 2.0 KiB it has to copy {told}, 0 skipped"


def test_secrets_of_a_watched_tree_are_copied_already():
    assert "likely secrets that are copied" in reports.survey({**SURVEY, "watching": True})


@pytest.mark.parametrize("reason", ["recreated", "same_directory", "same_head", "same_origin", "of a later version"])
def test_a_likeness_names_the_command_that_says_it(reason):
    note = reports.lookalike("/old one", "/new", reason)

    assert "`oxide-ctl projects move '/old one' /new`" in note
    assert "`oxide-ctl projects join '/old one' /new`" in note


def test_a_directory_made_anew_has_nothing_to_be_joined_with():
    note = reports.lookalike("/here", "/here", "recreated")

    assert "join" not in note
    assert "`oxide-ctl projects move /here /here` (the same path, a new directory)" in note


def test_the_times_of_findings_are_those_of_the_reader():
    told = "paused until 2026-11-29T12:00:00.000Z"
    problem = {"kind": "k", "severity": "note", "message": told, "hint": told, "fixed": False}

    lines = reports.doctor({"problems": [problem], "daemon": None}, timezone(timedelta(hours=1))).splitlines()

    assert [line.endswith("paused until 2026-11-29 13:00:00") for line in lines[1:]] == [True, True]


def test_findings_come_with_what_to_do():
    problem = {"kind": "k", "severity": "warning", "message": "it leaks", "hint": "close it", "fixed": False}
    daemon = {"pid": 1, "version": "0.1.0", "home": "/h", "side": {}}

    assert reports.doctor({"problems": [problem, {**problem, "fixed": True}], "daemon": daemon}).splitlines() == [
        "daemon 0.1.0, pid 1, home /h",
        "warning  it leaks",
        "         close it",
        "fixed    it leaks",
    ]


@pytest.mark.parametrize(
    ("kind", "told"),
    [("daemon_unreachable", "no daemon answers"), ("version_mismatch", "nothing is known of the daemon")],
)
def test_only_a_daemon_that_cannot_be_reached_is_said_not_to_answer(kind, told):
    problem = {"kind": kind, "severity": "error", "message": "m", "hint": "", "fixed": False}

    assert reports.doctor({"problems": [problem], "daemon": None}).splitlines()[0] == told


def test_an_uninstall_says_what_went_and_what_stays():
    answer = {
        "dry_run": False,
        "home": "/h",
        "removed": [{"path": "/h/blobs", "size_bytes": 1024}],
        "kept": [{"path": "/h/timeline.db", "size_bytes": 1}],
        "left": [{"path": "/h/notes", "reason": "not_ours"}],
        "notes": ["a note"],
        "package": "python -m pip uninstall openoxide",
    }

    assert reports.uninstall(answer).splitlines() == [
        "removed  /h/blobs (1.0 KiB)",
        "kept  /h/timeline.db (1 B)",
        "left  /h/notes  (not_ours)",
        "a note",
        "the program itself: python -m pip uninstall openoxide",
    ]
    assert reports.uninstall({**answer, "dry_run": True}).startswith("would be removed  /h/blobs")
