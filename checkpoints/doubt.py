"""What cannot be trusted of a checkpoint that a repair has marked: its states have another sum than those that were sealed.

A state that still holds at a later checkpoint whose sum is right is proven by that one. So only what has changed up to the next
sound checkpoint is in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from openoxide.checkpoints import rows
from openoxide.checkpoints.model import DAMAGED, Checkpoint
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction
from openoxide.errors import StoreDamagedError

# one that may lack a change proves nothing either
_NEXT = (
    "select min(seq) from checkpoint where worktree = ? and seq >= ? and failed is null and complete = 1 and gap <> ?"
)


def doubtful(db: Transaction, checkpoint: Checkpoint) -> set[bytes]:
    """The paths of which nobody can tell what they were at ``checkpoint``."""
    if not is_damaged(checkpoint):
        return set()
    worktree, seq = checkpoint.worktree, checkpoint.seq
    # the first is the best one: what holds there still holds at fewer later ones
    (proven,) = raw(db).execute(_NEXT, (worktree, seq, DAMAGED)).fetchone()
    if proven is not None:
        return set(rows.changed_paths(db, worktree, seq, proven))
    return {path for (path,) in raw(db).execute("select path from path where worktree = ?", (worktree,))}


def is_damaged(checkpoint: Checkpoint) -> bool:
    """Whether a repair has marked it: it may lack paths that no row names any more, so what is absent there proves nothing."""
    return checkpoint.coverage.cause == DAMAGED


def require_told(db: Transaction, checkpoint: Checkpoint, chosen: Sequence[bytes]) -> None:
    """Raises StoreDamagedError where nobody can tell what ``chosen`` (empty: all paths) was at ``checkpoint``."""
    if not is_damaged(checkpoint):
        return
    affected = {path for path in doubtful(db, checkpoint) if within_paths(path, chosen) and not path.endswith(b"/")}
    states = rows.states_at(db, checkpoint.worktree, checkpoint.seq, [path for path in chosen if path])
    affected |= {path for path, state in states.items() if not state.exists}
    if affected or within_paths(b"", chosen):
        raise damaged_checkpoint(checkpoint, sorted(affected))


def damaged_checkpoint(checkpoint: Checkpoint, affected: Sequence[bytes]) -> StoreDamagedError:
    """What is said of a checkpoint that a repair has marked, with the paths that it cannot give back."""
    return StoreDamagedError(
        in_doubt(checkpoint, affected),
        hint="nothing was changed; --partial goes on without them, or take a checkpoint that is sound",
        details={"paths": [os.fsdecode(path) for path in affected]},
    )


def in_doubt(checkpoint: Checkpoint, affected: Sequence[bytes]) -> str:
    """What nobody can tell of a damaged checkpoint, in a sentence."""
    if not affected:
        return f"checkpoint {checkpoint.number} is damaged: paths may be missing that no row names any more"
    paths = "path was" if len(affected) == 1 else "paths were"
    return (
        f"checkpoint {checkpoint.number} is damaged: what {len(affected)} {paths} is not known, first"
        f" {os.fsdecode(affected[0])!r}"
    )
