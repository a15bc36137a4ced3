"""A fault at every mutating call of a repair: the store is the old or the new one, whole, and a repair that comes next does
what is left to do. No content that could be had before is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.daemon.mending import repair
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.repair_worker import GONE, KEPT
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "torn", "enospc", "eio", "sticky")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.repair_worker", str(folder)]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


@pytest.mark.parametrize("mode", MODES)
def test_a_store_is_the_old_or_the_repaired_one(mode, tmp_path, so):
    whole = run(so, tmp_path / "count", mode, 0)
    assert whole.acknowledged == ["repaired"]
    assert whole.calls > 20
    for at in points(whole.calls, sample=sample_size(8), seed=mode):
        folder = tmp_path / str(at)
        outcome = run(so, folder, mode, at)
        with Box(folder, clock=FakeClock()) as box:  # as the next daemon starts
            before = {problem["kind"] for problem in box.call("check", read_data=True)["problems"]}
        if outcome.acknowledged:
            assert before == {"lost"}
        again = repair(box.home, dry_run=False, report=lambda _: None)
        assert again["needed"] is (before != {"lost"})
        with Box(folder, clock=FakeClock()) as box:
            assert {problem["kind"] for problem in box.call("check", read_data=True)["problems"]} == {"lost"}
            assert box.call("cat", checkpoint="1", file="sound") == b"sound"
            assert box.call("cat", checkpoint="kept", file="kept") == KEPT
            lost = box.call("check")["problems"][0]["affected"]
            assert [entry["path"] for about in lost for entry in about["paths"]] == ["gone"]
            assert not list(box.home.folder.glob("timeline.db.repair*"))
            # the same content comes again: then it is not lost any more
            (box.root / "gone").write_bytes(GONE)
            box.checkpoint()
            assert box.call("check", read_data=True)["problems"] == []
            assert box.call("cat", checkpoint="gone", file="gone") == GONE
        assert not [entry.name for entry in box.home.folder.iterdir() if entry.name.endswith(".part")]
