"""What commands and running processes used. CPU is user and system time together; wall time is what somebody waits."""

from __future__ import annotations

import math
import os
import re
import resource
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

IDLE_SECONDS, IDLE_CPU_SECONDS, SETTLE_SECONDS = 0.5, 0.003, 120.0
POLL_SECONDS = 0.05
LIMIT_SECONDS = 900.0  # a command that waits for somebody is not measured for ever

T = TypeVar("T")


class UnmeasuredError(Exception):
    """A figure cannot be taken here; the message says why and goes into the results."""


def said(error: Exception) -> str:
    """What went wrong, in a line."""
    if isinstance(error, subprocess.CalledProcessError):
        return " ".join(f"{shlex.join(map(str, error.cmd))[:200]}: {(error.stderr or '').strip()[-300:]}".split())
    return str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a command took; added up, what several did one after the other."""

    wall_s: float
    cpu_s: float
    output: str = ""

    def __add__(self, other: Spent) -> Spent:
        return Spent(wall_s=self.wall_s + other.wall_s, cpu_s=self.cpu_s + other.cpu_s, output=other.output)


def run(argv: Sequence[str], environ: Mapping[str, str], cwd: Path, typed: str | None = None) -> Spent:
    """Run a command to its end, its start included; ``typed`` is its standard input. Raises CalledProcessError, and
    TimeoutExpired.
    """
    before, began = _children_cpu_s(), time.perf_counter()
    done = subprocess.run(
        argv,
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL if typed is None else None,
        input=typed,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        timeout=LIMIT_SECONDS,
    )
    wall_s = time.perf_counter() - began
    return Spent(wall_s=wall_s, cpu_s=_children_cpu_s() - before, output=done.stdout)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> float:
    """The CPU time of a running process: utime + stime of /proc/PID/stat, but in nanoseconds instead of ticks of 10 ms."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock that clock_getcpuclockid(3) answers


def resident_mb(pid: int) -> tuple[float, float]:
    """VmRSS and VmHWM: what a process holds in memory, and the most it held."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    now, peak = (re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE) for key in ("VmRSS", "VmHWM"))
    assert now is not None
    assert peak is not None
    return int(now[1]) * 1024 / 1e6, int(peak[1]) * 1024 / 1e6


def settle(pid: int, idle_cpu_s: float = IDLE_CPU_SECONDS) -> None:
    """Return when the process does nothing any more, so that what it does in the background is measured too.
    ``idle_cpu_s``: what it may use in IDLE_SECONDS when it does nothing.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    before, since = cpu_s(pid), time.monotonic()
    while time.monotonic() - since < IDLE_SECONDS:
        time.sleep(POLL_SECONDS)
        now = cpu_s(pid)
        if now - before > idle_cpu_s:
            before, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise UnmeasuredError(f"the daemon was still at work after {SETTLE_SECONDS:g} s")


def allocated_bytes(folder: Path) -> int:
    """Bytes on disk below ``folder``, as du counts them."""
    places = [Path(parent, name) for parent, folders, names in os.walk(folder) for name in folders + names]
    return sum(place.lstat().st_blocks * 512 for place in [folder, *places])


def in_turn(candidates: Sequence[T], round_number: int) -> Iterator[T]:
    """The candidates of one round. Another one begins each time: who comes first pays for what the others left behind."""
    first = round_number % len(candidates)
    yield from (*candidates[first:], *candidates[:first])


def p99(values: Sequence[float]) -> float:
    """The smallest value that 99 % of all are not above."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]
