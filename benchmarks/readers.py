"""Clients that read while something else is measured: ``log``, ``show`` and ``diff``, one after the other without a pause.

    OPENOXIDE_HOME=... python benchmarks/readers.py TREE

One says a line when it has read everything once, and at its end, which SIGTERM brings, how many answers it had.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from measuring import UnmeasuredError
from product import STOP_SECONDS, Daemon

from openoxide.daemon.client import Client, socket_path

LISTED = 50


@dataclass(slots=True)
class Reading:
    """What all readers had, complete when they have ended."""

    answers: int = 0
    seconds: float = 0.0


@contextmanager
def readers(daemon: Daemon, tree: str, count: int) -> Iterator[Reading]:
    """``count`` processes that read ``tree`` from the beginning of the block to its end."""
    reading, began = Reading(), time.monotonic()
    with ExitStack() as stack:
        stack.callback(lambda: setattr(reading, "seconds", time.monotonic() - began))
        for _ in range(count):
            stack.enter_context(_reader(daemon, tree, reading))
        yield reading


@contextmanager
def _reader(daemon: Daemon, tree: str, reading: Reading) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, os.path.realpath(__file__), tree],
        env=daemon.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # it reads, or it has ended
            yield
        finally:
            said, wrong = _ended(process)
    if process.returncode:
        raise UnmeasuredError(f"a reading client ended with {process.returncode}: {wrong.strip()[-300:]}")
    reading.answers += int(said)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.terminate()
    try:
        return process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:  # the daemon does not answer it
        process.kill()
        raise


def main(tree: str) -> int:
    """Read until SIGTERM comes."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    client, answers = Client(socket_path(os.environ), autostart=False), 0
    while not stopping.is_set():
        client.log(tree, limit=LISTED)
        client.show(tree, "last")
        client.diff(tree, "last~1", "last")
        if not answers:
            print("reading", flush=True)
        answers += 3
    print(answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
