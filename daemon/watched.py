"""One watched worktree: the watcher, the capture rules and the lock that everything reading or changing it takes.

Between two recordings the set of open windows is constant: whoever opens or closes one records first, under the lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from openoxide.checkpoints import sight, store
from openoxide.checkpoints.attribution import sure_writer, surely, writer_between
from openoxide.checkpoints.capture import Capture
from openoxide.checkpoints.churn import Budgets
from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.gitposition import read_git
from openoxide.checkpoints.heavy import paths_left_out
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.known import Placed
from openoxide.checkpoints.live import Live
from openoxide.checkpoints.model import (
    BlobHash,
    Checkpoint,
    Coverage,
    Kind,
    Trigger,
    Window,
    WindowKind,
    Worktree,
    split,
)
from openoxide.checkpoints.timeline import DAY_MS, Attribute, Beside, Seal, Timeline
from openoxide.checkpoints.tree import RootIdentity, Tree, recorded_identity
from openoxide.clock import Clock, rfc3339
from openoxide.daemon.attachment import ROOT_LOST
from openoxide.daemon.cadence import NETWORK_FS, RETRY_MS, Pass, wait_ms
from openoxide.daemon.changes import Drained, Told
from openoxide.daemon.heard import Heard
from openoxide.daemon.pruning import Pruner
from openoxide.daemon.watcher import Watch
from openoxide.errors import FailedError, NotFoundError, OpenOxideError, RefusedError, RootVanishedError
from openoxide.ids import ID_BYTES, letters
from openoxide.settings import Settings
from openoxide.surroundings import HOST_SHARE, NETWORK, file_system, reach
from openoxide.syscalls import gentle_io

log = logging.getLogger(__name__)

FullPassProgress = Callable[[int, int, int], None]
"""Is told how many entries were looked at, of about how many, and the bytes of what was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a checkpoint is called and belongs to. It is late where what it holds was read after ``due_ms`` (boot clock)."""

    trigger: Trigger
    name: str | None = None
    pinned: bool = False
    turn: Window | None = None
    only_if_changed: bool = False
    due_ms: int | None = None


class Watched:
    """One worktree while it is watched."""

    def __init__(
        self,
        worktree: Worktree,
        timeline: Timeline,
        settings: Settings,
        clock: Clock,
        on_change: Callable[[int], None],
        on_sealed: Callable[[Worktree, Checkpoint], None],
        beside: Callable[[Trigger], Beside | None] | None = None,
    ) -> None:
        self.worktree = worktree
        self.lock = threading.RLock()
        self.sweeping = threading.Lock()  # whoever holds it does not ask for the other one
        self.attached = False
        self.released = False  # let go of for good: who still waits for the lock must not start it again
        self.trouble = ""  # why the last recording failed; empty once one has succeeded
        self.trouble_kind = self.trouble_hint = ""  # of the same error, where it is one of ours
        self.capturing: Capture | None = None
        self.needs_full_pass = True
        self.last_pass: Pass | None = None
        self._rest_until_ms = self._rewatch_ms = 0
        self._far = False
        self._timeline = timeline
        self.settings = settings
        self._clock = clock
        self._on_sealed = on_sealed
        self._beside = beside
        everything = worktree.is_memory
        self._rules = Rules(settings.capture, everything=everything)
        self._budgets = Budgets()
        self.held: frozenset[bytes] = frozenset()  # changed, and not recorded yet: they change all the time
        self._pruner = Pruner(worktree.root, settings.capture, everything=everything)
        self._on_change = on_change
        self._watch = self._new_watch()
        with timeline.database.reading() as db:
            self._windows = sight.open_windows(db, worktree.id)
            self.over_quota = paths_left_out(db, worktree.id)

    def start(self) -> None:
        """Watch from now on; what changed before is found by the first full pass."""
        self._lose_sight(sight.NOT_WATCHED)
        self._watch = self._new_watch()
        self._watch.start()
        # inotify(7) reports what is done through this kernel, and nothing of what others do to the same files
        self._far = reach(file_system(os.fsdecode(self.worktree.root))) in (NETWORK, HOST_SHARE)
        self.attached = True

    def _new_watch(self) -> Watch:
        return Watch(self.worktree.root, prune=self._pruner, on_change=lambda: self._on_change(self.worktree.id))

    def stop(self) -> None:
        """Watch no longer; nothing happens where it was not watched."""
        if self.attached:
            self._watch.stop()
            self.attached = False

    @property
    def watch(self) -> Watch:
        """The watcher, for its health."""
        return self._watch

    @property
    def polled(self) -> str:
        """Why the watcher cannot tell of all changes, so that only full passes find the rest; empty if it can."""
        return self._watch.degraded or (NETWORK_FS if self._far else "")

    def is_due(self, boot_ms: int) -> bool:
        """Whether it is time for a full pass, or (not attached) for another look whether the root is there."""
        due_ms = self.last_pass.ended_ms + self.wait_ms if self.attached and self.last_pass else 0
        return boot_ms >= max(due_ms, self._rest_until_ms)

    @property
    def wait_ms(self) -> int:
        """From one full pass to the next; 0 before the first."""
        base = self.settings.capture.full_pass_ms
        return wait_ms(base, self.last_pass, polled=bool(self.polled)) if self.last_pass else 0

    def next_pass_in_ms(self, boot_ms: int) -> int | None:
        """When the next full pass comes by itself, in how long; None where nobody knows."""
        return max(0, self.last_pass.ended_ms + self.wait_ms - boot_ms) if self.attached and self.last_pass else None

    def rest(self, boot_ms: int) -> None:
        """What is tried now and fails is not tried again for a while."""
        self._rest_until_ms = boot_ms + RETRY_MS

    @property
    def identity(self) -> RootIdentity:
        """The directory this worktree is."""
        return recorded_identity(self.worktree)

    @property
    def paused(self) -> bool:
        """Whether the user wants nothing recorded."""
        return self.worktree.paused_ms is not None

    def pause_is_over(self, now_ms: int) -> bool:
        """Whether a pause has come to the end that was set for it."""
        until = self.worktree.paused_until_ms
        return self.paused and until is not None and until <= now_ms

    def set_pause(self, since_ms: int | None, until_ms: int | None) -> None:
        """Record nothing from ``since_ms`` on, or (None) be free to be started again. The caller holds the lock."""
        with self._timeline.database.writing() as db:
            store.set_pause(db, self.worktree.id, since_ms, until_ms)
            self._windows = sight.open_windows(db, self.worktree.id)
        self.worktree = replace(self.worktree, paused_ms=since_ms, paused_until_ms=until_ms)
        if self.paused:
            self.stop()

    def require_recording(self) -> None:
        """Raises RefusedError where nothing may be recorded, NotFoundError where another has taken this one's place."""
        if self.released:
            raise NotFoundError(
                f"{os.fsdecode(self.worktree.root)} is no longer watched", hint="run `oxide-ctl projects`"
            )
        if not self.paused:
            return
        until = self.worktree.paused_until_ms
        end = f" until {rfc3339(until)}" if until is not None else ""
        what = (
            "no note can be written or brought back" if self.worktree.is_memory else "nothing can be sealed or rewound"
        )
        raise RefusedError(
            f"{os.fsdecode(self.worktree.root)} is paused{end}: nothing is recorded, so {what}",
            hint="run `oxide-ctl unpause` first; what was sealed before can still be looked at",
        )

    def open_tree(self) -> Tree:
        """The tree, if its root is still the directory that was watched. Raises RootVanishedError: the open windows have
        ended then, since their own ends cannot be recorded. The caller holds the lock.
        """
        try:
            return Tree(self.worktree.root, self.identity)
        except RootVanishedError:
            if self._windows:
                self._lose_sight(ROOT_LOST)
            raise

    # recording and sealing

    def record(self) -> int:
        """Record what has changed without a checkpoint; the position reached."""
        with self.lock:
            self._take_in(None, None, (), None, automatic=False)
            return self._timeline.head(self.worktree.id).seq

    def record_ahead(self) -> None:
        """Record what waits, so that whoever asks for a checkpoint next does not have to wait for all of it."""
        with self.lock:
            self._take_in(None, None, (), None, automatic=True)

    def seal(
        self,
        label: Label,
        attribute: Attribute | None = None,
        also: Collection[bytes] = (),
        placed: Mapping[bytes, Placed] | None = None,
    ) -> Checkpoint:
        """Record what has changed and seal a checkpoint, durable when this returns; the newest one where ``label`` asks
        for changes and there are none. ``also``: paths to look at whatever the watcher says; ``placed``: what a rewind
        has just put there. Of a tree that is not watched whole somebody's own checkpoint looks at everything.
        """
        sealed = self._seal_changes(label, attribute, also, placed) or self.newest()
        assert sealed is not None, "without a checkpoint every seal is a change"
        return sealed

    def seal_changes(self, label: Label) -> int:
        """As :meth:`seal`, for whoever needs the position alone: where nothing changed no checkpoint is read. The caller
        holds the lock.
        """
        sealed = self._seal_changes(label, None, (), None)
        return self._timeline.head(self.worktree.id).seq if sealed is None else sealed.seq

    def _seal_changes(
        self,
        label: Label,
        attribute: Attribute | None,
        also: Collection[bytes],
        placed: Mapping[bytes, Placed] | None,
    ) -> Checkpoint | None:
        with self.lock:
            if self.polled and label.trigger is Trigger.MANUAL and (sealed := self.full_pass(label)) is not None:
                return sealed
            sealed = self._take_in(label, attribute, also, placed, automatic=label.trigger is Trigger.QUIET)
        if sealed is not None:
            self._on_sealed(self.worktree, sealed)
        return sealed

    def _take_in(
        self,
        label: Label | None,
        attribute: Attribute | None,
        also: Collection[bytes],
        placed: Mapping[bytes, Placed] | None,
        *,
        automatic: bool,
    ) -> Checkpoint | None:
        with self.open_tree() as tree:
            self.require_recording()
            drained, told = self._drain()
            dirty = told.dirty | {path: told.dirty.get(path, False) for path in (*also, *self.held)}
            seal = None
            try:
                seal = self._seal(label, self._coverage(drained)) if label is not None else None
                by = attribute or writer_between_windows(self.windows)
                with self._timeline.live(self.worktree.id) as live:
                    capture = self._capture(tree, live, automatic=automatic)
                    sealed = self._timeline.record(self.worktree.id, capture.dirty(dirty, placed), by, seal)
            except BaseException as error:
                self._watch.give_back(dirty, (), told.unentered)
                self._record_failure(seal, error)
                raise
            self._afterwards(capture)
            self._look_again(told.unentered, whole=False)
        return sealed

    def full_pass(
        self,
        label: Label | None,
        attribute: Attribute | None = None,
        progress: FullPassProgress | None = None,
    ) -> Checkpoint | None:
        """Compare the whole tree with what is recorded, whatever the watcher said; closes gaps. Seals as ``label``
        says. ``attribute`` overrules who wrote what was found.
        """
        with self.lock, self.open_tree() as tree:
            self.require_recording()
            began_boot_ms = self._clock.boot_ms()
            drained, told = self._drain()
            began_ms = self._clock.now_ms()  # gaps that the drain opened are older than the pass that closes them
            cause = drained.cause or self.polled
            # where a gap is open, a path that is told of now may have changed unseen before
            listening = drained.complete and not self.needs_full_pass
            heard = Heard(self._watch, told.dirty, self.windows, listening=listening)
            by = attribute or heard.writer_of
            seal = None
            try:
                seal = self._seal(label, Coverage(complete=not cause, cause=cause)) if label else None
                with self._timeline.live(self.worktree.id) as live:
                    automatic = label is not None and label.trigger is Trigger.QUIET
                    capture = self.capturing = self._capture(tree, live, automatic=automatic)
                    found = heard.sift(capture.everything(told.dirty), tree, live)
                    telling = self._telling(progress, capture) if progress else None
                    # whoever waits for a rewind is not to wait for others' disk
                    with gentle_io() if automatic or progress else nullcontext():
                        sealed = self._timeline.record(self.worktree.id, found, by, seal, telling)
            except BaseException as error:
                self._watch.give_back(told.dirty, (), told.unentered)
                self._record_failure(seal, error)
                raise
            finally:
                self.capturing = None
                heard.give_back()
            self._afterwards(capture)
            self._look_again(told.unentered, whole=True)
            self._end_pass(began_boot_ms, capture.seen)
            # of a tree that is polled nothing more can be known: the next pass comes by the clock
            if drained.complete or drained.cause == self.polled:
                self.needs_full_pass = False
            if drained.complete:
                with self._timeline.database.writing() as db:
                    sight.close_gaps(db, self.worktree.id, began_ms, self._clock.now_ms())
        if sealed is not None:
            self._on_sealed(self.worktree, sealed)
        return sealed

    def _telling(self, progress: FullPassProgress, capture: Capture) -> Callable[[int, int], None]:
        return lambda _recorded, size: progress(capture.seen, max(capture.seen, self._watch.entries), size)

    def _end_pass(self, began_boot_ms: int, entries: int) -> None:
        ended_ms = self._clock.boot_ms()
        self.last_pass = Pass(ended_ms, ended_ms - began_boot_ms, entries)
        self._rest_until_ms = 0
        # a limit may have been raised meanwhile; to try is about as much work as the pass itself
        if self._watch.degraded and ended_ms >= self._rewatch_ms:
            self._rewatch_ms = ended_ms + self.settings.capture.full_pass_ms
            self._watch.refresh(b"")

    def _capture(self, tree: Tree, live: Live, *, automatic: bool) -> Capture:
        # what somebody asked for holds every file, however often it changes
        churn = self._budgets.turn(self._clock.now_ms()) if automatic and not self.worktree.is_memory else None
        store_big = self._timeline.blobs.write_big
        return Capture(Entries(tree, self._rules, self.settings.capture, live, store_big, churn, self.over_quota))

    def _drain(self) -> tuple[Drained, Told]:
        """The barrier, then what was told. A lost root or an overflow leaves the whole tree unknown: that is a gap for
        the next full pass, not something a checkpoint waits for.
        """
        drained = self._watch.barrier()
        told = self._watch.take()
        try:
            for gap in told.gaps:
                if gap.cause == ROOT_LOST:
                    self._lose_sight(gap.cause)
                else:
                    self.open_gap(gap.cause)
        except BaseException:  # a gap that is not in its table yet must not be forgotten
            self._watch.give_back(*told)
            raise
        if told.dirty.pop(b"", False):
            self.needs_full_pass = True
        return drained, told

    def _coverage(self, drained: Drained) -> Coverage:
        with self._timeline.database.reading() as db:
            gaps = sight.open_gaps(db, self.worktree.id)
        causes = [drained.cause] if drained.cause else [cause for cause, _ in gaps]
        complete = drained.complete and not causes and not self.polled
        return Coverage(complete=complete, cause=causes[0] if causes else self.polled)

    def _seal(self, label: Label, coverage: Coverage) -> Seal:
        now_ms = self._clock.now_ms()
        ttl_days = 0 if self.worktree.is_memory else self.settings.retention.ttl_days
        turn = label.turn
        return Seal(
            id=letters(os.urandom(ID_BYTES)),
            trigger=label.trigger,
            now_ms=now_ms,
            expires_at_ms=now_ms + ttl_days * DAY_MS if ttl_days else None,
            name=label.name,
            pinned=label.pinned,
            turn=turn.id if turn else None,
            agent=turn.agent if turn else None,
            session=turn.session if turn else None,
            prompt=turn.prompt if turn else None,
            coverage=coverage,
            git=read_git(self.worktree.root),
            only_if_changed=label.only_if_changed,
            beside=self._beside(label.trigger) if self._beside is not None else None,
            is_late=lambda: label.due_ms is not None and self._clock.boot_ms() > label.due_ms,
        )

    def keep_trouble(self, error: BaseException) -> None:
        """Why nothing is recorded, for ``status`` and ``doctor``, until something is."""
        self.trouble = str(error)
        told = error if isinstance(error, OpenOxideError) else FailedError(str(error))
        self.trouble_kind, self.trouble_hint = told.kind, told.hint

    def _record_failure(self, seal: Seal | None, error: BaseException) -> None:
        """A checkpoint that was asked for and could not be taken is listed as failed, if the store can still say so."""
        self.keep_trouble(error)
        if seal is None or seal.only_if_changed:
            return
        try:
            self._timeline.seal_failed(self.worktree.id, seal, str(error))
        except OpenOxideError:
            log.warning("the failed checkpoint could not be recorded")

    def _afterwards(self, capture: Capture) -> None:
        self.trouble = self.trouble_kind = self.trouble_hint = ""
        self.held = frozenset(capture.held)
        for directory in capture.rescanned:
            self._pruner.forget(directory)
            self._watch.refresh(directory)
        for directory in capture.replaced:
            self._watch.refresh(directory)
        if capture.torn:
            self._watch.give_back(dict.fromkeys(capture.torn, False))

    def _look_again(self, unentered: Collection[bytes], *, whole: bool) -> None:
        """The watcher reads the rules at another moment than a capture: what it did not enter and what is recorded all the
        same is watched from now on. ``whole``: all was just looked at, so that what has no row is not there.
        """
        if not unentered:
            return
        try:
            with self._timeline.live(self.worktree.id) as live:
                live.expect(unentered)
                rows = {path: live.one(path) for path in unentered}
        except BaseException:  # not asked now, they would never be watched
            self._watch.give_back({}, (), unentered)
            raise
        for path, row in rows.items():
            if row is not None and row.kind == Kind.DIRECTORY:
                self._pruner.forget(split(path)[0])
                self._watch.refresh(path)
        if not whole:
            self._watch.give_back({}, (), [path for path, row in rows.items() if row is None])

    def leave_out(self) -> None:
        """Take up which paths a quota has no room for any more, or has again. What changes by that is recorded soon."""
        with self.lock:
            before = self.over_quota
            with self._timeline.database.reading() as db:
                self.over_quota = paths_left_out(db, self.worktree.id)
            if before != self.over_quota:
                self._watch.give_back(dict.fromkeys(before ^ self.over_quota, False))
                self._on_change(self.worktree.id)

    def open_gap(self, cause: str) -> None:
        """Changes may have been missed; the next full pass closes it."""
        self.needs_full_pass = True
        with self._timeline.database.writing() as db:
            sight.open_gap(db, self.worktree.id, cause, self._clock.now_ms())

    def _lose_sight(self, cause: str) -> None:
        """As a gap, and no open window outlasts it."""
        self.needs_full_pass = True
        with self._timeline.database.writing() as db:
            sight.lose_sight(db, self.worktree.id, cause, self._clock.now_ms())
            self._windows = sight.open_windows(db, self.worktree.id)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint; None only before the first capture has ended."""
        with self._timeline.database.reading() as db:
            return store.CheckpointQuery(db, self.worktree.id).newest()

    # windows

    @property
    def windows(self) -> tuple[Window, ...]:
        """The open windows."""
        return tuple(self._windows)

    @property
    def only_turn(self) -> Window | None:
        """The open turn, if there is exactly one: checkpoints taken now belong to it."""
        turns = [window for window in self._windows if window.kind is WindowKind.TURN]
        return turns[0] if len(turns) == 1 else None

    def begin_window(self, window: Window) -> Window:
        """Open ``window``, whose ``began_seq`` was just recorded. The caller holds the lock."""
        with self._timeline.database.writing() as db:
            opened = sight.begin_window(db, self.worktree.id, window, self._clock.now_ms())
            self._windows = sight.open_windows(db, self.worktree.id)
        return opened

    def claim(self, tool: Window, writes: Mapping[bytes, BlobHash]) -> None:
        """What was recorded since ``tool`` began and holds these bytes is surely its own. The caller holds the lock."""
        self._timeline.claim(self.worktree.id, surely(tool.id), writes, tool.began_seq)

    def end_windows(self, ids: frozenset[int], seq: int) -> None:
        """Close windows at ``seq``, which was just recorded. The caller holds the lock."""
        if not ids:
            return
        with self._timeline.database.writing() as db:
            sight.end_windows(db, ids, seq, self._clock.now_ms())
            self._windows = sight.open_windows(db, self.worktree.id)


def writer_between_windows(windows: Sequence[Window]) -> Attribute:
    """The attribution of what happened while ``windows`` were open."""
    writer = writer_between(windows)
    return lambda _: writer


def with_sure_writes(tool: Window, writes: Mapping[bytes, BlobHash], otherwise: Attribute) -> Attribute:
    """Paths whose bytes a tool call named are surely its own."""
    return lambda seen: sure_writer(seen, tool.id, writes) or otherwise(seen)
