"""``watch --dry-run``: what would be copied, and nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from openoxide.checkpoints import store
from openoxide.checkpoints.model import FileState, Observed
from openoxide.checkpoints.survey import Skips, summarise
from openoxide.checkpoints.survey import survey as look
from openoxide.checkpoints.tree import Tree
from openoxide.daemon.operations.likeness import is_gone, like
from openoxide.daemon.operations.watching import checked_root, shown
from openoxide.daemon.protocol import path_entry
from openoxide.daemon.protocol.projects import Lookalike, SkipsObject, SurveyAnswer
from openoxide.daemon.requests import Request, flag, path

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

REPORT_EVERY = 1_000


def survey(service: Service, request: Request, report: Reporter) -> SurveyAnswer:
    """Walk the tree as a first capture does. Of one that is watched already it is told what is not recorded yet."""
    root = checked_root(service, path(request), allow_broad=flag(request, "allow_broad"))
    watched = next((each for each in service.all_watched() if each.worktree.root == root), None)
    recorded = {} if watched is None else _recorded(service, watched.worktree.id)
    with Tree(root) as tree:
        summary = summarise(_reported(look(tree, service.settings.of(root).capture), report), recorded)
    skips = sorted(summary.skips.items(), key=lambda item: (-item[1].size_bytes, -item[1].count, item[0]))
    return {
        "ok": True,
        "dry_run": True,
        "root": shown(root),
        "watching": watched is not None,
        "files": summary.files,
        "bytes": summary.size_bytes,
        "new_files": summary.new_files,
        "new_bytes": summary.new_bytes,
        "skipped": summary.skipped,
        "skips": [_skips(reason, found) for reason, found in skips],
        "lookalikes": _lookalikes(service, root),
        "secrets": [path_entry(name, size_bytes=size) for name, size in summary.secrets],
    }


def _recorded(service: Service, worktree: int) -> Mapping[bytes, FileState]:
    return service.timeline.states(worktree, service.timeline.head(worktree).seq)


def _lookalikes(service: Service, root: bytes) -> list[Lookalike]:
    """What watching the tree would say; nothing where its history is known already."""
    with service.timeline.database.reading() as db:
        known = any(worktree.root == root and not is_gone(worktree) for worktree in store.worktrees(db))
        return [] if known else like(db, root)


def _reported(found: Iterable[Observed], report: Reporter) -> Iterator[Observed]:
    for number, seen in enumerate(found, 1):
        if number % REPORT_EVERY == 0:
            report({"stage": "files", "done": number, "total": 0, "bytes": 0})
        yield seen


def _skips(reason: str, found: Skips) -> SkipsObject:
    largest = [path_entry(name, size_bytes=size or None) for size, name in found.examples]
    return {"reason": reason, "count": found.count, "bytes": found.size_bytes, "largest": largest}
