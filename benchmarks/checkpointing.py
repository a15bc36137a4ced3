"""A checkpoint with one changed file: how long it takes from the write to the durable row, and what it looks at."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from corpus import Corpus, edited
from measuring import UnmeasuredError, p99
from product import Daemon
from report import Measured
from shadowgit import make_project_repository
from tracing import LISTS, SYNCS, Place, Scene, by_place, calls, touches
from workshop import Case, Workshop

CHECKPOINTS_IN_ROUND, WARM_UP = 100, 5
PAUSE_SECONDS = 0.01  # an agent's checkpoints do not follow one another at once
PROBE_EVERY, PROBE_BYTES = 10, 4096
STRACE_SECONDS = 30.0

Counted = Mapping[Place, Counter[tuple[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds of one checkpoint and of the ping before it, and the daemon's CPU time in each."""

    ping: float
    write: float
    checkpoint: float
    ping_cpu: float
    checkpoint_cpu: float

    @property
    def in_daemon(self) -> float:
        """Without what any call costs: connecting, a thread for the connection, HTTP both ways."""
        return self.checkpoint - self.ping


def one_changed(workshop: Workshop, files: int, rounds: int) -> Measured:
    """A ping, then one file rewritten in place and at once a checkpoint, over and over; the real watcher in between."""
    corpus = workshop.corpus(files)
    with _watched(workshop, corpus) as (case, daemon):
        return changes(daemon, case, corpus, rounds)


def changes(daemon: Daemon, case: Case, corpus: Corpus, rounds: int, first: int = 0) -> Measured:
    """The same with a daemon that watches already; ``first`` is another number where files have been edited before."""
    samples, syncs = [], []
    for number in range(first, first + rounds * CHECKPOINTS_IN_ROUND + WARM_UP):
        time.sleep(PAUSE_SECONDS)
        samples.append(_sample(daemon, case, corpus.chosen(1, number)[0], number))
        if number % PROBE_EVERY == 0:
            syncs.append(fdatasync_s(case.folder / "probe"))
    return _summed_up(samples[WARM_UP:], syncs)


def without_changes(daemon: Daemon, case: Case, rounds: int) -> Measured:
    """A ping, then a checkpoint of what the last one holds already, over and over."""
    samples, syncs = [], []
    for number in range(rounds * CHECKPOINTS_IN_ROUND + WARM_UP):
        time.sleep(PAUSE_SECONDS)
        samples.append(_asked(daemon, str(case.tree), lambda: None, modified=0))
        if number % PROBE_EVERY == 0:
            syncs.append(fdatasync_s(case.folder / "probe"))
    return _summed_up(samples[WARM_UP:], syncs)


@contextmanager
def _watched(workshop: Workshop, corpus: Corpus) -> Iterator[tuple[Case, Daemon]]:
    with workshop.case(corpus.root) as case, watching(case) as daemon:
        yield case, daemon


@contextmanager
def watching(case: Case) -> Iterator[Daemon]:
    """A daemon that has taken the first capture of the tree, which is made a repository of its own before."""
    make_project_repository(case.tree, case.folder)
    with Daemon(case.folder) as daemon:
        daemon.ctl(case.tree, "-q", "watch")
        daemon.settle()
        yield daemon


def _sample(daemon: Daemon, case: Case, file: Path, number: int) -> Sample:
    path = case.tree / file
    data = edited(path.read_bytes(), f"round {number}")
    return _asked(daemon, str(case.tree), lambda: path.write_bytes(data), modified=1)


def _asked(daemon: Daemon, tree: str, write: Callable[[], object], modified: int) -> Sample:
    cpu_at_first = daemon.cpu_s
    called = time.perf_counter()
    daemon.ping()
    answered = time.perf_counter()
    cpu_between = daemon.cpu_s
    began = time.perf_counter()
    write()
    asked = time.perf_counter()
    sealed = daemon.client.checkpoint(tree)
    durable = time.perf_counter()
    if sealed["changed"] != {"added": 0, "modified": modified, "removed": 0}:
        raise UnmeasuredError(
            f"checkpoint {sealed['number']} holds {sealed['changed']} instead of {modified} changed files"
        )
    if not sealed["complete"]:
        raise UnmeasuredError(f"checkpoint {sealed['number']} is not complete: {sealed['gap']}")
    return Sample(
        ping=answered - called,
        write=asked - began,
        checkpoint=durable - asked,
        ping_cpu=cpu_between - cpu_at_first,
        checkpoint_cpu=daemon.cpu_s - cpu_between,
    )


def fdatasync_s(path: Path) -> float:
    """What the disk takes for one durable append at that moment."""
    with path.open("ab", buffering=0) as file:
        file.write(bytes(PROBE_BYTES))
        began = time.perf_counter()
        os.fdatasync(file.fileno())
        return time.perf_counter() - began


