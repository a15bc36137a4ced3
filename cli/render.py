"""Answers as text for people: pure functions of the answer and of the moment that counts as now.

What others named (names, prompts, paths, causes) goes through ``printable``; paths come escaped already, and escaping
them again changes nothing. Without ``verbose`` a list of paths ends after ``MOST_PATHS``, with the number left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import chain
from typing import TYPE_CHECKING

from openoxide.cli import retention
from openoxide.cli.units import ago, closely, count, duration, local, localised, until
from openoxide.daemon.protocol import PathEntry, printable
from openoxide.ids import short
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.checkpoints import (
        Changed,
        CheckpointObject,
        DiffItem,
        ForgetAnswer,
        RestoreAnswer,
        SealedAnswer,
        ShowAnswer,
        WindowAnswer,
        WriterObject,
    )
    from openoxide.daemon.protocol.health import DaemonObject, GapObject, IdleTurnObject, StatusAnswer, WorktreeStatus
    from openoxide.daemon.protocol.projects import JoinAnswer, MoveAnswer, PauseAnswer, ProjectItem, WatchAnswer
    from openoxide.daemon.protocol.rewinds import LateEntry, OperationItem

MOST_PATHS = 20
WIDEST = 60  # one long name does not push the rest of every line off the screen
# why changes may be missing
_GAPS = {
    "not_watched": "it was not watched",
    "paused": "it was paused",
    "moved": "it was moved",
    "suspend": "the machine slept",
    "overflow": "the kernel reported more than it keeps",
    "watch_limit": "not every directory is watched",
    "watch_failed": "not every directory is watched",
    "instance_limit": "nothing is watched: this user may have no further inotify instance",
    "root_lost": "its root was gone",
    "root_returned": "its root came back",
    "unmount": "a file system was unmounted",
    "reader_error": "reading the kernel's reports failed",
}
_POLLED = {
    "watch_limit": "there are more directories than the kernel lets this user watch (`oxide-ctl doctor`)",
    "instance_limit": "this user may have no further inotify instance (`oxide-ctl doctor`)",
    "watch_failed": "some directories cannot be watched (the daemon's log names one)",
    "reader_error": "reading the kernel's reports failed (see the daemon's log)",
    "network_fs": "what is written on the other side of this file system is not reported",
}


def checkpoint(item: CheckpointObject, now: datetime) -> str:
    """One sealed checkpoint in one line."""
    return "  ".join([f"checkpoint {reference(item)}", changed(item["changed"]), *_remarks(item, now)])


def brief(item: CheckpointObject, now: datetime) -> str:
    """``3m ago, prompt, +3 ~1 -0``: what tells a checkpoint from its neighbours in a menu."""
    return f"{ago(item['created_at'], now)}, {item['trigger']}, {changed(item['changed'])}"


def reference(item: CheckpointObject) -> str:
    """``#42 (kmqzvwxy)``: both ways to name it."""
    return f"#{item['number']} ({short(item['id'])})"


def changed(counts: Changed) -> str:
    """``+3 ~1 -0``."""
    return f"+{counts['added']} ~{counts['modified']} -{counts['removed']}"


def log(items: Sequence[CheckpointObject], now: datetime, zone: tzinfo | None = None) -> str:
    """One line a checkpoint, newest first as they come."""
    rows = [
        (
            f"#{item['number']}",
            short(item["id"]),
            local(item["created_at"], zone),
            item["trigger"],
            changed(item["changed"]),
            "  ".join(_remarks(item, now)),
        )
        for item in items
    ]
    return table(rows, right=(0,)) or "no checkpoints"


def forget(answer: ForgetAnswer, now: datetime) -> str:
    """What went, or would go, to trash, and what stays and why."""
    lines = [f"  - {checkpoint(item, now)}" for item in answer["forgotten"]]
    lines += [
        f"  = checkpoint #{item['number']} ({short(item['id'])})  kept: {retention.why_kept(item['reason'])}"
        for item in answer["kept"]
    ]
    number = count(len(answer["forgotten"]), "checkpoint")
    lines.append(f"plan: forget {number}" if answer["dry_run"] else f"{number} forgotten")
    lines += map(_note, answer["notes"])
    if answer["forgotten"]:
        lines.append("no space is freed by this: they are in trash, `oxide-ctl unforget` takes them back")
    return "\n".join(lines)


