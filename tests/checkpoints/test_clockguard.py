"""When the wall clock is believed: cases as tables, and any life of a machine against what the time really was."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints.clockguard import Doubt, Moment, accept, look, step_ms, why_not
from tests.kit import effort

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 1_800_000_000_000


@dataclass
class Machine:
    """A machine that is looked at: ``wall`` is what its clock says, ``true`` what the time is."""

    true: int = START
    error: int = 0
    up: int = 10 * HOUR
    boot: int = 1
    kept: bool = False
    mark: object = None
    row: int = 0
    doubtful: list = field(default_factory=list)

    @property
    def now(self) -> Moment:
        return Moment(self.true + self.error, self.up, self.boot)

    def look(self, newest_ms=None) -> bool:
        looked = look(self.mark, self.now, self.row, newest_ms=newest_ms, synchronised=self.kept)
        self.mark = looked.mark
        if looked.doubtful and looked.doubtful[0] < looked.doubtful[1]:
            self.doubtful.append(looked.doubtful)
        return self.mark.doubt is Doubt.NONE

    def run(self, ms: int, beat: int = 10 * MINUTE) -> bool:
        """Time passes, with a look now and then; whether the clock is believed at its end."""
        while ms > 0:
            passed = min(ms, beat)
            self.true += passed
            self.up += passed
            ms -= passed
            believed = self.look()
        return believed

    def off(self, ms: int, error: int | None = None) -> None:
        """Switched off, and on again with a clock that is wrong by ``error``."""
        self.true += ms
        self.boot += 1
        self.up = 20_000
        self.error = self.error if error is None else error

    @property
    def why(self) -> str:
        return why_not(self.mark, self.now, synchronised=self.kept)


@pytest.fixture
def machine():
    machine = Machine()
    machine.look()
    return machine


def test_a_clock_that_runs_on_is_believed(machine):
    assert machine.run(400 * DAY, beat=HOUR)
    assert machine.why == ""


def test_a_laptop_that_sleeps_is_believed_since_the_boot_clock_goes_on(machine):
    machine.true += 30 * DAY
    machine.up += 30 * DAY
    assert machine.look()


@pytest.mark.parametrize("jump", [10 * 365 * DAY, 40 * DAY, DAY, HOUR, -HOUR, -365 * DAY])
def test_a_clock_that_is_set_is_not_believed_for_as_long_as_it_is_wrong(machine, jump):
    machine.error = jump

    assert not machine.look()
    assert not machine.run(200 * DAY, beat=DAY)
    assert f"was set {'forward' if jump > 0 else 'back'}" in machine.why
    assert machine.mark.jump_ms == jump


@pytest.mark.parametrize("jump", [40 * DAY, -40 * DAY])
def test_a_clock_that_is_set_right_again_is_believed_again(machine, jump):
    machine.error = jump
    machine.run(3 * DAY)
    machine.error = 0
    assert machine.look()


@pytest.mark.parametrize("jump", [0, 1_000, -1_000, 4 * MINUTE, -4 * MINUTE])
def test_what_ntp_corrects_is_no_jump(machine, jump):
    machine.error = jump
    assert machine.look()


def test_small_steps_add_up(machine):
    believed = True
    for _ in range(20):
        machine.error += 4 * MINUTE
        believed = machine.run(10 * MINUTE)
    assert not believed


def test_a_clock_of_twice_the_speed_is_found_out(machine):
    believed = True
    for _ in range(120):
        machine.error += 10_000
        believed = machine.run(10_000, beat=10_000)
    assert not believed


def test_somebody_may_say_that_the_clock_is_right(machine):
    machine.row, machine.error = 5, 40 * DAY
    machine.look()
    looked = accept(machine.mark, machine.now, machine.row)
    assert (looked.mark.doubt, looked.doubtful) == (Doubt.NONE, (0, 5))
    machine.mark = looked.mark
    assert machine.run(2 * DAY)


def test_what_ntp_keeps_for_a_day_is_believed_after_a_jump(machine):
    machine.error = 40 * DAY
    machine.look()
    machine.kept = True
    assert not machine.run(23 * HOUR)
    assert machine.run(2 * HOUR)


class TestAfterABoot:
    @pytest.mark.parametrize(
        ("off", "settle"),
        [(MINUTE, 10 * MINUTE), (50 * MINUTE, 10 * MINUTE), (3 * DAY, HOUR), (60 * DAY, HOUR)],
    )
    def test_a_clock_is_believed_when_it_has_run_for_a_while(self, machine, off, settle):
        machine.off(off)
        assert not machine.look()
        assert "the machine was off for" in machine.why
        assert not machine.run(settle - 1, beat=MINUTE)
        assert machine.run(MINUTE)

    def test_a_year_ahead_is_not_believed_by_itself(self, machine):
        machine.off(400 * DAY)
        assert not machine.run(60 * DAY, beat=HOUR)
        machine.kept = True
        assert machine.run(HOUR)

    @pytest.mark.parametrize("off", [MINUTE, 3 * DAY])
    def test_ntp_makes_it_sure(self, machine, off):
        machine.off(off)
        machine.kept = True
        assert machine.look()

    @pytest.mark.parametrize("error", [365 * DAY, 20 * DAY, 2 * HOUR, -2 * HOUR, -365 * DAY])
    def test_a_clock_that_is_wrong_for_seconds_is_never_believed(self, machine, error):
        machine.off(DAY, error)
        machine.row = 1
        assert not machine.run(20_000, beat=10_000)
        machine.row, machine.error = 4, 0
        assert not machine.look()
        machine.row = 9
        assert machine.run(HOUR)
        # what was sealed until the clock was right, and not what came then
        assert machine.doubtful == [(0, 4)]

    def test_who_is_used_for_less_than_a_day_at_a_time_is_believed_too(self, machine):
        for _ in range(30):
            machine.off(22 * HOUR)
            machine.look()
            assert machine.run(2 * HOUR)

    def test_a_clock_that_is_set_forward_by_days_is_none_that_is_corrected(self, machine):
        machine.off(MINUTE)
        machine.look()
        machine.error = 40 * DAY
        assert not machine.run(30 * DAY, beat=HOUR)
        assert "was set forward by 40 days" in machine.why

    def test_a_clock_far_behind_is_not_believed(self, machine):
        machine.off(DAY, -365 * DAY)
        assert not machine.run(60 * DAY, beat=HOUR)
        assert "behind" in machine.why

    def test_a_clock_an_hour_behind_comes_up_by_itself(self, machine):
        machine.off(MINUTE, -HOUR)
        machine.look()
        assert machine.run(3 * HOUR)

    def test_a_boot_does_not_forgive_a_jump(self, machine):
        machine.error = 40 * DAY
        machine.look()
        machine.off(DAY)
        assert not machine.run(30 * DAY, beat=HOUR)

    def test_a_boot_with_the_clock_set_right_does(self, machine):
        machine.error = 40 * DAY
        machine.look()
        machine.off(DAY, 0)
        machine.look()
        assert machine.run(HOUR)


class TestAStoreThatNobodyLookedAt:
    def test_one_without_a_checkpoint_has_nothing_to_lose(self):
        assert Machine().look()

    @pytest.mark.parametrize("age", [MINUTE, 3 * DAY])
    def test_the_newest_checkpoint_is_the_last_that_is_known(self, age):
        machine = Machine(row=7)
        assert not machine.look(newest_ms=START - age)
        assert machine.run(HOUR)
        assert machine.doubtful == []

    @pytest.mark.parametrize("age", [400 * DAY, -DAY])
    def test_one_that_is_a_year_old_or_to_come_makes_the_clock_doubtful(self, age):
        machine = Machine(row=7)
        machine.look(newest_ms=START - age)
        assert not machine.run(HOUR)


LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 40) | st.integers(600, 50_000)),
        st.tuples(st.just("set"), st.sampled_from([-365, -40, -1, 1, 40, 365, 3650]).map(lambda days: days * 24 * 60)),
        st.tuples(st.just("right"), st.just(0)),
        st.tuples(st.just("off"), st.integers(1, 120 * 24 * 60)),
        st.tuples(st.just("off, as it is"), st.integers(1, 120 * 24 * 60)),
        st.tuples(st.just("off, wrong for a moment"), st.sampled_from([-365, -40, -1, 1, 40, 365]).map(lambda d: d * 1440)),
        st.tuples(st.just("row"), st.integers(1, 3)),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=effort(400), deadline=None)
@given(LIVES)
def test_a_clock_that_is_believed_is_right(life):
    machine = Machine()
    machine.look()
    for what, minutes in life:
        match what:
            case "run":
                machine.run(minutes * MINUTE, beat=max(MINUTE, minutes * MINUTE // 50))
            case "set":
                machine.error = minutes * MINUTE
                machine.look()
            case "right":
                machine.error = 0
                machine.look()
            case "off":
                machine.off(minutes * MINUTE, 0)
                machine.look()
            case "off, as it is":
                machine.off(minutes * MINUTE)
                machine.look()
            case "off, wrong for a moment":
                machine.off(DAY, minutes * MINUTE)
                machine.run(MINUTE, beat=10_000)
                machine.error = 0
                machine.look()
            case "row":
                machine.row += minutes
        believed = machine.mark.doubt is Doubt.NONE
        # behind is late and not early; a day forward soon after a boot may be a correction
        assert not believed or machine.error <= DAY, (what, machine.error)


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (Moment(START + DAY, DAY, 1), 0),
        (Moment(START + DAY + 5 * MINUTE, DAY, 1), 0),
        (Moment(START + DAY + 40 * MINUTE, DAY, 1), 40 * MINUTE),
        (Moment(START - HOUR, 0, 1), -HOUR),
        (Moment(START + 6 * MINUTE, 0, 1), 6 * MINUTE),
    ],
)
def test_a_step_is_what_the_boot_clock_does_not_tell_of(now, step):
    assert step_ms(Moment(START, 0, 1), now) == step
