"""A turn whose agent died stays open, and is told of with the command that ends it."""

from __future__ import annotations

import shlex

import pytest

from openoxide.checkpoints.idle import SILENT_MS

TURN = {"agent": "codex", "session": "a session", "prompt": "p"}


@pytest.fixture
def box(box):
    box.call("turn_begin", **TURN)
    return box


def idle(box):
    (worktree,) = box.call("status")["worktrees"]
    return worktree["idle_turns"]


def told(box):
    return [p for p in box.call("doctor")["problems"] if p["kind"] == "turn_open"]


def test_a_turn_that_is_silent_for_hours_is_told_with_what_ends_it(box):
    box.clock.advance(SILENT_MS - 1)
    assert (idle(box), told(box)) == ([], [])
    box.clock.advance(1)

    (turn,) = idle(box)
    (problem,) = told(box)

    assert (turn["agent"], turn["session"], turn["prompt"]) == ("codex", "a session", "p")
    assert turn["command"] in problem["hint"]
    words = ["oxide-ctl", "-C", str(box.root), "turn", "end", "--agent=codex", "--session=a session"]
    assert shlex.split(turn["command"]) == words
    box.call("turn_end", agent="codex", session="a session")
    assert (idle(box), told(box)) == ([], [])


@pytest.mark.parametrize("sign", ["tool_begin", "tool_end"])
def test_a_tool_call_is_a_sign_of_life(box, sign):
    box.call("tool_begin", **TURN, tool="shell")
    box.clock.advance(SILENT_MS - 1)
    box.call(sign, **TURN, tool="shell")
    box.clock.advance(SILENT_MS - 1)

    assert idle(box) == []


def test_what_changes_in_the_tree_is_none(box):
    box.clock.advance(SILENT_MS)
    (box.root / "a").write_text("by the user")
    box.checkpoint()

    assert len(idle(box)) == 1


def test_a_turn_that_the_next_one_of_its_session_ends_is_told_of(box):
    answer = box.call("turn_begin", **{**TURN, "prompt": "q"})

    assert answer["notes"] == ["turn p had not ended and ends here: a session has one turn at a time"]
