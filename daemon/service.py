"""The composition root: owns the store, the watched worktrees and the threads, in one order of start and stop."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from openoxide.checkpoints import journal, meta, store
from openoxide.checkpoints.clockmark import ClockMark
from openoxide.checkpoints.erase import finish
from openoxide.checkpoints.gauge import Gauge
from openoxide.checkpoints.migrating import drop_old_stores
from openoxide.checkpoints.model import Checkpoint, Trigger, Worktree
from openoxide.checkpoints.timeline import Beside, Timeline
from openoxide.checkpoints.tree import identity_of
from openoxide.clock import Clock
from openoxide.daemon.background import Background
from openoxide.daemon.cadence import SUSPEND
from openoxide.daemon.jobs import jobs
from openoxide.daemon.memories import Memories, memory_settings
from openoxide.daemon.operations.briefing import refresh
from openoxide.daemon.operations.expiring import retention_of, take_back
from openoxide.daemon.operations.foreseeing import Foresight
from openoxide.daemon.operations.hooking import take_up
from openoxide.daemon.operations.looking import View, holds, is_broad
from openoxide.daemon.operations.settling import settle_at_start
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.pauses import try_to_follow
from openoxide.daemon.queues import Queues
from openoxide.daemon.quiet import QuietSealer
from openoxide.daemon.reserve import Reserve
from openoxide.daemon.scheduler import Scheduler
from openoxide.daemon.spool import Spool
from openoxide.daemon.watched import FullPassProgress, Label, Watched
from openoxide.errors import NotFoundError, OpenOxideError, RootVanishedError, StoreDamagedError
from openoxide.paths import Home
from openoxide.settings import Settings
from openoxide.taken import Taken, trouble

log = logging.getLogger(__name__)

JOB_RUNS = "job."
RECORD_PATHS = 2_000  # about as many as are recorded in a fifth of a second

OnSealed = Callable[[Worktree, Checkpoint], None]


class Service:
    """What the operations work with; ``on_sealed`` hears of every checkpoint."""

    def __init__(self, home: Home, settings: Settings, clock: Clock) -> None:
        self.home = home
        self.settings = settings
        self.clock = clock
        self.started_ms = clock.now_ms()
        self.taken: Taken | None = None  # None: the settings are whoever made this one's, and no file's
        self.on_sealed: list[OnSealed] = []
        self.stop_requested = threading.Event()
        self.reserve = Reserve(home.reserve)
        self.timeline = self.reserve.spend(partial(Timeline, home))
        self.timeline.standing.on_loss = self._lost
        self.clock_mark = ClockMark(self.timeline.database, clock)
        self.background = Background()
        self.spool = Spool(home.spool)
        self.purging = threading.RLock()  # two would rewrite the same files
        self.purge_waits = False  # one has bytes left to remove
        self.sessions = Queues()
        self.memories = Memories(self)
        self._watched: dict[int, Watched] = {}
        self._gone: set[int] = set()  # worktrees whose root was not there when it was last looked for
        self._lock = threading.Lock()
        self._sealer = QuietSealer(self._seal_quietly, self._waits)
        self.expiring = threading.Lock()  # one expire at a time, whether by hand or by the clock
        self.refused_limits: tuple[str, ...] = ()  # those that the last expire could not hold
        self.gauge = Gauge()  # what the limits were measured at
        self.foresight: Foresight | None = None  # what they were seen to take
        self.scheduler = Scheduler(clock, self.beat, jobs(self), self._remember_run)

    def start(self) -> None:
        """Take up every watched worktree; each is compared with its record in the background. What hooks left follows."""
        # before anything is sealed: in a store without a mark the newest checkpoint is what the clock is compared with
        if self.clock_mark.look().trusted:
            drop_old_stores(self.home.timeline_db, self.clock.now_ms())
        with self.timeline.database.reading() as db:
            known = [worktree for worktree in store.worktrees(db) if worktree.watching and not worktree.is_memory]
            newest = {worktree.id: store.CheckpointQuery(db, worktree.id).newest() for worktree in known}
        self.background.start()
        self._sealer.start()
        # who worked here last is most likely to ask first
        known.sort(key=lambda w: -(last.created_at_ms if (last := newest[w.id]) else 0))
        for worktree in known:
            self.attach_soon(self.take_up(worktree))
        # behind their code: a rewind of both is settled by the code's
        memories = [memory for tree in known for memory in self.memories.read_by(tree)] + self.memories.unsettled()
        for memory in {memory.worktree.id: memory for memory in memories}.values():
            self.attach_soon(memory)
            # the policy may have been changed while no daemon ran
            self.background.submit(f"context {memory.worktree.id}", partial(refresh, self, memory.worktree))
        self.background.submit("spool", partial(take_up, self))
        self.background.submit("purge", self.finish_purge)
        self.background.submit("what a quota left out", partial(take_back, self))
        with self.timeline.database.reading() as db:
            last_runs = meta.read(db, JOB_RUNS)
        self.scheduler.start(last_runs)
        for watched in self.all_watched():
            self._expect_end_of_pause(watched)

    def stop(self) -> None:
        """Stop the threads, take in what has changed, and close the store. Much that waits is left to the next start: whoever
        stops a daemon waits for it.
        """
        self.stop_requested.set()  # to a job that runs
        # first what feeds the others, last the store that all of them use
        self.scheduler.stop()
        self._sealer.stop()
        self.background.stop()
        # memories last: a seal of the code asks for theirs
        for watched in sorted(self.all_watched(), key=lambda watched: watched.worktree.is_memory):
            with watched.lock:
                self._seal_last(watched)
                watched.stop()
        with contextlib.suppress(OpenOxideError):  # on a full disk the one that was written before is as good
            self.clock_mark.look()
            self.clock_mark.close()
        self.timeline.close()

    def _seal_last(self, watched: Watched) -> None:
        if not watched.attached or watched.paused:
            return
        watched.watch.barrier()
        if not 0 < watched.watch.pending <= RECORD_PATHS:
            return
        with self.timeline.database.reading() as db:
            # what an operation has left half done is not to be recorded as anybody's
            if journal.open_operations(db, watched.worktree.id):
                return
        try:
            watched.seal(Label(trigger=Trigger.QUIET, turn=watched.only_turn, only_if_changed=True))
        except OpenOxideError as error:
            log.warning("the last changes of worktree %d are left to the next start: %s", watched.worktree.id, error)

    # worktrees

    def take_up(self, worktree: Worktree, *, locked: bool = False) -> Watched:
        """Let requests find ``worktree`` from now on; the first of them attaches it, unless that is done soon. With
        ``locked`` they wait: the caller has the lock, and releases it.
        """
        settings = memory_settings(self.settings) if worktree.is_memory else self.settings.of(worktree.root)
        beside = None if worktree.is_memory else partial(self._beside, worktree.id)
        watched = Watched(worktree, self.timeline, settings, self.clock, self._changed, self._sealed, beside)
        if locked:
            watched.lock.acquire()
        with self._lock:
            self._watched[worktree.id] = watched
        return watched

    def attach_soon(self, watched: Watched) -> None:
        """Attach in the background, unless a request comes first."""
        self.background.submit(f"attach {watched.worktree.id}", partial(self._look_again, watched))

    def let_go(self, watched: Watched) -> None:
        """Watch no longer."""
        with self._lock:
            self._watched.pop(watched.worktree.id, None)
        with watched.lock:
            # under the lock: who waits for it must not start the watch again (tests/daemon/test_moving.py)
            watched.released = True
            watched.stop()

    def all_watched(self) -> list[Watched]:
        """Every watched worktree, attached or not, the memories of projects among them."""
        with self._lock:
            return list(self._watched.values())

    def trees(self) -> list[Watched]:
        """The watched worktrees that are code: what commands find by a path, and what projects are made of."""
        return [watched for watched in self.all_watched() if not watched.worktree.is_memory]

    def _beside(self, worktree: int, trigger: Trigger) -> Beside | None:
        with self._lock:
            watched = self._watched.get(worktree)
        return None if watched is None else self.memories.seal(watched.worktree, trigger)

    def find(self, path: bytes) -> Watched:
        """The innermost watched worktree that holds ``path``. Raises NotFoundError."""
        real = os.path.realpath(path)
        holding = [w for w in self.trees() if holds(w.worktree.root, real)]
        if not holding and not os.path.lexists(path):
            raise NotFoundError(
                f"{os.fsdecode(path)} does not exist", hint="change to a project, or choose one with -C"
            )
        if not holding and (hint := self._moved_to(real)):
            raise NotFoundError(f"{os.fsdecode(path)} is not in a watched project", hint=hint)
        if not holding:
            hint = f"run `oxide-ctl watch {os.fsdecode(path)}`, or choose another with -C"
            hint = "change to a project, or choose one with -C" if is_broad(real) else hint
            raise NotFoundError(f"{os.fsdecode(path)} is not in a watched project", hint=hint)
        return max(holding, key=lambda w: len(w.worktree.root))

    def _moved_to(self, real: bytes) -> str:
        """How the history of a project that was moved to where ``real`` lies goes on there; empty if none was."""
        for watched in self.trees():
            old, here = watched.worktree.root, real
            while here not in (b"", b"/") and not os.path.lexists(old):
                with contextlib.suppress(OSError):
                    if identity_of(here).same_as(watched.identity):
                        old_root, root = shlex.quote(os.fsdecode(old)), shlex.quote(os.fsdecode(here))
                        return f"{old_root} was moved here: `oxide-ctl projects move {old_root} {root}`"
                here = os.path.dirname(here)
        return ""

    @contextmanager
    def holding(self, worktree: int, wait_s: float = 1) -> Iterator[bool]:
        """The lock of a worktree, if it is to be had soon: what is named under it is there until it is released. True also
        for one that is not watched, which nobody rewinds.
        """
        with self._lock:
            watched = self._watched.get(worktree)
        held = watched is None or watched.lock.acquire(timeout=wait_s)
        try:
            yield held
        finally:
            if watched is not None and held:
                watched.lock.release()

    def known(self, path: bytes) -> Worktree:
        """The innermost worktree that holds ``path``: a watched one, else one that was watched last. Its history can be
        read though nothing is added to it. Raises NotFoundError.
        """
        try:
            return self.find(path).worktree
        except NotFoundError:
            real = os.path.realpath(path)
            with self.timeline.database.reading() as db:
                holding = [w for w in store.worktrees(db) if holds(w.root, real) and not w.is_memory]
            if not holding:
                raise
            return max(holding, key=lambda w: (len(w.root), w.id))

    def rooted(self, root: bytes) -> Worktree | None:
        """The worktree with this very root, though another one that is watched may hold it."""
        with self.timeline.database.reading() as db:
            found = [w for w in store.worktrees(db) if w.root == root and not w.is_memory]
        return max(found, key=lambda w: (w.watching, w.id), default=None)

    @contextmanager
    def using(self, path: bytes) -> Iterator[Watched]:
        """The worktree of ``path``, attached and locked."""
        watched = self.find(path)
        with watched.lock:
            self.attach(watched)
            yield watched
        self._pass_soon(watched)

    def view(self, worktree: Worktree) -> View:
        """What reading operations work with."""
        thin = retention_of(self, worktree).thin
        return View(timeline=self.timeline, worktree=worktree, now_ms=self.clock.now_ms(), thin=thin)

    def attach(self, watched: Watched, progress: FullPassProgress | None = None) -> None:
        """Start watching, compare the tree with the record, settle what a crash left. The caller holds the lock."""
        if watched.attached:
            return
        if watched.pause_is_over(self.clock.now_ms()):
            watched.set_pause(None, None)
            if not watched.worktree.is_memory:
                try_to_follow(self, watched.worktree)
        watched.require_recording()
        try:
            watched.start()
            settle_at_start(self, watched, progress)
        except BaseException as error:
            watched.stop()  # not half attached: whoever comes next tries again
            if isinstance(error, StoreDamagedError):  # it may have met rows that no recording reads
                watched.keep_trouble(error)
            raise

    def _attach_if_there(self, watched: Watched) -> None:
        with watched.lock:
            if watched.released or (watched.paused and not watched.pause_is_over(self.clock.now_ms())):
                return
            self.attach(watched)

    # pauses

    def pause(self, watched: Watched, until_ms: int | None) -> None:
        """Record nothing of ``watched`` from now on. The caller holds its lock."""
        watched.set_pause(watched.worktree.paused_ms or self.clock.now_ms(), until_ms)
        self._expect_end_of_pause(watched)

    def end_due_pauses(self) -> None:
        """Go on recording wherever a pause has come to its end; the full pass follows in the background."""
        for watched in self.all_watched():
            if watched.pause_is_over(self.clock.now_ms()):
                self.attach_soon(watched)

    def _expect_end_of_pause(self, watched: Watched) -> None:
        until = watched.worktree.paused_until_ms
        if until is not None:
            self.scheduler.once(f"pause {watched.worktree.id}", until, self.end_due_pauses)

    # what happens by itself

    def config_trouble(self) -> str:
        """What is wrong with ``config.toml``; empty where nothing is."""
        return trouble(self.home, self.taken) if self.taken is not None else ""

    def _waits(self, worktree: int) -> tuple[int, int]:
        with self._lock:
            watched = self._watched.get(worktree)
        capture = (watched or self).settings.capture
        return capture.quiet_ms, capture.max_interval_ms

    def _changed(self, worktree: int) -> None:
        self._sealer.changed(worktree)
        with self._lock:
            watched = self._watched.get(worktree)
        if watched is not None and watched.watch.pending > RECORD_PATHS:
            self.background.submit(f"record {worktree}", partial(self._record_ahead, watched))
        if watched is not None and watched.worktree.is_memory:
            self.memories.look_at_index_soon(watched.worktree.root)

    def _record_ahead(self, watched: Watched) -> None:
        if watched.attached:
            watched.record_ahead()

    def _lost(self) -> None:
        if not self.stop_requested.is_set():
            log.error("%s was moved or replaced: this daemon ends, the next command starts another", self.home.folder)
            self.stop_requested.set()

    def _sealed(self, worktree: Worktree, checkpoint: Checkpoint) -> None:
        self._sealer.settled(worktree.id)
        with self._lock:
            watched = self._watched.get(worktree.id)
        if watched is not None and watched.watch.pending:  # told while it was sealed, and not in it
            self._sealer.changed(worktree.id)
        if worktree.is_memory:
            self.memories.look_at(worktree, checkpoint)
            self.background.submit(f"context {worktree.id}", partial(refresh, self, worktree))
        for listener in list(self.on_sealed):
            listener(worktree, checkpoint)

    def _seal_quietly(self, worktree: int) -> None:
        with self._lock:
            watched = self._watched.get(worktree)
        if watched is None or not watched.attached:
            return
        with contextlib.suppress(RootVanishedError):  # status says that it is paused
            watched.seal(Label(trigger=Trigger.QUIET, turn=watched.only_turn, only_if_changed=True))
        self._pass_soon(watched)

    def _pass_soon(self, watched: Watched) -> None:
        if watched.needs_full_pass:
            self.background.submit(f"full pass {watched.worktree.id}", partial(self._full_pass, watched))

    def _full_pass(self, watched: Watched) -> None:
        if watched.attached:
            watched.full_pass(Label(trigger=Trigger.QUIET, turn=watched.only_turn, only_if_changed=True))
            sweep_ended(self, watched)  # what a process could still write to the last time

    def _remember_run(self, name: str, at_ms: int) -> None:
        # in the store: a daemon that is started each day would else never do what comes once a day
        with self.timeline.database.writing() as db:
            meta.write(db, JOB_RUNS, {name: at_ms})

    def finish_purge(self) -> bool:
        """Do what a purge has left to be done; whether nothing is left."""
        with self.purging:
            done = False
            try:
                done = finish(self.timeline, self.stop_requested.wait)
            finally:
                self.purge_waits = not done
            return done

    def beat(self, slept_ms: int = 0) -> None:
        """Queue every full pass that is due: it finds what no event told (open mmaps, outside hard links, mounts)."""
        if not self.timeline.standing.holds():
            return
        self.clock_mark.look()
        self.background.submit("reserve", self.reserve.make)
        if self.purge_waits:
            self.background.submit("purge", self.finish_purge)
        for watched in self.all_watched():
            if slept_ms and watched.attached:
                watched.open_gap(SUSPEND)
            if watched.held or watched.trouble:  # what failed is tried again, whether anything changes or not
                self._sealer.changed(watched.worktree.id)
            if watched.is_due(self.clock.boot_ms()):
                self.background.submit(f"full pass {watched.worktree.id}", partial(self._look_again, watched))

    def _look_again(self, watched: Watched) -> None:
        watched.rest(self.clock.boot_ms())
        try:
            (self._full_pass if watched.attached else self._attach_if_there)(watched)
            self._gone.discard(watched.worktree.id)
        except RootVanishedError as error:
            if watched.worktree.id not in self._gone:  # else it would be told once a minute
                self._gone.add(watched.worktree.id)
                log.warning("worktree %d is paused: %s", watched.worktree.id, error)
