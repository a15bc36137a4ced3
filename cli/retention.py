"""What expires, and what does not, as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from openoxide.cli.units import ago, count, duration, local, until
from openoxide.daemon.protocol import printable
from openoxide.ids import short

if TYPE_CHECKING:
    from openoxide.daemon.protocol.checkpoints import ExpireAnswer, ExpiredObject, ExpireKeptObject
    from openoxide.daemon.protocol.health import JobObject, RetentionObject, StatusAnswer

MOST_LINES = 20
AHEAD_HINT = "`oxide-ctl expire --dry-run` lists them, and a higher limit keeps them"
_CAUSES = {
    "expired": "its time is over",
    "thinned": "thinned",
    "trash_days": "out of trash",
    "quota": "over quota_bytes",
    "total_quota": "over total_quota_bytes",
    "min_free": "under min_free_bytes",
    "emptied": "out of trash, by hand",
}
_STAY = {
    "promised": "its time is not over",
    "no_expiry": "it never expires",
    "pinned": "pinned",
    "newest": "the newest of its project",
    "needed_by_undo": "an undo needs it",
    "recent_turn": "the start of a recent turn",
    "memory": "of a memory",
    "in_trash": "in trash",
}


def why_kept(reason: str) -> str:
    """Why a checkpoint stays, in words."""
    return _STAY.get(reason, printable(reason))


def expire(answer: ExpireAnswer, *, verbose: bool = False) -> str:
    """What went, or would go, by project and with its cause, and how much stays why; ``verbose``: which ones."""
    lines = [f"  - {_going(item)}" for item in answer["forgotten"]]
    lines += [f"  x {_going(item)}" for item in answer["released"]]
    shown = (
        lines
        if verbose or len(lines) <= MOST_LINES
        else [*lines[:MOST_LINES], f"  ... and {len(lines) - MOST_LINES} more"]
    )
    to_trash, out = count(len(answer["forgotten"]), "checkpoint"), count(len(answer["released"]), "checkpoint")
    shown.append(f"{'plan: ' if answer['dry_run'] else ''}{to_trash} into trash, {out} out of the store")
    shown += _staying(answer["kept"], verbose=verbose)
    shown += [printable(note) for note in answer["notes"]]
    return "\n".join([*shown, *paused(answer["retention"])])


def _staying(kept: Sequence[ExpireKeptObject], *, verbose: bool) -> list[str]:
    if verbose:
        return [f"  = {_which(item)}  {why_kept(item['reason'])}  {printable(item['root'])}" for item in kept]
    why = Counter(why_kept(item["reason"]) for item in kept)
    lines = [f"  {number} {'stays' if number == 1 else 'stay'}: {reason}" for reason, number in sorted(why.items())]
    return [*lines, "  -v says which ones"] if lines else []


def _which(item: ExpireKeptObject) -> str:
    return f"#{item['number']} ({short(item['id'])}){_named(item['name'])}"


def _named(name: str | None) -> str:
    return f"  {printable(name)}" if name else ""


def _going(item: ExpiredObject) -> str:
    cause = _CAUSES.get(item["reason"], item["reason"])
    name = _named(item["name"])
    sealed = local(item["created_at"])
    return f"#{item['number']} ({short(item['id'])})  {sealed}  {item['trigger']}{name}  {cause}  {printable(item['root'])}"


def paused(retention: RetentionObject) -> list[str]:
    """Why nothing expires, and what helps; nothing where it does."""
    if not retention["paused"]:
        return []
    return [f"nothing expires: {printable(retention['why'])}", f"{printable(retention['hint'])}"]


def status(answer: StatusAnswer, now: datetime, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """The lines of ``status``, with their names: a pause, limits that are not held, jobs that fail or (``verbose``) all."""
    # a daemon of an earlier day says nothing of them
    if "retention" in answer:
        for line in paused(answer["retention"]):
            yield "retention", line
        for text in answer["retention"]["refused"]:
            yield "limit", f"not held: {text}"
        for ahead in answer["retention"].get("ahead", ()):
            yield "limit", f"{ahead['text']}; {AHEAD_HINT}"
    for job in answer.get("jobs", ()):
        if job["failures"]:
            yield "job", f"{job['name']} failed {count(job['failures'], 'time')}: {job['error']}{_next(job, now)}"
        elif verbose:
            last = f"last {ago(job['last_run_at'], now)}" if job["last_run_at"] else "not done yet"
            yield "job", f"{job['name']}, every {duration(job['every_ms'])}, {last}{_next(job, now)}"


def _next(job: JobObject, now: datetime) -> str:
    if job["running"]:
        return ", runs now"
    return f", next {until(job['next_run_at'], now)}" if job["next_run_at"] else ""
