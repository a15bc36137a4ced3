"""``check`` against a real store: each thing that is damaged alone is the one thing that it tells, and a sound store is clean
whatever was done to it.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, contextmanager

import pytest

from openoxide.daemon.operations.checking import checked
from openoxide.db import Database
from openoxide.errors import NotFoundError, UsageError
from openoxide.fileio import make_private
from openoxide.paths import Home
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box

KIB = 1 << 10


@pytest.fixture(autouse=True, scope="module")
def _as_the_daemon_has_it():
    before = os.umask(0o077)
    yield
    os.umask(before)


@contextmanager
def filled(folder):
    """Checkpoints of every kind of state, with a turn, and a rewind that was undone."""
    with Box(folder) as box:
        for number in range(8):
            (box.root / f"f{number}").write_text(f"line {number}\n" * (1 + 40 * number))
        (box.root / "raw").write_bytes(random.Random(1).randbytes(300 * KIB))
        (box.root / "big").write_bytes(random.Random(2).randbytes(4200 * KIB))
        (box.root / "link").symlink_to("f1")
        (box.root / "folder").mkdir()
        (box.root / "node_modules").mkdir()
        os.mkfifo(box.root / "pipe")
        box.watch()
        declared = {"agent": "codex", "session": "s", "prompt": "p"}
        box.call("turn_begin", **declared)
        (box.root / "f3").write_text("written by an agent\n")
        (box.root / "f4").unlink()
        box.call("turn_end", **declared)
        box.checkpoint("mine")
        box.rewind("1", exact=True)
        box.call("undo")
        make_private(box.home.folder)
        yield box


@pytest.fixture
def box(tmp_path):
    with filled(tmp_path) as box:
        yield box


def query(box, sql, *values):
    with box.service.timeline.database.writing() as db:
        return db.execute_sql(sql, values).fetchall()


def test_a_sound_store_has_no_problem(box):
    answer = box.call("check", read_data=True)

    assert answer["problems"] == []
    assert answer["problem_count"] == 0
    assert answer["checked"]["checkpoints"] == len(box.call("log")["items"])
    assert answer["checked"]["contents"] == answer["checked"]["read"] == len(query(box, "select 1 from blob"))
    assert answer["bytes_read"] == query(box, "select sum(size) from blob")[0][0]
    assert answer["sampled"] is None


DAMAGES = {
    # what is changed, and the kinds that it is told as
    "kind": ("update version set kind = 9 where seq = 3", {"value", "live"}),
    "mode": ("update version set mode = 70000 where seq = 3", {"value", "live"}),
    "mode in range": ("update version set mode = mode + 1 where seq = 3", {"manifest", "head", "live"}),
    "an old mode": (
        "update version set mode = mode + 1 where seq = (select min(v.seq) from version v join version n"  # noqa: ISC004
        " on n.path = v.path and n.seq > v.seq)",
        {"manifest"},
    ),
    "time": ("update version set mtime_ns = mtime_ns + 1 where seq = 3 and kind = 1", {"manifest", "head", "live"}),
    "size": ("update version set size = size + 1 where kind = 1 and seq = 3", {"value", "live"}),
    "flags": ("update version set flags = 8 where seq = 3", {"value", "live"}),
    "a target of a file": ("update version set target = x'41' where kind = 1 and seq = 3", {"value", "live"}),
    "a link without target": ("update version set target = null where kind = 2", {"value", "live"}),
    "a pipe of no kind": ("update version set target = x'41' where kind = 4", {"value", "live"}),
    "a reason that there is not": ("update version set target = x'41' where kind = 5", {"value", "live"}),
    "a blob that is not there": ("update version set blob = 9999 where kind = 1 and seq = 3", {"reference", "live"}),
    "another blob": (
        "update version set blob = (select b.id from blob b where b.id <> version.blob limit 1) where kind = 1 and seq = 3",
        {"value", "live"},
    ),
    "a writer that is not there": ("update version set writer = 9999 where seq = 3", {"reference"}),
    "a worktree that is not there": ("update version set worktree = 7 where seq = 3", {"reference", "manifest", "head"}),
    "two at a position": ("update version set seq = 2 where seq = 3", {"value", "live"}),
    "a version gone": ("delete from version where seq = 3", {"live", "manifest", "head"}),
    "a path": ("update path set path = x'2e2e' where path = cast('f1' as blob)", {"value"}),
    "another path": ("update path set path = cast('zz' as blob) where path = cast('f1' as blob)", {"manifest", "head"}),
    "a path's worktree": ("update path set worktree = 7 where path = cast('f1' as blob)", {"reference"}),
    "a path gone": ("delete from path where path = cast('f1' as blob)", {"reference"}),
    "a live mode": ("update live set mode = mode + 1 where seq = 3", {"live"}),
    "a live row gone": ("delete from live where seq = 3", {"live"}),
    "a live of no path": ("insert into live(path, seq, kind, mode, size, mtime_ns, flags) values(99,1,0,0,0,0,0)", {"reference"}),
    "head's files": ("update head set files = files + 1", {"head"}),
    "head's bytes": ("update head set bytes = bytes - 1", {"head"}),
    "head's skipped": ("update head set skipped = 4", {"head"}),
    "head's seq": ("update head set seq = seq + 1", {"head"}),
    "head's sum": ("update head set sum = zeroblob(32)", {"head"}),
    "head's sum cut": ("update head set sum = x'00'", {"head", "value"}),
    "a head gone": ("delete from head", {"head"}),
    "a head of no worktree": ("insert into head values(7, 0, zeroblob(32), 0, 0, 0)", {"reference"}),
    "a manifest hash": ("update checkpoint set manifest_hash = zeroblob(32) where number = 2", {"manifest"}),
    "a hash cut": ("update checkpoint set manifest_hash = x'01' where number = 2", {"manifest", "value"}),
    "a checkpoint's count": ("update checkpoint set skipped = 5 where number = 2", {"manifest"}),
    "a checkpoint's place": ("update checkpoint set seq = 900 where number = 2", {"reference"}),
    "a checkpoint's place moved": ("update checkpoint set seq = seq - 1 where number = 1", {"manifest"}),
    "a trigger": ("update checkpoint set trigger = 'manuel' where number = 2", {"value"}),
    "a mark": ("update checkpoint set pinned = 3 where number = 2", {"value"}),
    "a turn": ("update checkpoint set turn = 99 where number = 2", {"reference"}),
    "a checkpoint's worktree": ("update checkpoint set worktree = 7 where number = 2", {"reference"}),
    "a hash of a blob": ("update blob set hash = x'0102' where id = 2", {"value", "manifest", "head"}),
    "a blob's frame": ("update blob set frame = 999 where id = 2", {"reference"}),
    "a blob's place": ("update blob set inner = inner + 1 where id = 2", {"frame"}),
    "a blob's end": ("update blob set inner = 1 << 30 where id = 2", {"value"}),
    "a frame's place": ("update frame set offset = offset + 1 where id = 1", {"frame"}),
    "a frame's length": ("update frame set stored = stored - 1 where id = 1", {"frame"}),
    "a frame's raw length": ("update frame set raw = raw + 1 where id = 1", {"frame"}),
    "a frame's codec": ("update frame set codec = 1 - codec where id = 1", {"frame"}),
    "a codec that there is not": ("update frame set codec = 7 where id = 1", {"value"}),
    "a frame's pack": ("update frame set pack = 77 where id = 1", {"file_missing"}),
    "a frame's end": ("update frame set stored = 1 << 40 where id = 1", {"file_short"}),
    "a frame gone": ("delete from frame where id = 1", {"reference"}),
    "a certainty": ("update writer set certainty = 'perhaps'", {"value"}),
    "a writer's operation": ("update writer set operation = 99 where operation is not null", {"reference"}),
    "a writer's window": ("update writer_window set window = 99", {"reference"}),
    "a claim of no version": ("insert into claim values(1, 900, 1)", {"reference"}),
    "a claim of no writer": ("insert into claim select path, seq, 99 from version where seq = 3", {"reference"}),
    "a window's kind": ("update window set kind = 'tour'", {"value"}),
    "a window's end": ("update window set ended_seq = began_seq - 1", {"value"}),
    "a window's parent": ("update window set parent = 99", {"reference"}),
    "an operation's kind": ("update operation set kind = 'wind'", {"value"}),
    "an operation's phase": ("update operation set phase = 'over'", {"value"}),
    "an operation's checkpoint": ("update operation set before = 99 where kind = 'rewind'", {"reference"}),
    "a checkpoint of another worktree": (
        "insert into checkpoint select 99, 'other', 2, number, seq, created_ms, trigger, name, pinned, expires_ms, null, agent,"  # noqa: ISC004
        " session, prompt, complete, late, gap, git_head, git_branch, git_origin, added, modified, removed, skipped,"
        " manifest_hash, 'failed', forgotten_ms from checkpoint where number = 1;"
        "insert into worktree values(2, 'p', x'2f41', 'code', 0, 0, 0, 0, null, 0, null, null);"
        "update operation set before = 99 where kind = 'rewind'",
        {"reference"},
    ),
    "before and after the wrong way round": ("update operation set before = after, after = before where id = 1", {"value"}),
    "what an operation reverses": ("update operation set reverses = 99 where kind = 'undo'", {"reference"}),
    "a step of no operation": ("insert into step values(99,1,'place',x'41','{\"kind\":0}','{\"kind\":0}',null)", {"reference"}),
    "a step's state": ("insert into step values(1, 1, 'place', x'41', '{\"kind\":', '{\"kind\":0}', null)", {"value"}),
    "a step's field": ("insert into step values(1, 1, 'place', x'41', '{\"kind\":0,\"x\":1}', '{\"kind\":0}', null)", {"value"}),
    "a step's action": ("insert into step values(1, 1, 'put', x'41', '{\"kind\":0}', '{\"kind\":0}', null)", {"value"}),
    "an outcome's kind": ("update outcome set kind = 'gone'", {"value"}),
    "an outcome's blob": ("update outcome set blob = 999", {"reference"}),
    "a root": ("update worktree set root = x'41'", {"value"}),
    "a gap of no worktree": ("insert into gap(worktree, cause, opened_ms) values(7, 'x', 0)", {"reference"}),
    "what the user said": ("insert into mark values(1, zeroblob(32), 'perhaps', 0)", {"value"}),
    "what the user said of no text": ("insert into mark values(1, x'01', 'verified', 0)", {"value"}),
    "what the user said in no worktree": ("insert into mark values(7, zeroblob(32), 'verified', 0)", {"value"}),
    "a taint of no worktree": ("insert into taint values(7, 'a', 's', 't', 0)", {"reference"}),
    "an index gone": ("drop index version_seq", {"sqlite"}),
    "a table more": ("create table other(x)", {"sqlite"}),
    "whose it is": ("pragma application_id = 1", {"sqlite"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The home of the box, stopped; a case damages a copy of it."""
    folder = tmp_path_factory.mktemp("sound")
    with filled(folder) as box:
        pass
    return box.home.folder


