"""Empty the staging folders of operations that ended: what is nowhere else is stored first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applier
from openoxide.daemon.watched import Watched

if TYPE_CHECKING:
    from openoxide.daemon.service import Service


def sweep(service: Service, watched: Watched) -> None:
    """As :func:`sweep_ended`, some time after the operation."""
    with watched.lock:
        if watched.attached:
            sweep_ended(service, watched)


def sweep_ended(service: Service, watched: Watched) -> None:
    """Empty the staging folders of operations that ended. The caller holds the lock."""
    with service.timeline.database.reading() as db:
        ended = journal.unswept(db, watched.worktree.id)
    if not ended:
        return
    with watched.open_tree() as tree:
        for operation in ended:
            Applier(service.timeline, tree).sweep(operation)
