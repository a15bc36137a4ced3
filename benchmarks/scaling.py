"""Ten thousand checkpoints on a hundred thousand paths, with the timeline in this process: no files, no daemon, no client.

It is the same engine on a real database, durable at each checkpoint; what it leaves out is reading the tree.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from corpus import WORDS
from measuring import UnmeasuredError, p99
from report import Measured

from openoxide.checkpoints import rows
from openoxide.checkpoints.diff import differences
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import FileState, Kind, Observed, StatIdentity, Trigger
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.timeline import Seal, Timeline
from openoxide.paths import Home

WORKTREE, CHANGES, LOOKS = 1, 5, 1_000
HISTORY = ("version", "checkpoint")
NOW = ("path", "live")
BLOBS = ("blob", "frame")
SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What it took; ``tables`` in bytes, each with its indexes."""

    seal_ms: Sequence[float]
    seal_cpu_ms: float
    diff_ms: Sequence[float]
    tables: dict[str, int]
    blobs: int


def at_scale(folder: Path, paths: int, checkpoints: int) -> Measured:
    """Seal, neighbours' diff, sizes of tables."""
    grown = grow(folder, paths, checkpoints)
    mb = {group: sum(grown.tables.get(name, 0) for name in names) / 1e6 for group, names in
          (("history", HISTORY), ("now", NOW), ("blobs", BLOBS))}  # fmt: skip
    values = {
        "seal_ms_median": median(grown.seal_ms),
        "seal_ms_p99": p99(grown.seal_ms),
        "seal_cpu_ms": grown.seal_cpu_ms,
        "diff_ms_median": median(grown.diff_ms),
        "diff_ms_p99": p99(grown.diff_ms),
        "timeline_mb": mb["history"],
        "paths_and_live_mb": mb["now"],
        "blob_index_bytes_a_blob": 1e6 * mb["blobs"] / grown.blobs,
    }
    sizes = ", ".join(
        f"{name} {size / 1e6:.2f} MB" for name, size in sorted(grown.tables.items(), key=_size) if size > 1e5
    )
    return Measured(
        summary="seal {seal_ms_median:.2f} ms median, {seal_ms_p99:.2f} p99; neighbours' diff {diff_ms_median:.2f} ms median, "
        "{diff_ms_p99:.2f} p99; history {timeline_mb:.1f} MB; blob index {blob_index_bytes_a_blob:.0f} B a blob".format(
            **values
        ),
        made_of=f"in this process, no daemon; a seal records {CHANGES} changed paths and the checkpoint, stores their bytes, and "
        f"is durable (CPU {grown.seal_cpu_ms:.2f} ms); history: {' and '.join(HISTORY)} with their indexes; "
        f"{' and '.join(NOW)}, which any history needs once, {mb['now']:.1f} MB; {sizes}",
        values=values,
    )


def _size(item: tuple[str, int]) -> int:
    return -item[1]


def grow(folder: Path, paths: int, checkpoints: int, recorded: Callable[[], object] = bool) -> Grown:
    """A timeline of that many paths and checkpoints in the new folder ``folder``; ``recorded`` is called when it has the
    paths.
    """
    folder.mkdir(mode=0o700)
    home = Home(folder)
    timeline = Timeline(home)
    try:
        rng = random.Random(1)
        names = list(_names(rng, paths))
        timeline.record(WORKTREE, (_found(name, 0) for name in names), seal=_seal(0))
        recorded()
        seal_ms, used = [], time.process_time()
        for number in range(1, checkpoints + 1):
            changed = [_found(name, number) for name in rng.sample(names, min(CHANGES, len(names)))]
            began = time.perf_counter()
            timeline.record(WORKTREE, changed, seal=_seal(number))
            seal_ms.append(1000 * (time.perf_counter() - began))
        seal_cpu_ms = 1000 * (time.process_time() - used) / checkpoints
        diff_ms = list(_neighbours(timeline, rng, paths, checkpoints))
    finally:
        timeline.close()
    tables, blobs = table_bytes(home.timeline_db)
    return Grown(seal_ms=seal_ms, seal_cpu_ms=seal_cpu_ms, diff_ms=diff_ms, tables=tables, blobs=blobs)


def _names(rng: random.Random, paths: int) -> Iterator[bytes]:
    for number in range(paths):
        folders = "/".join(rng.choice(WORDS) for _ in range(3))
        yield f"{folders}/{rng.choice(WORDS)}_{number:x}.py".encode()


def _found(path: bytes, number: int) -> Found:
    data = path + b" %d" % number
    moment = 1_600_000_000 * 10**9 + number * 10**9
    size = len(data)
    state = FileState(kind=Kind.FILE, mode=0o644, size=size, mtime_ns=moment, blob=blob_hash(data))
    inode = int.from_bytes(state.blob[:6], "little") if state.blob else 0
    seen = StatIdentity(dev=1, ino=inode, size=size, mtime_ns=moment, ctime_ns=moment, mode=0o100644, read_at_ns=moment)
    return Found(Observed(path=path, state=state, identity=seen), data)


def _seal(number: int) -> Seal:
    now_ms = 1_600_000_000_000 + 1000 * number
    name = random.Random(number).randbytes(16).hex()
    return Seal(id=name, trigger=Trigger.PROMPT, now_ms=now_ms, expires_at_ms=now_ms + 2_592_000_000)


def _neighbours(timeline: Timeline, rng: random.Random, paths: int, checkpoints: int) -> Iterator[float]:
    """As the daemon answers a diff: the paths with a row in between, both their states, what differs."""
    for _ in range(min(LOOKS, checkpoints)):
        before = paths + CHANGES * rng.randrange(checkpoints)
        began = time.perf_counter()
        with timeline.database.reading() as db:
            changed = rows.changed_paths(db, WORKTREE, before, before + CHANGES)
            old = rows.states_at(db, WORKTREE, before, changed)
            found = differences(old, rows.states_at(db, WORKTREE, before + CHANGES, changed))
        yield 1000 * (time.perf_counter() - began)
        if len(found) != CHANGES:
            raise UnmeasuredError(f"the diff of neighbours holds {len(found)} paths instead of {CHANGES}")


def table_bytes(path: Path) -> tuple[dict[str, int], int]:
    """The pages of each table and its indexes; how many blobs there are."""
    query = "select m.tbl_name, sum(s.pgsize) from dbstat s join sqlite_master m on m.name = s.name group by m.tbl_name"
    database = sqlite3.connect(path)
    try:
        return dict(database.execute(query).fetchall()), database.execute("select count(*) from blob").fetchone()[0]
    except sqlite3.OperationalError as error:
        raise UnmeasuredError(f"this SQLite cannot tell the size of a table: {error}") from error
    finally:
        database.close()
