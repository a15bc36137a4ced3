"""Copying a past state out; the worktree itself stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer


def restore(
    cli: Cli,
    *,
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="the state to copy out")],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="into this directory, new or empty")],
    force: Annotated[bool, typer.Option("--force", help="also into one that is not empty")] = False,
    paths: Sequence[str] = (),
) -> int:
    """Copy a checkpoint, or some paths of it, into another directory.

    Example: oxide-ctl restore before-agent --to /tmp/then -- src
    """
    named, wanted = cli.checkpoint(checkpoint), [cli.absolute(path) for path in paths]
    with cli.progress("restoring") as report:
        answer = cli.client.restore(cli.path, named, cli.absolute(to), paths=wanted, force=force, progress=report)
    cli.out.answer(answer, lambda: render.restore(answer, verbose=cli.out.verbose))
    return EXIT_DONE
