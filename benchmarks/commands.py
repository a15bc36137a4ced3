"""What one ``oxide-ctl`` command costs, the daemon's part included, and where the client's part goes."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from statistics import median

from lives import change
from measuring import Spent, run
from peers import Oxide
from product import bare_environ, installed
from report import Measured
from workshop import Case, Workshop

STATES = 30
COMMANDS: tuple[tuple[str, ...], ...] = (("status",), ("log",), ("checkpoint",), ("--help",))
_IMPORTED = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)$", re.MULTILINE)


def command_costs(workshop: Workshop, files: int, times: int) -> tuple[Measured, ...]:
    """Each of COMMANDS with a daemon that runs and watches; `python -c pass` beside them."""
    corpus = workshop.corpus(files)
    with workshop.case(corpus.root) as case, Oxide(case) as peer:
        peer.first()
        for file in corpus.chosen(STATES, 0):
            change(peer, [file])
            peer.advance(file)
        peer.settle()
        return tuple(_cost(peer, command, times) for command in COMMANDS)


def _cost(peer: Oxide, command: Sequence[str], times: int) -> Measured:
    before_s = peer.background_cpu_s
    client = [peer.daemon.ctl(peer.case.tree, *command) for _ in range(times)]
    peer.settle()
    daemon_ms = 1000 * (peer.background_cpu_s - before_s) / times
    client_ms = 1000 * median(spent.cpu_s for spent in client)
    bare_ms = 1000 * median(_bare(peer.case).cpu_s for _ in range(times))
    wall_ms = 1000 * median(spent.wall_s for spent in client)
    return Measured(
        summary=f"CPU {client_ms + daemon_ms:.0f} ms, wall {wall_ms:.0f} ms",
        made_of=f"CPU: oxide-ctl {client_ms:.1f} ms (`python -c pass` {bare_ms:.1f}), daemon {daemon_ms:.1f} ms, running; "
        f"median and mean of {times}; {STATES + 1} checkpoints",
        values={"cpu_ms": client_ms + daemon_ms, "client_cpu_ms": client_ms, "daemon_cpu_ms": daemon_ms,
                "bare_cpu_ms": bare_ms, "wall_ms": wall_ms},
    )  # fmt: skip


def _bare(case: Case) -> Spent:
    return run([sys.executable, "-c", "pass"], bare_environ(case.folder), case.folder)


def imports(peer: Oxide, *command: str) -> list[str]:
    """Which packages the client spends its imports on, as Python's own ``-X importtime`` tells."""
    argv = [sys.executable, "-X", "importtime", installed("oxide-ctl"), "-C", str(peer.case.tree), *command]
    log = peer.case.folder / "imports"
    quoted = ["sh", "-c", f'"$@" 2>{log} >/dev/null', "sh", *argv]
    run(quoted, peer.daemon.environ, peer.case.folder)
    return by_package(log.read_text("utf-8"))


def by_package(said: str, most: int = 6) -> list[str]:
    """The packages that took longest, from what ``-X importtime`` prints."""
    spent: Counter[str] = Counter()
    for took_us, module in _IMPORTED.findall(said):
        spent[module.partition(".")[0]] += int(took_us)
    total_us = spent.total() or 1
    lines = [f"imports {total_us / 1000:.1f} ms (slower than without the trace)"]
    return lines + [f"{took / 1000:.1f} ms {name}" for name, took in spent.most_common(most)]
