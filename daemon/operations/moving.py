"""``projects move`` and ``projects join``: whose history is whose, when somebody who knows says so.

The commit of a move is one transaction. Whatever of the old and the new root was watched is let go of before it, under
its lock, and the full pass that follows closes the gap that the transaction opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openoxide.checkpoints import journal, rows, store
from openoxide.checkpoints.gitposition import common_dir
from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.tree import RootIdentity, identity_of, recorded_identity
from openoxide.daemon.answers import checkpoint_object, time_or_none
from openoxide.daemon.operations.remembering import place_in, recorded
from openoxide.daemon.operations.watching import checked_root, counting, shown
from openoxide.daemon.pauses import try_to_follow
from openoxide.daemon.protocol.projects import JoinAnswer, MoveAnswer
from openoxide.daemon.requests import Request, flag, number, path
from openoxide.daemon.watched import Watched
from openoxide.db import Transaction
from openoxide.errors import AmbiguousError, NotFoundError, OpenOxideError, RefusedError, UsageError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.topics import Memory
from openoxide.memory.worktrees import kept_apart, promote

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def move(service: Service, request: Request, report: Reporter) -> MoveAnswer:
    """The history of the tree that was at ``old`` goes on at ``new``. With ``old`` and ``new`` alike it goes on in the
    directory that was made anew there. ``yes``: also though the tree still is at ``old``. ``history``: the worktree that
    is meant, where several stood at ``old``.
    """
    root = checked_root(service, path(request, "new"), allow_broad=False)
    identity = identity_of(root)
    old = _moving(service, path(request, "old"), root, identity, number(request, "history"))
    if _is_still_there(old) and not flag(request, "yes"):
        raise RefusedError(
            f"{shown(old.root)} still holds the tree that was watched",
            hint="--yes moves its history all the same, and that tree is no longer watched",
            details={"still_there": True},
        )
    moved, dropped = _change_places(service, old, root, identity)
    try:
        try_to_follow(service, moved.worktree)
        # first: their project is not known any more, and nobody else would find them
        notes = [note for other in dropped for note in _notes_of_dropped(service, moved.worktree, other)]
        service.attach(moved, counting(report))
        newest = moved.newest()
    except BaseException:
        service.attach_soon(moved)
        raise
    finally:
        moved.lock.release()
    if dropped:
        service.timeline.blobs.drop_unused()
    assert newest is not None, "an attached worktree has a checkpoint"
    return {
        "ok": True,
        "project": old.project,
        "worktree": old.id,
        "old_root": shown(old.root),
        "root": shown(root),
        "dropped_checkpoints": sum(dropped.values()),
        "checkpoint": checkpoint_object(newest),
        "notes": notes,
    }


def _notes_of_dropped(service: Service, tree: Worktree, other: str) -> list[str]:
    """Bring the notes of a project of which nothing but them is left into that of ``tree``, as :func:`join`."""
    with service.timeline.database.reading() as db:
        left = other == tree.project or any(w.project == other and not w.is_memory for w in store.worktrees(db))
    return [] if left else _join_memories(service, tree, other)


def _change_places(
    service: Service, old: Worktree, root: bytes, identity: RootIdentity
) -> tuple[Watched, dict[str, int]]:
    """The move itself: what was moved, locked so that nobody else attaches it first, and how many checkpoints of the new
    root's own it dropped, by project.
    """
    new = replace(
        old,
        root=root,
        dev=identity.dev,
        ino=identity.ino,
        birth_ns=identity.birth_ns,
        common_dir=common_dir(root),
        watching=True,
        paused_ms=None,
        paused_until_ms=None,
    )
    with ExitStack() as locks:
        concerned = [w for w in service.all_watched() if w.worktree.id == old.id or w.worktree.root == root]
        for watched in sorted(concerned, key=lambda w: w.worktree.id):  # always in this order: two moves may meet
            locks.enter_context(watched.lock)
        own = next((w for w in concerned if w.worktree.id != old.id and w.identity.same_as(identity)), None)
        if own is not None:
            service.attach(own)
            own.record()
        try:
            with service.timeline.database.writing() as db:
                _refuse_interrupted(db, old, identity)
                dropped = _make_room(db, root, identity, old.id, own, service.clock.now_ms())
                for watched in concerned:
                    service.let_go(watched)
                store.adopt_root(db, new, service.clock.now_ms())
        except BaseException:
            for watched in concerned:
                if watched.released:
                    service.attach_soon(service.take_up(watched.worktree))
            raise
        return service.take_up(new, locked=True), dropped


def _moving(service: Service, named: bytes, root: bytes, identity: RootIdentity, wanted: int | None) -> Worktree:
    """The worktree that was at ``named`` and is now at ``root``."""
    names = {os.path.realpath(named), os.path.normpath(named)}
    with service.timeline.database.reading() as db:
        there = [worktree for worktree in store.worktrees(db) if worktree.root in names and not worktree.is_memory]
        moving = [
            worktree for worktree in there if worktree.root != root or not recorded_identity(worktree).same_as(identity)
        ]
        if not there:
            raise NotFoundError(f"no project is known at {shown(named)}", hint="run `oxide-ctl projects`")
        if not moving:
            raise UsageError(
                f"{shown(root)} is where its history says it is", hint="name the directory it was moved to"
            )
        chosen = that_moved(moving, identity, wanted)
        if chosen is None:
            raise _ambiguous(db, named, moving, wanted)
    return chosen


def that_moved(known: Sequence[Worktree], identity: RootIdentity, wanted: int | None) -> Worktree | None:
    """The one of ``known`` that is ``wanted``; else the one that is the very directory, else the only one there is. None
    where that says nothing: a copy could be of any of them. Pure.
    """
    if wanted is not None:
        return next((worktree for worktree in known if worktree.id == wanted), None)
    same = [worktree for worktree in known if recorded_identity(worktree).same_as(identity)]
    fitting = same or known
    return fitting[0] if len(fitting) == 1 else None


def _ambiguous(db: Transaction, named: bytes, known: Sequence[Worktree], wanted: int | None) -> OpenOxideError:
    candidates = [_candidate(db, worktree) for worktree in known]
    choices = [
        f"--history {found['id']} ({found['reason']}, checkpoints: {found['checkpoints']})" for found in candidates
    ]
    hint = f"say which one: {' or '.join(choices)}"
    if wanted is not None:
        return NotFoundError(
            f"{shown(named)} has no history {wanted} to move", hint=hint, details={"candidates": candidates}
        )
    message = f"{len(known)} directories stood at {shown(named)}, and nothing tells which of them was moved"
    return AmbiguousError(message, hint=hint, details={"candidates": candidates})


def _candidate(db: Transaction, worktree: Worktree) -> dict[str, Any]:
    checkpoints = store.CheckpointQuery(db, worktree.id)
    newest = checkpoints.newest()
    return {
        "id": worktree.id,
        "root": shown(worktree.root),
        "reason": "still there" if _is_still_there(worktree) else "gone",
        "checkpoints": checkpoints.count(),
        "created_at": time_or_none(newest.created_at_ms if newest else None),
    }


def _is_still_there(worktree: Worktree) -> bool:
    """Whether the tree is at its root; one that a link there leads to has moved."""
    try:
        return os.path.realpath(worktree.root) == worktree.root and identity_of(worktree.root).same_as(
            recorded_identity(worktree)
        )
    except OSError:
        return False


def _make_room(
    db: Transaction, root: bytes, identity: RootIdentity, moving: int, own: Watched | None, now_ms: int
) -> dict[str, int]:
    """Make ``root`` free for another history. One of its own is dropped if it is no more than a first capture, equal to
    the tree as it was recorded just now: the full pass records the same again. Any other is the user's to delete. How many
    checkpoints went, by project.
    """
    dropped: dict[str, int] = {}
    for worktree in store.worktrees(db):
        if worktree.id == moving or worktree.root != root:
            continue
        if not recorded_identity(worktree).same_as(identity):  # of a directory that stood here before
            store.set_watching(db, worktree.id, now_ms, watching=False)
            continue
        watched = own is not None and own.worktree.id == worktree.id
        count = store.CheckpointQuery(db, worktree.id).count()
        if count and not (watched and _is_first_capture(db, worktree.id)):
            raise RefusedError(
                f"{shown(root)} has a history of its own ({count} checkpoints)",
                hint=f"`oxide-ctl unwatch --delete-history {shown(root)}` forgets it, `oxide-ctl projects join` keeps both",
            )
        store.delete_history(db, worktree.id)
        dropped[worktree.project] = dropped.get(worktree.project, 0) + count
    return dropped


def _is_first_capture(db: Transaction, worktree: int) -> bool:
    """Whether a history is one plain checkpoint and nothing since."""
    checkpoints = store.CheckpointQuery(db, worktree).listing(all_of_them=True)
    plain = len(checkpoints) == 1 and not checkpoints[0].pinned and checkpoints[0].name is None
    return plain and checkpoints[0].seq == rows.read_head(db, worktree).seq and not journal.operations(db, worktree)


def _refuse_interrupted(db: Transaction, old: Worktree, identity: RootIdentity) -> None:
    """What an operation has done is told by inode numbers, and a copy has others."""
    if (old.dev, old.ino) != (identity.dev, identity.ino) and journal.open_operations(db, old.id):
        raise RefusedError(
            f"{shown(old.root)} has an interrupted operation, and the new directory is a copy",
            hint="move the directory itself back, then run `oxide-ctl rewind --continue` or `--abort` there",
        )


def join(service: Service, request: Request, _report: Reporter) -> JoinAnswer:
    """The worktrees of both are one project, under the id of the first; their histories stay their own."""
    first, second = (_known(service, path(request, name)) for name in ("a", "b"))
    if first.id == second.id:
        raise UsageError(f"both are the worktree {shown(first.root)}", hint="name two; `oxide-ctl projects` lists them")
    with service.timeline.database.writing() as db:
        store.join_projects(db, first.project, second.project)
        of_project = [w for w in store.worktrees(db) if w.project == first.project and not w.is_memory]
        roots = [worktree.root for worktree in of_project]
    for watched in service.trees():
        with watched.lock:
            if watched.worktree.project == second.project:
                watched.worktree = replace(watched.worktree, project=first.project)
    notes = _join_memories(service, first, second.project) if first.project != second.project else []
    return {"ok": True, "project": first.project, "roots": [shown(root) for root in roots], "notes": notes}


def _join_memories(service: Service, tree: Worktree, other: str) -> list[str]:
    """Bring what the memories of ``other`` hold into those of the project of ``tree``, what a worktree has of its own into its
    own; it stays where it is, too. What was done, for people.
    """
    for project in (other, tree.project):
        service.memories.let_go_unused(project)
    notes: list[str] = []
    for worktree in ("", *kept_apart(service.home.folder, other)):
        source = service.memories.directory(other, worktree)
        if source.listing().files:
            notes += _join_memory(service, tree, source, service.memories.directory(tree.project, worktree))
    service.memories.let_go_unused(tree.project)
    return notes


def _join_memory(service: Service, tree: Worktree, source: MemoryDirectory, target: MemoryDirectory) -> list[str]:
    notes = Memory(source, service.clock)
    try:
        place = place_in(service, tree)
        place = replace(place, memory=Memory(target, service.clock, place.known))
        done, _, _ = recorded(service, place, {}, lambda memory: promote(notes, memory))
    except OpenOxideError as error:
        return [f"its memory was not brought along: {error.message}; it is in {source.path}"]
    refused = [one for one in done if one.became == "refused"]
    return [
        f"{len(done) - len(refused)} notes of its memory were brought along; they stay in {source.path}, too",
        *(f"{one.name} was not: {one.reason}" for one in refused),
    ]


def _known(service: Service, named: bytes) -> Worktree:
    """The worktree whose very root is named, though another may hold it and be watched; else the one that holds it."""
    with service.timeline.database.reading() as db:
        exact = [worktree for worktree in store.worktrees(db) if worktree.root == os.path.realpath(named)]
    return max(exact, key=lambda worktree: (worktree.watching, worktree.id)) if exact else service.known(named)
