"""A prune frees what nothing needs, and nobody who looks at what is kept can tell that there was one."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing

import pytest

from openoxide.checkpoints import expiry
from openoxide.checkpoints.policy import Disk
from openoxide.errors import ConflictError
from tests.daemon.aged import DAY_MS, age, problems, record, release, sql, write
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        yield box


def stored(box):
    """What the contents take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in box.home.blobs.rglob("*") if path.is_file())


def content(number, size=40_000):
    return random.Random(number).randbytes(size)


def versions(box):
    """How many rows each path has."""
    return dict(sql(box, "select p.path, count(*) from version v join path p on p.id = v.path group by p.id"))


class TestWhatGoes:
    """Rows between kept positions, then contents, then bytes."""

    def test_states_that_no_checkpoint_holds_go_with_their_bytes(self, box):
        write(box, "f", content(0))
        box.watch()
        for number in range(1, 9):
            write(box, "f", content(number))
            record(box)
        box.checkpoint()
        age(box)
        before, plan = stored(box), box.call("prune", dry_run=True)

        answer = box.call("prune")

        assert (plan["versions"], plan["contents"]) == (answer["versions"], answer["contents"]) == (7, 7)
        assert before - stored(box) >= 7 * 40_000 * 0.95
        assert abs(plan["freed_bytes"] - (before - stored(box))) < 20_000
        assert box.call("cat", checkpoint="1", file="f") == content(0)
        assert box.call("cat", checkpoint="2", file="f") == content(8)
        assert problems(box) == []
        assert box.call("prune", dry_run=True) == {
            "ok": True, "dry_run": True, "freed_bytes": 0, "versions": 0, "contents": 0, "packs": 0, "damaged": 0,
            "lacking_bytes": 0, "notes": [],
        }  # fmt: skip

    def test_a_dry_run_writes_nothing(self, box):
        write(box, "f", content(0))
        box.watch()
        write(box, "f", content(1))
        record(box)
        write(box, "f", content(2))
        box.checkpoint()
        age(box)
        before = tree_of(box.home.folder, skip={b"oxided.sock", b"timeline.db-shm", b"timeline.db-wal"})
        assert box.call("prune", dry_run=True)["versions"] == 1
        assert not diff_trees(
            before, tree_of(box.home.folder, skip={b"oxided.sock", b"timeline.db-shm", b"timeline.db-wal"})
        )

    def test_no_more_is_written_than_the_disk_has_room_for(self, box, monkeypatch):
        write(box, "keep", content(100, 1 << 20))
        write(box, "f", content(0, 1 << 20))
        box.watch()
        (box.root / "f").unlink()
        box.checkpoint()
        release(box, 1)
        age(box)
        free = 5 << 20
        monkeypatch.setattr(expiry, "disk_of", lambda _: Disk(1 << 30, free))
        before, plan = sorted(box.home.blobs.iterdir()), box.call("prune", dry_run=True)
        answer = box.call("prune")
        assert sorted(box.home.blobs.iterdir()) == before
        assert (plan["packs"], answer["packs"]) == (0, 0)
        for told in (plan, answer):
            assert "1 pack stays as it is: to write the smallest anew 5.3 MiB have to be free" in told["notes"][-1]
            assert "5.0 MiB are;" in told["notes"][-1]
            assert told["lacking_bytes"] == pytest.approx(5.25 * (1 << 20), rel=0.001)

        free = 6 << 20
        plan, stored_before = box.call("prune", dry_run=True), stored(box)
        assert box.call("prune")["packs"] == 1
        assert abs(stored_before - stored(box) - plan["freed_bytes"]) < 20_000
        assert problems(box) == []

    def test_what_lies_at_the_limit_is_no_plan_that_nothing_comes_of(self, box):
        # of three contents of one size one goes: exactly a third of their pack, and not more
        for number in range(3):
            write(box, f"f{number}", content(number, 2_000_000))
        box.watch()
        (box.root / "f0").unlink()
        box.checkpoint()
        release(box, 1)
        age(box)
        plan = box.call("prune", dry_run=True)
        assert (plan["freed_bytes"], plan["packs"]) == (0, 0)
        assert box.call("prune")["packs"] == 0
        assert box.call("prune", dry_run=True)["freed_bytes"] == 0

    def test_a_version_that_others_are_differences_of_takes_its_room_until_they_go(self, box):
        first = bytes(content(0, 500_000).hex(), "ascii")
        for number in range(4):
            write(box, "f", first[: 1_000 * number] + content(number, 100) + first[1_000 * number :])
            box.watch() if not number else box.checkpoint()
        age(box)
        box.call("prune")
        assert sql(box, "select count(*) from frame where codec = 2")[0][0]
        write(box, "f", content(9, 1_000))
        box.checkpoint()
        release(box, 4)  # the one that lies there whole
        age(box)
        plan, before = box.call("prune", dry_run=True), stored(box)
        answer = box.call("prune")
        assert plan["contents"] == answer["contents"] == 1
        assert plan["freed_bytes"] == 0
        assert before - stored(box) < 20_000
        release(box, 2, 3)
        plan, before = box.call("prune", dry_run=True), stored(box)
        box.call("prune")
        assert abs(before - stored(box) - plan["freed_bytes"]) < 20_000
        assert problems(box) == []

    @pytest.mark.parametrize("seed", range(4))
    def test_a_plan_is_what_is_done(self, box, seed):
        chance = random.Random(seed)
        sizes = [chance.choice([3_000, 90_000, 350_000]) for _ in range(6)]
        # as text, which can be packed: of what cannot a plan promises no differences
        texts = {f"f{number}": bytearray(content(number, size).hex(), "ascii") for number, size in enumerate(sizes)}
        box.watch()
        for _ in range(14):
            for name in chance.sample(sorted(texts), 3):
                at = chance.randrange(len(texts[name]))
                texts[name][at : at + 40] = bytes(chance.randbytes(chance.choice([20, 20, 30_000])).hex(), "ascii")
                write(box, name, texts[name])
            box.checkpoint()
        for kept in (9, 5):
            age(box)
            sealed = [number for (number,) in sql(box, "select number from checkpoint order by number")]
            release(box, *chance.sample(sealed[:-1], len(sealed) - kept))
            plan, before = box.call("prune", dry_run=True), stored(box)
            answer = box.call("prune")
            assert (plan["versions"], plan["contents"]) == (answer["versions"], answer["contents"])
            assert before - stored(box) == pytest.approx(plan["freed_bytes"], rel=0.2, abs=30_000)
            again = box.call("prune", dry_run=True)
            assert again["freed_bytes"] == box.call("prune")["freed_bytes"] == 0

    def test_within_a_day_everything_stays(self, box):
        write(box, "f", content(0))
        box.watch()
        for number in range(1, 4):
            write(box, "f", content(number))
            record(box)
        box.checkpoint()
        box.clock.advance(DAY_MS - 1_000)
        assert box.call("prune")["versions"] == 0
        assert versions(box) == {b"f": 4}

    @pytest.mark.parametrize("step", [-400 * DAY_MS, 40 * DAY_MS, 3_650 * DAY_MS])
    def test_a_clock_that_jumped_lets_nothing_of_the_day_go(self, box, step):
        write(box, "f", content(0))
        box.watch()
        for number in range(1, 4):
            write(box, "f", content(number))
            record(box)
        box.checkpoint()
        box.clock.wall += step
        answer = box.call("prune")
        assert answer["versions"] == 0
        assert "clock" in answer["notes"][0]
        assert versions(box) == {b"f": 4}

    def test_a_checkpoint_that_a_wrong_clock_dated_back_makes_nothing_old(self, box):
        write(box, "f", content(0))
        box.watch()
        box.clock.wall -= 400 * DAY_MS
        for number in range(1, 4):
            write(box, "f", content(number))
            record(box)
        box.checkpoint()
        box.clock.wall += 400 * DAY_MS
        box.stop()
        box.start()
        assert box.call("prune")["versions"] == 0

    def test_what_an_open_turn_may_claim_stays(self, box):
        box.watch()
        box.call("turn_begin", agent="x", session="a", prompt="p")
        box.call("tool_begin", agent="x", session="a", tool="t")
        for number in range(3):
            write(box, "f", content(number, 100))
            record(box)
        box.checkpoint()
        age(box)
        assert box.call("prune")["versions"] == 0

    def test_what_trash_holds_stays(self, box):
        write(box, "f", content(0))
        box.watch()
        write(box, "f", content(1))
        box.checkpoint()
        write(box, "f", content(2))
        box.checkpoint()
        box.call("forget", checkpoints=["2"])
        age(box)
        box.call("prune")
        box.call("unforget", checkpoints=["2"])
        assert box.call("cat", checkpoint="2", file="f") == content(1)
        box.call("forget", checkpoints=["2"])
        release(box, 2)
        assert box.call("prune")["contents"] == 1
        assert problems(box) == []

    def test_big_files_go_too_and_those_that_never_got_a_row(self, box):
        big = content(1, 5 << 20)
        write(box, "big", big)
        box.watch()
        (box.root / "big").unlink()
        box.checkpoint()
        box.checkpoint()
        release(box, 1)
        age(box)
        # written while it was copied: nothing ever names the first copy
        with open(box.root / "note", "wb+") as source:
            source.write(content(2, 5 << 20))
            source.seek(0)
            box.service.timeline.blobs.write_big(source)
        (box.root / "note").unlink()
        assert len(os.listdir(box.home.blobs / "big")) == 2
        box.call("prune")
        assert os.listdir(box.home.blobs / "big") == []
        assert problems(box) == []

    def test_a_big_copy_that_a_recording_is_about_to_name_stays(self, box):
        box.watch()
        blobs = box.service.timeline.blobs
        with blobs.adding(), open(box.root / "note", "wb+") as source:
            source.write(content(2, 5 << 20))
            source.seek(0)
            blobs.write_big(source)
            box.call("prune")
            assert len(os.listdir(box.home.blobs / "big")) == 1
        box.call("prune")
        assert os.listdir(box.home.blobs / "big") == []

    def test_writers_paths_and_pages_that_nothing_names_go(self, box):
        box.watch()
        box.call("turn_begin", agent="x", session="a", prompt="p")
        for number in range(300):
            write(box, f"f{number}", b"%d" % number)
        box.call("turn_end", session="a")
        box.call("unwatch", delete_history=True)
        box.call("prune")
        assert sql(box, "select count(*) from path") == sql(box, "select count(*) from writer") == [(0,)]
        assert sql(box, "pragma freelist_count")[0][0] <= 64


