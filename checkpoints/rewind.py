"""From a request to a plan: gathers what was, what is and who wrote it, and lets ``plan.py`` decide."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from openoxide.checkpoints import journal, rows, sight, store
from openoxide.checkpoints.journal import CHANGED, Operation
from openoxide.checkpoints.merging import Read, Resolution, resolve
from openoxide.checkpoints.model import FileState, Kind, database_members, sqlite_base
from openoxide.checkpoints.plan import (
    Decisions,
    PathHistory,
    RewindPlan,
    Scope,
    Surroundings,
    ancestors,
    complete,
    decide_all,
    decide_reverse,
    decide_windows,
    surroundings_needed,
    touch,
    within_paths,
)
from openoxide.checkpoints.tree import GONE, Tree
from openoxide.db import Transaction
from openoxide.errors import NotFoundError
from openoxide.ids import short
from openoxide.syscalls import holders, is_written_to

# EACCES: it was left out as unreadable, and stays; ENXIO: a socket has come to its place (open(2))
_NOT_OPENED = GONE | {errno.EACCES, errno.ENXIO}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to rewind to, whose changes, and which paths (empty: all). ``session`` or ``turn`` go with their scope.
    ``touch_ns``: the time that files come back with, None for their own. ``now_ns``: the time that merged ones get.
    """

    target_seq: int
    now_seq: int
    scope: Scope = Scope.ALL
    exact: bool = False
    session: str | None = None
    turn: int | None = None
    paths: tuple[bytes, ...] = field(default=())
    resolution: Resolution = Resolution.KEEP
    touch_ns: int | None = None
    now_ns: int = 0


def plan_rewind(db: Transaction, tree: Tree, worktree: int, request: Request, read: Read) -> RewindPlan:
    """The plan for ``request`` against the states recorded up to ``now_seq``. ``read`` gives the bytes for merges."""
    changed = rows.changed_paths(db, worktree, request.target_seq, request.now_seq)
    named = {*request.paths, *_members(db, worktree, {*request.paths, *_bases(request.paths)}, request)}
    chosen = [path for path in changed if within_paths(path, named)]
    histories = _histories(db, worktree, chosen, request)
    if request.scope is Scope.ALL:
        decisions = decide_all(histories, exact=request.exact)
    else:
        decisions = decide_windows(histories, _windows(db, worktree, request))
    # before touch: what is contested may become a change, and gets the time of now like all others
    resolve(decisions, request.resolution, read, request.now_ns)
    if request.touch_ns is not None:
        touch(decisions, request.touch_ns)
    return _completed(db, tree, worktree, decisions, request)


def plan_reverse(db: Transaction, tree: Tree, operation: Operation, now_seq: int) -> RewindPlan:
    """The plan that takes back what ``operation`` did. Raises NotFoundError where its checkpoints are gone."""
    checkpoints = store.CheckpointQuery(db, operation.worktree)
    before, after = checkpoints.by_row(operation.before or 0), checkpoints.by_row(operation.after or 0)
    if before is None or after is None:
        gone = "before" if before is None else "after"
        raise NotFoundError(
            f"operation {short(operation.public_id)} cannot be taken back: the checkpoint {gone} it is gone",
            hint="`oxide-ctl rewind` goes to any checkpoint that `oxide-ctl log` lists",
        )
    # only what it did: what it kept or left as a conflict is as it was, and perhaps somebody's since
    touched = {o.path for o in journal.outcomes(db, operation.id) if o.kind in CHANGED}
    request = Request(target_seq=before.seq, now_seq=now_seq)
    histories = _histories(db, operation.worktree, sorted(touched), request)
    # what it had no need to touch of a database has to be as it was then, too
    files = {history.path for history in histories if history.then.sqlite or history.now.sqlite}
    beside = _members(db, operation.worktree, {*files, *_bases(touched)}, request) - touched
    histories += _histories(db, operation.worktree, sorted(beside), request)
    # somebody may have been there between the exchange and the record: what they left is not ours to take back
    writers = rows.last_writers(db, operation.worktree, touched, after.seq)
    ours = {path for path, writer in writers.items() if writer.operation == operation.id}
    left = rows.states_at(db, operation.worktree, after.seq, ours)
    return _completed(db, tree, operation.worktree, decide_reverse(histories, left), request)


def _windows(db: Transaction, worktree: int, request: Request) -> frozenset[int]:
    """The windows whose changes are taken back."""
    windows = sight.session_windows(db, worktree, request.session or "")
    if request.scope is Scope.SESSION:
        return frozenset(w.id for w in windows)
    # a tool call's window has its turn as parent: what it wrote is the turn's
    return frozenset(w.id for w in windows if request.turn in (w.id, w.parent))


