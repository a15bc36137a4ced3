"""Completion of command lines by the shell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.daemon.client import Client, socket_path
from openoxide.daemon.protocol import printable
from openoxide.errors import EXIT_DONE, OpenOxideError, UsageError

if TYPE_CHECKING:
    import typer

RECENT, NAMED = 20, 200
PATIENCE_SECONDS = 1.0
ALWAYS = {"last": "the newest checkpoint", "turn:-1": "before the last prompt"}


class Offer(NamedTuple):
    """A word that may stand for a checkpoint, and what it stands for."""

    word: str
    text: str


def completion(
    cli: Cli,
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", hidden=True, help="what the scripts offer for CKPT")
    ] = False,
) -> int:
    """Print the script with which a shell completes commands, options, checkpoints and paths.

    Example: oxide-ctl completion zsh > ~/.zfunc/_oxide-ctl
    """
    if checkpoints:
        return _offer_checkpoints(cli)
    if shell is None:
        raise UsageError("no shell was named", hint="bash, zsh or fish")
    from openoxide.cli.completion import script  # noqa: PLC0415 it loads typer and every command

    text = script(shell)
    cli.out.answer({"ok": True, "shell": shell, "script": text}, lambda: text.rstrip("\n"))
    return EXIT_DONE


def _offer_checkpoints(cli: Cli) -> int:
    """A line for each, the word and a tab before the text; none where no daemon runs or the place is not watched: whoever
    presses the Tab key wants no error, and no daemon started.
    """
    offers: list[Offer] = []
    with suppress(OpenOxideError):
        offers = [offer for offer in _offers(cli) if _can_be_typed(offer.word)]
    items = [offer._asdict() for offer in offers]
    cli.out.answer({"ok": True, "items": items}, lambda: "\n".join("\t".join(offer) for offer in offers))
    return EXIT_DONE


def _offers(cli: Cli) -> Iterator[Offer]:
    # somebody waits at the Tab key: no daemon is started, and a slow one is given up
    client = Client(socket_path(os.environ), autostart=False, timeout_seconds=PATIENCE_SECONDS)
    named = client.log(cli.path, named=True, limit=NAMED)["items"]
    recent = client.log(cli.path, limit=RECENT)["items"]
    yield from (Offer(word, text) for word, text in ALWAYS.items())
    yield from (Offer(item["name"], render.brief(item, cli.now)) for item in named)
    yield from (Offer(str(item["number"]), render.brief(item, cli.now)) for item in recent)


def _can_be_typed(word: str) -> bool:
    return printable(word) == word and not word.startswith("-")
