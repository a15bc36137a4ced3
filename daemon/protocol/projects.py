"""What is said of projects: watched, looked at before, paused, moved, joined."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from openoxide.daemon.protocol import PathEntry
from openoxide.daemon.protocol.checkpoints import CheckpointObject


class WatchAnswer(TypedDict):
    """``watch``."""

    ok: bool
    project: str
    worktree: int
    root: str
    checkpoint: CheckpointObject
    files: int
    bytes: int
    skipped: int
    created: bool
    notes: list[str]
    lookalikes: list[Lookalike]


class LeftNotes(TypedDict):
    """Notes that a worktree read whose history is deleted: ``files`` of them stay at ``path``. ``worktree``: the number of the
    one that has them of its own, empty for the project's. ``history_deleted``: their ``versions`` go, as that worktree does, or
    the last one of the project. ``command`` makes a worktree's the project's, None where there is nothing to be made.
    """

    worktree: str
    path: str
    files: int
    versions: int
    history_deleted: bool
    command: str | None


class UnwatchAnswer(TypedDict):
    """``unwatch`` and its dry run. ``memories``: with ``--delete-history``, of a project that goes too all there are."""

    ok: bool
    dry_run: bool
    root: str
    checkpoints: int
    history_deleted: bool
    remaining_bytes: int
    memories: list[LeftNotes]


class Lookalike(TypedDict):
    """Another root that seems to be the same project. ``reason``: recreated (another directory at this very root),
    same_directory, same_head or same_origin.
    """

    root: str
    reason: str


class SkipsObject(TypedDict):
    """What one rule leaves out, with the largest of it; the size of a folder is not known and counts as 0."""

    reason: str
    count: int
    bytes: int
    largest: list[PathEntry]


class SurveyAnswer(TypedDict):
    """``watch --dry-run``. ``secrets``: files that would be copied and whose names say that they hold one; ``new_files``:
    of all ``files`` those that are not recorded yet as they are.
    """

    ok: bool
    dry_run: bool
    root: str
    watching: bool
    files: int
    bytes: int
    new_files: int
    new_bytes: int
    skipped: int
    skips: list[SkipsObject]
    secrets: list[PathEntry]
    lookalikes: list[Lookalike]


class PauseAnswer(TypedDict):
    """``pause`` and ``unpause``; both times are None where nothing is paused any more."""

    ok: bool
    root: str
    paused_at: str | None
    paused_until: str | None
    checkpoint: CheckpointObject


class ProjectItem(TypedDict):
    """One line of ``projects``. ``gone``: its directory is not at its root any more; ``lookalikes``: where it may be."""

    project: str
    root: str
    watching: bool
    checkpoints: int
    store_bytes: int
    last_change_at: str | None
    gone: bool
    lookalikes: list[Lookalike]


class MoveAnswer(TypedDict):
    """``projects move``. ``dropped_checkpoints``: of the new root's own, which held nothing but the tree as it is; ``notes``:
    what became of the memory that the new root had.
    """

    ok: bool
    project: str
    worktree: int
    old_root: str
    root: str
    dropped_checkpoints: int
    checkpoint: CheckpointObject
    notes: NotRequired[list[str]]


class JoinAnswer(TypedDict):
    """``projects join``: all roots of the one project; ``notes``: what became of the second one's memory."""

    ok: bool
    project: str
    roots: list[str]
    notes: NotRequired[list[str]]
