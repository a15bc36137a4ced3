"""Time enters the rooms as a value; only this module asks the system for it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

_TIME_ERROR = 5  # the clock is not synchronised
_TIMEX_BYTES = 512  # more than a struct timex has


class Clock(Protocol):
    """Where the daemon takes the time from; tests put a settable one in its place."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def boot_ms(self) -> int:
        """Milliseconds since boot, suspend included."""

    def awake_ms(self) -> int:
        """Milliseconds since boot, suspend left out."""

    def boot_id(self) -> str:
        """Names this boot; times of different boots cannot be compared."""

    def synchronised(self) -> bool:
        """Whether the kernel says that the wall clock is kept right by NTP; False where it does not say."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        # Linux: CLOCK_MONOTONIC stands still in suspend, CLOCK_BOOTTIME does not (clock_gettime(2)). macOS has no
        # CLOCK_BOOTTIME, and its CLOCK_MONOTONIC goes on in sleep.
        clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(clock_id) // 1_000_000

    def awake_ms(self) -> int:
        # macOS: CLOCK_UPTIME_RAW is the one that stands still in sleep
        return time.clock_gettime_ns(getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)) // 1_000_000

    def boot_id(self) -> str:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            # macOS: the boot second is stable for one boot and differs between boots
            # in minutes: both clocks are read one after the other, and the wall clock is slewed
            return str((time.time_ns() - time.monotonic_ns()) // 60_000_000_000)

    def synchronised(self) -> bool:
        import ctypes  # noqa: PLC0415 - asked for once in a while, by the daemon alone

        adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)  # Linux
        if adjtimex is None:
            return False
        # modes 0: it only tells, and the state of the clock is what it returns (adjtimex(2)); TIME_ERROR is the last one
        return 0 <= int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))) < _TIME_ERROR


def rfc3339(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, e.g. ``2026-11-29T14:05:00.000Z``."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
