"""The words of the timeline as values: states, changes, checkpoints, writers. No I/O, no clock.

Paths are bytes relative to the worktree's root, without a leading slash; ``b""`` is the root itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple, NewType

BlobHash = NewType("BlobHash", bytes)
LOST_FRAME = 0  # no frame has this number: where a content says so, its bytes are nowhere, and a repair marked it
DAMAGED = "damaged"  # the gap of a checkpoint whose states are not those that were sealed, as a repair found
STAGING_NAME = b".openoxide-staging"
# kernels before 6.13 stamp files with a clock that ticks every 1 to 4 ms
RACY_NS = 10_000_000  # a stat younger than this when it was read proves nothing (git's racy rule, coarse kernel clocks)
# ext4 with small inodes stamps whole seconds, FAT every second one; by chance the time of the kernel is one in 250 at most
COARSE_RACY_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


# what SQLite puts beside a database of this name (SQLite, temporary files)
SQLITE_SUFFIXES = (b"-wal", b"-shm", b"-journal")


def split(path: bytes) -> tuple[bytes, bytes]:
    """``(directory, name)``; the root is ``(b"", b"")``."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def join(directory: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``directory``."""
    return directory + b"/" + name if directory else name


def sqlite_base(path: bytes) -> bytes | None:
    """The database whose side file ``path`` would be."""
    for suffix in SQLITE_SUFFIXES:
        # a name that is nothing but the suffix belongs to no database
        if path.endswith(suffix) and not path.endswith(b"/" + suffix):
            return path[: -len(suffix)]
    return None


def database_members(base: bytes) -> tuple[bytes, ...]:
    """The paths of the SQLite database ``base``, whose states are of one moment or worth nothing: its file first."""
    return (base, *(base + suffix for suffix in SQLITE_SUFFIXES))


class Kind(IntEnum):
    """What stands at a path. ABSENT and SKIPPED are states too: gone, and there but not recorded."""

    # these numbers stand in rows and in the conditions of queries and indexes: never given anew
    ABSENT = 0
    FILE = 1
    SYMLINK = 2
    DIRECTORY = 3
    SPECIAL = 4
    SKIPPED = 5


class SkipReason(str, Enum):
    """Why something is not recorded; shown as it is spelled here."""

    # each is stored as the target of a skipped state, so its spelling is for good
    VCS = "vcs"
    DEPENDENCIES = "dependencies"
    VIRTUAL_ENVIRONMENT = "virtual_environment"
    CACHE = "cache"
    BUILD_OUTPUT = "build_output"
    OPENOXIDE = "openoxide"
    OXIDEIGNORE = "oxideignore"
    EXTRA_SKIP = "extra_skip"
    TOO_LARGE = "too_large"
    IGNORED_LARGE = "ignored_large"
    IGNORED_TREE_FULL = "ignored_tree_full"
    UNREADABLE = "unreadable"
    CHURNING = "churning"
    OVER_QUOTA = "over_quota"  # what must stay exceeds the quota by itself, and this is the largest of it
    LOST = "lost"  # it was recorded, its row was damaged, and a repair could not tell what it was
    PURGED = "purged"  # it was recorded, and its content was removed everywhere


_NOTHING = (Kind.ABSENT, Kind.SKIPPED)


class FileState(NamedTuple):  # states are made by the ten thousand: a frozen dataclass takes five times as long
    """One state of one path.

    ``mode`` holds the twelve permission bits; ``mtime_ns`` is 0 for directories and links (a directory's changes with
    each child). ``target`` is a link's text, a special file's type (``fifo socket char block``) or a skip's reason.
    """

    kind: Kind
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    blob: BlobHash | None = None
    target: bytes | None = None
    torn: bool = False
    sqlite: bool = False

    @property
    def exists(self) -> bool:
        """Whether something recorded stands at the path."""
        return self.kind not in _NOTHING

    def same_but_time(self, other: FileState) -> bool:
        """Whether nothing differs but the mtime."""
        return self._replace(mtime_ns=other.mtime_ns) == other


ABSENT = FileState(kind=Kind.ABSENT)


def skipped(reason: SkipReason, size: int = 0) -> FileState:
    """The state of something that is there but not recorded."""
    return FileState(kind=Kind.SKIPPED, size=size, target=reason.value.encode())


# without the size of what was there: that too is something of the content
PURGED = skipped(SkipReason.PURGED)


