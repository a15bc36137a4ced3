"""The one place that asks the system for the time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.clock import SystemClock, rfc3339


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (1_795_961_100_007, "2026-11-29T14:05:00.007Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
    ],
)
def test_moments_are_spelled_in_utc_with_milliseconds(ms, text):
    assert rfc3339(ms) == text


@given(st.integers(0, 253_402_300_799_999))
def test_a_spelled_moment_is_read_back_to_the_millisecond(ms):
    moment = datetime.fromisoformat(rfc3339(ms))
    assert moment.tzinfo == UTC
    assert round(moment.timestamp() * 1000) == ms


@given(st.lists(st.integers(0, 253_402_300_799_999), min_size=2, max_size=2))
def test_spelled_moments_sort_as_they_happened(moments):
    assert sorted(map(rfc3339, moments)) == list(map(rfc3339, sorted(moments)))


def test_the_system_clock_is_in_milliseconds_of_now():
    before = datetime.now(UTC).timestamp() * 1000
    now = SystemClock().now_ms()
    assert before - 1 <= now <= datetime.now(UTC).timestamp() * 1000


def test_the_boot_clock_does_not_go_back():
    clock = SystemClock()
    first = clock.boot_ms()
    assert 0 < first <= clock.boot_ms()


def test_one_boot_has_one_name():
    assert SystemClock().boot_id() == SystemClock().boot_id() != ""
