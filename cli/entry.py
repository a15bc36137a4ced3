"""The console script `oxide-ctl`: picks a parser, carries the call out, turns every error into an exit code.

Only the standard library is loaded here; typer costs more than a hot command takes in all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from openoxide.cli import catalogue, hot
from openoxide.cli.context import Call, Cli
from openoxide.cli.output import Output, error_text
from openoxide.errors import EXIT_INTERRUPTED, FailedError, OpenOxideError, VersionMismatchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line; returns the exit code."""
    words = hot.globals_first(sys.argv[1:] if arguments is None else arguments)
    # before parsing: wrong usage is an object too where --json stands
    out = Output(as_json=words[:1] == ["--json"], verbose="-v" in words)
    try:
        call = hot.parse(words) or _parse_all(words)
        if isinstance(call, int):
            return call
        cli = Cli(call.options)
        out = cli.out
        return _run(cli, call)
    except OpenOxideError as error:
        return out.fail(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        # The edge of the program: a bug, too, is a line and an exit code to the user.
        if out.verbose:
            raise
        return out.fail(FailedError(f"internal error: {error!r}", hint="-v shows where"))


def _parse_all(words: list[str]) -> Call | int:
    from openoxide.cli import app  # noqa: PLC0415 loads typer

    return app.parse(words)


def _run(cli: Cli, call: Call) -> int:
    command = catalogue.body(call.command)
    try:
        return command(cli, **call.arguments)
    except VersionMismatchError as error:
        if not cli.out.may_ask:
            raise
        cli.out.note(error_text(error))
        if not cli.out.agreed("stop that daemon and start one of this version?"):
            raise
        cli.stop_daemon()
        return command(cli, **call.arguments)


if __name__ == "__main__":
    sys.exit(main())
