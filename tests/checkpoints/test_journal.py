"""Operations and their steps as rows, and the stack that undo and redo walk."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints import journal
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.journal import Operation, OperationKind, Outcome, OutcomeKind, Phase, undo_stack
from openoxide.checkpoints.model import ABSENT, BlobHash, FileState, Kind
from openoxide.checkpoints.schema import open_timeline
from openoxide.checkpoints.steps import Action, Step
from tests.checkpoints.states import file, folder, link


def operation(number: int, kind: str = "rewind", phase: Phase = Phase.DONE, worktree: int = 1) -> Operation:
    return Operation(
        id=number,
        public_id=f"op{number}",
        worktree=worktree,
        kind=OperationKind(kind),
        phase=phase,
        at_ms=1000 + number,
        boot_id="boot-1",
        boot_ms=5,
        scope="all",
        exact=False,
        before=1,
    )


@pytest.mark.parametrize(
    ("kinds", "undoable", "redoable"),
    [
        ("", [], []),
        ("r", [0], []),
        ("r r", [0, 1], []),
        ("r u", [], [1]),
        ("r u d", [2], []),
        ("r r u", [0], [2]),
        ("r r u u", [], [2, 3]),
        ("r r u u d", [4], [2]),
        ("r r u u d d", [4, 5], []),
        ("r u r", [2], []),
        ("r r u r", [0, 3], []),
        ("r u d u d u", [], [5]),
        ("r u d u d u d r u", [6], [8]),
        ("u", [], []),
        ("d", [], []),
        ("r u u", [], [1]),
    ],
)
def test_what_undo_and_redo_would_reverse(kinds, undoable, redoable):
    names = {"r": "rewind", "u": "undo", "d": "redo"}
    done = [operation(number, names[kind]) for number, kind in enumerate(kinds.split())]
    assert [[o.id for o in stack] for stack in undo_stack(done)] == [undoable, redoable]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.DONE])
def test_only_finished_operations_count(phase):
    done = [operation(0), operation(1, phase=phase), operation(2, "undo", phase)]
    assert [[o.id for o in stack] for stack in undo_stack(done)] == [[0], []]


@given(st.lists(st.sampled_from(["rewind", "undo", "redo"]), max_size=60))
def test_a_long_walk_never_reverses_what_is_reversed(wishes):
    """As a user does: a wish is carried out only if there is something to reverse."""
    done: list[Operation] = []
    value, past, future = 0, [], []
    values, numbers = {}, count()
    for wish in wishes:
        undoable, redoable = undo_stack(done)
        assert (len(undoable), len(redoable)) == (len(past), len(future))
        if wish == "rewind":
            past, future, new = [*past, value], [], next(numbers) + 1
        elif wish == "undo" and past:
            assert values[undoable[-1].id] == (past[-1], value)
            past, future, new = past[:-1], [*future, value], past[-1]
        elif wish == "redo" and future:
            assert values[redoable[-1].id] == (future[-1], value)
            past, future, new = [*past, value], future[:-1], future[-1]
        else:
            continue
        values[len(done)] = (value, new)
        done.append(operation(len(done), wish))
        value = new


@pytest.fixture
def database(tmp_path):
    database = open_timeline(tmp_path / "timeline.db")
    yield database
    database.close()


def test_an_operation_is_read_back_as_it_was_recorded(database):
    first = replace(operation(0), exact=True, reverses=3, target=4, before=5, summary="2 to restore")
    with database.writing() as db:
        begun = journal.begin(db, first)
        other = journal.begin(db, replace(operation(7), worktree=2))
    assert begun == replace(first, id=begun.id, phase=Phase.PREPARED)
    with database.reading() as db:
        assert journal.operations(db, 1) == [begun]
        assert journal.operations(db, 2) == [other]


@pytest.mark.parametrize("phase", Phase)
def test_an_operation_is_open_until_it_ended(database, phase):
    with database.writing() as db:
        begun = journal.begin(db, operation(0))
        journal.set_phase(db, begun.id, phase)
        found = journal.open_operations(db, 1)
    assert bool(found) == (phase in {Phase.PREPARED, Phase.SWAPPING, Phase.INTERRUPTED})


def test_what_became_of_an_operation_is_recorded_at_its_end(database):
    outcomes = [
        Outcome(kind=OutcomeKind.RESTORED, path=b"a"),
        Outcome(kind=OutcomeKind.CONFLICT, path=b"\xff\n", reason="changing"),
    ]
    with database.writing() as db:
        begun = journal.begin(db, operation(0))
        journal.finish(db, begun.id, Phase.DONE, 9, "1 restored", outcomes)
        (ended,) = journal.operations(db, 1)
        assert journal.outcomes(db, begun.id) == outcomes
        assert journal.outcomes(db, begun.id + 1) == []
    assert (ended.phase, ended.after, ended.summary) == (Phase.DONE, 9, "1 restored")


def test_bytes_that_were_found_late_are_named_by_their_outcome(database):
    name = blob_hash(b"late")
    late = Outcome(kind=OutcomeKind.LATE, path=b"f", reason="written while it was displaced", blob=name)
    with database.writing() as db:
        db.execute_sql("insert into blob(hash, frame, inner, size) values(?, 1, 0, 4)", (name,))
        begun = journal.begin(db, operation(0))
        journal.add_outcomes(db, begun.id, [late])
        assert journal.outcomes(db, begun.id) == [late]


kinds = st.sampled_from(Kind)
hashes = st.binary(min_size=32, max_size=32).map(BlobHash)
states = st.builds(
    FileState,
    kind=kinds,
    mode=st.integers(0, 0o7777),
    size=st.integers(0, 2**63 - 1),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    blob=st.none() | hashes,
    target=st.none() | st.binary(max_size=20),
    torn=st.booleans(),
    sqlite=st.booleans(),
)
steps = st.builds(
    Step,
    number=st.just(0),
    action=st.sampled_from(Action),
    path=st.binary(min_size=1, max_size=20),
    old=states,
    new=states,
    new_ino=st.none() | st.integers(1, 2**63 - 1),
)


@given(st.lists(steps, max_size=5))
def test_steps_are_read_back_as_they_were_committed(memory_database, found):
    found = [step._replace(number=number) for number, step in enumerate(found)]
    with memory_database.writing() as db:
        begun = journal.begin(db, replace(operation(0), public_id=f"op{len(journal.operations(db, 1))}"))
        journal.commit_steps(db, begun.id, reversed(found))
        assert journal.steps(db, begun.id) == tuple(found)
        assert journal.operations(db, 1)[-1].phase is Phase.SWAPPING


@pytest.fixture(scope="module")
def memory_database(tmp_path_factory):
    database = open_timeline(tmp_path_factory.mktemp("journal") / "timeline.db")
    yield database
    database.close()


def test_an_inode_number_of_64_bits_can_be_recorded(database):
    """They are unsigned, SQLite's integers are not."""
    step = Step(number=0, action=Action.PLACE, path=b"f", old=ABSENT, new=file(), new_ino=2**64 - 1)
    with database.writing() as db:
        begun = journal.begin(db, operation(0))
        journal.commit_steps(db, begun.id, [step])
        assert journal.steps(db, begun.id) == (step,)


def test_an_ended_operation_waits_for_its_sweep_as_long_as_it_has_steps(database):
    step = Step(number=0, action=Action.MODE, path=b"d", old=folder(), new=folder(0o700))
    with database.writing() as db:
        begun = journal.begin(db, operation(0))
        journal.commit_steps(db, begun.id, [step])
        assert journal.unswept(db, 1) == []
        journal.finish(db, begun.id, Phase.DONE, 1, "", [])
        assert [o.id for o in journal.unswept(db, 1)] == [begun.id]
        assert journal.unswept(db, 2) == []
        journal.drop_steps(db, begun.id)
        assert journal.unswept(db, 1) == []
        assert journal.steps(db, begun.id) == ()


def test_states_of_every_kind_survive(database):
    found = [
        Step(number=number, action=Action.PLACE, path=b"p", old=ABSENT, new=new)
        for number, new in enumerate(
            [file(b"x", 0o4755, 7, torn=True, sqlite=True), folder(0o1777), link(b"\xff"), ABSENT]
        )
    ]
    with database.writing() as db:
        begun = journal.begin(db, operation(0))
        journal.commit_steps(db, begun.id, found)
        assert journal.steps(db, begun.id) == tuple(found)