@pytest.fixture
def home(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "home", copy_function=shutil.copy2)
    return Home(tmp_path / "home")


def looked_at(home, **request):
    database = Database(home.timeline_db, read_only=True, immutable=True)
    try:
        return checked(database, home, request, lambda _: None, lambda: None)
    finally:
        database.close()


def damage(home, sql):
    with closing(sqlite3.connect(home.timeline_db)) as db:
        with db:
            db.executescript(sql)
        db.execute("pragma wal_checkpoint(truncate)")


def told(home, **request):
    return {problem["kind"] for problem in looked_at(home, **request)["problems"]}


def test_a_stopped_store_is_sound_too(home):
    assert looked_at(home, read_data=True)["problems"] == []


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_what_is_told(home, name):
    sql, expected = DAMAGES[name]
    damage(home, sql)

    assert told(home) == expected


def first_pack(home):
    return min(home.blobs.glob("*.pack"))


def big_file(home):
    (found,) = (home.blobs / "big").iterdir()
    return found


def flip(file, at, bit=0):
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << bit)]))


FILES = {
    "a pack gone": (lambda home: first_pack(home).unlink(), {"file_missing"}),
    "a big file gone": (lambda home: big_file(home).unlink(), {"file_missing"}),
    "a folder in its place": (lambda home: (big_file(home).unlink(), big_file_name(home).mkdir(0o700)), {"file_missing"}),
    "a pack cut": (lambda home: os.truncate(first_pack(home), first_pack(home).stat().st_size - 1), {"file_short"}),
    "a big file cut": (lambda home: os.truncate(big_file(home), 4_000_000), {"file_short"}),
    "magic": (lambda home: flip(first_pack(home), 0), {"frame"}),
    "a header's codec": (lambda home: flip(first_pack(home), 4), {"frame"}),
    "a header's count": (lambda home: flip(first_pack(home), 5), {"frame"}),
    "a header's length": (lambda home: flip(first_pack(home), 7), {"frame"}),
    "a header's raw length": (lambda home: flip(first_pack(home), 11), {"frame"}),
    "a name in the table": (lambda home: flip(first_pack(home), 15), {"frame"}),
    "a size in the table": (lambda home: flip(first_pack(home), 15 + 32), {"frame"}),
    "a mode of a file": (lambda home: first_pack(home).chmod(0o644), {"mode"}),
    "a mode of the home": (lambda home: home.folder.chmod(0o755), {"mode"}),
    "a pack of another store": (lambda home: private(home.blobs / "99999999.pack"), {"foreign"}),
}  # fmt: skip