def _bases(paths: Iterable[bytes]) -> set[bytes]:
    return {base for path in paths if (base := sqlite_base(path)) is not None}


def _members(db: Transaction, worktree: int, bases: Collection[bytes], request: Request) -> set[bytes]:
    """All paths of those of ``bases`` that are databases."""
    found = _databases(db, worktree, bases, request)
    return {member for base in found for member in database_members(base)}


def _databases(db: Transaction, worktree: int, bases: Collection[bytes], request: Request) -> dict[bytes, set[bytes]]:
    """Those of ``bases`` that are databases, or may be one that was not recorded; with the members that are not in the
    store as they were at the target or are now.
    """
    sides = [_states_with_hidden(db, worktree, seq, bases) for seq in (request.target_seq, request.now_seq)]
    found = {base for base in bases if any(at[base].sqlite or at[base].kind is Kind.SKIPPED for at in sides)}
    members = {member for base in found for member in database_members(base)}
    sides = [_states_with_hidden(db, worktree, seq, members) for seq in (request.target_seq, request.now_seq)]
    missing = {path for at in sides for path, state in at.items() if state.kind is Kind.SKIPPED or state.torn}
    return {base: missing.intersection(database_members(base)) for base in found}


def _histories(db: Transaction, worktree: int, paths: list[bytes], request: Request) -> list[PathHistory]:
    then = _states_with_hidden(db, worktree, request.target_seq, paths)
    now = rows.states_at(db, worktree, request.now_seq, paths)
    # scope all asks for writers of newer files only: the rows between are not needed for the others
    asked = paths if request.scope is not Scope.ALL else [p for p in paths if now[p].exists and not then[p].exists]
    versions = rows.versions_between(db, worktree, asked, request.target_seq, request.now_seq)
    return [
        PathHistory(path=path, then=then[path], now=now[path], versions=tuple(versions.get(path, ()))) for path in paths
    ]


def _states_with_hidden(db: Transaction, worktree: int, seq: int, paths: Iterable[bytes]) -> dict[bytes, FileState]:
    """The states at ``seq``. What lay below a directory that was not recorded then was not absent: it was skipped, like
    the directory, or as one of the further entries that found no room (the row with a trailing slash).
    """
    found = rows.states_at(db, worktree, seq, paths)
    above = {path: ancestors(path) for path, state in found.items() if not state.exists}
    folders = {folder for parents in above.values() for folder in parents}
    # both rows that can hide a path: the directory's own, and the one that counts what found no room in it
    hiding = rows.states_at(db, worktree, seq, folders | {folder + b"/" for folder in folders})
    for path, parents in above.items():
        for folder in parents:
            hidden = next((s for s in (hiding[folder], hiding[folder + b"/"]) if s.kind is Kind.SKIPPED), None)
            if hidden is not None and found[path].kind is Kind.ABSENT:
                found[path] = hidden
    return found


def _completed(db: Transaction, tree: Tree, worktree: int, decisions: Decisions, request: Request) -> RewindPlan:
    leaving, folders, bases = surroundings_needed(decisions)
    then = rows.states_at(db, worktree, request.target_seq, folders)
    now = rows.states_at(db, worktree, request.now_seq, folders)
    databases = _databases(db, worktree, bases, request)
    around = Surroundings(
        below={path: tuple(rows.states_below(db, worktree, request.now_seq, path)) for path in leaving},
        folders={path: (now[path], then[path]) for path in folders},
        databases=databases.keys(),
        missing=frozenset().union(*databases.values()),
        held=_held(tree, {*databases, *_all_or_nothing(decisions, request)}),
    )
    plan = complete(decisions, around)
    untouched = rows.read_head(db, worktree).files - sum(1 for change in plan.changes if change.now.kind is Kind.FILE)
    return replace(plan, untouched=max(0, untouched))


def _all_or_nothing(decisions: Decisions, request: Request) -> Iterable[bytes]:
    """What an exact rewind has to know of before it begins: the exchange finds it too, but by then others are done."""
    return (c.path for c in decisions.changes if request.exact and c.now.kind is Kind.FILE)


def _held(tree: Tree, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Which of ``paths`` a process writes to: rewinding a database under it corrupts it, so it is found out first."""
    found = {}
    for path in paths:
        try:
            fd = tree.open_file(path)
        except OSError as error:
            if error.errno in _NOT_OPENED:
                continue
            raise
        try:
            seen = os.fstat(fd)
            if is_written_to(fd):
                pids = holders(seen.st_dev, seen.st_ino)
                found[path] = "held_open" + "".join(f" by pid {pid}" for pid in pids[:1])
        finally:
            os.close(fd)
    return found
