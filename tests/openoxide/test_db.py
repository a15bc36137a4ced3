"""One writer, readers that cannot write, and SQLite's troubles as errors a user can act on."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from contextlib import closing

import pytest

from openoxide import db as db_module
from openoxide.db import PAGE_SIZE, Database
from openoxide.errors import FailedError, StoreDamagedError, StoreFullError, StoreReadOnlyError
from tests.kit.limits import file_size_limit


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "some ?#% name.db")
    with database.writing() as db:
        db.execute_sql("create table t(x integer) strict")
    yield database
    database.close()


def values(database):
    with database.reading() as db:
        return [row[0] for row in db.execute_sql("select x from t order by x")]


def insert(database, x, then=None):
    with database.writing() as db:
        db.execute_sql("insert into t values(?)", (x,))
        if then is not None:
            raise then


def test_what_a_block_writes_is_there_when_it_ends(database):
    insert(database, 1)
    assert values(database) == [1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_writes_nothing_and_the_next_one_works(database, error):
    with pytest.raises(error):
        insert(database, 1, then=error)
    insert(database, 2)
    assert values(database) == [2]


@pytest.mark.parametrize(
    ("pragma", "value"),
    [("journal_mode", "wal"), ("synchronous", 2), ("page_size", PAGE_SIZE), ("auto_vacuum", 2), ("secure_delete", 1)],
)
def test_the_writer_is_durable_and_erases(database, pragma, value):
    with database.writing() as db:
        assert db.execute_sql(f"pragma {pragma}").fetchone()[0] == value


def test_the_journal_mode_is_what_sqlite_says(database):
    assert database.journal_mode == "wal"


def test_a_reader_cannot_write(database):
    with pytest.raises(StoreReadOnlyError), database.reading() as db:
        db.execute_sql("insert into t values(1)")
    assert values(database) == []


def test_a_reader_sees_one_moment(database):
    with database.reading() as db:
        assert db.execute_sql("select count(*) from t").fetchone()[0] == 0
        insert(database, 1)
        assert db.execute_sql("select count(*) from t").fetchone()[0] == 0


def test_a_look_sees_what_was_written_meanwhile(database):
    with database.looking() as db:
        assert db.execute_sql("select count(*) from t").fetchone()[0] == 0
        insert(database, 1)
        assert db.execute_sql("select count(*) from t").fetchone()[0] == 1


def test_a_reader_is_used_again_unless_it_failed(database):
    with database.reading() as first:
        pass
    with database.reading() as second:
        assert second is first
    with pytest.raises(ZeroDivisionError), database.reading():
        raise ZeroDivisionError
    with database.reading() as third:
        assert third is not first


def test_readers_are_independent_of_each_other(database):
    with database.reading() as outer, database.reading() as inner:
        assert outer is not inner


def test_writers_wait_for_each_other(database):
    """Each reads and then writes: with deferred transactions some of these would fail."""

    def count_up() -> None:
        for _ in range(25):
            with database.writing() as db:
                (highest,) = db.execute_sql("select coalesce(max(x), 0) from t").fetchone()
                db.execute_sql("insert into t values(?)", (highest + 1,))

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert values(database) == list(range(1, 101))


def test_a_second_process_waits_for_the_writer(database):
    other = Database(database.path)
    with database.writing() as db:
        db.execute_sql("insert into t values(1)")
        waiting = threading.Thread(target=insert, args=(other, 2))
        waiting.start()
    waiting.join(30)
    other.close()
    assert values(database) == [1, 2]


def test_folding_leaves_an_empty_wal(database):
    insert(database, 1)
    assert database.fold_wal()
    assert os.stat(f"{database.path}-wal").st_size == 0
    assert values(database) == [1]


def test_a_reader_in_the_middle_holds_the_fold_back(tmp_path):
    database = Database(tmp_path / "t.db")
    with database.writing() as db:
        db.execute_sql("create table t(x integer) strict")
        db.execute_sql("pragma busy_timeout = 1")
    with database.reading() as db:
        db.execute_sql("select * from t").fetchall()
        insert(database, 1)
        assert not database.fold_wal()
    assert database.fold_wal()
    database.close()


def test_closing_leaves_one_file(tmp_path):
    database = Database(tmp_path / "t.db")
    with database.writing() as db:
        db.execute_sql("create table t(x integer) strict")
    assert values(database) == []
    database.close()
    assert os.listdir(tmp_path) == ["t.db"]


class TestReadOnly:
    @pytest.fixture
    def store(self, tmp_path):
        path = tmp_path / "t.db"
        database = Database(path)
        with database.writing() as db:
            db.execute_sql("create table t(x integer) strict")
        database.close()
        return path

    @pytest.mark.parametrize("immutable", [False, True])
    def test_it_reads_and_refuses_to_write(self, store, immutable):
        database = Database(store, read_only=True, immutable=immutable)
        assert values(database) == []
        with pytest.raises(StoreReadOnlyError), database.writing():
            pass
        assert not database.fold_wal()
        database.close()

    def test_an_immutable_one_makes_no_side_files(self, store):
        database = Database(store, read_only=True, immutable=True)
        assert values(database) == []
        assert os.listdir(store.parent) == [store.name]
        database.close()

    def test_opening_what_is_not_there_does_not_make_it(self, tmp_path):
        database = Database(tmp_path / "gone.db", read_only=True)
        with pytest.raises(StoreReadOnlyError, match=r"gone\.db"):
            values(database)
        assert os.listdir(tmp_path) == []


def test_a_write_that_is_cut_short_leaves_nothing_behind(database):
    insert(database, 1)
    with file_size_limit(64 << 10), pytest.raises(FailedError, match="disk I/O error"), database.writing() as db:
        db.execute_sql("create table big as select zeroblob(1000000) as x")
    insert(database, 2)
    assert values(database) == [1, 2]


def test_a_database_that_is_full_is_told_as_a_full_disk(database):
    with database.writing() as db:
        db.execute_sql("pragma max_page_count = 4")
    with pytest.raises(StoreFullError) as caught, database.writing() as db:
        db.execute_sql(
            "insert into t select value from (with recursive n(value) as (select 1 union all"
            " select value + 1 from n limit 100000) select value from n)"
        )
    assert caught.value.hint
    insert(database, 1)
    assert values(database) == [1]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"no database " * 1000), id="other bytes"),
        pytest.param(lambda path: os.truncate(path, PAGE_SIZE), id="a page is missing"),
    ],
)
def test_damage_is_told_as_damage(tmp_path, damage):
    path = tmp_path / "t.db"
    database = Database(path)
    with database.writing() as db:
        db.execute_sql("create table t(x integer) strict")
    insert(database, 1)
    database.close()
    damage(path)
    again = Database(path, read_only=True)
    with pytest.raises(StoreDamagedError, match=r"t\.db"):
        values(again)


def test_a_table_that_is_missing_is_damage(database):
    with pytest.raises(StoreDamagedError), database.reading() as db:
        db.execute_sql("select * from missing")


def test_a_database_that_somebody_else_holds_is_told_with_what_to_do(database, monkeypatch):
    monkeypatch.setattr(db_module, "BUSY_TIMEOUT_S", 0.01)
    other = Database(database.path)
    with database.writing(), pytest.raises(FailedError, match="is held by another program") as caught:
        insert(other, 1)
    other.close()
    assert "close what has it open" in caught.value.hint


def test_any_other_fault_is_a_plain_failure(database):
    with pytest.raises(FailedError, match="cannot store TEXT value") as caught, database.writing() as db:
        db.execute_sql("insert into t values('no number')")
    assert type(caught.value) is FailedError


def test_a_path_that_cannot_be_opened_is_told(tmp_path):
    with pytest.raises(StoreReadOnlyError):
        Database(tmp_path / "no" / "such" / "folder.db")


@pytest.mark.parametrize("before_it_is_refused", [0, 1])
def test_where_the_guard_refuses_nothing_is_written(database, before_it_is_refused):
    """Before the transaction, and before its commit."""
    asked = iter([None] * before_it_is_refused)

    def guard():
        if next(asked, "moved") == "moved":
            raise FailedError("the file was moved")

    database.guard = guard
    with pytest.raises(FailedError, match="moved"):
        insert(database, 1)
    database.guard = lambda: None
    assert values(database) == []


def test_where_the_guard_refuses_nothing_is_read_by_a_new_connection(database):
    def guard():
        raise FailedError("the file was moved")

    database.guard = guard
    with pytest.raises(FailedError, match="moved"):
        values(database)


def test_a_copy_holds_what_was_committed_while_somebody_writes(database, tmp_path):
    insert(database, 1)
    with database.writing() as db:
        db.execute_sql("insert into t values(2)")
        # as a backup does it: on a thread of its own, while the writer is in the middle
        copying = threading.Thread(target=database.copy_to, args=(tmp_path / "copy.db",))
        copying.start()
        copying.join()
    copy = Database(tmp_path / "copy.db", read_only=True, immutable=True)
    assert values(copy) == [1]
    copy.close()
    assert values(database) == [1, 2]
    assert sorted(found.name for found in tmp_path.iterdir() if "copy" in found.name) == ["copy.db"]
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", ["file", "link"])
def test_a_copy_never_takes_the_place_of_anything(database, tmp_path, there):
    target, outside = tmp_path / "copy.db", tmp_path / "outside"
    outside.write_bytes(b"mine")
    if there == "link":
        target.symlink_to(outside)
    else:
        target.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        database.copy_to(target)
    assert target.read_bytes() == outside.read_bytes() == b"mine"


def test_free_pages_go_back_in_slices(tmp_path):
    database = Database(tmp_path / "x.db")
    with database.writing() as db:
        db.execute_sql("create table t(x blob)")
        db.execute_sql("insert into t select zeroblob(100000) from (values (1), (2), (3), (4), (5))")
    with database.writing() as db:
        db.execute_sql("delete from t")
    before = database.free_pages()
    database.vacuum(10)
    assert database.free_pages() == before - 10
    database.vacuum(before)
    assert database.free_pages() == 0
    database.fold_beside()
    assert database.path.stat().st_size < 10 * PAGE_SIZE
    database.close()


def test_the_wal_is_folded_beside_a_writer_and_a_reader(tmp_path):
    database = Database(tmp_path / "x.db")
    with database.writing() as db:
        db.execute_sql("create table t(x)")
    with database.reading() as reader, database.writing() as db:
        reader.execute_sql("select * from t").fetchall()
        db.execute_sql("insert into t values (1)")
        database.fold_beside()
        # in the file itself: what had been committed before the reader began
        with closing(sqlite3.connect(f"file:{database.path}?mode=ro&immutable=1", uri=True)) as file:
            assert file.execute("select * from t").fetchall() == []
    database.close()


def test_what_was_deleted_stands_nowhere_in_a_file_that_was_written_anew(tmp_path):
    """Pages that were split keep copies that secure_delete does not reach: without the writing anew some are found here."""
    database, drawn = Database(tmp_path / "t.db"), random.Random(1)
    with database.writing() as db:
        db.execute_sql("create table t(a integer, b integer, text blob, primary key(a, b)) strict, without rowid")
    texts: dict[int, bytes] = {}
    for _ in range(25):
        with database.writing() as db:
            for number in range(len(texts), len(texts) + drawn.randrange(1, 300)):
                texts[number] = drawn.randbytes(drawn.randrange(8, 2_000))
                db.execute_sql("insert into t values(?, ?, ?)", (drawn.randrange(300), number, texts[number]))
    gone = drawn.sample(sorted(texts), len(texts) // 3)
    with database.writing() as db:
        for number in gone:
            db.execute_sql("update t set text = null where b = ?", (number,))
    database.write_anew()
    assert database.empty_wal()
    assert (tmp_path / "t.db-wal").stat().st_size == 0
    data = (tmp_path / "t.db").read_bytes()
    assert [number for number in gone if texts[number] in data] == []
    assert all(texts[number][:8] in data for number in texts.keys() - {*gone})
    database.close()


def test_a_reader_keeps_the_wal_and_nobody_waits_for_it(tmp_path):
    database = Database(tmp_path / "t.db")
    with database.writing() as db:
        db.execute_sql("create table t(a integer) strict")
    with database.reading() as reader:
        reader.execute_sql("select count(*) from t").fetchone()
        with database.writing() as db:
            db.execute_sql("insert into t values(1)")
        assert not database.empty_wal()
    assert database.empty_wal()
    database.close()
