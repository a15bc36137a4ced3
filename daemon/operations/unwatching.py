"""``unwatch``: a worktree is watched no more, and forgotten if that is asked for. What stands on the disk stays, notes too."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, store
from openoxide.checkpoints.model import Worktree
from openoxide.daemon.memories import whose
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.projects import LeftNotes, UnwatchAnswer
from openoxide.daemon.requests import Request, flag, path
from openoxide.daemon.watched import Watched
from openoxide.errors import RefusedError, UsageError
from openoxide.memory.worktrees import kept_apart

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def unwatch(service: Service, request: Request, _report: Reporter) -> UnwatchAnswer:
    """Stop watching; with ``delete_history`` forget the worktree and all its checkpoints. Acts on a whole worktree, so
    the path must be its root. One that is not watched any more can still be forgotten. The history of what a worktree notes for
    itself goes with it, that of a project's memory with its last worktree; the notes themselves stay. ``dry_run`` only counts.
    """
    root = os.path.realpath(path(request))
    worktree = service.rooted(root) or service.known(path(request))
    if root != worktree.root:
        raise UsageError(
            f"{shown(path(request))} is inside the worktree {shown(worktree.root)}",
            hint="name the worktree's root itself",
        )
    delete, dry_run = flag(request, "delete_history"), flag(request, "dry_run")
    watched = next((w for w in service.all_watched() if w.worktree.id == worktree.id), None)
    with watched.lock if watched is not None else nullcontext():
        with service.timeline.database.reading() as db:
            count = store.CheckpointQuery(db, worktree.id).count()
            others = [w for w in store.worktrees(db) if w.project == worktree.project and w.id != worktree.id]
            for one in (worktree, *_forgotten(worktree, others)) if delete else ():
                if journal.open_operations(db, one.id):
                    raise RefusedError(
                        f"{shown(one.root)} has an interrupted operation",
                        hint="run `oxide-ctl rewind --continue` or `--abort` first",
                    )
        notes = _notes_left(service, worktree, others) if delete else []
        remaining = 0 if dry_run else _forget(service, worktree, watched, delete=delete)
    return {
        "ok": True,
        "dry_run": dry_run,
        "root": shown(worktree.root),
        "checkpoints": count,
        "history_deleted": delete and not dry_run,
        "remaining_bytes": remaining,
        "memories": notes,
    }


def _is_last(others: Sequence[Worktree]) -> bool:
    return all(other.is_memory for other in others)


def _forgotten(worktree: Worktree, others: Sequence[Worktree]) -> list[Worktree]:
    """The memories whose history goes with that of a worktree: its own, with the last of a project (``others`` of it are its
    memories only) all. Pure.
    """
    ours = (worktree.project, str(worktree.id))
    return [other for other in others if other.is_memory and (_is_last(others) or whose(other.root) == ours)]


def _notes_left(service: Service, worktree: Worktree, others: Sequence[Worktree]) -> list[LeftNotes]:
    """What the worktree reads; with the last of a project all that there is of it."""
    project, own = worktree.project, str(worktree.id)
    forgotten = {whose(memory.root): memory for memory in _forgotten(worktree, others)}
    read = [(directory.project, directory.worktree) for directory in service.memories.layers(worktree).both]
    known = [(project, ""), *((project, one) for one in kept_apart(service.home.folder, project))]
    other = next((other for other in others if not other.is_memory), None)
    found: list[LeftNotes] = []
    for place in dict.fromkeys([*read, (project, own), *forgotten, *(known if other is None else ())]):
        directory, memory = service.memories.directory(*place), forgotten.get(place)
        files, versions = len(directory.listing().files), 0
        if memory is not None:
            with service.timeline.database.reading() as db:
                versions = rows.count_versions(db, memory.id)
        promote = f"oxide-ctl -C {shlex.quote(shown(other.root))} memory promote --from {own}" if other else None
        if files or versions:
            found.append(
                {
                    "worktree": directory.worktree,
                    "path": printable(str(directory.path)),
                    "files": files,
                    "versions": versions,
                    "history_deleted": other is None or directory.worktree == own,
                    "command": promote if files and directory.worktree == own else None,
                }
            )
    return found


def _forget(service: Service, worktree: Worktree, watched: Watched | None, *, delete: bool) -> int:
    """How many bytes of a deleted history stay in the store."""
    # once it is known, its row keeps the number of the worktree, by which its notes are named, from being given again
    service.memories.of(service.memories.directory(worktree.project, str(worktree.id)))
    if watched is not None:
        service.let_go(watched)
    # before its rows: who watches it records into them
    service.memories.let_go_unused(worktree.project)
    now_ms = service.clock.now_ms()
    with service.timeline.database.writing() as db:
        store.set_watching(db, worktree.id, now_ms, watching=False)
        others = [w for w in store.worktrees(db) if w.project == worktree.project and w.id != worktree.id]
        if delete:
            store.delete_history(db, worktree.id)
        for memory in _forgotten(worktree, others) if delete else ():
            store.delete_history(db, memory.id)
            if not _is_last(others):
                # under another number, or the worktree's own: either way no worktree of the project gets that one
                store.insert_worktree(db, replace(memory, watching=False), now_ms)
    return service.timeline.blobs.drop_unused() if delete else 0
