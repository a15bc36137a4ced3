"""Worktrees, checkpoints, windows and gaps as rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints import sight, store
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import (
    Checkpoint,
    Counts,
    Coverage,
    GitPosition,
    Trigger,
    Window,
    WindowKind,
    Worktree,
)
from openoxide.checkpoints.schema import open_timeline
from openoxide.checkpoints.store import CheckpointQuery


@pytest.fixture
def db(tmp_path):
    database = open_timeline(tmp_path / "timeline.db")
    with database.writing() as db:
        yield db
    database.close()


def checkpoint(number: int, **more: object) -> Checkpoint:
    values = {
        "id": f"id{number}",
        "worktree": 1,
        "number": number,
        "seq": number * 10,
        "created_at_ms": number * 1000,
        "trigger": Trigger.MANUAL,
        "manifest_hash": bytes(32),
        **more,
    }
    return Checkpoint(**values)


WHOLE = checkpoint(
    7,
    name="before refactor",
    pinned=True,
    expires_at_ms=99,
    turn=3,
    agent="claude",
    session="s",
    prompt="p",
    trigger=Trigger.SESSION_END,
    coverage=Coverage(complete=False, late=True, cause="overflow"),
    git=GitPosition(head="abc", branch="main", origin="https://example.org"),
    counts=Counts(added=1, modified=2, removed=3),
    skipped=4,
    failed="the disk is full",
    forgotten_at_ms=5,
    manifest_hash=bytes(range(32)),
)


@pytest.mark.parametrize("written", [checkpoint(1), WHOLE])
def test_a_checkpoint_is_read_back_as_it_was_sealed(db, written):
    store.insert_checkpoint(db, written)
    query = CheckpointQuery(db, 1)
    assert query.by_row(query.row_id(written.id)) == written


class TestFinding:
    @pytest.fixture
    def query(self, db):
        """Ten of this worktree, the fifth failed, the sixth forgotten; one of another."""
        for number in range(1, 11):
            store.insert_checkpoint(
                db,
                checkpoint(
                    number,
                    name="named" if number in (2, 5) else None,
                    failed="no" if number == 5 else None,
                    trigger=Trigger.PROMPT if number % 3 == 0 else Trigger.QUIET,
                    prompt=f"p{number % 2}",
                    session="s" if number > 7 else None,
                    pinned=number == 1,
                    expires_at_ms=None if number == 1 else number * 10_000,
                ),
            )
        db.execute_sql("update checkpoint set forgotten_ms = 5 where number = 6")
        store.insert_checkpoint(db, checkpoint(3, id="other", worktree=2, name="theirs"))
        return CheckpointQuery(db, 1)

    @pytest.mark.parametrize(("number", "there"), [(1, True), (5, False), (6, False), (11, False), (10, True)])
    def test_by_number(self, query, number, there):
        found = query.by_number(number)
        assert (found.number if found else None) == (number if there else None)

    @pytest.mark.parametrize(
        ("prefix", "numbers"),
        [("id1", [1, 10]), ("id10", [10]), ("id", [1, 2, 3, 4, 7, 8, 9, 10]), ("x", []), ("id5", [])],
    )
    def test_by_the_beginning_of_an_id(self, query, prefix, numbers):
        assert sorted(found.number for found in query.by_id_prefix(prefix)) == numbers

    @pytest.mark.parametrize(("name", "numbers"), [("named", [2]), ("Named", []), ("theirs", []), ("", [])])
    def test_by_name(self, query, name, numbers):
        assert [found.number for found in query.by_name(name)] == numbers

    @pytest.mark.parametrize(("back", "number"), [(0, 10), (1, 9), (4, 4), (7, 1), (8, None)])
    def test_by_its_place_from_the_end(self, query, back, number):
        found = query.newest(back)
        assert (found.number if found else None) == number

    @pytest.mark.parametrize(("ms", "number"), [(999, None), (1000, 1), (6500, 4), (7000, 7), (99_999, 10)])
    def test_by_a_moment(self, query, ms, number):
        found = query.at_moment(ms)
        assert (found.number if found else None) == number

    @pytest.mark.parametrize(("back", "number"), [(1, 9), (2, 3), (3, None)])
    def test_by_a_turn_from_the_end(self, query, back, number):
        found = query.turn_back(back)
        assert (found.number if found else None) == number

    @pytest.mark.parametrize(("prompt", "numbers"), [("p1", [3, 9]), ("p0", []), ("p2", [])])
    def test_by_a_prompt(self, query, prompt, numbers):
        assert sorted(found.number for found in query.turn_prompt(prompt)) == numbers

    @pytest.mark.parametrize(("number", "before"), [(10, 9), (7, 4), (1, None)])
    def test_the_one_before(self, query, number, before):
        found = query.before(number)
        assert (found.number if found else None) == before

    @pytest.mark.parametrize(
        ("wish", "numbers"),
        [
            ({}, [10, 9, 8, 7, 4, 3, 2, 1]),
            ({"limit": 3}, [10, 9, 8]),
            ({"limit": 2, "below": 8}, [7, 4]),
            ({"session": "s"}, [10, 9, 8]),
            ({"since_ms": 8000}, [10, 9, 8]),
            ({"all_of_them": True}, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
            ({"all_of_them": True, "below": 7, "limit": 2}, [6, 5]),
            ({"session": "none"}, []),
        ],
    )
    def test_a_listing_is_newest_first(self, query, wish, numbers):
        assert [found.number for found in query.listing(**wish)] == numbers

    def test_counts_and_the_next_expiry_are_of_what_is_kept(self, query, db):
        assert query.count() == 8
        assert query.next_expiry() == 20_000
        assert CheckpointQuery(db, 3).count() == 0
        assert CheckpointQuery(db, 3).next_expiry() is None

    def test_numbers_are_never_given_twice(self, query, db):
        assert [store.next_number(db, worktree) for worktree in (1, 2, 3)] == [11, 4, 1]
        db.execute_sql("update checkpoint set forgotten_ms = 5 where number = 10")
        assert store.next_number(db, 1) == 11

    def test_the_newest_position_is_of_a_sealed_one(self, query, db):
        assert [store.newest_seq(db, worktree) for worktree in (1, 2, 3)] == [100, 30, None]


def worktree(root: bytes = b"/p", **more: object) -> Worktree:
    values = {"id": 0, "project": "p", "root": root, "dev": 1, "ino": 2, "birth_ns": 3, "watching": True, **more}
    return Worktree(**values)


class TestWorktrees:
    @pytest.mark.parametrize(
        "new", [worktree(), worktree(b"/\xff\n", common_dir=b"/g\xff", watching=False, kind="memory", birth_ns=-1)]
    )
    def test_one_is_read_back_as_it_was_registered(self, db, new):
        made = store.insert_worktree(db, new, 5)
        assert made == replace(new, id=made.id)
        assert store.worktrees(db) == [made]

    def test_one_with_a_large_inode_number_is_registered(self, db):
        assert store.insert_worktree(db, worktree(ino=2**64 - 1, dev=2**63), 5).ino == 2**64 - 1

    def test_two_cannot_watch_one_place(self, db):
        first = store.insert_worktree(db, worktree(), 5)
        with pytest.raises(Exception, match="UNIQUE"):
            store.insert_worktree(db, worktree(), 5)
        store.set_watching(db, first.id, 6, watching=False)
        second = store.insert_worktree(db, worktree(), 5)
        assert [(w.id, w.watching) for w in store.worktrees(db)] == [(first.id, False), (second.id, True)]

    def test_a_directory_that_was_accepted_is_the_worktree_from_now_on(self, db):
        made = store.insert_worktree(db, worktree(), 5)
        store.adopt_root(db, replace(made, dev=7, ino=(1 << 64) - 8, birth_ns=9), 5)
        assert store.worktrees(db) == [replace(made, dev=7, ino=(1 << 64) - 8, birth_ns=9)]
        assert sight.open_gaps(db, made.id) == [("moved", 5)]

    def test_deleting_a_history_leaves_nothing_of_it_and_all_of_others(self, db):
        tables = [
            row[0]
            for row in db.execute_sql("select name from sqlite_master where type = 'table'").fetchall()
            if row[0] not in ("frame", "blob", "writer", "writer_window", "meta")
        ]
        made = [store.insert_worktree(db, worktree(root), 5) for root in (b"/a", b"/b")]
        for w in made:
            fill(db, w.id)
        store.delete_history(db, made[0].id)
        for table in tables:
            assert db.execute_sql(f"select count(*) from {table}").fetchone() == (1,), table
        assert store.worktrees(db) == [made[1]]

    def test_stored_bytes_count_each_content_once(self, db):
        for number, size in enumerate((5, 7)):
            name = blob_hash(b"%d" % number)
            db.execute_sql("insert into blob(hash, frame, inner, size) values(?, 1, 0, ?)", (name, size))
        for path, blob in ((1, 1), (2, 1), (3, 2)):
            db.execute_sql(
                "insert into version values(?, 1, ?, 1, 0, 0, 0, ?, null, 0, null)", (path, 1 if path < 3 else 2, blob)
            )
        assert [store.stored_bytes(db, w) for w in (1, 2, 3)] == [5, 7, 0]


def fill(db, number: int) -> None:
    """One row of the worktree ``number`` in each table."""
    db.execute_sql("insert into path values(?, ?, x'61')", (number, number))
    db.execute_sql("insert into version values(?, 1, ?, 1, 0, 0, 0, null, null, 0, null)", (number, number))
    db.execute_sql(
        "insert into live values(?, 1, 1, 0, 0, 0, null, null, 0, null, null, null, null, null, null, null, null)",
        (number,),
    )
    db.execute_sql("insert into claim values(?, 1, 1)", (number,))
    db.execute_sql("insert into head values(?, 1, x'00', 0, 0, 0)", (number,))
    store.insert_checkpoint(db, checkpoint(1, id=f"c{number}", worktree=number))
    db.execute_sql("insert into position select id, worktree, 1 from checkpoint where worktree = ?", (number,))
    sight.begin_window(db, number, window("s"), 5)
    sight.open_gap(db, number, "overflow", 5)
    db.execute_sql(
        "insert into operation values(?, ?, ?, 'undo', 'done', 0, '', 0, '', 0, 0, null, null, null, null, '', null)",
        (number, f"o{number}", number),
    )
    db.execute_sql("insert into step values(?, 0, 'mode', x'61', '', '', null)", (number,))
    db.execute_sql("insert into outcome values(null, ?, 'kept', x'61', '', null)", (number,))
    db.execute_sql("insert into taint values(?, 'a', 's', 'WebFetch', 0)", (number,))
    db.execute_sql("insert into mark values(?, zeroblob(32), 'verified', 0)", (number,))


def window(session: str, **more: object) -> Window:
    values = {
        "id": 0,
        "kind": WindowKind.TURN,
        "agent": "claude",
        "session": session,
        "prompt": "p",
        "began_seq": 4,
        **more,
    }
    return Window(**values)


class TestWindows:
    def test_one_is_open_until_it_is_ended(self, db):
        turn = sight.begin_window(db, 1, window("s"), 5)
        assert turn == window("s", id=turn.id)
        assert sight.open_windows(db, 1) == [turn]
        assert sight.open_windows(db, 2) == []
        sight.end_windows(db, frozenset({turn.id}), 9, 6)
        assert sight.open_windows(db, 1) == []
        assert sight.session_windows(db, 1, "s") == [replace(turn, ended_seq=9, ended_at_ms=6)]

    def test_those_that_are_open_end_with_the_record_when_sight_is_lost(self, db):
        db.execute_sql("insert into head values(1, 7, x'00', 0, 0, 0)")
        ended, lost = (sight.begin_window(db, 1, window("s"), 5) for _ in range(2))
        other = sight.begin_window(db, 2, window("s"), 5)
        sight.end_windows(db, frozenset({ended.id}), 6, 6)
        sight.lose_sight(db, 1, "paused", 8)
        sight.end_windows(db, frozenset({ended.id, lost.id}), 9, 9)
        assert sight.session_windows(db, 1, "s") == [
            replace(ended, ended_seq=6, ended_at_ms=6),
            replace(lost, ended_seq=7, ended_at_ms=8, lost="paused"),
        ]
        assert sight.open_windows(db, 2) == [other]
        assert sight.open_gaps(db, 1) == [("paused", 8)]

    def test_a_tool_call_marks_its_turn(self, db):
        turn = sight.begin_window(db, 1, window("s"), 5)
        other = sight.begin_window(db, 1, window("t"), 5)
        tool = sight.begin_window(db, 1, window("s", kind=WindowKind.TOOL, tool="Bash", parent=turn.id), 6)
        assert sight.open_windows(db, 1) == [replace(turn, declares_tools=True), other, tool]

    def test_sessions_are_told_apart(self, db):
        turns = [sight.begin_window(db, 1, window(session), 5) for session in ("a", "b", "a")]
        sight.begin_window(db, 2, window("a"), 5)
        assert sight.session_windows(db, 1, "a") == [turns[0], turns[2]]
        assert sight.windows_by_id(db, frozenset({turns[1].id, 99})) == [turns[1]]
        assert sight.windows_by_id(db, frozenset()) == []


class TestGaps:
    def test_one_is_open_until_a_pass_that_began_later(self, db):
        sight.open_gap(db, 1, "overflow", 100)
        sight.close_gaps(db, 1, opened_before_ms=99, now_ms=150)
        assert sight.open_gaps(db, 1) == [("overflow", 100)]
        sight.close_gaps(db, 1, opened_before_ms=100, now_ms=150)
        assert sight.open_gaps(db, 1) == []

    def test_the_same_cause_is_one_gap_until_it_is_closed(self, db):
        for ms in (100, 200):
            sight.open_gap(db, 1, "overflow", ms)
        sight.open_gap(db, 1, "not_watched", 300)
        sight.open_gap(db, 2, "overflow", 400)
        assert sight.open_gaps(db, 1) == [("overflow", 100), ("not_watched", 300)]
        sight.close_gaps(db, 1, 500, 500)
        sight.open_gap(db, 1, "overflow", 600)
        assert sight.open_gaps(db, 1) == [("overflow", 600)]
        assert sight.open_gaps(db, 2) == [("overflow", 400)]


@given(st.builds(Counts, added=st.integers(0), modified=st.integers(0), removed=st.integers(0)))
def test_the_total_of_counts_is_their_sum(counts):
    assert counts.total == counts.added + counts.modified + counts.removed
