"""In which versions of which paths a text stood.

Each distinct blob is read once, in the order in which blobs are stored, and in pieces. What is kept in memory is a
number for each blob, never its content. Every statement has a snapshot of its own; the timeline only grows, so rows up to
the position at which the search began are the same throughout.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import BinaryIO

from openoxide.checkpoints.hashing import Hasher
from openoxide.checkpoints.model import PURGED, BlobHash, Kind
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.timeline import Timeline
from openoxide.db import Transaction
from openoxide.errors import StoreDamagedError

BINARY_HEAD_BYTES = 8_000  # git looks for a NUL no further
_CHUNK = 1 << 20
_PAGE_PATHS = 500
_BATCH_BLOBS = 100
_PURGED = -1  # no blob's row id: what stood there nobody knows any more

Progress = Callable[[int, int, int], None]
"""Gets (blobs read, all blobs, bytes read)."""


class Verdict(Enum):
    """What is known of one blob."""

    HOLDS = "holds"
    LACKS = "lacks"
    BINARY = "binary"
    DAMAGED = "damaged"


@dataclass(slots=True, kw_only=True)
class Searched:
    """What a search read. ``holding``: row ids of the blobs that hold the text; ``unknown``: of those not looked into."""

    blobs: int = 0
    bytes: int = 0
    binary: int = 0
    damaged: int = 0
    holding: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Versions of ``path`` one after the other that hold the text: the positions of the first and the last, up to which
    the last holds, and of the one in which it was gone (both None: it still stands there).
    """

    path: bytes
    first_seq: int
    last_seq: int
    until_seq: int | None
    gone_seq: int | None
    versions: int

    @property
    def seqs(self) -> list[int]:
        """The rows that it names."""
        return [self.first_seq, self.last_seq, *([self.gone_seq] if self.gone_seq is not None else [])]


def stretches(path: bytes, versions: Iterable[tuple[int, bool | None]]) -> Iterator[Stretch]:
    """The stretches of one path from ``(seq, whether it holds the text)``, oldest first. Of a version that says None
    nothing is known: it neither begins nor ends one.
    """
    run: list[int] = []
    until: int | None = None
    for seq, holds in versions:
        if holds:
            run.append(seq)
            until = None
        elif run:
            # what is not known ends what the last version is known to hold, though not the stretch
            until = seq if until is None else until
            if holds is False:
                yield _stretch(path, run, until, seq)
                run, until = [], None
    if run:
        yield _stretch(path, run, until, None)


def _stretch(path: bytes, run: Sequence[int], until: int | None, gone: int | None) -> Stretch:
    return Stretch(path=path, first_seq=run[0], last_seq=run[-1], until_seq=until, gone_seq=gone, versions=len(run))


def search_blobs(
    timeline: Timeline,
    worktree: int,
    upto: int,
    wanted: bytes,
    *,
    chosen: Collection[bytes],
    binary: bool,
    progress: Progress,
) -> Searched:
    """Which blobs of ``chosen`` (empty: all paths) hold ``wanted``; files with a NUL near their start only if ``binary``."""
    found = Searched()
    # a search may take long, and a snapshot held throughout would keep the WAL from being folded
    with timeline.database.looking() as db:
        numbers = _blob_numbers(db, worktree, upto, chosen)
        for start in range(0, len(numbers), _BATCH_BLOBS):
            batch = _named(db, numbers[start : start + _BATCH_BLOBS])
            open_one = timeline.blobs.opener(name for _, name, _ in batch)
            for number, name, size in batch:
                _note(found, number, size, _look_into(open_one, name, wanted, binary=binary))
            progress(start + len(batch), len(numbers), found.bytes)
    return found


def find_stretches(
    db: Transaction, worktree: int, upto: int, chosen: Collection[bytes], searched: Searched
) -> Iterator[Stretch]:
    """Where the blobs that hold the text stood, in path order; lazily, so a caller may stop."""
    for paths in _pages(db, worktree, chosen):
        found = _versions(db, paths, upto)
        for number, versions in groupby(found, key=lambda row: row[0]):
            yield from stretches(paths[number], ((seq, _holds(searched, blob)) for _, seq, blob in versions))


