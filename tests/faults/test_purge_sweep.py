"""A fault at every mutating call of a purge: it has happened or not, everything else is whole, and the next start, or the same
command, finishes it.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from openoxide.errors import NotFoundError
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.purge_worker import INDEX, KEPT, NOTE, NOTES, SECRETS, TOKEN, memory, prepare_notes
from tests.kit import FakeClock
from tests.kit.box import Box
from tests.kit.rawhome import texts, traces

pytestmark = pytest.mark.faults

MODES = ("kill", "killafter", "torn", "enospc", "eio", "sticky")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int, *what: str) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.purge_worker", str(folder), *what]
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


def judge_notes(folder: Path, said: list[str]) -> None:
    home = folder / "home"
    assert said == [] or where(home) == []
    with Box(folder, clock=FakeClock()) as box:
        assert box.service.finish_purge()
        versions = box.call("memory_history", name="api.md")["items"]
        if said == [] and not any(item["reason"] for item in versions):
            whole = [item["version"] for item in versions if item["blob"] is not None][1:]
            read = [box.call("memory_read_version", name="api.md", version=at, raw=True)["text"] for at in whole]
            assert read == [text.decode() for text in NOTES[::-1]]
        else:
            # what was put aside goes before the rows, what is generated too
            assert where(home) == traces(home, *NOTES) == []
        with suppress(NotFoundError):  # there is nothing left to do
            assert box.call("purge", memory=["api.md"])["finished"]
        assert where(home) == traces(home, *NOTES) == []
        assert [problem for problem in box.call("check", read_data=True)["problems"] if problem["kind"] != "mode"] == []
        stands = {path.name: path.read_bytes() for path in memory(box).iterdir()}
        assert stands == {"api.md": NOTE, "MEMORY.md": INDEX, "kept.md": KEPT["kept0"]}
        assert box.call("cat", checkpoint="1", file="a") == b"one\n"


def where(home: Path) -> list[str]:
    # the beginning of it: what a writer left may end within
    return [at for at, data in texts(home) if TOKEN[:24] in data]


def test_what_the_worker_is_to_purge_lies_in_every_place(tmp_path):
    (tmp_path / "home").mkdir(mode=0o700)
    with Box(tmp_path, clock=FakeClock()) as box:
        prepare_notes(box)
        places = {re.split(r"/(?=trash|staging|context)", at)[-1].split("/")[0] for at in where(box.home.folder)}
        assert {"trash", "staging", "context", "blobs"} <= places


@pytest.mark.parametrize("mode", MODES)
def test_a_purge_of_notes_is_finished_by_whoever_comes_next(mode, tmp_path, so):
    whole = run(so, tmp_path / "whole", mode, 0, "notes")
    assert (whole.acknowledged, whole.calls > 20) == (["purged"], True)
    judge_notes(tmp_path / "whole", whole.acknowledged)
    for at in points(whole.calls, sample=sample_size(6), seed=2):
        outcome = run(so, tmp_path / str(at), mode, at, "notes")
        judge_notes(tmp_path / str(at), outcome.acknowledged)
