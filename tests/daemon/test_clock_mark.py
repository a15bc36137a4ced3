"""The mark of the clock in a store: it outlives the daemon, and what a wrong clock sealed is counted anew."""

from __future__ import annotations

import pytest

from openoxide.checkpoints.clockmark import counted_from, drop_counts, read_mark
from openoxide.clock import rfc3339
from openoxide.errors import StoreFullError

DAY_MS = 86_400_000


def look(box):
    return box.service.clock_mark.look()


def restart(box):
    box.stop()
    box.start()


def counted(box):
    with box.service.timeline.database.reading() as db:
        return counted_from(db)


def item(box, number):
    return next(found for found in box.call("log")["items"] if found["number"] == number)


def test_a_new_store_trusts_the_clock_and_marks_it(box, clock):
    assert look(box) == (True, "")
    with box.service.timeline.database.reading() as db:
        assert read_mark(db).seen.wall_ms == clock.now_ms()


def test_a_jump_outlives_the_daemon(box, clock):
    clock.wall += 40 * DAY_MS
    box.service.beat()
    restart(box)

    assert look(box) == (False, "the clock was set forward by 40 days")
    clock.wall -= 40 * DAY_MS
    assert look(box).trusted


def test_a_jump_while_no_daemon_runs_is_seen_by_the_next_one(box, clock):
    box.stop()
    clock.wall -= 40 * DAY_MS
    box.start()
    assert look(box) == (False, "the clock was set back by 40 days")


def test_a_machine_that_was_off_for_days_waits_for_an_hour(box, clock):
    box.stop()
    clock.advance(5 * DAY_MS)
    clock.boot, clock.up = "boot-2", 30_000
    box.start()

    assert not look(box).trusted
    clock.advance(3_600_000)
    assert look(box).trusted


def test_the_mark_is_renewed_by_the_heartbeat_and_seldom_written(box, clock):
    def written():
        with box.service.timeline.database.reading() as db:
            return read_mark(db).seen.wall_ms

    first = written()
    clock.advance(599_000)
    box.service.beat()
    assert written() == first
    clock.advance(1_000)
    box.service.beat()
    assert written() == clock.now_ms()


@pytest.mark.parametrize("error", [-400 * DAY_MS, 400 * DAY_MS])
def test_what_a_wrong_clock_sealed_counts_from_when_it_is_right(box, clock, error):
    box.stop()
    clock.boot, clock.up = "boot-2", 30_000
    clock.wall += error
    box.start()
    box.checkpoint()
    clock.wall -= error
    look(box)
    box.checkpoint()
    clock.advance(DAY_MS)
    assert look(box).trusted

    wrong, right = item(box, 2), item(box, 3)
    assert counted(box) == {wrong["id"]: clock.now_ms()}
    assert wrong["expires_at"] == rfc3339(clock.now_ms() + 30 * DAY_MS) > right["expires_at"]
    clock.advance(29 * DAY_MS)
    assert box.checkpoint()["created_at"] < wrong["expires_at"]


def test_what_was_sealed_before_keeps_its_time(box, clock):
    before = item(box, 1)
    clock.wall += 40 * DAY_MS
    look(box)
    box.checkpoint()
    clock.wall -= 40 * DAY_MS
    assert look(box).trusted
    assert item(box, 1) == before


def test_somebody_may_say_that_the_clock_is_right(box, clock):
    clock.wall += 40 * DAY_MS
    look(box)
    box.service.clock_mark.accept()
    restart(box)
    assert look(box).trusted


def test_nothing_is_kept_of_what_leaves_the_store(box, clock):
    test_what_a_wrong_clock_sealed_counts_from_when_it_is_right(box, clock, -400 * DAY_MS)
    (id_,) = counted(box)
    with box.service.timeline.database.writing() as db:
        drop_counts(db, [id_])
    assert counted(box) == {}


def test_what_a_wrong_clock_put_into_trash_stays_there_for_the_whole_time(box, clock):
    box.checkpoint()
    clock.wall -= 400 * DAY_MS
    box.call("forget", checkpoints=["1"])
    clock.wall += 400 * DAY_MS
    assert look(box).trusted
    assert box.call("log", all=True)["items"][-1]["forgotten_at"] == rfc3339(clock.now_ms())


def test_a_history_that_is_deleted_takes_what_was_said_of_it_along(box):
    box.call("pin", checkpoint="1")
    box.call("unpin", checkpoint="1")
    assert counted(box)
    box.call("unwatch", delete_history=True)
    assert counted(box) == {}


def test_a_store_that_cannot_be_written_still_tells_of_a_jump(box, clock):
    clock.wall += 40 * DAY_MS

    def full():
        raise StoreFullError("full")

    box.service.timeline.database.guard = full
    try:
        assert not look(box).trusted
        clock.wall -= 40 * DAY_MS
        # first the one that the wrong clock sealed has to be counted anew
        assert not look(box).trusted
    finally:
        box.service.timeline.database.guard = lambda: None
    assert look(box).trusted


def test_a_mark_that_is_damaged_is_none(box):
    with box.service.timeline.database.writing() as db:
        db.execute_sql("update meta set value = 9 where key = 'clock.doubt'")
        assert read_mark(db) is None
        db.execute_sql("delete from meta where key = 'clock.doubt'")
        assert read_mark(db) is None
