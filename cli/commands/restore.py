"""Copying a past state out; the worktree itself stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL

if TYPE_CHECKING:
    import typer


def restore(
    cli: Cli,
    *,
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="the state to copy out")],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="into this directory, new or empty")],
    force: Annotated[bool, typer.Option("--force", help="also into one that is not empty")] = False,
    in_part: Annotated[bool, typer.Option("--partial", help="what the store has lost is left out, and listed")] = False,
    paths: Sequence[str] = (),
) -> int:
    """Copy a checkpoint, or some paths of it, into another directory. Exits with 7 if the store cannot give back a part of it,
    with --partial with 3.

    Example: oxide-ctl restore before-agent --to /tmp/then -- src
    """
    named, wanted = cli.checkpoint(checkpoint), [cli.absolute(path) for path in paths]
    with cli.progress("restoring") as report:
        copy = partial(cli.client.restore, cli.path, named, cli.absolute(to), paths=wanted, force=force)
        answer = copy(partial=in_part, progress=report)
    cli.out.answer(answer, lambda: render.restore(answer, verbose=cli.out.verbose))
    damaged = any(entry.get("reason") == "damaged" for entry in answer["skipped"])
    return EXIT_PARTIAL if damaged else EXIT_DONE
