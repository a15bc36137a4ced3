"""What holds for every command alike: colours, readers that go away, -q and -v."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from openoxide.checkpoints.backing_up import back_up
from openoxide.cli import catalogue
from openoxide.paths import APPLICATION_ID
from tests.checkpoints.stores import Store
from tests.cli.answers import (
    BLAMED,
    CONTEXT,
    HITS,
    INDEX,
    LINTED,
    MARKED,
    NOTE,
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
from tests.cli.harness import ENTRY, ROOT
from tests.cli.test_commands import (
    BACKED_UP,
    CHECKED,
    EXAMINED,
    JOINED,
    MEASURED,
    MOVED,
    PAUSED,
    PRUNED,
    PURGED,
    UNWATCHED,
    WATCHED,
)

ITEM = checkpoint(name="named")
ITEMS = {"ok": True, "items": [ITEM]}
KEPT = {"ok": True, **ITEM}
WINDOW = {"ok": True, "turn": "p", "tool": "t", "checkpoint": ITEM, "notes": []}
FORGOTTEN = {"ok": True, "dry_run": True, "forgotten": [ITEM], "kept": [], "freed_bytes": 0, "notes": ["a note"]}
EXPIRED = {
    "ok": True, "dry_run": True, "forgotten": [], "released": [], "kept": [], "freed_bytes": 0, "notes": [],
    "retention": {"paused": False, "reason": "", "why": "", "hint": "", "refused": []},
}  # fmt: skip
LEFT = {"ok": True, "removed": [], "left": []}
PLAN = planned(restored=[{"path": f"p{number}"} for number in range(30)])
OF_AGENT = "--agent codex --session s"

# every command, with a line that succeeds and the answer it needs
LINES = {
    "watch": ("watch", {"watch": WATCHED}),
    "unwatch": ("unwatch", {"unwatch": UNWATCHED}),
    "pause": ("pause --for 1h", {"pause": PAUSED}),
    "unpause": ("unpause", {"unpause": {**PAUSED, "paused_at": None, "paused_until": None}}),
    "stop": ("stop", {"stop": {"ok": True}}),
    "projects": ("projects", {"projects": {"ok": True, "items": []}}),
    "projects move": ("projects move /old /new", {"projects_move": MOVED}),
    "projects join": ("projects join /a /b", {"projects_join": JOINED}),
    "du": (
        "du",
        {"du": MEASURED},
    ),
    "check": ("check", {"check": CHECKED}),
    "repair": ("repair --dry-run", {}),
    "backup": ("backup disk", {"backup": BACKED_UP}),
    "restore-home": ("restore-home disk --home there --dry-run", {}),
    "prune": ("prune --dry-run", {"prune": PRUNED}),
    "config list": ("config list", {}),
    "config get": ("config get retention.ttl_days", {}),
    "config set": ("config set retention.ttl_days 30d", {}),
    "config unset": ("config unset retention.ttl_days", {}),
    "config edit": ("config edit", {}),
    "status": ("status", {"status": status([{}])}),
    "doctor": ("doctor", {"doctor": EXAMINED}),
    "checkpoint": ("checkpoint", {"checkpoint": KEPT}),
    "log": ("log", {"log": {**ITEMS, "next": "more"}}),
    "show": ("show 1", {"show": shown(changes=[{"path": f"p{number}", "status": "M"} for number in range(30)])}),
    "pin": ("pin 1", {"pin": {**KEPT, "note": "a note"}}),
    "unpin": ("unpin 1", {"unpin": {**KEPT, "note": "a note"}}),
    "name": ("name 1 x", {"name": {**KEPT, "note": "a note"}}),
    "forget": ("forget 1 --dry-run", {"forget": FORGOTTEN}),
    "purge": ("purge a --dry-run", {"purge": {**PURGED, "dry_run": True, "notes": ["a note"]}}),
    "unforget": ("unforget 1", {"unforget": {**ITEMS, "note": "a note"}}),
    "expire": ("expire --dry-run", {"expire": EXPIRED}),
    "diff": ("diff 1", {"diff": {"ok": True, "items": [difference("a")], "note": "a note"}}),
    "cat": ("cat 1 f", {"cat": b"bytes\n"}),
    "history": ("history f", {"history": {"ok": True, "items": [], "next": "more"}}),
    "restore": ("restore 1 --to d", {"restore": {"ok": True, "to": "/d", "written": [], "skipped": [], "notes": []}}),
    "rewind": ("rewind 1 --dry-run", {"rewind": PLAN}),
    "undo": ("undo --yes", {"undo": rewound(kind="undo")}),
    "redo": ("redo --yes", {"redo": rewound(kind="redo")}),
    "operations": ("operations", {"operations": {"ok": True, "items": []}}),
    "memory index": ("memory index", {"memory_index": INDEX}),
    "memory context": ("memory context", {"memory_context": CONTEXT}),
    "memory topics": ("memory topics", {"memory_topics": TOPICS}),
    "memory read": ("memory read a.md", {"memory_read": NOTE}),
    "memory save": ("memory save a.md --text x", {"memory_save": WRITTEN}),
    "memory edit": ("memory edit a.md --append x", {"memory_edit": WRITTEN}),
    "memory delete": ("memory delete a.md --yes", {"memory_delete": WRITTEN}),
    "memory rename": ("memory rename a.md b.md", {"memory_rename": WRITTEN}),
    "memory search": ("memory search x", {"memory_search": HITS}),
    "memory history": ("memory history", {"memory_history": NOTES}),
    "memory blame": ("memory blame a.md", {"memory_blame": BLAMED}),
    "memory revert": ("memory revert a.md", {"memory_revert": REVERTED}),
    "memory promote": ("memory promote --yes", {"memory_promote": PROMOTED}),
    "memory review": ("memory review", {"memory_review": REVIEW}),
    "memory verify": ("memory verify a.md", {"memory_mark": MARKED}),
    "memory dispute": ("memory dispute a.md", {"memory_mark": MARKED}),
    "memory lint": ("memory lint", {"memory_lint": LINTED}),
    "uninstall": ("uninstall --dry-run", {"leave": LEFT}),
    "turn begin": (f"turn begin {OF_AGENT} --prompt p", {"turn_begin": WINDOW}),
    "turn end": (f"turn end {OF_AGENT}", {"turn_end": WINDOW}),
    "tool begin": (f"tool begin {OF_AGENT} --tool t", {"tool_begin": WINDOW}),
    "tool end": (f"tool end {OF_AGENT} --tool t", {"tool_end": WINDOW}),
    "completion": ("completion --checkpoints", {"log": ITEMS}),
}
COLOUR = re.compile(r"\x1b\[[\d;]*[34]\d[\d;]*m")
LESS_WHEN_QUIET = {"watch", "checkpoint"}
MORE_WHEN_VERBOSE = {"show", "diff", "rewind", "repair"}

every_command = pytest.mark.parametrize("name", catalogue.COMMANDS)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def line(daemon, name):
    """The words of the command called ``name``, whose answer the daemon has."""
    text, answers = LINES[name]
    daemon.answers |= answers
    if name in ("uninstall", "repair"):
        make_home(daemon.home)
    if name == "restore-home":
        make_backup(Path.cwd() / "disk", Path.cwd() / "elsewhere")
    return text.split()


def make_backup(target: Path, folder: Path) -> None:
    """A backup of a home in ``folder`` that holds nothing yet."""
    folder.mkdir()
    store = Store(folder)
    back_up(store.database, store.home, target, program="0", now_ms=0)
    store.close()


def make_home(home: Path) -> None:
    """What tells ``home`` to be ours, and so to be removed: a database with our id."""
    with closing(sqlite3.connect(home / "timeline.db")) as database:
        database.execute(f"pragma application_id = {APPLICATION_ID}")


@every_command
def test_a_screen_without_colours_gets_none(terminal, line, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    screen = terminal(*line)

    assert screen.ended() == 0
    assert not COLOUR.search(screen.seen)


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_the_progress_bar_has_colours_unless_none_are_wanted(terminal, daemon, monkeypatch, no_color, coloured):
    monkeypatch.setenv("NO_COLOR", no_color)
    shown = threading.Event()

    def watch(_request, report):
        report({"stage": "files", "done": 3, "total": 10, "bytes": 2048})
        shown.wait(30)
        return WATCHED

    daemon.routes["watch"] = watch
    screen = terminal("watch")
    screen.expect("3/10")
    shown.set()

    assert screen.ended() == 0
    assert bool(COLOUR.search(screen.seen)) is coloured


def unread(*line: str) -> subprocess.CompletedProcess[bytes]:
    """The command with an output that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run([sys.executable, *ENTRY, *line], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)


@every_command
def test_a_reader_that_goes_away_changes_no_exit_code(line):
    done = unread(*line)

    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["--help", "turn --help", "log --help", "--json log --help", "--version"])
def test_neither_does_one_that_asked_for_help(line):
    done = unread(*line.split())

    assert (done.returncode, done.stderr) == (0, b"")


@every_command
def test_quiet_leaves_out_notes_and_never_the_answer(run, line, name):
    loud, quiet = run(*line), run("-q", *line)

    assert (quiet.code, quiet.err) == (0, b"")
    assert bool(quiet.out) is bool(loud.out)
    assert (quiet.out != loud.out) is (name in LESS_WHEN_QUIET)


@every_command
def test_verbose_says_no_less(run, line, name):
    brief, verbose = run(*line), run("-v", *line)

    assert verbose.code == 0
    assert len(verbose.out) >= len(brief.out)
    assert (verbose.out != brief.out) is (name in MORE_WHEN_VERBOSE)


@pytest.mark.parametrize("name", [name for name in catalogue.COMMANDS if name != "cat"])
def test_json_is_one_object_however_much_is_said(run, line):
    for option in ("-q", "-v"):
        assert run("--json", option, *line).json["ok"] is True
