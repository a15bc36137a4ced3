"""What a run leaves running: found by its parent, and ended."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def reap_what_is_left(*, on: bool) -> None:
    """What a child of this process leaves behind becomes a child of this process, also what detached itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the reaper of what a run leaves behind")


def children() -> set[int]:
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_bytes()
            except OSError:  # it ended between the two looks
                continue
            # the command's name stands in parentheses and may itself hold some
            if int(stat.rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(entry))
    return found


def end_all_but(kept: set[int]) -> None:
    """Ends each child that is not in ``kept``, and what these leave behind in turn."""
    while left := children() - kept:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def ends_within(pid: int, timeout: float) -> bool:
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(handle)
