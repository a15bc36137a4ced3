"""The steps of a plan, carried out on a tree that is a dictionary: each must be possible, and together they must do
what the plan says and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.merging import Resolution, resolve
from openoxide.checkpoints.model import ABSENT, FileState, Kind, Version
from openoxide.checkpoints.plan import (
    Change,
    Decisions,
    PathHistory,
    RewindPlan,
    Surroundings,
    complete,
    decide_all,
    decide_reverse,
    decide_windows,
    surroundings_needed,
)
from openoxide.checkpoints.steps import NEW_FOLDER_MODE, Action, Step, steps_of
from tests.checkpoints.states import (
    LIKELY,
    MINE,
    OPERATION,
    SHARED,
    SOMEONE,
    UNKNOWN,
    States,
    at,
    file,
    folder,
    link,
    parents,
    trees,
)

writers = st.sampled_from([LIKELY, SOMEONE, SHARED, UNKNOWN, OPERATION])


def surroundings(decisions: Decisions, then: States, now: States) -> Surroundings:
    leaving, folders, _ = surroundings_needed(decisions)
    return Surroundings(
        below={path: [other for other in now if other.startswith(path + b"/")] for path in leaving},
        folders={path: (at(now, path), at(then, path)) for path in folders},
    )


def histories(moments: Sequence[States], by: Sequence[object]) -> list[PathHistory]:
    """What a timeline of ``moments`` knows of each path; ``by[n]`` wrote what the moment ``n + 1`` changed."""
    found = []
    for path in sorted({path for moment in moments for path in moment}):
        states = [at(moment, path) for moment in moments]
        rows = [
            Version(path=path, seq=seq, state=states[seq], writer=by[seq - 1])
            for seq in range(1, len(states))
            if states[seq] != states[seq - 1]
        ]
        found.append(PathHistory(path=path, then=states[0], now=states[-1], versions=tuple(rows)))
    return found


class Disk:
    """A tree that refuses what a file system would refuse."""

    def __init__(self, tree: States) -> None:
        self.tree = dict(tree)

    def carry_out(self, steps: Sequence[Step]) -> States:
        for step in steps:
            if step.action not in (Action.MODE, Action.CLOSE):
                self._may_change(step.path)
            getattr(self, step.action.value)(step)
        return self.tree

    def _may_change(self, path: bytes) -> None:
        for parent in parents(path)[-1:]:
            assert at(self.tree, parent).kind is Kind.DIRECTORY, (path, "its parent is no directory")
            assert at(self.tree, parent).mode & 0o300 == 0o300, (path, "its parent allows no changes")

    def remove(self, step: Step) -> None:
        assert self.tree.pop(step.path) == step.old
        assert step.old.kind is not Kind.DIRECTORY

    def rmdir(self, step: Step) -> None:
        assert not any(path.startswith(step.path + b"/") for path in self.tree), (step.path, "is not empty")
        assert self.tree.pop(step.path).kind is Kind.DIRECTORY

    def place(self, step: Step) -> None:
        assert at(self.tree, step.path) == step.old
        assert step.old.kind is not Kind.DIRECTORY, (step.path, "a directory is never exchanged")
        new = folder(NEW_FOLDER_MODE) if step.new.kind is Kind.DIRECTORY else step.new
        self.tree[step.path] = new

    def close(self, step: Step) -> None:
        if step.path in self.tree and self.tree[step.path].kind is Kind.DIRECTORY:
            self.mode(step)

    def mode(self, step: Step) -> None:
        assert self.tree[step.path] == step.old
        self.tree[step.path] = step.new


def listed(plan: RewindPlan) -> list[bytes]:
    left = [item.path for item in (*plan.kept, *plan.conflicts, *plan.skipped)]
    return [change.path for change in plan.changes] + left


def check(plan: RewindPlan, decisions: Decisions, then: States, now: States) -> None:
    """Each decided path is in one list, and the steps make of ``now`` what the plan promises."""
    assert len(listed(plan)) == len(set(listed(plan)))
    decided = {c.path for c in [*decisions.changes, *decisions.kept]} | {left.path for left in decisions.conflicts}
    decided |= {one.change.path for one in decisions.contested}
    added = set(listed(plan)) - decided
    assert decided <= set(listed(plan))
    assert added == {change.path for change in plan.restore if change.reason == "parent"}
    promised = dict(now)
    for change in plan.changes:
        assert change.now == at(now, change.path)
        promised.pop(change.path, None)
        if change.wanted.exists:
            promised[change.path] = change.wanted
    assert Disk(now).carry_out(steps_of(plan)) == promised
    for path in added:
        assert (at(now, path), promised[path]) == (ABSENT, at(then, path))


@given(trees(), trees(), writers, st.booleans())
def test_a_rewind_of_everything(then, now, writer, exact):
    decisions = decide_all(histories([then, now], [writer]), exact=exact)
    plan = complete(decisions, surroundings(decisions, then, now))
    check(plan, decisions, then, now)
    if exact and not plan.skipped:
        assert plan.kept == plan.conflicts == ()
        assert Disk(now).carry_out(steps_of(plan)) == then


@given(
    st.lists(trees(), min_size=2, max_size=5),
    st.lists(writers, min_size=4, max_size=4),
    st.sampled_from([Resolution.KEEP, Resolution.OVERWRITE]),
)
def test_a_rewind_of_a_session(moments, by, resolution):
    decisions = decide_windows(histories(moments, by), {MINE})
    resolve(decisions, resolution, lambda _: b"", 0)
    check(complete(decisions, surroundings(decisions, moments[0], moments[-1])), decisions, moments[0], moments[-1])


@given(trees(), trees(), trees())
def test_an_undo(before, after, now):
    touched = [h for h in histories([before, after, now], [OPERATION, UNKNOWN]) if at(after, h.path) != h.then]
    decisions = decide_reverse(touched, {h.path: at(after, h.path) for h in touched})
    check(complete(decisions, surroundings(decisions, before, now)), decisions, before, now)


@given(trees(), trees(), st.data())
def test_a_rewind_of_some_paths(then, now, data):
    whole = histories([then, now], [UNKNOWN])
    chosen = [h for h in whole if data.draw(st.booleans())]
    decisions = decide_all(chosen, exact=True)
    check(complete(decisions, surroundings(decisions, then, now)), decisions, then, now)


@given(trees(), trees(), st.data())
def test_steps_that_are_left_out_do_not_harm_the_others(then, now, data):
    """A plan of some changes only, as if the others had become conflicts: what can be done still ends as it should."""
    decisions = decide_all(histories([then, now], [UNKNOWN]), exact=True)
    decisions.changes = [change for change in decisions.changes if data.draw(st.booleans())]
    check(complete(decisions, surroundings(decisions, then, now)), decisions, then, now)


A, B = file(b"a"), file(b"b")


@pytest.mark.parametrize(
    ("now", "wanted", "actions"),
    [
        pytest.param(A, B, ["place"], id="one exchange"),
        pytest.param(A, link(), ["place"], id="one exchange between kinds"),
        pytest.param(A, ABSENT, ["remove"], id="moved aside"),
        pytest.param(ABSENT, A, ["place"], id="placed where nothing is"),
        pytest.param(folder(), ABSENT, ["rmdir"], id="an empty directory"),
        pytest.param(ABSENT, folder(), ["place", "mode"], id="a new directory is closed last"),
        pytest.param(folder(), folder(0o700), ["mode"], id="a mode"),
        pytest.param(A, folder(), ["remove", "place", "mode"], id="a file to a directory"),
        pytest.param(folder(), A, ["rmdir", "place"], id="a directory to a file"),
    ],
)
def test_the_steps_of_one_change(now, wanted, actions):
    steps = steps_of(RewindPlan(restore=(Change(path=b"p", now=now, wanted=wanted),)))
    assert [step.action.value for step in steps] == actions
    assert [step.number for step in steps] == list(range(len(steps)))
    assert len({step.staged_name for step in steps}) == len(steps)


def test_a_closed_directory_is_opened_first_and_closed_last():
    closed = folder(0o555)
    inner = Change(path=b"d/f", now=A, wanted=B)
    plan = RewindPlan(restore=(inner,), opened=(Change(path=b"d", now=closed, wanted=closed),))
    assert [(step.action.value, step.path, step.new.mode) for step in steps_of(plan)] == [
        ("mode", b"d", 0o755),
        ("place", b"d/f", B.mode),
        ("close", b"d", 0o555),
    ]


def test_deep_trees_go_from_below_and_come_from_above():
    states: dict[bytes, FileState] = {b"a": folder(), b"a/b": folder(), b"a/b/c": A, b"d": folder(), b"d/e": A}
    going = RewindPlan(remove=tuple(Change(path=path, now=state, wanted=ABSENT) for path, state in states.items()))
    coming = RewindPlan(restore=tuple(Change(path=path, now=ABSENT, wanted=state) for path, state in states.items()))
    assert [step.path for step in steps_of(going)] == [b"a/b/c", b"d/e", b"a/b", b"d", b"a"]
    placed = [step.path for step in steps_of(coming) if step.action is Action.PLACE]
    assert placed == [b"a", b"d", b"a/b", b"d/e", b"a/b/c"]
    assert Disk({}).carry_out(steps_of(coming)) == states
