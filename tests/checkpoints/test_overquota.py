"""Who is left out where what must stay exceeds a quota by itself: cases, and properties against a search of all choices."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.overquota import LEAST_BYTES, Heavy, LeftOut, too_heavy

MIB = 1 << 20


def out(path: int, content: int, size: int) -> LeftOut:
    return LeftOut(path, 1, content, size)


@pytest.mark.parametrize(
    ("most", "contents"),
    [(16, []), (15, [1]), (8, [1]), (7, [1, 2]), (4, [1, 2]), (3, [1, 2, 3]), (2, [1, 2, 3]), (0, [1, 2, 3, 4])],
)
def test_the_largest_go_until_the_rest_fits(most, contents):
    held = {1: 8 * MIB, 2: 4 * MIB, 3: 2 * MIB, 4: 2 * MIB}
    assert too_heavy(held, held, [], most * MIB) == Heavy(frozenset(contents), frozenset())


def test_what_is_small_is_never_left_out():
    held = dict.fromkeys(range(100), LEAST_BYTES - 1) | {100: LEAST_BYTES}
    assert too_heavy(held, held, [], 0).contents == {100}


def test_what_no_path_can_bring_again_counts_and_is_not_chosen():
    held = {1: 8 * MIB, 2: 4 * MIB}
    assert too_heavy(held, {2}, [], 9 * MIB).contents == {2}


@pytest.mark.parametrize(("most", "stays"), [(11, True), (12, False)])
def test_what_is_left_out_comes_back_as_soon_as_it_fits(most, stays):
    assert too_heavy({1: 4 * MIB}, {1}, [out(7, 2, 8 * MIB)], most * MIB).paths == ({7} if stays else set())


def test_what_the_floor_still_holds_counts_once():
    held = {1: 4 * MIB, 2: 8 * MIB}
    assert too_heavy(held, held, [out(7, 2, 8 * MIB)], 12 * MIB) == Heavy()
    assert too_heavy(held, held, [out(7, 2, 8 * MIB)], 11 * MIB) == Heavy(frozenset({2}), frozenset({7}))


SIZES = st.integers(0, 6).map(lambda quarter: quarter * LEAST_BYTES)


@given(
    held=st.dictionaries(st.integers(0, 5), SIZES, max_size=6),
    absent=st.lists(SIZES, max_size=4),
    most=st.integers(0, 20).map(lambda quarter: quarter * LEAST_BYTES),
)
def test_no_choice_of_fewer_makes_it_fit_and_nothing_goes_that_need_not(held, absent, most):
    left_out = [out(100 + n, 50 + n, size) for n, size in enumerate(absent)]
    weights = held | {each.content: each.size_bytes for each in left_out}

    found = too_heavy(held, held, left_out, most)

    chosen = found.contents | {each.content for each in left_out if each.path in found.paths}
    rest = sum(weights.values()) - sum(weights[content] for content in chosen)
    able = [content for content in weights if weights[content] >= LEAST_BYTES or content not in held]
    if rest > most:
        assert {content for content in able if weights[content]} <= chosen
    for fewer in combinations(able, max(0, len(chosen) - 1)):
        assert not chosen or sum(weights.values()) - sum(weights[content] for content in fewer) > most
    # the same facts again, with what was chosen left out and still held: the same choice
    again = too_heavy(
        held, held, [*left_out, *(out(content, content, held[content]) for content in found.contents)], most
    )
    assert again.contents == found.contents
