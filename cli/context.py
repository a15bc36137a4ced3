"""What a command line came to: the command, its arguments, and what every command body gets to work with.

A path that a user typed is taken relative to ``-C`` (as in git) or else to the working directory, made absolute as
text, and never resolved: whether it lies inside a worktree is the daemon's to decide.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from openoxide.cli.output import Output
from openoxide.cli.reading import ReadingClient
from openoxide.daemon.client import socket_path
from openoxide.errors import DaemonUnreachableError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.protocol import ProgressCallback

NO_AUTOSTART = "OPENOXIDE_NO_AUTOSTART"


class Options(NamedTuple):  # no dataclass: that import alone costs a hot command a third of its time
    """The global options."""

    directory: str | None = None
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False


class Call(NamedTuple):
    """A parsed command line; ``arguments`` are keywords of the command's body."""

    command: str
    options: Options
    arguments: dict[str, Any]


class Cli:
    """The terminal, the daemon and the place a command acts on."""

    def __init__(self, options: Options) -> None:
        self.out = Output(
            as_json=options.as_json, quiet=options.quiet, verbose=options.verbose, directory=options.directory
        )
        self._directory = options.directory or ""

    @cached_property
    def client(self) -> ReadingClient:
        """The daemon, started on demand unless the environment forbids it."""
        with _working_directory():
            path = socket_path(os.environ)
        return ReadingClient(path, autostart=not os.environ.get(NO_AUTOSTART), note=self.out.note)

    def stop_daemon(self) -> bool:
        """Stops the daemon, of whatever version it is; False where none is running."""
        try:
            self.client.stop()
        except DaemonUnreachableError as error:
            if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                return False
            raise
        return True

    @cached_property
    def path(self) -> str:
        """The path whose project a command acts on."""
        with _working_directory():
            return os.path.abspath(self._directory)

    def absolute(self, typed: str | None) -> str:
        """A path argument as the daemon gets it; None, which was not typed, is here. An empty one is an unset variable of
        a script, and no folder.
        """
        if typed == "":
            raise UsageError("a path is empty", hint="`.` is the working folder")
        base = os.path.dirname(self.path) if os.path.isfile(self.path) else self.path
        return os.path.normpath(os.path.join(base, typed or ""))

    def checkpoint(self, typed: str) -> str:
        """A checkpoint argument as the daemon, which may live in another time zone, gets it."""
        if not typed.startswith("@"):
            return typed
        from openoxide.moments import universal  # noqa: PLC0415 few arguments are times

        return universal(typed, int(self.now.timestamp() * 1000))

    def moment(self, typed: str) -> str:
        """As :meth:`checkpoint`, where a time may also stand without its @."""
        spelled = f"@{typed.removeprefix('@')}"
        sent = self.checkpoint(spelled)
        return typed if sent == spelled else sent

    @property
    def now(self) -> datetime:
        """The moment from which ages and expiries are told."""
        return datetime.now(UTC)

    @contextmanager
    def progress(self, what: str) -> Iterator[ProgressCallback | None]:
        """A progress bar for the length of the block, and what feeds it; None where nobody watches."""
        if not self.out.shows_progress:
            yield None
            return
        from openoxide.cli.progress import bar  # noqa: PLC0415 rich costs more than most commands

        with bar(what) as report:
            yield report


@contextmanager
def _working_directory() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UsageError("the working directory no longer exists", hint="change to another one") from None
