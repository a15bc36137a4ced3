"""The figures of a project's memory (docs/design/006-memory.md): which rows there are, and their targets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import notetakers
import remembering
import sealing
from remembering import AGENTS, FEW, HOOKED, MANY, SAVES
from report import Claim, Measured
from tasks import Task
from workshop import Workshop

FILES, ROUNDS, QUICK_ROUNDS = 2_000, 5, 3
PROGRAM = "python benchmarks/run.py --memory"
NOTES = (
    """Every memory belongs to a project of a daemon with its default settings; topics have 2 KB each, `files` are those of the
    project's tree. What is compared took turns in one run, each time another one first. On a busy machine trust differences
    and CPU first, wall times second.""",
    """No other memory is measured beside it: those that could be (`basic-memory`) need a newer Python than this product
    does, or a model or a network.""",
)


class Row(NamedTuple):
    """What a figure says, and the most that each of these values may be."""

    what: str
    targets: Mapping[str, float]


class Figure(NamedTuple):
    """``measure`` is given the size of a tree and how many rounds; it answers every row."""

    rows: Sequence[Row]
    measure: Callable[[Workshop, int, int], Sequence[Measured]]


TABLE: Mapping[str, Figure] = {
    "index": Figure(
        (
            Row("load of an index of 200 lines", {"ms_median": 5}),
            Row("load of an index of 1 MB", {"ms_median": 5}),
            Row("`oxide-ctl memory index`", {}),
        ),
        remembering.index,
    ),
    "context": Figure(
        (
            *(Row(f"context of {FEW} topics for {agent}", {}) for agent in AGENTS),
            *(Row(f"hook: start of a session of {agent}, with {FEW} topics", {"unanswered": 0}) for agent in HOOKED),
        ),
        remembering.context,
    ),
    "search": Figure(
        (
            Row(f"first search over {MANY:,} topics after a start", {}),
            Row(f"search over {MANY:,} topics after a change of one", {}),
        ),
        remembering.search,
    ),
    "save": Figure((Row(f"save of a new topic, {SAVES} in a row", {}),), remembering.saves),
    "append": Figure(
        (
            Row(f"append by {notetakers.WRITERS} processes, by the library", {"wrong": 0}),
            Row(f"append by {notetakers.WRITERS} processes, by the socket", {"wrong": 0}),
        ),
        notetakers.appends,
    ),
    "seal": Figure(
        (
            Row(f"checkpoint with 1 changed file: what a memory of {FEW} topics adds", {}),
            Row(f"checkpoint with nothing changed: what a memory of {FEW} topics adds", {}),
        ),
        sealing.beside_code,
    ),
}
FIGURES = tuple(TABLE)


def tasks(workshop: Workshop, options: argparse.Namespace) -> list[Task]:
    """Everything that ``options`` ask for."""
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    wanted = options.only or FIGURES
    return [_task(workshop, name, options.files or FILES, rounds) for name in FIGURES if name in wanted]


def _task(workshop: Workshop, name: str, files: int, rounds: int) -> Task:
    figure = TABLE[name]
    return Task(
        program=PROGRAM,
        claims=tuple(Claim(figure=name, what=row.what, files=files, targets=row.targets) for row in figure.rows),
        rounds=rounds,
        again=f"--files {files} --rounds {rounds}",
        measure=partial(figure.measure, workshop, files, rounds),
    )
