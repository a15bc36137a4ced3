"""When a checkpoint is due by itself, and that the sealer calls for it then."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.model import UNKNOWN_WRITER, Observed, Trigger, Writer
from openoxide.daemon.quiet import Burst, QuietSealer, due_at
from openoxide.daemon.watched import Label
from openoxide.errors import FailedError
from openoxide.settings import CaptureSettings
from tests.kit import wait_until
from tests.kit.box import Box

DEADLINE_S = 30
NEVER_MS = 3_600_000


@pytest.mark.parametrize(
    ("first", "last", "due"),
    [
        pytest.param(0, 0, 2000, id="one change"),
        pytest.param(0, 1500, 3500, id="two changes"),
        pytest.param(0, 27_999, 29_999, id="just before the longest time"),
        pytest.param(0, 28_000, 30_000, id="both at once"),
        pytest.param(0, 28_001, 30_000, id="changes that do not stop"),
        pytest.param(0, 999_999, 30_000, id="long overdue"),
        pytest.param(50, 50, 2050, id="counted from the change"),
    ],
)
def test_a_checkpoint_is_due_after_quiet_or_at_the_longest_interval(first, last, due):
    assert due_at(Burst(first_ms=first, last_ms=last), 2000, 30_000) == due


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5))
def test_it_is_never_due_before_the_quiet_time_nor_after_the_longest_interval(first, more, quiet, longest):
    due = due_at(Burst(first_ms=first, last_ms=first + more), quiet, longest)
    assert due <= first + longest
    assert due == first + longest or due >= first + more + quiet


class Sealed:
    """Takes note of each call; ``wait`` returns when there were so many."""

    def __init__(self, fail: Exception | None = None) -> None:
        self.worktrees: list[int] = []
        self._fail = fail
        self._changed = threading.Condition()

    def __call__(self, worktree: int) -> None:
        with self._changed:
            self.worktrees.append(worktree)
            self._changed.notify_all()
        if self._fail is not None:
            raise self._fail

    def wait(self, count: int) -> list[int]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.worktrees) >= count, DEADLINE_S)
            return self.worktrees


@contextmanager
def sealer(seal: Sealed, quiet_ms: int, max_interval_ms: int = NEVER_MS):
    running = QuietSealer(seal, lambda _: (quiet_ms, max_interval_ms))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_a_change_is_sealed_when_it_has_been_quiet():
    sealed = Sealed()
    with sealer(sealed, 5) as running:
        running.changed(7)
        assert sealed.wait(1) == [7]
        running.changed(7)
        assert sealed.wait(2) == [7, 7]


def test_changes_that_do_not_stop_are_sealed_all_the_same():
    sealed = Sealed()
    with sealer(sealed, NEVER_MS, 5) as running:
        running.changed(7)
        assert sealed.wait(1) == [7]


def test_each_worktree_has_a_burst_of_its_own():
    sealed = Sealed()
    with sealer(sealed, 5) as running:
        for worktree in (1, 2, 3):
            running.changed(worktree)
        assert sorted(sealed.wait(3)) == [1, 2, 3]


def test_what_a_checkpoint_holds_already_is_not_sealed_again():
    sealed = Sealed()
    with sealer(sealed, 50) as running:
        running.changed(1)
        running.settled(1)
        running.settled(9)
        running.changed(2)
        assert sealed.wait(1) == [2]


def test_a_stop_seals_nothing_more():
    sealed = Sealed()
    running = QuietSealer(sealed, lambda _: (NEVER_MS, NEVER_MS))
    running.start()
    running.changed(1)
    running.stop()
    assert sealed.worktrees == []


@pytest.mark.parametrize("error", [FailedError("the disk is full"), ZeroDivisionError("a fault")])
def test_a_fault_in_one_worktree_does_not_end_the_sealer(error, caplog):
    sealed = Sealed(fail=error)
    with caplog.at_level(logging.WARNING), sealer(sealed, 5) as running:
        running.changed(1)
        sealed.wait(1)
        running.changed(2)
        assert sealed.wait(2) == [1, 2]
    assert "quiet checkpoint failed" in caplog.text
    assert str(error) in caplog.text


def test_a_change_during_a_seal_is_a_new_burst():
    """It may have come too late for that checkpoint."""
    entered, leave = threading.Event(), threading.Event()
    calls: list[int] = []

    def seal(worktree: int) -> None:
        calls.append(worktree)
        if len(calls) == 1:
            entered.set()
            leave.wait(DEADLINE_S)
        else:
            again.set()

    again = threading.Event()
    running = QuietSealer(seal, lambda _: (5, NEVER_MS))
    running.start()
    running.changed(1)
    assert entered.wait(DEADLINE_S)
    running.changed(1)
    leave.set()
    assert again.wait(DEADLINE_S)
    running.stop()
    assert calls == [1, 1]


def test_what_changes_while_a_checkpoint_is_sealed_is_sealed_after_it(tmp_path):
    with Box(tmp_path, capture=CaptureSettings(quiet_ms=1_000, max_interval_ms=1_000)) as box:
        box.watch()
        (watched,) = box.service.all_watched()

        def meanwhile(seen: Observed) -> Writer:
            if seen.path == b"first":
                (box.root / "second").write_text("second")
                wait_until(lambda: watched.watch.pending, DEADLINE_S)
            return UNKNOWN_WRITER

        (box.root / "first").write_text("first")
        watched.seal(Label(trigger=Trigger.MANUAL), meanwhile)
        wait_until(lambda: box.call("log", limit=1)["items"][0]["trigger"] == "quiet", DEADLINE_S)
        assert box.call("cat", checkpoint="last", file="second") == b"second"


def test_the_first_checkpoint_is_of_the_command_that_asked_for_it(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "a").write_text("one")

        box.watch()

        assert [item["trigger"] for item in box.call("log")["items"]] == ["manual"]


def test_a_failure_that_stays_is_logged_once_and_again_when_it_comes_back(caplog):
    outcomes: list[Exception | None] = [FailedError("full"), FailedError("full"), None, FailedError("full")]
    done = threading.Semaphore(0)

    def seal(_worktree: int) -> None:
        try:
            if (error := outcomes.pop(0)) is not None:
                raise error
        finally:
            done.release()

    with caplog.at_level(logging.WARNING):
        running = QuietSealer(seal, lambda _: (1, NEVER_MS))
        running.start()
        for _ in range(4):
            running.changed(1)
            assert done.acquire(timeout=DEADLINE_S)
        running.stop()

    assert caplog.text.count("quiet checkpoint failed: full") == 2
