"""Two sessions and the user edit the same files; then one session, or one turn of it, is taken back.

``OXIDE_SOAK=N`` runs N random histories instead of the few of every test run.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.checkpoints.contested_model import BOTH, USER, A, B, Edit, History, lines_by
from tests.kit import FakeClock, diff_trees, effort, tree_of
from tests.kit.box import Box

SOAK = int(os.environ.get("OXIDE_SOAK", "0"))
STAGING = b".openoxide-staging"
START = b"".join(b"start-%d\n" % at for at in range(24))
MODES = (0o644, 0o755, 0o600)
LISTS = ("restored", "removed", "merged", "conflicts", "kept", "skipped", "changed_since")

edit = st.tuples(
    st.sampled_from([A, A, A, B, USER, USER, BOTH]),
    st.sampled_from([b"x", b"x", b"x", b"y"]),
    st.sampled_from(["insert", "insert", "insert", "replace", "replace", "delete", "chmod", "unlink"]),
    st.integers(0, 24),
)


class Scene:
    """A project in which each edit of an agent is a turn of its own: ``a-3`` is the prompt of session a's third edit."""

    def __init__(self, folder: Path) -> None:
        (folder / "scratch").mkdir()
        self.clock = FakeClock()
        self.box = Box(folder, clock=self.clock)
        self._write(b"x", START, 0)
        self.box.watch()
        self.history = History(self.look(), folder / "scratch")

    def look(self) -> dict[bytes, Any]:
        return tree_of(self.box.root, skip={STAGING})

    def _write(self, name: bytes, content: bytes, number: int) -> None:
        path = self.box.root / os.fsdecode(name)
        path.write_bytes(content)
        os.utime(path, ns=(number, number))

    def edit(self, edit: Edit) -> None:
        sessions = {A: [A], B: [B], BOTH: [A, B], USER: []}[edit.by]
        for session in sessions:
            self.box.call("turn_begin", agent="agent", session=session, prompt=f"{session}-{edit.number}")
        self._apply(edit)
        for session in sessions:
            self.box.call("turn_end", session=session)
        self.history.add(edit, self.look())

    def _apply(self, edit: Edit) -> None:
        path = self.box.root / os.fsdecode(edit.name)
        if edit.verb == "chmod" and path.exists():
            path.chmod(MODES[edit.place % len(MODES)])
        elif edit.verb == "unlink":
            path.unlink(missing_ok=True)
        else:
            self._write(edit.name, edit.apply(path.read_bytes() if path.exists() else b""), edit.number + 1)

    def past(self, checkpoint: Any) -> dict[bytes, Any]:
        with tempfile.TemporaryDirectory() as copy:
            self.box.call("restore", checkpoint=str(checkpoint["number"]), to=copy)
            return tree_of(copy)


def same(one: dict[bytes, Any], other: dict[bytes, Any]) -> None:
    assert diff_trees(one, other) == []


@pytest.mark.timeout(0 if SOAK else 300)
@settings(
    max_examples=SOAK or effort(30),
    derandomize=not SOAK,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(edit, min_size=2, max_size=9),
    st.sampled_from(["keep", "merge", "merge", "merge", "overwrite"]),
    st.one_of(st.none(), st.integers(0, 20)),
)
@example([(A, b"x", "insert", 2), (USER, b"x", "insert", 9), (A, b"x", "insert", 16)], "merge", None)
@example(
    [(A, b"x", "replace", 2), (A, b"x", "delete", 9), (B, b"x", "insert", 16), (USER, b"x", "chmod", 1)], "merge", 0
)
def test_what_others_wrote_stays_in_the_tree_or_in_the_store(tmp_path_factory, some, conflict, only):
    scene = Scene(tmp_path_factory.mktemp("scene"))
    try:
        for number, (by, name, verb, place) in enumerate(some):
            scene.edit(Edit(number, by, name, verb, place))
        turns = [edit.number for edit in scene.history.edits if edit.by in (A, BOTH)]
        if turns:
            check(scene, conflict, turns if only is None else [turns[only % len(turns)]], alone=only is not None)
    finally:
        scene.box.stop()


def check(scene: Scene, conflict: str, turns: list[int], *, alone: bool) -> None:
    """Take ``turns`` of session a back: what must come of it comes of it, undo and redo are exact."""
    before = scene.look()
    expected = scene.history.rewound(
        turns[0], lambda edit: edit.number in turns, conflict, scene.clock.now_ms() * 1_000_000
    )
    prompt = f"a-{turns[0]}"
    request = {"turn": prompt} if alone else {"checkpoint": f"turn:{prompt}"}

    planned = scene.box.call("rewind", conflict=conflict, dry_run=True, **request)
    same(before, scene.look())
    answer = scene.box.call("rewind", conflict=conflict, **request)

    after = scene.look()
    same(expected.tree, after)
    for each in (planned, answer):
        listed = {entry["path"].encode(): name for name in LISTS for entry in each[name]}
        assert listed == expected.listed
    same(before, scene.past(answer["pre_rewind_checkpoint"]))
    marks = {b"%s-%d" % (by, turn) for by in (b"a", b"both") for turn in turns}
    for entry in answer["merged"]:
        (_, others), (mine, left) = (lines_by(tree[entry["path"].encode()][3], marks) for tree in (before, after))
        assert (mine, [line for line in left if line in others]) == ([], others), "others' lines are lost"
    if answer["operation"] is not None:
        scene.clock.advance(1_000)
        scene.box.call("undo")
        same(before, scene.look())
        scene.box.call("redo")
        same(after, scene.look())