class TestBesideOthers:
    """Reads that had begun keep what they found; a second prune does not run beside the first."""

    def test_what_a_read_may_need_is_left_to_the_next_prune(self, box, monkeypatch):
        monkeypatch.setattr("openoxide.daemon.operations.pruning.DRAIN_SECONDS", 0)
        write(box, "f", content(0))
        box.watch()
        write(box, "f", content(1))
        record(box)
        write(box, "f", content(2))
        box.checkpoint()
        age(box)
        leases = box.service.timeline.blobs.leases
        with leases.holding():
            lease = leases._held.popitem()  # as if another thread held it
            leases._held[lease[0]] = -1
            answer = box.call("prune")
            assert answer["versions"] == 0
            assert "somebody reads" in answer["notes"][0]
        assert box.call("prune")["versions"] == 1

    def test_a_foreign_reader_makes_nobody_wait(self, box):
        """A database browser holds a snapshot: the WAL stays, and no lock is held until the busy timeout ends."""
        write(box, "f", content(0))
        box.watch()
        write(box, "f", content(1))
        record(box)
        write(box, "f", content(2))
        box.checkpoint()
        age(box)
        with closing(sqlite3.connect(box.home.timeline_db, isolation_level=None)) as foreign:
            foreign.execute("begin")
            foreign.execute("select count(*) from version").fetchone()
            assert box.call("prune")["versions"] == 1
            assert (box.home.folder / "timeline.db-wal").stat().st_size > 0
            assert box.checkpoint()["number"] == 3

    def test_only_one_at_a_time(self, box):
        with box.service.timeline.blobs.pruning, pytest.raises(ConflictError):
            box.call("prune")

    def test_a_daemon_that_ends_does_not_wait_for_it(self, box):
        write(box, "f", content(0))
        box.watch()
        box.service.stop_requested.set()
        assert not box.service.timeline.blobs.pruning.locked()


