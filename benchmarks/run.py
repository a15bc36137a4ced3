"""Measures the figures of the main job and writes them to ``benchmarks/results/main-job.json``, ``.md`` and ``.svg``.

    python benchmarks/run.py                      every figure, five rounds, trees of up to 100,000 files
    python benchmarks/run.py --quick              three rounds, trees of up to 20,000 files
    python benchmarks/run.py --only rewind        one figure, printed and not kept
    python benchmarks/run.py --peers              beside other tools, as results/peers.*; --large: 100,000 files too
    python benchmarks/run.py --never-misses       what watching costs, as results/never-misses.*
    python benchmarks/run.py --memory             what a project's notes cost, as results/memory.*

Everything lies in a scratch folder that is removed at the end, with the daemons' homes and a HOME of its own. Linux
only: it reads /proc and needs git, and strace for one row. The exit status is 1 when a figure could not be taken.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import capturing
import checkpointing
import hookcost
import memoryjob
import peerjob
import pruning
import rewinding
import steadyjob
from field import NAMES, Field, gather
from machine import machine, versions
from report import Claim, Measured, Report
from stage import Stages
from tasks import Task, rows
from undoers import Shelf
from workshop import Workshop, files_of

SMALL, USUAL, LARGE = 2_000, 20_000, 100_000
ROUNDS, QUICK_ROUNDS = 5, 3
CHANGED = 1_000
FIGURES = ("checkpoint", "strace", "capture", "rewind", "hook", "store", "repack", "prune", "check", "expire")
RESULTS = Path(__file__).resolve().parent / "results"
PROGRAM = "python benchmarks/run.py"
NOTE = (
    "Candidates that are compared took turns in one run, each time another one first, on fresh copies of one generated tree. "
    "CPU is user and system time of all processes that took part, the daemon's background work included; a ratio is one median "
    "by another. On a busy machine trust ratios and CPU first, wall times second."
)


class Job(NamedTuple):
    """What one run may measure, and how the files with its results are called."""

    name: str
    title: str
    notes: Sequence[str]
    figures: Sequence[str]


MAIN = Job("main-job", "The main job: figures", (NOTE,), FIGURES)
PEERS = Job("peers", "OpenOxide beside its peers: figures", peerjob.NOTES, peerjob.FIGURES)
NEVER_MISSES = Job("never-misses", "It never misses a change: figures", steadyjob.NOTES, steadyjob.FIGURES)
MEMORY = Job("memory", "Memory that every agent gets: figures", memoryjob.NOTES, memoryjob.FIGURES)
TERMINATED = 128 + signal.SIGTERM


def main(arguments: Sequence[str]) -> int:
    """Take the figures that ``arguments`` ask for; the exit status."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # unwinds, so that daemons end and scratch goes
    with tempfile.TemporaryDirectory(prefix="openoxide-bench-", dir=options.scratch) as scratch:
        report = _report(Path(scratch).resolve(), options, shlex.join([*PROGRAM.split(), *arguments]))
    print(report.markdown())
    results = options.results or (None if options.only or options.files else RESULTS)
    if results:
        report.write(results)
    return 1 if any(row.measured is None for row in report.rows) else 0


def _report(folder: Path, options: argparse.Namespace, command: str) -> Report:
    began, date = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    workshop = Workshop(folder, options.real_tree or Path(sysconfig.get_path("stdlib")), options.source)
    field = gather(options.candidates, Shelf(folder / "shelf")) if options.peers else Field([], [])
    with Stages(workshop) as stages:
        measured = [row for task in _tasks(workshop, field, stages, options) for row in rows(task)]
    job = _job(options)
    return Report(
        name=_name(job, options),
        title=job.title,
        notes=peerjob.notes(field) if options.peers else job.notes,
        date=date,
        machine=machine(folder),
        versions=versions() | field.versions,
        command=command,
        seconds=time.monotonic() - began,
        rows=measured,
    )


