"""What the tests of the command line run it with: this process, a terminal, an installation with a real daemon."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openoxide.daemon.server import Handler, Reporter
from openoxide.errors import OpenOxideError

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ("-m", "openoxide.cli.entry")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a command left behind."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def complaint(self) -> str:
        return self.err.decode()

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        lines = self.text.splitlines()
        assert len(lines) == 1, self
        answer = json.loads(lines[0])
        assert isinstance(answer, dict)
        return answer


@dataclass
class Canned:
    """The other side of the boundary: the real server, with answers that a test puts there, by operation.

    A list is answered one after the other; an error is raised. What was asked for is in ``requests``. A route of the
    test's own comes before the answers.
    """

    home: Path
    answers: dict[str, Any] = field(default_factory=dict)
    routes: dict[str, Handler] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def handle(self, name: str, request: dict[str, Any], report: Reporter) -> Any:
        self.requests.append((name, request))
        if name == "stop":  # its client waits until the socket is gone, or is another one
            os.utime(self.home / "oxided.sock")
        if name in self.routes:
            return self.routes[name](request, report)
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, OpenOxideError):
            raise answer
        return answer


class Terminal:
    """A program on a pseudo-terminal that is its input (unless ``stdin`` is another), output and error."""

    def __init__(
        self, arguments: tuple[str, ...], environ: Mapping[str, str], cwd: Path, stdin: int | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._program = subprocess.Popen(
            [sys.executable, *ENTRY, *arguments],
            stdin=theirs if stdin is None else stdin,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def expect(self, text: str) -> None:
        """Reads until ``text`` stands on the screen."""
        while text not in self.seen:
            read = self._read()
            assert read, f"ended without {text!r}: {self.seen!r}"
            self.seen += read

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """What the terminal sends for Ctrl-C."""
        self._program.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """The exit code, when everything was read."""
        while read := self._read():
            self.seen += read
        code = self._program.wait()
        os.close(self._ours)
        return code

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65_536).decode("utf-8", "replace")
        except OSError:  # Linux says EIO where the other end was closed
            return ""


@dataclass(frozen=True)
class Machine:
    """A home, a project and an installed `oxide-ctl`; the daemon is started by the first command that needs it."""

    python: Path
    home: Path
    project: Path

    def run(self, *arguments: str, cwd: Path | None = None, **environ: str) -> Ended:
        done = subprocess.run(
            [self.python, *ENTRY, *arguments],
            cwd=cwd or self.project,
            env={**os.environ, "OPENOXIDE_HOME": str(self.home), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The answer with ``--json``, which ends with ``code``."""
        ended = self.run("--json", *arguments)
        assert ended.code == code, ended
        answer = ended.json
        assert answer["ok"] is (code in (0, 3)), answer
        return answer

    def failure(self, *arguments: str, code: int) -> dict[str, Any]:
        """The error object."""
        error = self.json(*arguments, code=code)["error"]
        assert {"kind", "message", "hint"} <= error.keys()
        assert isinstance(error, dict)
        return error
