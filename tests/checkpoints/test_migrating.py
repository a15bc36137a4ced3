"""A store of an earlier version becomes one of the newest as a whole, or stays what it was."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from openoxide.checkpoints import rows, store
from openoxide.checkpoints.migrating import KEPT_MS, drop_old_stores, kept_stores, require_space, schema_from
from openoxide.checkpoints.model import Kind
from openoxide.checkpoints.schema import MIGRATIONS, check_version, open_timeline
from openoxide.checkpoints.timeline import Timeline
from openoxide.db import PAGE_SIZE, Database
from openoxide.errors import FailedError, NewerStoreError, OpenOxideError, StoreDamagedError, StoreFullError
from openoxide.paths import APPLICATION_ID, Home
from tests.checkpoints.old_homes import CHAIN, FIRST, SECOND, VERSIONS, contents, dump, unpack


@pytest.fixture(name="path")
def _path(tmp_path):
    return unpack(1, tmp_path) / "timeline.db"


def files(path):
    """The files of the store, without what SQLite keeps beside the one that is in use."""
    names = sorted(found.name for found in path.parent.iterdir() if found.name.startswith("timeline"))
    return [name for name in names if name not in ("timeline.db-wal", "timeline.db-shm")]


@pytest.mark.parametrize("upto", [2, 3])
def test_every_row_comes_along(path, upto):
    before, _, _ = dump(path)

    open_timeline(path, CHAIN[:upto]).close()

    after, version, ours = dump(path)
    assert version == (upto,)
    assert ours == (APPLICATION_ID,)
    assert before.keys() <= after.keys()
    for name, found in before.items():
        width = len(found[0]) if found else 0
        assert sorted((row[:width] for row in after[name]), key=repr) == found


def test_one_after_the_other_is_all_at_once(path, tmp_path):
    other = unpack(1, tmp_path / "other") / "timeline.db"

    open_timeline(path, CHAIN[:2]).close()
    open_timeline(path, CHAIN).close()
    open_timeline(other, CHAIN).close()

    assert dump(path) == dump(other)
    assert files(path) == ["timeline.db", "timeline.db.v1", "timeline.db.v2"]


@pytest.mark.parametrize("upto", [1, 2, 3])
def test_a_migrated_store_has_the_tables_of_a_new_one(path, tmp_path, upto):
    open_timeline(path, CHAIN[:upto]).close()
    open_timeline(tmp_path / "new.db", CHAIN[:upto]).close()

    tables = []
    for found in (path, tmp_path / "new.db"):
        with closing(sqlite3.connect(found)) as db:
            tables.append(set(db.execute("select type, name, tbl_name, sql from sqlite_master where sql is not null")))
            kinds = db.execute("select strict from pragma_table_list where schema = 'main' and name not like 'sqlite%'")
            assert set(kinds) == {(1,)}
    assert tables[0] == tables[1] == schema_from(CHAIN[:upto])


def test_the_old_one_is_kept_and_can_be_put_back(path):
    before = dump(path)

    open_timeline(path, CHAIN).close()

    (kept,) = kept_stores(path)
    assert kept.name == "timeline.db.v1"
    assert dump(kept) == before
    os.replace(kept, path)
    open_timeline(path, CHAIN[:1]).close()
    assert dump(path) == before


def test_the_old_one_goes_after_a_week(path):
    open_timeline(path, CHAIN).close()
    (kept,) = kept_stores(path)
    at_ms = kept.stat().st_mtime_ns // 1_000_000

    drop_old_stores(path, at_ms + KEPT_MS - 1)
    assert kept_stores(path) == [kept]
    drop_old_stores(path, at_ms + KEPT_MS)
    assert kept_stores(path) == []
    assert path.exists()


def test_the_week_begins_with_the_migration(path):
    """The old one may not have been written to for longer than that, and its second name has its time."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = delete")  # else the migration writes to it before all
    os.utime(path, (1, 1))
    open_timeline(path, CHAIN).close()
    (kept,) = kept_stores(path)

    drop_old_stores(path, 1_000 + KEPT_MS)

    assert kept_stores(path) == [kept]


