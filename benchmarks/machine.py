"""What a figure depends on besides the code: the machine, its load at that moment, the versions of everything."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPENDENCIES = ("blake3", "peewee", "watchdog", "zstandard")


def machine(scratch: Path) -> str:
    """One line: processor, memory, system, the file system that is measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} CPUs ({_processor()}), {memory:.0f} GB, {platform.system()} {platform.release()}, "
        f"{file_system(scratch)} on {scratch.parent}"
    )


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.machine()


def file_system(path: Path) -> str:
    """The type of the file system that holds ``path``."""
    best = ("", "unknown file system")
    for line in _text("/proc/self/mounts").splitlines():
        _, place, kind = line.split()[:3]
        if path.is_relative_to(place) and len(place) >= len(best[0]):
            best = place, kind
    return best[1]


def load() -> str:
    """The load average of a minute, and how long of the last ten seconds somebody waited for a CPU or the disk (PSI)."""
    shares = [f"{name} {found[1]} %" for name in ("cpu", "io") if (found := _some(name))]
    return f"load {os.getloadavg()[0]:.1f}" + (", waiting for " + ", ".join(shares) if shares else "")


def _some(name: str) -> re.Match[str] | None:
    return re.match(r"some avg10=([\d.]+)", _text(f"/proc/pressure/{name}"))


def versions() -> dict[str, str]:
    """Everything that was measured or took part."""
    found = {
        "openoxide": f"{version('openoxide')} ({_commit()})",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    found |= {name: version(name) for name in DEPENDENCIES}
    for program in ("git", "strace"):
        said = _said(program, "--version").partition("\n")[0]
        found[program] = said.split()[-1] if said else "missing"
    return found


def _commit() -> str:
    head = _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    if not head:
        return "no commit"
    return head + (
        " and changes" if _said("git", "--no-optional-locks", "-C", str(ROOT), "status", "--porcelain", "-uno") else ""
    )


def _said(program: str, *arguments: str) -> str:
    if shutil.which(program) is None:
        return ""
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""
