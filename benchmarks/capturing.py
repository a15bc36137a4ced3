"""The first capture of a tree against shadow git's: CPU and wall time, the size of the store; the daemon's memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measuring import Spent, UnmeasuredError, allocated_bytes, in_turn, resident_mb
from product import Daemon
from report import Measured
from shadowgit import ShadowGit
from workshop import Case, Workshop


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A process's memory at one moment, and the most it had until then."""

    now_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ByProduct:
    """A first capture with the product. ``spent`` is everything; the daemon's start and the client are parts of it."""

    spent: Spent
    start_cpu_s: float
    client_cpu_s: float
    files: int
    content_bytes: int
    running_bytes: int
    stopped_bytes: int
    nothing_watched: Memory
    at_rest: Memory
    after_full_pass: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ByGit:
    """A first snapshot with shadow git. ``packed_bytes``: after a `git gc` that is no part of ``spent``."""

    spent: Spent
    files: int
    store_bytes: int
    packed_bytes: int


def first_capture(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, ...]:
    """``oxide-ctl watch`` with a new daemon against the four commands of a shadow snapshot with a new repository: times,
    store, memory at rest and after a full pass.
    """
    corpus = workshop.corpus(files)
    product: list[ByProduct] = []
    git: list[ByGit] = []
    candidates: tuple[Callable[[Case], None], ...] = (
        lambda case: product.append(_with_product(case)),
        lambda case: git.append(_with_git(case)),
    )
    for number in range(rounds):
        for candidate in in_turn(candidates, number):
            with workshop.case(corpus.root) as case:
                candidate(case)
    counted = {c.files for c in product} | {c.files for c in git}
    if len(counted) > 1:
        raise UnmeasuredError(f"the candidates did not capture the same: {sorted(counted)} files")
    at_rest = _memory([c.at_rest for c in product], [c.nothing_watched for c in product])
    after = _memory([c.after_full_pass for c in product], [c.nothing_watched for c in product])
    return _times(product, git), _store(product[-1], git[-1]), at_rest, after


def real_store(workshop: Workshop, tree: Path) -> Measured:
    """The size of the store for a tree that was not generated."""
    with workshop.case(tree) as case:
        return _store(_with_product(case), _with_git(case))


def _with_product(case: Case) -> ByProduct:
    with Daemon(case.folder) as daemon:
        nothing_watched, start_cpu_s = _memory_of(daemon), daemon.cpu_s
        client = daemon.ctl(case.tree, "--json", "watch")
        daemon.settle()
        cpu_s, at_rest, running_bytes = daemon.cpu_s, _memory_of(daemon), allocated_bytes(daemon.home)
        daemon.ctl(case.tree, "-q", "rewind", "last", "--exact", "--dry-run")  # looks at all of the tree
        daemon.settle()
        after_full_pass = _memory_of(daemon)
    watched = json.loads(client.output)
    return ByProduct(
        spent=Spent(wall_s=client.wall_s, cpu_s=client.cpu_s + cpu_s),
        start_cpu_s=start_cpu_s,
        client_cpu_s=client.cpu_s,
        files=watched["files"],
        content_bytes=watched["bytes"],
        running_bytes=running_bytes,
        stopped_bytes=allocated_bytes(daemon.home),
        nothing_watched=nothing_watched,
        at_rest=at_rest,
        after_full_pass=after_full_pass,
    )


def _memory_of(daemon: Daemon) -> Memory:
    now_mb, peak_mb = resident_mb(daemon.pid)
    return Memory(now_mb=now_mb, peak_mb=peak_mb)


def _with_git(case: Case) -> ByGit:
    shadow = ShadowGit(case.folder, case.tree)
    spent, commit = shadow.snapshot()
    files, store_bytes = shadow.regular_files(commit), allocated_bytes(shadow.store)
    shadow.git("gc", "-q")
    return ByGit(spent=spent, files=files, store_bytes=store_bytes, packed_bytes=allocated_bytes(shadow.store))


def _times(product: Sequence[ByProduct], git: Sequence[ByGit]) -> Measured:
    values = {
        "product_cpu_s": median(c.spent.cpu_s for c in product),
        "git_cpu_s": median(c.spent.cpu_s for c in git),
        "product_wall_s": median(c.spent.wall_s for c in product),
        "git_wall_s": median(c.spent.wall_s for c in git),
        "daemon_start_cpu_s": median(c.start_cpu_s for c in product),
        "client_cpu_s": median(c.client_cpu_s for c in product),
        "capture_cpu_s": median(c.spent.cpu_s - c.start_cpu_s - c.client_cpu_s for c in product),
    }
    values["cpu_ratio"] = values["product_cpu_s"] / values["git_cpu_s"]
    values["wall_ratio"] = values["product_wall_s"] / values["git_wall_s"]
    return Measured(
        summary="CPU {product_cpu_s:.2f} s, git {git_cpu_s:.2f} s: {cpu_ratio:.3f} x; "
        "wall {product_wall_s:.2f} s, git {git_wall_s:.2f} s: {wall_ratio:.2f} x".format(**values),
        made_of="CPU: start of the daemon {daemon_start_cpu_s:.2f} s, oxide-ctl {client_cpu_s:.2f} s, "
        "capture {capture_cpu_s:.2f} s; the wall times leave out the daemon's start and `git init`".format(**values),
        values=values,
        details={
            "samples_s": {
                "product": [{"cpu": c.spent.cpu_s, "wall": c.spent.wall_s} for c in product],
                "git": [{"cpu": c.spent.cpu_s, "wall": c.spent.wall_s} for c in git],
            }
        },
    )


def _store(product: ByProduct, git: ByGit) -> Measured:
    values = {
        "product_mb": product.running_bytes / 1e6,
        "stopped_mb": product.stopped_bytes / 1e6,
        "git_mb": git.store_bytes / 1e6,
        "git_packed_mb": git.packed_bytes / 1e6,
        "ratio": product.running_bytes / git.store_bytes,
        "ratio_to_packed": product.stopped_bytes / git.packed_bytes,
    }
    return Measured(
        summary=f"{product.files:,} files, {product.content_bytes / 1e6:.1f} MB: "
        "{product_mb:.1f} MB, git {git_mb:.1f} MB: {ratio:.2f} x".format(**values),
        made_of="on disk, with the write-ahead log of a running daemon; {stopped_mb:.1f} MB when it has stopped; "
        "git after an untimed `git gc` {git_packed_mb:.1f} MB".format(**values),
        values=values,
    )


def _memory(found: Sequence[Memory], nothing_watched: Sequence[Memory]) -> Measured:
    values = {
        "rss_mb": median(memory.now_mb for memory in found),
        "peak_mb": max(memory.peak_mb for memory in found),
        "nothing_watched_mb": median(memory.now_mb for memory in nothing_watched),
    }
    return Measured(
        summary="VmRSS {rss_mb:.0f} MB, VmHWM {peak_mb:.0f} MB".format(**values),
        made_of="{nothing_watched_mb:.0f} MB of it from the start, with nothing watched".format(**values),
        values=values,
    )
