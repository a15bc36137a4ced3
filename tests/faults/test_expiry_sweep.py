"""A fault at each mutating call of an expire: what is promised is there and whole, and the next expire ends what it began."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.daemon.operations.expiring import expire_by_time
from tests.faults.expiry_worker import KEPT, SPENT, later
from tests.faults.lab import Lab, points, sample_size, shim
from tests.faults.test_sweeps import answered
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

SAMPLE = 4


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def run(so, folder: Path, mode: str, at: int | None):
    """One run in a fresh folder; ``at`` None counts the calls."""
    for name in ("project", "home"):
        (folder / name).mkdir(parents=True, mode=0o700)
    lab = Lab(so, [folder / "project", folder / "home"], folder, armed=False)
    argv = [sys.executable, "-m", "tests.faults.expiry_worker", str(folder)]
    return lab.count(argv, mode=mode) if at is None else lab.run(argv, mode=mode, at=at)


def is_sound(box) -> bool:
    return [p for p in box.call("check", read_data=True)["problems"] if p["kind"] != "mode"] == []


@pytest.mark.parametrize("mode", ["kill", "enospc", "eio"])
def test_a_fault_loses_nothing_that_is_promised(mode, tmp_path, so):
    total = run(so, tmp_path / "count", mode, None).calls
    assert total > 4
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        folder = tmp_path / str(at)
        outcome = run(so, folder, mode, at)
        answered(outcome)
        with Box(folder, clock=later(FakeClock())) as box:
            for name in KEPT:
                assert box.call("cat", checkpoint=name, file="edited.txt") == name.encode()
            left = [item["number"] for item in box.call("log", all=True)["items"]]
            assert is_sound(box)
            assert not outcome.acknowledged or not {*range(1, SPENT + 1)} & {*left}
            expire_by_time(box.service)
            after = [item["number"] for item in box.call("log", all=True)["items"]]
            assert not {*range(1, SPENT + 1)} & {*after}
            assert {*after} <= {*left}
            assert [item["name"] for item in box.call("log", named=True)["items"]] == [*reversed(KEPT)]
            assert is_sound(box)
            assert box.call("undo", dry_run=True)["ok"]
