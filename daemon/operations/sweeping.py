"""Empty the staging folders of operations that ended: what is nowhere else is stored first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applier
from openoxide.daemon.watched import Watched

if TYPE_CHECKING:
    from openoxide.daemon.service import Service


def sweep_ended(service: Service, watched: Watched) -> None:
    """Sweep every ended operation of a worktree. Deleting takes its time, so the worktree is not locked meanwhile."""
    with watched.sweeping:  # two would take the same folder away from each other
        with service.timeline.database.reading() as db:
            ended = journal.unswept(db, watched.worktree.id)
        if not ended:
            return
        with watched.open_tree() as tree:
            for operation in ended:
                Applier(service.timeline, tree).sweep(operation)
    with watched.lock, watched.open_tree() as tree:
        Applier(service.timeline, tree).tidy()
