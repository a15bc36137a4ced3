"""Which projects there are, and whose history is whose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render, reports
from openoxide.cli.confirm import need_yes
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, RefusedError

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.projects import MoveAnswer


def projects(cli: Cli) -> int:
    """List all known projects and worktrees; says where one that is gone may be now.

    Example: oxide-ctl projects
    """
    answer = cli.client.projects()
    cli.out.answer(answer, lambda: render.projects(answer["items"], cli.now))
    for item in answer["items"]:
        for likely in item.get("lookalikes", ()):
            cli.out.note(reports.lookalike(item["root"], likely["root"], likely["reason"]))
    return EXIT_DONE


def move(
    cli: Cli,
    *,
    old: Annotated[str, typer.Argument(metavar="OLD", help="where it was watched")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="where it is now; OLD again for a directory made anew")],
    history: Annotated[
        int | None, typer.Option("--history", min=1, metavar="ID", help="which one, where several stood at OLD")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="also though the tree still is at OLD")] = False,
) -> int:
    """Let the history of a project directory that was moved, copied or made anew go on where it is now.

    Example: oxide-ctl projects move ~/src/my-app ~/work/my-app
    """
    answer = _moved(cli, cli.absolute(old), cli.absolute(new), history, yes=yes)
    cli.out.answer(answer, lambda: render.moved(answer, cli.now))
    return EXIT_DONE


def _moved(cli: Cli, old: str, new: str, history: int | None, *, yes: bool) -> MoveAnswer:
    try:
        with cli.progress("comparing") as report:
            return cli.client.move_project(old, new, history=history, yes=yes, progress=report)
    except RefusedError as error:
        if not error.details.get("still_there") or not cli.out.may_ask:
            raise
        need_yes(cli.out, f"{error.message}; move its history all the same?")
        return _moved(cli, old, new, history, yes=True)


def join(
    cli: Cli,
    *,
    first: Annotated[str, typer.Argument(metavar="A", help="a worktree, also one that is gone")],
    second: Annotated[str, typer.Argument(metavar="B", help="another")],
) -> int:
    """Declare two worktrees one project. Each keeps its own history.

    Example: oxide-ctl projects join ~/src/my-app ~/src/my-app-2
    """
    answer = cli.client.join_projects(cli.absolute(first), cli.absolute(second))
    cli.out.answer(answer, lambda: render.joined(answer))
    return EXIT_DONE
