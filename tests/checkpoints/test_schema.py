"""The tables of timeline.db, as they were released."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import peewee
import pytest

from openoxide.checkpoints import sight, store, vouching
from openoxide.checkpoints.rows import Head, write_head
from openoxide.checkpoints.schema import MIGRATIONS, check_version, open_timeline
from openoxide.db import Database
from openoxide.errors import NewerStoreError, StoreDamagedError
from openoxide.paths import APPLICATION_ID

# A released migration is frozen: a change of this snapshot needs a new one.
TABLES = {
    "worktree": "id project root kind dev ino birth_ns watching common_dir created_ms paused_ms paused_until_ms",
    "path": "id worktree path",
    "meta": "key value",
    "frame": "id pack offset stored raw codec settled",
    "blob": "id hash frame inner size dead_ms",
    "writer": "id certainty operation",
    "writer_window": "writer window",
    "version": "path seq worktree kind mode size mtime_ns blob target flags writer",
    "claim": "path seq writer",
    "live": (
        "path seq kind mode size mtime_ns blob target flags dev ino stat_size stat_mtime_ns ctime_ns stat_mode nlink"
        " read_at_ns"
    ),
    "head": "worktree seq sum files bytes skipped",
    "checkpoint": (
        "id public_id worktree number seq created_ms trigger name pinned expires_ms turn agent session prompt complete"
        " late gap git_head git_branch git_origin added modified removed skipped manifest_hash failed forgotten_ms"
    ),
    "window": (
        "id worktree kind agent session prompt tool parent began_ms ended_ms began_seq ended_seq declares_tools lost"
    ),
    "gap": "id worktree cause opened_ms closed_ms began_seq ended_seq",
    "operation": (
        "id public_id worktree kind phase at_ms boot_id boot_ms scope exact touch reverses target before after summary"
        " bound"
    ),
    "position": "checkpoint worktree seq",
    "taint": "worktree agent session tool seq",
    "mark": "worktree hash standing at_ms",
    "step": "operation number action path old new new_ino",
    "outcome": "id operation kind path reason blob",
}
INDEXES = {
    "worktree_root",
    "version_seq",
    "live_inode",
    "checkpoint_seq",
    "checkpoint_created",
    "window_open",
    "window_session",
    "gap_open",
    "operation_worktree",
    "outcome_operation",
    "frame_pack",
    "blob_frame",
    "position_worktree",
}
MODELS = [found for found in vars(store).values() if isinstance(found, type) and issubclass(found, peewee.Model)]


@pytest.fixture
def database(tmp_path):
    database = open_timeline(tmp_path / "timeline.db")
    yield database
    database.close()


def ask(database, query):
    with database.reading() as db:
        return db.execute_sql(query).fetchall()


def columns(database, table):
    return [row[1] for row in ask(database, f"pragma table_info({table})")]


def test_the_tables_are_those_that_were_released(database):
    names = {row[0] for row in ask(database, "select name from sqlite_master where type = 'table'")}
    assert {name: " ".join(columns(database, name)) for name in names} == TABLES


def test_the_file_itself_says_from_the_start_that_it_is_ours(database):
    assert database.path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")


def test_the_indexes_are_those_that_were_released(database):
    found = ask(database, "select name from sqlite_master where type = 'index' and sql is not null")
    assert {row[0] for row in found} == INDEXES


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_strict(database, table):
    assert ask(database, f"select strict from pragma_table_list where name = '{table}'") == [(1,)]
    types = {row[2] for row in ask(database, f"pragma table_info({table})")}
    assert types <= {"INTEGER", "TEXT", "BLOB"}


def test_every_version_row_is_found_without_a_scan(database):
    """State-at and the rows between two positions are the hot questions."""
    for query in (
        "select * from version where path = 1 and seq <= 5",
        "select * from version where worktree = 1 and seq > 3",
        "select * from path where worktree = 1 and path >= x'61' and path < x'62'",
        "select * from blob where hash in (x'00', x'01')",
        "select * from live where dev = 1 and ino = 2 and kind = 1",
        "select * from checkpoint where worktree = 1 order by number desc limit 1",
        "select * from window where worktree = 1 and ended_seq is null",
        "select * from gap where worktree = 1 and closed_ms is null",
    ):
        plan = " ".join(row[3] for row in ask(database, "explain query plan " + query))
        assert plan.startswith("SEARCH"), (query, plan)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_has_the_columns_of_its_table(database, model):
    """And says the same of what may be missing."""
    info = ask(database, f"pragma table_info({model._meta.table_name})")
    required = {row[1]: bool(row[3]) for row in info if not row[5]}
    assert list(model._meta.columns) == [row[1] for row in info]
    assert {name: not model._meta.columns[name].null for name in required} == required


def test_the_file_says_whose_it_is(database):
    assert ask(database, "pragma application_id") == [(APPLICATION_ID,)]
    assert ask(database, "pragma user_version") == [(len(MIGRATIONS),)]
    assert check_version(database) == len(MIGRATIONS)


def test_opening_again_migrates_nothing(tmp_path):
    path = tmp_path / "timeline.db"
    open_timeline(path).close()
    before = dump(path)
    open_timeline(path).close()
    assert dump(path) == before


def dump(path):
    raw = sqlite3.connect(path)
    lines = [*raw.iterdump(), str(raw.execute("pragma schema_version").fetchone())]
    raw.close()
    return lines


def test_an_empty_file_is_a_store_to_be(tmp_path):
    path = tmp_path / "timeline.db"
    path.touch()
    database = open_timeline(path)
    assert check_version(database) == len(MIGRATIONS)
    database.close()


def test_a_store_whose_making_failed_is_made_again(tmp_path):
    """All statements and the number are one transaction."""
    path = tmp_path / "timeline.db"
    with pytest.raises(Exception, match="syntax error"):
        open_timeline(path, (MIGRATIONS[0] + "create tabel broken(x) strict;\n",))
    raw = sqlite3.connect(path)
    assert raw.execute("select count(*) from sqlite_master").fetchone() == (0,)
    raw.close()
    database = open_timeline(path)
    assert check_version(database) == len(MIGRATIONS)
    database.close()


def test_a_store_of_a_newer_version_is_left_untouched(tmp_path):
    path = tmp_path / "timeline.db"
    open_timeline(path).close()
    raw = sqlite3.connect(path)
    raw.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
    raw.execute("create table from_the_future(x)")
    raw.execute("pragma wal_checkpoint(truncate)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(NewerStoreError) as caught:
        open_timeline(path)
    known = len(MIGRATIONS)
    assert f"has schema version {known + 1}, this program knows {known}" in caught.value.message
    assert path.read_bytes() == before


def test_what_is_no_database_is_damage_and_left_untouched(tmp_path):
    path = tmp_path / "timeline.db"
    path.write_bytes(b"not a database, " * 1000)
    with pytest.raises(StoreDamagedError):
        open_timeline(path)
    assert path.read_bytes() == b"not a database, " * 1000


def test_a_reader_of_a_newer_store_is_told(tmp_path):
    path = tmp_path / "timeline.db"
    raw = sqlite3.connect(path)
    raw.execute("pragma user_version = 99")
    raw.execute("create table t(x)")
    raw.close()
    reading = Database(path, read_only=True)
    with pytest.raises(NewerStoreError):
        check_version(reading)
    reading.close()


def test_a_store_whose_maker_was_killed_before_it_was_one_is_made(tmp_path):
    """A rollback journal that is still to be taken back: a reader cannot, so nothing could ever open the store again."""
    path = tmp_path / "timeline.db"
    killed = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in ("pragma page_size = 8192", "create table t(x)", "drop table t", "pragma cache_size = 1", "begin immediate",
             "create table t(x)"):
    db.execute(line)
db.executemany("insert into t values(?)", [(bytes(4000),)] * 99)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", killed, path], check=True)
    assert (tmp_path / "timeline.db-journal").stat().st_size
    database = open_timeline(path)
    assert check_version(database) == len(MIGRATIONS)
    database.close()


def test_a_gap_from_before_positions_were_known_hides_nothing(tmp_path):
    path = tmp_path / "timeline.db"
    database = open_timeline(path, MIGRATIONS[:3])
    with database.writing() as db:
        for closed in (None, 5):
            db.execute_sql(
                "insert into gap(worktree, cause, opened_ms, closed_ms) values(1, 'not_watched', 1, ?)", (closed,)
            )
    database.close()
    database = open_timeline(path)
    with database.writing() as db:
        assert vouching.unseen(db, 1) == []
        sight.close_gaps(db, 1, 9, 9)
        sight.open_gap(db, 1, "overflow", 10)
        assert vouching.unseen(db, 1) == [(0, None)]
        write_head(db, 1, Head(seq=7))
        sight.close_gaps(db, 1, 11, 12)
        assert vouching.unseen(db, 1) == [(0, 7)]
    database.close()
