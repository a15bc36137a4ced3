"""Which directory trees are watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render, reports
from openoxide.cli.confirm import need_yes
from openoxide.cli.context import Cli
from openoxide.cli.units import count
from openoxide.daemon.protocol import printable
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.projects import Lookalike


def watch(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="default: the working directory")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be copied")] = False,
    allow_broad: Annotated[bool, typer.Option("--allow-broad", help="also the home directory, / and above")] = False,
) -> int:
    """Watch a directory tree; returns when its first checkpoint is sealed.

    Example: oxide-ctl watch ~/src/my-app --dry-run
    """
    if dry_run:
        return _survey(cli, cli.absolute(path), allow_broad=allow_broad)
    with cli.progress("capturing") as report:
        answer = cli.client.watch(cli.absolute(path), allow_broad=allow_broad, progress=report)
    for note in answer["notes"]:
        cli.out.note(note)
    quiet = cli.out.quiet
    cli.out.answer(answer, lambda: answer["checkpoint"]["id"] if quiet else render.watch(answer, cli.now))
    _mention(cli, answer["root"], answer["lookalikes"])
    return EXIT_DONE


def _survey(cli: Cli, root: str, *, allow_broad: bool) -> int:
    with cli.progress("looking") as report:
        answer = cli.client.survey(root, allow_broad=allow_broad, progress=report)
    cli.out.answer(answer, lambda: reports.survey(answer, verbose=cli.out.verbose))
    _mention(cli, answer["root"], answer["lookalikes"])
    if answer["secrets"]:
        cli.out.hint("what must not be copied is named in `.oxideignore`, in the syntax of `.gitignore`")
        if answer["watching"]:
            cli.out.hint(
                "copies that were made stay; `oxide-ctl unwatch --delete-history` takes those away that share no pack with "
                "another project's history, `oxide-ctl uninstall` all of them"
            )
    return EXIT_DONE


def _mention(cli: Cli, root: str, lookalikes: Sequence[Lookalike]) -> None:
    for likely in lookalikes:
        cli.out.note(reports.lookalike(likely["root"], root, likely["reason"]))


def unwatch(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="default: the working directory")] = None,
    delete_history: Annotated[bool, typer.Option("--delete-history", help="delete its checkpoints too")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Stop watching a directory tree; its history stays unless you say otherwise.

    Example: oxide-ctl unwatch ~/src/my-app
    """
    root = cli.absolute(path)
    if dry_run:
        plan = cli.client.unwatch(root, delete_history=delete_history, dry_run=True)
        cli.out.answer(plan, lambda: cli.out.proposed(reports.unwatching(plan, delete_history=delete_history)))
        return EXIT_DONE
    if delete_history and not yes:
        would = cli.client.unwatch(root, delete_history=True, dry_run=True)
        history = f"the whole history of {printable(root)}, {count(would['checkpoints'], 'checkpoint')}"
        versions = sum(notes["versions"] for notes in would["memories"] if notes["history_deleted"])
        if versions:
            history += f", and that of its notes, {count(versions, 'version')}"
        need_yes(cli.out, f"delete {history}? this cannot be undone")
    answer = cli.client.unwatch(root, delete_history=delete_history)
    cli.out.answer(answer, lambda: reports.unwatched(answer))
    return EXIT_DONE
