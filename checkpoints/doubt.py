"""What cannot be trusted of a checkpoint that a repair has marked: its states have another sum than those that were sealed.

A state that still holds at a later checkpoint whose sum is right is proven by that one. So only what has changed up to the next
sound checkpoint is in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from openoxide.checkpoints import rows
from openoxide.checkpoints.model import DAMAGED, Checkpoint
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction
from openoxide.errors import StoreDamagedError

# one that may lack a change proves nothing either
_NEXT = (
    "select min(seq) from checkpoint where worktree = ? and seq >= ? and failed is null and complete = 1 and gap <> ?"
)


def doubtful(db: Transaction, checkpoint: Checkpoint) -> set[bytes]:
    """The paths of which nobody can tell what they were at ``checkpoint``."""
    if checkpoint.coverage.cause != DAMAGED:
        return set()
    worktree, seq = checkpoint.worktree, checkpoint.seq
    # the first is the best one: what holds there still holds at fewer later ones
    (proven,) = raw(db).execute(_NEXT, (worktree, seq, DAMAGED)).fetchone()
    if proven is not None:
        return set(rows.changed_paths(db, worktree, seq, proven))
    return {path for (path,) in raw(db).execute("select path from path where worktree = ?", (worktree,))}


def damaged_checkpoint(checkpoint: Checkpoint, affected: Sequence[bytes]) -> StoreDamagedError:
    """What is said of a checkpoint that a repair has marked, with the paths that it cannot give back."""
    return StoreDamagedError(
        f"checkpoint {checkpoint.number} is damaged: what {len(affected)} paths were is not known, first"
        f" {os.fsdecode(affected[0])!r}",
        hint="nothing was changed; --partial goes on without them, or take a checkpoint that is sound",
        details={"paths": [os.fsdecode(path) for path in affected]},
    )
