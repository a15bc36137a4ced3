"""How often a worktree is compared with its record as a whole, and what the clocks tell of the time between. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

SUSPEND: Final = "suspend"
NETWORK_FS: Final = "network_fs"

HEARTBEAT_MS: Final = 10_000
POLL_MS: Final = 20_000
RETRY_MS: Final = 60_000
DRIFT_MS: Final = 5_000

_POLL_SHARE = 20  # a poll may take one part in so many of the time
_FEW_ENTRIES, _MANY_ENTRIES, _MANY_TIMES = 100_000, 1_000_000, 6


class Pass(NamedTuple):
    """A full pass that ended, in milliseconds since boot: when, how long it took, how many entries it looked at."""

    ended_ms: int
    took_ms: int
    entries: int


class Ticks(NamedTuple):
    """The clocks at one moment, in milliseconds: since the epoch, since boot, and since boot without suspend."""

    wall_ms: int
    boot_ms: int
    awake_ms: int


def wait_ms(base_ms: int, last: Pass, *, polled: bool) -> int:
    """From the end of ``last`` to the next full pass.

    ``base_ms`` up to 100,000 entries, six times that at a million, so that looking costs about the same share of the
    time; a tree that is only ``polled`` sooner, as far as that takes no more than a twentieth of it.
    """
    many = max(0, last.entries - _FEW_ENTRIES) / (_MANY_ENTRIES - _FEW_ENTRIES)
    watched = round(base_ms * (1 + many * (_MANY_TIMES - 1)))
    return min(watched, max(POLL_MS, _POLL_SHARE * last.took_ms)) if polled else watched


def slept_ms(before: Ticks, now: Ticks) -> int:
    """How long the machine was suspended between two moments, 0 where that is within what clocks drift."""
    drift = (now.boot_ms - before.boot_ms) - (now.awake_ms - before.awake_ms)
    return drift if drift > DRIFT_MS else 0


def set_back_ms(before: Ticks, now: Ticks) -> int:
    """How far the wall clock was set back between two moments, 0 where that is within what it is slewed."""
    back = (now.boot_ms - before.boot_ms) - (now.wall_ms - before.wall_ms)
    return back if back > DRIFT_MS else 0


def until_run_ms(now_ms: int, last_ms: int | None, every_ms: int, least_ms: int) -> int:
    """How long a job waits after a start: until its time has come since it was last done, and at least ``least_ms``."""
    # a last time that is still to come was told by a wrong clock
    passed = every_ms if last_ms is None else max(0, now_ms - last_ms)
    return max(least_ms, every_ms - passed)


def retry_ms(failures: int, every_ms: int) -> int:
    """When a job that failed so often in a row is tried again: ever later, and no later than it comes round anyway."""
    return min(every_ms, RETRY_MS << min(failures - 1, 20))
