"""Jobs: one after the other, again after a failure, once after a sleep, and no more often for a restart."""

from __future__ import annotations

import threading

import pytest

from openoxide.daemon.cadence import RETRY_MS, retry_ms, until_run_ms
from openoxide.daemon.scheduler import Job, Scheduler
from openoxide.errors import FailedError
from tests.kit import FakeClock

SECONDS = 60
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("last", "least", "wait"),
    [
        (None, 5, 5),
        (0, 5, HOUR_MS),
        (HOUR_MS, 5, 5),
        (HOUR_MS - 3, 5, 5),
        (HOUR_MS // 2, 5, HOUR_MS // 2),
        (90 * HOUR_MS, 5, 5),
        (-HOUR_MS, 5, HOUR_MS),
    ],
)
def test_a_job_waits_for_what_is_left_of_its_time(last, least, wait):
    now = 10**12
    assert until_run_ms(now, None if last is None else now - last, HOUR_MS, least) == wait


def test_a_job_that_fails_is_tried_again_ever_later():
    waits = [retry_ms(failures, HOUR_MS) for failures in (1, 2, 3, 7, 1_000)]
    assert waits == [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS, HOUR_MS, HOUR_MS]


@pytest.fixture
def started():
    """Starts a scheduler with one job of an hour, whose work the test gives."""
    running = []

    def start(work, last_runs=None, **more):
        scheduler = Scheduler(FakeClock(), lambda _: None, [Job("work", 3_600, work, after_s=0, jitter_s=0)], **more)
        scheduler.start(last_runs)
        running.append(scheduler)
        return scheduler

    yield start
    for scheduler in running:
        scheduler.stop()


def state(scheduler):
    (found,) = scheduler.states()
    return found


def run_now(scheduler):
    """As when its time has come."""
    scheduler._do(scheduler._runs[0])


def test_a_job_is_done_soon_after_the_start_and_remembered(started):
    done, remembered = threading.Event(), threading.Event()
    scheduler = started(lambda: None, remember=lambda name, ms: (done.set(), remembered.set()))
    assert remembered.wait(SECONDS)
    assert state(scheduler).failures == 0


def test_one_that_was_done_by_an_earlier_daemon_waits(started):
    clock = FakeClock()
    scheduler = started(lambda: None, {"work": clock.now_ms() - HOUR_MS // 2})
    left = state(scheduler).next_run_ms - clock.now_ms()
    assert HOUR_MS // 2 - 60_000 < left <= HOUR_MS // 2
    assert state(scheduler).last_run_ms == clock.now_ms() - HOUR_MS // 2


@pytest.mark.parametrize("error", [FailedError("the disk is gone"), ZeroDivisionError("the disk is gone")])
def test_a_failure_is_counted_told_and_tried_again(started, error):
    def work():
        raise error

    clock = FakeClock()
    scheduler = started(work, {"work": clock.now_ms()})
    for failures in (1, 2):
        run_now(scheduler)
        found = state(scheduler)
        assert (found.failures, found.error, found.last_run_ms) == (failures, "the disk is gone", clock.now_ms())
        assert found.next_run_ms - clock.now_ms() <= failures * RETRY_MS


def test_one_that_does_not_fail_any_more_is_well(started):
    fails = [True, False]

    def work():
        if fails.pop(0):
            raise FailedError("no")

    scheduler = started(work, {"work": FakeClock().now_ms()})
    run_now(scheduler)
    run_now(scheduler)
    assert (state(scheduler).failures, state(scheduler).error) == (0, "")


def test_none_runs_beside_another_and_stop_waits_for_it():
    at_work, go_on = threading.Event(), threading.Event()
    beside = []

    def first():
        at_work.set()
        assert go_on.wait(SECONDS)
        beside.append("first ends")

    scheduler = Scheduler(
        FakeClock(),
        lambda _: None,
        [
            Job("first", 3_600, first, after_s=0, jitter_s=0),
            Job("second", 3_600, lambda: beside.append("second"), after_s=0, jitter_s=0),
        ],
    )
    scheduler.start()
    assert at_work.wait(SECONDS)
    assert [found.running for found in scheduler.states()] == [True, False]
    ended = threading.Timer(0.05, go_on.set)
    ended.start()
    scheduler.stop()
    assert beside[0] == "first ends"
