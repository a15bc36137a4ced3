"""``expire``, by hand and by the clock: what the policy lets go goes, unless the clock or the settings cannot be trusted."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from openoxide.checkpoints import expiry, heavy, store
from openoxide.checkpoints.gauge import Gauge
from openoxide.checkpoints.model import Checkpoint, Worktree
from openoxide.checkpoints.policy import Cause, Plan
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.checkpoints import ExpireAnswer, ExpiredObject, KeptObject
from openoxide.daemon.protocol.health import RetentionObject
from openoxide.daemon.requests import Request, flag
from openoxide.errors import ConflictError, RefusedError, StoreFullError
from openoxide.settings import RetentionSettings
from openoxide.taken import CAUTIOUS

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

log = logging.getLogger(__name__)

_FORCE_HINT = (
    "if the clock is right: `oxide-ctl expire --force` goes by it from now on; `--dry-run` shows what would go"
)
_LIMIT_HINT = "`oxide-ctl config set` changes a limit, as the text says; `oxide-ctl du` shows what takes it"
_GIVEN_UP = "the states of the last day that no checkpoint holds are given up: `oxide-ctl prune` frees what that leaves"

_FREES = "`oxide-ctl prune` frees what that leaves: the daemon does it every six hours"


def expire(service: Service, request: Request, _report: Reporter) -> ExpireAnswer:
    """``expire``: of all worktrees. ``force``: the clock is right as it is; ``trash``: what is in trash goes now."""
    dry_run, force, trash = flag(request, "dry_run"), flag(request, "force"), flag(request, "trash")
    paused = retention(service)
    if not dry_run:
        if paused["paused"] and not (force and paused["reason"] == "clock"):
            raise RefusedError(f"nothing expires: {paused['why']}", hint=paused["hint"])
        # before the decision: what the clock sealed while it was doubted is counted anew by this
        if force:
            service.clock_mark.accept()
    if not service.expiring.acquire(timeout=0 if dry_run else 5):
        raise ConflictError("an expire is at work", hint="try again in a moment")
    try:
        # whoever asks gets what is true now
        plan = Plan() if paused["paused"] and not force else decide(service, Gauge(), empty_trash=trash)[0]
        paused["refused"] = _told(plan)
        if not dry_run:
            _leave_out(service, plan)
            service.refused_limits = tuple(_told(plan))
        # who wants room gets it, whatever the settings say
        if plan.refused and not dry_run and not trash:
            raise RefusedError(f"nothing was forgotten: {printable('; '.join(plan.refused))}", hint=_LIMIT_HINT)
        answer = _answer(service, plan, paused, dry_run=dry_run)
        if dry_run:
            answer["notes"] += _frees(plan, plan.release)
            return answer
        # on a full disk the rows go where the WAL is long enough already: what is folded is written over
        with suppress(StoreFullError):
            service.timeline.database.fold_beside()
        done = expiry.carry_out(
            service.timeline.database, plan, service.clock.now_ms(), service.holding, service.stop_requested.is_set
        )
    finally:
        service.expiring.release()
    service.foresight = None
    _carried_out(answer, done)
    answer["notes"] += _frees(plan, done.released)
    return answer


def expire_by_time(service: Service) -> None:
    """The job."""
    if retention(service)["paused"]:
        return
    with service.expiring:
        plan, service.gauge = decide(service, service.gauge)
        _leave_out(service, plan)
        done = expiry.carry_out(
            service.timeline.database, plan, service.clock.now_ms(), service.holding, service.stop_requested.is_set
        )
    service.foresight = None
    # once and not each hour: status tells of it all the time
    if (told := tuple(_told(plan))) != service.refused_limits:
        service.refused_limits = told
        for text in told:
            log.warning("a limit of the store is not held: %s", text)
    if done.forgotten or done.released:
        causes = Counter(cause.value for cause in (*done.forgotten.values(), *done.released.values()))
        log.info(
            "%d checkpoints to trash, %d out of the store: %s", len(done.forgotten), len(done.released), dict(causes)
        )


def _leave_out(service: Service, plan: Plan) -> None:
    """What the quota has no room for is not recorded from now on, and what it has room for again is."""
    with service.timeline.database.writing() as db:
        changed = heavy.leave_out(db, plan.heavy)
    if changed:
        for watched in service.all_watched():
            watched.leave_out()


def take_back(service: Service) -> None:
    """What a quota has room for again is recorded again: after a start, which is when a changed setting begins to hold."""
    with service.timeline.database.reading() as db:
        waiting = heavy.left_out(db)
    # settings that cannot be read may have had no room for it
    if waiting and retention(service)["reason"] != "config":
        with service.expiring:
            _leave_out(service, decide(service, Gauge())[0])


def retention(service: Service) -> RetentionObject:
    """Whether anything expires, and if not why."""
    why, hint, reason = "", "", ""
    clock = service.clock_mark.look()
    if service.taken is not None and service.taken.settings is CAUTIOUS:
        # what cannot be read may have promised more than any settings that are used instead
        why, hint, reason = service.taken.problem, "correct config.toml, then `oxide-ctl stop`", "config"
    elif not clock.trusted:
        why, hint, reason = clock.why, _FORCE_HINT, "clock"
    return {"paused": bool(why), "reason": reason, "why": why, "hint": hint, "refused": list(service.refused_limits)}


def _told(plan: Plan) -> list[str]:
    """The limits that are not held, in words."""
    return [printable(text) for text in (*plan.refused, *plan.unheld)]


def decide(service: Service, gauge: Gauge, *, empty_trash: bool = False) -> tuple[Plan, Gauge]:
    """What the policy decides for all worktrees now, and what was measured for that."""
    return expiry.survey(
        service.timeline.database,
        service.home.blobs,
        service.settings.retention,
        lambda worktree: retention_of(service, worktree),
        service.clock.now_ms(),
        gauge,
        empty_trash=empty_trash,
    )


def retention_of(service: Service, worktree: Worktree) -> RetentionSettings:
    """What holds for one worktree."""
    return service.settings.of(worktree.root).retention


def _answer(service: Service, plan: Plan, paused: RetentionObject, *, dry_run: bool) -> ExpireAnswer:
    with service.timeline.database.reading() as db:
        roots = {worktree.id: printable(os.fsdecode(worktree.root)) for worktree in store.worktrees(db)}
        found = [c for worktree in roots for c in store.CheckpointQuery(db, worktree).listing(all_of_them=True)]
    found.sort(key=lambda c: (c.worktree, c.number))

    def going(causes: dict[str, Cause]) -> list[ExpiredObject]:
        return [
            {**checkpoint_object(c), "root": roots[c.worktree], "reason": causes[c.id].value}
            for c in found
            if c.id in causes
        ]

    return {
        "ok": True,
        "dry_run": dry_run,
        "retention": paused,
        "forgotten": going(dict(plan.forget)),
        "released": going(dict(plan.release)),
        "kept": [{**_kept(c, plan), "root": roots[c.worktree]} for c in found if c.id in plan.keep],
        "freed_bytes": 0,
        "notes": [f"a limit is not held: {text}" for text in _told(plan)],
    }


def _kept(found: Checkpoint, plan: Plan) -> KeptObject:
    return {"id": found.id, "number": found.number, "name": found.name, "reason": plan.keep[found.id].value}


def _frees(plan: Plan, released: Collection[str]) -> list[str]:
    """That what left the store takes its bytes along only by a prune."""
    return [_GIVEN_UP] if plan.fine else [_FREES] if released else []


def _carried_out(answer: ExpireAnswer, done: expiry.Done) -> None:
    """Make of the answer of the plan what was carried out."""
    answer["forgotten"] = [item for item in answer["forgotten"] if item["id"] in done.forgotten]
    answer["released"] = [item for item in answer["released"] if item["id"] in done.released]
    if done.busy:
        answer["notes"].append("a project was in use: what leaves the store there does so the next time")
