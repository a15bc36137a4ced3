"""What is said of the daemon, its trees and its home: how they are, how large, and what is left of them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from openoxide.daemon.protocol import PathEntry
from openoxide.daemon.protocol.memories import KeptNotes, MemoryStatus


class DaemonObject(TypedDict):
    """The daemon itself. ``pid`` 0: none runs, and whoever asks has looked for itself. ``reserve_bytes``: what is kept for a
    rewind on a full disk, 0 where it is used up or not made yet. ``store_trouble``: the kind of the error for which
    ``store_writable`` is false.
    """

    pid: int
    version: str
    uptime_ms: int
    rss_bytes: int
    home: str
    store_bytes: int
    store_writable: bool
    reserve_bytes: int
    store_trouble: str
    problems: list[str]


class GapObject(TypedDict):
    """A stretch that may be incomplete."""

    cause: str
    opened_at: str


class IdleTurnObject(TypedDict):
    """A turn that is open though its session was silent for hours. ``command`` ends it."""

    agent: str
    session: str
    prompt: str
    heard_at: str
    command: str


class OpenTurnObject(TypedDict):
    """A turn that was begun and has not ended."""

    agent: str
    session: str
    prompt: str


class WorktreeStatus(TypedDict):
    """One worktree. ``state``: watching, degraded, capturing, paused (root gone, or asked for: ``paused_at``) or stopped.
    ``paused_until`` is None for a pause without an end. ``files``, ``bytes`` and ``skipped`` are what is recorded now.
    ``scanned``: entries that the full pass under way has looked at, None where there is none; ``entries``: those of the last
    one. ``over_quota``: paths that the quota has no room for, which are not recorded.
    ``polled``: why the watcher cannot tell of all changes, so that each ``full_pass_every_ms`` a pass looks for them.
    """

    root: str
    project: str
    state: str
    reason: str
    complete: bool
    pending: int
    watches: int
    seq: int
    files: int
    bytes: int
    skipped: int
    over_quota: list[PathEntry]
    scanned: int | None
    entries: int
    full_pass_every_ms: int
    polled: str
    checkpoints: int
    last_checkpoint_at: str | None
    next_expiry: str | None
    gaps: list[GapObject]
    interrupted: list[str]
    paused_at: str | None
    paused_until: str | None
    next_full_pass_in_ms: int | None
    open_turns: list[OpenTurnObject]
    idle_turns: list[IdleTurnObject]
    memory: MemoryStatus | None
    unread_memories: list[KeptNotes]


class JobObject(TypedDict):
    """Work that is done by the clock. ``failures``: how often it failed since it last did not, ``error``: the last time."""

    name: str
    every_ms: int
    running: bool
    last_run_at: str | None
    next_run_at: str | None
    failures: int
    error: str


class RetentionObject(TypedDict):
    """Whether anything expires. ``reason``: why it does not, ``clock`` or ``config``; ``refused``: limits of the settings
    that the last expire could not hold.
    """

    paused: bool
    reason: str
    why: str
    hint: str
    refused: list[str]


class StatusAnswer(TypedDict):
    """``status``."""

    ok: bool
    daemon: DaemonObject
    retention: RetentionObject
    jobs: list[JobObject]
    worktrees: list[WorktreeStatus]


class DoctorAnswer(TypedDict):
    """``doctor``, as far as the daemon sees. ``problems`` have the fields of openoxide.health.Problem; ``daemon``: pid,
    version, home and ``side``, where it runs.
    """

    ok: bool
    problems: list[dict[str, Any]]
    daemon: dict[str, Any]


class AffectedObject(TypedDict):
    """What a problem of the store means for one worktree: at most 20 of its paths and checkpoints, and how many there are."""

    root: str
    paths: list[PathEntry]
    path_count: int
    checkpoints: list[int]
    checkpoint_count: int


class CheckProblem(TypedDict):
    """One finding of ``check``. ``severity`` is ``error`` or ``warning``; ``hint`` says what helps."""

    kind: str
    severity: str
    object: str
    message: str
    hint: str
    affected: list[AffectedObject]


class CheckAnswer(TypedDict):
    """``check``, as the daemon sees it. At most 200 of ``problem_count`` problems; ``checked`` counts what was looked at
    (versions, checkpoints, paths, contents, read); ``sampled``: percent and seed, None where none was drawn; ``unnamed``:
    files that no row names, which is no harm, at most 20 of ``unnamed_count``.
    """

    ok: bool
    problems: list[CheckProblem]
    problem_count: int
    checked: dict[str, int]
    bytes_read: int
    sampled: dict[str, float] | None
    unnamed: list[str]
    unnamed_count: int


class FixObject(TypedDict):
    """What a repair puts right in rows. ``loses``: something of them cannot be told any more."""

    what: str
    rows: int
    loses: bool


class MendedObject(TypedDict):
    """A content that was found: ``source`` is ``store`` or ``tree``."""

    name: str
    source: str
    where: str
    size_bytes: int


class RepairAnswer(TypedDict):
    """``repair``; made by the command line, since no daemon may have the store meanwhile. ``structure``: what of the database
    itself is made anew; at most 200 of ``mended_count`` contents; ``newly_lost``: contents that were found nowhere; ``lost``:
    all that is marked as lost then; ``kept``: the folder with the state before, None where nothing was changed.
    """

    ok: bool
    dry_run: bool
    needed: bool
    structure: list[str]
    fixes: list[FixObject]
    mended: list[MendedObject]
    mended_count: int
    newly_lost: int
    lost: list[CheckProblem]
    kept: str | None


class LeaveAnswer(TypedDict):
    """``leave``, before an uninstall: staging folders by their absolute paths."""

    ok: bool
    removed: list[PathEntry]
    left: list[PathEntry]


class UninstallAnswer(TypedDict):
    """``uninstall``; made by the command line, since no daemon is left. Paths are absolute; a folder has the size of all
    in it. ``kept``: by intent; ``left``: with the reason (not_ours, interrupted, busy, or what the system said);
    ``package``: the command that removes the program.
    """

    ok: bool
    dry_run: bool
    home: str
    stopped: bool
    removed: list[PathEntry]
    kept: list[PathEntry]
    left: list[PathEntry]
    freed_bytes: int
    notes: list[str]
    package: str


class HomePart(TypedDict):
    """One part of the home, in bytes on disk."""

    name: str
    what: str
    size_bytes: int
    files: int


class DayUsage(TypedDict):
    """What was stored for the first time on a day (UTC)."""

    day: str
    contents: int
    stored_bytes: int


class PathUsage(TypedDict):
    """What all contents that a path ever had take."""

    path: str
    path_b64: NotRequired[str]
    contents: int
    stored_bytes: int


class PatternUsage(TypedDict):
    """The same of all files below one folder of the root (``path`` empty: in the root itself) with one ``suffix``."""

    path: str
    path_b64: NotRequired[str]
    suffix: str
    contents: int
    stored_bytes: int


class KindUsage(TypedDict):
    """One kind of bytes in the home; all kinds together are ``total_bytes``."""

    name: str
    what: str
    size_bytes: int


class ProjectUsage(TypedDict):
    """One project, its worktrees together. ``quota_bytes`` 0 is none; ``used_bytes``: what counts against it, None where no
    project has one.
    """

    project: str
    roots: list[str]
    stored_bytes: int
    unique_bytes: int
    quota_bytes: int
    used_bytes: int | None


class WorktreeUsage(TypedDict):
    """One worktree: its files now (``logical_bytes``), all versions of its history as if each were a copy (``recorded_bytes``),
    each content once (``history_bytes``), what these take in the store, and what of that no other worktree names. A ratio is
    None where there is nothing. ``staging_bytes``: in the tree itself, left by a rewind.
    """

    root: str
    project: str
    watching: bool
    checkpoints: int
    files: int
    logical_bytes: int
    recorded_bytes: int
    history_bytes: int
    stored_bytes: int
    unique_bytes: int
    dedup_ratio: float | None
    compression_ratio: float | None
    staging_bytes: int
    growth: list[DayUsage]
    largest: list[PathUsage]
    patterns: list[PatternUsage]


class DuAnswer(TypedDict):
    """``du``. ``freeable_bytes``: stored, and needed by nothing or by trash alone, which is ``trash_bytes`` of it; an
    estimate. The ratios are those of all worktrees together.
    """

    ok: bool
    home: str
    total_bytes: int
    freeable_bytes: int
    trash_bytes: int
    dedup_ratio: float | None
    compression_ratio: float | None
    kinds: list[KindUsage]
    parts: list[HomePart]
    projects: list[ProjectUsage]
    worktrees: list[WorktreeUsage]


class PruneAnswer(TypedDict):
    """``prune``. ``freed_bytes``: of files that went or shrank, with ``dry_run`` about; ``versions``: rows of timelines;
    ``packs``: deleted or written anew; ``damaged``: contents that could not be copied out of one and stay in it.
    """

    ok: bool
    dry_run: bool
    freed_bytes: int
    versions: int
    contents: int
    packs: int
    damaged: int
    notes: list[str]
