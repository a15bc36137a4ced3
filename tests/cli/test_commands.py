"""What each command asks the daemon for, and what becomes of the answer: streams, exit code, JSON."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY

import pytest

from openoxide import __version__
from openoxide.checkpoints.schema import open_timeline
from openoxide.cli import catalogue
from openoxide.errors import (
    EXIT_CODES,
    AmbiguousError,
    ConflictError,
    NotFoundError,
    StoreDamagedError,
    StoreReadOnlyError,
    VersionMismatchError,
)
from openoxide.surroundings import this_side
from tests.cli.answers import (
    BLAMED,
    CONTEXT,
    HITS,
    INDEX,
    LINTED,
    MARKED,
    NOON,
    NOTE,
    NOTED,
    NOTES,
    PROMOTED,
    REVERTED,
    REVIEW,
    TOPICS,
    WRITTEN,
    checkpoint,
    difference,
    planned,
    rewound,
    shown,
    status,
)
from tests.kit import tree_of

SEALED = {"ok": True, **checkpoint()}
BEGUN = {"ok": True, "turn": "p", "tool": None, "checkpoint": checkpoint(), "notes": []}
CALLED = {**BEGUN, "tool": "t"}
ITEMS = {"ok": True, "items": []}
WATCHED = {
    "ok": True,
    "project": "app",
    "worktree": 1,
    "root": "/src/app",
    "checkpoint": checkpoint(),
    "files": 3,
    "bytes": 2048,
    "skipped": 2,
    "created": True,
    "notes": [],
    "lookalikes": [],
}
FORGOTTEN = {"ok": True, "dry_run": False, "forgotten": [checkpoint()], "kept": [], "freed_bytes": 0, "notes": []}
EXPIRED = {
    "ok": True,
    "dry_run": False,
    "forgotten": [{**checkpoint(), "root": "/src/app", "reason": "thinned"}],
    "released": [],
    "kept": [],
    "freed_bytes": 0,
    "notes": [],
    "retention": {"paused": False, "reason": "", "why": "", "hint": "", "refused": []},
}
SEARCHED = {**ITEMS, "searched": 3, "searched_bytes": 5, "binary": 0, "damaged": 0}
MEASURED = {"ok": True, "home": "/h", "total_bytes": 1, "freeable_bytes": 0, "trash_bytes": 0, "dedup_ratio": None} | {
    "compression_ratio": None,
    "kinds": [],
    "parts": [],
    "projects": [],
    "worktrees": [],
}
EXAMINED = {
    "ok": True,
    "problems": [],
    "daemon": {"pid": 1, "version": __version__, "home": "/h", "side": this_side({})._asdict()},
}
PURGED = {"ok": True, "dry_run": False, "finished": True, "plan": "abc", "contents": 1, "freed_bytes": 10, "paths": []} | {
    "places": {"versions": 1}, "left": [], "out_of_reach": ["backups"], "notes": [], "refused": None
}  # fmt: skip
MOVED = {"ok": True, "old_root": "/old", "root": "/new", "checkpoint": checkpoint()}
JOINED = {"ok": True, "project": "p", "roots": ["/a", "/b"]}
UNWATCHED = {
    "ok": True,
    "dry_run": False,
    "root": "/src/app",
    "checkpoints": 1,
    "history_deleted": True,
    "remaining_bytes": 0,
    "memories": [],
}
PAUSED = {"ok": True, "root": "/src/app", "paused_at": NOON, "paused_until": NOON, "checkpoint": checkpoint()}
COPIED = {"ok": True, "to": "/x", "written": [{"path": "a"}], "skipped": [], "notes": []}
PRUNED = {"ok": True, "dry_run": False, "freed_bytes": 5 << 20, "versions": 3, "contents": 2, "packs": 1} | {
    "damaged": 0,
    "lacking_bytes": 0,
    "notes": ["a note"],
}
CHECKED = {"ok": True, "problems": [], "problem_count": 0, "checked": {}, "bytes_read": 0, "sampled": None} | {
    "unnamed": [],
    "unnamed_count": 0,
}
BACKED_UP = {
    "ok": True,
    "dry_run": False,
    "to": "/disk",
    "home": "/home/ada/.openoxide",
    "updated": True,
    "files": 12,
    "bytes": 5_000_000,
    "copied_files": 2,
    "copied_bytes": 70_000,
    "free_bytes": 9_000_000_000,
    "checkpoints": 31,
    "same_disk": False,
    "mended": [],
    "damaged": 0,
    "skipped": [],
    "notes": [],
}
HERE = "/work"
PLAIN_REWIND = {"checkpoint": "42", "exact": False, "conflict": "keep", "touch": False, "paths": [], "dry_run": False}
ONLY_P = {**{key: value for key, value in PLAIN_REWIND.items() if key != "checkpoint"}, "turn": "p"}

ASKED = [
    ("status", "status", status(), {}),
    ("projects", "projects", ITEMS, {}),
    ("projects move old /new --yes", "projects_move", MOVED, {"old": f"{HERE}/old", "new": "/new", "yes": True}),
    ("projects join /a b", "projects_join", JOINED, {"a": "/a", "b": f"{HERE}/b"}),
    ("doctor --fix", "doctor", EXAMINED, {"fix": True}),
    ("du", "du", MEASURED, {}),
    ("check", "check", CHECKED, {"read_data": False}),
    ("check --read-data", "check", CHECKED, {"read_data": True}),
    ("check --sample 2.5% --seed 7", "check", CHECKED, {"read_data": False, "sample": 2.5, "seed": 7}),
    ("backup /disk", "backup", BACKED_UP, {"to": "/disk", "dry_run": False}),
    ("backup disk --dry-run", "backup", BACKED_UP, {"to": f"{HERE}/disk", "dry_run": True}),
    ("prune --yes", "prune", PRUNED, {"dry_run": False}),
    ("prune --dry-run", "prune", PRUNED, {"dry_run": True}),
    ("stop", "stop", {"ok": True}, {}),
    ("watch", "watch", WATCHED, {"path": HERE, "allow_broad": False}),
    ("watch sub --allow-broad", "watch", WATCHED, {"path": f"{HERE}/sub", "allow_broad": True}),
    ("unwatch", "unwatch", UNWATCHED, {"path": HERE, "delete_history": False, "dry_run": False}),
    (
        "unwatch --delete-history --dry-run",
        "unwatch",
        {**UNWATCHED, "dry_run": True},
        {"path": HERE, "delete_history": True, "dry_run": True},
    ),
    (
        "unwatch /x --delete-history --yes",
        "unwatch",
        {**UNWATCHED, "remaining_bytes": 2048},
        {"path": "/x", "delete_history": True, "dry_run": False},
    ),
    ("pause --for 1h", "pause", PAUSED, {"path": HERE, "for_ms": 3_600_000}),
    ("pause /", "pause", {**PAUSED, "paused_until": None}, {"path": "/"}),
    ("unpause", "unpause", {**PAUSED, "paused_at": None}, {"path": HERE}),
    ("checkpoint", "checkpoint", SEALED, {"path": HERE, "pin": False}),
    ("checkpoint -m n --pin", "checkpoint", SEALED, {"path": HERE, "name": "n", "pin": True}),
    ("log", "log", ITEMS, {"path": HERE, "all": False, "named": False}),
    (
        "log --limit 3 --all --named --session s --since @2h",
        "log",
        ITEMS,
        {"path": HERE, "limit": 3, "all": True, "named": True, "session": "s", "since": "@2h"},
    ),
    ("pin 42", "pin", SEALED, {"path": HERE, "checkpoint": "42"}),
    ("unpin 42", "unpin", SEALED, {"path": HERE, "checkpoint": "42"}),
    ("name 42 good", "name", SEALED, {"path": HERE, "checkpoint": "42", "name": "good"}),
    ("forget 42 x --yes", "forget", FORGOTTEN, {"path": HERE, "checkpoints": ["42", "x"], "dry_run": False}),
    ("forget 42 --dry-run", "forget", FORGOTTEN, {"path": HERE, "checkpoints": ["42"], "dry_run": True}),
    (
        "purge a b --yes",
        "purge",
        PURGED,
        {"path": HERE, "paths": [f"{HERE}/a", f"{HERE}/b"], "memory": [], "blobs": [], "dry_run": False},
    ),
    (
        "purge --memory a.md howto/b.md --yes",
        "purge",
        PURGED,
        {"path": HERE, "paths": [], "memory": ["a.md", "howto/b.md"], "blobs": [], "dry_run": False},
    ),
    (
        "purge --blob beef --dry-run",
        "purge",
        PURGED,
        {"path": HERE, "paths": [], "memory": [], "blobs": ["beef"], "dry_run": True},
    ),
    ("expire --yes", "expire", EXPIRED, {"dry_run": False, "force": False, "trash": False}),
    ("expire --dry-run", "expire", EXPIRED, {"dry_run": True, "force": False, "trash": False}),
    ("expire --force --yes", "expire", EXPIRED, {"dry_run": False, "force": True, "trash": False}),
    ("expire --trash --yes", "expire", EXPIRED, {"dry_run": False, "force": False, "trash": True}),
    ("unforget 42 x", "unforget", {"ok": True, "items": [checkpoint()]}, {"path": HERE, "checkpoints": ["42", "x"]}),
    ("show 42", "show", shown(), {"path": HERE, "checkpoint": "42"}),
    ("diff a", "diff", ITEMS, {"path": HERE, "a": "a", "paths": [], "patch": False}),
    (
        "diff a b --patch -- x ../y /z",
        "diff",
        ITEMS,
        {"path": HERE, "a": "a", "b": "b", "paths": [f"{HERE}/x", "/y", "/z"], "patch": True},
    ),
    ("cat 42 x/../a", "cat", b"", {"path": HERE, "checkpoint": "42", "file": f"{HERE}/a"}),
    (
        "history x/../a --limit 3",
        "history",
        ITEMS,
        {"path": HERE, "file": f"{HERE}/a", "deleted": False, "paths": [], "limit": 3},
    ),
    ("history --deleted -- a", "history", ITEMS, {"path": HERE, "deleted": True, "paths": [f"{HERE}/a"]}),
    (
        "history --search def --binary --limit 2 -- a",
        "history",
        SEARCHED,
        {"path": HERE, "search": "def", "binary": True, "paths": [f"{HERE}/a"], "limit": 2},
    ),
    (
        "restore 42 --to out -- a",
        "restore",
        COPIED,
        {"path": HERE, "checkpoint": "42", "to": f"{HERE}/out", "paths": [f"{HERE}/a"], "force": False},
    ),
    (
        "restore 42 --to out --partial",
        "restore",
        COPIED,
        {"path": HERE, "checkpoint": "42", "to": f"{HERE}/out", "paths": [], "force": False, "partial": True},
    ),
    ("rewind 42 --yes", "rewind", rewound(), {"path": HERE, **PLAIN_REWIND}),
    ("rewind 42 --partial --yes", "rewind", rewound(), {"path": HERE, **PLAIN_REWIND, "partial": True}),
    ("rewind 42 --dry-run", "rewind", planned(), {"path": HERE, **PLAIN_REWIND, "dry_run": True}),
    (
        "rewind 42 --yes --scope all --exact --conflict overwrite --touch --code --no-memory -- a",
        "rewind",
        rewound(),
        {
            "path": HERE,
            **PLAIN_REWIND,
            "scope": "all",
            "exact": True,
            "conflict": "overwrite",
            "touch": True,
            "paths": [f"{HERE}/a"],
        },
    ),
    ("rewind --turn p --only --yes", "rewind", rewound(), {"path": HERE, **ONLY_P}),
    ("rewind --turn=-1 --only --dry-run", "rewind", planned(), {"path": HERE, **ONLY_P, "turn": "-1", "dry_run": True}),
    ("rewind --continue", "settle", rewound(), {"path": HERE, "action": "continue"}),
    ("rewind --abort", "settle", rewound(), {"path": HERE, "action": "abort"}),
    ("undo --yes", "undo", rewound(kind="undo"), {"path": HERE, "count": 1, "dry_run": False}),
    ("undo 2 --dry-run", "undo", planned(kind="undo"), {"path": HERE, "count": 2, "dry_run": True}),
    ("redo 3 --yes", "redo", rewound(kind="redo"), {"path": HERE, "count": 3, "dry_run": False}),
    ("rewind 42 --yes --memory", "rewind", rewound(memory=NOTED), {"path": HERE, **PLAIN_REWIND, "memory": True}),
    ("memory index", "memory_index", INDEX, {"path": HERE}),
    (
        "memory context --agent codex --file a",
        "memory_context",
        CONTEXT,
        {"path": HERE, "agent": "codex", "file": f"{HERE}/a", "write": False, "environ": ANY},
    ),
    ("memory topics", "memory_topics", TOPICS, {"path": HERE}),
    ("memory read a.md", "memory_read", NOTE, {"path": HERE, "name": "a.md", "raw": False}),
    (
        "memory read a.md --at 3 --raw",
        "memory_read_version",
        NOTE,
        {"path": HERE, "name": "a.md", "version": 3, "raw": True},
    ),
    (
        "memory save a.md --text x --title T --description D --section S --if-hash h",
        "memory_save",
        WRITTEN,
        {"path": HERE, "name": "a.md", "text": "x\n", "title": "T", "description": "D", "section": "S", "if_hash": "h"},
    ),
    ("memory edit a.md --append x", "memory_edit", WRITTEN, {"path": HERE, "name": "a.md", "append": "x"}),
    (
        "memory edit a.md --replace x --with y --if-hash h",
        "memory_edit",
        WRITTEN,
        {"path": HERE, "name": "a.md", "old": "x", "text": "y", "if_hash": "h"},
    ),
    (
        "memory edit a.md --insert 0 --text y",
        "memory_edit",
        WRITTEN,
        {"path": HERE, "name": "a.md", "line": 0, "text": "y"},
    ),
    ("memory delete a.md --yes", "memory_delete", WRITTEN, {"path": HERE, "name": "a.md"}),
    ("memory rename a.md b.md", "memory_rename", WRITTEN, {"path": HERE, "name": "a.md", "new": "b.md"}),
    ("memory search x --limit 2", "memory_search", HITS, {"path": HERE, "text": "x", "limit": 2}),
    ("memory history a.md --limit 2", "memory_history", NOTES, {"path": HERE, "name": "a.md", "limit": 2}),
    ("memory blame a.md", "memory_blame", BLAMED, {"path": HERE, "name": "a.md"}),
    (
        "memory revert a.md --to 0",
        "memory_revert",
        REVERTED,
        {"path": HERE, "name": "a.md", "version": 0, "gone": False},
    ),
    ("memory revert --gone", "memory_revert", REVERTED, {"path": HERE, "gone": True}),
    ("memory promote --yes", "memory_promote", PROMOTED, {"path": HERE, "dry_run": False}),
    ("memory promote --from 7 --dry-run", "memory_promote", PROMOTED, {"path": HERE, "from": "7", "dry_run": True}),
    (
        "memory promote --from x --yes",
        "memory_promote",
        PROMOTED,
        {"path": HERE, "from": f"{HERE}/x", "dry_run": False},
    ),
    ("memory review", "memory_review", REVIEW, {"path": HERE}),
    (
        "memory review --accept a.md b.md",
        "memory_mark",
        MARKED,
        {"path": HERE, "names": ["a.md", "b.md"], "standing": "verified", "all": False},
    ),
    ("memory review --accept --all", "memory_mark", MARKED, {"path": HERE, "standing": "verified", "all": True}),
    ("memory review a.md --reject --yes", "memory_reject", REVERTED, {"path": HERE, "names": ["a.md"], "all": False}),
    ("memory review --reject --all --yes", "memory_reject", REVERTED, {"path": HERE, "all": True}),
    (
        "memory verify a.md --if-hash h",
        "memory_mark",
        MARKED,
        {"path": HERE, "names": ["a.md"], "standing": "verified", "all": False, "if_hash": "h"},
    ),
    (
        "memory dispute a.md",
        "memory_mark",
        MARKED,
        {"path": HERE, "names": ["a.md"], "standing": "disputed", "all": False},
    ),
    ("memory lint", "memory_lint", LINTED, {"path": HERE}),
    ("operations --limit 2", "operations", ITEMS, {"path": HERE, "limit": 2}),
    (
        "turn begin --agent a --session s --prompt p",
        "turn_begin",
        BEGUN,
        {"path": HERE, "agent": "a", "session": "s", "prompt": "p"},
    ),
    ("turn end --agent a --session s", "turn_end", BEGUN, {"path": HERE, "agent": "a", "session": "s"}),
    (
        "tool begin --agent a --session s --tool t",
        "tool_begin",
        CALLED,
        {"path": HERE, "agent": "a", "session": "s", "tool": "t"},
    ),
    (
        "tool end --agent a --session s --tool t",
        "tool_end",
        CALLED,
        {"path": HERE, "agent": "a", "session": "s", "tool": "t"},
    ),
]


@pytest.mark.parametrize(("line", "name", "answer", "request_fields"), ASKED, ids=[case[0] for case in ASKED])
def test_a_command_asks_the_daemon_once_and_prints_its_answer(run, daemon, line, name, answer, request_fields):
    daemon.answers[name] = answer

    ended = run("-C", HERE, *line.split())

    assert (ended.code, daemon.requests, ended.complaint) == (0, [(name, request_fields)], "")
    assert ended.text or answer in (ITEMS, b"")


@pytest.mark.parametrize(("line", "name", "answer", "request_fields"), ASKED, ids=[case[0] for case in ASKED])
def test_json_is_the_daemons_answer_in_one_object(run, daemon, line, name, answer, request_fields):
    daemon.answers[name] = answer

    ended = run("--json", "-C", HERE, *line.split())

    if name == "doctor":
        assert [p for p in ended.json["problems"] if p["severity"] != "note"] == []
    elif name == "cat":
        assert ended.out == answer
    elif name == "stop":
        assert ended.json == {"ok": True, "stopped": True}
    else:
        assert ended.json == {"ok": True, **answer}


def test_every_command_is_asked_for_here():
    asked = {line if line in catalogue.COMMANDS else line.split(" -")[0] for line, *_ in ASKED}

    # three act by themselves (test_end_to_end_projects.py, _repair.py, _backup.py), one may not fail (test_completion.py)
    elsewhere = {"uninstall", "repair", "restore-home", "completion"}
    without_daemon = {name for name in catalogue.COMMANDS if name.startswith("config ")}
    assert catalogue.COMMANDS.keys() - without_daemon - elsewhere <= {
        " ".join(line.split()[:words]) for line in asked for words in (1, 2)
    }


@pytest.mark.parametrize("line", ["checkpoint", "watch"])
def test_quiet_prints_the_id_alone(run, daemon, line):
    daemon.answers |= {"checkpoint": SEALED, "watch": WATCHED}

    assert run("-q", line).text == SEALED["id"] + "\n"


@pytest.mark.parametrize("content", [b"", b"\x00\xff\r\n\x1b[2J", b"no newline", bytes(range(256)) * 4_096])
def test_cat_writes_the_bytes_and_nothing_else(run, daemon, content):
    daemon.answers["cat"] = content

    ended = run("cat", "1", "f")

    assert (ended.code, ended.out, ended.err) == (0, content, b"")


@pytest.mark.parametrize(
    ("error", "code"),
    [pytest.param(cls, code, id=cls.__name__) for cls, code in EXIT_CODES.items() if cls is not StoreReadOnlyError],
)
def test_an_error_of_the_daemon_becomes_its_exit_code(run, daemon, error, code):
    daemon.answers["status"] = error("it went wrong", hint="do this")

    as_text, as_json = run("status"), run("status", "--json")

    assert (as_text.code, as_text.out, as_text.complaint) == (code, b"", "oxide-ctl: it went wrong\nhint: do this\n")
    assert (as_json.code, as_json.err) == (code, b"")
    assert as_json.json == {
        "ok": False,
        "error": {"kind": error.kind, "message": "it went wrong", "hint": "do this"},
    }


def test_what_needs_a_store_that_can_be_written_means_six(run, daemon):
    daemon.answers["checkpoint"] = StoreReadOnlyError("the disk is read-only")

    ended = run("--json", "checkpoint")

    assert (ended.code, ended.json["error"]["kind"]) == (6, "store_read_only")


def test_an_error_is_escaped_but_keeps_its_lines(run, daemon):
    daemon.answers["show"] = NotFoundError("no\x1b[2J\nsuch", hint="\u202edo")

    assert run("show", "x").complaint == "oxide-ctl: no\\x1b[2J\nsuch\nhint: \\u202edo\n"


def test_candidates_and_affected_paths_are_listed(run, daemon):
    named = {"id": "kmqz", "number": 3, "created_at": "2026-11-29T12:00:00.000Z", "name": "n\x1b"}
    daemon.answers["show"] = [
        AmbiguousError("`k` fits 2", details={"candidates": [named]}),
        StoreDamagedError("bytes are missing", details={"paths": ["a", {"path": "b"}]}),
    ]

    assert run("show", "k").complaint == "oxide-ctl: `k` fits 2\n  #3  kmqz  n\\x1b  2026-11-29 12:00:00\n"
    assert run("show", "k").complaint == "oxide-ctl: bytes are missing\n  a\n  b\n"


def test_times_that_the_daemon_tells_are_told_in_the_zone_of_the_reader(run, daemon, in_japan):
    daemon.answers["show"] = NotFoundError("nothing is kept of 2026-11-29T12:00:00.000Z", hint="the time")
    daemon.answers["rewind"] = planned(notes=["2026-11-29T12:00:00.000Z: taken is #1"])
    daemon.answers["forget"] = {
        "ok": True,
        "dry_run": True,
        "forgotten": [],
        "kept": [],
        "freed_bytes": 0,
        "notes": ["2026-11-29T12:00:00.000Z: taken is #1"],
    }

    assert "nothing is kept of 2026-11-29 21:00:00" in run("show", "@1d").complaint
    assert run("--json", "show", "@1d").json["error"]["message"].endswith("2026-11-29T12:00:00.000Z")
    assert "2026-11-29 21:00:00: taken is #1" in run("rewind", "@1d", "--dry-run").text
    assert "2026-11-29 21:00:00: taken is #1" in run("forget", "@1d", "--dry-run").text


@pytest.mark.parametrize(
    ("lists", "code"),
    [
        ({}, 0),
        ({"restored": [{"path": "a"}], "removed": [{"path": "b"}]}, 0),
        ({"kept": [{"path": "newer"}]}, 0),
        ({"skipped": [{"path": "big"}], "changed_since": [{"path": "c"}], "merged": [{"path": "d"}]}, 0),
        ({"conflicts": [{"path": "theirs"}]}, 3),
        ({"conflicts": [{"path": "theirs"}], "restored": [{"path": "a"}]}, 3),
    ],
)
@pytest.mark.parametrize("line", ["rewind 42 --yes", "undo --yes", "redo --yes", "rewind --continue"])
def test_a_conflict_means_done_in_part_and_nothing_else_does(run, daemon, line, lists, code):
    daemon.answers |= dict.fromkeys(("rewind", "undo", "redo", "settle"), rewound(**lists))

    assert run(*line.split()).code == code


def test_a_dry_run_did_nothing_in_part(run, daemon):
    daemon.answers["rewind"] = planned(conflicts=[{"path": "theirs"}])

    assert run("rewind", "42", "--dry-run").code == 0


def test_newer_files_that_stay_come_with_the_way_to_remove_them(run, daemon):
    daemon.answers["rewind"] = rewound(kept=[{"path": "newer"}])

    assert "--exact" in run("rewind", "42", "--yes").complaint
    assert run("-q", "rewind", "42", "--yes").complaint == ""
    assert run("--json", "rewind", "42", "--yes").complaint == ""


def test_a_search_that_met_damage_is_done_in_part(run, daemon):
    daemon.answers["history"] = {**SEARCHED, "damaged": 1}

    ended = run("history", "--search", "x")

    assert (ended.code, "1 DAMAGED and not searched" in ended.text) == (3, True)


def test_history_says_when_there_is_more(run, daemon):
    daemon.answers["history"] = {**SEARCHED, "next": "7"}

    assert "there are more" in run("history", "--search", "x", "--limit", "7").complaint


KEPT = {"id": "k" * 16, "number": 7, "name": None, "reason": "pinned"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [({}, 0), ({"kept": [KEPT]}, 3), ({"kept": [KEPT], "forgotten": []}, 3), ({"kept": [KEPT], "dry_run": True}, 0)],
)
def test_what_is_kept_although_it_should_go_means_done_in_part(run, daemon, answer, code):
    daemon.answers["forget"] = {**FORGOTTEN, **answer}

    assert run("forget", "42", "7", "--dry-run" if answer.get("dry_run") else "--yes").code == code


@pytest.mark.parametrize(
    ("answer", "code"),
    [({}, 0), ({"left": ["a copy"]}, 3), ({"finished": False}, 3), ({"finished": False, "dry_run": True}, 0)],
)
def test_what_a_purge_could_not_reach_means_done_in_part(run, daemon, answer, code):
    daemon.answers["purge"] = {**PURGED, **answer}

    assert run("purge", "a", "--dry-run" if answer.get("dry_run") else "--yes").code == code


def test_a_purge_that_would_be_refused_is_told_by_the_plan_and_before_any_question(run, daemon):
    refused = {"kind": "refused", "message": "a stands there still", "hint": "delete it", "paths": [{"path": "a"}]}
    daemon.answers["purge"] = {**PURGED, "dry_run": True, "refused": refused}

    planned, asked = run("purge", "a", "--dry-run"), run("purge", "a")

    assert (planned.code, b"it would be refused: a stands there still" in planned.out) == (0, True)
    assert (asked.code, b"a stands there still" in asked.err, b"terminal" in asked.err) == (8, True, False)
    assert [request["dry_run"] for _, request in daemon.requests] == [True, True]


@pytest.mark.parametrize(
    "line",
    [
        "rewind 42",
        "forget 42",
        "forget 42 --json",
        "prune",
        "prune --json",
        "purge a",
        "rewind 42 --json",
        "undo",
        "redo 2",
        "unwatch --delete-history",
        "expire",
    ],
)
def test_without_a_terminal_a_yes_has_to_be_typed(run, daemon, line):
    daemon.answers |= {
        "rewind": planned(),
        "undo": planned(),
        "redo": planned(),
        "unwatch": {**UNWATCHED, "checkpoints": 3},
        "forget": {**FORGOTTEN, "dry_run": True},
        "prune": {**PRUNED, "dry_run": True},
        "purge": {**PURGED, "dry_run": True},
        "expire": {**EXPIRED, "dry_run": True},
    }
    ended = run(*line.split())

    assert (ended.code, [request["dry_run"] for _, request in daemon.requests]) == (8, [True])
    assert "--yes" in (ended.json["error"]["hint"] if "--json" in line else ended.complaint)


@pytest.mark.parametrize(
    ("line", "dry_run", "lacking", "code"),
    [("--yes", False, 0, 0), ("--yes", False, 9 << 20, 3), ("--dry-run", True, 9 << 20, 0)],
)
def test_a_prune_that_left_something_for_want_of_room_is_no_success(run, daemon, line, dry_run, lacking, code):
    daemon.answers["prune"] = {**PRUNED, "dry_run": dry_run, "lacking_bytes": lacking}
    assert run("prune", line).code == code


def test_a_checkpoint_that_lacks_something_says_so_and_not_to_scripts(run, daemon):
    left_out = [{"path": "movie.bin", "reason": "over_quota"}]
    daemon.answers["checkpoint"] = {**SEALED, "over_quota": left_out}
    assert "not in it: 1 path, movie.bin: the quota has no room for it" in run("checkpoint").complaint
    assert run("-q", "checkpoint").complaint == ""
    ended = run("checkpoint", "--json")
    assert (ended.complaint, ended.json["over_quota"]) == ("", left_out)


def test_what_stays_is_told_in_words_and_each_one_with_verbose(run, daemon):
    reasons = ["promised", "promised", "in_trash", "needed_by_undo", "of a later day"]
    kept = [
        {
            "id": f"{letter}" * 16,
            "number": number,
            "name": "before" if number == 3 else None,
            "reason": reason,
            "root": "/src/app",
        }
        for number, (letter, reason) in enumerate(zip("klmno", reasons, strict=True), 1)
    ]
    daemon.answers["expire"] = {**EXPIRED, "dry_run": True, "forgotten": [], "kept": kept}

    assert run("expire", "--dry-run").text.splitlines()[1:] == [
        "  1 stays: an undo needs it",
        "  1 stays: in trash",
        "  2 stay: its time is not over",
        "  1 stays: of a later day",
        "  -v says which ones",
    ]
    assert "  = #3 (mmmmmmmm)  before  in trash  /src/app" in run("-v", "expire", "--dry-run").text.splitlines()


def test_a_pause_is_told_before_a_yes_is_asked_for(run, daemon):
    why = {"paused": True, "reason": "clock", "why": "the clock was set", "hint": "force it", "refused": []}
    daemon.answers["expire"] = {**EXPIRED, "forgotten": [], "dry_run": True, "retention": why}

    ended = run("expire")

    assert (ended.code, ended.complaint) == (8, "oxide-ctl: nothing expires: the clock was set\nhint: force it\n")
    assert "nothing expires: the clock was set" in run("expire", "--dry-run").text


@pytest.mark.parametrize("line", ["rewind nosuch", "rewind nosuch --json", "undo", "redo", "unwatch --delete-history"])
def test_what_is_not_there_is_told_before_a_yes_is_asked_for(run, daemon, line):
    daemon.answers |= dict.fromkeys(["rewind", "undo", "redo", "unwatch"], NotFoundError("there is none"))

    assert run(*line.split()).code == 5


def test_what_is_to_be_known_of_a_watched_tree_is_a_note(run, daemon):
    daemon.answers["watch"] = {**WATCHED, "notes": ["it is inside another"]}

    ended = run("watch")
    assert (ended.complaint, "another" in ended.text) == ("it is inside another\n", False)
    assert run("-q", "watch").complaint == ""


@pytest.mark.parametrize(
    ("line", "name", "fields"),
    [
        ("show @2026-11-29T14:05", "show", {"checkpoint": "@2026-11-29T05:05:00.000Z"}),
        ("diff @2026-11-29 @2026-11-29T14:05:30.250", "diff",
         {"a": "@2026-11-28T15:00:00.000Z", "b": "@2026-11-29T05:05:30.250Z"}),
        ("cat @2026-11-29T14:05 f", "cat", {"checkpoint": "@2026-11-29T05:05:00.000Z"}),
        ("restore @2026-11-29T14:05 --to x", "restore", {"checkpoint": "@2026-11-29T05:05:00.000Z"}),
        ("rewind @2026-11-29T14:05 --yes", "rewind", {"checkpoint": "@2026-11-29T05:05:00.000Z"}),
        ("log --since @2026-11-29T14:05", "log", {"since": "@2026-11-29T05:05:00.000Z"}),
        ("log --since 2026-11-29T14:05", "log", {"since": "@2026-11-29T05:05:00.000Z"}),
        ("log --since 2h", "log", {"since": "2h"}),
        ("show @2026-11-29T14:05Z", "show", {"checkpoint": "@2026-11-29T14:05Z"}),
    ],
)  # fmt: skip
def test_a_time_travels_as_a_moment_of_the_caller_s_zone(run, daemon, in_japan, line, name, fields):
    daemon.answers[name] = NotFoundError("it was asked for")

    run(*line.split())

    assert {key: daemon.requests[0][1].get(key) for key in fields} == fields


@pytest.mark.parametrize(
    "flags",
    [
        "--conversation",
        "--both",
        "--summarize-from",
        "--summarize-up-to",
    ],
)
def test_what_is_not_built_fails_honestly(run, daemon, flags):
    ended = run("--json", "rewind", "42", "--yes", *flags.split())

    assert (ended.code, daemon.requests) == (1, [])
    assert "is not built yet" in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]


@pytest.mark.parametrize(
    "line",
    [
        "rewind --yes",
        "rewind 42 --yes --code --both",
        "rewind 42 --yes --memory --no-memory",
        "rewind 42 --continue",
        "rewind --continue --abort",
        "rewind --abort -- a",
        "rewind --continue --turn p --only",
        "rewind --turn p --yes",
        "rewind --only --yes",
        "rewind 42 --turn p --only --yes",
        "rewind --turn p --only --scope all --yes",
        "rewind --turn p --only --exact --yes",
        "diff a --stat --patch",
        "share",
        "pin",
        "history",
        "history a --deleted",
        "history a --search x",
        "history --deleted --search x",
        "history a -- b",
        "history a --binary",
        "history --search=",
        "name 42",
        "forget --yes",
        "purge --yes",
        "purge a --blob beef",
        "purge --memory",
        "purge --memory --blob beef",
        "unforget",
        "frobnicate",
        "",
    ],
)
def test_wrong_usage_reaches_no_daemon(run, daemon, line):
    as_text, as_json = run(*line.split()), run("--json", *line.split())

    assert (as_text.code, as_json.code, daemon.requests) == (2, 2, [])
    assert as_text.complaint.startswith("oxide-ctl: ")
    assert as_json.json["error"]["kind"] == "usage"


def test_no_daemon_means_six(run, monkeypatch):
    monkeypatch.setenv("OPENOXIDE_NO_AUTOSTART", "1")

    assert run("--json", "status").json["error"]["kind"] == "daemon_unreachable"
    assert run("status").code == 6


def test_stop_starts_no_daemon_to_stop_it(run, openoxide_home):
    ended = run("stop")

    assert (ended.code, ended.text) == (0, "no daemon is running\n")
    assert run("stop", "--json").json == {"ok": True, "stopped": False}
    assert not openoxide_home.exists()


def test_a_daemon_that_hangs_up_is_not_a_stopped_one(run, openoxide_home):
    openoxide_home.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(openoxide_home / "oxided.sock"))
        listener.listen()
        with ThreadPoolExecutor() as other_side:
            hung_up = other_side.submit(hang_up, listener)

            assert run("stop").code == 6

            hung_up.result()


def hang_up(listener):
    connection, _ = listener.accept()
    connection.close()


def test_another_version_is_said_plainly(run, daemon):
    daemon.answers["status"] = VersionMismatchError("the daemon is of version 9", hint="run `oxide-ctl stop`")

    assert run("status").code == 6


def test_log_says_when_there_is_more(run, daemon):
    daemon.answers["log"] = {**ITEMS, "items": [checkpoint()], "next": "cursor"}

    assert "older" in run("log", "--limit", "1").complaint
    assert run("--json", "log", "--limit", "1").json["next"] == "cursor"


def test_a_note_of_the_daemon_goes_to_standard_error(run, daemon):
    daemon.answers["diff"] = {"ok": True, "items": [difference("a")], "note": "taken is #3"}

    ended = run("diff", "@2h")

    assert (ended.text, ended.complaint) == ("M  a\n", "taken is #3\n")


def test_version_and_help_need_no_daemon(run, monkeypatch):
    monkeypatch.setenv("OPENOXIDE_NO_AUTOSTART", "1")

    assert run("--version").text.startswith("oxide-ctl ")
    assert run("--json", "--version").json["version"]
    assert run("--help").code == 0


def test_the_help_names_every_exit_code():
    known = {0, 3, 130, *EXIT_CODES.values()}

    assert catalogue.EXIT_STATUS.keys() == known


def test_a_bug_is_a_line_and_not_a_traceback(run, daemon):
    daemon.answers["log"] = {"ok": True, "items": [{"no": "checkpoint"}]}

    ended = run("log")

    assert ended.code == 1
    assert ended.complaint.startswith("oxide-ctl: internal error: ")
    assert "Traceback" not in ended.complaint


def test_conflict_and_not_found_keep_their_details_in_json(run, daemon):
    daemon.answers["rewind"] = ConflictError("refused", details={"conflicts": [{"path": "a"}]})
    daemon.answers["show"] = NotFoundError("there is no checkpoint #9")

    assert run("--json", "rewind", "1", "--yes").json["error"]["conflicts"] == [{"path": "a"}]
    assert run("show", "9").code == 5


@pytest.mark.parametrize("line", [("stop",), ("uninstall", "--yes"), ("uninstall", "--dry-run")])
def test_a_daemon_that_keeps_silent_is_named_and_nothing_is_deleted(run, openoxide_home, monkeypatch, line):
    monkeypatch.setattr("openoxide.daemon.caller.ANSWER_SECONDS", 0.1)
    openoxide_home.mkdir()
    open_timeline(openoxide_home / "timeline.db").close()
    (openoxide_home / "oxided.lock").write_text("123\n")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(openoxide_home / "oxided.sock"))
        silent.listen()
        before = tree_of(openoxide_home)

        ended = run("--json", *line)

    assert (ended.code, ended.json["error"]["kind"]) == (6, "daemon_unreachable")
    assert "(pid 123) was silent for 0.1 s" in ended.json["error"]["message"]
    assert tree_of(openoxide_home) == before