def _holds(searched: Searched, blob: int | None) -> bool | None:
    return None if blob == _PURGED or blob in searched.unknown else blob in searched.holding


def _note(found: Searched, number: int, size: int, verdict: Verdict) -> None:
    found.blobs += 1
    found.bytes += size
    found.binary += verdict is Verdict.BINARY
    found.damaged += verdict is Verdict.DAMAGED
    if verdict is Verdict.HOLDS:
        found.holding.add(number)
    elif verdict is not Verdict.LACKS:
        found.unknown.add(number)


def _look_into(open_one: Callable[[BlobHash], BinaryIO], name: BlobHash, wanted: bytes, *, binary: bool) -> Verdict:
    hasher, tail, holds = Hasher(), b"", False
    try:
        with open_one(name) as source:
            chunk = source.read(_CHUNK)
            if not binary and b"\0" in chunk[:BINARY_HEAD_BYTES]:
                return Verdict.BINARY
            while chunk:
                hasher.update(chunk)
                window = tail + chunk
                # read on after a hit: only the whole shows that these are the bytes of that name
                holds = holds or wanted in window
                # as much as the beginning of a hit can lie in that ends in the next piece
                tail = window[max(len(window) - len(wanted) + 1, 0) :]
                chunk = source.read(_CHUNK)
    except StoreDamagedError:
        return Verdict.DAMAGED
    if hasher.digest() != name:
        return Verdict.DAMAGED
    return Verdict.HOLDS if holds else Verdict.LACKS


def _pages(db: Transaction, worktree: int, chosen: Collection[bytes]) -> Iterator[dict[int, bytes]]:
    """The paths of a worktree by row id, some hundred at a time, in path order."""
    # from the last path on and not by offset: paths may be added between two pages
    query = f"select id, path from path where worktree = ? and path > ? order by path limit {_PAGE_PATHS}"  # noqa: S608
    last = b""
    while page := raw(db).execute(query, (worktree, last)).fetchall():
        yield {number: path for number, path in page if within_paths(path, chosen)}
        last = page[-1][1]


def _versions(db: Transaction, paths: dict[int, bytes], upto: int) -> list[tuple[int, int, int | None]]:
    """``(path id, seq, blob id)`` of all rows of ``paths``, path by path in their order, each oldest first; the blob is
    None for all but files, and _PURGED for one whose content was purged.
    """
    marks = ",".join("?" * len(paths))
    blob = f"case when kind = {int(Kind.FILE)} then blob when target = ? then {_PURGED} end"
    query = f"select path, seq, {blob} from version where path in ({marks}) and seq <= ?"  # noqa: S608
    order = {number: index for index, number in enumerate(paths)}
    found = raw(db).execute(query, (PURGED.target, *paths, upto)).fetchall()
    # groupby and the listing want the order of the page, which is by path and not by id
    return sorted(found, key=lambda row: (order[row[0]], row[1]))


def _blob_numbers(db: Transaction, worktree: int, upto: int, chosen: Collection[bytes]) -> array[int]:
    """Row ids of the distinct blobs to read. Rows are made in the order in which the bytes were appended."""
    numbers: set[int] = set()
    for paths in _pages(db, worktree, chosen):
        numbers.update(blob for _, _, blob in _versions(db, paths, upto) if blob not in (None, _PURGED))
    # eight bytes for each blob, where a list would take an object more
    return array("q", sorted(numbers))


def _named(db: Transaction, numbers: Sequence[int]) -> list[tuple[int, BlobHash, int]]:
    marks = ",".join("?" * len(numbers))
    query = f"select id, hash, size from blob where id in ({marks}) order by id"  # noqa: S608
    return [(number, BlobHash(name), size) for number, name, size in raw(db).execute(query, (*numbers,))]
