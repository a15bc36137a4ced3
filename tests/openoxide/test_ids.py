"""Ids are spelled so that nothing else could be meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.ids import ID_BYTES, SHORT_LETTERS, is_letters, letters, short


@pytest.mark.parametrize(
    ("raw", "spelled"),
    [(b"", ""), (b"\x00", "zz"), (b"\xff", "kk"), (b"\x01", "zy"), (b"\x10", "yz"), (b"\xab\xcd", "ponm")],
)
def test_bytes_are_spelled_with_two_letters_each(raw, spelled):
    assert letters(raw) == spelled


@given(st.binary(max_size=16), st.binary(max_size=16))
def test_different_bytes_have_different_spellings(a, b):
    assert (letters(a) == letters(b)) == (a == b)


@given(st.binary(min_size=1, max_size=16))
def test_a_spelling_is_recognised_and_never_a_number(raw):
    spelled = letters(raw)
    assert is_letters(spelled)
    assert not any(char.isdigit() for char in spelled)


@pytest.mark.parametrize("text", ["", "j", "K", "k1", "kz ", "é", "42", "k-z", "kZ"])
def test_what_no_id_can_be_is_not_taken_for_one(text):
    assert not is_letters(text)


def test_the_short_form_is_a_prefix_that_is_an_id_itself():
    whole = letters(bytes(range(ID_BYTES)))
    assert whole.startswith(short(whole))
    assert len(short(whole)) == SHORT_LETTERS
    assert is_letters(short(whole))
