"""A fault at every mutating call of a rewind of code and memory: both are old or both are new, or an interrupted operation
is settled either way for both. And of what is written to a memory through the daemon.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.checkpoints import journal
from openoxide.errors import NotFoundError
from tests.faults.both_worker import NEW, OLD, memory_of
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.test_sweeps import answered
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "torn", "enospc", "eio")
SAMPLE = 3


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def run(so, folder: Path, scenario: str, mode: str, at: int | None, *more: str) -> Outcome:
    for name in ("project", "home"):
        (folder / name).mkdir(parents=True, mode=0o700, exist_ok=True)
    lab = Lab(so, [folder / name for name in ("project", "home")], folder, armed=False)
    argv = [sys.executable, "-m", "tests.faults.both_worker", str(folder), scenario, *more]
    return lab.count(argv, mode=mode) if at is None else lab.run(argv, mode=mode, at=at)


def files(box: Box) -> dict[str, str]:
    found = [*box.root.iterdir(), *memory_of(box).iterdir()]
    return {path.name: path.read_text() for path in found if path.is_file()}


def phases(box: Box) -> list[tuple[str, str]]:
    """Of each operation on the code and what is bound to it."""
    with box.service.timeline.database.reading() as db:
        every = [
            journal.by_row(db, row) for (row,) in db.execute_sql("select id from operation order by id").fetchall()
        ]
    known = {operation.id: operation for operation in every if operation is not None}
    return [(known[o.bound].phase.value, o.phase.value) for o in known.values() if o.bound is not None]


def judge(folder: Path, choice: str, *, late: bool, told: bool = False) -> str:
    """Which state both are in; AssertionError if they are in none, or not in the same. ``told``: the run itself said that it
    had stopped in the middle, and who was told has to settle.
    """
    box = Box(folder, clock=FakeClock(boot_ms=9_000_000 if late else 1_000_000))
    try:
        box.checkpoint()
        interrupted = box.call("status")["worktrees"][0]["interrupted"]
        assert interrupted == [] or late or told
        if interrupted:
            box.call("settle", action=choice)
        with pytest.raises(NotFoundError):
            box.call("settle", action=choice)
        assert all(one == other for one, other in phases(box)), phases(box)
        found = files(box)
        which = {"old": OLD, "new": NEW}
        (state,) = [name for name, wanted in which.items() if wanted == found] or [found]
        assert isinstance(state, str), found
        works_on(box, found)
        return state
    finally:
        box.stop()


def works_on(box: Box, before: dict[str, str]) -> None:
    taken = box.checkpoint()
    box.call("turn_begin", prompt="later", agent="agent", session="later")
    (box.root / "code.txt").write_text("later\n")
    (memory_of(box) / "later.md").write_text("later\n")
    box.call("turn_end", agent="agent", session="later")
    box.rewind("turn:later", memory=True)
    assert (files(box), taken["complete"]) == (before, True)
    assert [p for p in box.call("check")["problems"] if p["kind"] != "mode"] == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", ["rewind", "undo"])
def test_both_are_rewound_or_neither(scenario, mode, late, tmp_path, so):
    total = run(so, tmp_path / "count", scenario, mode, None).calls
    assert total > 10
    for at in points(total, sample=sample_size(SAMPLE), seed=f"{mode} {late}"):
        folder = tmp_path / str(at)
        outcome = run(so, folder, scenario, mode, at)
        answered(outcome)
        told = outcome.stderr.startswith(b"operation_interrupted")
        state = judge(folder, "continue" if at % 2 else "abort", late=late, told=told)
        if scenario == "rewind" and "rewound" in outcome.acknowledged:
            assert state == "old"
        if "undone" in outcome.acknowledged:
            assert state == "new"


@pytest.mark.parametrize("second", ["recover", "continue", "abort"])
def test_a_fault_while_both_are_settled_can_be_settled_again(second, tmp_path, so):
    late = second != "recover"
    total = run(so, tmp_path / "count", "rewind", "kill", None).calls
    for at in points(total, sample=sample_size(SAMPLE), seed=second):
        for after in (7, 23):
            folder = tmp_path / f"{at}-{after}"
            answered(run(so, folder, "rewind", "kill", at))
            run(so, folder, second, "kill", after, *(["late"] if late else []))
            assert judge(folder, "abort" if at % 2 else "continue", late=late) in ("old", "new")


@pytest.mark.parametrize("mode", MODES)
def test_what_was_acknowledged_of_a_note_is_there_and_has_its_versions(mode, tmp_path, so):
    total = run(so, tmp_path / "count", "note", mode, None).calls
    assert total > 10
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        folder = tmp_path / str(at)
        outcome = run(so, folder, "note", mode, at)
        answered(outcome)
        with Box(folder, clock=FakeClock(boot_ms=9_000_000)) as box:
            box.checkpoint()
            found = files(box).get("n.md")
            one, two = "# N\n\none\n", "# N\n\none\ntwo\n"
            done = len(outcome.acknowledged)
            steps = [None, one, two, one, None]
            assert found in steps[done : done + 2], (found, outcome.acknowledged)
            if done:
                versions = box.call("memory_history", name="n.md")["items"]
                assert len(versions) in (done, done + 1)
            box.call("memory_save", name="after.md", text="works on\n")
            assert [p for p in box.call("check")["problems"] if p["kind"] != "mode"] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_generated_file_is_whole_or_not_there(mode, tmp_path, so):
    total = run(so, tmp_path / "count", "follow", mode, None).calls
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        folder = tmp_path / str(at)
        answered(run(so, folder, "follow", mode, at))
        with Box(folder, clock=FakeClock(boot_ms=9_000_000)) as box:
            generated = memory_of(box).parent / "context" / "aider.md"
            before = generated.read_text() if generated.exists() else None
            written = Path(box.call("memory_context", agent="aider", write=True)["written"])
            assert written == generated
            assert before in (None, written.read_text())


def lines_of(box: Box) -> set[str]:
    """Every line that the worktree reads of the notes that were to be promoted."""
    return {
        line
        for name in ("MEMORY.md", "both.md", "new.md")
        for line in box.call("memory_read", name=name)["text"].splitlines()
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_promotion_that_is_cut_off_hides_no_line_and_is_done_by_another(mode, tmp_path, so):
    wanted = {"- of the project", "- of the branch", "new", "- a note of its own"}
    total = run(so, tmp_path / "count", "promote", mode, None).calls
    assert total > 10
    for at in points(total, sample=sample_size(SAMPLE), seed=6):
        folder = tmp_path / str(at)
        outcome = run(so, folder, "promote", mode, at)
        answered(outcome)
        with Box(folder, clock=FakeClock(boot_ms=9_000_000), worktrees="staged") as box:
            box.checkpoint()
            assert wanted <= lines_of(box), (at, outcome.acknowledged)
            (worktree,) = {path.name for path in memory_of(box).parent.joinpath("worktrees").iterdir()}
            own = memory_of(box).parent / "worktrees" / worktree / "memory"
            if "promoted" in outcome.acknowledged and mode == "kill":
                assert list(own.iterdir()) == []
            if list(own.iterdir()):
                assert "refused" not in {item["became"] for item in box.call("memory_promote")["items"]}
            assert list(own.iterdir()) == []
            texts = " ".join(path.read_text() for path in memory_of(box).iterdir())
            assert all(line in texts for line in wanted)
            assert wanted <= lines_of(box)
            assert [p for p in box.call("check")["problems"] if p["kind"] != "mode"] == []
