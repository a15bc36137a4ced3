"""``@10m``, ``@14:05``, ``@2026-11-29``: a moment as people type it.

A time without a zone is the typist's: who takes it from a person makes it ``universal`` before it travels to a process
that may live in another zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from openoxide.clock import rfc3339

UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# 15 digits keep every number inside SQLite's integers and far from int()'s own limit
_AGO = re.compile(r"@([0-9]{1,15})([smhd])")
_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{3}))?)?"
_TIME = re.compile(f"@{_CLOCK}")
_DATE = re.compile(rf"@([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:T{_CLOCK}(Z|([+-])([0-9]{{2}}):([0-9]{{2}}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(text: str, now_ms: int, tz: tzinfo | None = None) -> int:
    """``text`` in milliseconds since the epoch; a time without a zone is in ``tz``, or else in this process's. Raises
    ValueError, which says why, for what is no moment that is past.
    """
    ms = _meant(text, now_ms, tz)
    if ms > now_ms:
        raise ValueError("it lies in the future")
    if ms < 0:
        raise ValueError("it lies before 1970")
    return ms


def universal(text: str, now_ms: int, tz: tzinfo | None = None) -> str:
    """``text`` as it means the same in every zone; what is no moment stays as it is."""
    if not _is_local(text):
        return text
    try:
        # not moment(): whether it is past is for the daemon to say
        return f"@{rfc3339(_meant(text, now_ms, tz))}"
    except ValueError:
        return text


def _is_local(text: str) -> bool:
    """Whether ``text`` is a time without a zone."""
    if _TIME.fullmatch(text):
        return True
    match = _DATE.fullmatch(text)
    # group 8 is the zone; a date alone has none either
    return match is not None and match[8] is None


def _meant(text: str, now_ms: int, tz: tzinfo | None) -> int:
    """Of all readings the latest one that is past, else the first to come."""
    if match := _AGO.fullmatch(text):
        return now_ms - int(match[1]) * UNIT_MS[match[2]]
    match = _TIME.fullmatch(text) or _DATE.fullmatch(text)
    if match is None:
        raise ValueError("after @ comes an age, a time of day or a date")
    try:
        readings = list(_readings(match, now_ms, tz))
    except OverflowError as error:
        raise ValueError("no calendar has it") from error
    return max((ms for ms in readings if ms <= now_ms), default=min(readings))


def _readings(match: re.Match[str], now_ms: int, tz: tzinfo | None) -> Iterable[int]:
    if match.re is _TIME:
        today = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(tz).date()
        # after midnight @23:50 means yesterday
        days, clock, zone = [today, today - timedelta(days=1)], _time(*match.groups()), tz
    else:
        year, month, day_of_month, *clock_groups, name, sign, hours, minutes = match.groups()
        days, clock = [date(int(year), int(month), int(day_of_month))], _time(*clock_groups)
        zone = tz if name is None else UTC if name == "Z" else _offset(sign, hours, minutes)
    for day in days:
        for fold in (0, 1):  # an hour that summer time's end repeats, or its start leaves out, has two readings
            local = datetime.combine(day, clock, zone).replace(fold=fold)
            if zone is None:
                # by the zone's rules at that moment, not by the offset of now
                local = local.astimezone()
            yield (local - _EPOCH) // timedelta(milliseconds=1)


def _time(hour: str | None, minute: str | None, second: str | None, milli: str | None) -> time:
    return time(int(hour or 0), int(minute or 0), int(second or 0), int(milli or 0) * 1000)


def _offset(sign: str, hours: str, minutes: str) -> timezone:
    distance = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-distance if sign == "-" else distance)
