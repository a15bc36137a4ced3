"""Says what it was started with: ``python -m tests.faults.echo_worker FILE ENDING``; FILE is written once, counted, and again.

``ending`` is a status, or ``hang``, or ``detach``: a child that outlives it, whose number is acknowledged.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.faults.crashkit import ack, arm


def main(file: str, ending: str) -> None:
    os.umask(umask := os.umask(0))
    ack(f"{os.getcwd()} {umask:o} {os.environ['TOLD']} {os.getsid(0) == os.getpid()} {sys.stdin.read()!r}")
    for _ in range(2):
        Path(file).write_bytes(b"written")
        arm()
    ack("written")
    if ending == "hang":
        signal.pause()
    if ending == "detach":
        child = os.fork()
        if not child:
            os.setsid()
            signal.pause()
        ack(str(child))
        return
    sys.stderr.write("ends\n")
    sys.exit(int(ending))


if __name__ == "__main__":
    main(*sys.argv[1:])
