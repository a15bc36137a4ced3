"""Where each line of a text comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory import blame
from openoxide.memory.blame import origins

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=6).map("".join)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ([], []),
        ([""], []),
        (["a\nb\n"], [1, 1]),
        (["a\n", "a\nb\n"], [1, 2]),
        (["a\nb\n", "b\n"], [1]),
        (["a\nb\n", "a\nx\nb\n", "a\ny\nb\n"], [1, 3, 1]),
        (["a\nb\n", "", "a\nb\n"], [1, 1]),  # brought back: of whom it was
        (["a", "a\nb"], [2, 2]),  # a line without its end is another line
    ],
)
def test_a_line_is_of_the_version_that_brought_it(texts, wanted):
    assert [number for _, number in origins(enumerate(texts, 1))] == wanted


@given(st.lists(LINES, min_size=1, max_size=5))
def test_all_lines_of_the_newest_text_are_told_and_each_stood_in_its_version(texts):
    found = origins(enumerate(texts, 1))

    assert "".join(line for line, _ in found) == texts[-1]
    assert all(line in texts[number - 1].splitlines(keepends=True) for line, number in found)


def test_texts_that_are_too_long_to_compare_are_told_by_equal_lines(monkeypatch):
    monkeypatch.setattr(blame, "MOST_COMPARED_LINES", 2)
    assert [number for _, number in origins([(1, "a\nb\nc\n"), (2, "a\nx\nc\n")])] == [1, 2, 1]
