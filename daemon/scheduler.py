"""What comes round by the clock: the heartbeat, the jobs, the end of a timed pause.

APScheduler with the settings it needs here: a laptop that slept runs a missed job once, late, and never twice at once. The
heartbeat is a thread of its own, because APScheduler waits by a clock that stands still in suspend, and runs nothing
for an hour where the wall clock was set back by one.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from openoxide.clock import Clock
from openoxide.daemon.cadence import HEARTBEAT_MS, Ticks, retry_ms, set_back_ms, slept_ms, until_run_ms
from openoxide.errors import OpenOxideError

log = logging.getLogger(__name__)

_SOON = "soon"  # what waits for no job to end


class Job(NamedTuple):
    """Work that is done each so many seconds, and after a start first in ``after_s`` and up to ``jitter_s`` more, which
    belong to whoever starts to work. It may be done once more than is needed, and ends soon when the daemon does.
    """

    name: str
    seconds: int
    work: Callable[[], object]
    after_s: int = 120
    jitter_s: int = 60


class JobState(NamedTuple):
    """How a job stands. ``failures``: how often it failed since it last did not; times are milliseconds since the epoch."""

    name: str
    seconds: int
    running: bool
    last_run_ms: int | None
    next_run_ms: int | None
    failures: int
    error: str


class _Run:
    """One job as it goes."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.running = False
        self.last_run_ms: int | None = None
        self.failures = 0
        self.error = ""


class Scheduler:
    """``beat`` is told for how long the machine slept. ``jobs`` are done one at a time, in the background; ``remember`` is
    told when one was done, and ``last_runs`` says what it was told, also by an earlier daemon.
    """

    def __init__(
        self,
        clock: Clock,
        beat: Callable[[int], object],
        jobs: Sequence[Job] = (),
        remember: Callable[[str, int], object] = lambda _name, _ms: None,
    ) -> None:
        self._clock = clock
        self._beat = beat
        self._runs = [_Run(job) for job in jobs]
        self._remember = remember
        self._scheduler: Any = None
        self._last = self._ticks()
        self._stopping = threading.Event()
        self._heart = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self, last_runs: dict[str, int] | None = None) -> None:
        from apscheduler.executors.pool import ThreadPoolExecutor  # noqa: PLC0415 - 0.1 s at every start
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

        # it warns of each run that is left out because the one before has not ended, which is as it should be
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            daemon=True,
            # one at a time: together they would take a machine that somebody works on
            executors={"default": ThreadPoolExecutor(1), _SOON: ThreadPoolExecutor(2)},
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        for run in self._runs:
            run.last_run_ms = (last_runs or {}).get(run.job.name)
            self._add(run)
        self._scheduler.start()
        self._heart.start()

    def _add(self, run: _Run) -> None:
        job, now_ms = run.job, self._clock.now_ms()
        after_ms = random.randint(1_000 * job.after_s, 1_000 * (job.after_s + job.jitter_s))  # noqa: S311 no secret
        wait_ms = until_run_ms(now_ms, run.last_run_ms, 1_000 * job.seconds, after_ms)
        self._scheduler.add_job(
            self._do, "interval", [run], seconds=job.seconds, id=job.name, next_run_time=_in(wait_ms)
        )

    def once(self, key: str, at_ms: int, work: Callable[[], object]) -> None:
        """Run ``work`` at this moment, late where the machine slept; a later call with the same ``key`` replaces it."""
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        self._scheduler.add_job(work, "date", run_date=moment, id=key, replace_existing=True, executor=_SOON)

    def states(self) -> list[JobState]:
        """Every job, in the order they were given."""
        return [
            JobState(
                run.job.name, run.job.seconds, run.running, run.last_run_ms, self._next_ms(run), run.failures, run.error
            )
            for run in self._runs
        ]

    def _next_ms(self, run: _Run) -> int | None:
        planned = self._scheduler.get_job(run.job.name) if self._scheduler is not None else None
        if planned is None or planned.next_run_time is None:
            return None
        wait: timedelta = planned.next_run_time - datetime.now(UTC)
        return self._clock.now_ms() + round(wait.total_seconds() * 1000)

    def _do(self, run: _Run) -> None:
        if self._stopping.is_set():
            return
        run.running = True
        try:
            run.job.work()
            self._done(run)
        except OpenOxideError as error:
            log.warning("%s failed: %s", run.job.name, error)
            self._failed(run, error.message)
        except Exception as error:  # a job that fails is tried again, and never ends the daemon
            log.exception("%s failed", run.job.name)
            self._failed(run, str(error) or type(error).__name__)
        finally:
            run.running = False

    def _done(self, run: _Run) -> None:
        run.last_run_ms = self._clock.now_ms()
        run.failures, run.error = 0, ""
        self._remember(run.job.name, run.last_run_ms)

    def _failed(self, run: _Run, why: str) -> None:
        run.failures += 1
        run.error = why
        planned = self._scheduler.get_job(run.job.name)
        if planned is not None:
            planned.modify(next_run_time=_in(retry_ms(run.failures, 1_000 * run.job.seconds)))

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


def _in(ms: int) -> datetime:
    return datetime.now(UTC) + timedelta(milliseconds=ms)
