"""A fault at every mutating call of a purge: it has happened or not, everything else is whole, and the next start, or the same
command, finishes it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from openoxide.errors import NotFoundError
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.purge_worker import KEPT, SECRETS
from tests.kit import FakeClock
from tests.kit.box import Box
from tests.kit.rawhome import traces

pytestmark = pytest.mark.faults

MODES = ("kill", "killafter", "torn", "enospc", "eio", "sticky")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.purge_worker", str(folder)]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


def judge(folder: Path, said: list[str]) -> None:
    home = folder / "home"
    assert said == [] or traces(home, *SECRETS) == []
    with Box(folder, clock=FakeClock()) as box:
        assert box.service.finish_purge()
        if is_there(box):
            assert said == []
            assert [box.call("cat", checkpoint=str(1 + at), file="secret") for at in range(3)] == list(SECRETS)
        else:
            assert traces(home, *SECRETS) == []
        with suppress(NotFoundError):  # there is nothing left to do
            assert box.call("purge", paths=["secret"])["finished"]
        assert traces(home, *SECRETS) == []
        assert [problem for problem in box.call("check", read_data=True)["problems"] if problem["kind"] != "mode"] == []
        for name, content in KEPT.items():
            assert box.call("cat", checkpoint="1", file=name) == content


def is_there(box: Box) -> bool:
    try:
        box.call("cat", checkpoint="1", file="secret")
    except NotFoundError:
        return False
    return True


@pytest.mark.parametrize("mode", MODES)
def test_a_purge_is_finished_by_whoever_comes_next(mode, tmp_path, so):
    whole = run(so, tmp_path / "whole", mode, 0)
    assert (whole.acknowledged, whole.calls > 20) == (["purged"], True)
    judge(tmp_path / "whole", whole.acknowledged)
    for at in points(whole.calls, sample=sample_size(8), seed=mode):
        outcome = run(so, tmp_path / str(at), mode, at)
        judge(tmp_path / str(at), outcome.acknowledged)
