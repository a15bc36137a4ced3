"""The figures of what watching costs: every row comes out, each size has its targets, and no rule matches a file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import passes
import pytest
import steadyjob
from corpus import generate
from measuring import Spent
from product import Daemon
from readers import readers
from run import main
from stage import Stages

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "run.py"
ROWS = [
    ("rest", "CPU at rest"),
    ("rest", "memory at rest"),
    ("added", "checkpoint with 1 added file: exactly that"),
    ("one", "checkpoint with 1 changed file"),
    ("readers", "checkpoint with 1 changed file, beside 2 reading clients"),
    ("nothing", "checkpoint with nothing changed"),
    ("turn", "begin of a turn with 1 changed file, by a hook"),
    ("pass", "full pass with nothing changed"),
    ("rules", "full pass with 207 ignore rules against 7"),
]


def options(**given):
    return argparse.Namespace(
        **{"files": None, "rounds": None, "quick": False, "only": None, "rest_seconds": 60} | given
    )


def claims(**given):
    return [claim for task in steadyjob.tasks(Stages(None), options(**given)) for claim in task.claims]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_run_writes_every_row_under_the_name_of_its_size_and_leaves_nothing_behind(tmp_path):
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    scratch.mkdir()
    small = ["--files", "60", "--rounds", "1", "--rest-seconds", "0.5", "--scratch", scratch, "--results", results]

    done = subprocess.run(
        [sys.executable, PROGRAM, "--never-misses", *small], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((results / "never-misses-60.json").read_text("utf-8"))
    assert [(row["claim"]["figure"], row["claim"]["what"]) for row in report["rows"]] == ROWS
    assert all(row["measured"] is not None for row in report["rows"]), report["rows"]
    assert report["rows"][2]["verdict"] == "met"
    table = (results / "never-misses-60.md").read_text("utf-8")
    assert all(f"| {what} |" in table for _, what in ROWS)
    assert list(scratch.iterdir()) == []


def test_a_run_holds_each_figure_at_its_sizes_and_a_quick_one_leaves_out_the_small_tree():
    usual = {(claim.figure, claim.files) for claim in claims()}

    assert {files for figure, files in usual if figure == "one"} == {2_000, 20_000, 100_000}
    assert {files for figure, files in usual if figure == "turn"} == {20_000, 100_000}
    assert {files for figure, files in usual if figure in {"rest", "added", "pass", "rules"}} == {100_000}
    assert {(claim.figure, claim.files) for claim in claims(quick=True)} == {at for at in usual if at[1] != 2_000}


def test_with_a_size_or_figures_asked_for_there_is_nothing_else():
    assert [(claim.figure, claim.what) for claim in claims(files=60)] == ROWS
    assert {claim.files for claim in claims(files=60)} == {60}
    assert {claim.figure for claim in claims(only=["nothing", "rules"])} == {"nothing", "rules"}


def test_a_quick_run_still_takes_three_hundred_checkpoints():
    (task,) = steadyjob.tasks(Stages(None), options(quick=True, files=60, only=["one"]))

    assert task.rounds == 3
    assert task.again == "--files 60 --rounds 3"


@pytest.mark.parametrize(
    ("files", "figure", "targets"),
    [
        (100_000, "rest", [{"cpu_percent": 0.1}, {"rss_mb": 150}]),
        (1_000_000, "rest", [{"cpu_percent": 0.1}, {"rss_mb": 600}]),
        (20_000, "turn", [{"cpu_ratio": 0.15}]),
        (100_000, "turn", [{"cpu_ratio": 0.03}]),
        (2_000, "turn", [{}]),
    ],
)
def test_a_target_goes_by_the_size(files, figure, targets):
    assert [claim.targets for claim in claims(files=files, only=[figure])] == targets


def test_the_ratios_are_those_of_the_medians():
    spent = {
        "product": [Spent(wall_s=1, cpu_s=2), Spent(wall_s=3, cpu_s=1), Spent(wall_s=2, cpu_s=9)],
        "git": [Spent(wall_s=4, cpu_s=1)],
    }

    values = passes.against_git(spent)

    assert (values["product_cpu_ms"], values["git_wall_ms"]) == (2000, 4000)
    assert (values["cpu_ratio"], values["wall_ratio"]) == (2, 0.5)


def test_git_finds_that_no_rule_matches_any_file(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    corpus = generate(tree, 60)
    (tree / ".gitignore").write_bytes(passes.matching_nothing(200))
    subprocess.run(["git", "init", "--quiet", tree], check=True)

    asked = subprocess.run(
        ["git", "-C", tree, "check-ignore", "--no-index", "--stdin"],
        input="\n".join(map(str, corpus.files)), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (asked.returncode, asked.stdout) == (1, "")
    assert len(set(passes.matching_nothing(200).splitlines())) == 200


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--only", "hook"], "no figure hook here; there are: rest,"),
        (["--peers"], "not allowed with argument"),
    ],
)
def test_what_is_no_part_of_it_is_a_mistake(wrong, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--never-misses", *wrong])

    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_readers_read_until_the_block_ends(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    with Daemon(tmp_path / "daemon") as daemon:
        daemon.client.watch(str(tree))
        daemon.client.checkpoint(str(tree))

        with readers(daemon, str(tree), 2) as reading:
            pass

    assert reading.answers >= 6
    assert reading.seconds > 0
