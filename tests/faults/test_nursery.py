"""A worker that is forked is one that was started: it inherits the same, counts the same and ends the same."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults import echo_worker
from tests.faults.lab import Lab, shim

FORKED = [sys.executable, "-m", "tests.faults.echo_worker"]
STARTED = [sys.executable, echo_worker.__file__]


@pytest.fixture
def outcome_of(tmp_path, tmp_path_factory):
    so = shim(tmp_path_factory.getbasetemp())

    def outcome_of(argv, ending, **fault):
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        lab = Lab(so, [root], tmp_path, armed=False)
        run = lab.run([*argv, str(root / "file"), ending], env={"TOLD": "told"}, timeout=2, **fault)
        # the number of a process is its own
        return replace(run, trace=tuple(line.partition(" ")[2].partition(" ")[2] for line in run.trace))

    return outcome_of


@pytest.mark.parametrize(
    ("mode", "at", "ending"),
    [
        ("kill", 0, "0"),
        ("kill", 0, "7"),
        ("kill", 0, "hang"),
        ("kill", 1, "0"),
        ("killafter", 2, "0"),
        ("torn", 2, "0"),
        ("enospc", 1, "0"),
    ],
)
def test_a_fork_is_as_if_it_had_been_started(mode, at, ending, outcome_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.umask(0o027)

    forked, started = (outcome_of(argv, ending, mode=mode, at=at) for argv in (FORKED, STARTED))

    # a traceback names the program by the way it was run
    assert replace(forked, stderr=b"") == replace(started, stderr=b"")
    assert forked.acknowledged[0] == f"{tmp_path} 27 told True ''"
    assert [line.partition(" ")[0] for line in forked.trace][:2] == ["open", "write"][: len(forked.trace)]
    assert forked.faults == bool(at)


def test_one_fork_knows_nothing_of_the_one_before(outcome_of):
    assert [outcome_of(FORKED, "0", mode=mode, at=1).status for mode in ("kill", "kill", "enospc", "kill")] == [
        -9,
        -9,
        1,
        -9,
    ]
    assert outcome_of(FORKED, "0", mode="kill", at=0).calls == 2


def test_what_a_fork_leaves_running_is_ended(outcome_of):
    (_, _, child) = outcome_of(FORKED, "detach", mode="kill", at=0).acknowledged

    assert not Path("/proc", child).exists()
