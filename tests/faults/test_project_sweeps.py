"""A fault at each mutating call of a pause, of its end and of a move: afterwards it is one or the other, and the command
done again comes to the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.checkpoints import sight
from tests.faults.box_worker import make_first
from tests.faults.lab import Lab, points, sample_size, shim
from tests.faults.test_sweeps import answered
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "enospc", "eio")
SAMPLE = 3


@pytest.fixture(name="first", scope="module")
def _first(tmp_path_factory):
    """The tree of the first checkpoint, made without the product."""
    root = tmp_path_factory.mktemp("first")
    make_first(root)
    return tree_of(root)


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def run(so, folder: Path, scenario: str, mode: str, at: int | None):
    """One run in a fresh folder; ``at`` None counts the calls."""
    for name in ("project", "home"):
        (folder / name).mkdir(parents=True, mode=0o700)
    roots = [folder / name for name in ("project", "moved", "home")]
    lab = Lab(so, roots, folder, armed=False)
    argv = [sys.executable, "-m", "tests.faults.project_worker", str(folder), scenario]
    return lab.count(argv, mode=mode) if at is None else lab.run(argv, mode=mode, at=at)


def gives_back(box, folder: Path, first) -> None:
    box.call("restore", checkpoint="1", to=str(folder / "given"), paths=[])
    assert not diff_trees(tree_of(folder / "given"), first)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", ["pause", "unpause"])
def test_a_fault_leaves_a_pause_or_none(scenario, mode, tmp_path, first, so):
    total = run(so, tmp_path / "count", scenario, mode, None).calls
    assert total > 2
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        folder = tmp_path / str(at)
        outcome = run(so, folder, scenario, mode, at)
        answered(outcome)
        with Box(folder, clock=FakeClock()) as box:
            (worktree,) = box.call("status")["worktrees"]
            paused = worktree["paused_at"] is not None
            assert not paused or "paused" in {gap["cause"] for gap in worktree["gaps"]}
            with box.service.timeline.database.reading() as db:
                assert not paused or not sight.open_windows(db, 1)
            if outcome.acknowledged:
                assert paused == (scenario == "pause")
            assert (worktree["memory"]["state"] == "paused") == paused
            box.call(scenario)
            state = box.call("status")["worktrees"][0]["memory"]["state"]
            assert (state == "paused") == (scenario == "pause")
            box.call("unpause")
            versions = box.call("memory_history", name="note.md")["items"]
            read = [box.call("memory_read_version", name="note.md", version=v["version"])["text"] for v in versions]
            assert read == ["# Note\n\nsecond\n", "# Note\n\nfirst\n"]
            assert box.checkpoint()["complete"] is True
            assert box.call("cat", checkpoint="last", file="edited.txt") == b"second\n"
            gives_back(box, folder, first)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", ["move", "replace"])
def test_a_fault_leaves_a_history_at_one_of_both_roots(scenario, mode, tmp_path, first, so):
    total = run(so, tmp_path / "count", scenario, mode, None).calls
    assert total > 2
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        folder = tmp_path / str(at)
        outcome = run(so, folder, scenario, mode, at)
        answered(outcome)
        old, new = str(folder / "project"), str(folder / "moved")
        with Box(folder, clock=FakeClock(), root=folder / "moved") as box:
            (at_root,) = [item["root"] for item in box.call("projects")["items"] if item["checkpoints"] > 1]
            assert at_root == new or not outcome.acknowledged
            if at_root == old:
                box.call("projects_move", old=old, new=new)
            assert [item["root"] for item in box.call("projects")["items"]] == [new]
            assert box.checkpoint()["complete"] is True
            gives_back(box, folder, first)
