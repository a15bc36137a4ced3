"""What rows must be for a timeline to be believed, as pure comparisons: values in, problems out. Nothing is read here.

A manifest sum is additive, so one walk over a worktree's rows in the order of their positions passes the state at every
checkpoint. Each row brings the one that it replaces along: nothing is kept for a path, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from openoxide.checkpoints.hashing import HASH_BYTES, blob_hash, manifest_sum, sum_to_bytes
from openoxide.checkpoints.model import ABSENT, LOST_FRAME, BlobHash, FileState, Kind, SkipReason

_KINDS = range(len(Kind))
_FLAGS = range(4)
_MODES = range(0o10000)
_SPECIAL = (b"fifo", b"socket", b"char", b"block")
_REASONS = tuple(reason.value.encode() for reason in SkipReason)
_NO_PARTS = (b".", b"..", b"")
_CODECS = (0, 1, 2)
MOST_PROBLEMS = 10_000  # a lost worktree row puts each of its versions in doubt: that is not to take all memory


class ProblemKind(str, Enum):
    """What is wrong."""

    SQLITE = "sqlite"  # SQLite's own structure
    UNREADABLE = "unreadable"  # rows that cannot be read at all
    VALUE = "value"
    REFERENCE = "reference"
    LIVE = "live"  # the live row is not the newest version
    HEAD = "head"
    MANIFEST = "manifest"
    FILE_MISSING = "file_missing"
    FILE_SHORT = "file_short"
    FRAME = "frame"  # what stands in a pack is not what its row says
    CONTENT = "content"  # bytes are not those that their name was made of
    MODE = "mode"
    UNNAMED = "unnamed"  # a file that no row names, and this database may have made
    FOREIGN = "foreign"  # one that this database never made
    LOST = "lost"  # a repair could not bring it back, and marked it


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding. ``rows``: ``(path id, seq)`` of the versions that it puts in doubt; ``blobs``: row ids of contents;
    ``checkpoints``: ``(worktree, number)``.
    """

    kind: ProblemKind
    object: str
    message: str
    rows: tuple[tuple[int, int], ...] = ()
    blobs: tuple[int, ...] = ()
    checkpoints: tuple[tuple[int, int], ...] = ()


class StateRow(NamedTuple):
    """A version as it stands in its row, of any type where that is damaged, with what it names: ``path`` None where there
    is none in this worktree, ``name`` and ``blob_size`` None where there is no such blob, ``writer_row`` no such writer.
    """

    path_id: Any
    seq: Any
    path: Any
    kind: Any
    mode: Any
    size: Any
    mtime_ns: Any
    blob: Any
    name: Any
    blob_size: Any
    target: Any
    flags: Any
    writer: Any = None
    writer_row: Any = None

    @property
    def object(self) -> str:
        return f"version {self.path_id}@{self.seq}"


class Sealed(NamedTuple):
    """A checkpoint: what its hash and its count were when it was sealed."""

    worktree: int
    number: int
    seq: int
    manifest_hash: bytes
    skipped: int


# as the columns of head are called
_TOTALS = ("seq", "sum", "files", "bytes", "skipped")


def path_trouble(path: object) -> str:
    """Why ``path`` is no path of a worktree; empty if it is one. One that ends in a slash stands for what lies below."""
    if not isinstance(path, bytes):
        return "its path is no bytes"
    # the root itself has no parts
    parts = path.removesuffix(b"/").split(b"/") if path else ()
    return "its path is none below a root" if b"\0" in path or any(part in _NO_PARTS for part in parts) else ""


def state_trouble(row: StateRow) -> str:
    """Why no state is recorded like this; empty if one could be."""
    numbers = (row.seq, row.kind, row.mode, row.size, row.mtime_ns, row.flags)
    if {*map(type, numbers)} != {int} or row.seq < 1:
        return "a number in it is none"
    if row.kind not in _KINDS:
        return f"there is no kind {row.kind}"
    if row.mode not in _MODES or row.flags not in _FLAGS or row.size < 0:
        return f"mode {row.mode:#o}, size {row.size} or flags {row.flags} cannot be"
    return path_trouble(row.path) or _content_trouble(row)


def _content_trouble(row: StateRow) -> str:
    if (row.blob is not None) != (row.kind == Kind.FILE):
        return "it has no content" if row.kind == Kind.FILE else "only a file has content"
    if row.blob is not None and row.blob_size != row.size:
        return f"its size is {row.size}, its content's {row.blob_size}"
    match row.kind:
        case Kind.SYMLINK:
            good = isinstance(row.target, bytes)
        case Kind.SPECIAL:
            good = row.target in _SPECIAL
        case Kind.SKIPPED:
            good = row.target in _REASONS
        case _:
            good = row.target is None
    return "" if good else "its target is none of its kind"


def reference_trouble(row: StateRow) -> str:
    """What a version names that is not there; empty if it is."""
    if row.path is None:
        return f"its worktree has no path {row.path_id}"
    return f"there is no blob {row.blob}" if row.blob is not None and row.name is None else ""


