"""Values of the rooms as the objects of ``daemon/protocol``. Pure."""

from __future__ import annotations

import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterable

from openoxide.checkpoints.diff import Difference
from openoxide.checkpoints.idle import IdleTurn
from openoxide.checkpoints.journal import Operation, Outcome, OutcomeKind
from openoxide.checkpoints.model import Checkpoint, FileState, Kind, Window, Writer
from openoxide.checkpoints.plan import Change, Left, RewindPlan
from openoxide.clock import rfc3339
from openoxide.daemon.protocol import PathEntry, path_entry, printable
from openoxide.daemon.protocol.checkpoints import CheckpointObject, DiffItem, StateObject, WriterObject
from openoxide.daemon.protocol.health import IdleTurnObject
from openoxide.daemon.protocol.rewinds import LateEntry
from openoxide.ids import short

LATE = "late:"
"""Stands before the id of an operation where a checkpoint is expected: what was written to the files it displaced."""


def checkpoint_object(checkpoint: Checkpoint, thins_at_ms: int | None = None) -> CheckpointObject:
    """A checkpoint as every answer shows it. ``thins_at_ms``: when thinning takes it."""
    c = checkpoint
    is_first = thins_at_ms is not None and (c.expires_at_ms is None or thins_at_ms < c.expires_at_ms)
    return {
        "id": c.id,
        "number": c.number,
        "seq": c.seq,
        "created_at": rfc3339(c.created_at_ms),
        "expires_at": time_or_none(c.expires_at_ms),
        "thins_at": time_or_none(thins_at_ms if is_first else None),
        "trigger": c.trigger.value,
        "name": c.name,
        "pinned": c.pinned,
        "complete": c.coverage.complete,
        "late": c.coverage.late,
        "gap": c.coverage.cause,
        "agent": c.agent,
        "session": c.session,
        "prompt": c.prompt,
        "changed": {"added": c.counts.added, "modified": c.counts.modified, "removed": c.counts.removed},
        "skipped": c.skipped,
        "manifest_hash": c.manifest_hash.hex(),
        "failed": c.failed,
        "forgotten_at": time_or_none(c.forgotten_at_ms),
    }


def time_or_none(ms: int | None) -> str | None:
    """RFC 3339, or None."""
    return rfc3339(ms) if ms is not None else None


def idle_turn_object(turn: IdleTurn, root: bytes) -> IdleTurnObject:
    """An idle turn, with the command that ends it."""
    words = ["oxide-ctl", "-C", os.fsdecode(root), "turn", "end", f"--agent={turn.agent}", f"--session={turn.session}"]
    return {
        "agent": turn.agent,
        "session": turn.session,
        "prompt": turn.prompt,
        "heard_at": rfc3339(turn.heard_ms),
        "command": printable(shlex.join(words)),
    }


def state_object(state: FileState) -> StateObject | None:
    """A state, None where nothing recorded stands there."""
    if not state.exists:
        return None
    found: StateObject = {
        "kind": state.kind.name.lower(),
        "mode": f"{stat.S_IMODE(state.mode):04o}",
        "size_bytes": state.size,
    }
    if state.blob is not None:
        found["hash"] = state.blob.hex()
    if state.target is not None:
        found["target"] = printable(state.target.decode("utf-8", "surrogateescape"))
    if state.torn:
        found["torn"] = True
    return found


def diff_item(difference: Difference, certainty: str, writer: str | None, patch: str | None) -> DiffItem:
    """One differing path."""
    item: DiffItem = {
        **path_entry(difference.path),  # type: ignore[typeddict-item]
        "status": difference.status.value,
        "old": state_object(difference.old),
        "new": state_object(difference.new),
        "writer": writer,
        "certainty": certainty,
    }
    if reason := skip_reason(difference.old) or skip_reason(difference.new):
        item["reason"] = reason
    if patch is not None:
        item["patch"] = patch
    return item


def writer_object(writer: Writer, windows: Iterable[Window], operation: str | None, paths: int) -> WriterObject:
    """Who wrote, and how many rows."""
    mine = [window for window in windows if window.id in writer.windows]
    agents = sorted({window.agent for window in mine})
    return {
        "certainty": writer.certainty.value,
        "agent": agents[0] if len(agents) == 1 else None,
        "sessions": sorted({window.session for window in mine}),
        "prompts": sorted({window.prompt for window in mine}),
        "operation": operation,
        "paths": paths,
    }


def changed_entries(changes: Iterable[Change]) -> list[PathEntry]:
    """Planned changes with their reason."""
    return [path_entry(c.path, c.reason, c.wanted.size if c.wanted.kind is Kind.FILE else None) for c in changes]


def left_entries(left: Iterable[Left]) -> list[PathEntry]:
    """Paths that are left as they are."""
    return [path_entry(item.path, item.reason) for item in left]


def skip_reason(state: FileState) -> str:
    """Why a state is not recorded; empty where it is, or nothing is there."""
    return (state.target or b"").decode() if state.kind is Kind.SKIPPED else ""


def skipped_entries(states: Iterable[tuple[bytes, FileState]]) -> list[PathEntry]:
    """What is not recorded, from the states that say so."""
    return [path_entry(path, reason, state.size or None) for path, state in states if (reason := skip_reason(state))]


def outcome_entries(outcomes: Iterable[Outcome], kind: OutcomeKind) -> list[PathEntry]:
    """The paths with one kind of outcome."""
    return [path_entry(outcome.path, outcome.reason) for outcome in outcomes if outcome.kind is kind]


def late_entries(operation: Operation, outcomes: Iterable[Outcome]) -> list[LateEntry]:
    """What was written to displaced files: stored, and named as ``cat`` takes it, or still in the staging folder."""
    seen: Counter[bytes] = Counter()
    found: list[LateEntry] = []
    for outcome in outcomes:
        if outcome.kind is not OutcomeKind.LATE:
            continue
        entry: LateEntry = {**path_entry(outcome.path, outcome.reason), "checkpoint": None}
        # one path may have had two steps, and each of them something that came late
        if outcome.blob is not None:
            seen[outcome.path] += 1
            which = f".{seen[outcome.path]}" if seen[outcome.path] > 1 else ""
            entry["checkpoint"] = f"{LATE}{short(operation.public_id)}{which}"
        found.append(entry)
    return found


def planned_outcomes(plan: RewindPlan, left: Iterable[Left], since: Iterable[Left]) -> list[Outcome]:
    """What became of each path of ``plan``. ``left``: could not be done; ``since``: written to after it was placed."""
    not_done = {item.path: item.reason for item in left}
    changed = {item.path for item in since}
    found = [Outcome(kind=OutcomeKind.SKIPPED, path=item.path, reason=item.reason) for item in plan.skipped]
    found += [Outcome(kind=OutcomeKind.KEPT, path=item.path, reason=item.reason) for item in plan.kept]
    found += [Outcome(kind=OutcomeKind.CONFLICT, path=item.path, reason=item.reason) for item in plan.conflicts]
    for change in plan.changes:
        reason = not_done.get(change.path)
        if reason == "not_empty":
            kind = OutcomeKind.KEPT
        elif reason is not None:
            kind = OutcomeKind.CONFLICT
        elif change.path in changed:
            kind, reason = OutcomeKind.CHANGED_SINCE, "written to after it was placed"
        elif change.merged is not None:
            kind = OutcomeKind.MERGED
        else:
            kind = OutcomeKind.RESTORED if change.wanted.exists else OutcomeKind.REMOVED
        found.append(Outcome(kind=kind, path=change.path, reason=change.reason if reason is None else reason))
    return sorted(found, key=lambda outcome: outcome.path)
