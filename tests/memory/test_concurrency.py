"""Many processes write to one memory at once, through us and not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.memory.editing import ABSENT
from tests.kit import effort
from tests.memory.kit import memory_in

CHECKOUT = Path(__file__).parents[2]


def run_all(home: Path, workers: list[tuple[str, str, int]]) -> None:
    """Let all of them write at the same time; each has to end well."""
    command = [sys.executable, "-m", "tests.memory.note_taker", str(home)]
    started = [
        subprocess.Popen([*command, what, who, str(count)], cwd=CHECKOUT, env=os.environ, stderr=subprocess.PIPE)
        for what, who, count in workers
    ]
    for process in started:
        _, stderr = process.communicate(timeout=280)
        assert process.returncode == 0, stderr.decode()


def lines(home: Path) -> list[str]:
    return (memory_in(home).directory.path / "log.md").read_text().splitlines()


def trash_of(home: Path) -> list[str]:
    memory = memory_in(home)
    return [(memory.directory.path.parent / "trash" / one.id / one.name).read_text() for one in memory.trash()]


@pytest.mark.timeout(300)
def test_eight_processes_append_sixteen_hundred_entries(tmp_path):
    run_all(tmp_path, [("append", f"w{n}", 200) for n in range(8)])

    found = lines(tmp_path)
    assert len(found) == 1_600
    assert sorted(found) == sorted(f"- w{n} {m}" for n in range(8) for m in range(200))
    for n in range(8):
        assert [line for line in found if line.startswith(f"- w{n} ")] == [f"- w{n} {m}" for m in range(200)]
    assert memory_in(tmp_path).trash() == []


@given(
    appenders=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    editors=st.lists(st.integers(1, 12), min_size=1, max_size=2),
)
@settings(max_examples=effort(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.timeout(300)
def test_no_write_of_an_editor_is_lost(tmp_path_factory, appenders, editors):
    home = tmp_path_factory.mktemp("home")
    memory_in(home).save("log.md", "- start\n", expect=ABSENT)
    workers = [("append", f"w{n}", count) for n, count in enumerate(appenders)]
    workers += [("edit", f"e{n}", count) for n, count in enumerate(editors)]

    run_all(home, workers)

    found = lines(home)
    assert found[0] == "- start"
    assert len(set(found)) == len(found), "and none is there twice"
    # an editor that reads in the microseconds between an exchange and its reversal, and writes later, leaves out what it did
    # not see; that is in the trash then
    displaced = {line for text in trash_of(home) for line in text.splitlines()}
    for n, count in enumerate(editors):
        written = [f"- e{n} {m}" for m in range(count)]
        there = [line for line in found if line.startswith(f"- e{n} ")]
        assert there == [line for line in written if line in there], "in their order"
        assert set(written) <= set(there) | displaced
    # an editor that had read the file before an append, and renames after it, writes over the append: nothing on this side
    # can prevent that, and the watcher's versions are what brings it back
    ours = {f"- w{n} {m}" for n, count in enumerate(appenders) for m in range(count)}
    assert set(found) - ours <= {"- start", *(f"- e{n} {m}" for n, count in enumerate(editors) for m in range(count))}
    assert os.listdir(memory_in(home).directory.path.parent / "staging") == []


@pytest.mark.timeout(300)
def test_no_line_of_a_shell_is_lost(tmp_path):
    memory_in(tmp_path).save("log.md", "- start\n", expect=ABSENT)

    run_all(tmp_path, [("append", "w0", 40), ("append", "w1", 40), ("shell", "s0", 150), ("shell", "s1", 150)])

    found = lines(tmp_path)
    assert found[0] == "- start"
    assert len(set(found)) == len(found) == 381
    for who, count in (("w0", 40), ("w1", 40), ("s0", 150), ("s1", 150)):
        assert sorted(line for line in found if line.startswith(f"- {who} ")) == sorted(
            f"- {who} {m}" for m in range(count)
        )
