"""What people met who tried it: what they asked for is held, and what they have to know is said."""

from __future__ import annotations

import os
import shutil

import pytest

from openoxide.errors import NotFoundError
from tests.kit.box import Box


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "f").write_text("one")
        box.watch()
        yield box


def test_a_stop_takes_in_what_it_knows_of(box):
    box.call("turn_begin", agent="claude", session="s", prompt="p")
    (box.root / "f").write_text("two..")
    box.stop()
    (box.root / "f").write_text("three...")
    box.start()
    box.checkpoint()
    items = box.call("history", file="f")["items"]
    assert [(item["state"]["size_bytes"], item["certainty"]) for item in items] == [
        (len("three..."), "unknown"),
        (len("two.."), "likely"),
        (len("one"), "unknown"),
    ]


def test_what_was_moved_is_told_by_the_directory_itself(box):
    moved = box.root.with_name("moved")
    (box.root / "sub").mkdir()
    box.root.rename(moved)
    for place in (moved, moved / "sub"):
        with pytest.raises(NotFoundError) as refused:
            box.call("log", path=os.fspath(place))
        assert f"projects move {box.root} {moved}" in str(refused.value.hint)


def test_a_rewind_names_the_project_whose_root_it_made_anew(box):
    inner = box.root / "inner"
    inner.mkdir()
    (inner / "f").write_text("one")
    box.checkpoint("both")
    box.call("watch", path=os.fspath(inner))
    shutil.rmtree(inner)
    box.checkpoint()
    assert [note for note in box.rewind("both")["notes"] if f"projects move {inner} {inner}" in note]


def test_the_turns_that_are_open_are_shown(box):
    box.call("turn_begin", agent="claude", session="s", prompt="p")
    (worktree,) = box.call("status")["worktrees"]
    assert worktree["open_turns"] == [{"agent": "claude", "session": "s", "prompt": "p"}]


def test_what_the_kernel_has_told_is_pending_at_once(box):
    (box.root / "new").write_text("told")
    (worktree,) = box.call("status")["worktrees"]
    assert worktree["pending"] >= 1
