"""A run under the lab leaves nothing behind but its files, and every claim about it is read from outside the program.

A sweep proves that a program survives a fault at each call that changes something:

1. ``Lab.count`` runs it once and tells how many such calls it makes below the roots;
2. for each of ``points(total, ...)`` the test makes a fresh state and calls ``Lab.run``, where the N-th call goes wrong
   (modes: shim.c);
3. an oracle judges the files, with ``Outcome.acknowledged`` as the list of what the program promised. It shares no code
   with the program and runs without the shim.

Acknowledgements. The program (the worker) prints a line ``ACK text`` on standard output, in one write, only after it
would tell its user that ``text`` is done; :func:`ack` does that. A last line without its newline is no promise. What the
oracle needs to judge ``text`` it works out itself.

A long set-up inside the run (a daemon's start, a first capture) need not be swept: run with ``armed=False`` and let the
worker call :func:`arm` where the counting is to begin.

``enospc`` and ``sticky`` number the calls differently from the other modes (what frees space does not count), so count
in the mode you sweep. With threads the numbering may vary between runs: ``Outcome.faults`` says whether the point was
reached. A kill is no power cut: what was written but never synced survives it.

``OXIDE_FAULTS=all`` in the environment makes sweeps exhaustive (``sample_size``). A sweep over several modes draws the
points of each with another seed: together they meet more of the steps than each of them could.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest

from tests.faults.crashkit import ack, arm
from tests.faults.leavings import children, end_all_but, ends_within, reap_what_is_left
from tests.faults.nursery import Run, nursery_under
from tests.kit import effort

__all__ = ["Lab", "Mode", "Outcome", "ack", "arm", "points", "sample_size", "shim"]

Mode = Literal["kill", "killafter", "torn", "enospc", "eio", "sticky"]

SOURCE = Path(__file__).with_name("shim.c")
CHECKOUT = Path(__file__).parents[2]


def shim(folder: Path) -> Path:
    """The compiled shim in ``folder``, built if it is not there yet; skips the test where it cannot be built.

    ``tmp_path_factory.getbasetemp()`` makes it once for a session.
    """
    built = folder / "fault-shim.so"
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        pytest.skip("the fault shim needs Linux and glibc")
    if built.exists():
        return built
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler (cc, or what CC names) to build the fault shim with")
    fresh = folder / f"fault-shim.{os.getpid()}"
    command = [compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", str(fresh), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    fresh.replace(built)
    return built


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. ``status`` is negative for a signal and None for a run that hung; ``call`` is what went wrong."""

    status: int | None
    stdout: bytes
    stderr: bytes
    calls: int
    faults: int
    call: str
    trace: tuple[str, ...]

    @property
    def acknowledged(self) -> list[str]:
        """What the worker promised, in order."""
        whole = self.stdout.split(b"\n")[:-1]
        return [line.removeprefix(b"ACK ").decode() for line in whole if line.startswith(b"ACK ")]


