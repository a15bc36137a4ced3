"""What comes round by the clock: the full pass over every worktree, folding the WAL back, the end of a timed pause.

APScheduler with the settings it needs here: a laptop that slept runs a missed job once, late, and never twice at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from openoxide.settings import Settings

WAL_FOLD_SECONDS = 900


class Scheduler:
    """The daemon's jobs. Each must only queue its work or be short."""

    def __init__(self, settings: Settings, full_pass: Callable[[], object], fold_wal: Callable[[], object]) -> None:
        self._jobs = [(full_pass, settings.capture.full_pass_ms / 1000), (fold_wal, WAL_FOLD_SECONDS)]
        self._scheduler: Any = None

    def start(self) -> None:
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - 0.1 s at every start

        self._scheduler = BackgroundScheduler(timezone=UTC, daemon=True)
        for work, seconds in self._jobs:
            self._scheduler.add_job(
                work, "interval", seconds=seconds, coalesce=True, misfire_grace_time=None, max_instances=1
            )
        self._scheduler.start()

    def once(self, key: str, at_ms: int, work: Callable[[], object]) -> None:
        """Run ``work`` at this moment, late where the machine slept; a later call with the same ``key`` replaces it."""
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        self._scheduler.add_job(work, "date", run_date=moment, id=key, replace_existing=True, misfire_grace_time=None)

    def stop(self) -> None:
        """Returns when no job runs any more."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=True)
