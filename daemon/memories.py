"""Each memory as a worktree of its own: found, taken up, sealed along with the code, and given its windows.

A project has one, and by ``memory.worktrees`` a worktree of it has one of its own, alone or on top of the project's. Invariants:
whoever holds the lock of a tree of code may take that of a memory, never the other way round, and never those of two. A memory
is known by whose it is, which is where it lies below the home: one that was deleted and made anew, or that moved with the home,
goes on. It is nobody's project by itself, and nothing of it expires. It is paused while all watched trees that read it are
(daemon/pauses.py).
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, sight, store
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
from openoxide.daemon.pauses import align, try_to_follow_readers
from openoxide.daemon.standings import Standings
from openoxide.daemon.watched import Label, Watched, with_sure_writes, writer_between_windows
from openoxide.db import Transaction
from openoxide.errors import NotFoundError, OpenOxideError
from openoxide.memory.directory import MEMORY as FOLDER
from openoxide.memory.directory import PROJECTS, MemoryDirectory
from openoxide.memory.index import LoadedIndex, load_index
from openoxide.memory.layered import memory_of
from openoxide.memory.naming import INDEX
from openoxide.memory.search import Search
from openoxide.memory.topics import Memory
from openoxide.memory.worktrees import Layers, Policy, layers
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


def whose(root: bytes) -> tuple[str, str]:
    """The project of the memory with this root, and the worktree that has it of its own (empty: it is the project's). Pure."""
    *_, above, one, _ = os.fsdecode(root).split("/")
    return (one, "") if above == PROJECTS else (os.fsdecode(root).split("/")[-4], one)


class Memories:
    """The memories of a daemon's projects."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._held: dict[bytes, Watched] = {}  # by root
        self._searches: dict[Path, tuple[frozenset[str], Search]] = {}
        self._absent: set[bytes] = set()  # roots that were looked at and were not there
        self._standings: dict[int, Standings] = {}
        self._newborn: set[int] = set()  # worktrees that came to be since
        self._over: set[bytes] = set()  # roots whose index was told of: it does not load whole
        self.generating = threading.Lock()  # whoever holds it asks for no other

    def policy(self, tree: Worktree) -> Policy:
        """Which memory a worktree of a project has."""
        settings = self._service.settings
        first = tree.root
        if settings.projects:
            with self._service.timeline.database.reading() as db:
                known = [w.root for w in store.worktrees(db) if w.project == tree.project and not w.is_memory]
            first = known[0] if known else first
        return Policy(settings.worktrees_of(tree.root, first))

    def layers(self, tree: Worktree) -> Layers:
        """Where the memory of a worktree is, or will be, and what is read below it."""
        return layers(self._service.home.folder, tree.project, str(tree.id), self.policy(tree))

    def directory(self, project: str, worktree: str = "") -> MemoryDirectory:
        """Where the memory of ``project`` is, or will be, or what a worktree of it has of its own."""
        return MemoryDirectory(self._service.home.folder, project, worktree)

    def notes(self, tree: Worktree) -> Memory:
        """What reads and writes the memory of a worktree."""
        return memory_of(self.layers(tree), self._service.clock)

    def of(self, directory: MemoryDirectory) -> Watched | None:
        """The watched memory in ``directory``, None while there is none. Not to be called with a memory's lock held."""
        root = self._root(directory)
        try:
            if not stat.S_ISDIR(os.lstat(root).st_mode):
                return None
            identity = identity_of(root)
        except OSError:
            self._absent.add(root)
            return None
        with self._lock:
            held = self._held.get(root)
            if held is not None and not held.released:
                if held.identity.same_as(identity):
                    return held
                self._service.let_go(held)
            worktree = Worktree(
                id=0, project=directory.project, root=root, dev=identity.dev, ino=identity.ino,
                birth_ns=identity.birth_ns, watching=True, kind=MEMORY,
            )  # fmt: skip
            found = self._held[root] = self._service.take_up(self._registered(worktree))
            with found.lock:
                align(self._service, found)
        self.look_at_index_soon(root)
        return found

    def own(self, tree: Worktree) -> Watched | None:
        """The watched memory that a worktree writes to, None while there is none."""
        return self.of(self.layers(tree).own)

    def read_by(self, tree: Worktree) -> list[Watched]:
        """Every watched memory that a worktree reads, its own first."""
        return [memory for directory in self.layers(tree).both if (memory := self.of(directory)) is not None]

    def by_row(self, memory: int) -> Watched | None:
        """The watched memory with this row, whoever reads it by now; None where it is gone."""
        with self._service.timeline.database.reading() as db:
            row = next((worktree for worktree in store.worktrees(db) if worktree.id == memory), None)
        found = self.of(self.directory(*whose(row.root))) if row is not None else None
        return found if found is not None and found.worktree.id == memory else None

    def unsettled(self) -> list[Watched]:
        """The memories with an operation that a crash has left open, whoever reads them by now."""
        with self._service.timeline.database.reading() as db:
            open_ = [w.id for w in store.worktrees(db) if w.is_memory and journal.open_operations(db, w.id)]
        return [memory for row in open_ if (memory := self.by_row(row)) is not None]

    def readers(self, memory: Worktree) -> list[Watched]:
        """The watched trees that read a memory."""
        trees = [tree for tree in self._service.trees() if tree.worktree.project == memory.project]
        # by whose it is: a row has the root of then until it is taken up, though the home has moved
        ours = whose(memory.root)
        return [
            tree
            for tree in trees
            if any((directory.project, directory.worktree) == ours for directory in self.layers(tree.worktree).both)
        ]

    def _root(self, directory: MemoryDirectory) -> bytes:
        below = [os.fsencode(part) for part in (*directory.parts, FOLDER)]
        return os.path.join(os.path.realpath(os.fsencode(directory.home)), *below)

    def _registered(self, wanted: Worktree) -> Worktree:
        now_ms = self._service.clock.now_ms()
        with self._service.timeline.database.writing() as db:
            every = store.worktrees(db)
            known = self._row(every, wanted.root)
            if known is None and all(tree.is_memory or tree.project != wanted.project for tree in every):
                raise NotFoundError("the project is not known any more", hint="`oxide-ctl watch` makes another one")
            if known is None:
                made = store.insert_worktree(db, wanted, now_ms)
                if wanted.root in self._absent:
                    self._newborn.add(made.id)
                return made
            there = replace(wanted, id=known.id)
            if (known.root, known.dev, known.ino, known.watching) == (there.root, there.dev, there.ino, True):
                return known
            store.adopt_root(db, there, now_ms)
            return there

    def known(self, directory: MemoryDirectory) -> Worktree | None:
        """The memory in ``directory`` as it was last recorded, whether it is there or not."""
        with self._service.timeline.database.reading() as db:
            return self._row(store.worktrees(db), self._root(directory))

    def _row(self, known: Sequence[Worktree], root: bytes) -> Worktree | None:
        return next((w for w in known if w.is_memory and whose(w.root) == whose(root)), None)

    def let_go_unused(self, project: str) -> None:
        """Watch the memories of a project no longer that none of its watched worktrees reads; they stay where they are. The
        others are paused as those that are left are.
        """
        with self._lock:
            held = [memory for memory in self._held.values() if memory.worktree.project == project]
        for memory in held:
            if self.readers(memory.worktree):
                try_to_follow_readers(self._service, memory)
                continue
            with self._lock:
                self._held.pop(memory.worktree.root, None)
            self._service.let_go(memory)

    # along with the code

    def seal(self, tree: Worktree, trigger: Trigger) -> Beside | None:
        """Record what has changed in the memory that ``tree`` writes, with a checkpoint of its own if anything did; where it
        stands then. None where there is none, or where that cannot be known: the code's checkpoint does not fail for it.
        """
        # only what an operation did itself to a memory is told of as an operation's
        why = Trigger.QUIET if trigger is Trigger.REWIND else trigger
        try:
            memory = self.own(tree)
            if memory is None or memory.paused:
                return None
            with memory.lock:
                self._service.attach(memory)
                seq = memory.seal_changes(Label(trigger=why, turn=memory.only_turn, only_if_changed=True))
        except OpenOxideError as error:
            log.warning("the memory of %s is not part of this checkpoint: %s", tree.project, error)
            return None
        return Beside(memory.worktree.id, seq)

    def sync(self, tree: Worktree) -> None:
        """Let exactly the windows of the trees that read it be open in each memory of ``tree``, after recording what was done
        until now. The caller may hold the lock of one of the trees.
        """
        for directory in self.layers(tree).both:
            try:
                memory = self.of(directory)
                if memory is None or memory.paused:
                    continue
                with memory.lock:
                    self._service.attach(memory)
                    self._sync(memory)
            except OpenOxideError as error:
                log.warning("who writes the memory of %s is not known: %s", tree.project, error)

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
        return {_key(window): window for tree in self.readers(memory.worktree) for window in tree.windows}

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

    def wrote(self, tree: Worktree, tool: Window, writes: Mapping[bytes, Mapping[bytes, BlobHash]]) -> None:
        """What ``tool``, a call in ``tree`` that now ends, wrote into its memories (by root) is surely its own."""
        for memory in self.read_by(tree) if writes else ():
            if memory.worktree.root in writes:
                self._wrote(memory, tool, writes[memory.worktree.root])

    def _wrote(self, memory: Watched, tool: Window, writes: Mapping[bytes, BlobHash]) -> None:
        with memory.lock:
            self._service.attach(memory)
            ours = next((window for window in memory.windows if _key(window) == _key(tool)), None)
            if ours is None:
                return
            memory.claim(ours, writes)
            by = with_sure_writes(ours, writes, writer_between_windows(memory.windows))
            memory.seal(Label(trigger=Trigger.TOOL, turn=memory.only_turn, only_if_changed=True), by)

    def searching(self, directory: MemoryDirectory, clean: Callable[[str], str], known: frozenset[str]) -> Search:
        """What searches the memory in ``directory``; it is kept, since it reads only what changed. ``known``: the values that
        ``clean`` takes out, which are others once the project's .env is.
        """
        with self._lock:
            held = self._searches.get(directory.path)
            if held is None or held[0] != known:
                held = self._searches[directory.path] = known, Search(directory, clean)
            return held[1]

    def roots(self, tree: Worktree) -> list[bytes]:
        """Where the memories are that are watched of what a worktree reads."""
        return [memory.worktree.root for memory in self.read_by(tree)]

    def standings(self, worktree: Worktree) -> Standings:
        """Who vouches for what stands in a memory; it is kept, since it reads only what changed."""
        with self._lock:
            return self._standings.setdefault(worktree.id, Standings(self._service.timeline, worktree.id))

    # what is to be told

    def look_at_index_soon(self, root: bytes) -> None:
        """Have the log say within a moment when the index of a memory is over its limit, whoever wrote it. Cheap."""
        self._service.background.submit(f"index {os.fsdecode(root)}", partial(self._look_at_index, root))

    def _look_at_index(self, root: bytes) -> None:
        directory = self.directory(*whose(root))
        index = LoadedIndex()
        with suppress(OpenOxideError):  # a link in its place: `memory lint` and `status` say so
            index = load_index(directory.index().data)
        if not index.warning:
            self._over.discard(root)
        elif root not in self._over:  # else it would be told with each line that is added
            self._over.add(root)
            # no word of it: a line of a note may hold a secret
            text = "memory.index_over: no agent gets line %d of %d of %s and what follows it; `oxide-ctl memory index` has more"
            log.warning(text, index.first_cut, index.lines, directory.path / INDEX)

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