def _note(text: str) -> str:
    return printable(localised(text))


def show(answer: ShowAnswer, now: datetime, *, zone: tzinfo | None = None, verbose: bool = False) -> str:
    """One checkpoint in full."""
    lines = [f"checkpoint #{answer['number']} {answer['id']}"]
    lines += _fields(
        ("sealed", f"{local(answer['created_at'], zone)} ({ago(answer['created_at'], now)}), {answer['trigger']}"),
        ("name", answer["name"]),
        ("kept", "pinned" if answer["pinned"] else _expiry(answer, now)),
        ("coverage", _coverage(answer) + _but_for(answer["skipped_paths"])),
        ("agent", answer["agent"]),
        ("session", answer["session"]),
        ("prompt", answer["prompt"]),
        ("git", " ".join(filter(None, (answer["git"]["branch"], answer["git"]["head"][:12])))),
        ("manifest", answer["manifest_hash"] if verbose else ""),
        ("changes", changed(answer["changed"])),
    )
    lines += shortened([f"  {_change(item)}" for item in answer["changes"]], verbose=verbose)
    lines += _fields(*(("writer", _writer(writer)) for writer in answer["writers"]))
    if answer["pruned_changes"]:
        lines += _fields(("pruned", f"{count(answer['pruned_changes'], 'change')} in between, with who made them"))
    lines += _fields(("skipped", count(answer["skipped"], "path")))
    skipped = [f"  {entry(skip)}" for skip in answer["skipped_paths"]]
    return "\n".join([*lines, *shortened(skipped, verbose=verbose)])


def _change(item: DiffItem) -> str:
    unrecorded = not_recorded(item)
    return f"{item['status']} {printable(item['path'])}" + (f"  ({unrecorded})" if unrecorded else "")


def not_recorded(item: DiffItem) -> str:
    """That a path came or went for the record only, and why."""
    when = "before" if item["status"] == "A" else "any more"
    return f"not recorded {when}: {printable(item['reason'])}" if item.get("reason") else ""


def watch(answer: WatchAnswer, now: datetime) -> str:
    """What is watched now, and from which checkpoint on."""
    began = "watching" if answer["created"] else "already watching"
    held = f"{count(answer['files'], 'file')}, {size(answer['bytes'])}, {answer['skipped']} skipped"
    return f"{began} {printable(answer['root'])}\n{held}\n{checkpoint(answer['checkpoint'], now)}"


def window(answer: WindowAnswer, verb: str, now: datetime) -> str:
    """A turn or tool call that began or ended."""
    # only the begin of a turn always seals one: else, with nothing changed, it may be another session's
    sealed = checkpoint(answer["checkpoint"], now)
    told = sealed if verb == "began" and not answer["tool"] else f"newest {sealed}"
    noun = f"tool call {printable(answer['tool'])}" if answer["tool"] else f"turn {printable(answer['turn'])}"
    return "\n".join([f"{noun} {verb}", told, *map(_note, answer["notes"])])


def restore(answer: RestoreAnswer, *, verbose: bool = False) -> str:
    """What was copied out."""
    lines = [f"{count(len(answer['written']), 'path')} written to {printable(answer['to'])}"]
    if verbose:
        lines += [f"  {entry(written)}" for written in answer["written"]]
    skipped = [f"  ? {entry(skip)}" for skip in answer["skipped"]]
    return "\n".join([*lines, *shortened(skipped, verbose=verbose), *map(_note, answer["notes"])])


_FEW_NAMES = 5