def _summed_up(samples: Sequence[Sample], syncs: Sequence[float]) -> Measured:
    parts = {
        "in_daemon": [sample.in_daemon for sample in samples],
        "write_to_durable": [sample.write + sample.checkpoint for sample in samples],
        "round_trip": [sample.checkpoint for sample in samples],
        "ping": [sample.ping for sample in samples],
        "cpu_in_daemon": [sample.checkpoint_cpu - sample.ping_cpu for sample in samples],
        "fdatasync": syncs,
    }
    ms = {name: [round(1000 * value, 3) for value in values] for name, values in parts.items()}
    values = {f"{name}_ms_median": median(some) for name, some in ms.items()}
    values |= {f"{name}_ms_p99": p99(some) for name, some in ms.items()}
    return Measured(
        summary=f"in the daemon {_both(values, 'in_daemon')}; from the write to the durable row "
        f"{_both(values, 'write_to_durable')}; {len(samples)} checkpoints",
        made_of=f"in the daemon: the round trip ({_both(values, 'round_trip')}) less a ping ({_both(values, 'ping')}); "
        f"CPU, in the same way, {_both(values, 'cpu_in_daemon')}; "
        f"one fdatasync of 4 KB beside the store {_both(values, 'fdatasync')}",
        values=values,
        details={"samples_ms": ms},
    )


def _both(values: Mapping[str, float], name: str) -> str:
    return f"{values[f'{name}_ms_median']:.2f} ms median, {values[f'{name}_ms_p99']:.2f} p99"


def traced(workshop: Workshop, files: int, rounds: int) -> Measured:
    """The same checkpoint with strace on the daemon: every path that it asks the kernel about."""
    if shutil.which("strace") is None:
        raise UnmeasuredError("strace is not installed")
    corpus = workshop.corpus(files)
    names = frozenset(str(path) for path in corpus.files)
    total: dict[Place, Counter[tuple[str, str]]] = {place: Counter() for place in Place}
    with _watched(workshop, corpus) as (case, daemon):
        first, *others = (corpus.chosen(1, number)[0] for number in range(rounds + 1))
        _sample(daemon, case, first, 0)  # the first one imports modules
        for number, file in enumerate(others, 1):
            trace = case.folder / f"trace-{number}"
            with _strace(daemon.pid, trace):
                _sample(daemon, case, file, number)
            scene = Scene(root=str(case.tree), home=str(daemon.home), changed=str(file), files=names)
            found = by_place(touches(trace.read_text("latin-1").splitlines()), scene)
            if not found[Place.CHANGED]:
                raise UnmeasuredError("strace saw nothing of the changed file, so what else it did not see is unknown")
            _add(total, found, scene)
        seen_in_full_pass = _control(daemon, case, scene)
    return _proof(total, rounds, files, seen_in_full_pass)


def _control(daemon: Daemon, case: Case, scene: Scene) -> int:
    """How many unchanged files the same method sees looked at when all are: in a full pass, here of a dry run."""
    trace = case.folder / "trace-control"
    with _strace(daemon.pid, trace):
        daemon.client.rewind(str(case.tree), "last", exact=True, dry_run=True)
    found = by_place(touches(trace.read_text("latin-1").splitlines()), scene)
    return len({path for _, path in found[Place.UNCHANGED]})


@contextmanager
def _strace(pid: int, output: Path) -> Iterator[None]:
    """strace attached to all threads of ``pid``. Raises UnmeasuredError where that is forbidden."""
    command = ["strace", "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-o", str(output), "-p", str(pid)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        said = strace.stderr.readline()
        if "attached" not in said:
            raise UnmeasuredError(f"strace cannot attach: {said.strip()}")
        try:
            yield
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=STRACE_SECONDS)


def _add(total: dict[Place, Counter[tuple[str, str]]], found: Counted, scene: Scene) -> None:
    """Sum up under names that do not depend on where this run's scratch folder lies."""
    for place, counted in found.items():
        for (call, path), count in counted.items():
            shown = path.replace(scene.root, "TREE", 1).replace(scene.home, "HOME", 1)
            total[place][call, shown] += count


def _proof(total: Counted, rounds: int, files: int, seen_in_full_pass: int) -> Measured:
    if seen_in_full_pass < files - 1:
        raise UnmeasuredError(f"of a full pass over {files} files strace saw only {seen_in_full_pass} looked at")
    counts = {place: sum(counted.values()) for place, counted in total.items()}
    listed = sum(calls(counted, LISTS) for place, counted in total.items() if place is not Place.ELSEWHERE)
    syncs = sum(calls(counted, SYNCS) for counted in total.values()) / rounds
    unchanged = counts[Place.UNCHANGED]
    return Measured(
        summary=f"{unchanged} calls on {files - 1:,} unchanged files in {rounds} checkpoints",
        made_of=", ".join(f"{place.value} {count}" for place, count in counts.items())
        + f"; folders listed {listed}; {syncs:g} syncs a checkpoint; "
        f"to compare: a full pass, traced alike, looks at {seen_in_full_pass:,} of them",
        values={
            "calls_on_unchanged_files": unchanged,
            "calls_on_others_in_the_tree": counts[Place.OTHER],
            "calls_on_the_changed_file": counts[Place.CHANGED],
            "listed_folders": listed,
            "syncs_in_a_checkpoint": syncs,
            "unchanged_files_seen_in_a_full_pass": seen_in_full_pass,
        },
        details={"paths": {place.value: _listing(counted) for place, counted in total.items()}},
    )


def _listing(counted: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    listing: dict[str, dict[str, Any]] = {}
    for (call, path), count in sorted(counted.items()):
        listing.setdefault(path, {})[call] = count
    return listing
