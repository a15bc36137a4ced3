"""Starting a daemon on demand: detached, with a scrubbed environment, and never two that live.

Any number of clients may start one at the same time. The lock of the home decides; a loser ends with
EXIT_ALREADY_RUNNING and its client goes on knocking at the socket. What a daemon dies of before it listens is the
last line on its standard output or error, and becomes the client's exception.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from openoxide.daemon.protocol import printable
from openoxide.errors import DaemonUnreachableError, OpenOxideError, error_object, from_object

EXIT_ALREADY_RUNNING = 75
RESPAWN_SECONDS = 0.5
LAST_WORDS_BYTES = 64 << 10
_KEPT = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "OPENOXIDE_HOME", "OPENOXIDE_LOG"})


class Launch:
    """A daemon that was started and does not answer yet."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._argv = list(argv)
        self._environ = dict(environ)
        # A nameless file, not a log in the home: whether the home is ours to write is for the daemon to find out
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 release() closes it
        try:
            self._process = self._run()
        except OSError:
            self._output.close()
            raise

    def tend(self) -> None:
        """To be called while nothing answers: raises what the daemon died of, and replaces one that ended in good order.

        That one lost to a daemon that was on its way out, or was stopped by somebody before we came to it.
        """
        code = self._process.poll()
        if code is None:
            return
        if code not in {0, EXIT_ALREADY_RUNNING}:
            raise self._failure(code)
        if time.monotonic() > self._started + RESPAWN_SECONDS:
            self._process = self._run()

    def release(self) -> None:
        """Let go of the daemon, which outlives its starter."""
        self._process.returncode = 0  # or the finaliser of Popen complains that the child still runs
        self._output.close()

    def _run(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        return subprocess.Popen(
            self._argv,
            cwd="/",
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )

    def _failure(self, code: int) -> OpenOxideError:
        self._output.seek(max(0, os.fstat(self._output.fileno()).st_size - LAST_WORDS_BYTES))
        said = self._output.read().decode("utf-8", "replace").strip()
        return _read_last_words(said.rpartition("\n")[2], f"exit code {code}" if code >= 0 else f"signal {-code}")


def spawn(environ: Mapping[str, str], argv: Sequence[str] | None = None) -> Launch:
    """Start a daemon for the home that ``environ`` names. The place to go through a service unit where one is installed."""
    wanted = list(argv or daemon_argv())
    try:
        return Launch(wanted, scrubbed(environ))
    except OSError as error:
        raise DaemonUnreachableError(f"cannot start {wanted[0]}: {error.strerror or error}") from error


def daemon_argv() -> list[str]:
    """How the daemon is run: this very installation. -P: its working directory must not be searched for modules."""
    return [sys.executable, "-P", "-m", "openoxide.daemon.main"]


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """What of ``environ`` a daemon gets: it outlives the shell that started it, and whatever secrets that one holds."""
    kept = {key: value for key, value in environ.items() if key in _KEPT or key.startswith("LC_")}
    if kept.get("OPENOXIDE_HOME"):
        kept["OPENOXIDE_HOME"] = os.path.join(os.getcwd(), kept["OPENOXIDE_HOME"])  # the daemon runs in /
    return kept


def last_words(error: OpenOxideError) -> str:
    """The line that a daemon which cannot start ends its standard output with."""
    return json.dumps({"ok": False, "error": error_object(error)})


def _read_last_words(line: str, ending: str) -> OpenOxideError:
    try:
        return from_object(json.loads(line)["error"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return DaemonUnreachableError(f"the daemon ended with {ending} while starting", hint=printable(line))