def status(answer: StatusAnswer, now: datetime, *, verbose: bool = False) -> str:
    """The daemon's health and each worktree's; with ``verbose`` also the jobs that are well."""
    daemon = answer["daemon"]
    lines = _fields(
        ("daemon", _process(daemon)),
        ("memory", size(daemon["rss_bytes"]) if daemon["pid"] else ""),
        ("home", daemon["home"]),
        ("store", _store(daemon)),
        *(("problem", problem) for problem in daemon["problems"]),
        *retention.status(answer, now, verbose=verbose),
    )
    if not answer["worktrees"]:
        lines += ["", "nothing is watched"]
    for worktree in answer["worktrees"]:
        lines += ["", printable(worktree["root"]), *(f"  {line}" for line in _worktree(worktree, now))]
    return "\n".join(lines)


def _store(daemon: DaemonObject) -> str:
    # an earlier version tells of none
    reserve = min(daemon.get("reserve_bytes", 0), daemon["store_bytes"])
    state = "" if daemon["store_writable"] else f", {_unwritten(daemon)}"
    beside = f", and {size(reserve)} kept free for a full disk" if reserve else ""
    return size(daemon["store_bytes"] - reserve) + state + beside


def _process(daemon: DaemonObject) -> str:
    if not daemon["pid"]:
        return "none runs: it could record nothing"
    return f"{daemon['version']}, pid {daemon['pid']}, up {duration(daemon['uptime_ms'])}"


def _unwritten(daemon: DaemonObject) -> str:
    # what else it is, a problem of its own says
    return {"store_full": "DISK FULL", "store_read_only": "READ-ONLY"}.get(daemon["store_trouble"], "NOT WRITTEN")


def _worktree(item: WorktreeStatus, now: datetime) -> list[str]:
    reason = f" ({item['reason']})" if item["reason"] else ""
    last, expiry = item["last_checkpoint_at"], item["next_expiry"]
    settle = f"`oxide-ctl -C {shlex.quote(printable(item['root']))} rewind --continue`"
    return _fields(
        ("state", f"{item['state']}{reason}, {'complete' if item['complete'] else 'INCOMPLETE'}"),
        ("pending", f"{count(item['pending'], 'change')}; {count(item['watches'], 'watch handle')}, seq {item['seq']}"),
        ("tree", _tree(item)),
        ("left out", _over_quota(item)),
        ("scan", _scan(item)),
        ("polled", _polled(item)),
        ("kept", count(item["checkpoints"], "checkpoint") + (f", last {ago(last, now)}" if last else "")),
        ("pause", _end_of_pause(item, now)),
        ("expiry", f"next one {until(expiry, now)}" if expiry else ""),
        *(("gap", _gap(gap, item, now)) for gap in item["gaps"]),
        *(("interrupted", f"operation {short(operation)}; settle it with {settle} or `--abort`")
          for operation in item["interrupted"]),
        *(("open turn", f"{turn['agent']}, session {turn['session']}, prompt {turn['prompt']}")
          for turn in item.get("open_turns", ())),
        *(("turn", _idle(turn, now)) for turn in item.get("idle_turns", ())),
        *_memory(item),
    )  # fmt: skip


def _memory(item: WorktreeStatus) -> list[tuple[str, str]]:
    # a daemon of an earlier day does not say
    memory, unread = item.get("memory"), item.get("unread_memories")
    if not memory and not unread:
        return []
    from openoxide.cli import notes  # noqa: PLC0415 it needs what stands here, and few projects have one

    return [*(notes.status(memory) if memory else []), *(("unread notes", notes.unread(one)) for one in unread or ())]


def _tree(item: WorktreeStatus) -> str:
    if not item.get("files"):  # none, or a daemon of an earlier day does not say
        return ""
    left_out = f"; {item['skipped']} not recorded, `oxide-ctl show last` says why" if item["skipped"] else ""
    return f"{count(item['files'], 'file')}, {size(item['bytes'])}{left_out}"


def _scan(item: WorktreeStatus) -> str:
    if item.get("scanned") is None:
        return ""
    return f"{item['scanned']:,}" + (f" of about {item['entries']:,}" if item["entries"] else "") + " entries looked at"


def left_out(answer: SealedAnswer) -> str:
    """What a checkpoint lacks for want of room in the quota; empty if nothing."""
    paths = answer.get("over_quota", [])
    lacks = count(len(paths), "path")
    return f"not in it: {lacks}, {_over_quota(answer)}; `oxide-ctl doctor` says what helps" if paths else ""


