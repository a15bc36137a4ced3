"""Runs a worker in a fork of a process that has imported what it needs: a sweep starts a thousand, and half of what one
costs would be imports.

    python -m tests.faults.nursery, under the shim

Each line of standard input is a :class:`Run` as JSON, the answer to it one line: the status, negative for a signal and
null for a run that hung. The fork takes the run's environment and has the shim read it again, so that from there on it is
as if it had been started with it.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.leavings import children, end_all_but, ends_within, reap_what_is_left


@dataclass(frozen=True, kw_only=True)
class Run:
    """A worker with its arguments, and what a process inherits. ``timeout`` is in seconds."""

    module: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    folder: str
    umask: int
    out: str
    err: str
    timeout: float


class Nursery:
    """The forking process, which ends with this one."""

    def __init__(self, env: Mapping[str, str]) -> None:
        argv = [sys.executable, "-m", "tests.faults.nursery"]
        self._process = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        atexit.register(self.close)

    def status_of(self, run: Run) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(run)).encode() + b"\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert said is None or isinstance(said, int)
        return said

    def close(self) -> None:
        self._process.communicate()


@functools.cache
def nursery_under(shim: Path, checkout: Path) -> Nursery:
    """One for each process of tests."""
    settings = dict.fromkeys(("FS_ROOT", "FAULT_MODE", "FAULT_AT", "FAULT_COUNT", "FAULT_TRACE", "FAULT_ONLY"), "")
    return Nursery({**os.environ, **settings, "PYTHONPATH": str(checkout), "LD_PRELOAD": str(shim)})


def serve() -> Run | None:
    """Answers until there is nothing more to read; a run is returned in the process that is to become it."""
    for line in sys.stdin:
        run = Run(**json.loads(line))
        importlib.import_module(run.module)
        before = children()
        reap_what_is_left(on=True)
        pid = os.fork()
        if not pid:
            return run
        ended = ends_within(pid, run.timeout)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        end_all_but(before)
        reap_what_is_left(on=False)
        print(json.dumps(status if ended else None), flush=True)
    return None


def become(run: Run) -> None:
    os.setsid()
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, run.out, os.O_WRONLY),
        (2, run.err, os.O_WRONLY),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(run.folder)
    os.umask(run.umask)
    os.environ.clear()
    os.environ.update(run.env)
    time.tzset()
    ctypes.CDLL(None).fault_shim_again()
    sys.argv[1:] = run.arguments
    del sys.modules[run.module]
    runpy.run_module(run.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    mine = serve()
    if mine is not None:
        become(mine)
