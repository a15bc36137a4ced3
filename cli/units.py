"""Times, sizes and counts as people read them. Times come in as RFC 3339 text and as the moment that counts as now."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from openoxide.errors import UsageError

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_MOMENT = r"(?<![@\w])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\b"
_SPAN = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in _UNITS_MS))


def duration(ms: int) -> str:
    """The two largest units, rounded down: ``3h 12m``, ``29d 23h``."""
    parts = []
    for unit, length in _UNITS_MS.items():
        amount, ms = divmod(ms, length)
        parts.append(f"{amount}{unit}")
    first = next((index for index, part in enumerate(parts) if part[0] != "0"), len(parts) - 1)
    return " ".join(parts[first : first + 2])


def coarse(ms: int) -> str:
    """The largest unit alone, rounded down: ``29d``."""
    return duration(ms).partition(" ")[0]


def nearest(ms: int) -> str:
    """The largest unit alone, rounded to the nearest: ``30d`` for what will be 30 days but for a moment."""
    ascending = list(reversed(_UNITS_MS.items()))
    for (unit, length), (_, larger) in pairwise(ascending):
        rounded = (ms + length // 2) // length
        if rounded * length < larger:
            return f"{rounded}{unit}"
    unit, length = ascending[-1]
    return f"{(ms + length // 2) // length}{unit}"


def closely(ms: int) -> str:
    """The two largest units, the second one rounded to the nearest and left out at 0: ``1h 30m``, ``1h``."""
    lengths = list(_UNITS_MS.values())
    first = next((index for index, length in enumerate(lengths) if ms >= length), len(lengths) - 1)
    unit = lengths[min(first + 1, len(lengths) - 1)]
    return re.sub(" 0[a-z]$", "", duration((ms + unit // 2) // unit * unit))


def local(text: str, zone: tzinfo | None = None) -> str:
    """A moment on the user's clock (``zone`` None), to the second."""
    return datetime.fromisoformat(text).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def localised(text: str, zone: tzinfo | None = None) -> str:
    """``text`` of the daemon, which may live in another time zone, with its moments on the user's clock; not those after
    an @, which are spelled to be typed.
    """
    return re.sub(_MOMENT, lambda moment: _local_or_same(moment[0], zone), text)


def _local_or_same(text: str, zone: tzinfo | None) -> str:
    try:
        return local(text, zone)
    except (ValueError, OverflowError):  # a name that only looks like a moment
        return text


def ago(text: str, now: datetime) -> str:
    """``3m ago``; less than a second, or a clock that was set back, is ``just now``."""
    passed = _ms_between(datetime.fromisoformat(text), now)
    return f"{coarse(passed)} ago" if passed >= _UNITS_MS["s"] else "just now"


def until(text: str, now: datetime, told: Callable[[int], str] = nearest) -> str:
    """``in 30d``, or ``now`` once the moment has come."""
    left = _ms_between(now, datetime.fromisoformat(text))
    return f"in {told(left)}" if left > 0 else "now"


def span_ms(text: str) -> int:
    """``90s``, ``30m``, ``1h``, ``2d`` or several in that order from large to small (``1h30m``), in milliseconds."""
    parts = _SPAN.fullmatch(text.strip().lower())
    ms = (
        sum(int(amount) * length for amount, length in zip(parts.groups("0"), _UNITS_MS.values(), strict=True))
        if parts
        else 0
    )
    if not ms:
        raise UsageError(f"{text!r} is no length of time", hint="write it like 90s, 30m, 1h, 2d or 1h30m")
    return ms


def count(number: int, noun: str) -> str:
    """``1 path``, ``2 paths``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ms_between(earlier: datetime, later: datetime) -> int:
    return (later - earlier) // timedelta(milliseconds=1)
