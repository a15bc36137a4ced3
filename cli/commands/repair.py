"""Making a damaged store whole again, as far as anything tells what was in it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import colours, findings
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import NO_AUTOSTART, Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, OpenOxideError

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.health import RepairAnswer


def repair(
    cli: Cli,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done, and what is lost")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Mend what `check` finds: look for lost contents in the store and in the watched trees, make the rows agree again, and
    mark what is gone for good. It works on a copy; the state before stays in the home. Exits with 3 if anything is lost.

    Example: oxide-ctl repair --dry-run
    """
    if dry_run:
        _show(cli, _asked(cli, dry_run=True))
        return EXIT_DONE
    if not yes:
        plan = _asked(cli, dry_run=True)
        if not plan["needed"]:
            return _show(cli, plan)
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(findings.repair(plan, verbose=cli.out.verbose))
        need_yes(cli.out, "repair?")
    # nobody else may have the store meanwhile: the time without a daemon is a gap, which its next start closes
    was_running = cli.stop_daemon()
    try:
        answer = _asked(cli, dry_run=False)
    finally:
        if was_running:
            _start_again(cli)
    return _show(cli, answer)


def _asked(cli: Cli, *, dry_run: bool) -> RepairAnswer:
    with cli.progress("looking" if dry_run else "repairing") as progress:
        return cli.client.repair(dry_run=dry_run, progress=progress)


def _show(cli: Cli, answer: RepairAnswer) -> int:
    cli.out.answer(answer, lambda: findings.repair(answer, verbose=cli.out.verbose), colours.DOCTOR)
    # rows that nothing can be said of any more are nowhere in `lost`
    is_less = answer["lost"] or any(fix["loses"] for fix in answer["fixes"])
    return EXIT_PARTIAL if is_less else EXIT_DONE


def _start_again(cli: Cli) -> None:
    if not os.environ.get(NO_AUTOSTART):
        with suppress(OpenOxideError):  # the next command says why it does not start
            cli.client.status()
