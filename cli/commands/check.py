"""Whether the store holds what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from openoxide.cli import colours, findings
from openoxide.cli.context import Cli
from openoxide.cli.units import count
from openoxide.errors import EXIT_CODES, EXIT_DONE, EXIT_FAILED, FailedError, StoreDamagedError, UsageError
from openoxide.health import ERROR

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol import Progress

_DAMAGED = EXIT_CODES[StoreDamagedError]


def check(
    cli: Cli,
    *,
    read_data: Annotated[
        bool, typer.Option("--read-data", help="read every content, and compare it with its name")
    ] = False,
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="N%", help="read so much of it, drawn at random")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="draw the sample that was drawn with N before")
    ] = None,
) -> int:
    """Look whether the store holds what it says, and change nothing: rows against each other, sums against states, places
    against packs. Exits with 7 if it is damaged, with 1 if there is less to be said.

    Example: oxide-ctl check --sample 5%
    """
    if seed is not None and sample is None:
        raise UsageError("--seed goes with --sample")
    percent = None if sample is None else _percent(sample)
    with cli.progress("checking") as progress:
        # asked for always: a daemon that tells nothing for ten minutes counts as one that hangs (daemon.caller)
        found = cli.client.check(read_data=read_data, sample=percent, seed=seed, progress=progress or _unseen)
    damaged = any(problem["severity"] == ERROR for problem in found["problems"])
    answer: dict[str, Any] = {**found, "ok": not found["problems"]}
    if found["problems"]:
        kind = StoreDamagedError.kind if damaged else FailedError.kind
        text = f"{count(found['problem_count'], 'problem')} found"
        answer["error"] = {"kind": kind, "message": text, "hint": found["problems"][0]["hint"]}
    cli.out.answer(answer, lambda: findings.check(found, verbose=cli.out.verbose), colours.DOCTOR)
    return _DAMAGED if damaged else EXIT_FAILED if found["problems"] else EXIT_DONE


def _unseen(_progress: Progress) -> None:
    """Nobody watches."""


def _percent(typed: str) -> float:
    try:
        return float(typed.removesuffix("%"))
    except ValueError:
        raise UsageError(f"{typed!r} is no percentage", hint="as in `--sample 5%`") from None
