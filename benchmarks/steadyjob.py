"""The figures of "it never misses a change, and nobody notices it" (docs/design/004-never-misses.md): which rows there
are, at which sizes, and their targets. What others measure already is named in the notes and not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import passes
import steady
import turns
from report import Claim, Measured
from stage import Stage, Stages
from tasks import Task

SMALL, USUAL, LARGE = 2_000, 20_000, 100_000
ROUNDS, QUICK_ROUNDS, HOOKS_IN_ROUND = 5, 3, 2
REST_SECONDS = 60.0
PROGRAM = "python benchmarks/run.py --never-misses"
NOTES = (
    """The figures of one size share one generated tree, one daemon with its default settings and one shadow repository.
    A round is 100 checkpoints, 2 hooks, one full pass. CPU is user and system time of all processes that took part, the
    daemon's background work included until it rests; what is compared took turns, each time another one first. On a busy
    machine trust ratios and CPU first, wall times second.""",
    """Measured elsewhere: the first capture, CPU and wall time, beside git and restic is `first`, and `oxide-ctl status`,
    `log` and `checkpoint` are `command`, both of `python benchmarks/run.py --peers` (peers.md); what any other hook costs
    is `hook` of `python benchmarks/run.py` (main-job.md).""",
)


class Asked(NamedTuple):
    """How much is to be measured."""

    files: int
    rounds: int
    rest_seconds: float


class Row(NamedTuple):
    """What a figure says, and its targets at a size."""

    what: str
    targets: Callable[[int], Mapping[str, float]]


class Figure(NamedTuple):
    """``sizes``: where it is taken if no size was asked for."""

    rows: Sequence[Row]
    sizes: Sequence[int]
    measure: Callable[[Stage, Asked], Sequence[Measured]]


def _always(**targets: float) -> Callable[[int], Mapping[str, float]]:
    return lambda _: targets


def _memory(files: int) -> Mapping[str, float]:
    return {"rss_mb": 150 if files <= LARGE else 600}


def _turn(files: int) -> Mapping[str, float]:
    most = {USUAL: 0.15, LARGE: 0.03}.get(files)
    return {} if most is None else {"cpu_ratio": most}


ONE = "checkpoint with 1 changed file"
ALL = (SMALL, USUAL, LARGE)
TABLE: Mapping[str, Figure] = {
    "rest": Figure(
        (Row("CPU at rest", _always(cpu_percent=0.1)), Row("memory at rest", _memory)),
        (LARGE,),
        lambda stage, asked: steady.at_rest(stage, asked.rest_seconds),
    ),
    "added": Figure(
        (Row("checkpoint with 1 added file: exactly that", _always(wrong=0)),),
        (LARGE,),
        lambda stage, asked: (steady.one_added(stage, asked.rounds),),
    ),
    "one": Figure(
        (Row(ONE, _always(in_daemon_ms_median=2, in_daemon_ms_p99=10)),),
        ALL,
        lambda stage, asked: (steady.one_changed(stage, asked.rounds),),
    ),
    "readers": Figure(
        (Row(f"{ONE}, beside {steady.READERS} reading clients", _always(write_to_durable_ms_p99=30)),),
        ALL,
        lambda stage, asked: (steady.beside_readers(stage, asked.rounds),),
    ),
    "nothing": Figure(
        (Row("checkpoint with nothing changed", _always(in_daemon_ms_median=1)),),
        ALL,
        lambda stage, asked: (steady.nothing_changed(stage, asked.rounds),),
    ),
    "turn": Figure(
        (Row("begin of a turn with 1 changed file, by a hook", _turn),),
        (USUAL, LARGE),
        lambda stage, asked: (turns.begins(stage, asked.rounds * HOOKS_IN_ROUND),),
    ),
    "pass": Figure(
        (Row("full pass with nothing changed", _always(cpu_ratio=1.5)),),
        (LARGE,),
        lambda stage, asked: (passes.beside_git(stage, asked.rounds),),
    ),
    "rules": Figure(
        (Row(f"full pass with {passes.MANY} ignore rules against {passes.FEW}", _always(cpu_ratio=1.2)),),
        (LARGE,),
        lambda stage, asked: (passes.with_rules(stage, asked.rounds),),
    ),
}
FIGURES = tuple(TABLE)


def tasks(stages: Stages, options: argparse.Namespace) -> list[Task]:
    """Everything that ``options`` ask for, a size after the other."""
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    sizes = (options.files,) if options.files else ALL[1:] if options.quick else ALL
    return [
        _task(stages, name, Asked(size, rounds, options.rest_seconds))
        for size in sizes
        for name, figure in TABLE.items()
        if (options.files or size in figure.sizes) and name in (options.only or FIGURES)
    ]


def _task(stages: Stages, name: str, asked: Asked) -> Task:
    figure, files = TABLE[name], asked.files
    claims = tuple(Claim(figure=name, what=row.what, files=files, targets=row.targets(files)) for row in figure.rows)
    rest = f" --rest-seconds {asked.rest_seconds:g}" if name == "rest" else ""
    return Task(
        program=PROGRAM,
        claims=claims,
        rounds=1 if name == "rest" else asked.rounds,
        again=f"--files {files} --rounds {asked.rounds}{rest}",
        measure=lambda: figure.measure(stages.at(files), asked),
    )
