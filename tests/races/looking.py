"""Everything that a project's timeline can give back, searched without knowing where it should be."""

from __future__ import annotations

import threading

from openoxide.checkpoints import journal
from openoxide.checkpoints.journal import OutcomeKind
from openoxide.checkpoints.model import BlobHash, FileState
from openoxide.daemon.operations.sweeping import sweep_ended
from tests.kit.box import Box

STAGING = ".openoxide-staging"
IDLE_WITHIN_S = 30


def worktree_of(box: Box) -> int:
    """The row of the one worktree that the box watches."""
    (found,) = {watched.worktree.id for watched in box.service.all_watched()}
    return found


def states_at(box: Box, seq: int) -> dict[bytes, FileState]:
    return box.service.timeline.states(worktree_of(box), seq)


def reachable(box: Box) -> list[bytes]:
    """Every content that some checkpoint holds, or that was found in a staging folder and stored."""
    timeline = box.service.timeline
    found: set[BlobHash | None] = set()
    for item in box.call("log")["items"]:
        found |= {state.blob for state in states_at(box, item["seq"]).values()}
    with timeline.database.reading() as db:
        for operation in journal.operations(db, worktree_of(box)):
            found |= {o.blob for o in journal.outcomes(db, operation.id) if o.kind is OutcomeKind.LATE}
    return [timeline.blobs.read(name) for name in found if name is not None]


def wait_until_swept(box: Box) -> bool:
    """Wait for what rewinds left to the background; whether the staging folder is gone then."""
    done = threading.Event()
    box.service.background.submit("the test waits", done.set)
    assert done.wait(IDLE_WITHIN_S)
    for watched in box.service.all_watched():  # what a process could still write to is swept the next time
        sweep_ended(box.service, watched)
    return not (box.root / STAGING).exists()
