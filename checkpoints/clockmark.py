"""The mark that ``clockguard`` compares the clocks with, as rows of ``meta``; and what becomes of checkpoints that were
sealed by a clock that was wrong: their time counts from when it is right.

A checkpoint whose time does not count from when it was sealed has a row ``counted.<id>`` in ``meta``, and one that was put
into trash, or taken back, by a clock that is not believed a row ``doubted.<id>``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from openoxide.checkpoints import meta
from openoxide.checkpoints.clockguard import Doubt, Look, Mark, Moment, accept, look, why_not
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.rows import raw
from openoxide.clock import Clock
from openoxide.db import Database, Transaction
from openoxide.errors import OpenOxideError

log = logging.getLogger(__name__)

_CLOCK, _COUNTED, _DOUBTED = "clock.", "counted.", "doubted."
# a mark matters after a boot only: until then the last one tells as much as one of this moment
_WRITE_MS = 600_000


_MOMENTS = [f"{name}_{key}" for name in ("seen", "run") for key in Moment._fields]
_KEYS = {*_MOMENTS, "seen_row", "run_row", "doubt", "jump_ms"}


class Verdict(NamedTuple):
    """Whether the wall clock is believed, and if not why, in words."""

    trusted: bool
    why: str = ""


class ClockMark:
    """The mark of one home. ``look`` is for the heartbeat and for whoever is about to let something go by the time."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self._written: Mark | None = None

    def look(self) -> Verdict:
        """Compare the clocks with the mark, and renew it. Where the store cannot be written it is renewed in memory only."""
        with self._lock:
            now, synchronised = _moment(self._clock), self._clock.synchronised()
            known, row, newest_ms = self._known()
            looked = look(known, now, row, newest_ms=newest_ms, synchronised=synchronised)
            mark = looked.mark
            try:
                self._keep(looked, now)
            except OpenOxideError as error:
                log.warning("the mark of the clock cannot be written: %s", error)
                # what was sealed by a wrong clock has to be counted anew first
                mark = known if looked.doubtful and known is not None else mark
            if known is None or mark.doubt is not known.doubt:
                told = why_not(mark, now, synchronised=synchronised)
                log.log(logging.WARNING if told else logging.INFO, "%s", told or "the clock is believed")
            self._mark = mark
            return Verdict(mark.doubt is Doubt.NONE, why_not(mark, now, synchronised=synchronised))

    def accept(self) -> None:
        """Somebody says that the clock is right as it is. Raises where the store cannot be written."""
        with self._lock:
            now = _moment(self._clock)
            known, row, newest_ms = self._known()
            looked = look(known, now, row, newest_ms=newest_ms, synchronised=False)
            accepted = accept(looked.mark, now, row)
            self._keep(accepted, now)
            self._mark = accepted.mark

    def close(self) -> None:
        """Write what the last look saw: after a boot nothing else tells of it."""
        with self._lock:
            if self._mark is not None and self._mark != self._written:
                with self._database.writing() as db:
                    write_mark(db, self._mark)

    def _known(self) -> tuple[Mark | None, int, int | None]:
        with self._database.reading() as db:
            return (self._mark or read_mark(db), *_newest(db))

    def _keep(self, looked: Look, now: Moment) -> None:
        mark, last = looked.mark, self._written
        renewed = last is not None and (mark.doubt, mark.run, mark.jump_ms) == (last.doubt, last.run, last.jump_ms)
        if renewed and last is not None and mark.seen.boot_ms - last.seen.boot_ms < _WRITE_MS and not looked.doubtful:
            return
        with self._database.writing() as db:
            if looked.doubtful:
                _count_anew(db, looked.doubtful, now.wall_ms)
            write_mark(db, mark)
        self._written = mark


def _moment(clock: Clock) -> Moment:
    # seven bytes: as large as an integer of SQLite can be, and never 0
    boot = int.from_bytes(blob_hash(clock.boot_id().encode())[:7], "little") + 1
    return Moment(clock.now_ms(), clock.boot_ms(), boot)


def _newest(db: Transaction) -> tuple[int, int | None]:
    """The row of the newest checkpoint, 0 if there is none, and when it was sealed."""
    # by row and not by time: one that was sealed while the clock was ahead is not the newest for ever
    found = raw(db).execute("select id, created_ms from checkpoint order by id desc limit 1").fetchone()
    return (found[0], found[1]) if found else (0, None)


def read_mark(db: Transaction) -> Mark | None:
    """The mark that was written last; None in a store where nobody looked at the clock yet."""
    found = meta.read(db, _CLOCK)
    if not found.keys() >= _KEYS or found["doubt"] not in {*Doubt}:
        return None
    seen, run = (Moment(*(found[f"{name}_{key}"] for key in Moment._fields)) for name in ("seen", "run"))
    return Mark(
        seen=seen,
        seen_row=found["seen_row"],
        run=run,
        run_row=found["run_row"],
        doubt=Doubt(found["doubt"]),
        jump_ms=found["jump_ms"],
    )


def write_mark(db: Transaction, mark: Mark) -> None:
    """Replace the mark."""
    values = {"doubt": int(mark.doubt), "jump_ms": mark.jump_ms, "seen_row": mark.seen_row, "run_row": mark.run_row}
    for name, moment in (("seen", mark.seen), ("run", mark.run)):
        values |= {f"{name}_{key}": value for key, value in moment._asdict().items()}
    meta.write(db, _CLOCK, values)


def _count_anew(db: Transaction, sealed: tuple[int, int], now_ms: int) -> None:
    """The checkpoints in these rows, and those that somebody took back meanwhile, are promised from now on for as long as
    they were then; what was forgotten meanwhile is in trash from now on.
    """
    found = raw(db).execute("select public_id, created_ms from checkpoint where id > ? and id <= ?", sealed)
    promised_ms = {**dict(found.fetchall()), **meta.read(db, _DOUBTED)}
    raw(db).executemany(
        "update checkpoint set expires_ms = ? + max(0, expires_ms - ?) where public_id = ?",
        [(now_ms, then_ms, public_id) for public_id, then_ms in promised_ms.items()],
    )
    raw(db).executemany(
        "update checkpoint set forgotten_ms = ? where public_id = ? and forgotten_ms is not null",
        [(now_ms, public_id) for public_id in promised_ms],
    )
    count_from(db, promised_ms, now_ms)
    meta.delete(db, _DOUBTED, meta.read(db, _DOUBTED))


def count_from(db: Transaction, public_ids: Iterable[str], ms: int) -> None:
    """The age of these checkpoints counts from ``ms`` on, whenever they were sealed."""
    meta.write(db, _COUNTED, dict.fromkeys(public_ids, ms))


def counted_from(db: Transaction) -> dict[str, int]:
    """From when the age of a checkpoint counts, by id, where that is not when it was sealed."""
    return meta.read(db, _COUNTED)


def doubt(db: Transaction, public_ids: Iterable[str], ms: int) -> None:
    """These were forgotten or taken back at ``ms`` by a clock that is not believed."""
    meta.write(db, _DOUBTED, dict.fromkeys(public_ids, ms))


def drop_counts(db: Transaction, public_ids: Sequence[str]) -> None:
    """Nothing more is said of these checkpoints, which leave the store."""
    for prefix in (_COUNTED, _DOUBTED):
        meta.delete(db, prefix, public_ids)