def big_file_name(home):
    with closing(sqlite3.connect(home.timeline_db)) as db:
        query = "select b.hash from blob b join frame f on f.id = b.frame where f.pack is null"
        return home.blobs / "big" / db.execute(query).fetchone()[0].hex()


def private(file):
    file.touch(0o600)


@pytest.mark.parametrize("name", FILES)
def test_what_happened_to_a_file_is_what_is_told(home, name):
    act, expected = FILES[name]
    act(home)

    assert told(home) == expected


def payload(home, name):
    """Where in the first pack the frame that holds the file's first content begins."""
    query = "select f.offset from path p join version v on v.path = p.id join blob b on b.id = v.blob"
    query += " join frame f on f.id = b.frame"
    with closing(sqlite3.connect(home.timeline_db)) as db:
        return db.execute(f"{query} where p.path = cast(? as blob) order by v.seq", (name,)).fetchone()[0]


@pytest.mark.parametrize("name", ["f1", "raw"])
def test_bytes_that_changed_are_told_by_who_reads_them(home, name):
    flip(first_pack(home), payload(home, name) + 20)

    assert told(home) == set()
    assert told(home, read_data=True) == {"content"}


def test_a_name_that_is_damaged_hides_no_bytes_that_are(home):
    """The first frame holds all small files; the first content of its table is told by the table."""
    at = payload(home, "f1")
    flip(first_pack(home), 15)
    flip(first_pack(home), at + 20)

    problems = looked_at(home, read_data=True)["problems"]

    paths = {about["path"] for problem in problems for about in problem["affected"][0]["paths"]}
    assert {problem["kind"] for problem in problems} == {"frame", "content"}
    assert {f"f{number}" for number in range(8)} <= paths