def _but_for(skipped: Sequence[PathEntry]) -> str:
    lacks = sum(skip.get("reason") == "over_quota" for skip in skipped)
    return f", but for {count(lacks, 'path')} that the quota has no room for" if lacks else ""


def _over_quota(item: WorktreeStatus | SealedAnswer) -> str:
    found = [printable(path["path"]) for path in item.get("over_quota", ())]
    more = f" and {len(found) - _FEW_NAMES} more" if len(found) > _FEW_NAMES else ""
    return f"{', '.join(found[:_FEW_NAMES])}{more}: the quota has no room for it" if found else ""


def _polled(item: WorktreeStatus) -> str:
    why = _POLLED.get(item.get("polled", ""))
    every = (
        f"every {duration(item['full_pass_every_ms'])}" if why and item["full_pass_every_ms"] else "from time to time"
    )
    return f"{every}, because {why}" if why else ""


def _gap(gap: GapObject, item: WorktreeStatus, now: datetime) -> str:
    due_ms = item.get("next_full_pass_in_ms")
    closed = "" if due_ms is None else f", {duration(due_ms)} from now at the latest"
    closed = " that is under way" if item.get("scanned") is not None else closed
    return (
        f"{_GAPS.get(gap['cause'], gap['cause'])}, since {ago(gap['opened_at'], now)}; closed by the full pass{closed}"
    )


def _idle(turn: IdleTurnObject, now: datetime) -> str:
    silent = f"session {turn['session']} is open and silent since {ago(turn['heard_at'], now)}"
    return f"{silent}; if its agent is gone: `{turn['command']}`"


def _end_of_pause(item: WorktreeStatus, now: datetime) -> str:
    if not item.get("paused_at"):  # a daemon of an earlier day does not say
        return ""
    end = item["paused_until"]
    return (
        f"ends {until(end, now, closely)}"
        if end
        else f"until `oxide-ctl unpause {shlex.quote(printable(item['root']))}`"
    )


def pause(answer: PauseAnswer, now: datetime) -> str:
    """What is paused now, or not any more, and the newest checkpoint."""
    root, end = printable(answer["root"]), answer["paused_until"]
    if not answer["paused_at"]:
        return f"recording {root}\n{checkpoint(answer['checkpoint'], now)}"
    ends = f"it ends {until(end, now, closely)}" if end else "`oxide-ctl unpause` ends it"
    return f"paused {root}: nothing is recorded, {ends}\n{checkpoint(answer['checkpoint'], now)}"


def moved(answer: MoveAnswer, now: datetime) -> str:
    """Where a history goes on, and what differs there."""
    old, new = printable(answer["old_root"]), printable(answer["root"])
    what = f"the history of {old}" if old != new else "the history of the directory that was there before"
    where = f"{what} goes on in {new}"
    return "\n".join([where, checkpoint(answer["checkpoint"], now), *map(_note, answer.get("notes", ()))])


def joined(answer: JoinAnswer) -> str:
    """All roots of the one project."""
    roots = [f"  {printable(root)}" for root in answer["roots"]]
    return "\n".join([f"one project, {answer['project']}:", *roots, *map(_note, answer.get("notes", ()))])


def projects(items: Sequence[ProjectItem], now: datetime) -> str:
    """One line a worktree."""
    rows = [
        (
            _whereabouts(item),
            count(item["checkpoints"], "checkpoint"),
            size(item["store_bytes"]),
            f"changed {ago(item['last_change_at'], now)}" if item["last_change_at"] else "no changes",
            printable(item["root"]),
        )
        for item in items
    ]
    return table(rows) or "no projects"


def _whereabouts(item: ProjectItem) -> str:
    return "gone" if item.get("gone") else "watching" if item["watching"] else "stopped"


def operations(items: Sequence[OperationItem], zone: tzinfo | None = None) -> str:
    """One line an operation, newest first as they come."""
    rows = [_operation_row(item, zone) for item in items]
    # not splitlines(): it also ends lines where a name has a form feed or a line separator
    lines = table(rows).split("\n") if rows else []
    listed = [[line, *map(_late, item["late"])] for line, item in zip(lines, items, strict=True)]
    return "\n".join(chain.from_iterable(listed)) or "no operations"


