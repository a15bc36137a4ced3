"""What sums prove, against a model that adds up small numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.proving import Candidate, proven

MODULUS = 1 << 256


@st.composite
def damages(draw):
    """Paths with what each adds from its position on (no two sets of them add up to the same), which of them are lost, and
    which candidates say something else than what was.
    """
    count = draw(st.integers(1, 6))
    true = [Candidate(path=number, seq=draw(st.integers(1, 9)), adds=1 << (20 * number)) for number in range(count)]
    lost = draw(st.lists(st.sampled_from(true), unique_by=lambda one: one.path))
    false = draw(st.lists(st.sampled_from(true), unique_by=lambda one: one.path, max_size=2))
    sealed = draw(st.lists(st.integers(0, 10), unique=True))
    return lost, [Candidate(path=one.path, seq=one.seq, adds=one.adds * 3) for one in false], sealed


def missing(lost, sealed):
    return {seq: sum(one.adds for one in lost if one.seq <= seq) % MODULUS for seq in sealed}


@given(damages())
def test_what_is_taken_is_what_was_lost(damage):
    lost, false, sealed = damage
    offered = [*false, *(one for one in lost if one.path not in {other.path for other in false})]

    taken = proven(missing(lost, sealed), offered)

    assert {one.path for one in taken} <= {one.path for one in lost} - {one.path for one in false}


@given(damages())
def test_all_that_a_sum_is_about_comes_back_where_nothing_else_is_wrong(damage):
    lost, _, sealed = damage

    taken = proven(missing(lost, sealed), lost)

    assert taken == [one for one in lost if sealed and one.seq <= max(sealed)]


def test_what_adds_nothing_is_never_taken():
    lost = [Candidate(path=1, seq=1, adds=5)]

    assert proven({3: 5}, [*lost, Candidate(path=2, seq=1, adds=0), Candidate(path=3, seq=9, adds=7)]) == lost