def _name(job: Job, options: argparse.Namespace) -> str:
    if options.source:
        return f"{job.name}-{options.source.name}"
    return f"{job.name}-{options.files}" if options.never_misses and options.files else job.name


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.source:
        options.source = options.source.resolve()
        options.files = len(files_of(options.source))
    figures = _job(options).figures
    unknown = sorted(set(options.only or ()) - set(figures))
    if unknown:
        parser.error(f"no figure {', '.join(unknown)} here; there are: {', '.join(figures)}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="The figures of the main job, or beside other tools.")
    jobs = parser.add_mutually_exclusive_group()
    jobs.add_argument("--peers", action="store_true", help="beside every other tool that is there")
    jobs.add_argument("--never-misses", action="store_true", help="what watching costs, at rest or with small changes")
    jobs.add_argument("--memory", action="store_true", help="what a project's notes cost")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, without the {LARGE:,} files; "
                        f"with --peers one round; with --never-misses without the {SMALL:,} files")  # fmt: skip
    parser.add_argument("--large", action="store_true", help=f"the {LARGE:,} files also with --quick or --peers")
    parser.add_argument("--only", nargs="+", metavar="FIGURE",
                        help=f"{' '.join(FIGURES)}; with --peers {' '.join(peerjob.FIGURES)}; "
                        f"with --never-misses {' '.join(steadyjob.FIGURES)}; "
                        f"with --memory {' '.join(memoryjob.FIGURES)}")  # fmt: skip
    parser.add_argument("--files", type=int, help="the size of every generated tree")
    parser.add_argument(
        "--source", type=Path, help="a real tree in the place of every generated one (with --peers --only first)"
    )
    parser.add_argument("--changed", type=int, default=CHANGED, help="files that a rewind brings back")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}, with --peers {peerjob.ROUNDS}; a round of "
                        "`checkpoint` is 100 checkpoints")  # fmt: skip
    parser.add_argument("--rest-seconds", type=float, default=steadyjob.REST_SECONDS,
                        help="how long `rest` looks at a daemon that does nothing (default: %(default)g)")  # fmt: skip
    parser.add_argument("--scratch", type=Path, help="where the scratch folder goes; its file system is measured")
    parser.add_argument("--real-tree", type=Path, help="a real tree for the size of the store (default: this Python's "
                        "standard library; with --peers the source of --requirement)")  # fmt: skip
    parser.add_argument("--requirement", default=peerjob.REQUIREMENT,
                        help=f"a source distribution from the package index (default: {peerjob.REQUIREMENT})")  # fmt: skip
    parser.add_argument("--states", type=int, default=peerjob.STATES,
                        help="checkpoints of a history; ten times as many for `scale`")  # fmt: skip
    parser.add_argument("--candidates", nargs="+", choices=NAMES, default=NAMES,
                        help="the product and these (default: all that are there; two are installed into scratch)")  # fmt: skip
    parser.add_argument("--results", type=Path, help="where to write (with --only or --files: nowhere by default)")
    return parser


def _job(options: argparse.Namespace) -> Job:
    if options.memory:
        return MEMORY
    return PEERS if options.peers else NEVER_MISSES if options.never_misses else MAIN


def _rounds(options: argparse.Namespace) -> int:
    return options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)


def _tasks(workshop: Workshop, field: Field, stages: Stages, options: argparse.Namespace) -> list[Task]:
    if options.peers:
        return peerjob.tasks(workshop, field, options)
    if options.never_misses:
        return steadyjob.tasks(stages, options)
    if options.memory:
        return memoryjob.tasks(workshop, options)
    return _main_job(workshop, options)


