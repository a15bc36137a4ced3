"""Giving space back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import usage
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.health import PruneAnswer


def prune(
    cli: Cli,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would happen")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Free the bytes that nothing needs any more: states that no checkpoint holds, older than a day or given up for a quota,
    and contents that no state names. Every checkpoint stays as it is, those in trash too. Exits with 3 where something is left
    for want of room on the disk.

    Example: oxide-ctl prune --dry-run
    """
    if dry_run or not yes:
        plan = cli.client.prune(dry_run=True)
        if dry_run:
            return _answer(cli, plan)
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(usage.prune(plan))
        need_yes(cli.out, "prune?")
    return _answer(cli, cli.client.prune(dry_run=False))


def _answer(cli: Cli, answer: PruneAnswer) -> int:
    cli.out.answer(answer, lambda: cli.out.proposed(usage.prune(answer)))
    return EXIT_PARTIAL if answer.get("lacking_bytes") and not answer["dry_run"] else EXIT_DONE
