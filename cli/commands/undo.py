"""Walking the worktree's operations back and forth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import changes, colours, render
from openoxide.cli.confirm import PLAN_HINT, Ask, act, need_terminal, need_yes, show_plan
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer


def undo(
    cli: Cli,
    *,
    steps: Annotated[int, typer.Argument(metavar="N", min=1, help="so many operations")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would happen")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Take back the last N rewinds; what was written since stays, as a conflict.

    Example: oxide-ctl undo --dry-run
    """
    return _step(cli, "undo", "undone", partial(cli.client.undo, cli.path, count=steps), dry_run=dry_run, yes=yes)


def redo(
    cli: Cli,
    *,
    steps: Annotated[int, typer.Argument(metavar="N", min=1, help="so many operations")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would happen")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Do again what the last N undos took back.

    Example: oxide-ctl redo
    """
    return _step(cli, "redo", "redone", partial(cli.client.redo, cli.path, count=steps), dry_run=dry_run, yes=yes)


def operations(
    cli: Cli, *, limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="at most N")] = None
) -> int:
    """List the rewinds, undos and redos of the worktree, newest first, and how long each can be undone.

    Example: oxide-ctl operations --limit 5
    """
    answer = cli.client.operations(cli.path, limit=limit)
    cli.out.answer(answer, lambda: render.operations(answer["items"]))
    return EXIT_DONE


def _step(cli: Cli, what: str, done: str, ask: Ask, *, dry_run: bool, yes: bool) -> int:
    if dry_run:
        return show_plan(cli, ask(dry_run=True))
    if not yes:
        plan = ask(dry_run=True)
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(changes.plan(plan, verbose=cli.out.verbose), colours.CHANGES)
        need_yes(cli.out, f"{what}?")
        memory_seq = plan["memory"]["plan_seq"] if "memory" in plan else None
        ask = partial(ask, reverses=plan.get("reverses"), plan_seq=plan.get("plan_seq"), memory_seq=memory_seq)
    return act(cli, done, partial(ask, dry_run=False))
