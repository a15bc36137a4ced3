"""Which paths below a root may have changed: every change is in the dirty set, or a gap says why it may not be.

Invariants: the thread that reads the kernel fills the dirty set itself, under one lock, so that whoever holds the lock
and has read what was queued knows everything the kernel had reported (docs/design.md, barrier). Events are hints: they
name what to look at, never what it looks like. Nothing ends the reader: what goes wrong is logged, counted and a gap.

Linux has an emitter of our own on watchdog's extension points: the stock one overflows itself on trees of 5,000
directories, tells nobody what it lost and cannot prune. macOS has watchdog's FSEvents stream with its drop flags read.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from watchdog.observers.api import EventEmitter, EventQueue, ObservedWatch

from openoxide.daemon.attachment import ROOT_LOST, ROOT_RETURNED, Attachment, DetachedError, Prune
from openoxide.daemon.changes import Changes, Drained, Gap, Told
from openoxide.errors import RootVanishedError

if sys.platform == "darwin":
    from watchdog.observers.fsevents import FSEventsEmitter

    from openoxide.daemon.fsevents import StreamNotes

READER_ERROR: Final = "reader_error"
STOPPED: Final = "stopped"
NO_BARRIER: Final = "no_barrier"

BARRIER_SECONDS: Final = 0.2
_ROOT_CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


class _Reader(Protocol):
    """What Watch needs of a system's emitter, which is a thread."""

    def start(self) -> None: ...
    def close(self) -> None: ...
    def drain(self) -> Drained: ...
    def refresh(self, directory: bytes) -> None: ...
    @property
    def watches(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def degraded(self) -> str: ...
    @property
    def root_present(self) -> bool: ...


class _InotifyEmitter(EventEmitter):
    """Keeps an :class:`Attachment` to the root for as long as there is one, and makes a new one after each loss.

    Watchdog's queue stays empty: a dispatcher behind it would have to prove how far it is.
    """

    def __init__(self, root: bytes, prune: Prune, changes: Changes) -> None:
        super().__init__(EventQueue(), ObservedWatch(os.fsdecode(root), recursive=True), timeout=_ROOT_CHECK_SECONDS)
        self._root = root
        self._prune = prune
        self._changes = changes
        self._attachment: Attachment | None = None
        self._cause = ""  # why there is no attachment
        self._last_loss = ""
        self._generation = 0  # counts losses and returns: a barrier that met either has proven nothing
        self._root_checked = time.monotonic()
        self._begun = self._attempts = 0  # attempts to attach that have begun, and that have ended
        self._attempted = threading.Condition()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # In the reader's thread, or before it runs

    def on_thread_start(self) -> None:
        self._attach()
        if self._cause == ROOT_LOST:
            self.close()
            raise _vanished(self._root)

    def on_thread_stop(self) -> None:
        self._wake()

    def queue_events(self, timeout: float) -> None:
        self._sleep(timeout)
        with self._changes.lock:
            self._advance(self._read_some)
        if self._attachment is None and self.should_keep_running():
            self._attach()
        self._changes.tell()

    def _attach(self) -> None:
        """Look at every directory, which takes as long as the tree is large: nobody who asks meanwhile waits for it."""
        self._begun += 1
        made: list[Attachment] = []
        cause = self._tried(lambda: made.append(Attachment(self._root, self._prune, self._changes)))
        with self._changes.lock:
            if cause:
                self._detach(cause)
            else:
                self._install(made[0])
        with self._attempted:
            self._attempts += 1
            self._attempted.notify_all()

    def _install(self, attachment: Attachment) -> None:
        self._attachment = attachment
        if self._cause:  # not the first: what happened in between is unknown
            self._generation += 1
            self._changes.mark(b"", recursive=True)
            if self._cause == ROOT_LOST:
                self._changes.gap(ROOT_RETURNED)
        self._cause = ""

    def _sleep(self, timeout: float) -> None:
        attachment = self._attachment
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        if attachment is not None:
            poll.register(attachment.fd, select.POLLIN)
            timeout = 0 if attachment.has_doomed else timeout
        poll.poll(timeout * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)

    def _read_some(self, attachment: Attachment) -> None:
        attachment.read_some()
        if time.monotonic() - self._root_checked >= _ROOT_CHECK_SECONDS:
            self._root_checked = time.monotonic()
            attachment.check_root()

    # In any thread

    def close(self) -> None:
        """End the thread and let go of the tree."""
        self.stop()
        if self.is_alive():
            self.join()
        with self._changes.lock:
            if self._cause != STOPPED:
                self._detach(STOPPED)
                os.close(self._wake_fd)

    def drain(self) -> Drained:
        # before the lock: a loss that happens while we wait for it counts too
        generation, begun = self._generation, self._begun
        with self._changes.lock:
            cause = self._advance(Attachment.read_queued)
            cause = self._last_loss if generation != self._generation else cause or self.degraded
            if self._changes.untold or self._attachment is None:
                self._wake()
        if self._attachment is None and cause != STOPPED:
            self._await_attempt(begun)
        return Drained(complete=not cause, cause=cause)

    def _await_attempt(self, begun: int) -> None:
        """Until an attempt to attach has ended that was not under way yet, as long as that is soon: then what is dirty is
        known at once.
        """
        if threading.current_thread() is self:
            self._attach()
            return
        with self._attempted:
            self._attempted.wait_for(lambda: self._attempts > begun, BARRIER_SECONDS)

    def refresh(self, directory: bytes) -> None:
        with self._changes.lock:
            self._advance(lambda attachment: attachment.refresh(directory))
            self._wake()

    @property
    def watches(self) -> int:
        attachment = self._attachment
        return 0 if attachment is None else attachment.watches

    @property
    def entries(self) -> int:
        attachment = self._attachment
        return 0 if attachment is None else attachment.entries

    @property
    def degraded(self) -> str:
        attachment = self._attachment
        if attachment is not None:
            return attachment.degraded
        return "" if self._cause in (ROOT_LOST, STOPPED) else self._cause

    @property
    def root_present(self) -> bool:
        return self._cause != ROOT_LOST

    # With the lock held

    def _advance(self, act: Callable[[Attachment], None]) -> str:
        """Let ``act`` work on the attachment; answers why changes may have been missed. The reader makes a new one."""
        attachment = self._attachment
        if attachment is None:
            return self._cause
        cause = self._tried(lambda: act(attachment))
        if cause:
            self._detach(cause)
        return cause

    def _tried(self, act: Callable[[], None]) -> str:
        """Why ``act`` failed, empty if it did not."""
        try:
            act()
        except DetachedError as error:
            cause, reason = error.cause, error.__cause__
            if cause != self._cause:
                log.warning("lost sight of %r: %s (%s)", self._root, cause, reason or "reported by the kernel")
        except Exception:  # the reader's own edge: without it the daemon would be blind and not know it
            cause = READER_ERROR
            self._changes.errors += 1
            if cause != self._cause:  # else it is the same fault, met again once a second
                log.exception("reading the changes of %r failed", self._root)
        else:
            return ""
        return cause

    def _detach(self, cause: str) -> None:
        if self._attachment is not None:
            self._attachment.close()
            self._attachment = None
        if cause == self._cause:
            return
        self._generation += 1
        self._cause = self._last_loss = cause
        if cause != STOPPED:
            self._changes.gap(cause)

    def _wake(self) -> None:
        if self._cause != STOPPED:
            os.eventfd_write(self._wake_fd, 1)


if sys.platform == "darwin":

    class _FSEventsReader(FSEventsEmitter):
        """Watchdog's stream, which follows the root by its path and watches all of it at once.

        A barrier cannot be proven: watchdog has no way to flush a stream, and a marker file would have to lie in the
        user's tree. So each barrier answers ``no_barrier``, and a scan follows.
        """

        def __init__(self, root: bytes, prune: Prune, changes: Changes) -> None:
            super().__init__(EventQueue(), ObservedWatch(os.fsdecode(root), recursive=True))
            self._changes = changes
            self._notes = StreamNotes(root, prune, changes)
            self._root = root

        def start(self) -> None:
            if not self._notes.root_present:
                raise _vanished(self._root)
            super().start()

        def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
            """Called by the stream, in the emitter's thread."""
            with self._changes.lock:
                try:
                    for path, flag in zip(paths, flags, strict=True):
                        self._notes.note(os.fsencode(path), flag)
                except Exception:  # the reader's own edge: without it the stream would end
                    self._changes.errors += 1
                    log.exception("reading the changes of %r failed", self._root)
                    self._changes.gap(READER_ERROR)
                    self._changes.mark(b"", recursive=True)
            self._changes.tell()

        def close(self) -> None:
            self.stop()
            if self.is_alive():
                self.join()

        def drain(self) -> Drained:
            with self._changes.lock:
                return Drained(complete=False, cause=NO_BARRIER if self._notes.check_root() else ROOT_LOST)

        def refresh(self, directory: bytes) -> None:
            with self._changes.lock:
                self._changes.mark(directory, recursive=True)

        @property
        def watches(self) -> int:
            return 1

        @property
        def entries(self) -> int:
            return 0

        @property
        def degraded(self) -> str:
            return ""

        @property
        def root_present(self) -> bool:
            return self._notes.root_present

    _SystemReader = _FSEventsReader
else:
    _SystemReader = _InotifyEmitter


class Watch:
    """One watched root. Paths are bytes relative to it, ``b""`` is the root itself. Any thread may call.

    ``prune(parent, name)`` says that what is below a directory is not reported; it is called with the watch's lock
    held and must not call the watch. ``on_change()`` follows, in the reader's thread and without a lock, whatever came
    into the dirty set or opened a gap; it must be cheap.
    """

    def __init__(self, root: bytes, *, prune: Prune, on_change: Callable[[], None]) -> None:
        self._changes = Changes(on_change)
        self._reader: _Reader = _SystemReader(root, prune, self._changes)

    def start(self) -> None:
        """Watch every directory, then return; raises RootVanishedError. A limit makes a gap and ``degraded``."""
        self._reader.start()

    def stop(self) -> None:
        self._reader.close()

    def barrier(self) -> Drained:
        """Read what the kernel has queued, in the caller's thread: nothing waits for the reader to wake up."""
        return self._reader.drain()

    def take(self) -> Told:
        """What changed since the last take."""
        return self._changes.take()

    def give_back(self, dirty: Mapping[bytes, bool], gaps: Iterable[Gap] = (), unentered: Iterable[bytes] = ()) -> None:
        """What was taken could not be worked on: it is told again."""
        self._changes.give_back(dirty, gaps, unentered)

    def refresh(self, directory: bytes) -> None:
        """What is pruned below ``directory`` changed. For the root this also tries again what a limit refused."""
        self._reader.refresh(directory)

    @property
    def watches(self) -> int:
        return self._reader.watches

    @property
    def entries(self) -> int:
        """About how many entries a full pass will look at; 0 where that is not known."""
        return self._reader.entries

    @property
    def pending(self) -> int:
        return len(self._changes.dirty)

    @property
    def degraded(self) -> str:
        """Why part of the tree is not watched; empty if all is."""
        return self._reader.degraded

    @property
    def root_present(self) -> bool:
        return self._reader.root_present

    @property
    def errors(self) -> int:
        """How many faults the reader has survived."""
        return self._changes.errors


def _vanished(root: bytes) -> RootVanishedError:
    return RootVanishedError(f"{os.fsdecode(root)} cannot be opened as a directory", hint="check that it is mounted")
