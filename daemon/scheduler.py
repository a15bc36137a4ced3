"""What comes round by the clock: the heartbeat, folding the WAL back, the end of a timed pause.

APScheduler with the settings it needs here: a laptop that slept runs a missed job once, late, and never twice at once. The
heartbeat is a thread of its own, because APScheduler waits by a clock that stands still in suspend, and runs nothing
for an hour where the wall clock was set back by one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from openoxide.clock import Clock
from openoxide.daemon.cadence import HEARTBEAT_MS, Ticks, set_back_ms, slept_ms

WAL_FOLD_SECONDS = 900

log = logging.getLogger(__name__)


class Scheduler:
    """The daemon's jobs. Each must only queue its work or be short. ``beat`` is told for how long the machine slept."""

    def __init__(self, clock: Clock, beat: Callable[[int], object], fold_wal: Callable[[], object]) -> None:
        self._clock = clock
        self._beat = beat
        self._fold_wal = fold_wal
        self._scheduler: Any = None
        self._last = self._ticks()
        self._stopping = threading.Event()
        self._heart = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - 0.1 s at every start

        self._scheduler = BackgroundScheduler(timezone=UTC, daemon=True)
        self._scheduler.add_job(
            self._fold_wal,
            "interval",
            seconds=WAL_FOLD_SECONDS,
            coalesce=True,
            misfire_grace_time=None,
            max_instances=1,
        )
        self._scheduler.start()
        self._heart.start()

    def once(self, key: str, at_ms: int, work: Callable[[], object]) -> None:
        """Run ``work`` at this moment, late where the machine slept; a later call with the same ``key`` replaces it."""
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        self._scheduler.add_job(work, "date", run_date=moment, id=key, replace_existing=True, misfire_grace_time=None)

    def stop(self) -> None:
        """Returns when no job runs any more."""
        self._stopping.set()
        if self._heart.is_alive():
            self._heart.join()
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=True)

    def tick(self) -> None:
        """One beat: what the clocks did since the last one decides what is made up for."""
        before, self._last = self._last, self._ticks()
        if set_back_ms(before, self._last):
            log.warning("the clock was set back by %d s", set_back_ms(before, self._last) // 1000)
            for job in self._scheduler.get_jobs():
                if hasattr(job.trigger, "interval"):
                    job.modify(next_run_time=datetime.now(UTC))
        slept = slept_ms(before, self._last)
        if slept:
            log.info("the machine slept for %d s", slept // 1000)
            self._scheduler.wakeup()
        self._beat(slept)

    def _run(self) -> None:
        while not self._stopping.wait(HEARTBEAT_MS / 1000):
            try:
                self.tick()
            except Exception:  # the next beat may find the trouble gone; without a heart nothing is ever looked at
                log.exception("the heartbeat failed")

    def _ticks(self) -> Ticks:
        return Ticks(self._clock.now_ms(), self._clock.boot_ms(), self._clock.awake_ms())
