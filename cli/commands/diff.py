"""Looking into checkpoints: what differs, and a file as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import changes, colours
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    import typer


def diff(
    cli: Cli,
    *,
    old: Annotated[str, typer.Argument(metavar="A", help="a checkpoint")],
    new: Annotated[str | None, typer.Argument(metavar="B", help="another one (default: the worktree now)")] = None,
    stat: Annotated[bool, typer.Option("--stat", help="sizes and a summary")] = False,
    name_status: Annotated[bool, typer.Option("--name-status", help="letters and paths (the default)")] = False,
    patch: Annotated[bool, typer.Option("--patch", help="what changed inside text files")] = False,
    paths: Sequence[str] = (),
) -> int:
    """Compare A with B, or with the worktree as it is now.

    Example: oxide-ctl diff before-agent --patch -- src
    """
    if stat + name_status + patch > 1:
        raise UsageError("--stat, --name-status and --patch exclude one another")
    style: changes.Style = "stat" if stat else "patch" if patch else "name-status"
    first, second = cli.checkpoint(old), cli.checkpoint(new) if new is not None else None
    answer = cli.client.diff(cli.path, first, second, paths=[cli.absolute(path) for path in paths], patch=patch)
    if patch and not cli.out.as_json and not cli.out.on_terminal:
        cli.out.raw(changes.patch(answer["items"]))
    else:
        palette = colours.PATCH if patch else colours.DIFF
        cli.out.answer(answer, lambda: changes.diff(answer["items"], style, verbose=cli.out.verbose), palette)
    cli.out.note(answer.get("note", ""))
    return EXIT_DONE


def cat(
    cli: Cli,
    *,
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="as it was there")],
    file: Annotated[str, typer.Argument(metavar="PATH", help="the file")],
) -> int:
    """Print the raw bytes of a file as it was, nothing else.

    Example: oxide-ctl cat @10m src/main.py > main.before.py
    """
    cli.out.raw(cli.client.cat(cli.path, cli.checkpoint(checkpoint), cli.absolute(file)))
    return EXIT_DONE
