"""A daemon whose timeline is damaged ends before anybody can connect to it, and its client learns why."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from openoxide.db import PAGE_SIZE
from openoxide.errors import StoreDamagedError
from openoxide.paths import Home
from tests.kit import wait_until
from tests.kit.box import Box

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path) -> Home:
    with Box(tmp_path) as box:
        (box.root / "a").write_text("one\n")
        box.watch()
    return box.home


def root_page(home: Home, table: str) -> int:
    with closing(sqlite3.connect(home.timeline_db)) as db:
        return int(db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()[0])


def overwrite(home: Home, at: int, data: bytes) -> None:
    with home.timeline_db.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_what_is_damaged_behind_a_sound_schema_is_found_before_the_socket_is_touched(home):
    """Else a client that had connected already would only see its connection end."""
    overwrite(home, (root_page(home, "worktree") - 1) * PAGE_SIZE, bytes(PAGE_SIZE))
    home.socket.mkdir()  # what would be refused when it came to it

    ended = subprocess.run(
        [sys.executable, "-m", "openoxide.daemon.main", "--foreground"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENOXIDE_HOME": str(home.folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 7
    assert f"{home.timeline_db} is damaged" in ended.stderr


def test_a_schema_that_is_no_text_any_more_is_damage(home, tmp_path):
    at = home.timeline_db.read_bytes().index(b"mode integer not null")
    overwrite(home, at + len("mode in"), b"\xe5")

    with pytest.raises(StoreDamagedError, match="not UTF-8"):
        Box(tmp_path)


@pytest.mark.parametrize(
    ("table", "change"),
    [("worktree", "root = cast(root as text)"), ("worktree", "dev = 'x'"), ("checkpoint", "trigger = 'none of ours'")],
)
def test_a_row_that_holds_what_it_cannot_is_damage(home, tmp_path, table, change):
    with closing(sqlite3.connect(home.timeline_db)) as db:  # as flipped bits do it: no strict table takes such a value
        db.execute("pragma writable_schema = 1")
        db.execute("update sqlite_master set sql = replace(sql, ') strict', ')') where name = ?", (table,))
        db.commit()
    with closing(sqlite3.connect(home.timeline_db)) as db:
        db.execute(f"update {table} set {change}")
        db.execute("pragma writable_schema = 1")
        db.execute("update sqlite_master set sql = sql || ' strict' where name = ?", (table,))
        db.commit()

    with pytest.raises(StoreDamagedError, match=f"a row of {table}"):
        Box(tmp_path)


@pytest.mark.parametrize("table", ["live", "gap", "step"])
def test_what_keeps_a_tree_from_being_attached_is_told_by_doctor_as_by_status(home, tmp_path, table):
    """Each page is read when a tree is attached, by its recording or by what settles what a crash left."""
    overwrite(home, (root_page(home, table) - 1) * PAGE_SIZE, bytes(PAGE_SIZE))

    with Box(tmp_path) as box:
        wait_until(lambda: box.call("status")["daemon"]["problems"], 30)
        (told,) = box.call("status")["daemon"]["problems"]
        found = {problem["kind"]: problem for problem in box.call("doctor")["problems"]}

    assert told.startswith(f"{home.timeline_db} is damaged")
    assert found["degraded"]["severity"] == "error"
    assert told in found["degraded"]["message"]
    assert "oxide-ctl repair --dry-run" in found["degraded"]["hint"]