class StatIdentity(NamedTuple):
    """What lstat said when a state was read; equal and old enough means unchanged."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    nlink: int = 1
    read_at_ns: int = 0

    def same_entry(self, other: StatIdentity) -> bool:
        """Whether both describe the same, untouched directory entry."""
        return (self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns, self.mode) == (
            other.dev, other.ino, other.size, other.mtime_ns, other.ctime_ns, other.mode)  # fmt: skip

    @property
    def racy(self) -> bool:
        """Whether a later write could have left this very stat."""
        return is_racy(self.mtime_ns, self.ctime_ns, self.read_at_ns)


def is_racy(mtime_ns: int, ctime_ns: int, read_at_ns: int) -> bool:
    """Whether a write after ``read_at_ns`` could have left these times (git's racy-timestamp rule)."""
    # ctime: a program may set mtime to whole seconds, and nobody can set this one
    window = RACY_NS if ctime_ns % _SECOND_NS else COARSE_RACY_NS
    return max(mtime_ns, ctime_ns) >= read_at_ns - window


class Observed(NamedTuple):
    """A path as a capture found it: its state, and the stat it rests on (None where nothing stands there)."""

    path: bytes
    state: FileState
    identity: StatIdentity | None = None


class Trigger(str, Enum):
    """Why a checkpoint exists."""

    PROMPT = "prompt"
    TOOL = "tool"
    QUIET = "quiet"
    MANUAL = "manual"
    REWIND = "rewind"
    SESSION_END = "session-end"
    IMPORT = "import"


AUTOMATIC = frozenset({Trigger.QUIET, Trigger.TOOL})


class Certainty(str, Enum):
    """How sure it is who made a change (architecture: writer)."""

    SURE = "sure"
    LIKELY = "likely"
    SHARED = "shared"
    UNKNOWN = "unknown"
    OPERATION = "operation"


class Mark(str, Enum):
    """What the user says of a text of a memory, whoever writes it."""

    VERIFIED = "verified"
    DISPUTED = "disputed"


class WindowKind(str, Enum):
    """A declared stretch of time in which an agent writes."""

    TURN = "turn"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A declared turn or tool call. ``parent`` is a tool's turn, None for a turn; ``ended_seq`` is None while open.
    ``lost``: the gap that ended it, because nobody could have recorded its own end; empty if that was declared.
    """

    id: int
    kind: WindowKind
    agent: str
    session: str
    prompt: str
    began_seq: int
    ended_seq: int | None = None
    ended_at_ms: int | None = None
    lost: str = ""
    parent: int | None = None
    tool: str | None = None
    declares_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who made a change: the declared windows that were open (none: unknown), or the operation that did it; ``touched``
    if that one gave files the time of then.
    """

    certainty: Certainty
    windows: frozenset[int] = frozenset()
    operation: int | None = None
    touched: bool = False


UNKNOWN_WRITER = Writer(certainty=Certainty.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A timeline row: the state of ``path`` from ``seq`` until the path's next row."""

    path: bytes
    seq: int
    state: FileState
    writer: Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPosition:
    """What git said when a checkpoint was sealed; read from files, git itself is never run."""

    head: str = ""
    branch: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much a checkpoint can be trusted. ``cause`` names the gap, empty when ``complete``."""

    complete: bool = True
    late: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Changes since the checkpoint before."""

    added: int = 0
    modified: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        """All three together."""
        return self.added + self.modified + self.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A sealed position of one worktree's timeline. Times are milliseconds since the epoch."""

    id: str
    worktree: int
    number: int
    seq: int
    created_at_ms: int
    trigger: Trigger
    manifest_hash: bytes
    name: str | None = None
    pinned: bool = False
    expires_at_ms: int | None = None
    turn: int | None = None
    session: str | None = None
    prompt: str | None = None
    agent: str | None = None
    coverage: Coverage = field(default_factory=Coverage)
    git: GitPosition = field(default_factory=GitPosition)
    counts: Counts = field(default_factory=Counts)
    skipped: int = 0
    failed: str | None = None
    forgotten_at_ms: int | None = None


CODE, MEMORY = "code", "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """One watched directory tree. ``dev``, ``ino`` and ``birth_ns`` name the directory itself (0: not known).
    ``paused_ms``: since when the user wants nothing recorded, ``paused_until_ms`` until when (None: until told).
    """

    id: int
    project: str
    root: bytes
    dev: int
    ino: int
    birth_ns: int
    watching: bool
    common_dir: bytes | None = None
    kind: str = CODE
    paused_ms: int | None = None
    paused_until_ms: int | None = None

    @property
    def is_memory(self) -> bool:
        """Whether it is the memory of its project, of which nothing is left out and nothing forgotten."""
        return self.kind == MEMORY
