"""The figures beside every peer: which rows there are, their targets, and what is inside each.

A target that names no measure holds for CPU and for wall time.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

import histories
import profiles
from commands import COMMANDS, command_costs
from demo import fetch
from field import Field
from lives import BACK, FIRST, MANY, ONE, SOCKET, Lives, Plan, lives
from measuring import UnmeasuredError
from peers import FSMONITOR, GIT, PRODUCT
from report import Claim, Measured
from scaling import at_scale
from tasks import Task
from workshop import Workshop

USUAL, LARGE, MANY_PATHS = 20_000, 100_000, 100_000
ROUNDS, CHANGED, STATES, GROWTH_STATES, COMMAND_TIMES = 3, 1_000, 1_000, 20, 7
REQUIREMENT = "django==5.2.8"
FIGURES = ("first", "one", "socket", "many", "back", "diff", "log", "size", "growth", "scale", "command")
PROGRAM = "python benchmarks/run.py --peers"
RUNNING = "a whole process, the daemon running"
NOTES = (
    """All candidates took turns in one run, each time another one first, on fresh copies of one tree. CPU is user and
    system time of all processes that took part, from before the change until the daemon rested again; wall is what the
    caller waits. The values are medians, a ratio is one median by another, 'best' is the smallest of the peers. borg,
    stepback and unedit, which take longest, are in the first round only. On a busy machine trust ratios and CPU first,
    wall times second.""",
    """The making of an empty store (`git init`, `restic init`, `borg init`) is in no figure. The product's daemon is, as
    each row says: running before, or started within. It records nothing before it is asked, so all its work is inside.""",
    """The peers do less at some points: git and the tools on it do not wait for the disk and forget modes but for one
    bit, mtimes and empty folders; `git restore` cannot be undone. restic and borg keep owners too, restic encrypts.
    stepback waits for its own watcher for about two seconds: compare its CPU.""",
)


def tasks(workshop: Workshop, field: Field, options: argparse.Namespace) -> list[Task]:
    """Everything that ``options`` ask for."""
    files, rounds = options.files or USUAL, options.rounds or (1 if options.quick else ROUNDS)
    found = [
        _lives(workshop, field, files, rounds, min(options.changed, files // 2)),
        *([_large(workshop, field, rounds)] if options.large else []),
        _history(workshop, field, files, min(options.states, files)),
        _sizes(workshop, field, options),
        _scale(workshop, options.files or MANY_PATHS, 10 * options.states),
        _commands(workshop, min(files, 2_000)),
    ]
    return [task for task in found if not options.only or {claim.figure for claim in task.claims} & set(options.only)]


def notes(field: Field) -> tuple[str, ...]:
    """What a reader has to know, with who was left out."""
    return (*NOTES, f"Left out: {'; '.join(field.left_out) or 'nobody'}.")


def both(ratio: float, versus: str) -> dict[str, float]:
    """A target for CPU and wall time."""
    return {f"{measure}_ratio_to_{versus}": ratio for measure in ("cpu", "wall")}


def _lives(workshop: Workshop, field: Field, files: int, rounds: int, changed: int) -> Task:
    first = {"cpu_ratio_to_git": 0.25, "cpu_ratio_to_restic": 0.35, "wall_ratio_to_restic": 0.5}
    one_profile = cache(partial(profiles.one_changed, workshop, files))
    one, many = "checkpoint with 1 changed file", f"checkpoint with {changed:,} changed files"
    return Task(
        program=PROGRAM,
        claims=(
            Claim(figure=FIRST, what="first capture", files=files, targets=first),
            Claim(figure=ONE, what=one, files=files, targets=both(0.4, "git")),
            Claim(figure=SOCKET, what=f"{one}, by the socket", files=files, targets=both(0.05, "git")),
            Claim(figure=MANY, what=many, files=files, targets=both(0.3, "best")),
            Claim(figure=BACK, what=f"rewind of {changed:,} files", files=files, targets=both(0.5, "git")),
        ),
        rounds=rounds,
        again=f"{workshop.asked(files)} --changed {changed} --rounds {rounds}",
        measure=lambda: _rows_of(lives(workshop, field, files, rounds, Plan(changed=changed))),
        profiles=(
            lambda: profiles.first_capture(workshop, files),
            one_profile,
            one_profile,
            lambda: profiles.many_changed(workshop, files, changed),
            lambda: profiles.rewind(workshop, files, changed),
        ),
    )


def _rows_of(found: Lives) -> list[Measured]:
    return [
        found.measured(FIRST, "`oxide-ctl watch`; CPU with the start of the daemon, wall with the daemon running"),
        found.measured(ONE, RUNNING),
        found.measured(SOCKET, "one request of a program that runs already, the daemon running; git's four commands", ONE),
        found.measured(MANY, f"{RUNNING}; the changes were on disk before"),
        found.measured(BACK, f"{RUNNING}; scope all; durable and undoable; the states were recorded before; "
                             "CPU with the deleting of the staging folder"),
    ]  # fmt: skip


def _large(workshop: Workshop, field: Field, rounds: int) -> Task:
    plan, claim = Plan(changed=0, socket_ones=0, ones=5, ends_with=ONE), "checkpoint with 1 changed file"
    return Task(
        program=PROGRAM,
        claims=(Claim(figure=ONE, what=claim, files=LARGE, targets=both(0.1, "git")),),
        rounds=min(rounds, 2),
        again=f"--large --rounds {rounds}",
        measure=lambda: [
            lives(workshop, field, LARGE, min(rounds, 2), plan, (PRODUCT, GIT, FSMONITOR)).measured(ONE, RUNNING)
        ],
        profiles=(lambda: profiles.one_changed(workshop, LARGE),),
    )


def _history(workshop: Workshop, field: Field, files: int, states: int) -> Task:
    targets = both(0.5, "git")
    return Task(
        program=PROGRAM,
        claims=(
            Claim(figure="diff", what=f"names that differ, {states:,} apart", files=files, targets=targets),
            Claim(figure="log", what=f"log with {states:,} checkpoints", files=files, targets=targets),
        ),
        rounds=histories.TIMES,
        again=f"--files {files} --states {states}",
        measure=lambda: histories.history(workshop, field, files, states),
        profiles=(
            lambda: profiles.look_back(workshop, files, states, "diff"),
            lambda: profiles.look_back(workshop, files, states, "log"),
        ),
    )


def _sizes(workshop: Workshop, field: Field, options: argparse.Namespace) -> Task:
    real = options.real_tree.name if options.real_tree else options.requirement
    again = f"--real-tree {shlex.quote(str(options.real_tree))}" if options.real_tree else f"--requirement {real}"
    size = {"ratio_to_git": 0.55, "ratio_to_restic": 1.0}
    return Task(
        program=PROGRAM,
        claims=(
            Claim(figure="size", what=f"store after the first capture of {real}", targets=size),
            Claim(
                figure="growth",
                what=f"growth of it with a checkpoint of 1 changed file of {real}",
                targets={"ratio_to_restic": 0.25, "ratio_to_git": 0.2},
            ),
        ),
        rounds=1,
        again=again,
        measure=lambda: histories.sizes(workshop, field, _real_tree(workshop, options), GROWTH_STATES),
        profiles=(lambda: profiles.bytes_of(workshop, _real_tree(workshop, options)),) * 2,
    )


def _real_tree(workshop: Workshop, options: argparse.Namespace) -> Path:
    if options.real_tree:
        return workshop.real_tree()
    folder = workshop.scratch / "source"
    if folder.exists():
        return next((folder / "project").iterdir())
    folder.mkdir()
    tree = fetch(options.requirement, folder)
    if tree is None:
        raise UnmeasuredError(f"no package index gives {options.requirement}")
    return tree


def _scale(workshop: Workshop, paths: int, checkpoints: int) -> Task:
    targets: Mapping[str, float] = {
        "seal_ms_median": 2,
        "diff_ms_median": 2,
        "timeline_mb": 12,
        "blob_index_bytes_a_blob": 100,
    }
    return Task(
        program=PROGRAM,
        claims=(
            Claim(figure="scale", what=f"{checkpoints:,} checkpoints on {paths:,} paths", files=paths, targets=targets),
        ),
        rounds=1,
        again=f"--files {paths} --states {checkpoints // 10}",
        measure=lambda: [at_scale(workshop.scratch / "scale", paths, checkpoints)],
        profiles=(lambda: profiles.scale(workshop.scratch / "scale-sampled", paths, checkpoints // 10),),
    )


def _commands(workshop: Workshop, files: int) -> Task:
    limits = {("--help",): 250.0}
    return Task(
        program=PROGRAM,
        claims=tuple(
            Claim(figure="command", what=f"`oxide-ctl {' '.join(words)}`", files=files,
                  targets={"cpu_ms": limits.get(words, 60.0)})
            for words in COMMANDS
        ),
        rounds=COMMAND_TIMES,
        again=f"--files {files}",
        measure=lambda: command_costs(workshop, files, COMMAND_TIMES),
        profiles=tuple(partial(profiles.client, workshop, files, *words) for words in COMMANDS),
    )  # fmt: skip
