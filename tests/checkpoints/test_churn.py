"""The budget of a file that changes all the time: the rule as a table, and against a model that counts by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.churn import APART_MS, BYTES, HOUR_MS, LEFT_ALONE_MS, VERSIONS, Budgets, Spent, is_over

FULL = Spent(since_ms=0, versions=VERSIONS, size_bytes=1, last_ms=1_000_000)


@pytest.mark.parametrize(
    ("spent", "now_ms", "changed_ms", "over"),
    [
        (None, 1_000_000, 1_000_000, False),
        (FULL._replace(versions=VERSIONS - 1), 1_000_001, 1_000_001, False),
        (FULL, 1_000_001, 1_000_001, True),
        (FULL._replace(versions=1, size_bytes=BYTES), 1_000_001, 1_000_001, True),
        (FULL, 1_000_000 + LEFT_ALONE_MS, 1_000_000, False),
        (FULL, 1_000_000 + APART_MS, 1_000_000 + APART_MS, False),
        (FULL, 1_000_000 + APART_MS - 1, 1_000_000 + APART_MS - 1, True),
        (FULL._replace(last_ms=HOUR_MS), HOUR_MS, HOUR_MS, False),
        (FULL._replace(since_ms=5_000_000), 1_000_001, 1_000_001, False),
    ],
    ids=["new", "within", "versions", "bytes", "left alone", "ten minutes", "not yet", "next hour", "clock set back"],
)
def test_who_is_to_wait(spent, now_ms, changed_ms, over):
    assert is_over(spent, now_ms, changed_ms) is over


@given(st.lists(st.integers(1, 120_000), min_size=1, max_size=400))
def test_a_file_that_never_rests_has_its_budget_an_hour_and_one_version_in_ten_minutes(gaps_ms):
    budgets, now_ms, taken = Budgets(), 0, []
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        if not budgets.turn(now_ms).holds(b"a", 10, now_ms * 1_000_000):
            taken.append(now_ms)

    assert taken[0] == gaps_ms[0]
    for moment in taken:  # in two hours that touch lie two budgets, and what is let through every ten minutes
        assert sum(moment <= other < moment + HOUR_MS for other in taken) <= 2 * (VERSIONS + HOUR_MS // APART_MS)
    asked = [sum(gaps_ms[: n + 1]) for n in range(len(gaps_ms))]
    for moment in asked:  # whoever asks is never further than ten minutes from a version, but for the time between asks
        assert any(moment - APART_MS < other <= moment for other in taken)


def test_a_database_and_its_side_files_are_one():
    budgets = Budgets()
    for now_ms in range(VERSIONS):
        turn = budgets.turn(now_ms)
        assert not any(turn.holds(name, 1, now_ms * 1_000_000) for name in (b"x.db", b"x.db-wal", b"x.db-shm"))

    turn = budgets.turn(VERSIONS)
    assert [turn.holds(name, 1, VERSIONS * 1_000_000) for name in (b"x.db-wal", b"x.db", b"y.db")] == [
        True,
        True,
        False,
    ]


def test_many_files_that_change_once_are_forgotten():
    budgets = Budgets()
    for number in range(20_000):
        budgets.turn(number).holds(b"%d" % number, 1, 0)

    budgets.turn(20_000)
    assert len(budgets._spent) < 10_000