def test_files_that_no_row_names_are_no_problem(home):
    private(home.blobs / "00000050.pack")
    private(home.blobs / "big" / ("ab" * 32))

    answer = looked_at(home)

    assert answer["problems"] == []
    assert (answer["unnamed"], answer["unnamed_count"]) == (["blobs/00000050.pack", f"blobs/big/{'ab' * 32}"], 2)


def test_a_problem_names_the_paths_and_the_checkpoints_that_it_is_about(home):
    big_file(home).unlink()

    (problem,) = looked_at(home)["problems"]

    (about,) = problem["affected"]
    assert problem["object"].startswith("blobs/big/")
    assert about["root"].endswith("/project")
    assert (about["paths"], about["path_count"]) == ([{"path": "big"}], 1)
    with closing(sqlite3.connect(home.timeline_db)) as db:
        numbers = [number for (number,) in db.execute("select number from checkpoint order by number")]
    assert (about["checkpoints"], about["checkpoint_count"]) == (numbers, len(numbers))


def test_only_the_checkpoints_that_hold_it_are_affected(home):
    """f4 vanished in the turn, and the rewind to checkpoint 1 brought it back for a moment."""
    damage(home, "update blob set frame = 999 where hash = (select b.hash from blob b join version v on v.blob = b.id"
                 " join path p on p.id = v.path where p.path = cast('f4' as blob) limit 1)")  # fmt: skip

    (problem,) = looked_at(home)["problems"]

    with closing(sqlite3.connect(home.timeline_db)) as db:
        holding = []
        for number, seq in db.execute("select number, seq from checkpoint order by number").fetchall():
            query = "select kind from version where path = (select id from path where path = cast('f4' as blob)) and seq <= ?"
            newest = db.execute(query + " order by seq desc limit 1", (seq,)).fetchone()
            holding += [number] if newest and newest[0] == 1 else []
    assert problem["affected"][0]["checkpoints"] == holding
    assert 0 < len(holding) < 6


