"""A kill or a refusal of the disk at each call that writes a memory: what was acknowledged holds, every text that was there is
still found, and the next writer works.
"""

from __future__ import annotations

import sys

import pytest

from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import Append
from openoxide.memory.topics import Memory
from tests.faults.lab import Lab, points, sample_size, shim
from tests.faults.memory_worker import GONE, NEW, OLD, PROJECT
from tests.kit import FakeClock

pytestmark = pytest.mark.faults


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def lab_of(so, folder):
    (folder / "home").mkdir(parents=True, mode=0o700)
    return Lab(so, [folder / "home"], folder, armed=False), [
        sys.executable,
        "-m",
        "tests.faults.memory_worker",
        str(folder),
    ]


def texts(folder) -> dict[str, str]:
    """Every file of the memory and beside it, by its path."""
    base = folder / "home/projects" / PROJECT
    return {
        str(path.relative_to(base)): path.read_text("utf-8", "replace") for path in base.rglob("*") if path.is_file()
    }


def judge(folder, acknowledged) -> None:
    found = texts(folder)
    kept = found["memory/kept.md"]
    assert kept in (OLD, NEW), "one or the other, never a part"
    assert GONE in found.values(), "a deletion moves"
    if "saved" in acknowledged:
        assert kept == NEW
    if "appended" in acknowledged:
        assert "- a note\n" in (found.get("memory/log.md"), found.get("memory/notes/log.md"))
    if "deleted" in acknowledged:
        assert "memory/gone.md" not in found
        assert "(gone.md)" not in found["memory/MEMORY.md"]
    if "renamed" in acknowledged:
        assert found["memory/notes/log.md"] == "- a note\n"
        assert "(notes/log.md)" in found["memory/MEMORY.md"]


@pytest.mark.parametrize("mode", ["kill", "killafter", "torn", "enospc", "eio"])
def test_a_write_that_was_cut_off_loses_nothing(mode, tmp_path, so):
    lab, argv = lab_of(so, tmp_path / "count")
    total = lab.count(argv, mode=mode).calls
    assert total > 20
    for at in points(total, sample=sample_size(6), seed=mode):
        folder = tmp_path / str(at)
        lab, argv = lab_of(so, folder)

        outcome = lab.run(argv, mode=mode, at=at)

        judge(folder, outcome.acknowledged)
        before = set(texts(folder).values())
        memory = Memory(MemoryDirectory(folder / "home", PROJECT), FakeClock())
        memory.edit("after.md", Append(text="- goes on"))
        memory.maintain()
        after = texts(folder)
        assert {OLD, NEW, GONE} & before <= set(after.values())
        assert not [name for name in after if name.startswith("staging/")]
        assert (memory.read("after.md").text, outcome.status) != ("", None)
