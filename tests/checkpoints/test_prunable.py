"""What goes and what is written anew, as tables; that nobody can tell is shown by tests/daemon/test_pruning.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.prunable import (
    FINE_WINDOW_MS,
    ROOM_BYTES,
    SMALL_PACK_BYTES,
    Author,
    Needs,
    PackUse,
    Room,
    Row,
    fine_seq,
    portions,
    room_for,
    superfluous,
    worth_repacking,
)

NOW = 1_800_000_000_000
OLD = NOW - FINE_WINDOW_MS - 1
USER = Author("unknown")
TURN = Author("sure", frozenset({("s", 1)}))
NEXT = Author("sure", frozenset({("s", 2)}))
OTHER = Author("likely", frozenset({("t", 9)}))
REWIND = Author("operation", operation=True)


def rows(*made_by, absent=()):
    """Rows at 10, 20, ..."""
    return [Row(seq * 10, seq * 10 in absent, author) for seq, author in enumerate(made_by, 1)]


def gone(path, positions, *, fine=1_000, sessions=None, is_database=False):
    needs = Needs(positions=positions, fine_seq=fine, sessions=sessions or {})
    return superfluous(path, needs, is_database=is_database)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([], [10, 20]),
        ([9], [10, 20]),
        ([10], [20]),
        ([19], [20]),
        ([20], [10]),
        ([29, 30], [10]),
        ([10, 20], []),
        ([30, 500], [10, 20]),
    ],
)
def test_a_row_is_needed_where_a_kept_position_lies_in_it(positions, expected):
    assert gone(rows(USER, USER, USER), positions) == expected


@pytest.mark.parametrize(
    ("fine", "expected"), [(0, []), (19, []), (20, [10]), (29, [10]), (30, [10, 20]), (99, [10, 20])]
)
def test_what_held_within_the_fine_window_stays(fine, expected):
    assert gone(rows(USER, USER, USER), [30], fine=fine) == expected


SESSION = {"s": 5}


@pytest.mark.parametrize(
    ("made_by", "sessions", "expected"),
    [
        ([TURN, TURN, TURN], SESSION, [10, 20]),
        ([TURN, NEXT, TURN], SESSION, []),
        ([TURN, USER, TURN], SESSION, []),
        ([USER, USER, TURN], SESSION, [10]),
        ([TURN, USER, USER], SESSION, [20]),
        ([TURN, NEXT, TURN], {}, [10, 20]),
        ([TURN, NEXT, TURN], {"s": 30}, [10, 20]),
        ([OTHER, TURN, OTHER], {"x": 5}, [10, 20]),
        ([OTHER, USER, OTHER], {"t": 15}, [10]),
    ],
)
def test_where_a_session_can_be_rewound_only_changes_by_one_hand_are_one(made_by, sessions, expected):
    assert gone(rows(*made_by), [30, 40], sessions=sessions) == expected


def test_of_a_database_nothing_goes_that_a_session_compares():
    assert gone(rows(USER, USER, USER), [30], sessions=SESSION, is_database=True) == []
    assert gone(rows(USER, USER, USER), [30], is_database=True) == [10, 20]


@pytest.mark.parametrize(
    ("made_by", "positions", "expected"),
    [
        ([USER, REWIND, USER], [5, 30], []),
        ([USER, USER, REWIND, USER, USER], [5, 50], [40]),
        ([USER, USER, REWIND, USER], [25, 40], [10, 30]),
    ],
)
def test_what_an_operation_may_have_brought_back_stays_where_a_plan_asks(made_by, positions, expected):
    assert gone(rows(*made_by), positions) == expected


def test_it_stays_where_a_session_may_ask():
    path = rows(USER, TURN, REWIND, USER)
    assert gone(path, [15, 40], sessions={"s": 15}) == []
    assert gone(path, [15, 40]) == [20, 30]


@pytest.mark.parametrize(
    ("made_by", "positions", "expected"),
    [
        ([USER, TURN, TURN], [5, 30], [20]),
        ([USER, TURN, TURN], [30], [10, 20]),
        ([USER, USER, TURN], [5, 30], [10]),
        ([USER, TURN, USER], [5, 30], [10, 20]),
    ],
)
def test_a_newer_path_that_somebody_else_wrote_is_known_as_one(made_by, positions, expected):
    assert gone(rows(*made_by), positions) == expected


def test_a_path_that_was_gone_at_a_kept_position_is_newer_too():
    assert gone(rows(TURN, TURN, USER, TURN, TURN, absent={20}), [25, 50]) == [10, 40]


sealed = st.lists(
    st.tuples(st.integers(1, 50), st.integers(NOW - 3 * FINE_WINDOW_MS, NOW + 3 * FINE_WINDOW_MS)), max_size=8
)


class TestFineWindow:
    """Numbers never fall, times may."""

    @pytest.mark.parametrize(
        ("times", "expected"),
        [
            ([], 0),
            ([OLD, OLD], 2),
            ([OLD, NOW], 1),
            ([NOW, OLD], 0),
            ([OLD, OLD + 2, OLD], 1),
            ([OLD, NOW + 10 * FINE_WINDOW_MS, OLD], 3),
            ([NOW + 10 * FINE_WINDOW_MS], 0),
        ],
    )
    def test_where_it_begins(self, times, expected):
        assert fine_seq(list(enumerate(times, 1)), NOW) == expected

    @given(sealed)
    def test_nothing_that_was_sealed_within_it_is_older(self, found):
        found = [(seq, time) for seq, (_, time) in enumerate(sorted(found), 1)]
        young = [seq for seq, time in found if NOW - FINE_WINDOW_MS < time <= NOW]
        assert fine_seq(found, NOW) < min(young, default=100)


def pack(number, size, live, versions=0):
    return PackUse(number=number, size_bytes=size, live_bytes=live, versions_bytes=versions)


BIG = 10 * SMALL_PACK_BYTES


@pytest.mark.parametrize(
    ("live", "versions", "worth"),
    [
        (BIG, 0, False),
        (BIG * 2 // 3 + 9, 0, False),
        (BIG * 2 // 3 - 9, 0, True),
        (0, 0, True),
        (BIG, BIG // 2, True),
        (BIG, BIG // 3, False),
    ],
)
def test_a_pack_is_written_anew_where_it_gives_back_more_than_a_third(live, versions, worth):
    assert bool(worth_repacking([pack(1, BIG, live, versions)])) == worth


def test_many_small_packs_are_merged():
    few = [pack(number, 100, 100) for number in range(15)]
    assert worth_repacking(few) == []
    assert worth_repacking([*few, pack(99, 100, 100), pack(100, BIG, BIG)]) == [*few, pack(99, 100, 100)]


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [
        ([1_000] * 9, [[0, 1, 3], [2]]),  # no more than 10 at once
        ([7, 5, 8], [[0, 3], [1]]),  # and no more than there is room for, which what went before has made
        ([0, 0], []),
        ([-100], []),
    ],
)
def test_portions_write_no_more_at_once_than_there_is_room_for(rooms, expected):
    packs = [pack(number, 20, live) for number, live in enumerate([4, 4, 9, 1])]
    left = iter(rooms)
    found = portions(packs, 10, Room(lambda: ROOM_BYTES + next(left) * 5 // 4))
    assert [[use.number for use in portion] for portion in found] == expected


def test_what_is_dead_needs_no_room():
    assert [*portions([pack(1, 20, 0)], 10, Room(lambda: 0))] == [[pack(1, 20, 0)]]


@pytest.mark.parametrize(
    ("live", "free", "kept", "expected", "takes"),
    [
        (8, 20, 100, [1], 0),  # there is room without it
        (8, 0, 10, [1], 1),
        (8, 0, 9, [], 0),  # it would not do, and stays
        (8, 5, 5, [1], 1),
        (8, 0, 0, [], 0),
    ],
)
def test_what_is_kept_is_taken_where_it_helps_and_nothing_else_does(live, free, kept, expected, takes):
    room = {"free": ROOM_BYTES + free, "kept": kept, "taken": 0}

    def take():
        room["free"], room["kept"], room["taken"] = room["free"] + room["kept"], 0, room["taken"] + 1
        return True

    found = portions([pack(1, 20, live)], 100, Room(lambda: room["free"], lambda: room["kept"], take))
    assert [use.number for portion in found for use in portion] == expected
    assert room["taken"] == takes


@pytest.mark.parametrize("live", [0, 1, 8, 12_345])
def test_the_room_that_is_told_is_the_room_that_does(live):
    needed = room_for(live)
    assert [*portions([pack(1, 20, live)], 1 << 30, Room(lambda: needed))]
    assert live == 0 or not [*portions([pack(1, 20, live)], 1 << 30, Room(lambda: needed - 1))]
