"""The memory of each project as a worktree of its own: found, taken up, sealed along with the code, and given its windows.

Invariants: whoever holds the lock of a project's code may take that of its memory, never the other way round. A memory is
known by its project, not by its directory: one that was deleted and made anew, or that moved with the home, goes on. It is
nobody's project by itself, and nothing of it expires. It is paused while all watched trees of its project are.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from openoxide.checkpoints import rows, sight, store
from openoxide.checkpoints.model import (
    MEMORY,
    BlobHash,
    Checkpoint,
    FileState,
    Kind,
    Trigger,
    Window,
    WindowKind,
    Worktree,
)
from openoxide.checkpoints.timeline import Attribute, Beside
from openoxide.checkpoints.tree import identity_of
from openoxide.daemon.watched import Label, Watched, with_sure_writes, writer_between_windows
from openoxide.db import Transaction
from openoxide.errors import NotFoundError, OpenOxideError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.search import Search
from openoxide.memory.topics import Memory
from openoxide.settings import Settings

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

MOST_FILE_BYTES = 1 << 40
MASS_FILES, MASS_SHARE = 3, 0.3
"""More than so many files gone between two checkpoints, or more than this part of them, is told of and kept hold of."""

log = logging.getLogger(__name__)

_Key = tuple[WindowKind, str, str, str, str | None]


def memory_settings(settings: Settings) -> Settings:
    """Those of a memory: it is small, and all of it is recorded."""
    return replace(settings, capture=replace(settings.capture, max_file_bytes=MOST_FILE_BYTES, extra_skip=()))


def is_mass(gone: int, before: int) -> bool:
    """Whether so many of the files that were there are gone that it may be an accident. Pure."""
    # one of two is a share as well, and nothing to be told of
    return gone > MASS_FILES or (gone > 1 and gone > before * MASS_SHARE)


class Pause(NamedTuple):
    """Until when one lasts; None: until somebody ends it."""

    until_ms: int | None


def pause_of(trees: Sequence[Worktree | None]) -> Pause | None:
    """The pause of a memory whose project has these watched trees (None: one whose pause is over); None where it has none,
    since one of them is recorded. It ends with the first of theirs. Pure.
    """
    paused = [tree for tree in trees if tree is not None and tree.paused_ms is not None]
    if not trees or len(paused) < len(trees):
        return None
    return Pause(min((tree.paused_until_ms for tree in paused if tree.paused_until_ms is not None), default=None))


class Memories:
    """The memories of a daemon's projects."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._held: dict[str, Watched] = {}
        self._searches: dict[str, Search] = {}
        self._absent: set[str] = set()  # projects that were looked at and had none
        self._newborn: set[int] = set()  # worktrees that came to be since
        self.generating = threading.Lock()  # whoever holds it asks for no other

    def directory(self, project: str) -> MemoryDirectory:
        """Where the memory of ``project`` is, or will be."""
        return MemoryDirectory(self._service.home.folder, project)

    def notes(self, project: str) -> Memory:
        """What reads and writes it."""
        return Memory(self.directory(project), self._service.clock)

    def of(self, project: str) -> Watched | None:
        """The watched memory of ``project``, None while it has none. Not to be called with a memory's lock held."""
        root = os.path.join(os.path.realpath(os.fsencode(self._service.home.folder)), *self._below(project))
        try:
            if not stat.S_ISDIR(os.lstat(root).st_mode):
                return None
            identity = identity_of(root)
        except OSError:
            self._absent.add(project)
            return None
        with self._lock:
            held = self._held.get(project)
            if held is not None and not held.released:
                if held.worktree.root == root and held.identity.same_as(identity):
                    return held
                self._service.let_go(held)
            worktree = Worktree(
                id=0, project=project, root=root, dev=identity.dev, ino=identity.ino, birth_ns=identity.birth_ns,
                watching=True, kind=MEMORY,
            )  # fmt: skip
            found = self._held[project] = self._service.take_up(self._registered(worktree))
            with found.lock:
                self._align(found)
            return found

    def _below(self, project: str) -> list[bytes]:
        directory = self.directory(project)
        return [os.fsencode(part) for part in directory.path.relative_to(directory.home).parts]

    def _registered(self, wanted: Worktree) -> Worktree:
        now_ms = self._service.clock.now_ms()
        with self._service.timeline.database.writing() as db:
            every = store.worktrees(db)
            known = self._row(every, wanted.project)
            if known is None and all(tree.is_memory or tree.project != wanted.project for tree in every):
                raise NotFoundError("the project is not known any more", hint="`oxide-ctl watch` makes another one")
            if known is None:
                made = store.insert_worktree(db, wanted, now_ms)
                if wanted.project in self._absent:
                    self._newborn.add(made.id)
                return made
            there = replace(wanted, id=known.id)
            if (known.root, known.dev, known.ino, known.watching) == (there.root, there.dev, there.ino, True):
                return known
            store.adopt_root(db, there, now_ms)
            return there

    def known(self, project: str) -> Worktree | None:
        """The memory of ``project`` as it was last recorded, whether it is there or not."""
        with self._service.timeline.database.reading() as db:
            return self._row(store.worktrees(db), project)

    def _row(self, known: list[Worktree], project: str) -> Worktree | None:
        return next((worktree for worktree in known if worktree.is_memory and worktree.project == project), None)

    def let_go_unused(self, project: str) -> None:
        """After a worktree of its project went, watch a memory no longer once none is watched; it stays where it is."""
        if any(tree.worktree.project == project for tree in self._service.trees()):
            self.try_to_follow(project)
            return
        with self._lock:
            held = self._held.pop(project, None)
        if held is not None:
            self._service.let_go(held)

    # pauses

    def follow(self, project: str) -> None:
        """After a tree of ``project`` was paused, or is not any more, or came or went: the same for its memory. What was done
        until a pause is recorded before it, what was done in it after it. The caller may hold the lock of one of the trees.
        """
        memory = self.of(project)
        if memory is None:
            return
        with memory.lock:
            if self._pause(project) is not None and not memory.paused:
                self._service.attach(memory)
                memory.seal(Label(trigger=Trigger.QUIET, turn=memory.only_turn, only_if_changed=True))
            self._align(memory)
            if not memory.paused:
                self._service.attach(memory)

    def try_to_follow(self, project: str) -> None:
        """As :meth:`follow`, where what is done to a tree does not fail for its memory."""
        try:
            self.follow(project)
        except OpenOxideError as error:
            log.warning("the memory of %s does not follow a pause: %s", project, error)

    def _align(self, memory: Watched) -> None:
        """As the trees say, who may have been stopped in the middle of telling it. The caller holds its lock."""
        pause = self._pause(memory.worktree.project)
        if pause is not None and (not memory.paused or memory.worktree.paused_until_ms != pause.until_ms):
            # its end needs no clock of its own: that of a tree, or the heartbeat, is told of to both
            memory.set_pause(memory.worktree.paused_ms or self._service.clock.now_ms(), pause.until_ms)
        if pause is None and memory.paused:
            memory.set_pause(None, None)

    def _pause(self, project: str) -> Pause | None:
        now_ms = self._service.clock.now_ms()
        trees = [tree for tree in self._service.trees() if tree.worktree.project == project]
        return pause_of([None if tree.pause_is_over(now_ms) else tree.worktree for tree in trees])

    # along with the code

    def seal(self, project: str, trigger: Trigger) -> Beside | None:
        """Record what has changed in the memory, with a checkpoint of its own if anything did; where it stands then. None
        where there is none, or where that cannot be known: the code's checkpoint does not fail for it.
        """
        # only what an operation did itself to a memory is told of as an operation's
        why = Trigger.QUIET if trigger is Trigger.REWIND else trigger
        try:
            memory = self.of(project)
            if memory is None or memory.paused:
                return None
            with memory.lock:
                self._service.attach(memory)
                sealed = memory.seal(Label(trigger=why, turn=memory.only_turn, only_if_changed=True))
        except OpenOxideError as error:
            log.warning("the memory of %s is not part of this checkpoint: %s", project, error)
            return None
        return Beside(memory.worktree.id, sealed.seq)

    def sync(self, project: str) -> None:
        """Let exactly the windows of the project's trees be open in its memory, after recording what was done until now. The
        caller may hold the lock of one of the trees.
        """
        try:
            memory = self.of(project)
            if memory is None or memory.paused:
                return
            with memory.lock:
                self._service.attach(memory)
                self._sync(memory)
        except OpenOxideError as error:
            log.warning("who writes the memory of %s is not known: %s", project, error)

    def greet(self, memory: Watched) -> Attribute | None:
        """Who made all that is in a memory which is watched from now on: one that came to be since it was looked for is of
        those whose windows are open, any other is nobody's (None). The caller holds its lock; nothing of it is recorded.
        """
        if memory.worktree.id not in self._newborn:
            return None
        self._newborn.discard(memory.worktree.id)
        for window in sorted(self._wanted(memory).values(), key=lambda window: window.id):
            self._begin(memory, window, 0)
        return writer_between_windows(memory.windows)

    def _wanted(self, memory: Watched) -> dict[_Key, Window]:
        trees = [tree for tree in self._service.trees() if tree.worktree.project == memory.worktree.project]
        return {_key(window): window for tree in trees for window in tree.windows}

    def _begin(self, memory: Watched, window: Window, seq: int) -> None:
        parent = None if window.kind is WindowKind.TURN else self._turn(memory, window)
        memory.begin_window(replace(window, parent=parent, began_seq=seq))

    def _sync(self, memory: Watched) -> None:
        wanted = self._wanted(memory)
        have = {_key(window): window for window in memory.windows}
        if wanted.keys() == have.keys():
            return
        seq = memory.record()
        memory.end_windows(frozenset(have[key].id for key in have.keys() - wanted.keys()), seq)
        # a turn before its tool calls
        for window in sorted((wanted[key] for key in wanted.keys() - have.keys()), key=lambda window: window.id):
            self._begin(memory, window, seq)

    def _turn(self, memory: Watched, tool: Window) -> int | None:
        with self._service.timeline.database.reading() as db:
            known = sight.session_windows(db, memory.worktree.id, tool.session)
        turns = [w.id for w in known if w.kind is WindowKind.TURN and w.prompt == tool.prompt]
        return turns[-1] if turns else None

    def wrote(self, project: str, tool: Window, writes: Mapping[bytes, BlobHash]) -> None:
        """What ``tool``, a call in one of the project's trees that now ends, wrote into the memory is surely its own."""
        memory = self.of(project) if writes else None
        if memory is None:
            return
        with memory.lock:
            self._service.attach(memory)
            ours = next((window for window in memory.windows if _key(window) == _key(tool)), None)
            if ours is None:
                return
            memory.claim(ours, writes)
            by = with_sure_writes(ours, writes, writer_between_windows(memory.windows))
            memory.seal(Label(trigger=Trigger.TOOL, turn=memory.only_turn, only_if_changed=True), by)

    def searching(self, project: str, clean: Callable[[str], str]) -> Search:
        """What searches the memory of ``project``; it is kept, since it reads only what changed."""
        with self._lock:
            if project not in self._searches:
                self._searches[project] = Search(self.directory(project), clean)
            return self._searches[project]

    def root(self, project: str) -> bytes | None:
        """Where the memory is that is watched; None where there is none."""
        memory = self.of(project)
        return None if memory is None else memory.worktree.root

    # what is to be told

    def look_at(self, worktree: Worktree, sealed: Checkpoint) -> None:
        """Pin the state before ``sealed`` where that lost many files at once, and nobody asked for it."""
        if sealed.trigger is Trigger.REWIND or not is_mass(sealed.counts.removed, sealed.counts.removed):
            return
        with self._service.timeline.database.writing() as db:
            before = store.CheckpointQuery(db, worktree.id).before(sealed.number)
            if before is None:
                return
            then, now = (files_at(db, worktree.id, seq) for seq in (before.seq, sealed.seq))
            if is_mass(len(then.keys() - now.keys()), len(then)):
                store.set_pinned(db, before.id, pinned=True, expires_at_ms=None)
                log.warning(
                    "%d files of a memory are gone at once: %s", len(then.keys() - now.keys()), worktree.project
                )


def files_at(db: Transaction, worktree: int, seq: int) -> dict[bytes, FileState]:
    """The files of a memory at a position."""
    return {path: state for path, state in rows.state_at(db, worktree, seq).items() if state.kind is Kind.FILE}


def _key(window: Window) -> _Key:
    return window.kind, window.agent, window.session, window.prompt, window.tool
