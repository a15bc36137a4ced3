"""A measurement, the rows it answers, and what becomes of them when it fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from machine import load
from measuring import UnmeasuredError, said
from report import Claim, Measured, Row

from openoxide.errors import OpenOxideError

FAILURES = (UnmeasuredError, OpenOxideError, OSError, subprocess.SubprocessError)


Profile = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One measurement and the claims it answers; ``again`` is the command line that repeats it, without the figure.
    ``profiles`` tell, for each claim in order, what bounds the product there; they are taken when a target is missed.
    """

    program: str
    claims: Sequence[Claim]
    rounds: int
    again: str
    measure: Callable[[], Sequence[Measured | None]]
    profiles: Sequence[Profile] = ()


def rows(task: Task) -> Iterator[Row]:
    """Measure. What goes wrong in one figure is in its rows, and the others are still taken."""
    before = load()
    for claim in task.claims:
        print(claim.what + (f", {claim.files:,} files" if claim.files else "") + f" ({before})", file=sys.stderr)
    measured: Sequence[Measured | None]
    try:
        measured, failure = task.measure(), ""
    except FAILURES as error:
        measured, failure = [None] * len(task.claims), said(error)
    profiles = task.profiles or [None] * len(task.claims)
    for claim, found, profile in zip(task.claims, measured, profiles, strict=True):
        command = f"{task.program} --only {claim.figure} {task.again}"
        row = Row(claim=claim, rounds=task.rounds, load=before, command=command, measured=found, failure=failure)
        yield _with_profile(row, profile) if profile and row.missed else row


def _with_profile(row: Row, take: Profile) -> Row:
    try:
        return replace(row, profile=tuple(take()))
    except FAILURES as error:
        return replace(row, profile=(f"no profile: {said(error)}",))
