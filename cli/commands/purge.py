"""Removing contents everywhere, on purpose."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import places
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, UsageError, from_object

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.purges import PurgeAnswer


def purge(
    cli: Cli,
    *,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="every content that they, and what is below, ever had")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="PATHs are notes of the memory: every version but the one that stands")
    ] = False,
    blob: Annotated[
        list[str] | None, typer.Option("--blob", metavar="HASH", help="one content, as `history PATH --json` names it")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would go, and from where")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Remove contents from everywhere in the home, for good: no undo brings them back. `purged` stays in their place in every
    history and checkpoint. What stands on the disk still is refused: it would be recorded again. Of a note of the memory every
    older version goes, with what holds the same secret.

    Example: oxide-ctl purge .env --dry-run
    """
    if bool(files) == bool(blob):
        raise UsageError("either PATH or --blob HASH is needed", hint="`oxide-ctl purge .env`, for example")
    if memory and blob:
        raise UsageError("--memory goes with names of notes, not with --blob", hint="a hash is looked for everywhere")
    notes = list(files or ()) if memory else []
    named = [] if memory else [cli.absolute(file) for file in files or ()]
    ask = partial(cli.client.purge, cli.path, paths=named, memory=notes, blobs=blob or [])
    if dry_run:
        return _answer(cli, ask(dry_run=True))
    plan = None
    if not yes:
        # before the question: what no yes would mend is told first
        shown = ask(dry_run=True)
        if shown["refused"]:
            raise from_object(shown["refused"])
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(places.purge(shown, verbose=cli.out.verbose))
        need_yes(cli.out, "purge, for good?")
        plan = shown["plan"]
    with cli.progress("purging") as progress:
        done = ask(dry_run=False, plan=plan, progress=progress)
    return _answer(cli, done)


def _answer(cli: Cli, answer: PurgeAnswer) -> int:
    cli.out.answer(answer, lambda: cli.out.proposed(places.purge(answer, verbose=cli.out.verbose)))
    is_left = bool(answer["left"]) or not answer["finished"]
    return EXIT_PARTIAL if is_left and not answer["dry_run"] else EXIT_DONE
