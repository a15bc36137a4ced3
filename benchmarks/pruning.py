"""What a prune gives back, and whom the jobs make wait: edits of one text after a repack, and checkpoints beside a prune, a
check and an expire.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from measuring import UnmeasuredError
from product import NOT_BY_ITSELF, Daemon
from report import Measured
from workshop import Workshop

EDITS, TEXT_BYTES = 100, 1_000_000
STATES, CHANGED_IN_STATE = 15, 400
QUIET_CHECKPOINTS = 200
EXPIRING = 20_000
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
        _grow(daemon, case.tree, files)
        quiet = _quiet(daemon, case.tree)
        _age(daemon)
        return _measured(daemon, case.tree, quiet, lambda: f"{daemon.client.prune()['versions']:,} states went")


def beside_a_check(workshop: Workshop, files: int) -> Measured:
    """Checkpoints of one changed file while a check reads everything that is stored."""
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder, NOT_BY_ITSELF) as daemon:
        daemon.client.watch(str(case.tree))
        _grow(daemon, case.tree, files)
        quiet = _quiet(daemon, case.tree)

        def check() -> str:
            answer = daemon.client.check(read_data=True)
            if answer["problems"]:
                raise UnmeasuredError(f"the store is not sound: {answer['problems'][0]['message']}")
            return f"{answer['checked']['contents']:,} contents were read"

        return _measured(daemon, case.tree, quiet, check)


def beside_an_expire(workshop: Workshop, files: int) -> Measured:
    """Checkpoints of one changed file while an expire puts EXPIRING checkpoints into trash."""
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder, NOT_BY_ITSELF) as daemon:
        daemon.client.watch(str(case.tree))
        daemon.client.checkpoint(str(case.tree))
        daemon.stop()
        _write_checkpoints(daemon.home, EXPIRING)
        with daemon:
            daemon.client.checkpoint(str(case.tree))
            quiet = _quiet(daemon, case.tree)

            def expire() -> str:
                # by another process: to read an answer of so many holds this one up, and with it the checkpoints
                daemon.ctl(case.tree, "--json", "expire", "--yes")
                return f"{_forgotten(daemon):,} checkpoints went"

            return _measured(daemon, case.tree, quiet, expire)


def _grow(daemon: Daemon, tree: Path, files: int) -> None:
    paths = sorted(path for path in tree.rglob("*") if path.is_file())
    for state in range(STATES):
        for path in paths[: min(CHANGED_IN_STATE, files)]:
            with path.open("ab") as file:
                file.write(b"state %d\n" % state)
        daemon.client.call("diff", {"path": str(tree), "a": "last", "paths": [], "patch": False})
    daemon.client.checkpoint(str(tree))


def _quiet(daemon: Daemon, tree: Path) -> list[float]:
    daemon.settle()
    return [_checkpoint(daemon, tree, number) for number in range(QUIET_CHECKPOINTS)]


def _age(daemon: Daemon) -> None:
    with closing(sqlite3.connect(daemon.home / "timeline.db", timeout=10)) as timeline:
        timeline.execute("update checkpoint set created_ms = created_ms - ?", (DAYS_MS,))
        timeline.commit()


def _forgotten(daemon: Daemon) -> int:
    with closing(sqlite3.connect(daemon.home / "timeline.db", timeout=10)) as timeline:
        (count,) = timeline.execute("select count(*) from checkpoint where forgotten_ms is not null").fetchone()
    return int(count)


def _write_checkpoints(home: Path, count: int) -> None:
    """As many checkpoints as the newest one, over by now: to take them one by one would take longer than all the rest."""
    with closing(sqlite3.connect(home / "timeline.db")) as timeline:
        timeline.row_factory = sqlite3.Row
        newest = dict(timeline.execute("select * from checkpoint order by number desc limit 1").fetchone())
        columns, first = ", ".join(newest), newest["number"]
        made = (
            {
                **newest,
                "id": newest["id"] + number,
                "public_id": f"{number:032d}",
                "number": first + number,
                "expires_ms": newest["created_ms"],
            }
            for number in range(1, count + 1)
        )
        marks = ", ".join(f":{name}" for name in newest)
        timeline.executemany(f"insert into checkpoint({columns}) values({marks})", made)
        timeline.commit()


def _measured(daemon: Daemon, tree: Path, quiet: Sequence[float], work: Callable[[], str]) -> Measured:
    """Checkpoints while ``work`` goes on in the daemon; ``quiet``: how long they took before. ``work`` tells what it did."""
    done: list[str] = []
    working = threading.Thread(target=lambda: done.append(work()))
    began = time.perf_counter()
    working.start()
    beside: list[float] = []
    while working.is_alive():
        beside.append(_checkpoint(daemon, tree, len(beside)))
    seconds = time.perf_counter() - began
    if not done or not beside:
        raise UnmeasuredError("the work failed, or was over before a checkpoint")
    values = {
        "quiet_ms_median": median(quiet),
        "quiet_ms_max": max(quiet),
        "beside_ms_median": median(beside),
        "beside_ms_max": max(beside),
        "delay_ms_max": max(beside) - median(quiet),
        "work_s": seconds,
    }
    return Measured(
        summary=f"{values['beside_ms_median']:.1f} ms, at most {values['beside_ms_max']:.1f} ms; "
        f"without one {values['quiet_ms_median']:.1f} and {values['quiet_ms_max']:.1f} ms",
        made_of=f"{len(beside)} checkpoints of 1 changed file over the socket; {done[0]} in {seconds:.1f} s",
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
