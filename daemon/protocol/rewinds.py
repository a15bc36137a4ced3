"""What is said of rewinds, and of the operations that they are."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from openoxide.daemon.protocol import PathEntry
from openoxide.daemon.protocol.checkpoints import CheckpointObject


class LateEntry(PathEntry):
    """What was written to a file that an operation had displaced. ``checkpoint``: as ``cat`` takes it; None for a folder,
    which is left where ``reason`` says.
    """

    checkpoint: str | None


class MemoryPart(TypedDict):
    """What the same operation does to the project's memory; ``version`` is the position that it goes back to, ``plan_seq`` as
    of the answer it is in (given back as ``memory_seq``).
    """

    version: int
    scope: str
    restored: list[PathEntry]
    removed: list[PathEntry]
    merged: list[PathEntry]
    kept: list[PathEntry]
    conflicts: list[PathEntry]
    skipped: list[PathEntry]
    changed_since: list[PathEntry]
    notes: list[str]
    plan_seq: int


class RewindAnswer(TypedDict):
    """``rewind``, ``undo`` and ``redo``, and their dry runs (``operation`` is None there). ``plan_seq`` is the position that
    a dry run looked at: given back with the request itself, whatever changed after it is a conflict. ``reverses``: the
    operation that ``undo`` or ``redo`` takes back; given back, no other one is. ``hint``: what can be done about the
    conflicts.
    """

    ok: bool
    dry_run: bool
    operation: str | None
    kind: str
    scope: str
    exact: bool
    checkpoint: CheckpointObject | None
    pre_rewind_checkpoint: CheckpointObject | None
    restored: list[PathEntry]
    removed: list[PathEntry]
    merged: list[PathEntry]
    kept: list[PathEntry]
    conflicts: list[PathEntry]
    skipped: list[PathEntry]
    changed_since: list[PathEntry]
    notes: list[str]
    untouched: int
    insertions_bytes: int
    deletions_bytes: int
    undoable_until: str | None
    git_note: str
    plan_seq: NotRequired[int]
    reverses: NotRequired[str]
    hint: NotRequired[str]
    memory: NotRequired[MemoryPart]


class OperationItem(TypedDict):
    """One line of ``operations``."""

    operation: str
    kind: str
    at: str
    phase: str
    reverses: str | None
    undone: bool
    undoable: bool
    undoable_until: str | None
    checkpoint: str | None
    pre_rewind_checkpoint: str | None
    restored: int
    removed: int
    merged: int
    conflicts: int
    late: list[LateEntry]
    summary: str
