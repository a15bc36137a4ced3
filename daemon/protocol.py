"""What travels over the socket: request names, answer shapes, the protocol version.

Every operation is ``POST /v1/NAME`` with a JSON object and answers one: ``{"ok": true, ...}``, or
``{"ok": false, "error": {...}}`` (openoxide.errors). ``cat`` alone answers raw bytes. With
``Accept: text/event-stream`` progress comes first, as Server-Sent Events named ``progress``; the answer is the event
``answer``. Fields may be added in a version, never changed. Times are RFC 3339 UTC, sizes bytes, paths relative to the
worktree: as text with unprintable parts escaped, and as ``path_b64`` beside it where the text is not the whole truth.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from typing import Any, NotRequired, TypedDict

PROTOCOL = 1
PROTOCOL_HEADER = "X-OpenOxide-Protocol"
VERSION_HEADER = "X-OpenOxide-Version"
MAX_REQUEST_BYTES = 8 << 20
HOST = "openoxide"
PREFIX = "/v1/"
EVENT_STREAM = "text/event-stream"
OCTETS = "application/octet-stream"
NOT_RUN = 503  # sent where the request was not carried out at all: it may be sent again
ANY_VERSION = frozenset({"ping", "stop"})  # a client of another version must be able to stop the daemon
MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103

STATUS_BY_KIND = {
    "usage": 400,
    "refused": 403,
    "not_found": 404,
    "ambiguous": 409,
    "conflict": 409,
    "version_mismatch": 426,
    "store_full": 507,
}


class PathEntry(TypedDict):
    """A path, with why it is listed."""

    path: str
    path_b64: NotRequired[str]
    reason: NotRequired[str]
    size_bytes: NotRequired[int]


class LateEntry(PathEntry):
    """What was written to a file that an operation had displaced. ``checkpoint``: as ``cat`` takes it; None for a folder,
    which is left where ``reason`` says.
    """

    checkpoint: str | None


class Changed(TypedDict):
    """How many paths differ from the checkpoint before."""

    added: int
    modified: int
    removed: int


class CheckpointObject(TypedDict):
    """A checkpoint as every answer shows it."""

    id: str
    number: int
    seq: int
    created_at: str
    expires_at: str | None
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


class ForgetAnswer(TypedDict):
    """``forget`` and its dry run. ``freed_bytes`` is 0: what is forgotten is in trash."""

    ok: bool
    dry_run: bool
    forgotten: list[CheckpointObject]
    kept: list[KeptObject]
    freed_bytes: int
    notes: list[str]


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


class WriterObject(TypedDict):
    """Who made changes of one checkpoint."""

    certainty: str
    agent: str | None
    sessions: list[str]
    prompts: list[str]
    operation: str | None
    paths: int


class ShowAnswer(CheckpointObject):
    """``show``."""

    ok: bool
    git: GitObject
    writers: list[WriterObject]
    changes: list[DiffItem]
    skipped_paths: list[PathEntry]


class Items(TypedDict):
    """A list; ``next`` is the cursor of the following page, ``hint`` what can be done with what is listed."""

    ok: bool
    items: list[Any]
    next: NotRequired[str]
    hint: NotRequired[str]
    note: NotRequired[str]


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


class RewindAnswer(TypedDict):
    """``rewind``, ``undo`` and ``redo``, and their dry runs (``operation`` is None there). ``plan_seq`` is the position a
    dry run of ``rewind`` looked at: given back with the rewind itself, whatever changed after it is a conflict.
    ``hint``: what can be done about the conflicts.
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
    hint: NotRequired[str]


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


class DaemonObject(TypedDict):
    """The daemon itself."""

    pid: int
    version: str
    uptime_ms: int
    rss_bytes: int
    home: str
    store_bytes: int
    store_writable: bool
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


class WorktreeStatus(TypedDict):
    """One worktree. ``state``: watching, degraded, capturing, paused (root gone, or asked for: ``paused_at``) or stopped.
    ``paused_until`` is None for a pause without an end.
    """

    root: str
    project: str
    state: str
    reason: str
    complete: bool
    pending: int
    watches: int
    seq: int
    checkpoints: int
    last_checkpoint_at: str | None
    next_expiry: str | None
    gaps: list[GapObject]
    interrupted: list[str]
    paused_at: str | None
    paused_until: str | None
    idle_turns: list[IdleTurnObject]


class StatusAnswer(TypedDict):
    """``status``."""

    ok: bool
    daemon: DaemonObject
    worktrees: list[WorktreeStatus]


class PauseAnswer(TypedDict):
    """``pause`` and ``unpause``; both times are None where nothing is paused any more."""

    ok: bool
    root: str
    paused_at: str | None
    paused_until: str | None
    checkpoint: CheckpointObject


class DoctorAnswer(TypedDict):
    """``doctor``, as far as the daemon sees. ``problems`` have the fields of openoxide.health.Problem; ``daemon``: pid,
    version, home and ``side``, where it runs.
    """

    ok: bool
    problems: list[dict[str, Any]]
    daemon: dict[str, Any]


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
    """``projects move``. ``dropped_checkpoints``: of the new root's own, which held nothing but the tree as it is."""

    ok: bool
    project: str
    worktree: int
    old_root: str
    root: str
    dropped_checkpoints: int
    checkpoint: CheckpointObject


class JoinAnswer(TypedDict):
    """``projects join``: all roots of the one project."""

    ok: bool
    project: str
    roots: list[str]


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


class WorktreeUsage(TypedDict):
    """One worktree: its files now (``logical_bytes``), all contents of its history, what they take in the store, and what of
    that no other worktree names.
    """

    root: str
    project: str
    watching: bool
    checkpoints: int
    files: int
    logical_bytes: int
    history_bytes: int
    stored_bytes: int
    unique_bytes: int
    growth: list[DayUsage]
    largest: list[PathUsage]


class DuAnswer(TypedDict):
    """``du``. ``freeable_bytes``: stored, and needed by nothing; an estimate."""

    ok: bool
    home: str
    total_bytes: int
    freeable_bytes: int
    parts: list[HomePart]
    worktrees: list[WorktreeUsage]


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


Progress = dict[str, Any]
"""``{"stage", "done", "total", "bytes"}``: what a long operation has done so far; ``total`` is 0 while not known."""


def printable(text: str) -> str:
    r"""``text`` with control characters, bidi marks and undecodable bytes as visible ``\x..`` or ``\u....`` escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_entry(path: bytes, reason: str = "", size_bytes: int | None = None) -> PathEntry:
    """``path`` as answers carry it."""
    decoded = path.decode("utf-8", "surrogateescape")
    shown = printable(decoded)
    entry: PathEntry = {"path": shown}
    if shown != decoded:
        entry["path_b64"] = b64encode(path).decode("ascii")
    if reason:
        entry["reason"] = reason
    if size_bytes is not None:
        entry["size_bytes"] = size_bytes
    return entry


def entry_path(entry: PathEntry) -> bytes:
    """The path that :func:`path_entry` made ``entry`` from."""
    if "path_b64" in entry:
        return b64decode(entry["path_b64"])
    return entry["path"].encode("utf-8", "surrogateescape")
