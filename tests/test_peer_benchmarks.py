"""The figures beside other tools: every row comes out, who is missing is named, and the arithmetic is right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from commands import by_package
from field import Field, compared, ratios, summary
from measuring import Spent, UnmeasuredError
from peers import Candidate
from plot import Bar, picture
from report import Claim, Measured, Row
from sampling import Sampler, top
from scaling import at_scale

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "run.py"
ROWS = [
    ("first", "first capture"),
    ("one", "checkpoint with 1 changed file"),
    ("socket", "checkpoint with 1 changed file, by the socket"),
    ("many", "checkpoint with 20 changed files"),
    ("back", "rewind of 20 files"),
    ("diff", "names that differ, 3 apart"),
    ("log", "log with 3 checkpoints"),
    ("size", "store after the first capture of written"),
    ("growth", "growth of it with a checkpoint of 1 changed file of written"),
    ("scale", "30 checkpoints on 40 paths"),
    ("command", "`oxide-ctl status`"),
    ("command", "`oxide-ctl log`"),
    ("command", "`oxide-ctl checkpoint`"),
    ("command", "`oxide-ctl --help`"),
]


@pytest.fixture
def run(tmp_path):
    """A small run of the program; its exit status and its report."""
    scratch, written, results = tmp_path / "scratch", tmp_path / "written", tmp_path / "results"
    scratch.mkdir()
    shutil.copytree(ROOT / "cli", written, ignore=shutil.ignore_patterns("__pycache__"))
    small = ["--files", "40", "--states", "3", "--rounds", "1", "--scratch", scratch, "--real-tree", written]

    def call(*arguments, path=os.environ["PATH"]):
        command = [sys.executable, PROGRAM, "--peers", *small, "--results", results, *arguments]
        done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
        assert list(scratch.iterdir()) == [], done.stderr
        assert (results / "peers.json").exists(), done.stderr
        return done.returncode, results

    return call


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_small_run_writes_every_row_a_table_and_a_picture(run):
    status, results = run("--candidates", "git", "git fsmonitor", "restic", "borg")

    assert status == 0
    report = json.loads((results / "peers.json").read_text("utf-8"))
    assert [(row["claim"]["figure"], row["claim"]["what"]) for row in report["rows"]] == ROWS
    assert all(row["measured"] is not None for row in report["rows"]), report["rows"]
    assert all(row["profile"] or not row["verdict"].startswith("missed") for row in report["rows"])
    assert not any(line.startswith("no profile") for row in report["rows"] for line in row["profile"])
    table = (results / "peers.md").read_text("utf-8")
    assert all(f"| {what} |" in table for _, what in ROWS)
    for tool in ("restic", "borg"):
        assert (tool in report["versions"]) == (shutil.which(tool) is not None)
        assert (f"{tool} (" in report["notes"][-1]) == (shutil.which(tool) is None), report["notes"][-1]
    assert ET.parse(results / "peers.svg").getroot().tag.endswith("svg")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_the_other_tools_the_product_is_measured_and_they_are_named(run, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cp", "sync", "git"):
        (programs / name).symlink_to(shutil.which(name))

    _, results = run("--only", "growth", "--candidates", "git", "restic", "borg", path=str(programs))

    report = json.loads((results / "peers.json").read_text("utf-8"))
    assert report["notes"][-1] == "Left out: restic (restic is not installed); borg (borg is not installed)."
    assert "nothing to compare: ratio_to_restic" in report["rows"][1]["verdict"]
    assert "ratio_to_git" in report["rows"][1]["measured"]["values"]


def row(values, targets):
    measured = Measured(summary="", made_of="", values=values)
    return Row(claim=Claim(figure="f", what="w", targets=targets), rounds=1, load="", command="", measured=measured)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"a": 1.0, "b": 2.0}, "met"),
        ({"a": 1.5, "b": 2.0}, "missed: a 1.5"),
        ({"b": 1.0}, "nothing to compare: a"),
        ({"b": 3.0}, "missed: b 3; nothing to compare: a"),
    ],
)
def test_a_verdict_names_what_missed_and_what_could_not_be_compared(values, verdict):
    assert row(values, {"a": 1, "b": 2}).verdict == verdict


def test_a_ratio_is_to_each_peer_and_to_the_best_of_each_measure():
    samples = {
        "openoxide": [Spent(wall_s=1, cpu_s=2), Spent(wall_s=3, cpu_s=4), Spent(wall_s=2, cpu_s=9)],
        "git": [Spent(wall_s=4, cpu_s=2)],
        "restic": [Spent(wall_s=1, cpu_s=8)],
    }

    values = compared(samples)

    assert (values["cpu_ms_openoxide"], values["wall_ms_openoxide"]) == (4000, 2000)
    assert (values["cpu_ratio_to_git"], values["cpu_ratio_to_restic"], values["cpu_ratio_to_best"]) == (2, 0.5, 2)
    assert (values["wall_ratio_to_git"], values["wall_ratio_to_restic"], values["wall_ratio_to_best"]) == (0.5, 2, 2)
    assert summary(samples) == (
        "CPU: openoxide 4.00 s, git 2.00 s (2.00 x), restic 8.00 s (0.50 x); "
        "wall: openoxide 2.00 s, git 4.00 s (0.50 x), restic 1.00 s (2.00 x)"
    )


def test_without_peers_there_are_no_ratios():
    assert ratios({"openoxide": 3.0}) == {}


def field(*names):
    return Field([Candidate(name=name, make=lambda case: case) for name in names], [])


@pytest.mark.parametrize(
    "error",
    [UnmeasuredError("no"), FileNotFoundError("no"), subprocess.CalledProcessError(1, ["restic"], stderr="no")],
    ids=["unmeasured", "missing", "status"],
)
def test_a_peer_that_fails_is_named_and_left_out_until_the_next_measurement(error):
    several = field("openoxide", "git", "restic")

    with several.excused("restic"):
        raise error

    assert [c.name for c in several.in_turn(1)] == ["git", "openoxide"]
    assert several.left_out[0].startswith("restic in a part (")
    several.begin()
    assert [c.name for c in several.in_turn(0)] == ["openoxide", "git", "restic"]


def test_the_product_is_never_left_out():
    with pytest.raises(UnmeasuredError), field("openoxide").excused("openoxide"):
        raise UnmeasuredError("no")


def test_ten_checkpoints_in_process_are_measured_and_their_tables_weighed(tmp_path):
    values = at_scale(tmp_path / "home", 20, 10).values

    assert values.keys() >= {"seal_ms_median", "diff_ms_median", "timeline_mb", "blob_index_bytes_a_blob"}
    assert all(value > 0 for value in values.values())


def test_a_picture_marks_what_missed_and_escapes_its_labels():
    bars = [Bar(label="a < b & c", value=0.5, target=1), Bar(label="late", value=1e9, target=2)]

    root = ET.fromstring(picture("Figures", bars))

    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Figures", "a < b & c", "0.5 of 1", "1e+09 of 2", "target"} <= set(texts)
    fills = [element.get("fill") for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(set(fills)) == 3  # the paper, what was met, what was missed


def test_the_packages_that_take_longest_to_import_come_first():
    said = """import time: self [us] | cumulative | imported package
import time:       300 |        300 |   socket
import time:       200 |        500 |     openoxide.cli
import time:       400 |        400 |   openoxide
"""

    assert by_package(said) == ["imports 0.9 ms (slower than without the trace)", "0.6 ms openoxide", "0.3 ms socket"]


def burn(until):
    while not until.is_set():
        sum(range(100))


def test_the_sampler_finds_the_function_that_is_busy():
    sampler, until = Sampler(), threading.Event()
    busy = threading.Thread(target=burn, args=(until,))
    sampler.start()
    busy.start()
    while not any(where.endswith(" burn") for where in list(sampler.seen)):
        until.wait(0.01)
    until.set()
    busy.join()

    spent = sampler.stop()

    assert next(iter(spent)) == "tests/test_peer_benchmarks.py burn"


def test_the_places_that_used_most_are_listed_with_their_shares():
    assert top({"a": 0.06, "b": 0.03, "c": 0.01}, most=2) == [
        "CPU 100 ms", "60 ms (60%) a", "30 ms (30%) b", "10 ms (10%) 1 others",
    ]  # fmt: skip
