"""``du``: what is stored where, for whom, and what of it nothing needs. Only reads, and works without a daemon."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from openoxide.checkpoints import rows, store, usage
from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.timeline import Timeline
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.health import DuAnswer, HomePart, WorktreeUsage
from openoxide.daemon.requests import Request
from openoxide.db import Transaction
from openoxide.paths import Home

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

LARGEST_PATHS = 20
PARTS = {
    "timeline": "which file was in which state when, checkpoints, operations",
    "contents": "contents of files, compressed, each once",
    "logs": "what the daemon logged",
    "settings": "config.toml",
    "other": "the socket, the lock, and what is not ours",
}


def du(service: Service, _request: Request, _report: Reporter) -> DuAnswer:
    """``du``."""
    return measured(service.timeline, service.home, service.clock.now_ms())


def measured(timeline: Timeline, home: Home, now_ms: int) -> DuAnswer:
    """The whole home, part by part and worktree by worktree."""
    parts = _parts(home)
    with timeline.database.looking() as db:
        shares = usage.shares(db)
        worktrees = [
            _worktree(db, worktree, shares.get(worktree.id, usage.Share()), now_ms) for worktree in store.worktrees(db)
        ]
        freeable = usage.freeable_bytes(db, now_ms)
    return {
        "ok": True,
        "home": printable(str(home.folder)),
        "total_bytes": sum(part["size_bytes"] for part in parts),
        "freeable_bytes": freeable,
        "parts": parts,
        "worktrees": worktrees,
    }


def _worktree(db: Transaction, worktree: Worktree, share: usage.Share, now_ms: int) -> WorktreeUsage:
    head = rows.read_head(db, worktree.id)
    return {
        "root": printable(os.fsdecode(worktree.root)),
        "project": worktree.project,
        "watching": worktree.watching,
        "checkpoints": store.CheckpointQuery(db, worktree.id).count(),
        "files": head.files,
        "logical_bytes": head.bytes,
        "history_bytes": share.history_bytes,
        "stored_bytes": share.stored_bytes,
        "unique_bytes": share.unique_bytes,
        "growth": [
            {"day": item.day, "contents": item.contents, "stored_bytes": item.stored_bytes}
            for item in usage.growth(db, worktree.id, now_ms)
        ],
        "largest": [
            {**path_entry(item.path), "contents": item.contents, "stored_bytes": item.stored_bytes}  # type: ignore[typeddict-unknown-key]
            for item in usage.largest_paths(db, worktree.id, LARGEST_PATHS)
        ],
    }


def _parts(home: Home) -> list[HomePart]:
    """Bytes on disk, as ``status`` counts them."""
    sizes: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for directory, _, names in os.walk(home.folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:  # a WAL that was folded away, a pack that was dropped
                continue
            part = _part(os.path.relpath(directory, home.folder).split(os.sep)[0], name)
            sizes[part] += found.st_blocks * 512
            files[part] += 1
    return [
        {"name": name, "what": what, "size_bytes": sizes[name], "files": files[name]} for name, what in PARTS.items()
    ]


def _part(folder: str, name: str) -> str:
    if folder == ".":
        return "timeline" if name.startswith("timeline.db") else "settings" if name == "config.toml" else "other"
    return {"blobs": "contents", "logs": "logs"}.get(folder, "other")