def test_a_content_that_nothing_names_is_not_missed(home):
    at = payload(home, "raw")
    damage(home, "delete from version where path = (select id from path where path = cast('raw' as blob))")
    damage(home, "delete from live where path = (select id from path where path = cast('raw' as blob))")
    before = told(home, read_data=True)
    flip(first_pack(home), at)

    assert told(home, read_data=True) == before


def test_the_answer_is_bounded(home):
    damage(home, "insert into gap(worktree, cause, opened_ms) with recursive n(i) as (select 1 union all select i + 1 from n"
                 " where i < 500) select 7, 'x', i from n")  # fmt: skip

    answer = looked_at(home)

    assert (len(answer["problems"]), answer["problem_count"]) == (200, 500)


def test_a_sample_is_drawn_by_its_seed(home):
    drawn = [looked_at(home, sample=50, seed=seed) for seed in (1, 1, 2)]

    assert [answer["sampled"] for answer in drawn[1:]] == [{"percent": 50.0, "seed": seed} for seed in (1, 2)]
    assert drawn[0]["bytes_read"] == drawn[1]["bytes_read"] != drawn[2]["bytes_read"]
    assert looked_at(home, sample=50)["sampled"]["seed"] != looked_at(home, sample=50)["sampled"]["seed"]
    assert looked_at(home, sample=100)["checked"]["read"] == looked_at(home)["checked"]["contents"]


@pytest.mark.parametrize("sample", [0, -1, 101, True, "5"])
def test_a_sample_is_a_percentage(home, sample):
    with pytest.raises(UsageError):
        looked_at(home, sample=sample)


def test_a_database_that_is_none_is_a_problem_and_no_crash(home):
    home.timeline_db.write_bytes(b"no database at all" * 1000)

    assert told(home) == {"unreadable"}


def test_a_path_that_became_a_text_is_told_and_no_crash(home):
    """The record of a path in its table: four bytes of header, of which the last is its type; even is bytes, odd a text."""
    at = home.timeline_db.read_bytes().index(b"\x04\x00\x09\x10f1")
    flip(home.timeline_db, at + 3)

    assert {"sqlite", "value"} <= told(home)


def test_nothing_in_the_home_changes(home):
    before = tree_of(home.folder)

    looked_at(home, read_data=True)

    assert diff_trees(before, tree_of(home.folder)) == []


@pytest.mark.parametrize("column", ["before", "after"])
def test_an_operation_whose_checkpoint_is_of_another_worktree_is_not_taken_back(box, column):
    """An undo answered with a bug once."""
    other = box.root.parent / "other"
    other.mkdir()
    box.call("watch", path=str(other))
    box.rewind("1", exact=True)
    query(box, f"update operation set {column} = (select id from checkpoint where worktree = 2) where phase = 'done'")

    with pytest.raises(NotFoundError, match=f"the checkpoint {column} it is gone"):
        box.call("undo")
