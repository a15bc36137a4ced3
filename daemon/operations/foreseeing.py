"""What the limits of the settings will take out of the store, told before they do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from openoxide.checkpoints import store, usage
from openoxide.checkpoints.gauge import Gauge, Position, position
from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.policy import Cause, Plan
from openoxide.checkpoints.rows import raw
from openoxide.daemon.operations.expiring import decide
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.health import AheadObject, PathUsage
from openoxide.db import Transaction
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

FEW_PATHS = 3
# a look at every checkpoint is not for each prompt that asks for the status
_GOOD_FOR_MS = 60_000
_KEPT = "select public_id, worktree from checkpoint where failed is null and forgotten_ms is null"
_KEYS = {Cause.QUOTA: "quota_bytes", Cause.TOTAL_QUOTA: "total_quota_bytes", Cause.MIN_FREE: "min_free_bytes"}


class Foresight(NamedTuple):
    """What was foreseen last: at which moment, and of which record."""

    at_ms: int
    upto: Position
    ahead: list[AheadObject]


def ahead(service: Service) -> list[AheadObject]:
    """What the next expire will take for a limit, as ``status`` tells it: at most a minute old."""
    if not _is_limited(service):
        return []
    now_ms, last = service.clock.now_ms(), service.foresight
    with service.timeline.database.looking() as db:
        upto = position(db)
    if last is None or last.upto != upto or not 0 <= now_ms - last.at_ms < _GOOD_FOR_MS:
        plan, service.gauge = decide(service, service.gauge)
        last = service.foresight = Foresight(now_ms, upto, taken(service, plan))
    return last.ahead


def _is_limited(service: Service) -> bool:
    retention = service.settings.retention
    if retention.total_quota_bytes or retention.min_free_bytes:
        return True
    with service.timeline.database.looking() as db:
        return any(service.settings.of(worktree.root).retention.quota_bytes for worktree in store.worktrees(db))


def foreseen(service: Service) -> tuple[Plan, list[AheadObject]]:
    """The same measured anew, with the plan that it is from."""
    plan, _ = decide(service, Gauge())
    return plan, taken(service, plan)


def taken(service: Service, plan: Plan) -> list[AheadObject]:
    """What a limit takes of ``plan`` that is not in trash, by limit and, for a quota, by project."""
    with service.timeline.database.reading() as db:
        known = {worktree.id: worktree for worktree in store.worktrees(db)}
        kept = raw(db).execute(_KEPT).fetchall()
        going = Counter[tuple[Cause, str | None]]()
        for id_, worktree in kept:
            if (cause := plan.release.get(id_)) in _KEYS and worktree in known:
                going[cause, known[worktree].project if cause is Cause.QUOTA else None] += 1
        return [
            _ahead(db, cause, project, checkpoints, [w for w in known.values() if project in (None, w.project)])
            for (cause, project), checkpoints in sorted(going.items(), key=lambda item: (-item[1], str(item[0])))
        ]


def _ahead(
    db: Transaction, cause: Cause, project: str | None, checkpoints: int, worktrees: list[Worktree]
) -> AheadObject:
    paths = [path for worktree in worktrees for path in usage.largest(usage.by_path(db, worktree.id), FEW_PATHS)[0]]
    paths.sort(key=lambda path: (-path.stored_bytes, path.path))
    largest: list[PathUsage] = [
        {**path_entry(path.path), "contents": path.contents, "stored_bytes": path.stored_bytes}  # type: ignore[typeddict-unknown-key]
        for path in paths[:FEW_PATHS]
    ]
    roots = [printable(os.fsdecode(worktree.root)) for worktree in worktrees if not worktree.is_memory]
    return {
        "reason": cause.value,
        "project": project,
        "roots": roots,
        "checkpoints": checkpoints,
        "largest": largest,
        "text": _text(cause, roots if project is not None else [], checkpoints, largest),
    }


def _text(cause: Cause, roots: Sequence[str], checkpoints: int, largest: Sequence[PathUsage]) -> str:
    of = f" of {', '.join(roots)}" if roots else ""
    goes = f"{checkpoints} checkpoints{of} leave" if checkpoints != 1 else f"1 checkpoint{of} leaves"
    most = ", ".join(f"{p['path']} ({size(p['stored_bytes'])} in {p['contents']} versions)" for p in largest)
    return (
        f"the next expire holds {_KEYS[cause]}: {goes} the store for good, not by way of trash; most is taken by {most}"
    )
