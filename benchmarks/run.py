"""Measures the figures of the main job and writes them to ``benchmarks/results/main-job.json`` and ``main-job.md``.

    python benchmarks/run.py                      every figure, five rounds, trees of up to 100,000 files
    python benchmarks/run.py --quick              three rounds, trees of up to 20,000 files
    python benchmarks/run.py --only rewind        one figure, printed and not kept

Everything lies in a scratch folder that is removed at the end, with the daemons' homes and a HOME of its own. Linux
only: it reads /proc and needs git, and strace for one row. The exit status is 1 when a figure could not be taken.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import capturing
import checkpointing
import rewinding
from machine import load, machine, versions
from measuring import UnmeasuredError
from report import Claim, Measured, Report, Row
from workshop import Workshop

from openoxide.errors import OpenOxideError

SMALL, USUAL, LARGE = 2_000, 20_000, 100_000
ROUNDS, QUICK_ROUNDS = 5, 3
CHANGED = 1_000
FIGURES = ("checkpoint", "strace", "capture", "rewind", "store")
RESULTS = Path(__file__).resolve().parent / "results"
PROGRAM = "python benchmarks/run.py"
TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One measurement and the claims it answers; ``again`` are the arguments that repeat it alone."""

    claims: Sequence[Claim]
    rounds: int
    again: str
    measure: Callable[[], Sequence[Measured]]


def main(arguments: Sequence[str]) -> int:
    """Take the figures that ``arguments`` ask for; the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # unwinds, so that daemons end and scratch goes
    began, date = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    with tempfile.TemporaryDirectory(prefix="openoxide-bench-", dir=options.scratch) as scratch:
        folder = Path(scratch).resolve()
        workshop = Workshop(folder, options.real_tree)
        rows = [row for task in _tasks(workshop, options) for row in _rows(task)]
        report = Report(
            date=date,
            machine=machine(folder),
            versions=versions(),
            command=shlex.join([*PROGRAM.split(), *arguments]),
            seconds=time.monotonic() - began,
            rows=rows,
        )
    print(report.markdown())
    results = options.results or (None if options.only or options.files else RESULTS)
    if results:
        report.write(results)
    return 1 if any(row.measured is None for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="The figures of the main job.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, without the {LARGE:,} files")
    parser.add_argument("--large", action="store_true", help=f"the {LARGE:,} files also with --quick")
    parser.add_argument("--only", nargs="+", choices=FIGURES, help="these figures")
    parser.add_argument("--files", type=int, help="the size of every generated tree")
    parser.add_argument("--changed", type=int, default=CHANGED, help="files that a rewind brings back")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}; a round of `checkpoint` is 100 checkpoints")
    parser.add_argument("--scratch", type=Path, help="where the scratch folder goes; its file system is measured")
    parser.add_argument("--real-tree", type=Path, default=Path(sysconfig.get_path("stdlib")),
                        help="a real tree for the size of the store (default: this Python's standard library)")  # fmt: skip
    parser.add_argument("--results", type=Path, help="where to write (with --only or --files: nowhere by default)")
    return parser


def _rounds(options: argparse.Namespace) -> int:
    return options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)


def _tasks(workshop: Workshop, options: argparse.Namespace) -> list[Task]:
    files, rounds = options.files or USUAL, _rounds(options)
    sizes = (SMALL, USUAL) if options.quick and not options.large else (SMALL, USUAL, LARGE)
    tasks = [
        *(_checkpoint(workshop, size, rounds) for size in ((options.files,) if options.files else sizes)),
        _strace(workshop, files, rounds),
        _capture(workshop, files, rounds),
        _rewind(workshop, files, min(options.changed, files // 2), rounds),
        _store(workshop, options.real_tree),
    ]
    return [task for task in tasks if not options.only or task.claims[0].figure in options.only]


def _checkpoint(workshop: Workshop, files: int, rounds: int) -> Task:
    what = "checkpoint with 1 changed file"
    return Task(
        claims=(Claim(figure="checkpoint", what=what, files=files, targets={"in_daemon_ms_median": 3}),),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: (checkpointing.one_changed(workshop, files, rounds),),
    )


def _strace(workshop: Workshop, files: int, rounds: int) -> Task:
    targets = {"calls_on_unchanged_files": 0, "calls_on_others_in_the_tree": 0}
    return Task(
        claims=(Claim(figure="strace", what="what a checkpoint looks at", files=files, targets=targets),),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: (checkpointing.traced(workshop, files, rounds),),
    )


def _capture(workshop: Workshop, files: int, rounds: int) -> Task:
    memory = {"rss_mb": 110}
    return Task(
        claims=(
            Claim(figure="capture", what="first capture", files=files, targets={"cpu_ratio": 0.3}),
            Claim(figure="capture", what="store after the first capture", files=files),
            Claim(figure="capture", what="memory at rest after the first capture", files=files, targets=memory),
            Claim(figure="capture", what="memory after a full pass", files=files, targets=memory),
        ),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: capturing.first_capture(workshop, files, rounds),
    )


def _rewind(workshop: Workshop, files: int, changed: int, rounds: int) -> Task:
    what, targets = f"rewind of {changed:,} changed files", {"wall_ratio": 0.7}
    return Task(
        claims=(
            Claim(figure="rewind", what=f"{what}, scope session", files=files, targets=targets),
            Claim(figure="rewind", what=f"{what}, scope session, turn still open", files=files),
            Claim(figure="rewind", what=f"{what}, exact", files=files),
        ),
        rounds=rounds,
        again=f"--files {files} --changed {changed} --rounds {rounds}",
        measure=lambda: rewinding.rewind(workshop, files, changed, rounds),
    )


def _store(workshop: Workshop, tree: Path) -> Task:
    return Task(
        claims=(Claim(figure="store", what=f"store after the first capture of a real tree, {tree.name}"),),
        rounds=1,
        again=f"--real-tree {shlex.quote(str(tree))}",
        measure=lambda: (capturing.real_store(workshop, workshop.real_tree()),),
    )


def _rows(task: Task) -> Iterator[Row]:
    """Measure. What goes wrong in one figure is in its rows, and the others are still taken."""
    before = load()
    for claim in task.claims:
        print(claim.what + (f", {claim.files:,} files" if claim.files else "") + f" ({before})", file=sys.stderr)
    measured: Sequence[Measured | None]
    try:
        measured, failure = task.measure(), ""
    except (UnmeasuredError, OpenOxideError, OSError) as error:
        measured, failure = [None] * len(task.claims), str(error)
    except subprocess.CalledProcessError as error:
        measured, failure = [None] * len(task.claims), f"{shlex.join(error.cmd)}: {error.stderr.strip()[-300:]}"
    for claim, found in zip(task.claims, measured, strict=True):
        command = f"{PROGRAM} --only {claim.figure} {task.again}"
        yield Row(claim=claim, rounds=task.rounds, load=before, command=command, measured=found, failure=failure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
