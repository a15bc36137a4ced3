"""Which notes hold: what agents wrote and nobody has accepted, and what the user says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import notes
from openoxide.cli.confirm import need_yes
from openoxide.cli.context import Cli
from openoxide.cli.units import count
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, UsageError

if TYPE_CHECKING:
    import typer

IF_HASH = "only if it is still what was read (`hash` of --json)"


def review(
    cli: Cli,
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="which files, with one of the two")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="they hold as they are now")] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="back to what was last vouched for, or to the trash")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="all that wait")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="reject without a question")] = False,
) -> int:
    """List the notes that an agent wrote and nobody has accepted; accept or reject them.

    Example: oxide-ctl memory review --accept debugging.md
    """
    chosen = names or []
    if accept and reject:
        raise UsageError("--accept and --reject exclude each other")
    if (accept or reject) is not (bool(chosen) or every):
        raise UsageError(
            "NAMEs or --all go with --accept or --reject", hint="`oxide-ctl memory review` lists what waits"
        )
    if chosen and every:
        raise UsageError("--all takes no NAMEs")
    if accept:
        return _mark(cli, chosen, "verified", every=every)
    if reject:
        return _reject(cli, chosen, every=every, yes=yes)
    answer = cli.client.memory_review(cli.path)
    cli.out.answer(answer, lambda: notes.review(answer["items"]))
    return EXIT_DONE


def verify(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="MEMORY.md or a topic")],
    if_hash: Annotated[str | None, typer.Option("--if-hash", metavar="HASH", help=IF_HASH)] = None,
) -> int:
    """Say that a file holds as it is now; what an agent makes of it later is unverified again.

    Example: oxide-ctl memory verify debugging.md
    """
    return _mark(cli, [name], "verified", if_hash=if_hash)


def dispute(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="a topic")],
    if_hash: Annotated[str | None, typer.Option("--if-hash", metavar="HASH", help=IF_HASH)] = None,
) -> int:
    """Say that a topic does not hold: agents are told so, also when one writes the same again.

    Example: oxide-ctl memory dispute debugging.md
    """
    return _mark(cli, [name], "disputed", if_hash=if_hash)


def _mark(cli: Cli, names: list[str], standing: str, *, every: bool = False, if_hash: str | None = None) -> int:
    answer = cli.client.memory_mark(cli.path, names, standing, every=every, if_hash=if_hash)
    cli.out.answer(answer, lambda: notes.marked(answer))
    return EXIT_DONE


def _reject(cli: Cli, names: list[str], *, every: bool, yes: bool) -> int:
    if not yes:
        need_yes(cli.out, "reject all that waits?" if every else f"reject {count(len(names), 'note')}?")
    answer = cli.client.memory_reject(cli.path, names, every=every)
    cli.out.answer(answer, lambda: notes.reverted(answer))
    return EXIT_PARTIAL if answer["left"] else EXIT_DONE