def agent_writes(box, prompt, *contents):
    box.call("turn_begin", agent="x", session="a", prompt=prompt)
    for data in contents:
        write(box, "f", data)
        record(box)
    box.call("turn_end", session="a")


def test_a_rewind_for_a_session_still_sees_who_came_in_between(box):
    """Of the user's edit no checkpoint is left, and yet the file is not the agent's alone."""
    write(box, "f", b"")
    box.watch()
    agent_writes(box, "p", b"agent 1", b"agent 2")
    write(box, "f", b"user")
    agent_writes(box, "q", b"agent 3", b"agent 4")
    box.checkpoint()
    release(box, 3, 4)
    age(box)
    before = box.rewind("2", scope="session", dry_run=True)
    assert box.call("prune")["versions"] == 2
    assert box.rewind("2", scope="session", dry_run=True) == before
    assert [item["reason"] for item in before["conflicts"]] == ["mixed_writers"]


def test_a_rewind_still_knows_whose_a_newer_file_was(box):
    box.watch()
    write(box, "f", b"user")
    record(box)
    agent_writes(box, "p", b"agent")
    box.checkpoint()
    release(box, 2, 3)
    age(box)
    before = box.rewind("1", scope="all", dry_run=True)
    box.call("prune")
    assert box.rewind("1", scope="all", dry_run=True) == before
    assert [item["reason"] for item in before["kept"]] == ["newer"]


def test_a_rewind_still_knows_what_an_operation_had_brought_back(box):
    """Its row has the writer of the state that it brought back, and that state is at no checkpoint any more."""
    box.watch()
    agent_writes(box, "p", b"first")
    agent_writes(box, "q", b"second")
    box.rewind("3", scope="all")
    sql(box, "update operation set target = null, before = null")
    release(box, *range(2, 7))
    age(box)
    before = box.rewind("1", scope="all", dry_run=True)
    box.call("prune")
    assert box.rewind("1", scope="all", dry_run=True) == before
    assert [item["path"] for item in before["removed"]] == ["f"]


def test_show_says_that_changes_in_between_have_gone(box):
    box.watch()
    for number in range(5):
        write(box, "f", content(number, 100))
        record(box)
    box.checkpoint()
    whole = box.call("show", checkpoint="2")
    age(box)
    box.call("prune")
    shown = box.call("show", checkpoint="2")
    assert (whole["writers"][0]["paths"], whole["pruned_changes"]) == (5, 0)
    assert (shown["writers"][0]["paths"], shown["pruned_changes"]) == (1, 4)
    assert shown["changes"] == whole["changes"]
