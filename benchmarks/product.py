"""The product as its users run it: ``oxided --foreground`` in a home of its own, and ``oxide-ctl``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from measuring import Spent, UnmeasuredError, cpu_s, run, settle

from openoxide.daemon.client import Client
from openoxide.errors import DaemonUnreachableError
from openoxide.paths import Home

START_SECONDS, STOP_SECONDS, POLL_SECONDS = 60.0, 30.0, 0.01
ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
NOT_BY_ITSELF = "[capture]\nquiet_ms = 3600000\nmax_interval_ms = 3600000\n"
"""A configuration with which nothing is recorded before it is asked for, so that all of it is in the measured time."""


def bare_environ(folder: Path) -> dict[str, str]:
    """The environment of everything that is measured: nothing of the user's but PATH, and a HOME in ``folder``."""
    user = folder / "user"
    user.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(user), "LANG": "C.UTF-8", "TZ": "UTC"}


class Daemon:
    """A daemon from the beginning of the ``with`` block to its end. ``folder`` is for its home and its log; ``program`` is
    what runs it, ``oxided`` by default.
    """

    def __init__(self, folder: Path, config: str = "", program: Sequence[str] = ()) -> None:
        self.folder = folder
        self._program = program or [installed("oxided")]
        self.home = folder / "home"
        self.home.mkdir(parents=True, mode=0o700)
        (self.home / "config.toml").write_text(config)
        self.client = Client(str(Home(self.home).socket), autostart=False)
        self.environ = {**bare_environ(folder), "OPENOXIDE_HOME": str(self.home), "OPENOXIDE_NO_AUTOSTART": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            with (self.folder / "oxided.log").open("wb") as log, _held_back(ENDING):
                self._process = self._start(log)
            self._wait(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the daemon in good order, or by force when it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """End it, and start it again on the same home."""
        self.stop()
        self.__enter__()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """CPU time since it began."""
        return cpu_s(self.pid)

    def settle(self) -> None:
        """Return when nothing is done in the background any more."""
        settle(self.pid)

    def ping(self) -> None:
        """A call of which the daemon makes nothing: what a connection, a request and an answer cost."""
        self.client.call("ping", {})

    def ctl(self, root: Path, *arguments: str) -> Spent:
        """One ``oxide-ctl`` command on the tree ``root``."""
        return run([installed("oxide-ctl"), "-C", str(root), *arguments], self.environ, self.folder)

    def _start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._program, "--foreground"],
            env=self.environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # an interrupt from the terminal is for the program that measures
            preexec_fn=_let_through,  # noqa: PLW1509 there is one thread
        )

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.ping()
            except DaemonUnreachableError:
                if process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "oxided.log").read_text("utf-8", "replace").strip()
                    raise UnmeasuredError(f"oxided does not answer: {said[-300:]}") from None
            time.sleep(POLL_SECONDS)


@contextmanager
def _held_back(signals: frozenset[signal.Signals]) -> Iterator[None]:
    """Let ``signals`` wait: one that came while a process is being started would leave it without anybody to stop it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _let_through() -> None:
    """In the new process, which would keep what is held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def installed(program: str) -> str:
    """The program that was installed beside this Python."""
    return str(Path(sys.executable).with_name(program))
