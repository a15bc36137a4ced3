"""A fault at every mutating call of a prune: every acknowledged checkpoint gives back its bytes, and the next one ends it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.prune_worker import DAY_MS, text
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "killafter", "torn", "enospc", "eio", "sticky")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int, *scenario: str) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.prune_worker", str(folder), *scenario]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


def judge(folder: Path, said: list[str]) -> None:
    clock = FakeClock()
    # as in the worker: a clock that was set forward is not believed, and no row goes
    clock.advance(2 * DAY_MS)
    with Box(folder, clock=clock) as box:
        for _ in range(2):
            for number in (2, 3, 4, *(int(text) for text in said if text != "pruned")):
                assert box.call("cat", checkpoint=str(number), file="text") == text(number)
                noise = random.Random(number).randbytes(20_000)
                assert box.call("cat", checkpoint=str(number), file="noise") == noise
            found = box.call("check", read_data=True)["problems"]
            assert [problem for problem in found if problem["kind"] != "mode"] == []
            box.call("prune")
        assert list((box.home.blobs / "big").iterdir()) == []
        assert box.call("prune", dry_run=True)["versions"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_no_checkpoint_is_lost(mode, tmp_path, so):
    whole = run(so, tmp_path / "whole", mode, 0)
    assert whole.acknowledged == ["5", "pruned", "6"]
    judge(tmp_path / "whole", whole.acknowledged)
    for at in points(whole.calls, sample=sample_size(6), seed=mode):
        outcome = run(so, tmp_path / str(at), mode, at)
        judge(tmp_path / str(at), outcome.acknowledged)


def test_on_a_full_disk_what_needs_no_room_is_freed(tmp_path, so):
    outcome = run(so, tmp_path, "sticky", 1, "full")
    (note,) = outcome.acknowledged
    assert "no room" in note
    assert outcome.faults
    # one that rows name, as long as they could not be deleted
    assert len(list((tmp_path / "home" / "blobs" / "big").iterdir())) == 1
    judge(tmp_path, [])
