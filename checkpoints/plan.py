"""From what was and what is to what a rewind does. Pure: the same values always give the same plan.

``decide_*`` choose per path what is wanted, by scope and writer. ``complete`` then takes out what cannot or must not be
done: skipped and torn states, half a database, a directory that something stays in. A path is in exactly one list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import NamedTuple

from openoxide.checkpoints.attribution import made_of, owners, touches, within
from openoxide.checkpoints.model import (
    ABSENT,
    Certainty,
    FileState,
    Kind,
    Version,
    Writer,
    database_members,
    split,
    sqlite_base,
)

# write and search: what unlink(2) and rename(2) need of a directory
OWNER_MAY_CHANGE = 0o300
# a socket is dead without its process, and to make a device takes a privilege (mknod(2))
RESTORABLE_SPECIAL = frozenset({b"fifo"})
PARENT_NOT_DIRECTORY = "parent_not_directory"


class Scope(str, Enum):
    """Whose changes a rewind takes back."""

    TURN = "turn"
    SESSION = "session"
    ALL = "all"


class PathHistory(NamedTuple):
    """What a plan has to know of one path: its state at the checkpoint, its state now, the rows between."""

    path: bytes
    then: FileState
    now: FileState
    versions: tuple[Version, ...] = ()


class Change(NamedTuple):
    """One path to bring from ``now`` to ``wanted``. ``reason`` is ``likely`` where the writer is not sure. ``merged``:
    the bytes of ``wanted`` where a merge made them; the store may not have them yet.
    """

    path: bytes
    now: FileState
    wanted: FileState
    reason: str = ""
    merged: bytes | None = None


class Left(NamedTuple):
    """A path that is left as it is, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """A path that others changed as well. ``change`` is what would bring it back all the same, its ``reason`` why that is
    a conflict. ``own``: what the rewound windows' changes made of what, newest first; None where nobody can tell.
    """

    change: Change
    own: tuple[tuple[FileState, FileState], ...] | None = None


