"""What a prune gives back and whom it makes wait: edits of one text after a repack, and checkpoints beside a prune."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from measuring import UnmeasuredError
from product import NOT_BY_ITSELF, Daemon
from report import Measured
from workshop import Workshop

EDITS, TEXT_BYTES = 100, 1_000_000
STATES, CHANGED_IN_STATE = 15, 400
QUIET_CHECKPOINTS = 60
DAYS_MS = 3 * 86_400_000
WORDS = 3_000


def edits_of_a_text(workshop: Workshop) -> Measured:
    """EDITS edits of a line each of a text of TEXT_BYTES, with a checkpoint after each."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(WORDS)]

    def line() -> bytes:
        return " ".join(drawn.choices(words, k=9)).encode() + b"\n"

    size, lines = 0, []
    while size < TEXT_BYTES:
        lines.append(line())
        size += len(lines[-1])
    with workshop.case(workshop.corpus(10).root) as case, Daemon(case.folder, NOT_BY_ITSELF) as daemon:
        text = case.tree / "text.txt"
        text.write_bytes(b"".join(lines))
        daemon.client.watch(str(case.tree))
        first = _stored(daemon.home)
        for _ in range(EDITS):
            lines[drawn.randrange(len(lines))] = line()
            text.write_bytes(b"".join(lines))
            daemon.client.checkpoint(str(case.tree))
        before = _stored(daemon.home)
        began = time.perf_counter()
        daemon.client.prune()
        seconds = time.perf_counter() - began
        after = _stored(daemon.home)
        problems = daemon.client.check(read_data=True)["problems"]
    if problems:
        raise UnmeasuredError(f"the store is not sound after it: {problems[0]['message']}")
    values = {"grown_kb": (after - first) / 1e3, "before_kb": (before - first) / 1e3, "prune_s": seconds}
    return Measured(
        summary=f"{values['grown_kb']:.0f} kB more than after the first capture, {values['before_kb']:.0f} kB before it; "
        f"it took {seconds:.1f} s",
        made_of="allocated in blobs/, the text is 1 MB; every edit is another line anywhere in it",
        values=values,
    )


def checkpoints_beside(workshop: Workshop, files: int) -> Measured:
    """Checkpoints of one changed file while a prune takes STATES states of CHANGED_IN_STATE files each away."""
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder, NOT_BY_ITSELF) as daemon:
        daemon.client.watch(str(case.tree))
        paths = sorted(path for path in case.tree.rglob("*") if path.is_file())
        for state in range(STATES):
            for path in paths[: min(CHANGED_IN_STATE, files)]:
                with path.open("ab") as file:
                    file.write(b"state %d\n" % state)
            daemon.client.call("diff", {"path": str(case.tree), "a": "last", "paths": [], "patch": False})
        daemon.client.checkpoint(str(case.tree))
        daemon.settle()
        quiet = [_checkpoint(daemon, case.tree, number) for number in range(QUIET_CHECKPOINTS)]
        with closing(sqlite3.connect(daemon.home / "timeline.db", timeout=10)) as timeline:
            timeline.execute("update checkpoint set created_ms = created_ms - ?", (DAYS_MS,))
            timeline.commit()
        answers: list[int] = []
        pruning = threading.Thread(target=lambda: answers.append(daemon.client.prune()["versions"]))
        began = time.perf_counter()
        pruning.start()
        beside: list[float] = []
        while pruning.is_alive():
            beside.append(_checkpoint(daemon, case.tree, len(beside)))
        seconds = time.perf_counter() - began
    if not answers or not beside:
        raise UnmeasuredError("the prune failed, or was over before a checkpoint")
    values = {
        "quiet_ms_median": median(quiet),
        "quiet_ms_max": max(quiet),
        "beside_ms_median": median(beside),
        "beside_ms_max": max(beside),
        "delay_ms_max": max(beside) - median(quiet),
        "versions": answers[0],
        "prune_s": seconds,
    }
    return Measured(
        summary=f"{values['beside_ms_median']:.1f} ms, at most {values['beside_ms_max']:.1f} ms; "
        f"without one {values['quiet_ms_median']:.1f} and {values['quiet_ms_max']:.1f} ms",
        made_of=f"{len(beside)} checkpoints of 1 changed file over the socket; {answers[0]:,} states went in {seconds:.1f} s",
        values=values,
        details={"beside_ms": sorted(beside)[-20:], "quiet_ms": sorted(quiet)[-20:]},
    )


def _checkpoint(daemon: Daemon, tree: Path, number: int) -> float:
    (tree / "changed.txt").write_bytes(b"%d\n" % number)
    began = time.perf_counter()
    daemon.client.checkpoint(str(tree))
    return (time.perf_counter() - began) * 1000


def _stored(home: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in (home / "blobs").rglob("*") if path.is_file())
