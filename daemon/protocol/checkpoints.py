"""What is said of checkpoints, their contents and their past."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from openoxide.daemon.protocol import Items, PathEntry
from openoxide.daemon.protocol.health import RetentionObject


class Changed(TypedDict):
    """How many paths differ from the checkpoint before."""

    added: int
    modified: int
    removed: int


class CheckpointObject(TypedDict):
    """A checkpoint as every answer shows it. ``thins_at``: when thinning takes it, where that is before it expires."""

    id: str
    number: int
    seq: int
    created_at: str
    expires_at: str | None
    thins_at: str | None
    trigger: str
    name: str | None
    pinned: bool
    complete: bool
    late: bool
    gap: str
    agent: str | None
    session: str | None
    prompt: str | None
    changed: Changed
    skipped: int
    manifest_hash: str
    failed: str | None
    forgotten_at: str | None


class GitObject(TypedDict):
    """Where git stood; empty strings outside a repository."""

    head: str
    branch: str
    origin: str


class StateObject(TypedDict):
    """One state of a path; ``mode`` is octal text."""

    kind: str
    mode: str
    size_bytes: int
    hash: NotRequired[str]
    target: NotRequired[str]
    torn: NotRequired[bool]


class DiffItem(TypedDict):
    """One path that differs. ``status``: A added, M modified, D deleted, T type changed. ``reason``: why one side does not
    record it, although it may be there.
    """

    path: str
    path_b64: NotRequired[str]
    status: str
    old: StateObject | None
    new: StateObject | None
    writer: str | None
    certainty: str
    reason: NotRequired[str]
    patch: NotRequired[str]


class SealedAnswer(CheckpointObject):
    """``checkpoint``. ``over_quota``: paths that it lacks, since the quota has no room for them."""

    ok: bool
    over_quota: list[PathEntry]


class KeepAnswer(CheckpointObject):
    """``pin``, ``unpin`` and ``name``. ``note``: what the checkpoint's name alone does not say."""

    ok: bool
    note: NotRequired[str]


class KeptObject(TypedDict):
    """A checkpoint that is not forgotten. ``reason``: pinned, newest, needed_by_undo or recent_turn."""

    id: str
    number: int
    name: str | None
    reason: str


class LetGoAnswer(TypedDict):
    """What ``forget`` and ``expire`` have in common. ``freed_bytes`` is 0: a prune frees what nothing needs any more."""

    ok: bool
    dry_run: bool
    freed_bytes: int
    notes: list[str]


class ForgetAnswer(LetGoAnswer):
    """``forget`` and its dry run."""

    forgotten: list[CheckpointObject]
    kept: list[KeptObject]


class ExpiredObject(CheckpointObject):
    """A checkpoint that goes. ``reason``: expired, thinned, trash_days, quota, total_quota, min_free or emptied."""

    root: str
    reason: str


class ExpireKeptObject(KeptObject):
    """A checkpoint that stays. ``reason``: as of forget, or promised (its time has not come), no_expiry, memory, in_trash."""

    root: str


class ExpireAnswer(LetGoAnswer):
    """``expire`` and its dry run, of all worktrees. ``forgotten``: into trash; ``released``: out of the store, where no
    ``unforget`` finds them.
    """

    retention: RetentionObject
    forgotten: list[ExpiredObject]
    released: list[ExpiredObject]
    kept: list[ExpireKeptObject]


class WriterObject(TypedDict):
    """Who made changes of one checkpoint."""

    certainty: str
    agent: str | None
    sessions: list[str]
    prompts: list[str]
    operation: str | None
    paths: int


class ShowAnswer(CheckpointObject):
    """``show``. ``pruned_changes``: changes between it and the one before that a prune took away, with who made them."""

    ok: bool
    git: GitObject
    writers: list[WriterObject]
    pruned_changes: int
    changes: list[DiffItem]
    skipped_paths: list[PathEntry]


class CheckpointReference(TypedDict):
    """A checkpoint that is only named."""

    id: str
    number: int
    name: str | None
    created_at: str


class MomentObject(TypedDict):
    """A recorded change. ``at``: it had been recorded by then, None while nothing was sealed since; ``checkpoint``: the one
    that holds what it is told for, None where it was overwritten before one was sealed.
    """

    seq: int
    at: str | None
    checkpoint: CheckpointReference | None
    writer: str | None
    certainty: str


class VersionItem(MomentObject):
    """One version of a path (``checkpoint``: the first that holds it), or one that vanished (the last that held it, with
    ``state`` as it was). ``status`` is that of a diff, None where neither it nor the version before was recorded.
    """

    path: str
    path_b64: NotRequired[str]
    reason: NotRequired[str]
    status: str | None
    state: StateObject | None


class GoneItem(VersionItem):
    """What vanished. ``last_sealed``: the last checkpoint that holds any version of it, where ``checkpoint`` is None because
    the last version was in none.
    """

    last_sealed: CheckpointReference | None


class StretchItem(TypedDict):
    """Versions of one path that hold a text, one after the other. ``vanished``: None where it still stands there, or where
    ``reason`` is ``not_searched``: what came then is binary or damaged. Another ``reason`` is why the path was not recorded
    from then on.
    """

    path: str
    path_b64: NotRequired[str]
    reason: NotRequired[str]
    first: MomentObject
    last: MomentObject
    vanished: MomentObject | None
    versions: int


class SearchAnswer(Items):
    """``history --search``: what was looked through, the files left out as binary, and the stored ones that are damaged."""

    searched: int
    searched_bytes: int
    binary: int
    damaged: int


class WindowAnswer(TypedDict):
    """``turn begin|end`` and ``tool begin|end``."""

    ok: bool
    turn: str
    tool: str | None
    checkpoint: CheckpointObject
    notes: list[str]


class RestoreAnswer(TypedDict):
    """``restore``."""

    ok: bool
    to: str
    written: list[PathEntry]
    skipped: list[PathEntry]
    notes: list[str]