class Lab:
    """Runs programs under the shim. ``roots`` are what is watched; ``scratch`` must lie outside them.

    ``armed=False``: nothing counts until the worker calls :func:`arm`. ``only``: count in those programs of a run whose
    command line holds this text.
    """

    def __init__(self, shim: Path, roots: Sequence[Path], scratch: Path, *, armed: bool = True, only: str = "") -> None:
        self.shim = shim
        # The shim compares with what the kernel says, so links are resolved here; a root need not exist yet.
        self.roots = [root.resolve() for root in roots]
        self.scratch = scratch.resolve()
        self.armed = armed
        self.only = only
        for root in self.roots:
            if ":" in str(root) or self.scratch.is_relative_to(root):
                raise ValueError(f"{root} cannot be a root: it holds a colon or the scratch folder")

    def count(
        self,
        argv: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        *,
        mode: Mode = "kill",
    ) -> Outcome:
        """Run with nothing going wrong; ``calls`` is the number of points that a sweep in ``mode`` has."""
        return self.run(argv, mode=mode, at=0, env=env, timeout=timeout)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        mode: Mode,
        at: int,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Outcome:
        """Run with call number ``at`` going wrong (0: none)."""
        if mode not in get_args(Mode):
            raise ValueError(f"no fault mode is called {mode!r}")
        page, trace = self.scratch / "page", self.scratch / "trace"
        page.write_bytes(struct.pack("=QQQ", 0, 0, self.armed))
        trace.write_bytes(b"")
        # Files, not pipes: a detached child that inherits a pipe would keep us reading.
        out, err = self.scratch / "stdout", self.scratch / "stderr"
        environment = self._environment(mode, at, env or {})
        worker = None if self.only else _as_a_run(argv, environment, timeout, out, err)
        status = (
            nursery_under(self.shim, CHECKOUT).status_of(worker)
            if worker
            else _finish(argv, environment, timeout, out, err)
        )
        calls, faults, _ = struct.unpack("=QQQ", page.read_bytes())
        lines = tuple(os.fsdecode(trace.read_bytes()).split("\n")[:-1])
        hit = next((line for line in lines if faults and line.startswith(f"{at} ")), "")
        return Outcome(
            status=status,
            stdout=out.read_bytes(),
            stderr=err.read_bytes(),
            calls=calls,
            faults=faults,
            call=hit.partition(" ")[2].partition(" ")[2],
            trace=lines,
        )

    def _environment(self, mode: Mode, at: int, env: Mapping[str, str]) -> dict[str, str]:
        inherited = {**os.environ, **env}
        paths = [str(CHECKOUT), *filter(None, [inherited.get("PYTHONPATH")])]
        return inherited | {
            "PYTHONPATH": os.pathsep.join(paths),
            "LD_PRELOAD": str(self.shim),
            "FS_ROOT": ":".join(map(str, self.roots)),
            "FAULT_MODE": mode,
            "FAULT_AT": str(at),
            "FAULT_COUNT": str(self.scratch / "page"),
            "FAULT_TRACE": str(self.scratch / "trace"),
            "FAULT_ONLY": self.only,
        }


def _finish(argv: Sequence[str | Path], env: Mapping[str, str], timeout: float, out: Path, err: Path) -> int | None:
    before = children()
    reap_what_is_left(on=True)
    try:
        with out.open("wb") as stdout, err.open("wb") as stderr:
            program = subprocess.Popen(
                [str(part) for part in argv],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        ended = ends_within(program.pid, timeout)
        if not ended:
            program.kill()
        status = program.wait()
    finally:
        end_all_but(before)
        reap_what_is_left(on=False)
    return status if ended else None


def _as_a_run(argv: Sequence[str | Path], env: Mapping[str, str], timeout: float, out: Path, err: Path) -> Run | None:
    """What a nursery is asked for, if ``argv`` is one of the workers."""
    match [str(part) for part in argv]:
        case [sys.executable, "-m", module, *arguments] if module.endswith("_worker"):
            for path in (out, err):
                path.write_bytes(b"")
            os.umask(umask := os.umask(0))
            return Run(
                module=module,
                arguments=arguments,
                env=env,
                folder=os.getcwd(),
                umask=umask,
                out=str(out),
                err=str(err),
                timeout=timeout,
            )
    return None


def sample_size(default: int) -> int | None:
    """How many points a sweep tries: ``default`` where the tests are thorough, or None for each of them where
    OXIDE_FAULTS=all asks for that.
    """
    return None if os.environ.get("OXIDE_FAULTS") == "all" else effort(default)


def points(total: int, *, sample: int | None, seed: int | str) -> list[int]:
    """The points of 1 to ``total`` to try, ascending.

    Half of a sample is spread evenly from the first to the last, the rest is drawn with ``seed``.
    """
    if total < 1:
        raise ValueError("nothing to break: no call was counted (wrong roots, or the shim was not loaded)")
    if sample is None or sample >= total:
        return list(range(1, total + 1))
    even = max(2, sample // 2)
    chosen = {1 + step * (total - 1) // (even - 1) for step in range(even)}
    others = [point for point in range(1, total + 1) if point not in chosen]
    chosen.update(random.Random(seed).sample(others, max(0, sample - len(chosen))))
    return sorted(chosen)