@dataclass(slots=True, kw_only=True)
class Decisions:
    """What is wanted, before it is checked against what can be done. What is still ``contested`` then is a conflict."""

    changes: list[Change] = field(default_factory=list)
    contested: list[Contested] = field(default_factory=list)
    kept: list[Change] = field(default_factory=list)
    conflicts: list[Left] = field(default_factory=list)
    untouched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What ``complete`` has to know beside the decided paths.

    ``below``: for each directory that would go or change its type, the paths that exist or are skipped below it.
    ``folders``: for each ancestor of a wanted path, its state now and at the checkpoint.
    ``databases``: SQLite databases that are concerned, by themselves or by a side file. ``missing``: those of their members
    that are not in the store as they were, or are now. ``held``: paths that a process holds open.
    """

    below: Mapping[bytes, Collection[bytes]] = field(default_factory=dict)
    folders: Mapping[bytes, tuple[FileState, FileState]] = field(default_factory=dict)
    databases: Collection[bytes] = ()
    missing: Collection[bytes] = ()
    held: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """What a rewind will do. Every list is in path order. ``opened``: directories that allow no changes now, whose mode
    is widened for as long as the exchange takes.
    """

    restore: tuple[Change, ...] = ()
    remove: tuple[Change, ...] = ()
    merge: tuple[Change, ...] = ()
    opened: tuple[Change, ...] = ()
    kept: tuple[Left, ...] = ()
    conflicts: tuple[Left, ...] = ()
    skipped: tuple[Left, ...] = ()
    untouched: int = 0

    @property
    def changes(self) -> tuple[Change, ...]:
        """Everything that will be touched."""
        return self.restore + self.remove + self.merge


def within_paths(path: bytes, chosen: Collection[bytes]) -> bool:
    """Whether ``path`` is one of ``chosen`` or below one; an empty choice means everything."""
    return not chosen or b"" in chosen or any(path == c or path.startswith(c + b"/") for c in chosen)


def decide_all(histories: Iterable[PathHistory], *, exact: bool) -> Decisions:
    """Scope ``all``: changed and deleted paths come back; newer ones go if a declared writer made them, or if
    ``exact``.
    """
    found = Decisions()
    for history in histories:
        change = Change(path=history.path, now=history.now, wanted=history.then)
        if history.now == history.then:
            found.untouched += 1
        elif history.then.kind is Kind.ABSENT and history.now.exists and not (exact or _declared(history)):
            found.kept.append(change._replace(reason="newer"))
        else:
            found.changes.append(change)
    return found


def _declared(history: PathHistory) -> bool:
    """Whether every state since the checkpoint was made by declared windows or brought back by an operation."""
    known = (Certainty.SURE, Certainty.LIKELY)
    made_by = owners(history.then, history.versions)
    return all(owner is None or (owner.certainty in known and bool(owner.windows)) for owner in made_by)


def decide_windows(histories: Iterable[PathHistory], windows: Collection[int]) -> Decisions:
    """Scope ``turn`` and ``session``: only paths that ``windows`` changed, and only where they still hold what was left
    there. What comes back is the state before the first of those changes.
    """
    found = Decisions()
    histories = [*histories]
    shared = _shared_databases(histories, windows)
    for history in histories:
        made_by = owners(history.then, history.versions)
        first = next((i for i, owner in enumerate(made_by) if owner is not None and touches(owner, windows)), None)
        # the state before their first change, not the checkpoint's: what others did in between stays
        wanted = shared.get(history.path, history.versions[first - 1].state if first else history.then)
        if (first is None and history.path not in shared) or history.now == wanted:
            found.untouched += 1
            continue
        since = [owner for owner in made_by[first:] if owner is not None]
        change = Change(path=history.path, now=history.now, wanted=wanted)
        reason = _not_ours(since, windows)
        if history.path in shared:
            found.contested.append(Contested(change=change._replace(reason=reason or "mixed_writers")))
            continue
        if reason is not None:
            found.contested.append(Contested(change=change._replace(reason=reason), own=_own(history, windows)))
            continue
        sure = all(owner.certainty is Certainty.SURE for owner in since)
        found.changes.append(change if sure else change._replace(reason=Certainty.LIKELY.value))
    return found


def _shared_databases(histories: Sequence[PathHistory], windows: Collection[int]) -> dict[bytes, FileState]:
    """The members of databases that others changed too since ``windows`` first did, each with its state before that: the
    states before the first change of each by itself would be of several moments.
    """
    known = {history.path: history for history in histories}
    found: dict[bytes, FileState] = {}
    for base in (history.path for history in histories if history.then.sqlite or history.now.sqlite):
        members = [known[member] for member in database_members(base) if member in known]
        made = [
            (version.seq, owner)
            for member in members
            for version, owner in zip(member.versions, owners(member.then, member.versions), strict=True)
            if owner is not None
        ]
        first = min((seq for seq, owner in made if touches(owner, windows)), default=None)
        if first is not None and not all(within(owner, windows) for seq, owner in made if seq >= first):
            found |= {member.path: _before(member, first) for member in members}
    return found


def _before(history: PathHistory, seq: int) -> FileState:
    return next((version.state for version in reversed(history.versions) if version.seq < seq), history.then)


def _not_ours(since: Sequence[Writer], windows: Collection[int]) -> str | None:
    """Why what ``since`` made is not for ``windows`` alone to take back."""
    mine = [within(owner, windows) for owner in since]
    if any(touches(owner, windows) and not ours for owner, ours in zip(since, mine, strict=True)):
        return "shared_writer"
    if mine and not mine[-1]:
        return "changed_later"
    return None if all(mine) else "mixed_writers"


def _own(history: PathHistory, windows: Collection[int]) -> tuple[tuple[FileState, FileState], ...] | None:
    """What ``windows`` made of what, newest first, changes in a row as one; None where others may have been in them."""
    changes = made_of(history.then, history.versions)
    runs = [[*run] for mine, run in groupby(changes, lambda change: touches(change[1].writer, windows)) if mine]
    if not all(within(version.writer, windows) for run in runs for _, version in run):
        return None
    return tuple((run[0][0], run[-1][1].state) for run in reversed(runs))


def touch(decisions: Decisions, now_ns: int) -> None:
    """Files come back with the time ``now_ns``; one that differs by nothing but its time is left alone."""
    changes, decisions.changes = decisions.changes, []
    for change in changes:
        # links and directories have no recorded time, and a merged text has the time of now already
        if change.wanted.kind is not Kind.FILE or change.merged is not None:
            decisions.changes.append(change)
        elif change.now.same_but_time(change.wanted):
            decisions.untouched += 1
        else:
            decisions.changes.append(change._replace(wanted=change.wanted._replace(mtime_ns=now_ns)))


def decide_reverse(histories: Iterable[PathHistory], left: Mapping[bytes, FileState]) -> Decisions:
    """Undo and redo: each path goes back to ``then`` if it still holds what the operation ``left`` there."""
    found = Decisions()
    for history in histories:
        # by state, not by writer: an edit that was taken back by hand leaves nothing to conflict with
        if history.now == history.then:
            found.untouched += 1
        elif history.now != left.get(history.path):
            found.conflicts.append(Left(path=history.path, reason="changed_later"))
        else:
            found.changes.append(Change(path=history.path, now=history.now, wanted=history.then))
    return found


def complete(decisions: Decisions, around: Surroundings) -> RewindPlan:
    """The plan: ``decisions`` less what cannot or must not be done, with the parents that are needed."""
    skipped: list[Left] = []
    # a path that ends in a slash stands for further entries that were not recorded (docs/design/002-main-job.md)
    changes = {change.path: change for change in decisions.changes if not change.path.endswith(b"/")}
    kept = {change.path: change for change in decisions.kept}
    conflicts = {left.path: left.reason for left in decisions.conflicts}
    conflicts |= {contested.change.path: contested.change.reason for contested in decisions.contested}
    for path, change in list(changes.items()):
        if (reason := _not_recorded(change)) is not None:
            skipped.append(Left(path=path, reason=reason))
            del changes[path]
        elif (reason := _not_settled(change, around)) is not None:
            conflicts[path] = reason
            del changes[path]
    # each rule may take changes out that the next one must not see any more, so their order matters
    _join_databases(changes, kept, conflicts, {*around.missing, *(left.path for left in skipped)}, around)
    _keep_occupied(changes, kept, conflicts, around)
    _need_parents(changes, conflicts, around)
    ordered = [changes[path] for path in sorted(changes)]
    return RewindPlan(
        restore=tuple(change for change in ordered if change.wanted.exists and change.merged is None),
        remove=tuple(change for change in ordered if not change.wanted.exists),
        merge=tuple(change for change in ordered if change.merged is not None),
        opened=tuple(_to_open(changes, around)),
        kept=tuple(Left(path=path, reason=kept[path].reason) for path in sorted(kept)),
        conflicts=tuple(Left(path=path, reason=conflicts[path]) for path in sorted(conflicts)),
        skipped=tuple(sorted(skipped, key=lambda left: left.path)),
        untouched=decisions.untouched,
    )


def hold_back(plan: RewindPlan, newer: Collection[bytes], why: str = "changed_later") -> RewindPlan:
    """``plan`` less these paths, such as what changed after it was shown to somebody who agreed to it, and what would go
    into those of them that are directories.
    """
    plain = {change.path for change in plan.changes if not (change.now.sqlite or change.wanted.sqlite)}
    bases = {base for path in newer for base in (path, sqlite_base(path)) if base is not None}
    # a base that the plan leaves alone may be a database all the same: then only its side files tell of it
    beside = {member for base in bases - plain for member in database_members(base)}
    # without its directory nothing comes back
    missing = {change.path for change in plan.restore if change.path in newer and change.wanted.kind is Kind.DIRECTORY}
    inside = {
        change.path for change in plan.changes if change.wanted.exists and missing.intersection(ancestors(change.path))
    }
    held = {
        change.path: "database" if change.path in beside - {*newer} else why
        for change in plan.changes
        if change.path in newer or change.path in beside or change.path in inside
    }
    left = [Left(path=path, reason=reason) for path, reason in held.items()]
    return replace(
        plan,
        restore=tuple(change for change in plan.restore if change.path not in held),
        remove=tuple(change for change in plan.remove if change.path not in held),
        merge=tuple(change for change in plan.merge if change.path not in held),
        conflicts=tuple(sorted([*plan.conflicts, *left], key=lambda item: item.path)),
    )


def _not_recorded(change: Change) -> str | None:
    """Why neither side can be exchanged: one of them is not in the store."""
    for state in (change.wanted, change.now):
        if state.kind is Kind.SKIPPED:
            reason = (state.target or b"").decode()
            return reason if change.now.kind is not Kind.ABSENT else f"{reason}, and it is gone"
        if state.kind is Kind.SPECIAL and state.target not in RESTORABLE_SPECIAL:
            return "special"
    return None


def _not_settled(change: Change, around: Surroundings) -> str | None:
    if change.path in around.held:
        return around.held[change.path]
    # a state that the path never really had (docs/design/002-main-job.md, invariant 2)
    if change.wanted.torn:
        return "torn"
    return "changing" if change.now.torn else None


def _join_databases(
    changes: dict[bytes, Change],
    kept: dict[bytes, Change],
    conflicts: dict[bytes, str],
    missing: Collection[bytes],
    around: Surroundings,
) -> None:
    """A SQLite database and its side files move together or not at all: a main file beside another moment's WAL is a
    corrupt database. So is one whose WAL of that moment is ``missing``, or a WAL without the file it belongs to.
    """
    bases = set(around.databases) | {c.path for c in changes.values() if c.now.sqlite or c.wanted.sqlite}
    for base in bases:
        members = database_members(base)
        moving = [member for member in members if member in changes]
        if base in kept:  # a newer database is kept as a whole
            conflicts.update(dict.fromkeys(moving, "database"))
            _drop(changes, moving)
            continue
        held = next((around.held[member] for member in members if member in around.held), None)
        is_apart = any(member in missing for member in members)
        if is_apart and not moving and held is None:
            continue  # nothing of it is to come back, so what is newer is kept as everywhere else
        newer = [member for member in members if member in kept]
        if held is not None or is_apart or any(member in conflicts for member in members):
            conflicts.update(dict.fromkeys([*moving, *newer], held or "database"))
            _drop(changes, moving)
        else:
            changes.update({member: kept[member]._replace(reason="") for member in newer})
        _drop(kept, newer)


def _drop(changes: dict[bytes, Change], paths: Iterable[bytes]) -> None:
    for path in paths:
        del changes[path]


def _keep_occupied(
    changes: dict[bytes, Change], kept: dict[bytes, Change], conflicts: dict[bytes, str], around: Surroundings
) -> None:
    """A directory that something stays in is not removed; one that was to become something else is a conflict."""
    leaving = [c for c in changes.values() if c.now.kind is Kind.DIRECTORY and c.wanted.kind is not Kind.DIRECTORY]
    # deepest first: a directory that stays keeps the one above it
    for change in sorted(leaving, key=lambda c: c.path.count(b"/"), reverse=True):
        inside = around.below.get(change.path, ())
        if all(path in changes and not changes[path].wanted.exists for path in inside):
            continue
        del changes[change.path]
        if change.wanted.exists:
            conflicts[change.path] = "directory_not_empty"
        else:
            kept[change.path] = change._replace(reason="not_empty")


def _need_parents(changes: dict[bytes, Change], conflicts: dict[bytes, str], around: Surroundings) -> None:
    """Missing parents come back too; where something else stands in their place the path is a conflict."""
    for path in sorted(path for path, change in changes.items() if change.wanted.exists):
        missing: dict[bytes, Change] = {}
        for folder in ancestors(path):
            now, then = around.folders.get(folder, (ABSENT, ABSENT))
            planned = changes[folder].wanted if folder in changes else now
            if planned.kind is Kind.DIRECTORY:
                continue
            if now.kind is not Kind.ABSENT or then.kind is not Kind.DIRECTORY or folder in conflicts:
                del changes[path]
                conflicts[path] = PARENT_NOT_DIRECTORY
                # no parent comes back for a path that stays away
                missing.clear()
                break
            missing[folder] = Change(path=folder, now=now, wanted=then, reason="parent")
        changes |= missing


def _to_open(changes: Mapping[bytes, Change], around: Surroundings) -> list[Change]:
    """Directories that entries have to be changed in and whose mode forbids it to their owner."""
    # the root has no state in the timeline: its mode is not ours to change
    parents = {split(path)[0] for path in changes} - {b""}
    found = []
    for parent in sorted(parents):
        now, _ = around.folders.get(parent, (ABSENT, ABSENT))
        if now.kind is Kind.DIRECTORY and now.mode & OWNER_MAY_CHANGE != OWNER_MAY_CHANGE:
            wanted = changes[parent].wanted if parent in changes else now
            found.append(Change(path=parent, now=now, wanted=wanted))
    return found


def ancestors(path: bytes) -> list[bytes]:
    """Topmost first, without ``path`` itself and the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def surroundings_needed(decisions: Decisions) -> tuple[list[bytes], set[bytes], set[bytes]]:
    """What to ask for ``complete``: directories that would go, ancestors of wanted paths, what may be databases."""
    leaving = [
        c.path for c in decisions.changes if c.now.kind is Kind.DIRECTORY and c.wanted.kind is not Kind.DIRECTORY
    ]
    folders = {folder for c in decisions.changes for folder in ancestors(c.path)}
    wanted = [*decisions.changes, *decisions.kept]
    databases = {c.path for c in wanted if c.now.sqlite or c.wanted.sqlite}
    # a folder may have the name of a side file, and is none
    files = [c.path for c in wanted if Kind.FILE in (c.now.kind, c.wanted.kind)]
    return leaving, folders, databases | {base for path in files if (base := sqlite_base(path)) is not None}
