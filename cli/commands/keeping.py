"""Which checkpoints stay, and what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.checkpoints import KeepAnswer


def pin(cli: Cli, *, checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="which one to keep")]) -> int:
    """Mark a checkpoint: it never expires and cannot be forgotten.

    Example: oxide-ctl pin before-agent
    """
    return _answer(cli, cli.client.pin(cli.path, cli.checkpoint(checkpoint)))


def unpin(cli: Cli, *, checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="which one to let go")]) -> int:
    """Take the mark off; the time until the checkpoint expires begins now.

    Example: oxide-ctl unpin before-agent
    """
    return _answer(cli, cli.client.unpin(cli.path, cli.checkpoint(checkpoint)))


def name(
    cli: Cli,
    *,
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="which one to name")],
    text: Annotated[str, typer.Argument(metavar="NAME", help="a name that no other one has; '' takes the name off")],
) -> int:
    """Name a checkpoint, or rename it.

    Example: oxide-ctl name last works
    """
    return _answer(cli, cli.client.name(cli.path, cli.checkpoint(checkpoint), text))


def _answer(cli: Cli, answer: KeepAnswer) -> int:
    cli.out.answer(answer, lambda: render.checkpoint(answer, cli.now))
    cli.out.note(answer.get("note", ""))
    return EXIT_DONE
