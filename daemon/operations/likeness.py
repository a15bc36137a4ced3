"""Which known project a directory seems to be: for a note, never for a decision.

An inode number is used again at once, a clone has the origin and the commits of what it was made from. So a likeness is
shown with the command that says it, and only somebody who knows types that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from openoxide.checkpoints import store
from openoxide.checkpoints.gitposition import read_git, visited_heads
from openoxide.checkpoints.live import top_names
from openoxide.checkpoints.model import STAGING_NAME, Worktree
from openoxide.checkpoints.tree import identity_of, recorded_identity
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.projects import Lookalike
from openoxide.db import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a project can be known by: ``names`` in its root, the commits its HEAD was at, its origin. Of one that is gone
    what was last recorded, of a directory what is there.
    """

    root: bytes
    device_and_inode: tuple[int, int]
    names: frozenset[bytes] = frozenset()
    heads: frozenset[str] = frozenset()
    origin: str = ""


def likeness(gone: Traces, here: Traces) -> str:
    """Why both seem to be one project, empty if nothing says so. Pure."""
    if gone.root == here.root:
        return "recreated"
    shared = len(gone.names & here.names)
    if gone.device_and_inode == here.device_and_inode and shared and 2 * shared >= len(gone.names):
        return "same_directory"
    if gone.heads & here.heads:
        return "same_head"
    return "same_origin" if gone.origin and gone.origin == here.origin else ""


def is_gone(worktree: Worktree) -> bool:
    """Whether the root is no longer the directory that was watched."""
    try:
        return not identity_of(worktree.root).same_as(recorded_identity(worktree))
    except OSError:
        return True


def gone_with_history(db: Transaction, worktrees: Iterable[Worktree]) -> list[tuple[Worktree, Traces]]:
    """Those of ``worktrees`` that are gone and have something to be looked for."""
    found = []
    for worktree in worktrees:
        newest = store.CheckpointQuery(db, worktree.id).newest() if is_gone(worktree) else None
        if newest is not None:
            traces = Traces(
                root=worktree.root,
                device_and_inode=(worktree.dev, worktree.ino),
                names=frozenset(top_names(db, worktree.id)),
                heads=frozenset({newest.git.head} - {""}),
                origin=newest.git.origin,
            )
            found.append((worktree, traces))
    return found


def traces_at(root: bytes) -> Traces | None:
    """The traces of the directory at ``root``, None where it cannot be looked at: a likeness is never worth an error."""
    try:
        identity = identity_of(root)
        names = frozenset(name for name in os.listdir(root) if name != STAGING_NAME)
    except OSError:
        return None
    return Traces(
        root=root,
        device_and_inode=(identity.dev, identity.ino),
        names=names,
        heads=visited_heads(root),
        origin=read_git(root).origin,
    )


def like(db: Transaction, root: bytes) -> list[Lookalike]:
    """The worktrees that are gone and that the directory at ``root`` looks like."""
    gone = gone_with_history(db, [w for w in store.worktrees(db) if not w.is_memory])
    here = traces_at(root) if gone else None
    if here is None:
        return []
    return [lookalike(lost.root, reason) for _, lost in gone if (reason := likeness(lost, here))]


def lookalike(root: bytes, reason: str) -> Lookalike:
    """A likeness as answers carry it."""
    return {"root": printable(os.fsdecode(root)), "reason": reason}
