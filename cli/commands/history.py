"""Looking along the timeline: versions of a path, what vanished, where a text stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import past
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, UsageError

if TYPE_CHECKING:
    import typer

SCREEN_LIMIT = 50


def history(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="every version of it, newest first")] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="what is gone, and the last checkpoint that holds it")
    ] = False,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="from when to when it stood in which files")
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="search files that are not text, too")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help=f"at most N (on a terminal: {SCREEN_LIMIT})")
    ] = None,
    paths: Sequence[str] = (),
) -> int:
    """List every version of a path, what vanished, or the versions in which a text stood.

    Example: oxide-ctl history --search 'def main' -- src
    """
    if (path is not None) + deleted + (search is not None) != 1:
        raise UsageError(
            "one of PATH, --deleted and --search is needed", hint="`oxide-ctl history --help` tells them apart"
        )
    if path is not None and paths:
        raise UsageError("a path was named already", hint="paths after -- go with --deleted and --search")
    if binary and search is None:
        raise UsageError("--binary goes with --search")
    limit = SCREEN_LIMIT if limit is None and cli.out.on_terminal else limit
    within = [cli.absolute(named) for named in paths]
    if search is not None:
        return _search(cli, search, within, limit, binary=binary)
    answer = cli.client.history(cli.path, file=None if path is None else cli.absolute(path), paths=within, limit=limit)
    cli.out.answer(answer, lambda: past.versions(answer["items"], paths=deleted))
    _tell_more(cli, more="next" in answer, limit=limit)
    cli.out.note(answer.get("note", ""))
    cli.out.hint(answer.get("hint", ""))
    return EXIT_DONE


def _search(cli: Cli, text: str, within: Sequence[str], limit: int | None, *, binary: bool) -> int:
    if not text:
        raise UsageError("an empty text stands everywhere", hint="name a text")
    with cli.progress("searching") as report:
        answer = cli.client.search(cli.path, text, binary=binary, paths=within, limit=limit, progress=report)
    cli.out.answer(answer, lambda: past.search(answer))
    _tell_more(cli, more="next" in answer, limit=limit)
    cli.out.note(answer.get("note", ""))
    return EXIT_PARTIAL if answer["damaged"] else EXIT_DONE


def _tell_more(cli: Cli, *, more: bool, limit: int | None) -> None:
    if more:
        cli.out.note(f"there are more; --limit N shows more than {limit}")
