"""When a worktree is looked at as a whole: the times as a table, and the service that goes by them."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.daemon.cadence import DRIFT_MS, POLL_MS, RETRY_MS, Pass, Ticks, set_back_ms, slept_ms, wait_ms
from openoxide.daemon.scheduler import Job, Scheduler
from openoxide.errors import RootVanishedError
from tests.kit import FakeClock, wait_until
from tests.kit.box import NO_QUIET, Box

BASE = NO_QUIET.full_pass_ms
SECONDS = 60


@pytest.mark.parametrize(
    ("entries", "took_ms", "polled", "wait"),
    [
        (0, 0, False, 600_000),
        (100_000, 250, False, 600_000),
        (550_000, 2_000, False, 2_100_000),
        (1_000_000, 4_000, False, 3_600_000),
        (2_000, 20, True, 20_000),
        (100_000, 2_000, True, 40_000),
        (100_000, 60_000, True, 600_000),
    ],
)
def test_a_full_pass_comes_by_what_it_costs(entries, took_ms, polled, wait):
    assert wait_ms(600_000, Pass(0, took_ms, entries), polled=polled) == wait


@given(st.integers(0, 3_600_000), st.integers(0, 10**7), st.integers(0, 10**6), st.booleans())
def test_more_entries_or_a_longer_pass_are_never_looked_at_sooner(base, entries, took, polled):
    wait = wait_ms(base, Pass(0, took, entries), polled=polled)

    assert wait_ms(base, Pass(0, took, entries * 2), polled=polled) >= wait
    assert wait_ms(base, Pass(0, took * 2, entries), polled=polled) >= wait
    assert wait <= wait_ms(base, Pass(0, took, entries), polled=False)


@pytest.mark.parametrize(
    ("now", "slept", "back"),
    [
        (Ticks(60_000, 60_000, 60_000), 0, 0),
        (Ticks(60_000, 60_000, 55_000), 0, 0),
        (Ticks(3_600_000, 3_600_000, 10_000), 3_590_000, 0),
        (Ticks(10_000, 60_000, 60_000), 0, 50_000),
        (Ticks(10**9, 60_000, 60_000), 0, 0),
    ],
)
def test_what_the_clocks_tell_of_the_time_between(now, slept, back):
    before = Ticks(0, 0, 0)
    assert (slept_ms(before, now), set_back_ms(before, now)) == (slept, back)


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        (box.root / "a").write_text("1")
        box.watch()
        yield box


def settled(box) -> None:
    """All that was queued is done."""
    box.service.background.submit("last", box.service.stop_requested.set)
    assert box.service.stop_requested.wait(SECONDS)
    box.service.stop_requested.clear()


def beat(box, slept_ms: int = 0) -> None:
    box.service.beat(slept_ms)
    settled(box)


def passes(box) -> int:
    (watched,) = box.service.all_watched()
    return watched.last_pass.ended_ms


def test_a_watched_tree_is_compared_when_its_time_has_come_and_not_before(box):
    first = passes(box)
    box.clock.advance(BASE - 1)
    beat(box)
    assert passes(box) == first

    box.clock.advance(1)
    beat(box)
    assert passes(box) == box.clock.boot_ms()


def test_a_pass_that_failed_is_tried_again_after_a_while(box):
    gone = box.root.rename(box.root.with_name("elsewhere"))
    box.clock.advance(BASE)
    beat(box)
    failures = box.service.background.failures
    beat(box)
    assert box.service.background.failures == failures

    gone.rename(box.root)
    box.clock.advance(RETRY_MS)
    beat(box)
    assert passes(box) == box.clock.boot_ms()


def test_after_a_suspend_a_checkpoint_is_incomplete_until_a_pass_has_looked(box):
    (watched,) = box.service.all_watched()
    with watched.lock:  # the pass that follows has to wait
        box.service.beat(60_000)
        sealed = box.checkpoint()
    settled(box)

    assert (sealed["complete"], sealed["gap"]) == (False, "suspend")
    assert box.call("status")["worktrees"][0]["gaps"] == []
    assert box.checkpoint()["complete"]


def test_the_heartbeat_tells_of_a_suspend(box):
    slept: list[int] = []
    scheduler = Scheduler(box.clock, slept.append)
    scheduler.start()
    try:
        box.clock.advance(60_000)
        scheduler.tick()
        box.clock.sleep(3_600_000)
        scheduler.tick()
        scheduler.tick()
    finally:
        scheduler.stop()

    assert slept == [0, 3_600_000, 0]


def test_jobs_go_on_although_the_clock_was_set_back(box):
    folded: list[int] = []
    scheduler = Scheduler(box.clock, lambda _: None, [Job("fold", 900, lambda: folded.append(1))])
    scheduler.start()
    try:
        (job,) = scheduler._scheduler.get_jobs()
        before = job.next_run_time
        box.clock.advance(60_000)
        box.clock.wall -= 3_600_000
        scheduler.tick()
        assert job.next_run_time < before
    finally:
        scheduler.stop()


def test_worktrees_are_taken_up_with_the_newest_activity_first(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        roots = [box.root, *(tmp_path / name for name in ("second", "third"))]
        for root in roots:
            root.mkdir(exist_ok=True)
            box.call("watch", path=str(root))
        for root in (roots[2], roots[0], roots[1]):
            box.clock.advance(1_000)
            box.call("checkpoint", path=str(root))
        box.stop()
        box.start()
        assert [os.fsdecode(watched.worktree.root) for watched in box.service.all_watched()] == [
            str(roots[i]) for i in (1, 0, 2)
        ]


def test_a_tree_on_a_network_file_system_is_polled_and_never_called_complete(tmp_path, monkeypatch):
    monkeypatch.setattr("openoxide.daemon.watched.file_system", lambda _: "nfs4")
    with Box(tmp_path, clock=FakeClock()) as box:
        sealed = box.watch()["checkpoint"]
        assert (sealed["complete"], sealed["gap"]) == (False, "network_fs")
        first = passes(box)
        box.clock.advance(POLL_MS - 1)
        beat(box)
        assert passes(box) == first
        box.clock.advance(1)
        beat(box)
        assert passes(box) == box.clock.boot_ms()


def test_the_drift_of_clocks_is_no_suspend():
    assert slept_ms(Ticks(0, 0, 0), Ticks(0, DRIFT_MS, 0)) == 0


def test_a_root_that_stays_away_is_told_once_and_found_when_it_is_back(box, caplog):
    elsewhere = box.root.rename(box.root.with_name("elsewhere"))
    box.clock.advance(BASE)
    for _ in range(3):
        box.clock.advance(RETRY_MS)
        beat(box)
    assert [record.getMessage() for record in caplog.records].count("worktree 1 is paused: " + gone_text(box)) == 1

    elsewhere.rename(box.root)
    # the watcher looks for the root by the system's clock
    wait_until(lambda: box.checkpoint()["complete"], SECONDS)


def gone_text(box) -> str:
    with pytest.raises(RootVanishedError) as raised:
        box.checkpoint()
    return str(raised.value)