def row_problem(row: StateRow) -> Problem | None:
    """What is wrong with one version by itself."""
    kind, why = ProblemKind.REFERENCE, reference_trouble(row)
    if not why:
        kind, why = ProblemKind.VALUE, state_trouble(row)
    if not why:
        return None
    known = type(row.path_id) is int and type(row.seq) is int
    return Problem(kind=kind, object=row.object, message=why, rows=((row.path_id, row.seq),) if known else ())


@dataclass(slots=True, kw_only=True)
class Replay:
    """The walk over one worktree's rows. ``sealed`` are its checkpoints; ``problems`` grows."""

    worktree: int
    sealed: Iterable[Sealed]
    problems: list[Problem] = field(default_factory=list)
    rows: int = 0
    passed: dict[int, tuple[bytes, int]] = field(default_factory=dict)  # what each checkpoint's hash and count would be
    _sum: int = 0
    _seq: int = 0
    _files: int = 0
    _bytes: int = 0
    _skipped: int = 0
    _doubtful: int = 0  # rows that hold at this position and say nothing: no total can be told
    _ahead: list[Sealed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ahead = sorted(self.sealed, key=lambda one: one.seq, reverse=True)

    def add(self, row: StateRow, before: StateRow | None) -> None:
        """The next row, and the one of its path that it replaces."""
        self.rows += 1
        if type(row.seq) is int:
            self._compare_until(row.seq)
            self._seq = row.seq
        if found := row_problem(row):
            self._tell(found)
        if row.writer != row.writer_row:
            # the state itself is as good as ever
            text = f"there is no writer {row.writer}"
            self._tell(Problem(kind=ProblemKind.REFERENCE, object=row.object, message=text))
        # the one before was told of when it was met
        lost = before is not None and row_problem(before) is not None
        self._doubtful += (found is not None) - lost
        old = ABSENT if before is None or lost else file_state(before)
        new = ABSENT if found else file_state(row)
        self._sum = manifest_sum(self._sum, [(row.path, old, new)]) if old.exists or new.exists else self._sum
        self._files += (new.kind is Kind.FILE) - (old.kind is Kind.FILE)
        self._bytes += new.size * (new.kind is Kind.FILE) - old.size * (old.kind is Kind.FILE)
        self._skipped += (new.kind is Kind.SKIPPED) - (old.kind is Kind.SKIPPED)

    def _tell(self, problem: Problem) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def _compare_until(self, seq: int) -> None:
        while self._ahead and self._ahead[-1].seq < seq:
            self._compare(self._ahead.pop())

    def _compare(self, one: Sealed) -> None:
        self.passed[one.number] = (sum_to_bytes(self._sum), self._skipped)
        if self._doubtful:
            return
        differ = [
            what
            for what, told, is_so in (
                ("its manifest hash is not that of the states", one.manifest_hash, sum_to_bytes(self._sum)),
                (f"it counts {one.skipped} skipped, there are {self._skipped}", one.skipped, self._skipped),
            )
            if told != is_so
        ]
        if differ:
            place = ((one.worktree, one.number),)
            text = f"{'; '.join(differ)} at {one.seq}"
            self._tell(_of_checkpoint(ProblemKind.MANIFEST, one, text, place))

    @property
    def totals(self) -> tuple[int, bytes, int, int, int]:
        """What the worktree's head is after the rows that were added: as the columns of head."""
        return self._seq, sum_to_bytes(self._sum), self._files, self._bytes, self._skipped

    def finish(self, head: Sequence[Any] | None) -> None:
        """All rows were added; ``head`` is what the worktree's row says of them: its seq, the sum's 32 bytes, files, bytes
        and skipped (None: there is no row).
        """
        self._compare_until(self._seq + 1)
        for one in reversed(self._ahead):
            text = f"it is at {one.seq}, where the timeline ends at {self._seq}"
            self._tell(_of_checkpoint(ProblemKind.REFERENCE, one, text, ((one.worktree, one.number),)))
        pairs = zip(_TOTALS, head or (0, sum_to_bytes(0), 0, 0, 0), self.totals, strict=True)
        # beside rows that say nothing only the position is known
        wrong = [
            (name, was, is_so) for name, was, is_so in pairs if was != is_so and not (self._doubtful and name != "seq")
        ]
        if wrong:
            text = "; ".join(f"{name} is {_shown(was)}, not {_shown(is_so)}" for name, was, is_so in wrong)
            self._tell(Problem(kind=ProblemKind.HEAD, object=f"head {self.worktree}", message=text))


def _of_checkpoint(kind: ProblemKind, one: Sealed, text: str, place: tuple[tuple[int, int], ...]) -> Problem:
    return Problem(kind=kind, object=f"checkpoint {one.worktree}#{one.number}", message=text, checkpoints=place)


def _shown(value: object) -> str:
    return value[:6].hex() if isinstance(value, bytes) else str(value)


def file_state(row: StateRow) -> FileState:
    """As far as a manifest and the totals go by it."""
    return FileState(Kind(row.kind), row.mode, row.size, row.mtime_ns, row.name, row.target)


def live_problem(path: int, live: Sequence[Any], newest: Sequence[Any]) -> Problem | None:
    """``live`` and ``newest`` are seq, kind, mode, size, mtime, blob, target and flags of a path's live row and of its
    newest version, all None where there is none.
    """
    if [*live] == [*newest]:
        return None
    if live[0] is None or newest[0] is None:
        what = "there is no live row" if live[0] is None else "there is a live row and no version"
    else:
        names = ("seq", "kind", "mode", "size", "mtime_ns", "blob", "target", "flags")
        wrong = [name for name, a, b in zip(names, live, newest, strict=True) if a != b]
        what = f"the live row differs from the newest version in {', '.join(wrong)}"
    rows = ((path, newest[0]),) if newest[0] is not None else ()
    return Problem(kind=ProblemKind.LIVE, object=f"live {path}", message=what, rows=rows)


class BlobRow(NamedTuple):
    """A blob and its frame as they stand in their rows; the frame's part is None where there is no such frame."""

    id: Any
    name: Any
    frame: Any
    inner: Any
    size: Any
    frame_id: Any
    pack: Any
    offset: Any
    stored: Any
    raw: Any
    codec: Any


def blob_problem(row: BlobRow) -> Problem | None:
    """What is wrong with one blob's row or its frame's, by themselves."""
    kind, why = ProblemKind.VALUE, _blob_trouble(row)
    if row.frame == LOST_FRAME:
        kind, why = ProblemKind.LOST, "its bytes could not be brought back, and a repair marked it"
    elif row.frame_id is None:
        kind, why = ProblemKind.REFERENCE, f"there is no frame {row.frame}"
    name = "contents" if kind is ProblemKind.LOST else f"blob {row.id}"
    return Problem(kind=kind, object=name, message=why, blobs=(row.id,)) if why else None


def _blob_trouble(row: BlobRow) -> str:
    if not isinstance(row.name, bytes) or len(row.name) != HASH_BYTES:
        return "its name is no hash"
    numbers = (row.inner, row.size, row.offset, row.stored, row.raw)
    if any(type(number) is not int or number < 0 for number in numbers) or row.codec not in _CODECS:
        return "a number in it, or in its frame, cannot be"
    if row.inner + row.size > row.raw:
        return f"it ends at {row.inner + row.size}, its frame at {row.raw}"
    # a big blob's file is named by its hash, and holds nothing else
    if row.pack is None and (row.inner, row.offset, row.size) != (0, 0, row.raw):
        return "it is a file of its own, and does not begin and end with it"
    return ""


def table_trouble(
    row: BlobRow, codec: int, stored: int, raw: int, entries: Collection[tuple[BlobHash, int, int]]
) -> str:
    """How a frame's header differs from what the rows say of it; ``entries`` are name, place and size of its blobs."""
    if (codec, stored, raw) != (row.codec, row.stored, row.raw):
        return f"its header says codec {codec}, {stored} of {raw} bytes; its row {row.codec}, {row.stored} of {row.raw}"
    if (row.name, row.inner, row.size) not in entries:
        return "its table of names does not name this content in this place"
    return ""


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """One problem for all that are of one kind and one object, such as the blobs of a lost pack; the first MOST_PROBLEMS."""
    found: dict[tuple[ProblemKind, str], tuple[Problem, dict[Any, None], dict[Any, None], dict[Any, None]]] = {}
    for one in problems:
        key = (one.kind, one.object)
        if key in found or len(found) < MOST_PROBLEMS:
            _, rows, blobs, checkpoints = found.setdefault(key, (one, {}, {}, {}))
            rows.update(dict.fromkeys(one.rows))
            blobs.update(dict.fromkeys(one.blobs))
            checkpoints.update(dict.fromkeys(one.checkpoints))
    return [
        replace(first, rows=tuple(rows), blobs=tuple(blobs), checkpoints=tuple(checkpoints))
        for first, rows, blobs, checkpoints in found.values()
    ]


def is_sampled(name: BlobHash, seed: int, share: float) -> bool:
    """Whether the sample that ``seed`` draws holds ``name``; ``share`` of all names are in it (1.0: all of them)."""
    drawn = blob_hash(seed.to_bytes(8, "little") + name)[:8]
    return int.from_bytes(drawn, "little") < share * 2**64


def holding(held: Iterable[tuple[int, int | None]], positions: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Numbers of the checkpoints at ``positions`` (``(seq, number)``, ascending) that lie in one of the stretches ``held``
    (``[seq, until)``, until None: to the end).
    """
    numbers: set[int] = set()
    for seq, until in held:
        low = bisect_left(positions, (seq, 0))
        high = len(positions) if until is None else bisect_left(positions, (until, 0))
        numbers.update(number for _, number in positions[low:high])
    yield from sorted(numbers)
