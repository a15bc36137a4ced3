"""Times as people type them, in the zone of whoever typed them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.clock import rfc3339
from openoxide.moments import moment, universal

CENTRAL_EUROPE = "CET-1CEST,M3.5.0,M10.5.0/3"
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOW = at("2026-11-29T14:05:30.500Z")


@pytest.fixture
def living_in() -> Iterator[Callable[[str], None]]:
    """Moves this process to a time zone."""
    with pytest.MonkeyPatch.context() as patch:

        def move(zone: str) -> None:
            patch.setenv("TZ", zone)
            time.tzset()

        yield move
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "text", "meant"),
    [
        ("UTC0", "@14:05", "2026-11-29T14:05:00Z"),
        ("JST-9", "@14:05", "2026-11-29T05:05:00Z"),
        ("JST-9", "@23:05", "2026-11-29T14:05:00Z"),
        ("JST-9", "@23:06", "2026-11-28T14:06:00Z"),
        ("EST5", "@14:05", "2026-11-28T19:05:00Z"),
        ("JST-9", "@2026-11-29", "2026-11-28T15:00:00Z"),
        ("JST-9", "@2026-11-29T14:05:30.250", "2026-11-29T05:05:30.250Z"),
        # the offset is that of the moment meant, not that of now
        (CENTRAL_EUROPE, "@2026-11-29T14:05", "2026-11-29T13:05:00Z"),
        (CENTRAL_EUROPE, "@2026-07-01T14:05", "2026-07-01T12:05:00Z"),
        (CENTRAL_EUROPE, "@2026-10-25T02:30", "2026-10-25T01:30:00Z"),
    ],
)
def test_a_time_without_a_zone_is_of_the_zone_one_lives_in(living_in, zone, text, meant):
    living_in(zone)
    assert moment(text, NOW) == at(meant)
    assert universal(text, NOW) == f"@{rfc3339(at(meant))}"


@pytest.mark.parametrize(
    "text", ["@10m", "@2026-11-29T14:05Z", "@2026-11-29T14:05:30+02:00", "42", "last~3", "14:05", "@"]
)
def test_what_means_the_same_everywhere_stays_as_it_is(living_in, text):
    living_in("JST-9")
    assert universal(text, NOW) == text


@pytest.mark.parametrize(
    ("text", "sent", "why"),
    [
        ("@25:00", "@25:00", "hour must be"),
        ("@2026-02-30", "@2026-02-30", "day is out of range"),
        ("@2026-11-30T01:00", "@2026-11-29T16:00:00.000Z", "in the future"),
        ("@1970-01-01T08:00", "@1969-12-31T23:00:00.000Z", "before 1970"),
        ("14:05", "14:05", "after @"),
    ],
)
def test_what_is_no_past_moment_in_one_zone_is_none_in_another(living_in, text, sent, why):
    living_in("JST-9")
    with pytest.raises(ValueError, match=why):
        moment(text, NOW)
    assert universal(text, NOW) == sent
    living_in("UTC0")
    with pytest.raises(ValueError, match=why):
        moment(sent, NOW)


@pytest.mark.parametrize("text", ["@0001-01-01", "@9999-12-31T23:59"])
@pytest.mark.parametrize("zone", ["UTC0", "JST-9", "EST5"])
def test_the_ends_of_the_calendar_are_no_past_moments(living_in, zone, text):
    living_in(zone)
    with pytest.raises(ValueError, match=r"\w"):
        moment(universal(text, NOW), NOW)


@given(st.integers(at("1971-01-01T00:00Z"), NOW), st.sampled_from([UTC, BERLIN]))
def test_a_universal_spelling_means_the_same_moment(ms, zone):
    local = datetime.fromtimestamp(ms / 1000, zone).replace(tzinfo=None)
    text = f"@{local.isoformat(timespec='milliseconds')}"
    assert moment(universal(text, NOW, zone), NOW, ZoneInfo("Asia/Tokyo")) == moment(text, NOW, zone)
