"""Looks for the bytes of contents that the store cannot give back: in their own place, in other frames that hold them too, in
packs that were set aside, and in the watched trees. A hash decides each time; nothing is taken for what it is not. What
differs in something from a content that is damaged can be had as soon as that one is found.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from openoxide.checkpoints import stored
from openoxide.checkpoints.frames import DELTA, PLAIN, ZSTD, Place, compressor, frames_in, make_frame, unpacked
from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import BIG, BIG_BYTES, Packs, pack_number, taken_numbers
from openoxide.checkpoints.rows import batched
from openoxide.checkpoints.tree import Tree
from openoxide.db import Database
from openoxide.errors import FailedError, OpenOxideError, StoreDamagedError, StoreReadOnlyError
from openoxide.fileio import read_regular, write_errors
from openoxide.paths import Home

_CHUNK = 1 << 20
STORE, TREE = "store", "tree"
_TREES = """
select distinct b.hash, w.root, p.path, b.size from blob b join version v on v.blob = b.id join path p on p.id = v.path
join worktree w on w.id = p.worktree where b.hash in ({})
"""


class Mended(NamedTuple):
    """A content that was found: where (``source`` is STORE or TREE, ``where`` for people), how long it is, and in which frame
    it lies now, from its byte ``inner`` on (None in a dry run that would have to write it).
    """

    name: BlobHash
    source: str
    where: str
    size: int
    place: Place | None
    inner: int = 0


class Entry(NamedTuple):
    """A content in a frame: from which of its raw bytes on, and how many."""

    name: BlobHash
    inner: int
    size: int


@dataclass(slots=True, kw_only=True)
class Recovering:
    """One search. ``database``: the one that is being made. With ``write`` what is found is written anew at once, in frames
    of ``packs``, durably; rows are the caller's. ``progress`` gets (stage, done, all).
    """

    database: Database
    home: Home
    packs: Packs
    write: bool
    progress: Callable[[str, int, int], None] = lambda *_: None
    found: dict[BlobHash, Mended] = field(default_factory=dict)
    _wanted: frozenset[BlobHash] = frozenset()
    _resting: dict[BlobHash, dict[Place, list[Entry]]] = field(default_factory=dict)

    def find(self, wanted: Collection[BlobHash]) -> dict[BlobHash, Mended]:
        """Those of ``wanted`` whose bytes are somewhere."""
        self._wanted = frozenset(wanted)
        self._note_bases()
        # the cheapest first, and a tree last: what it holds may change while it is read
        for look in (self._in_place, self._in_files, self._in_trees):
            # a base is of no more use once all that rests on it was found
            if left := {name for name in {*wanted, *self._resting} if name not in self.found}:
                look(left)
        return {name: one for name, one in self.found.items() if name in self._wanted}

    def _note_bases(self) -> None:
        """Which contents others differ from: frames that rest on one, and what is wanted of these."""
        with self.database.looking() as db:
            places = stored.blob_places(db, self._wanted)
        at = {(place.pack, place.offset): name for name, (place, _, _) in places.items()}
        bases = {place: self.packs.base(place) for place, _, _ in places.values() if place.codec == DELTA}
        for name, (place, inner, size) in places.items():
            base = bases.get(place)
            if base is not None and (whole := self._alone_in(base) or at.get((base.pack, base.offset))) is not None:
                self._resting.setdefault(whole, {}).setdefault(place, []).append(Entry(name, inner, size))

    def _alone_in(self, base: Place) -> BlobHash | None:
        """The content that is all of a frame, by what the frame says: no row may name it any more."""
        with suppress(OSError, OverflowError):
            header = self.packs.header(base, 0)
            if header is not None and len(header.entries) == 1:
                return next(name for name, _, _ in header.entries)
        return None

    def _rests_on(self, name: BlobHash, source: BinaryIO) -> None:
        """What rests on a content that was found can be unpacked."""
        frames = self._resting.pop(name, {})
        if not frames:
            return
        source.seek(0)
        dictionary = source.read()
        for place, entries in frames.items():
            with suppress(StoreDamagedError):
                data = self.packs.read(place, place.raw, dictionary)
                for one in entries:
                    if one.name not in self.found:
                        content = io.BytesIO(data[one.inner : one.inner + one.size])
                        self._keep(one.name, content, STORE, f"pack {place.pack}")

    def _in_place(self, wanted: Collection[BlobHash]) -> None:
        """Where its header is damaged the bytes behind it may be whole."""
        with self.database.looking() as db:
            places = stored.blob_places(db, wanted)
        for name, (place, inner, size) in places.items():
            with suppress(StoreDamagedError, OverflowError):
                if place.pack is None:
                    self._keep_big(name)
                else:
                    data = self.packs.read(place, inner + size)[inner : inner + size]
                    self._keep(name, io.BytesIO(data), STORE, f"pack {place.pack}")

    def _in_files(self, wanted: Collection[BlobHash]) -> None:
        """In any pack, of ours or set aside, and in the files of big contents that no row names any more."""
        for name in set(self.packs.bigs()) & {name.hex() for name in wanted}:
            with suppress(StoreDamagedError):
                self._keep_big(BlobHash(bytes.fromhex(name)))
        files = [
            file
            for number in sorted(taken_numbers(self.home.blobs))
            for file in sorted(self.home.blobs.glob(f"*{number}.pack*"))
        ]
        for done, file in enumerate(files):
            self.progress("looking for lost contents", done, len(files))
            left = {name for name in wanted if name not in self.found}
            with suppress(OSError):  # a folder in its place, or one that may not be read
                self._in_pack(read_regular(file), left, file.name)

    def _in_pack(self, pack: bytes, wanted: Collection[BlobHash], file: str) -> None:
        """In a pack of ours a sound frame is named as it lies there; out of one that was set aside it is copied."""
        number = pack_number(file)
        for header, offset in frames_in(pack):
            here = [entry for entry in header.entries if entry[0] in wanted and entry[0] not in self.found]
            place = Place(number, offset, header.stored, header.raw, header.codec)
            data = unpacked(pack, place) if here and header.codec in (PLAIN, ZSTD, DELTA) else b""
            for name, inner, size in here:
                content = data[inner : inner + size]
                if blob_hash(content) == name and number is None:
                    self._keep(name, io.BytesIO(content), STORE, file)
                elif blob_hash(content) == name:
                    self.found[name] = Mended(name, STORE, file, size, place, inner)
                    self._rests_on(name, io.BytesIO(content))

    def _in_trees(self, wanted: Collection[BlobHash]) -> None:
        """At a path that held it once: the file may be as it was then."""
        with self.database.looking() as db:
            places = sorted(batched(db, _TREES, (), [*wanted]), key=lambda row: (row[1], row[2]))
        opened: dict[bytes, Tree | None] = {}
        try:
            for done, (name, root, path, size) in enumerate(places):
                self.progress("looking into the trees", done, len(places))
                if root not in opened:
                    opened[root] = _tree(root)
                tree = opened[root]
                if tree is not None and name not in self.found:
                    self._in_tree(BlobHash(name), tree, path, size)
        finally:
            for tree in opened.values():
                if tree is not None:
                    tree.close()

    def _in_tree(self, name: BlobHash, tree: Tree, path: bytes, size: int) -> None:
        with suppress(OSError):  # gone, shut, or no file
            fd = tree.open_file(path)
            with open(fd, "rb") as source:
                seen = os.fstat(fd)
                # a row's size may be what is damaged: only one that is far too large is not read
                if stat.S_ISREG(seen.st_mode) and seen.st_size <= max(2 * size, BIG_BYTES):
                    self._keep(name, source, TREE, os.fsdecode(os.path.join(tree.root, path)))

    def _keep_big(self, name: BlobHash) -> None:
        with self.packs.open_big(name) as source:
            size = _length_if(source, name)
        if size is not None:
            # it lies where it belongs: all that is written is its row
            stored_bytes = self.packs.length(Place(None, 0, 0, 0, ZSTD), name) or 0
            place = Place(None, 0, stored_bytes, size, self.packs.codec_of_big(name))
            self.found[name] = Mended(name, STORE, f"blobs/{BIG}/{name.hex()}", size, place)

    def _keep(self, name: BlobHash, source: BinaryIO, kind: str, where: str) -> None:
        """Write what ``source`` holds if its name is ``name``, and what can be had by it."""
        size = _length_if(source, name)
        if size is None:
            return
        source.seek(0)
        # a base that is sound elsewhere, or that no row names any more, is only read
        write = self.write and name in self._wanted
        place = self._written(name, source, size) if write else None
        if place is not None or not write:
            self.found[name] = Mended(name, kind, where, size, place)
            self._rests_on(name, source)

    def _written(self, name: BlobHash, source: BinaryIO, size: int) -> Place | None:
        """Where its bytes lie now, durable; None where they changed meanwhile."""
        with write_errors("the content store", StoreReadOnlyError):
            if size >= BIG_BYTES:
                if self.packs.is_obstructed(name):
                    raise FailedError(
                        f"{self.home.blobs / BIG / name.hex()} is in the way: it is no file",
                        hint="move it out of the home",
                    )
                kept, place = self.packs.add_big(source)
                return place if kept == name else None
            data = source.read()
            if blob_hash(data) != name:
                return None
            return self.packs.append([make_frame([(name, data)], compressor())])[0]


def _length_if(source: BinaryIO, name: BlobHash) -> int | None:
    """How long a stream is that holds what ``name`` names; None if it does not."""
    hasher, size = Hasher(), 0
    for chunk in _chunks(source):
        hasher.update(chunk)
        size += len(chunk)
    return size if hasher.digest() == name else None


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


def _tree(root: bytes) -> Tree | None:
    """None where it is not there: nothing is looked for in a place that is not known."""
    with suppress(OpenOxideError):
        return Tree(root)
    return None
