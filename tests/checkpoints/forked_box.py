"""A Box in a process of its own, so that a test can kill it as a machine would: at rest, or within an operation.

One interpreter imports the product once and forks a child for each start. ``die_at`` counts what the code between the
plan and the record does (calls and returns of the modules in STEPPING), a negative one from where the exchange begins;
at that number the child sends itself SIGKILL, so a test that fails at a number fails there again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import FrameType
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
STEPPING = (
    "apply.py",
    "exchange.py",
    "staging.py",
    "journal.py",
    "syscalls.py",
    "rewinding.py",
    "carrying.py",
    "settling.py",
    "db.py",
)


class KilledError(Exception):
    """The child was killed within the call."""


class ForkServer:
    """The interpreter that children are forked from."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.checkpoints.forked_box"],
            stdin=theirs,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"},
        )
        theirs.close()

    def fork(self, folder: Path, boot_ms: int) -> Connection:
        """A new child that serves a Box on ``folder``."""
        ours, theirs = Pipe()
        socket.send_fds(self._control, [f"{boot_ms} {folder}".encode()], [theirs.fileno()])
        theirs.close()
        return ours

    def close(self) -> None:
        self._control.close()
        self._process.wait(30)


class ForkedBox:
    """The calls of :class:`tests.kit.box.Box` on a child that may die."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._child: Connection
        self._pid = 0
        self.root = folder / "project"
        self.start(boot_ms=1_000_000)

    def start(self, boot_ms: int) -> Any:
        """A new daemon, ``boot_ms`` after the boot; what ``watch`` answers when it has seen the tree."""
        self._child = self._server.fork(self._folder, boot_ms)
        self._pid = self._child.recv()
        return self.call("watch")

    def call(self, name: str, *, die_at: int = 0, **request: Any) -> Any:
        """The answer of an operation. Raises its OpenOxideError, or KilledError."""
        try:
            self._child.send((name, die_at, request))
            if not self._child.poll(DEADLINE_S):
                os.kill(self._pid, signal.SIGABRT)  # faulthandler tells where it hangs
                raise AssertionError(f"{name} does not answer")
            done, answer = self._child.recv()
        except (EOFError, ConnectionError) as error:
            self._child.close()
            raise KilledError(name) from error
        if not done:
            raise answer
        return answer

    def begin_full_pass(self) -> None:
        """Returns while it is going on, or before."""
        self.call("pass")

    def kill(self) -> None:
        """SIGKILL; returns when nothing of the child is left."""
        with contextlib.suppress(KilledError):
            self.call("die")

    def stop(self) -> None:
        """A clean end."""
        with contextlib.suppress(KilledError):
            self.call("end")


def _serve(child: Connection, folder: Path, boot_ms: int) -> None:
    from tests.kit import FakeClock  # noqa: PLC0415 - in the fork server only
    from tests.kit.box import Box  # noqa: PLC0415

    child.send(os.getpid())
    box = Box(folder, clock=FakeClock(boot_ms=boot_ms))
    while True:
        name, die_at, request = child.recv()
        if name == "end":
            box.stop()
            return
        if name == "die":  # by its own hand: a number of a process that is gone may be another's already
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "pass":
            (watched,) = box.service.all_watched()
            box.service.background.submit("full pass of a test", lambda w=watched: w.full_pass(None))
            child.send((True, None))
            continue
        child.send(_answer(box, name, die_at, request))


def _answer(box: Any, name: str, die_at: int, request: dict[str, Any]) -> tuple[bool, Any]:
    from openoxide.errors import OpenOxideError  # noqa: PLC0415

    if die_at:
        sys.setprofile(_Countdown(die_at).step)
    try:
        return True, box.call(name, **request)
    except OpenOxideError as error:
        return False, error
    except Exception:  # noqa: BLE001 - a traceback cannot be sent, its text can
        return False, AssertionError(traceback.format_exc())
    finally:
        sys.setprofile(None)


class _Countdown:
    def __init__(self, steps: int) -> None:
        self._steps = abs(steps)
        self._counts = steps > 0

    def step(self, frame: FrameType, _event: str, _arg: object) -> None:
        code = frame.f_code.co_filename
        self._counts = self._counts or code.endswith("exchange.py")
        if self._counts and code.endswith(STEPPING):
            self._steps -= 1
            if not self._steps:
                os.kill(os.getpid(), signal.SIGKILL)


def _fork_on_demand() -> None:
    import apscheduler.schedulers.background  # noqa: F401, PLC0415 - imported once for all children

    import tests.kit.box  # noqa: F401, PLC0415

    faulthandler.enable()
    control = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            boot_ms, _, folder = message.decode().partition(" ")
            with contextlib.suppress(EOFError):  # the test is over
                _serve(Connection(descriptors[0]), Path(folder), int(boot_ms))
            os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    _fork_on_demand()
