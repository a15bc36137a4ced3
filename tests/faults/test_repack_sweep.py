"""A fault at every mutating call of a repack: each content that a row names is given back, before and after the next one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.repack import repack
from openoxide.checkpoints.verifying import Check, Reading
from tests.checkpoints.stores import Store
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.repack_worker import FIRST, GONE, LATER, content

pytestmark = pytest.mark.faults

MODES = ("kill", "killafter", "torn", "enospc", "eio", "sticky")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.repack_worker", str(folder / "home")]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


def judge(folder: Path, said: list[str]) -> None:
    store = Store(folder / "home")
    try:
        promised = [*FIRST, *(number for number in LATER if str(number) in said)]
        for _ in range(2):
            for number in promised:
                assert store.blobs.read(blob_hash(content(number))) == content(number)
            found = Check(database=store.database, home=store.home, reading=Reading()).run()
            assert [problem for problem in found if problem.object.startswith(("blob", "frame"))] == []
            repack(store.database, store.blobs, [int(name.removesuffix(".pack")) for name in store.packs()])
        left = b"".join((store.home.blobs / name).read_bytes() for name in store.packs())
        assert not any(content(number)[:64] in left for number in GONE if number % 3)
    finally:
        store.close()


@pytest.mark.parametrize("mode", MODES)
def test_no_content_that_a_row_names_is_lost(mode, tmp_path, so):
    whole = run(so, tmp_path / "whole", mode, 0)
    assert whole.acknowledged == [str(LATER[0]), "repacked", str(LATER[1])]
    judge(tmp_path / "whole", whole.acknowledged)
    for at in points(whole.calls, sample=sample_size(8), seed=mode):
        outcome = run(so, tmp_path / str(at), mode, at)
        judge(tmp_path / str(at), outcome.acknowledged)
