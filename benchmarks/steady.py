"""What a watched tree costs when little or nothing happens in it: at rest, and a checkpoint of one file or of none."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import checkpointing
from measuring import resident_mb
from passes import full_pass
from readers import readers
from report import Measured
from stage import Stage

READERS = 2
APART = 1_000_000  # between the numbers of two rows of changes


def at_rest(stage: Stage, seconds: float) -> tuple[Measured, Measured]:
    """CPU and memory of a daemon that watches a tree in which nothing happens."""
    daemon = stage.daemon
    daemon.settle()
    before_s, began = daemon.cpu_s, time.monotonic()
    time.sleep(seconds)
    used_s, took_s = daemon.cpu_s - before_s, time.monotonic() - began
    now_mb, peak_mb = resident_mb(daemon.pid)
    memory = Measured(
        summary=f"VmRSS {now_mb:.0f} MB",
        made_of=f"after the first capture and {took_s:.0f} s of rest; VmHWM, the most until then, {peak_mb:.0f} MB",
        values={"rss_mb": now_mb, "peak_mb": peak_mb},
    )
    return _rest(used_s, took_s, full_pass(stage).cpu_s, *stage.full_passes()), memory


def _rest(used_s: float, took_s: float, pass_s: float, every_s: float, polled: str) -> Measured:
    values = {
        "cpu_percent": 100 * used_s / took_s,
        "cpu_percent_with_full_passes": 100 * (used_s / took_s + (0 if polled else pass_s / every_s)),
        "full_pass_cpu_s": pass_s,
        "full_pass_every_s": every_s,
    }
    return Measured(
        summary=f"{values['cpu_percent']:.4f} % of a CPU: {1000 * used_s:.1f} ms in {took_s:.0f} s",
        made_of=f"{f'polled ({polled}), with' if polled else 'without'} the full passes, of which one comes every "
        f"{every_s:.0f} s and takes {pass_s:.2f} s of CPU; with them {values['cpu_percent_with_full_passes']:.4f} %",
        values=values,
    )


def one_added(stage: Stage, rounds: int) -> Measured:
    """A file more in the whole tree, and at once a checkpoint: whether it holds just that."""
    waited_ms, wrong = [], 0
    for number in range(rounds):
        (stage.case.tree / f"added-{time.time_ns():x}.txt").write_text(f"round {number}\n", "utf-8")
        asked = time.perf_counter()
        sealed = stage.daemon.client.checkpoint(stage.tree)
        waited_ms.append(1000 * (time.perf_counter() - asked))
        wrong += sealed["changed"] != {"added": 1, "modified": 0, "removed": 0} or not sealed["complete"]
    return Measured(
        summary=f"{rounds - wrong} of {rounds} are complete and say added 1, nothing else; {median(waited_ms):.2f} ms",
        made_of="the round trip, median",
        values={"wrong": wrong, "round_trip_ms_median": median(waited_ms)},
    )


def one_changed(stage: Stage, rounds: int) -> Measured:
    """As the main job's figure ``checkpoint``."""
    return checkpointing.changes(stage.daemon, stage.case, stage.corpus, rounds)


def beside_readers(stage: Stage, rounds: int) -> Measured:
    """The same while clients read."""
    stage.daemon.client.checkpoint(stage.tree)  # a first one has nothing before it that a diff could name
    with readers(stage.daemon, stage.tree, READERS) as reading:
        found = checkpointing.changes(stage.daemon, stage.case, stage.corpus, rounds, APART)
    per_s = reading.answers / reading.seconds
    return replace(
        found,
        made_of=f"{READERS} clients had {per_s:.0f} answers a second meanwhile; {found.made_of}",
        values={**found.values, "answers_per_s": per_s},
    )


def nothing_changed(stage: Stage, rounds: int) -> Measured:
    """A checkpoint of what the last one holds already."""
    return checkpointing.without_changes(stage.daemon, stage.case, rounds)
