"""The whole service against a model of snapshots: edits by two writers, checkpoints, rewinds, undo, redo, and SIGKILL.

``OXIDE_SOAK=N`` runs N long random histories instead of the few of every test run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from openoxide.errors import ConflictError, NotFoundError
from tests.checkpoints.edits import STAGING, Edit, Editor, edits, plant
from tests.checkpoints.forked_box import ForkedBox, ForkServer, KilledError
from tests.checkpoints.rewind_model import (
    OPERATION,
    USER,
    Done,
    History,
    Prediction,
    Tree,
    has_parents,
    promised,
)
from tests.kit import diff_trees, effort, tree_of

SOAK = int(os.environ.get("OXIDE_SOAK", "0"))
STALE_MS = 600_000  # an operation interrupted longer ago is not finished by itself
SESSION = "session-1"
SPECIAL_BITS = 0o7000

number = st.integers(0, 1000)
scopes = st.sampled_from(["exact", "all", "session", "session", "turn"])
chosen_paths = st.one_of(st.just([]), st.lists(number, min_size=1, max_size=2))
moments = st.one_of(st.integers(1, 1500), st.integers(-600, -1))


class Rewinding(RuleBasedStateMachine):
    server: ClassVar[ForkServer]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.root = os.fsencode(self.folder / "project")
        os.mkdir(self.root)
        self.box: ForkedBox | None = None
        self.boot_ms = 1_000_000
        self.mtime_ns = 1_700_000_000_000_000_000
        self.turns = 0
        self.turn = ""
        self.undoable: list[Done] = []
        self.redoable: list[Done] = []

    @initialize(within_a_turn=st.booleans())
    def watch(self, within_a_turn: bool) -> None:
        plant(self.root)
        self.box = ForkedBox(self.server, self.folder)
        self.history = History(self.look())
        self.history.seal(1)
        if within_a_turn:
            self.begin_turn([])

    def teardown(self) -> None:
        if self.box is not None:
            self.box.stop()
        shutil.rmtree(self.folder)

    # rules

    @rule(some=edits())
    def checkpoint(self, some: list[Edit]) -> None:
        self._edit(some)
        sealed = self.call("checkpoint")
        assert (sealed["complete"], sealed["skipped"]) == (True, 0)
        before, now = self.history.newest, self.look()
        unmet = sealed["number"] - max(self.history.sealed) - 1
        if unmet:  # a full pass in the background has sealed in the middle of the edits
            assert {item["trigger"] for item in self.box.call("log", limit=unmet + 1)["items"][1:]} == {"quiet"}
        else:
            assert sealed["changed"] == {
                "added": len(now.keys() - before.keys()),
                "removed": len(before.keys() - now.keys()),
                "modified": sum(before[path] != now[path] for path in now.keys() & before.keys()),
            }
        self.history.seal(sealed["number"], self.turn)

    @rule(some=edits())
    def begin_turn(self, some: list[Edit]) -> None:
        self._edit(some)
        self.turns += 1
        begun = self.call("turn_begin", agent="agent", session=SESSION, prompt=f"prompt-{self.turns}")
        self.turn = f"turn-{self.turns}"
        self.history.seal(begun["checkpoint"]["number"], self.turn)

    @precondition(lambda self: self.turn)
    @rule(some=edits())
    def end_turn(self, some: list[Edit]) -> None:
        self._edit(some)
        ended = self.call("turn_end", session=SESSION)
        self.history.seal(ended["checkpoint"]["number"], self.turn)
        self.turn = ""

    @rule()
    def full_pass(self) -> None:
        """The one that comes round by the clock: what follows goes on beside it."""
        self.box.begin_full_pass()

    @rule(which=number)
    def past_states_are_as_they_were(self, which: int) -> None:
        targets = sorted(self.history.sealed)
        target = targets[which % len(targets)]
        with tempfile.TemporaryDirectory() as copy:
            self.box.call("restore", checkpoint=str(target), to=copy)
            was = _without_special_bits(self.history.sealed[target].tree)
            assert not diff_trees(was, _without_special_bits(tree_of(copy)))

    @rule(some=edits(), which=number, scope=scopes, paths=chosen_paths, try_first=st.booleans())
    def rewind(self, some: list[Edit], which: int, scope: str, paths: list[int], try_first: bool) -> None:
        self._edit(some)
        self.observe()
        request, predicted = self._rewind(which, scope, paths)
        try:
            self._carry_out("rewind", request, predicted, try_first=try_first)
        except ConflictError as refusal:
            self._refused(predicted, refusal)

    @precondition(lambda self: self.undoable)
    @rule(some=edits(), try_first=st.booleans())
    def undo(self, some: list[Edit], try_first: bool) -> None:
        self._edit(some)
        self._reverse("undo", self.undoable[-1], try_first=try_first)

    @precondition(lambda self: self.redoable)
    @rule(some=edits(), try_first=st.booleans())
    def redo(self, some: list[Edit], try_first: bool) -> None:
        self._edit(some)
        self._reverse("redo", self.redoable[-1], try_first=try_first)

    @rule()
    def nothing_is_left_to_reverse(self) -> None:
        for kind, stack in (("undo", self.undoable), ("redo", self.redoable)):
            if not stack:
                with pytest.raises(NotFoundError):
                    self.box.call(kind)

    @rule(some=edits(), clean=st.booleans(), meanwhile=edits())
    def restart(self, some: list[Edit], clean: bool, meanwhile: list[Edit]) -> None:
        self._edit(some)
        if clean:
            self.box.stop()
        else:
            self.box.kill()
        self._edit(meanwhile)
        self._start(wait_ms=1)
        self.observe(USER)  # nobody saw who it was
        self._seal_newest()

    @rule(
        some=edits(),
        what=st.sampled_from(["exact", "all", "session", "undo", "redo"]),
        which=number,
        die_at=moments,
        stale=st.booleans(),
        tries=st.lists(st.tuples(st.sampled_from(["continue", "abort"]), moments), max_size=2),
        settle=st.sampled_from(["continue", "abort"]),
    )
    def die(
        self,
        some: list[Edit],
        what: str,
        which: int,
        die_at: int,
        stale: bool,
        tries: list[tuple[str, int]],
        settle: str,
    ) -> None:
        self.checkpoint(some)  # nothing is left to record: only the operation's own changes lie ahead
        planned = self._operation(what, which)
        if planned is None:
            return
        name, request, predicted = planned
        expected = self._try(name, request, predicted)
        known = {item["operation"] for item in self._operations()}
        try:
            answer = self.box.call(name, die_at=die_at, **request)
        except KilledError:
            self._start(wait_ms=STALE_MS if stale else 1)
        else:
            assert not diff_trees(expected, self._carried_out(name, predicted, answer))
            return
        begun = [item for item in self._operations() if item["operation"] not in known]
        self._settled(name, expected, begun[0] if begun else None, tries, settle)

    # how it is done

    def look(self) -> Tree:
        return tree_of(self.root, skip={STAGING})

    def observe(self, by: str = "") -> Tree:
        """The model's part of a recording."""
        now = self.look()
        self.history.record(now, by or self.turn or USER)
        return now

    def call(self, name: str, **request: Any) -> Any:
        """An operation that records what has changed before it does anything else."""
        self.observe()
        return self.box.call(name, **request)

    def _edit(self, some: list[Edit]) -> None:
        for edit in some:
            self.mtime_ns += 1_000_000_001
            Editor(self.root, edit, self.mtime_ns).apply()

    def _start(self, wait_ms: int) -> None:
        self.turn = ""  # nobody saw its end
        self.boot_ms += wait_ms
        self.box.start(self.boot_ms)

    def _seal_newest(self) -> None:
        """The newest checkpoint, if the model has not met it yet, holds the tree as it is."""
        self.history.seal(self.box.call("log", limit=1)["items"][0]["number"])

    def _operations(self) -> list[Any]:
        return self.box.call("operations")["items"]

    def _operation(self, what: str, which: int) -> tuple[str, dict[str, Any], Prediction] | None:
        """``what`` as a request; None where there is nothing to reverse."""
        if what in ("undo", "redo"):
            stack = self.undoable if what == "undo" else self.redoable
            return (what, {}, self.history.reversed(stack[-1])) if stack else None
        return ("rewind", *self._rewind(which, what, []))

    def _rewind(self, which: int, scope: str, paths: list[int]) -> tuple[dict[str, Any], Prediction]:
        """A rewind as a request, with what must come of it."""
        targets = sorted(self.history.sealed)
        if scope in ("session", "turn"):
            declared = [n for n, sealed in self.history.sealed.items() if sealed.turn and self.history.is_clear(sealed)]
            targets, scope = (sorted(declared), scope) if declared else (targets, "all")
        target = targets[which % len(targets)]
        then = self.history.sealed[target]
        named = sorted(then.tree.keys() | self.history.tree.keys())
        chosen = [named[pick % len(named)] for pick in paths] if named else []
        request: dict[str, Any] = {"checkpoint": str(target), "paths": [os.fsdecode(path) for path in chosen]}
        if scope == "exact":
            return {**request, "exact": True}, self.history.everything(then, chosen, exact=True)
        request["scope"] = scope
        if scope == "all":
            return request, self.history.everything(then, chosen, exact=False)
        turns = {then.turn} if scope == "turn" else {f"turn-{n + 1}" for n in range(self.turns)}
        return request, self.history.written_by(then, turns, chosen)

    def _reverse(self, kind: str, done: Done, *, try_first: bool) -> None:
        now = self.observe()
        before = self._carry_out(kind, {}, self.history.reversed(done), try_first=try_first)
        if now == done.after:
            assert not diff_trees(done.before, before)

    def _carry_out(self, name: str, request: dict[str, Any], predicted: Prediction, *, try_first: bool) -> Tree:
        expected = self._try(name, request, predicted) if try_first else None
        after = self._carried_out(name, predicted, self.box.call(name, **request))
        assert expected is None or not diff_trees(expected, after)
        return after

    def _try(self, name: str, request: dict[str, Any], predicted: Prediction) -> Tree:
        """A dry run changes nothing and promises the tree that it answers."""
        before = self.look()
        answer = self.box.call(name, dry_run=True, **request)
        assert not diff_trees(before, self.look())
        assert (answer["dry_run"], answer["operation"], answer["pre_rewind_checkpoint"]) == (True, None, None)
        return promised(before, predicted, answer)

    def _carried_out(self, name: str, predicted: Prediction, answer: Any) -> Tree:
        """The tree is as predicted and as the answer says; the model takes it in."""
        expected = promised(self.history.tree, predicted, answer)
        now = self.look()
        assert not diff_trees(expected, now)
        self.history.seal(answer["pre_rewind_checkpoint"]["number"])
        if answer["operation"] is None:
            assert not diff_trees(self.history.tree, now)
        else:
            self._push(name, now)
        return now

    def _push(self, name: str, after: Tree) -> None:
        """The operation ``name`` has made ``after`` of the tree as it was recorded last."""
        done = Done(self.history.tree, after)
        self.history.record(after, OPERATION)
        self._seal_newest()
        if name == "rewind":
            self.undoable.append(done)
            self.redoable.clear()
            return
        here, there = (self.undoable, self.redoable) if name == "undo" else (self.redoable, self.undoable)
        here.pop()
        there.append(done)

    def _refused(self, predicted: Prediction, refusal: ConflictError) -> None:
        """A rewind to the letter is refused only where a parent that it may not touch is no directory."""
        now = self.observe()
        assert {conflict["reason"] for conflict in refusal.details["conflicts"]} == {"parent_not_directory"}
        after = {**now, **{path: what for path, what in predicted.wanted.items() if what}}
        assert any(predicted.wanted[path] and not has_parents(path, after) for path in predicted.wanted)
        assert not diff_trees(self.history.tree, now)
        self._seal_newest()

    def _settled(self, name: str, expected: Tree, begun: Any, tries: list[tuple[str, int]], settle: str) -> None:
        """After a kill: the tree as it was, as it was to be, or a mixture that both ways of settling end, also if
        others were tried before and killed.
        """
        before = self.history.tree
        phase = "undone" if begun is None else begun["phase"]
        if begun is not None:
            self._nothing_is_lost(before, begun["pre_rewind_checkpoint"])
            numbers = {item["id"]: item["number"] for item in self.box.call("log")["items"]}
            self.history.seal(numbers[begun["pre_rewind_checkpoint"]])
        attempts = [*tries, (settle, 0)]
        while phase == "interrupted":
            action, die_at = attempts.pop(0)
            try:
                self.box.call("settle", action=action, die_at=die_at)
            except KilledError:
                self._start(wait_ms=STALE_MS)
                self._nothing_is_lost(before, begun["pre_rewind_checkpoint"])
            phase = self._operations()[0]["phase"]
        assert not diff_trees(expected if phase == "done" else before, self.look()), phase
        if phase == "done":
            self._push(name, expected)
        self._seal_newest()
        if phase != "undone":
            self.history.blur(
                path for path in before.keys() | expected.keys() if before.get(path) != expected.get(path)
            )

    def _nothing_is_lost(self, before: Tree, checkpoint: str) -> None:
        with tempfile.TemporaryDirectory() as copy:
            self.box.call("restore", checkpoint=checkpoint, to=copy)
            assert not diff_trees(_without_special_bits(before), _without_special_bits(tree_of(copy)))


def _without_special_bits(tree: Tree) -> Tree:
    """Files as ``restore`` makes them: setuid, setgid and sticky are not for copies."""
    return {
        path: ("file", int(str(what[1])) & ~SPECIAL_BITS, *what[2:]) if what[0] == "file" else what
        for path, what in tree.items()
    }


@pytest.fixture(scope="module")
def fork_server():
    server = ForkServer()
    yield server
    server.close()


@pytest.mark.hypothesis
@pytest.mark.timeout(0 if SOAK else 300)
def test_every_history_is_as_the_model_says(fork_server):
    Rewinding.server = fork_server
    run_state_machine_as_test(
        Rewinding,
        settings=settings(
            max_examples=SOAK or effort(25),
            stateful_step_count=50 if SOAK else 20,
            derandomize=not SOAK,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
