"""A repair of a ``timeline.db`` that is a link, no file, or in the middle of a transaction."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from openoxide.checkpoints.schema import open_timeline
from openoxide.daemon import offline
from openoxide.daemon.mending import repair
from openoxide.errors import RefusedError
from tests.daemon.test_checking import filled, first_pack, flip
from tests.daemon.test_mending import copied

_IN_A_WAL = """
db.execute("pragma journal_mode = wal").fetchone()
db.execute("update checkpoint set name = 'in the WAL ' || number")
"""
_TORN = """
db.execute("pragma journal_mode = delete").fetchone()
db.execute("pragma cache_size = 2")
db.execute("begin immediate")
db.execute("delete from checkpoint")
db.execute("delete from version where seq > 1")
db.execute("create table more(bytes blob)")
db.execute("insert into more values(randomblob(4000000))")
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    with filled(folder) as box:
        pass
    (box.home.folder / "oxided.lock").touch(0o600)
    return box


@pytest.fixture
def home(sound, tmp_path):
    return copied(sound, tmp_path)


def repaired(home, *, dry_run=False):
    return repair(home, dry_run=dry_run, report=lambda _: None)


def names(file) -> list[tuple[int, str | None]]:
    with closing(sqlite3.connect(file)) as db:
        return db.execute("select number, name from checkpoint order by id").fetchall()


def written_by_one_that_is_killed(file, statements):
    program = f"import os, signal, sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n{statements}"
    killed = f"{program}\nos.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", killed, str(file)], check=False).returncode == -signal.SIGKILL


def linked(home, elsewhere):
    """The database on another disk, and a commit in the WAL beside it that was never taken in."""
    elsewhere.mkdir()
    os.rename(home.timeline_db, elsewhere / "timeline.db")
    os.symlink(elsewhere / "timeline.db", home.timeline_db)
    written_by_one_that_is_killed(home.timeline_db, _IN_A_WAL)
    assert (elsewhere / "timeline.db-wal").stat().st_size


def test_what_a_link_leads_to_is_not_replaced(home, tmp_path):
    linked(home, tmp_path / "disk")
    flip(first_pack(home), 200)

    assert repaired(home, dry_run=True)["needed"]
    with pytest.raises(RefusedError, match="is a link"):
        repaired(home)

    assert home.timeline_db.is_symlink()
    assert all(name == f"in the WAL {number}" for number, name in names(home.timeline_db))


def test_a_read_without_a_daemon_takes_in_the_wal_behind_a_link(home, tmp_path, sound):
    linked(home, tmp_path / "disk")

    answer = offline.answer("log", {"path": str(sound.root)}, {"OPENOXIDE_HOME": str(home.folder)})

    assert answer["items"]
    assert all(item["name"] == f"in the WAL {item['number']}" for item in answer["items"])


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_at_once(home, make, dry_run):
    home.timeline_db.unlink()
    make(home.timeline_db)

    with pytest.raises(RefusedError, match="no regular file"):
        repaired(home, dry_run=dry_run)


def test_half_a_transaction_is_taken_back_and_not_for_the_store(home):
    before = names(home.timeline_db)
    written_by_one_that_is_killed(home.timeline_db, _TORN)
    with closing(sqlite3.connect(f"file:{home.timeline_db}?mode=ro&immutable=1", uri=True)) as torn:
        assert torn.execute("select count(*) from checkpoint").fetchone() != (len(before),), "else nothing is torn"

    answer = repaired(home)

    assert not any(fix["loses"] for fix in answer["fixes"])
    assert answer["lost"] == []
    open_timeline(home.timeline_db).close()
    assert names(home.timeline_db) == before
