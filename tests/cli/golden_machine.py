"""A sealed machine for whole screens: a real daemon and a real project, with a clock and ids that are always the same."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count
from pathlib import Path

import pytest

from openoxide import __version__, health, surroundings
from openoxide.cli.context import Cli
from openoxide.cli.entry import main
from openoxide.daemon import watched
from openoxide.daemon.instance import acquire
from openoxide.daemon.operations import carrying, watching
from openoxide.daemon.routes import routes
from openoxide.daemon.server import Server
from openoxide.daemon.service import Service
from openoxide.fileio import make_private
from openoxide.ids import ID_BYTES, letters
from openoxide.paths import Home
from openoxide.settings import Settings
from tests.cli.harness import Ended
from tests.kit import FakeClock

NOON_MS = 1_796_040_000_000
NEVER_MS = 10**9
MEASURING = tuple(f"$ oxide-ctl {command}" for command in ("du", "projects", "uninstall", "backup", "restore-home"))
SHARE = re.compile(r" *\b\d+%|(?<=stands) [\d.]+|(?<=takes) 1/[\d.]+")
SIZE = re.compile(r" *\b\d+(\.\d)? ([KMG]i)?B\b")


@dataclass(frozen=True)
class Sealed:
    """The machine: each command finds the clock a minute further on."""

    home: Path
    project: Path
    clock: FakeClock

    def ran(self, *arguments: str, on_terminal: bool = False) -> Ended:
        """What the command left behind."""
        self.clock.advance(60_000)
        out, err = io.BytesIO(), io.BytesIO()
        with redirect_stdout(_stream(out, on_terminal=on_terminal)), redirect_stderr(_stream(err)):
            code = main(arguments)
        return Ended(code=code, out=out.getvalue(), err=err.getvalue())

    def screen(self, *arguments: str, on_terminal: bool = False) -> str:
        """The command, what it wrote to both streams, and its exit code; with the names of a made-up user, and ␛ where
        a terminal gets the escape character.
        """
        ended = self.ran(*arguments, on_terminal=on_terminal)
        complaint = f"[stderr]\n{ended.complaint}" if ended.err else ""
        text = ended.text.replace("\x1b", "␛")
        return self._made_up(f"$ oxide-ctl {' '.join(arguments)}\n{text}{complaint}[exit {ended.code}]\n")

    def _made_up(self, text: str) -> str:
        """``text`` without what differs from run to run, or between versions of SQLite and zstd."""
        named = text.replace(str(self.home), "/home/ada/.openoxide").replace(str(self.project.parent), "/home/ada")
        named = named.replace(sys.executable, "python")
        named = re.sub(r"pid \d+", "pid 4711", named.replace(__version__, "VERSION"))
        named = re.sub(
            r"^((?:memory|store) +)[\d.]+ .iB(?:, and [\d.]+ .iB kept free for a full disk)?",
            r"\1SIZE",
            named,
            flags=re.MULTILINE,
        )
        return SHARE.sub(" N", SIZE.sub(" SIZE", named)) if named.startswith(MEASURING) else named


class _Stream(io.TextIOWrapper):
    """A standard stream that keeps what was written; nobody closes it."""

    on_terminal = False

    def isatty(self) -> bool:
        return self.on_terminal

    def close(self) -> None:
        self.flush()


def _stream(kept: io.BytesIO, *, on_terminal: bool = False) -> io.TextIOWrapper:
    stream = _Stream(kept, "utf-8", write_through=True)
    stream.on_terminal = on_terminal
    return stream


@contextmanager
def sealed_machine(folder: Path) -> Iterator[Sealed]:
    """Runs while the block does; the working directory is the project, which is empty yet."""
    home = Home(Path(tempfile.mkdtemp(prefix="oxide-")) / "home")
    project = folder / "shop"
    project.mkdir()
    clock = FakeClock(NOON_MS)
    numbers, projects = count(1), count(1_000)
    umask = os.umask(0o022)  # a daemon in this process sets its own, and the tests that follow are not to inherit it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENOXIDE_HOME", str(home.folder))
        patch.setenv("OPENOXIDE_NO_AUTOSTART", "1")
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "xterm")
        patch.chdir(project)
        _on_plain_ground(patch)
        patch.setattr(Cli, "now", property(lambda _cli: datetime.fromtimestamp(clock.now_ms() / 1000, UTC)))
        for module in (watched, carrying):
            patch.setattr(module, "letters", lambda _random: _ident(next(numbers)))
        patch.setattr(watching, "letters", lambda _random: _ident(next(projects)))
        with _daemon(home, clock):
            yield Sealed(home.folder, project, clock)
    os.umask(umask)
    shutil.rmtree(home.folder.parent)


def _on_plain_ground(patch: pytest.MonkeyPatch) -> None:
    """No container, no special file system, room on the disk: doctor finds what the story did, not where it runs."""
    for variable in ("container", "KUBERNETES_SERVICE_HOST", "CODESPACES", "REMOTE_CONTAINERS", "DEVCONTAINER"):
        patch.delenv(variable, raising=False)
    patch.setattr(surroundings, "CONTAINER_MARKS", {})
    patch.setattr(surroundings, "_read", lambda _name: "")
    patch.setattr(health, "LITTLE_BYTES", 0)


def _ident(number: int) -> str:
    return letters(blake2b(str(number).encode(), digest_size=ID_BYTES).digest())


@contextmanager
def _daemon(home: Home, clock: FakeClock) -> Iterator[None]:
    """One that seals nothing by itself: what is sealed when is the test's to say."""
    instance = acquire(home)
    make_private(home.folder)
    still = replace(Settings().capture, quiet_ms=NEVER_MS, max_interval_ms=NEVER_MS, full_pass_ms=NEVER_MS)
    service = Service(home, replace(Settings(), capture=still), clock)
    server = Server(instance.listen(), routes(service), __version__)
    service.start()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.close(drain_ms=5_000)
        thread.join()
        service.stop()
        instance.close()


def write(path: Path, text: str, at_ms: int = NOON_MS) -> None:
    """A file with ``text`` whose time is always the same."""
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(text)
    path.chmod(0o644)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
