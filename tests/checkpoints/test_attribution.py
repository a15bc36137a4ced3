"""Who made a change, from the windows that were open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.attribution import (
    candidates,
    claimed,
    is_told,
    made_of,
    owners,
    sure_writer,
    touches,
    within,
    writer_between,
)
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import ABSENT, Certainty, Observed, Window, WindowKind, Writer
from tests.checkpoints.states import LIKELY, MINE, OPERATION, OTHER, SHARED, SOMEONE, SURE, UNKNOWN, file, versions


def turn(number: int, session: str, *, declares_tools: bool = False) -> Window:
    return Window(
        id=number,
        kind=WindowKind.TURN,
        agent="agent",
        session=session,
        prompt="p",
        began_seq=0,
        declares_tools=declares_tools,
    )


def tool(number: int, session: str, parent: int) -> Window:
    return Window(
        id=number,
        kind=WindowKind.TOOL,
        agent="agent",
        session=session,
        prompt="p",
        began_seq=0,
        parent=parent,
        tool="t",
    )


SILENT_1, SILENT_2 = turn(1, "s1"), turn(2, "s2")
TURN_1, TURN_2 = turn(1, "s1", declares_tools=True), turn(2, "s2", declares_tools=True)
TOOL_1, TOOL_2, TOOL_1B = tool(11, "s1", 1), tool(12, "s2", 2), tool(13, "s1", 1)


@pytest.mark.parametrize(
    ("windows", "certainty", "ids"),
    [
        pytest.param([], Certainty.UNKNOWN, set(), id="nobody"),
        pytest.param([SILENT_1], Certainty.LIKELY, {1}, id="one turn"),
        pytest.param([SILENT_1, SILENT_2], Certainty.SHARED, {1, 2}, id="two turns"),
        pytest.param([TURN_1], Certainty.LIKELY, {1}, id="between the calls of a turn"),
        pytest.param([TURN_1, TOOL_1], Certainty.LIKELY, {11}, id="a call"),
        pytest.param([TURN_1, TURN_2, TOOL_1], Certainty.LIKELY, {11}, id="a call of one, none of the other"),
        pytest.param([TURN_1, TURN_2, TOOL_1, TOOL_2], Certainty.SHARED, {11, 12}, id="calls of two"),
        pytest.param([TURN_1, TOOL_1, TOOL_1B], Certainty.LIKELY, {11, 13}, id="two calls of one session"),
        pytest.param([TURN_1, TOOL_1, SILENT_2], Certainty.SHARED, {11, 2}, id="a call beside a silent turn"),
        pytest.param([TURN_1, TURN_2], Certainty.SHARED, {1, 2}, id="two turns between their calls"),
    ],
)
def test_the_writer_follows_from_the_open_windows(windows, certainty, ids):
    assert candidates(windows) == ids
    assert writer_between(windows) == Writer(certainty=certainty, windows=frozenset(ids))


CONTENT = blob_hash(b"content")


@pytest.mark.parametrize(
    ("path", "content", "writer"),
    [
        (b"a", b"content", Writer(certainty=Certainty.SURE, windows=frozenset({7}))),
        (b"a", b"other", None),
        (b"b", b"content", None),
    ],
)
def test_a_tool_is_the_sure_writer_of_the_path_and_bytes_it_named(path, content, writer):
    assert sure_writer(Observed(path=path, state=file(content)), 7, {b"a": CONTENT}) == writer


def test_a_tool_that_named_a_file_is_not_the_writer_of_its_removal():
    assert sure_writer(Observed(path=b"a", state=ABSENT), 7, {b"a": CONTENT}) is None


@pytest.mark.parametrize(
    ("state", "writer", "is_claimed"),
    [
        (file(b"content"), LIKELY, True),
        (file(b"content"), SHARED, True),
        (file(b"content"), SOMEONE, True),
        (file(b"content"), UNKNOWN, True),
        (file(b"content", 0o755), UNKNOWN, True),
        (file(b"content"), SURE, False),
        (file(b"content"), OPERATION, False),
        (file(b"other"), LIKELY, False),
        (ABSENT, LIKELY, False),
    ],
)
def test_a_tool_claims_what_was_recorded_of_the_path_and_bytes_it_names(state, writer, is_claimed):
    recorded = versions((file(b"before"), LIKELY), (state, writer), path=b"a")
    assert claimed(recorded, {b"a": CONTENT}) == [*recorded[1:]] * is_claimed
    assert claimed(recorded, {b"b": CONTENT}) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (b"a", True),
        (b"a/b", False),
        (b"all", True),
        (b"all/b", True),
        (b"all/b/c", True),
        (b"all/", True),
        (b"allb", False),
        (b"b", False),
    ],
)
def test_a_path_is_told_of_by_its_name_or_with_all_below_a_directory_but_not_with_the_whole_tree(path, told):
    assert is_told(path, {b"a": False, b"all": True, b"": True}) is told


A, B, C, D = file(b"a"), file(b"b"), file(b"c"), file(b"d")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([(B, SURE), (C, UNKNOWN)], [SURE, UNKNOWN]),
        pytest.param([(B, SURE), (A, OPERATION)], [SURE, None], id="back to the base: nobody's"),
        pytest.param(
            [(B, SURE), (C, SOMEONE), (B, OPERATION)], [SURE, SOMEONE, SURE], id="an earlier state: its writer's"
        ),
        pytest.param(
            [(B, SURE), (A, OPERATION), (B, OPERATION), (A, OPERATION)],
            [SURE, None, SURE, None],
            id="undone and redone",
        ),
        pytest.param(
            [(B, SURE), (C, UNKNOWN), (B, LIKELY), (C, OPERATION)], [SURE, UNKNOWN, LIKELY, UNKNOWN], id="newest"
        ),
        pytest.param(
            [(B, SURE), (B, SOMEONE), (B, OPERATION)], [SURE, SOMEONE, SOMEONE], id="the newest equal state's"
        ),
        pytest.param([(C, OPERATION)], [OPERATION], id="a state from before the base: the operation's own"),
        pytest.param([(ABSENT, SURE), (A, OPERATION)], [SURE, None], id="a removal taken back"),
    ],
)
def test_what_an_operation_brought_back_is_its_earlier_writers(rows, expected):
    assert owners(A, versions(*rows)) == expected


@pytest.mark.parametrize(
    ("touched", "rows", "owner"),
    [
        pytest.param(True, [(B, SURE), (A._replace(mtime_ns=9), OPERATION)], None, id="the base with another time"),
        pytest.param(True, [(B, SURE), (A, UNKNOWN), (B._replace(mtime_ns=9), OPERATION)], SURE, id="a writer's"),
        pytest.param(True, [(B, SURE), (B._replace(mode=0o600), OPERATION)], OPERATION, id="more than the time"),
        pytest.param(False, [(B, SURE), (A._replace(mtime_ns=9), OPERATION)], OPERATION, id="times came back with it"),
    ],
)
def test_what_came_back_with_the_time_of_then_is_its_earlier_writers(touched, rows, owner):
    found = owners(A, versions(*((state, replace(by, touched=touched)) for state, by in rows)))
    assert found[-1] == (owner and replace(owner, touched=touched))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(B, SURE), (C, UNKNOWN)], [(A, B, SURE), (B, C, UNKNOWN)], id="one after the other"),
        pytest.param([(B, SURE), (A, OPERATION)], [], id="taken back"),
        pytest.param([(B, SURE), (A, OPERATION), (C, UNKNOWN)], [(A, C, UNKNOWN)], id="taken back, then another"),
        pytest.param(
            [(B, SURE), (C, UNKNOWN), (B, OPERATION), (D, UNKNOWN)],
            [(A, B, SURE), (B, D, UNKNOWN)],
            id="the last of them taken back",
        ),
        pytest.param([(B, SURE), (A, OPERATION), (B, OPERATION)], [(A, B, SURE)], id="and done again"),
        pytest.param([(B, SURE), (C, OPERATION)], [(A, B, SURE), (B, C, OPERATION)], id="a merge"),
    ],
)
def test_what_a_state_is_made_of(rows, expected):
    found = [(before, version.state, version.writer) for before, version in made_of(A, versions(*rows))]
    assert found == expected


@given(st.lists(st.tuples(st.sampled_from([A, B, C, ABSENT]), st.sampled_from([SURE, SOMEONE, UNKNOWN, OPERATION]))))
def test_an_operation_makes_nobody_the_owner_of_what_they_did_not_write(rows):
    found = owners(A, versions(*rows))
    assert len(found) == len(rows)
    for at, ((state, writer), owner) in enumerate(zip(rows, found, strict=True)):
        if writer is not OPERATION:
            assert owner == writer
        elif owner is None:
            assert state == A
        else:
            assert owner == OPERATION or any(row == (state, owner) for row in rows[:at])


@pytest.mark.parametrize(
    ("writer", "inside", "touching"),
    [
        (SURE, True, True),
        (LIKELY, True, True),
        (SHARED, False, True),
        (SOMEONE, False, False),
        (UNKNOWN, False, False),
        (OPERATION, False, False),
        (Writer(certainty=Certainty.LIKELY, windows=frozenset({MINE, OTHER})), False, True),
    ],
)
def test_a_writer_is_within_windows_if_nobody_else_can_have_been_it(writer, inside, touching):
    assert within(writer, {MINE}) is inside
    assert touches(writer, {MINE}) is touching


def test_a_writer_of_two_windows_of_a_session_is_within_the_session():
    assert within(Writer(certainty=Certainty.LIKELY, windows=frozenset({MINE, OTHER})), {MINE, OTHER, 3})
    assert not within(SHARED, {MINE, OTHER})
