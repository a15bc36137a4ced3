"""Sealing checkpoints and looking at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import colours, render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer

SCREEN_LIMIT = 50


def checkpoint(
    cli: Cli,
    *,
    name: Annotated[str | None, typer.Option("-m", metavar="NAME", help="a name to find it by")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="never let it expire")] = False,
) -> int:
    """Seal a checkpoint now, also where nothing has changed.

    Example: oxide-ctl checkpoint -m before-agent
    """
    answer = cli.client.checkpoint(cli.path, name=name, pin=pin)
    cli.out.answer(answer, lambda: answer["id"] if cli.out.quiet else render.checkpoint(answer, cli.now))
    cli.out.note(render.left_out(answer))
    return EXIT_DONE


def log(
    cli: Cli,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help=f"at most N (on a terminal: {SCREEN_LIMIT})")
    ] = None,
    include_all: Annotated[bool, typer.Option("--all", help="also those in trash and failed captures")] = False,
    session: Annotated[str | None, typer.Option("--session", metavar="S", help="only those of session S")] = None,
    named: Annotated[bool, typer.Option("--named", help="only those with a name")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="only those since @2h, @14:05 or a checkpoint")
    ] = None,
) -> int:
    """List sealed checkpoints, newest first.

    Example: oxide-ctl log --since @2h
    """
    if limit is None and cli.out.on_terminal:
        limit = SCREEN_LIMIT
    if since is not None:
        since = cli.moment(since)
    answer = cli.client.log(cli.path, limit=limit, all=include_all, named=named, session=session, since=since)
    cli.out.answer(answer, lambda: render.log(answer["items"], cli.now), colours.LOG)
    if answer.get("next"):
        cli.out.note(f"there are older ones; --limit N shows more than {limit}")
    return EXIT_DONE


def show(
    cli: Cli, *, checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="which one: 42, an id, a name, @10m")]
) -> int:
    """Show one checkpoint: its changes, writers, git position and what it skipped.

    Example: oxide-ctl show last
    """
    answer = cli.client.show(cli.path, cli.checkpoint(checkpoint))
    cli.out.answer(answer, lambda: render.show(answer, cli.now, verbose=cli.out.verbose), colours.SHOW)
    return EXIT_DONE
