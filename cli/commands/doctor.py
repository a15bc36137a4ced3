"""Looking for what is wrong: the daemon tells what it sees, and this side what it sees of the daemon."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from openoxide import __version__
from openoxide.cli import colours, reports
from openoxide.cli.context import Cli
from openoxide.cli.units import count
from openoxide.daemon.protocol import STOP_HINT, printable
from openoxide.errors import EXIT_DONE, EXIT_FAILED, OpenOxideError
from openoxide.health import ERROR, NOTE, WARNING, Problem, foreign_problems, home_problems, side_problems
from openoxide.paths import home_from
from openoxide.surroundings import Side, this_side

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.health import DoctorAnswer

_ORDER = (ERROR, WARNING, NOTE)


def doctor(
    cli: Cli,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="repair what can be repaired without taking anything away")
    ] = False,
) -> int:
    """Look for what is wrong with the daemon, its home and the watched trees. Exits with 1 if there is anything.

    Example: oxide-ctl doctor --fix
    """
    found, daemon = _looked(cli, fix=fix)
    problems = sorted(found, key=lambda problem: (problem.fixed, _ORDER.index(problem.severity)))
    wrong = [problem for problem in problems if not problem.fixed and problem.severity != NOTE]
    answer: dict[str, Any] = {
        "ok": not wrong,
        "problems": [_object(problem) for problem in problems],
        "daemon": daemon,
    }
    if wrong:
        answer["error"] = {"kind": "failed", "message": f"{count(len(wrong), 'problem')} found", "hint": wrong[0].hint}
    cli.out.answer(answer, lambda: reports.doctor(answer), colours.DOCTOR)
    return EXIT_FAILED if wrong else EXIT_DONE


def _looked(cli: Cli, *, fix: bool) -> tuple[Sequence[Problem], dict[str, Any] | None]:
    """The problems and the daemon; where none answers, what can be seen without one."""
    ours, home = this_side(os.environ), home_from(os.environ)
    if foreign := foreign_problems(home):  # a daemon would make it its own
        return foreign, None
    try:
        answer = cli.client.doctor(fix=fix)
    except OpenOxideError as error:
        unanswered = Problem(error.kind, ERROR, error.message, error.hint)
        return [unanswered, *home_problems(home, fix=fix), *side_problems(ours, Side())], None
    return [*_told(answer), *_version(answer), *side_problems(ours, _side(answer))], answer["daemon"]


def _told(answer: DoctorAnswer) -> list[Problem]:
    return [Problem._make(problem[name] for name in Problem._fields) for problem in answer["problems"]]


def _object(problem: Problem) -> dict[str, Any]:
    return {**problem._asdict(), "message": printable(problem.message), "hint": printable(problem.hint)}


def _side(answer: DoctorAnswer) -> Side:
    """Where the daemon runs; what a later version says besides is not for us."""
    return Side(**{name: value for name, value in answer["daemon"]["side"].items() if name in Side._fields})


def _version(answer: DoctorAnswer) -> list[Problem]:
    theirs = answer["daemon"]["version"]
    if theirs == __version__:
        return []
    return [Problem("version", WARNING, f"the daemon has version {theirs}, this command {__version__}", STOP_HINT)]
