"""Whether the wall clock can be believed, so far as expiry goes by it. Pure: the clocks come in as values.

Within a boot the boot clock tells how much time has really passed, so each step of the wall clock shows. Across a boot
nothing does: a machine that was off looks like a clock that was set forward. What is known then is a lower bound, the last
moment that was believed. A clock that is wrong at a boot is corrected soon, so it is believed when it has run steadily for a
while, longer if it is further ahead, and a season ahead only if NTP says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
# what a clock is stepped by for good reasons; and a bad one may gain or lose one part in so many
TOLERANCE_MS: Final = 300_000
_SLEW: Final = 50
SHORT_OFF_MS: Final = HOUR_MS
LONG_OFF_MS: Final = 90 * DAY_MS
SHORT_SETTLE_MS: Final = 600_000
SETTLE_MS: Final = HOUR_MS
NO_BOOT: Final = 0


class Doubt(IntEnum):
    """Why the clock is not believed. The numbers stand in rows."""

    NONE = 0
    JUMP = 1  # it was set while the machine ran
    BOOT = 2  # the machine was started, and how long it was off is not known


class Moment(NamedTuple):
    """The clocks at one moment, in milliseconds: since the epoch, and since boot. ``boot`` names the boot."""

    wall_ms: int
    boot_ms: int
    boot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is known of the clock. ``seen``: the last moment that was believed; ``run``: where the clock began to run as it
    does now; ``jump_ms``: how far it is from where it should be. ``seen_row`` and ``run_row``: the newest checkpoint's row
    at both.
    """

    seen: Moment
    seen_row: int
    run: Moment
    run_row: int
    doubt: Doubt = Doubt.NONE
    jump_ms: int = 0


class Look(NamedTuple):
    """A look at the clock. ``doubtful``: the clock is believed again, and the checkpoints in rows ``(first, last]``, if
    there are any, were sealed by one that was not.
    """

    mark: Mark
    doubtful: tuple[int, int] | None = None


def step_ms(before: Moment, now: Moment) -> int:
    """How far the wall clock was set between two moments of one boot, 0 within what clocks are off anyway."""
    passed = now.boot_ms - before.boot_ms
    step = (now.wall_ms - before.wall_ms) - passed
    return step if abs(step) > TOLERANCE_MS + max(0, passed) // _SLEW else 0


def look(known: Mark | None, now: Moment, row: int, *, newest_ms: int | None, synchronised: bool) -> Look:
    """What is known after a look at the clocks. ``row``: of the newest checkpoint; ``newest_ms``: when that was sealed;
    ``synchronised``: whether the kernel says that NTP keeps the clock.
    """
    if known is None:
        # nobody looked yet: the newest checkpoint is the last that is known, and with none there is nothing to lose
        began = now if newest_ms is None else Moment(newest_ms, 0, NO_BOOT)
        known = Mark(seen=began, seen_row=row, run=began, run_row=row)
    if known.run.boot != now.boot or step_ms(known.run, now):
        known = _new_run(known, now, row)
    if known.doubt is Doubt.NONE:
        return Look(replace(known, seen=now, seen_row=row))
    wait = wait_ms(known, now, synchronised=synchronised)
    return accept(known, now, row) if wait == 0 else Look(known)


def accept(known: Mark, now: Moment, row: int) -> Look:
    """The clock is believed as it runs now: by what was seen of it, or because somebody says so."""
    doubtful = (known.seen_row, known.run_row) if known.doubt is not Doubt.NONE else None
    run = known.run if known.run.boot == now.boot and not step_ms(known.run, now) else now
    mark = Mark(seen=now, seen_row=row, run=run, run_row=known.run_row)
    return Look(mark, doubtful)


def _new_run(known: Mark, now: Moment, row: int) -> Mark:
    """The clock does not go on where it was."""
    if known.seen.boot == now.boot:
        # later runs are compared with the last moment that was believed: a clock that is back where it was is right
        # again; the first not with that, which is seconds ago, but with where the run began: small steps add up
        jump = step_ms(known.run if known.doubt is Doubt.NONE else known.seen, now)
        return replace(known, run=now, run_row=row, doubt=Doubt.JUMP, jump_ms=jump)
    step = step_ms(known.run, now) if known.run.boot == now.boot else 0
    jump = known.jump_ms + step
    # at a boot a clock is corrected, which no more than a day forward looks like, unless it was behind
    forward = known.doubt is Doubt.JUMP or (step > DAY_MS and known.run.wall_ms >= known.seen.wall_ms - TOLERANCE_MS)
    # after a boot a clock that was set forward may still be: only one that is behind that again is not
    still = forward and jump > TOLERANCE_MS and now.wall_ms - jump >= known.seen.wall_ms - TOLERANCE_MS
    doubt = Doubt.JUMP if still else Doubt.BOOT
    return replace(known, run=now, run_row=row, doubt=doubt, jump_ms=jump if still else 0)


def wait_ms(mark: Mark, now: Moment, *, synchronised: bool) -> int | None:
    """For how long the clock has to run on as it does until it is believed; None: for ever, unless something changes."""
    needed = _needed_ms(mark, now, synchronised=synchronised)
    return None if needed is None else max(0, needed - (now.boot_ms - mark.run.boot_ms))


def _needed_ms(mark: Mark, now: Moment, *, synchronised: bool) -> int | None:
    lead = mark.run.wall_ms - mark.seen.wall_ms
    if mark.doubt is Doubt.JUMP:
        return 0 if mark.jump_ms == 0 else _only_if(synchronised, DAY_MS)
    if lead > LONG_OFF_MS:
        return _only_if(synchronised, SETTLE_MS)
    if lead < -TOLERANCE_MS:
        # a little behind it comes up to what was seen by itself; far behind, what was seen may have been ahead
        return SETTLE_MS if now.wall_ms >= mark.seen.wall_ms else _only_if(synchronised, DAY_MS)
    settle = SHORT_SETTLE_MS if lead <= SHORT_OFF_MS else SETTLE_MS
    return 0 if synchronised else settle


def _only_if(synchronised: bool, ms: int) -> int | None:  # noqa: FBT001 - it is the question itself
    return ms if synchronised else None


def why_not(mark: Mark, now: Moment, *, synchronised: bool) -> str:
    """Why the clock is not believed, in words; empty if it is."""
    if mark.doubt is Doubt.NONE:
        return ""
    lead = mark.run.wall_ms - mark.seen.wall_ms
    wait = wait_ms(mark, now, synchronised=synchronised)
    if mark.doubt is Doubt.JUMP:
        what = f"the clock was set {'forward' if mark.jump_ms > 0 else 'back'} by {_span(mark.jump_ms)}"
    elif lead < 0:
        what = f"the clock is {_span(lead)} behind what the store has seen"
    else:
        what = f"the machine was off for {_span(lead)} or its clock was set: which of both is not known"
    return what if wait is None else f"{what}, unless it runs on steadily for another {_span(wait)}"


def _span(ms: int) -> str:
    minutes = max(1, abs(ms) // 60_000)
    for unit, length in (("day", 1440), ("hour", 60)):
        if minutes >= 2 * length:
            return f"{minutes // length} {unit}s"
    return f"{minutes} minutes" if minutes > 1 else "a minute"
