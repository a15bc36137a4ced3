"""Times, sizes and counts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from openoxide.cli.units import ago, closely, coarse, count, duration, local, localised, nearest, span_ms, until
from openoxide.clock import rfc3339
from openoxide.errors import UsageError
from openoxide.knobs import size

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def at(ms_from_noon: int) -> str:
    return rfc3339(int(NOON.timestamp() * 1000) + ms_from_noon)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 40, "3.0 TiB"),
        (2048 << 40, "2048.0 TiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_fits(size_bytes, text):
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (999, "0s"),
        (SECOND, "1s"),
        (MINUTE + 5 * SECOND, "1m 5s"),
        (10 * MINUTE, "10m 0s"),
        (3 * HOUR + 12 * MINUTE + 59 * SECOND, "3h 12m"),
        (30 * DAY - 1, "29d 23h"),
    ],
)
def test_a_duration_shows_two_units_rounded_down(ms, text):
    assert duration(ms) == text
    assert coarse(ms) == text.split()[0]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "just now"), (-999, "just now"), (5_000, "just now"), (-SECOND, "1s ago"), (-90 * MINUTE, "1h ago")],
)
def test_an_age_is_never_negative(ms, text):
    assert ago(at(ms), NOON) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (400, "0s"),
        (45 * SECOND - 100, "45s"),
        (MINUTE + 5 * SECOND, "1m 5s"),
        (HOUR - 100, "1h"),
        (HOUR + 30 * MINUTE - 100, "1h 30m"),
        (HOUR + 30 * MINUTE, "1h 30m"),
        (DAY - 100, "1d"),
        (DAY + 10 * HOUR, "1d 10h"),
        (2 * DAY, "2d"),
        (365 * DAY, "365d"),
    ],
)
def test_an_end_is_told_in_two_units_rounded_to_the_nearest(ms, text):
    assert closely(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "now"), (-DAY, "now"), (1, "in 0s"), (30 * DAY - 1, "in 30d"), (2 * HOUR, "in 2h")]
)
def test_what_is_due_is_due_now(ms, text):
    assert until(at(ms), NOON) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (400, "0s"),
        (59 * SECOND, "59s"),
        (MINUTE - 1, "1m"),
        (HOUR - SECOND, "1h"),
        (59 * MINUTE, "59m"),
        (DAY - MINUTE, "1d"),
        (30 * DAY - MINUTE, "30d"),
        (30 * DAY - 13 * HOUR, "29d"),
        (36 * HOUR, "2d"),
    ],
)
def test_what_is_left_is_rounded_to_the_nearest(ms, text):
    assert nearest(ms) == text


def test_moments_are_shown_on_the_clock_of_the_zone():
    assert local(at(500), UTC) == "2026-11-29 12:00:00"
    assert local(at(0), timezone(timedelta(hours=5, minutes=30))) == "2026-11-29 17:30:00"
    assert local(at(0)) == "2026-11-29 12:00:00"  # the tests' own zone is UTC


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("taken is #1 of 2026-11-29T12:00:00.500Z, 301 ms before", "taken is #1 of 2026-11-29 21:00:00, 301 ms before"),
        ("2026-11-29T20:00:00.000Z: taken", "2026-11-30 05:00:00: taken"),
        ("no checkpoint '@2026-11-29T12:00:00.000Z'", "no checkpoint '@2026-11-29T12:00:00.000Z'"),
        ("2026-13-41T12:00:00.000Z", "2026-13-41T12:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("no moment", "no moment"),
    ],
)
def test_moments_in_a_text_are_shown_on_the_clock_of_the_zone(text, shown):
    assert localised(text, timezone(timedelta(hours=9))) == shown


@pytest.mark.parametrize(("number", "text"), [(0, "0 paths"), (1, "1 path"), (2, "2 paths")])
def test_one_thing_is_singular(number, text):
    assert count(number, "path") == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90s", 90 * SECOND), ("30m", 30 * MINUTE), ("1h", HOUR), (" 2D ", 2 * DAY), ("1h30m", 90 * MINUTE)],
)
def test_a_length_of_time_is_read(text, ms):
    assert span_ms(text) == ms


@pytest.mark.parametrize("text", ["", "1", "h", "0m", "-1h", "1.5h", "30m1h", "1w", "1h 30m", "\u0663h"])
def test_what_is_no_length_of_time_is_wrong_usage(text):
    with pytest.raises(UsageError):
        span_ms(text)
