"""Recording nothing for a while."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.cli.units import span_ms
from openoxide.errors import EXIT_DONE, NotFoundError

if TYPE_CHECKING:
    import typer


def pause(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="default: the working directory")] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="30m, 1h, 2d (default: until `unpause`)")
    ] = None,
) -> int:
    """Record nothing of a project for a while. Checkpoints and rewinds are refused until then; a restart ends nothing.

    Example: oxide-ctl pause --for 1h
    """
    for_ms = span_ms(lasting) if lasting is not None else None
    answer = cli.client.pause(_existing(cli, path), for_ms=for_ms)
    cli.out.answer(answer, lambda: cli.out.proposed(render.pause(answer, cli.now)))
    return EXIT_DONE


def unpause(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="default: the working directory")] = None,
) -> int:
    """Go on recording; returns when what changed meanwhile is recorded.

    Example: oxide-ctl unpause
    """
    with cli.progress("capturing") as report:
        answer = cli.client.unpause(_existing(cli, path), progress=report)
    cli.out.answer(answer, lambda: render.pause(answer, cli.now))
    return EXIT_DONE


def _existing(cli: Cli, typed: str | None) -> str:
    """The path whose project is meant: a misspelled one would be taken for a file of the project around it."""
    path = cli.absolute(typed)
    if not os.path.lexists(path):
        raise NotFoundError(f"{path} does not exist", hint="check the spelling")
    return path
