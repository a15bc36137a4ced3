"""Which known project a directory seems to be: for a note, never for a decision.

An inode number is used again at once, a clone has the origin and the commits of what it was made from. So a likeness is
shown with the command that says it, and only somebody who knows types that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from openoxide.checkpoints import rows, store
from openoxide.checkpoints.gitposition import read_git, visited_heads
from openoxide.checkpoints.model import STAGING_NAME, Worktree
from openoxide.checkpoints.tree import RootIdentity, identity_of
from openoxide.daemon.protocol import Lookalike, printable
from openoxide.db import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A worktree with a history whose directory is not at its root any more, and what was last recorded there."""

    root: bytes
    device_and_inode: tuple[int, int]
    names: frozenset[bytes]
    head: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A directory as it is; ``names`` of its entries, ``heads`` its HEAD was at."""

    root: bytes
    device_and_inode: tuple[int, int]
    names: frozenset[bytes]
    heads: frozenset[str] = frozenset()
    origin: str = ""


def likeness(gone: Gone, here: Here) -> str:
    """Why both seem to be one project, empty if nothing says so. Pure."""
    if gone.root == here.root:
        return "recreated"
    shared = len(gone.names & here.names)
    if gone.device_and_inode == here.device_and_inode and shared and 2 * shared >= len(gone.names):
        return "same_directory"
    if gone.head and gone.head in here.heads:
        return "same_head"
    return "same_origin" if gone.origin and gone.origin == here.origin else ""


def is_gone(worktree: Worktree) -> bool:
    """Whether the root is no longer the directory that was watched."""
    try:
        return identity_of(worktree.root) != RootIdentity(worktree.dev, worktree.ino, worktree.birth_ns)
    except OSError:
        return True


def gone_with_history(db: Transaction, worktrees: Iterable[Worktree]) -> list[tuple[Worktree, Gone]]:
    """Those of ``worktrees`` that are gone and have something to be looked for."""
    found = []
    for worktree in worktrees:
        newest = store.CheckpointQuery(db, worktree.id).newest() if is_gone(worktree) else None
        if newest is not None:
            names = frozenset(rows.top_names(db, worktree.id))
            place = worktree.dev, worktree.ino
            git = newest.git
            gone = Gone(root=worktree.root, device_and_inode=place, names=names, head=git.head, origin=git.origin)
            found.append((worktree, gone))
    return found


def here(root: bytes) -> Here:
    """What there is to compare of the directory at ``root``. Raises OSError."""
    identity = identity_of(root)
    names = frozenset(name for name in os.listdir(root) if name != STAGING_NAME)
    place = identity.dev, identity.ino
    origin = read_git(root).origin
    return Here(root=root, device_and_inode=place, names=names, heads=visited_heads(root), origin=origin)


def like(db: Transaction, root: bytes) -> list[Lookalike]:
    """The worktrees that are gone and that the directory at ``root`` looks like."""
    gone = gone_with_history(db, store.worktrees(db))
    if not gone:
        return []
    there = here(root)
    return [lookalike(g.root, reason) for _, g in gone if (reason := likeness(g, there))]


def lookalike(root: bytes, reason: str) -> Lookalike:
    """A likeness as answers carry it."""
    return {"root": printable(os.fsdecode(root)), "reason": reason}
