"""Nothing that needs a yes happens without one: ``--yes``, or an answer on a terminal after the plan was shown there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openoxide.cli import changes, colours
from openoxide.cli.context import Cli
from openoxide.cli.output import Output
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, RefusedError

if TYPE_CHECKING:
    from openoxide.daemon.protocol.rewinds import RewindAnswer

Ask = Callable[..., "RewindAnswer"]
"""A method of the client that plans and does, lacking what differs between the two."""

YES_HINT = "--yes does it without a question"
PLAN_HINT = f"--dry-run shows the plan; {YES_HINT}"


def need_yes(out: Output, question: str) -> None:
    """Returns after a yes; without somebody to ask, or after anything else, it is a refusal. What no yes would mend is for
    the caller to find out first.
    """
    need_terminal(out, YES_HINT)
    if not out.agreed(question):
        raise RefusedError("not confirmed, nothing was changed", hint=YES_HINT)


def need_terminal(out: Output, hint: str) -> None:
    """Refuses where nobody is there to answer."""
    if not out.may_ask:
        raise RefusedError("this needs a yes, and there is no terminal to ask on", hint=hint)


def show_plan(cli: Cli, plan: RewindAnswer) -> int:
    """A dry run's answer: nothing was done, so nothing was done in part."""
    cli.out.answer(plan, lambda: cli.out.proposed(changes.plan(plan, verbose=cli.out.verbose)), colours.CHANGES)
    _say_what_next(cli.out, plan)
    return EXIT_DONE


def act(cli: Cli, done: str, ask: Ask) -> int:
    """Has the daemon do it, and tells what was done (``done``: the word for it).

    A conflict means that it was done in part; files that stay because they are newer do not mean that.
    """
    with cli.progress("working") as progress:
        answer = ask(progress=progress)
    cli.out.answer(
        answer, lambda: cli.out.proposed(changes.done(answer, done, verbose=cli.out.verbose)), colours.CHANGES
    )
    _say_what_next(cli.out, answer)
    in_memory = "memory" in answer and answer["memory"]["conflicts"]
    return EXIT_PARTIAL if answer["conflicts"] or in_memory else EXIT_DONE


def _say_what_next(out: Output, answer: RewindAnswer) -> None:
    out.hint(answer.get("hint", ""))
    if answer["kind"] == "rewind" and stays_newer(answer):
        out.hint("newer files stay; --exact removes them too")


def stays_newer(answer: RewindAnswer) -> bool:
    """Whether files stay only because they are newer than the checkpoint."""
    return answer["scope"] == "all" and not answer["exact"] and bool(answer["kept"])
