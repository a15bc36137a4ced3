"""How a checkpoint is named: every form, every refusal, and the choice between several hits."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openoxide.checkpoints.model import Checkpoint, Trigger
from openoxide.checkpoints.naming import (
    CANDIDATE_LIMIT,
    FORMS,
    IdPrefix,
    Last,
    Moment,
    Name,
    Number,
    Reference,
    TurnBack,
    TurnPrompt,
    parse,
    resolve,
    valid_name,
)
from openoxide.clock import rfc3339
from openoxide.errors import AmbiguousError, NotFoundError, UsageError, error_object
from openoxide.ids import letters

PLUS_TWO = timezone(timedelta(hours=2))
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOW = at("2026-11-29T14:05:30.500Z")


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("42", Number(42)),
        ("#42", Number(42)),
        ("007", Number(7)),
        ("kxyz", IdPrefix("kxyz")),
        ("z", IdPrefix("z")),
        (letters(bytes(8)), IdPrefix("z" * 16)),
        ("z" * 17, Name("z" * 17)),
        ("before refactor", Name("before refactor")),
        ("KXYZ", Name("KXYZ")),
        ("42a", Name("42a")),
        ("last-good", Name("last-good")),
        ("lastly", Name("lastly")),
        ("turn", IdPrefix("turn")),
        ("turns:1", Name("turns:1")),
        ("a@10m", Name("a@10m")),
        ("last", Last(0)),
        ("last~0", Last(0)),
        ("last~3", Last(3)),
        ("turn:-1", TurnBack(1)),
        ("turn:-12", TurnBack(12)),
        ("turn:5f0c-77", TurnPrompt("5f0c-77")),
        ("turn:7", TurnPrompt("7")),
    ],
)
def test_every_form_is_read(text: str, reference: Reference) -> None:
    assert parse(text, NOW, UTC) == reference


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("@45s", UTC, "2026-11-29T14:04:45.500Z"),
        ("@10m", UTC, "2026-11-29T13:55:30.500Z"),
        ("@2h", UTC, "2026-11-29T12:05:30.500Z"),
        ("@3d", UTC, "2026-11-26T14:05:30.500Z"),
        ("@0s", UTC, "2026-11-29T14:05:30.500Z"),
        ("@14:05", UTC, "2026-11-29T14:05:00.000Z"),
        ("@14:05:30", UTC, "2026-11-29T14:05:30.000Z"),
        ("@14:05:30.500", UTC, "2026-11-29T14:05:30.500Z"),
        ("@14:05:30.501", UTC, "2026-11-28T14:05:30.501Z"),
        ("@14:06", UTC, "2026-11-28T14:06:00.000Z"),
        ("@14:05", PLUS_TWO, "2026-11-29T12:05:00.000Z"),
        ("@16:30", PLUS_TWO, "2026-11-28T14:30:00.000Z"),
        ("@2026-11-29T14:05", UTC, "2026-11-29T14:05:00.000Z"),
        ("@2026-11-29T14:05", PLUS_TWO, "2026-11-29T12:05:00.000Z"),
        ("@2026-11-29T14:05Z", PLUS_TWO, "2026-11-29T14:05:00.000Z"),
        ("@2026-11-29T14:05:07+02:00", UTC, "2026-11-29T12:05:07.000Z"),
        ("@2026-11-28T14:05:07.089-05:30", UTC, "2026-11-28T19:35:07.089Z"),
        ("@2026-11-29T14:05:30.500Z", UTC, "2026-11-29T14:05:30.500Z"),
        ("@2026-11-29", UTC, "2026-11-29T00:00:00.000Z"),
        ("@2026-11-29", PLUS_TWO, "2026-11-28T22:00:00.000Z"),
        ("@2024-02-29", UTC, "2024-02-29T00:00:00.000Z"),
        ("@1970-01-01", UTC, "1970-01-01T00:00:00.000Z"),
        ("@2026-07-01T12:00", BERLIN, "2026-07-01T10:00:00.000Z"),
    ],
)
def test_every_way_to_write_a_moment_is_read(text: str, zone: tzinfo, moment: str) -> None:
    assert parse(text, NOW, zone) == Moment(at(moment))


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        ("2026-10-25T01:40:00Z", "2026-10-25T01:30:00Z"),  # in the second 02:30 of that night
        ("2026-10-25T01:10:00Z", "2026-10-25T00:30:00Z"),  # before it: the first one
        ("2026-10-25T00:10:00Z", "2026-10-24T00:30:00Z"),  # before both: yesterday
    ],
)
def test_an_hour_that_the_clock_shows_twice_means_the_latest_past_one(now: str, moment: str) -> None:
    assert parse("@02:30", at(now), BERLIN) == Moment(at(moment))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\t", "#", "#x", "#-1", "-1", "--help", "9" * 16, "٤٢", "²", "a\nb", "a\x1b[31m", "\udcff", "x" * 201,
        "last~", "last~x", "last~-1", "last~1.5", "last~" + "9" * 16,
        "turn:", "turn:-", "turn:-0", "turn:-x", "turn:-1x", "turn:a\nb", "turn:\udcff", "turn:-" + "9" * 16,
        "@", "@10", "@m", "@10w", "@-5m", "@1.5h", "@10 m", "@٤m", "@24:00", "@14:60", "@14:05:60", "@1:05", "@14",
        "@14:05:30.5", "@14:05Z", "@2026-11", "@2026-13-01", "@2026-02-30", "@2026-11-29 14:05", "@2026-11-29T",
        "@2026-11-29T14", "@2026-11-29T14:05+2", "@2026-11-29T14:05+24:00", "@2026-11-29T14:05+02:99x", "@29.11.2026",
        "@0000-01-01", "@0001-01-01", "@1969-12-31", "@9999-12-31", "@2026-11-29T14:06", "@2026-11-30",
        "@999999999999999d", "@yesterday",
    ],
)  # fmt: skip
def test_what_can_name_nothing_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text, NOW, UTC)
    assert raised.value.hint == FORMS
    assert raised.value.message.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "7", "٤٢", "last", "last~1", "last~", "@x", "turn:x", "late:x", "#x", "-m", "a\0", "\x85", "\udc80", "a\u2028b",
        "n" * 201,
    ],
)  # fmt: skip
def test_a_name_that_collides_or_cannot_be_shown_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        valid_name(text)


@given(st.text(max_size=210))
@example("kxyz")
@example("last-good")
@example("n" * 200)
def test_a_valid_name_is_read_back_as_itself(text: str) -> None:
    with suppress(UsageError):
        valid_name(text)
        assert parse(text, NOW, UTC) in (Name(text), IdPrefix(text))


PIECES = st.sampled_from(
    ["@", "#", "-", "last", "~", "turn:", "T", "Z", ":", "+", "14:05", "2026-11-29", "0001-01-01", "12", "9" * 15, "m"]
)
ANY_TEXT = st.text(max_size=30) | st.lists(PIECES, max_size=6).map("".join)
ZONES = st.sampled_from(
    [UTC, BERLIN, ZoneInfo("America/St_Johns"), timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))]
)


@given(ANY_TEXT, st.integers(0, 4_102_444_800_000), ZONES)
def test_no_text_crashes_and_no_moment_lies_in_the_future(text: str, now_ms: int, zone: tzinfo) -> None:
    with suppress(UsageError):
        reference = parse(text, now_ms, zone)
        assert not isinstance(reference, Moment) or 0 <= reference.ms <= now_ms


@given(st.integers(0, NOW), ZONES)
def test_a_printed_time_names_its_moment(ms: int, zone: tzinfo) -> None:
    assert parse("@" + rfc3339(ms), NOW, zone) == Moment(ms)


def checkpoint(number: int, public_id: str, name: str | None = None) -> Checkpoint:
    created = at("2026-11-29T14:00:00Z") + number * 60_000
    return Checkpoint(id=public_id, worktree=1, number=number, seq=number, created_at_ms=created, trigger=Trigger.QUIET,
                      manifest_hash=bytes(32), name=name)  # fmt: skip


@dataclass
class Shelf:
    """Checkpoints in a list, oldest first, and what was asked of it."""

    checkpoints: list[Checkpoint]
    asked: list[str] = field(default_factory=list)

    def by_number(self, number: int) -> Checkpoint | None:
        self.asked.append("by_number")
        return next((each for each in self.checkpoints if each.number == number), None)

    def by_id_prefix(self, prefix: str) -> list[Checkpoint]:
        self.asked.append("by_id_prefix")
        return [each for each in self.checkpoints if each.id.startswith(prefix)]

    def by_name(self, name: str) -> list[Checkpoint]:
        self.asked.append("by_name")
        return [each for each in self.checkpoints if each.name == name]

    def newest(self, back: int) -> Checkpoint | None:
        self.asked.append("newest")
        return self.checkpoints[-1 - back] if back < len(self.checkpoints) else None

    def at_moment(self, ms: int) -> Checkpoint | None:
        self.asked.append("at_moment")
        return min(self.checkpoints, key=lambda each: abs(each.created_at_ms - ms), default=None)

    def turn_back(self, back: int) -> Checkpoint | None:
        self.asked.append("turn_back")
        return self.newest(back)

    def turn_prompt(self, prompt: str) -> list[Checkpoint]:
        self.asked.append("turn_prompt")
        return self.checkpoints[: {"first": 1, "twice": 2}.get(prompt, 0)]


SHELF = [
    checkpoint(1, "kkkkxxxx"),
    checkpoint(2, "kkllxxxx", "stop"),
    checkpoint(3, "stopxxxx"),
    checkpoint(4, "zzzzxxxx", "zz"),
    checkpoint(5, "yyyyxxxx", "kk"),
    checkpoint(6, "wwwwxxxx", "twice here"),
    checkpoint(7, "vvvvxxxx", "twice here"),
]


@pytest.mark.parametrize(
    ("reference", "number", "asked"),
    [
        (Number(3), 3, ["by_number"]),
        (IdPrefix("kkk"), 1, ["by_name", "by_id_prefix"]),
        (IdPrefix("zz"), 4, ["by_name", "by_id_prefix"]),  # name and id of the same checkpoint
        (IdPrefix("kk"), 5, ["by_name", "by_id_prefix"]),  # a prefix of two ids is no unique prefix: the name stands
        (Last(0), 7, ["newest"]),
        (Last(2), 5, ["newest"]),
        (TurnPrompt("first"), 1, ["turn_prompt"]),
    ],
)
def test_a_reference_resolves_and_asks_for_nothing_else(reference: Reference, number: int, asked: list[str]) -> None:
    shelf = Shelf(SHELF)
    assert resolve(reference, shelf).checkpoint.number == number
    assert shelf.asked == asked


@pytest.mark.parametrize(
    ("reference", "candidates"),
    [
        (IdPrefix("stop"), [3, 2]),  # a name, and the id of another
        (IdPrefix("kkxx"), None),
        (IdPrefix("k"), [2, 1]),
        (Name("twice here"), [7, 6]),
        (TurnPrompt("twice"), [2, 1]),
    ],
)
def test_what_fits_several_is_refused_with_the_candidates(reference: Reference, candidates: list[int] | None) -> None:
    if candidates is None:
        with pytest.raises(NotFoundError):
            resolve(reference, Shelf(SHELF))
        return
    with pytest.raises(AmbiguousError) as raised:
        resolve(reference, Shelf(SHELF))
    assert [candidate["number"] for candidate in raised.value.details["candidates"]] == candidates


def test_a_candidate_says_what_is_needed_to_choose() -> None:
    with pytest.raises(AmbiguousError) as raised:
        resolve(IdPrefix("stop"), Shelf(SHELF))
    assert error_object(raised.value)["candidates"][1] == {
        "id": "kkllxxxx", "number": 2, "created_at": "2026-11-29T14:02:00.000Z", "name": "stop"}  # fmt: skip


def test_a_short_prefix_of_very_many_lists_the_newest_only() -> None:
    shelf = Shelf([checkpoint(number, letters(number.to_bytes(8, "big"))) for number in range(1, 100)])
    with pytest.raises(AmbiguousError, match="fits 99 checkpoints") as raised:
        resolve(IdPrefix("z"), shelf)
    assert [each["number"] for each in raised.value.details["candidates"]] == list(range(99, 99 - CANDIDATE_LIMIT, -1))


@pytest.mark.parametrize(
    "reference",
    [Number(99), IdPrefix("lll"), Name("nothing"), Last(7), TurnBack(9), TurnPrompt("other")],
)
def test_what_is_not_there_is_not_found(reference: Reference) -> None:
    with pytest.raises(NotFoundError) as raised:
        resolve(reference, Shelf(SHELF))
    assert raised.value.hint


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        (Name("10m"), "@10m"),
        (Name("14:05"), "@14:05"),
        (Name("2026-11-29"), "@2026-11-29"),
        (TurnPrompt("1"), "turn:-1"),
    ],
)
def test_what_was_nearly_right_is_told(reference: Reference, meant: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        resolve(reference, Shelf([]))

    assert raised.value.hint == f"did you mean {meant}?"


def test_a_moment_without_any_checkpoint_is_not_found() -> None:
    with pytest.raises(NotFoundError, match=r"2026-11-29T14:05:30\.500Z"):
        resolve(Moment(NOW), Shelf([]))


@pytest.mark.parametrize(
    ("moment", "note"),
    [
        ("2026-11-29T14:03:00Z", ""),
        (
            "2026-11-29T14:03:20Z",
            "2026-11-29T14:03:20.000Z: taken is checkpoint #3 of 2026-11-29T14:03:00.000Z, 20 s before",
        ),
        (
            "2026-11-29T12:01:00Z",
            "2026-11-29T12:01:00.000Z: taken is checkpoint #1 of 2026-11-29T14:01:00.000Z, 2 h after",
        ),
        (
            "2026-11-29T14:07:00.004Z",
            "2026-11-29T14:07:00.004Z: taken is checkpoint #7 of 2026-11-29T14:07:00.000Z, 4 ms before",
        ),
    ],
)
def test_a_moment_says_which_checkpoint_stands_for_it(moment: str, note: str) -> None:
    assert resolve(Moment(at(moment)), Shelf(SHELF)).note == note
