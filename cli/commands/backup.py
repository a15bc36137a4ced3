"""A copy of the home elsewhere, and a home out of such a copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, cast

from openoxide.cli import backups
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL
from openoxide.paths import home_from

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol import Progress, ProgressCallback
    from openoxide.daemon.protocol.backups import RestoreHomeAnswer


def backup(
    cli: Cli,
    *,
    to: Annotated[str, typer.Argument(metavar="DIR", help="a new or empty folder, or one with a backup of this home")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say how much would be copied")] = False,
) -> int:
    """Copy the whole home into a folder while the daemon records; into one that holds a backup, only what is new.

    Example: oxide-ctl backup /mnt/disk/openoxide
    """
    with cli.progress("copying") as progress:
        # asked for always: a daemon that tells nothing for ten minutes counts as one that hangs (daemon.caller)
        answer = cli.client.backup(cli.absolute(to), dry_run=dry_run, progress=progress or _unseen)
    cli.out.answer(answer, lambda: backups.backup(answer, verbose=cli.out.verbose))
    for note in answer["notes"]:
        cli.out.note(f"note: {note}")
    return EXIT_PARTIAL if answer["skipped"] or answer["damaged"] else EXIT_DONE


def restore_home(
    cli: Cli,
    *,
    source: Annotated[str, typer.Argument(metavar="DIR", help="the folder that a backup is in")],
    home: Annotated[
        str | None, typer.Option("--home", metavar="DIR", help="make this folder the home (default: OPENOXIDE_HOME)")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="read all of the backup, write nothing; the place may be taken")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Make a home out of a backup: a new or empty folder, which is whole or not there at all. Needs no daemon.

    Example: oxide-ctl restore-home /mnt/disk/openoxide --dry-run
    """
    place = cli.absolute(home) if home is not None else str(home_from(os.environ).folder)
    request = {"source": cli.absolute(source), "home": place}
    if not dry_run and not yes:
        planned = _restore({**request, "planned": True}, _unseen)
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(backups.restored(planned, planned=True))
        need_yes(cli.out, "put it there?")
    with cli.progress("restoring") as progress:
        answer = _restore({**request, "dry_run": dry_run}, progress or _unseen)
    cli.out.answer(answer, lambda: backups.restored(answer))
    for note in answer["notes"]:
        cli.out.note(f"note: {note}")
    return EXIT_DONE


def _restore(request: dict[str, object], progress: ProgressCallback) -> RestoreHomeAnswer:
    from openoxide.daemon import offline  # noqa: PLC0415 half of the daemon comes with it

    return cast("RestoreHomeAnswer", offline.restore_home(request, progress))


def _unseen(_progress: Progress) -> None:
    """Nobody watches."""
