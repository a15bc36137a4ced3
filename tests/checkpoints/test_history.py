"""Positions, and the stretches in which a text stood, each against a plain loop."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.history import Position, Positions
from openoxide.checkpoints.search import _CHUNK, Verdict, _look_into, stretches
from openoxide.errors import StoreDamagedError


def position(number: int, seq: int, *, kept: bool = True) -> Position:
    return Position(
        seq=seq, number=number, id=f"id{number}", name=None, created_at_ms=1_000 * number, session=None, kept=kept
    )


SEALED = [position(1, 5), position(2, 5), position(3, 9, kept=False), position(4, 20)]


@pytest.mark.parametrize(("seq", "ms"), [(1, 1_000), (5, 1_000), (6, 3_000), (9, 3_000), (10, 4_000), (21, None)])
def test_a_row_was_recorded_by_the_next_seal_whatever_became_of_it(seq, ms):
    assert Positions(SEALED).recorded_by(seq) == ms


@pytest.mark.parametrize(
    ("seq", "until", "first", "last"),
    [
        (1, None, 1, 4),
        (1, 5, None, None),
        (1, 6, 1, 2),
        (5, 20, 1, 2),
        (6, 20, None, None),
        (6, 21, 4, 4),
        (20, None, 4, 4),
        (21, None, None, None),
    ],
)
def test_the_first_and_the_last_kept_checkpoint_of_a_row(seq, until, first, last):
    found = Positions(SEALED)
    assert [p.number if p else None for p in (found.first(seq, until), found.last(seq, until))] == [first, last]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ("", []),
        ("0", []),
        ("1", [(1, 1, None, None, 1)]),
        ("0110", [(2, 3, 4, 4, 2)]),
        ("101", [(1, 1, 2, 2, 1), (3, 3, None, None, 1)]),
        ("1?1", [(1, 3, None, None, 2)]),
        ("1?0", [(1, 1, 2, 3, 1)]),
        ("1??", [(1, 1, 2, None, 1)]),
        ("?0?", []),
    ],
)
def test_a_stretch_ends_where_the_text_is_known_to_be_gone(versions, expected):
    told = [(seq, {"0": False, "1": True, "?": None}[mark]) for seq, mark in enumerate(versions, 1)]

    found = list(stretches(b"a", told))

    assert [(s.first_seq, s.last_seq, s.until_seq, s.gone_seq, s.versions) for s in found] == expected


@given(st.lists(st.sampled_from([True, False, None]), max_size=12))
def test_every_version_that_holds_the_text_is_in_one_stretch(verdicts):
    told = list(enumerate(verdicts, 1))

    found = list(stretches(b"a", told))

    inside = [seq for s in found for seq, holds in told if holds and s.first_seq <= seq <= s.last_seq]
    assert inside == [seq for seq, holds in told if holds]
    assert sum(s.versions for s in found) == len(inside)
    for s in found:
        assert not any(holds is False and s.first_seq < seq < s.last_seq for seq, holds in told)
        gone = [seq for seq, holds in told if holds is False and seq > s.last_seq]
        assert s.gone_seq == (gone[0] if gone else None)


@pytest.mark.parametrize(
    ("content", "wanted", "binary", "verdict"),
    [
        (b"", b"x", False, Verdict.LACKS),
        (b"axb", b"x", False, Verdict.HOLDS),
        (b"x", b"xx", False, Verdict.LACKS),
        (b"one\ntwo\n", b"one\ntwo", False, Verdict.HOLDS),
        (b"a\0x", b"x", False, Verdict.BINARY),
        (b"a\0x", b"x", True, Verdict.HOLDS),
        (b"x" + bytes(9_000), b"x", True, Verdict.HOLDS),
        (b"y" * 8_000 + b"\0x", b"x", False, Verdict.HOLDS),
        *((b"y" * (_CHUNK - cut) + b"needle", b"needle", False, Verdict.HOLDS) for cut in range(8)),
        (b"y" * (_CHUNK - 1) + b"x", b"x", False, Verdict.HOLDS),
        (b"y" * 3 * _CHUNK, b"y" * 2 * _CHUNK, False, Verdict.HOLDS),
    ],
    ids=lambda value: "",
)
def test_a_content_is_looked_into_in_pieces(content, wanted, binary, verdict):
    assert _look_into(lambda _: io.BytesIO(content), blob_hash(content), wanted, binary=binary) is verdict


def test_what_is_not_what_its_name_says_is_no_finding():
    def missing(_):
        raise StoreDamagedError("it is missing")

    assert _look_into(lambda _: io.BytesIO(b"needle"), blob_hash(b"other"), b"needle", binary=False) is Verdict.DAMAGED
    assert _look_into(missing, blob_hash(b"other"), b"needle", binary=False) is Verdict.DAMAGED
