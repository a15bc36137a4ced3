"""``unwatch``: a worktree is watched no more, and forgotten if that is asked for. What stands on the disk stays, notes too."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, store
from openoxide.checkpoints.model import Worktree
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.projects import LeftNotes, UnwatchAnswer
from openoxide.daemon.requests import Request, flag, path
from openoxide.daemon.watched import Watched
from openoxide.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def unwatch(service: Service, request: Request, _report: Reporter) -> UnwatchAnswer:
    """Stop watching; with ``delete_history`` forget the worktree and all its checkpoints. Acts on a whole worktree, so
    the path must be its root. One that is not watched any more can still be forgotten. The history of a project's memory goes
    with that of its last worktree; the notes themselves stay. ``dry_run`` only counts.
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
            is_last = delete and all(other.is_memory for other in others)
            memory = next(iter(others), None) if is_last else None
            for one in filter(None, (worktree, memory)):
                if delete and journal.open_operations(db, one.id):
                    raise RefusedError(
                        f"{shown(one.root)} has an interrupted operation",
                        hint="run `oxide-ctl rewind --continue` or `--abort` first",
                    )
            versions = rows.count_versions(db, memory.id) if memory is not None else 0
        remaining = 0 if dry_run else _forget(service, worktree, watched, memory, delete=delete)
    return {
        "ok": True,
        "root": shown(worktree.root),
        "checkpoints": count,
        "history_deleted": delete and not dry_run,
        "remaining_bytes": remaining,
        "memory": _notes_left(service, worktree.project, versions, deleted=is_last) if delete else None,
    }


def _notes_left(service: Service, project: str, versions: int, *, deleted: bool) -> LeftNotes | None:
    directory = service.memories.directory(project)
    files = len(directory.listing().files)
    if not files and not versions:
        return None
    return {
        "path": printable(str(directory.path)),
        "files": files,
        "versions": versions,
        "history_deleted": deleted,
    }


def _forget(
    service: Service, worktree: Worktree, watched: Watched | None, memory: Worktree | None, *, delete: bool
) -> int:
    """How many bytes of a deleted history stay in the store."""
    if watched is not None:
        service.let_go(watched)
    # before its rows: who watches it records into them
    service.memories.let_go_unused(worktree.project)
    with service.timeline.database.writing() as db:
        store.set_watching(db, worktree.id, service.clock.now_ms(), watching=False)
        if delete:
            store.delete_history(db, worktree.id)
        if memory is not None:
            store.delete_history(db, memory.id)
    return service.timeline.blobs.drop_unused() if delete else 0