def _operation_row(item: OperationItem, zone: tzinfo | None) -> tuple[str, ...]:
    return (
        short(item["operation"]),
        local(item["at"], zone),
        item["kind"],
        "undone" if item["undone"] else item["phase"],
        f"+{item['restored']} -{item['removed']} !{item['conflicts']}",
        "  ".join(filter(None, (printable(item["summary"]), _undoable(item, zone)))),
    )


def _late(listed: LateEntry) -> str:
    path = printable(listed["path"])
    how = f": oxide-ctl cat {listed['checkpoint']} {shlex.quote(path)}" if listed["checkpoint"] else ""
    return f"  {path}  {printable(listed['reason'])}{how}"


def author(certainty: str, writer: str | None) -> str:
    """Who made a change, and how sure that is; of our own operations one word says both."""
    return printable(" ".join(dict.fromkeys(filter(None, (certainty, writer)))))


def entry(listed: PathEntry) -> str:
    """A path with why it is listed."""
    reason = f"  ({printable(listed['reason'])})" if listed.get("reason") else ""
    return printable(listed["path"]) + reason


def table(rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = ()) -> str:
    """``rows`` in columns, the last one ragged; columns in ``right`` are right-aligned. A cell
    wider than ``WIDEST`` moves what follows it in its own line only.
    """
    if not rows:
        return ""
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    return "\n".join("  ".join(_cells(row, widths, right)).rstrip() for row in rows)


def _cells(row: tuple[str, ...], widths: Sequence[int], right: tuple[int, ...]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if index in right else cell.ljust(width)


def _remarks(item: CheckpointObject, now: datetime) -> Iterator[str]:
    """What sets a checkpoint apart: its name, or whose turn it was; what is wrong with it; when it expires."""
    if item["name"]:
        yield printable(item["name"])
    elif item["agent"]:
        yield printable(" ".join(filter(None, (item["agent"], item["prompt"]))))
    if item["pinned"]:
        yield "pinned"
    if item["late"] or not item["complete"] or item["failed"]:
        yield _coverage(item)
    if item["forgotten_at"]:
        yield f"in trash, forgotten {ago(item['forgotten_at'], now)}"
    elif expiry := _expiry(item, now):
        yield expiry


def _coverage(item: CheckpointObject) -> str:
    if item["failed"]:
        return f"failed: {printable(item['failed'])}"
    words = ["late"] if item["late"] else []
    if not item["complete"]:
        words.append(f"incomplete: {printable(item['gap'])}" if item["gap"] else "incomplete")
    return ", ".join(words) or "complete"


def _expiry(item: CheckpointObject, now: datetime) -> str:
    if thins_at := item.get("thins_at"):  # a daemon of an earlier day does not say
        return f"thinned {until(thins_at, now)}"
    return f"expires {until(item['expires_at'], now)}" if item["expires_at"] else ""


def _undoable(item: OperationItem, zone: tzinfo | None) -> str:
    if not item["undoable"]:
        return ""
    return f"undoable until {local(item['undoable_until'], zone)}" if item["undoable_until"] else "undoable"


def _writer(writer: WriterObject) -> str:
    who = writer["agent"] or short(writer["operation"] or "")
    sessions = f"session {', '.join(writer['sessions'])}" if writer["sessions"] else ""
    named = " ".join(filter(None, (writer["certainty"], who, sessions)))
    return f"{named}, {count(writer['paths'], 'path')}"


def _fields(*fields: tuple[str, str | None]) -> list[str]:
    """``name   value`` lines; a field without a value is left out."""
    return [f"{name:<11} {printable(value)}" for name, value in fields if value]


def shortened(lines: Sequence[str], *, verbose: bool) -> Sequence[str]:
    """The first ``MOST_PATHS`` lines and how many more there are, or all of them."""
    if verbose or len(lines) <= MOST_PATHS:
        return lines
    return [*lines[:MOST_PATHS], f"  ... and {len(lines) - MOST_PATHS} more (-v lists all)"]
