"""The store's sizes as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.cli.render import table
from openoxide.cli.units import count, size
from openoxide.daemon.protocol import printable

if TYPE_CHECKING:
    from openoxide.daemon.protocol.health import DuAnswer, WorktreeUsage

FEW_DAYS, FEW_PATHS = 7, 5


def du(answer: DuAnswer, *, verbose: bool = False) -> str:
    """What is stored where, for which worktree, and what of it could go; ``verbose`` shortens nothing."""
    parts = [
        (f"  {part['name']}", size(part["size_bytes"]), count(part["files"], "file"), part["what"])
        for part in answer["parts"]
        if part["files"]
    ]
    lines = [f"{size(answer['total_bytes'])} in {printable(answer['home'])}", table(parts, right=(1, 2))]
    for worktree in answer["worktrees"]:
        lines += ["", *_worktree(worktree, verbose=verbose)]
    return "\n".join([*lines, "", _freeable(answer["freeable_bytes"])])


def _freeable(size_bytes: int) -> str:
    if not size_bytes:
        return "nothing of it can go: all of it is needed by a kept checkpoint, an undo or the last 24 hours"
    return f"about {size(size_bytes)} is needed by nothing any more; `prune`, which will free it, is not built yet"


def _worktree(item: WorktreeUsage, *, verbose: bool) -> list[str]:
    unwatched = "" if item["watching"] else "  (not watched)"
    shared = item["stored_bytes"] - item["unique_bytes"]
    lines = [
        f"{printable(item['root'])}{unwatched}",
        f"  {count(item['files'], 'file')} now, {size(item['logical_bytes'])}; {count(item['checkpoints'], 'checkpoint')}",
        f"  its history: {size(item['history_bytes'])}, stored in {size(item['stored_bytes'])}"
        + (f", of which {size(shared)} is shared with others" if shared else ""),
    ]
    days = item["growth"] if verbose else item["growth"][-FEW_DAYS:]
    lines += [f"  {day['day']}  +{size(day['stored_bytes'])}, {count(day['contents'], 'content')}" for day in days]
    paths = item["largest"] if verbose else item["largest"][:FEW_PATHS]
    rows = [(f"  {size(p['stored_bytes'])}", count(p["contents"], "content"), printable(p["path"])) for p in paths]
    return [*lines, *table(rows, right=(0, 1)).splitlines()]