def test_a_version_below_all_is_damage(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma user_version = -1")

    with pytest.raises(StoreDamagedError, match="schema version -1") as raised:
        open_timeline(path, CHAIN)
    assert "repair" in (raised.value.hint or "")


@pytest.mark.parametrize(("pragma", "value"), [("auto_vacuum", 2), ("page_size", PAGE_SIZE), ("journal_mode", "wal")])
def test_the_new_one_is_set_up_as_a_store_is(path, pragma, value):
    """What can be set before the first table only has to come along."""
    database = open_timeline(path, CHAIN)
    with database.reading() as db:
        assert db.execute_sql(f"pragma {pragma}").fetchall() == [(value,)]
    database.close()


def test_nobody_else_gets_a_right(path):
    umask = os.umask(0)
    try:
        path.chmod(0o600)
        open_timeline(path, CHAIN).close()
    finally:
        os.umask(umask)
    assert {found.stat().st_mode & 0o777 for found in (path, *kept_stores(path))} == {0o600}


def test_what_only_the_write_ahead_log_holds_comes_along(path):
    """And no log of the old one stays beside the new one, which it would be read into."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute("insert into gap(worktree, cause, opened_ms) values(1, 'in the log', 1)")
        db.commit()
        left = [(name, (path.parent / name).read_bytes()) for name in ("timeline.db", "timeline.db-wal")]
    for name, data in left:  # as a kill leaves them: closing has just folded the log in
        (path.parent / name).write_bytes(data)
    assert (path.parent / "timeline.db-wal").stat().st_size
    assert b"in the log" not in path.read_bytes()

    database = open_timeline(path, CHAIN)
    with database.reading() as db:
        counted = db.execute_sql("select count(*) from gap where cause = 'in the log'").fetchall()
        sound = db.execute_sql("pragma integrity_check").fetchall()
    assert (counted, sound) == ([(1,)], [("ok",)])
    database.close()
    assert b"in the log" in path.read_bytes()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("create tabel broken(x) strict;\n", "syntax error"),
        ("delete from checkpoint where number = 2;\n", "rows of checkpoint would be lost"),
        ("insert into version select * from version;\n", "UNIQUE"),
    ],
)
def test_a_migration_that_fails_leaves_the_old_store(path, script, told):
    before = dump(path)

    with pytest.raises(OpenOxideError, match=told):
        open_timeline(path, (FIRST, SECOND, script))

    assert files(path) == ["timeline.db"]
    assert dump(path) == before
    open_timeline(path, CHAIN[:1]).close()


def test_a_store_with_other_tables_is_not_taken_for_one_of_the_new_version(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table of_somebody(x)")
        db.commit()
    with pytest.raises(FailedError, match="its tables are not those of this version"):
        open_timeline(path, CHAIN)
    assert files(path) == ["timeline.db"]


def test_too_little_space_is_said_before_anything_is_written(path):
    before = path.read_bytes()
    with pytest.raises(StoreFullError, match=r"takes \d+ bytes of free space, and 1000 are free"):
        require_space(path, 1000)
    require_space(path, 2 * len(before) + (4 << 20))
    assert path.read_bytes() == before


def test_a_store_that_another_program_has_open_waits_for_it(path):
    open_timeline(path, CHAIN[:1]).close()
    with closing(sqlite3.connect(path)) as browser:
        browser.execute("begin")
        browser.execute("select count(*) from checkpoint").fetchone()
        with pytest.raises(FailedError, match="another program has it open"):
            open_timeline(path, CHAIN)
        assert files(path)[:1] == ["timeline.db"]
        assert kept_stores(path) == []
    open_timeline(path, CHAIN).close()


@pytest.mark.parametrize("of_another", ["timeline.db.migrating", "timeline.db.migrating-journal"])
def test_what_a_killed_migration_left_is_not_used(path, of_another):
    (path.parent / of_another).write_bytes(b"half")
    open_timeline(path, CHAIN).close()
    assert files(path) == ["timeline.db", "timeline.db.v1"]
    (path.parent / of_another).write_bytes(b"half")
    open_timeline(path, CHAIN).close()
    assert files(path) == ["timeline.db", "timeline.db.v1"]


def test_an_older_program_leaves_a_migrated_store_untouched(path):
    open_timeline(path, CHAIN).close()
    before = {found: (path.parent / found).read_bytes() for found in files(path)}

    with pytest.raises(NewerStoreError, match="schema version 3, this program knows 1"):
        open_timeline(path, CHAIN[:1])

    assert {found: (path.parent / found).read_bytes() for found in files(path)} == before


def test_without_hard_links_the_old_one_is_copied(path, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(1, "Operation not permitted")

    before = dump(path)
    monkeypatch.setattr(os, "link", refuse)
    open_timeline(path, CHAIN).close()
    assert dump(kept_stores(path)[0]) == before


def test_through_a_link_the_file_it_leads_to_is_migrated(tmp_path):
    real = unpack(1, tmp_path / "disk") / "timeline.db"
    link = tmp_path / "timeline.db"
    link.symlink_to(real)
    open_timeline(link, CHAIN).close()
    assert link.is_symlink()
    assert dump(real)[1] == (3,)
    assert [kept.parent for kept in kept_stores(link)] == [real.parent]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_home_of_an_earlier_version_gives_back_all_it_held(version, tmp_path):
    home = Home(unpack(version, tmp_path / "home"))
    with closing(sqlite3.connect(home.timeline_db)) as db:
        assert db.execute("pragma user_version").fetchone() == (version,)
        found = set(db.execute("select type, name, tbl_name, sql from sqlite_master where sql is not null"))
    assert found == schema_from(MIGRATIONS[:version])

    timeline = Timeline(home)
    try:
        with timeline.database.reading() as db:
            (worktree,) = store.worktrees(db)
            sealed = store.CheckpointQuery(db, worktree.id).listing()
        assert [checkpoint.number for checkpoint in sealed] == [7, 6, 5, 4, 3, 2, 1]
        for checkpoint in sealed[-3:]:
            states = timeline.states(worktree.id, checkpoint.seq)
            given = {path: timeline.blobs.read(s.blob) for path, s in states.items() if s.kind is Kind.FILE}
            assert given == contents(checkpoint.number)
    finally:
        timeline.close()


def test_a_reader_of_an_older_store_changes_nothing(path):
    before = path.read_bytes()
    database = Database(path, read_only=True)
    assert check_version(database, CHAIN) == 1
    with database.reading() as db:
        assert rows.read_head(db, 1).files == 4
    database.close()
    assert path.read_bytes() == before
