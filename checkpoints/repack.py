"""Writes packs anew: what rows name in them goes into new packs, and the old ones go. What no row names is not copied.

New bytes durable and read back, then the rows in short transactions, then the old files; killed at any point, each content
lies where its row says. Versions of one path are compressed against each other here and nowhere else: the newest one by
itself, the others as what they differ in from it. A frame's dictionary is never more than one frame away, in the same pack.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from openoxide.checkpoints import stored
from openoxide.checkpoints.blobs import Blobs
from openoxide.checkpoints.frames import (
    DELTA_LEVEL,
    FRAME_BYTES,
    Frame,
    Place,
    compressor,
    make_delta,
    make_frame,
    stored_bytes,
)
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.needed import LEAST_DELTA_BYTES
from openoxide.checkpoints.packs import BIG_BYTES, PACK_BYTES, PackFile, Packs
from openoxide.db import Database
from openoxide.errors import OpenOxideError, StoreDamagedError, StoreReadOnlyError
from openoxide.fileio import write_errors

# what one append takes: it is synced at once, and a sync that writes much delays those of others
_BATCH_BYTES = 1 << 20
# rows that one transaction moves: a checkpoint waits for it (benchmarks, prune)
_BATCH_ROWS = 100
# versions are unpacked together: the more of them, the smaller and the slower
_DELTA_VERSIONS = 4
_CACHE_BYTES = 16 << 20


class Held(NamedTuple):
    """A content that a row names, and where: ``path`` and ``seq`` of the first version that has it, 0 where none has."""

    blob: int
    name: BlobHash
    frame: int
    inner: int
    size: int
    place: Place
    path: int
    seq: int


@dataclass(slots=True, kw_only=True)
class Repacked:
    """What became of packs. ``damaged``: row ids of contents that could not be read and stay where they are."""

    moved: int = 0
    written_bytes: int = 0
    damaged: list[int] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)


def repack(
    database: Database,
    blobs: Blobs,
    packs: Collection[int],
    *,
    breathe: Callable[[], None] = lambda: None,
    drained: Callable[[], bool] = lambda: True,
) -> Repacked:
    """Move what rows name in ``packs`` into new ones, and delete every pack that then holds nothing. ``breathe`` is called
    where others may go first, and may raise to end it; ``drained`` as in :meth:`Blobs.drop_packs`.
    """
    done = Repacked()
    with blobs.repacking:  # two would move the same rows
        # what comes next must not be appended to what goes
        blobs.packs.leave(packs)
        _drop_empty(database, packs, breathe)
        with database.looking() as db:
            held = [_held(row) for row in stored.held_in(db, packs)]
        batches = _Plan(held, _Source(blobs.packs, done), breathe).batches()
        try:
            _move_all(database, blobs, batches, done, breathe)
        except OpenOxideError:
            # a copy that no row names yet would keep a full disk full
            with suppress(OpenOxideError):
                blobs.drop_packs(drained)
            raise
        _drop_empty(database, packs, breathe)
        done.removed = blobs.drop_packs(drained)
    return done


def _move_all(
    database: Database, blobs: Blobs, batches: Iterator[Batch], done: Repacked, breathe: Callable[[], None]
) -> None:
    first = next(batches, None)
    while first is not None:
        blobs.promise_packs()
        with write_errors("the content store", StoreReadOnlyError), blobs.packs.beside() as pack:
            for frames, rows in _until_full(pack, first, batches):
                _move(database, blobs.packs, pack, frames, rows, done, breathe)
                breathe()
                database.fold_beside()  # else a commit of somebody else has to do it
        first = next(batches, None)


def _held(row: tuple[Any, ...]) -> Held:
    blob, name, frame, inner, size, pack, offset, stored_size, raw, codec, path, seq = row
    return Held(blob, BlobHash(name), frame, inner, size, Place(pack, offset, stored_size, raw, codec), path, seq)


def _drop_empty(database: Database, packs: Collection[int], breathe: Callable[[], None]) -> None:
    """Frames whose contents turned out to be known, or have gone, name a pack for nothing."""
    with database.looking() as db:
        empty = stored.empty_frames(db, packs)
    for start in range(0, len(empty), _BATCH_ROWS):
        with database.writing() as db:
            stored.delete_empty_frames(db, empty[start : start + _BATCH_ROWS])
        breathe()


def _move(
    database: Database,
    packs: Packs,
    pack: PackFile,
    frames: Sequence[Frame],
    rows: Sequence[Sequence[Held]],
    done: Repacked,
    breathe: Callable[[], None],
) -> None:
    breathe()
    placed = list(zip(pack.append(frames), rows, strict=True))
    for place, held in placed:
        breathe()
        _read_back(packs, place, held)
    moves = [stored.Move(place, [(row.blob, row.name, row.frame, row.size) for row in held]) for place, held in placed]
    for part in _parts(moves):
        breathe()
        with database.writing() as db:
            done.moved += stored.move_frames(db, part)
    done.written_bytes += sum(map(stored_bytes, frames))


def _parts(moves: Sequence[stored.Move]) -> Iterator[list[stored.Move]]:
    part: list[stored.Move] = []
    for move in moves:
        if part and sum(len(each.rows) for each in part) + len(move.rows) > _BATCH_ROWS:
            yield part
            part = []
        part.append(move)
    if part:
        yield part


def _read_back(packs: Packs, place: Place, held: Sequence[Held]) -> None:
    """Raises StoreDamagedError where the new bytes are not the old ones: then no row is moved."""
    data, inner = packs.read(place, place.raw), 0
    for row in held:
        if blob_hash(data[inner : inner + row.size]) != row.name:
            raise StoreDamagedError(f"blob {row.name.hex()[:12]} was not written as it was read")
        inner += row.size


class _Source:
    """The bytes of contents, each held against its name. What cannot be read is noted, and None."""

    def __init__(self, packs: Packs, done: Repacked) -> None:
        self._packs = packs
        self._done = done
        self._frames: OrderedDict[Place, bytes] = OrderedDict()

    def read(self, row: Held) -> bytes | None:
        try:
            data = self._frame(row.place)[row.inner : row.inner + row.size]
        except StoreDamagedError:
            data = None
        if data is None or blob_hash(data) != row.name:
            self._done.damaged.append(row.blob)
            return None
        return data

    def _frame(self, place: Place) -> bytes:
        data = self._frames.pop(place, None)
        if data is None:
            data = self._packs.read(place, place.raw)
        self._frames[place] = data
        while sum(map(len, self._frames.values())) > _CACHE_BYTES and len(self._frames) > 1:
            self._frames.popitem(last=False)
        return data


Batch = tuple[list[Frame], list[list[Held]]]


class _Plan:
    """Frames for all that is ``held``, in batches that are appended and committed one after the other."""

    def __init__(self, held: Sequence[Held], source: _Source, breathe: Callable[[], None]) -> None:
        self._held = held
        self._source = source
        self._breathe = breathe
        self._packer = compressor(DELTA_LEVEL)

    def batches(self) -> Iterator[Batch]:
        """What one append and the transactions after it take."""
        frames: list[Frame] = []
        rows: list[list[Held]] = []
        for made in self._made():
            # a group is never cut: what it differs in is from a frame of the same append
            frames += [frame for frame, _ in made]
            rows += [held for _, held in made]
            if sum(map(stored_bytes, frames)) >= _BATCH_BYTES or sum(map(len, rows)) >= _BATCH_ROWS:
                yield frames, rows
                frames, rows = [], []
        if frames:
            yield frames, rows

    def _made(self) -> Iterator[list[tuple[Frame, list[Held]]]]:
        """Frames that belong together."""
        alone: list[Held] = []
        for path, group in groupby(sorted(self._held, key=lambda row: (row.path, row.seq)), key=lambda row: row.path):
            versions = [*group]
            # by the size of each: a text that became a stub had large versions
            large = [row for row in versions if row.size >= LEAST_DELTA_BYTES]
            if path == 0 or len(versions) == 1:
                alone += versions
            elif len(large) > 1:
                yield from self._against_newest(large)
                yield from ([made] for made in self._shared(row for row in versions if row.size < LEAST_DELTA_BYTES))
            else:
                yield from ([made] for made in self._shared(versions))
        # as they lay: neighbours there were captured together
        yield from ([made] for made in self._shared(sorted(alone, key=lambda row: (row.place, row.inner))))

    def _shared(self, rows: Iterable[Held]) -> Iterator[tuple[Frame, list[Held]]]:
        """Frames that neighbours share."""
        for group in self._groups(rows, FRAME_BYTES):
            yield make_frame([(row.name, data) for row, data in group], self._packer), [row for row, _ in group]

    def _groups(self, rows: Iterable[Held], most: int) -> Iterator[list[tuple[Held, bytes]]]:
        group: list[tuple[Held, bytes]] = []
        for row in rows:
            self._breathe()
            if (data := self._source.read(row)) is None:
                continue
            if group and sum(each.size for each, _ in group) + row.size > most:
                yield group
                group = []
            group.append((row, data))
        if group:
            yield group

    def _against_newest(self, versions: Sequence[Held]) -> Iterator[list[tuple[Frame, list[Held]]]]:
        """The newest version by itself and the older ones against it; in several parts where they do not shrink."""
        left = [*reversed(versions)]
        while left:
            newest = left.pop(0)
            if (dictionary := self._source.read(newest)) is None:
                continue
            base = make_frame([(newest.name, dictionary)], self._packer)
            made, size = [(base, [newest])], stored_bytes(base)
            most = min(BIG_BYTES, max(FRAME_BYTES, _DELTA_VERSIONS * newest.size))
            for group in self._groups(left[:], most):
                frame = make_delta([(row.name, data) for row, data in group], base, dictionary)
                rows = [row for row, _ in group]
                # nothing in common, and packed already: unpacking two frames for one would be for nothing
                parts = [(frame, rows)] if stored_bytes(frame) < frame.raw else self._single(group)
                made += parts
                size += sum(stored_bytes(part) for part, _ in parts)
                del left[: left.index(rows[-1]) + 1]
                if size >= _BATCH_BYTES:
                    break
            else:
                left.clear()  # the last ones may be damaged
            yield made

    def _single(self, group: Iterable[tuple[Held, bytes]]) -> list[tuple[Frame, list[Held]]]:
        return [(make_frame([(row.name, data)], self._packer), [row]) for row, data in group]


def _until_full(pack: PackFile, first: Batch, others: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    while pack.size < PACK_BYTES and (batch := next(others, None)) is not None:
        yield batch
