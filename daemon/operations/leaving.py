"""What the daemon does before OpenOxide is removed: its staging folders go from the watched trees, as far as they may."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, store
from openoxide.checkpoints.model import STAGING_NAME, Worktree
from openoxide.daemon.operations.examining import staging_of
from openoxide.daemon.operations.likeness import is_gone
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.protocol import PathEntry, path_entry
from openoxide.daemon.protocol.health import LeaveAnswer
from openoxide.daemon.requests import Request, flag
from openoxide.errors import OpenOxideError, RefusedError

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def leave(service: Service, request: Request, _report: Reporter) -> LeaveAnswer:
    """Sweep the staging folder of each tree that is there. With an interrupted operation the history has to stay: what was
    displaced is settled by it, so it is a refusal unless ``keep_history``.
    """
    dry_run = flag(request, "dry_run")
    removed: list[PathEntry] = []
    left: list[PathEntry] = []
    for worktree in _there(service):
        staging = os.path.join(worktree.root, STAGING_NAME)
        if _unsettled(service, worktree):
            if not flag(request, "keep_history"):
                raise RefusedError(
                    f"{shown(worktree.root)} has an interrupted operation, and only the store can settle it",
                    hint="run `oxide-ctl rewind --continue` or `--abort` there first",
                )
            left.append(path_entry(staging, "interrupted"))
            continue
        match _staging(service, worktree, sweep=not dry_run):
            case "swept" | "left" if dry_run or not os.path.lexists(staging):
                removed.append(path_entry(staging))
            case "busy" | "left":
                left.append(path_entry(staging, "busy"))
    return {"ok": True, "removed": removed, "left": left}


def _there(service: Service) -> list[Worktree]:
    with service.timeline.database.reading() as db:
        return [worktree for worktree in store.worktrees(db) if not is_gone(worktree)]


def _unsettled(service: Service, worktree: Worktree) -> bool:
    """Whether an operation is open, after the daemon has had its turn to settle it."""
    if not _open_operations(service, worktree):
        return False
    for watched in service.all_watched():
        if watched.worktree.id == worktree.id and not watched.paused:
            with watched.lock, suppress(OpenOxideError):  # then it stays unsettled
                service.attach(watched)
    return _open_operations(service, worktree)


def _open_operations(service: Service, worktree: Worktree) -> bool:
    with service.timeline.database.reading() as db:
        return bool(journal.open_operations(db, worktree.id))


def _staging(service: Service, worktree: Worktree, *, sweep: bool) -> str:
    watched = next((watched for watched in service.all_watched() if watched.worktree.id == worktree.id), None)
    if watched is not None:
        return staging_of(service, watched, sweep=sweep)
    return "busy" if os.path.lexists(os.path.join(worktree.root, STAGING_NAME)) else ""