def _main_job(workshop: Workshop, options: argparse.Namespace) -> list[Task]:
    files, rounds = options.files or USUAL, _rounds(options)
    sizes = (SMALL, USUAL) if options.quick and not options.large else (SMALL, USUAL, LARGE)
    tasks = [
        *(_checkpoint(workshop, size, rounds) for size in ((options.files,) if options.files else sizes)),
        _strace(workshop, files, rounds),
        _capture(workshop, files, rounds),
        _rewind(workshop, files, min(options.changed, files // 2), rounds),
        _hook(workshop, options.files or SMALL, rounds),
        _store(workshop, options.real_tree or Path(sysconfig.get_path("stdlib"))),
        _repack(workshop),
        *_beside(workshop, files),
    ]
    return [task for task in tasks if not options.only or task.claims[0].figure in options.only]


def _checkpoint(workshop: Workshop, files: int, rounds: int) -> Task:
    what = "checkpoint with 1 changed file"
    return Task(
        program=PROGRAM,
        claims=(Claim(figure="checkpoint", what=what, files=files, targets={"in_daemon_ms_median": 3}),),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: (checkpointing.one_changed(workshop, files, rounds),),
    )


def _strace(workshop: Workshop, files: int, rounds: int) -> Task:
    targets = {"calls_on_unchanged_files": 0, "calls_on_others_in_the_tree": 0}
    return Task(
        program=PROGRAM,
        claims=(Claim(figure="strace", what="what a checkpoint looks at", files=files, targets=targets),),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: (checkpointing.traced(workshop, files, rounds),),
    )


def _capture(workshop: Workshop, files: int, rounds: int) -> Task:
    memory = {"rss_mb": 110}
    return Task(
        program=PROGRAM,
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
        program=PROGRAM,
        claims=(
            Claim(figure="rewind", what=f"{what}, scope session", files=files, targets=targets),
            Claim(figure="rewind", what=f"{what}, scope session, turn still open", files=files),
            Claim(figure="rewind", what=f"{what}, exact", files=files),
        ),
        rounds=rounds,
        again=f"--files {files} --changed {changed} --rounds {rounds}",
        measure=lambda: rewinding.rewind(workshop, files, changed, rounds),
    )


def _hook(workshop: Workshop, files: int, rounds: int) -> Task:
    targets = {"cpu_ratio": 1.5}
    return Task(
        program=PROGRAM,
        claims=tuple(
            Claim(figure="hook", what=f"hook: {what}", files=files, targets=targets) for what in hookcost.EVENTS
        ),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=lambda: hookcost.hooks(workshop, files, rounds),
    )


def _store(workshop: Workshop, tree: Path) -> Task:
    return Task(
        program=PROGRAM,
        claims=(Claim(figure="store", what=f"store after the first capture of a real tree, {tree.name}"),),
        rounds=1,
        again=f"--real-tree {shlex.quote(str(tree))}",
        measure=lambda: (capturing.real_store(workshop, workshop.real_tree()),),
    )


def _repack(workshop: Workshop) -> Task:
    what = f"store after {pruning.EDITS} edits of a line of a text of 1 MB, and a prune"
    return Task(
        program=PROGRAM,
        claims=(Claim(figure="repack", what=what, targets={"grown_kb": 150}),),
        rounds=1,
        again="",
        measure=lambda: (pruning.edits_of_a_text(workshop),),
    )


def _beside(workshop: Workshop, files: int) -> list[Task]:
    found = (
        ("prune", "a prune", pruning.checkpoints_beside),
        ("check", "a check --read-data", pruning.beside_a_check),
        ("expire", f"an expire of {pruning.EXPIRING:,}", pruning.beside_an_expire),
    )
    return [_one_beside(workshop, files, figure, what, measure) for figure, what, measure in found]


def _one_beside(
    workshop: Workshop, files: int, figure: str, what: str, measure: Callable[[Workshop, int], Measured]
) -> Task:
    what, targets = f"checkpoint with 1 changed file beside {what}", {"delay_ms_max": 20}
    return Task(
        program=PROGRAM,
        claims=(Claim(figure=figure, what=what, files=files, targets=targets),),
        rounds=1,
        again=f"--files {files}",
        measure=lambda: (measure(workshop, files),),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
