"""The content store: bytes by their hash. Bytes are durable in a pack before a row names them.

What is new is only a guess outside the writer's transaction; inside it ``adopt`` decides, and revives what a prune had
marked. A frame whose blobs turn out to be known is dead weight in its pack until the next repack, never a wrong row.
"""

from __future__ import annotations

import io
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from openoxide.checkpoints import purging, stored
from openoxide.checkpoints.frames import FRAME_BYTES, Frame, Place, compressor, make_frame
from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.leases import Leases
from openoxide.checkpoints.litter import litter
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import BIG_BYTES, Packs, taken_numbers
from openoxide.db import Database, Transaction
from openoxide.errors import FailedError, StoreDamagedError, StoreReadOnlyError
from openoxide.fileio import write_all, write_errors
from openoxide.paths import Home
from openoxide.syscalls import clone_blocks

# numbers that one start may use, promised in a durable row before its first pack: at 64 MiB a pack that is 62 GiB
PACKS_OF_A_START = 1_000
# few, since one may be a single blob of nearly 4 MiB; who asks in stored order comes back to the last ones only
_CACHED_FRAMES = 4
_CHUNK = 1 << 20
_HOLE_BYTES = 64 << 10  # shorter runs of zeros are not worth an extent of their own
_ZEROS = bytes(_HOLE_BYTES)
log = logging.getLogger(__name__)

Placed = list[tuple[Place, tuple[tuple[BlobHash, int], ...]]]


class BlobVanishedError(FailedError):
    """A blob that was stored when it was looked up is gone; the caller stores it again."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} while it was being recorded", hint="do it again: it is stored anew then")


class Blobs:
    """The content store of one home. What has to be there as long as somebody reads is under a lease (``leases``)."""

    def __init__(self, database: Database, home: Home, *, read_only: bool) -> None:
        self._database = database
        self._big: dict[BlobHash, Place] = {}
        self._frames: OrderedDict[Place, bytes] = OrderedDict()
        # for _big, _frames and _copying, which the threads of all requests share
        self._lock = threading.Lock()
        self._copying = self._adding = 0
        self._dropped: set[int] = set()  # looked at and changed by writers only
        self.leases = Leases()
        self.repacking, self.pruning = threading.Lock(), threading.Lock()
        with database.reading() as db:
            used, reserved = stored.used_packs(db), stored.reserved_packs(db)
            purged = purging.pending_packs(db)
        # above all that a row, a file or the promise of an earlier start names: nothing is ever appended behind the
        # torn end that a crash left (docs/design.md, Pack format)
        first = max([*used, *taken_numbers(home.blobs), reserved], default=0) + 1
        self.packs = Packs(home.blobs, first)
        if not read_only:
            with write_errors("the content store", StoreReadOnlyError):
                self.packs.prepare()
            # a timeline.db that came back, or the state before a repair: its packs were set aside meanwhile
            missing = used - set(self.packs.numbers())
            for number in missing:
                self.packs.take_back(number)
            if back := missing & set(self.packs.numbers()):
                log.warning("packs that were set aside are named again, and back in their places: %s", sorted(back))
            # a pack this database never reserved a number for belongs to another one: a lost or a newer timeline.db
            unnamed = set(self.packs.numbers()) - used
            gone = litter(database, self.packs, {number for number in unnamed if number <= reserved}, self.damaged)
            for number in unnamed:
                # one that a purge has to write anew, and that nothing needs any more, holds what was to go
                if number in gone or number in purged:
                    self.packs.remove(number)
                else:
                    self.packs.set_aside(number)
                    log.warning("pack %d is not one of this timeline.db and was set aside as .pack.aside", number)
            # before the first append: without the promise a pack that a crash left would look like another database's
            with database.writing() as db:
                stored.reserve_packs(db, first + PACKS_OF_A_START)

    def unknown(self, payloads: Mapping[BlobHash, bytes]) -> dict[BlobHash, bytes]:
        """Those of ``payloads`` that seem not to be stored."""
        if not payloads:
            return {}
        with self._database.looking() as db:
            # no lock: a wrong guess costs bytes or a second write, adopt decides in the writer's transaction
            known = stored.stored_names(db, payloads)
        return {name: data for name, data in payloads.items() if name not in known}

    def write(self, payloads: Mapping[BlobHash, bytes]) -> Placed:
        """Compress ``payloads`` and make them durable; rows come later, by :meth:`adopt`."""
        if not payloads:
            return []
        frames = _frames(payloads)
        with write_errors("the content store", StoreReadOnlyError):
            places = self.packs.append(frames)
        return [(place, frame.names) for place, frame in zip(places, frames, strict=True)]

    @contextmanager
    def adding(self) -> Iterator[None]:
        """What is written in the block and gets no row in it will never get one."""
        with self._lock:
            self._adding += 1
        try:
            yield
        finally:
            with self._lock:
                self._adding -= 1

    @property
    def is_adding(self) -> bool:
        """Whether anybody records right now."""
        return self._adding > 0

    def write_big(self, source: BinaryIO) -> BlobHash:
        """Copy ``source`` into a file of its own, durable when this returns."""
        with self._lock:
            # drop_unused must see that a file may appear which _big does not name yet
            self._copying += 1
        try:
            with write_errors("the content store", StoreReadOnlyError):
                name, place = self.packs.add_big(source)
            with self._lock:
                # no row names the file until adopt makes one; from here on drop_unused spares it
                self._big[name] = place
        finally:
            with self._lock:
                self._copying -= 1
        return name

    def adopt(self, db: Transaction, placed: Placed, names: Iterable[BlobHash]) -> dict[BlobHash, int]:
        """Rows for ``placed`` and for pending big blobs; the ids of ``names``. Raises BlobVanishedError, never for what was
        written in the same transaction: only a writer drops packs.
        """
        # bytes without rows look like bytes that nobody needs (drop_unused)
        if any(place.pack in self._dropped for place, _ in placed):
            raise BlobVanishedError("a pack was dropped")
        wanted = set(names)
        ids = stored.insert_frames(db, placed) if placed else {}
        # one that had a row already keeps it; the lookup also takes back the mark of a prune
        ids |= stored.blob_ids(db, wanted - ids.keys())
        missing = wanted - ids.keys()
        with self._lock:
            big = {name: self._big[name] for name in wanted if name in self._big}
        if big:
            needed = missing | stored.lost_names(db, big)
            big = {name: place for name, place in big.items() if name in needed}
        # deleted since unknown() found it, so its bytes are in none of these frames
        if missing - big.keys():
            raise BlobVanishedError(f"blob {min(missing - big.keys()).hex()[:12]} was deleted")
        made = stored.insert_frames(db, [(place, [(name, place.raw)]) for name, place in big.items()])
        return ids | (made or stored.blob_ids(db, big))

    def forget_pending(self, names: Iterable[BlobHash]) -> None:
        """Their rows are durable."""
        with self._lock:
            for name in names:
                self._big.pop(name, None)

    def read(self, name: BlobHash) -> bytes:
        """All bytes of a blob, checked against its name. Raises StoreDamagedError."""
        with self.open(name) as source:
            data = source.read()
        # the one check there is: plain frames have none, and zstd does not notice every flipped bit (test_packs.py)
        if blob_hash(data) != name:
            raise StoreDamagedError(f"blob {name.hex()[:12]} does not hold the bytes it is named after")
        return data

    def open(self, name: BlobHash) -> BinaryIO:
        """A stream over a blob, for a caller that checks what it copies (:func:`copy_blob`)."""
        return self.opener([name])(name)

    def damaged(self, names: Sequence[BlobHash]) -> list[BlobHash]:
        """Those of ``names`` that cannot be given back, byte for byte. Neighbours in the store should be neighbours here:
        a frame is unpacked once for a run of its blobs.
        """
        with self._lock:
            # what the files hold now counts: a cached frame would answer for bytes that the disk has lost since
            self._frames.clear()
        open_one = self.opener(names)
        return [name for name in names if not _is_whole(open_one, name)]

    def mend(self, name: BlobHash, source: BinaryIO) -> bool:
        """Store the bytes of a damaged blob anew; whether ``source`` holds them."""
        size = os.fstat(source.fileno()).st_size
        if size >= BIG_BYTES:
            kept = self.write_big(source)
            self.forget_pending([kept])  # its row is there; under another name nothing will ever ask for it
            return kept == name
        data = source.read()
        if blob_hash(data) != name:
            return False
        with self._database.writing() as db:
            # with the lock: until the row is there nobody drops the pack
            ((place, _),) = self.write({name: data})
            stored.move_blob(db, name, place)
        return True

    def opener(self, names: Iterable[BlobHash]) -> Callable[[BlobHash], BinaryIO]:
        """As :meth:`open`, for many: their places are looked up at once."""
        places = self._places(names)
        # how far each frame has to be unpacked: what lies behind the last wanted blob costs nothing
        needed: dict[Place, int] = {}
        for place, inner, size in places.values():
            needed[place] = max(needed.get(place, 0), inner + size)

        def open_one(name: BlobHash) -> BinaryIO:
            if name not in places:
                raise StoreDamagedError(f"blob {name.hex()[:12]} is missing from the store")
            place, inner, size = places[name]
            if place.pack is None:
                return self.packs.open_big(name)
            try:
                return io.BytesIO(self._frame(place, needed[place])[inner : inner + size])
            except StoreDamagedError:
                # a repack moves what it finds, and deletes the pack where it lay
                moved = self._places([name]).get(name)
                if moved is None or moved[0].pack is None or moved == places[name]:
                    raise
                place, inner, size = moved
                return io.BytesIO(self._frame(place, inner + size)[inner : inner + size])

        return open_one

    def _places(self, names: Iterable[BlobHash]) -> dict[BlobHash, tuple[Place, int, int]]:
        with self._database.looking() as db:
            return stored.blob_places(db, set(names))

    def _frame(self, place: Place, size: int) -> bytes:
        """The first ``size`` bytes of a frame, at least."""
        with self._lock:
            cached = self._frames.get(place, b"")
        if len(cached) >= size:
            return cached
        # not under the lock: two threads may unpack the same frame at once, which costs time and nothing else
        data = self.packs.read(place, size)
        with self._lock:
            self._frames[place] = data
            while len(self._frames) > _CACHED_FRAMES:
                self._frames.popitem(last=False)
        return data

    def drop_unused(self) -> int:
        """Forget blobs that no state names, and delete the files that then hold nothing; how many bytes stay all the same,
        in packs that hold others' blobs too. Whoever has just found such a blob stored, or appended one to such a pack,
        stores it again (:class:`BlobVanishedError`).
        """
        # the rows, durably, then the bytes: a crash in between leaves bytes that nobody names (docs/design.md, 3)
        with self._database.writing() as db:
            freed = stored.delete_unused_blobs(db)
        with self._lock:
            self._frames.clear()
        if not self.leases.drained(0):  # a backup copies what these rows named; the next start, or a prune, deletes it
            return sum(freed.values())
        # once the deletion is durable
        self.drop_bigs()
        gone = self.drop_packs()
        return sum(size for pack, size in freed.items() if pack not in gone)

    def drop_packs(self, drained: Callable[[], bool] = lambda: True) -> set[int]:
        """Delete the packs that no row names, and tell which. ``drained``: whether everybody who may still read one of them
        has come to an end; where not, nothing is deleted now.
        """
        # as a writer, so that nobody adopts a place in a pack that goes
        with self._database.writing() as db:
            gone = self.packs.unused(stored.used_packs(db))
            self._dropped |= gone
        if not gone or not drained():
            return set()
        with write_errors("the content store", StoreReadOnlyError):
            for number in gone:
                self.packs.remove(number)
        return gone

    def drop_bigs(self, drained: Callable[[], bool] = lambda: True) -> int:
        """Delete the big blobs' files that no row names and nobody is about to; how many bytes they were. ``drained`` as for
        packs.
        """
        found = {BlobHash(bytes.fromhex(name)) for name in self.packs.bigs()}
        with self._database.looking() as db:
            found -= stored.big_names(db)
        if not found or not drained():
            return 0
        # as a writer, so that nobody adopts one that goes; only a name changes meanwhile, since to delete much takes long
        with self._database.writing() as db, self._lock, write_errors("the content store", StoreReadOnlyError):
            # one that is copied right now may be on its way back, one that was copied gets its row until the recording ends
            spared = found if self._copying else {*self._big} if self._adding else set()
            gone = found - spared - stored.big_names(db)
            for name in gone:
                self._big.pop(name, None)
            aside, size = self.packs.set_bigs_aside(gone)
        with write_errors("the content store", StoreReadOnlyError):
            self.packs.remove_aside(aside)
        return size

    def drop_unnamed_big(self, drained: Callable[[], bool]) -> bool:
        """As :meth:`drop_bigs`; whether every file that is left has a row. What is copied now may become one that has none."""
        self.drop_bigs(drained)
        with self._lock, write_errors("the content store", StoreReadOnlyError):
            if self._copying:
                return False
            self.packs.remove_aside(self.packs.unfinished())
        with self._database.looking() as db:
            return {BlobHash(bytes.fromhex(name)) for name in self.packs.bigs()} <= stored.big_names(db)

    def shut(self, packs: Collection[int]) -> None:
        """From here on no row comes to name anything more in these packs: whoever has appended to one stores it again, in
        another one.
        """
        with self._database.writing():
            self._dropped.update(packs)
            # at once: what is appended to one now would be for nothing, however often
            self.packs.leave(packs)

    def forget_frames(self) -> None:
        """What was unpacked is not kept in memory any more."""
        with self._lock:
            self._frames.clear()

    def promise_packs(self) -> None:
        """More numbers for packs, where those that the start promised come to their end."""
        with self._database.writing() as db:
            if self.packs.next_number + PACKS_OF_A_START // 2 > stored.reserved_packs(db):
                stored.reserve_packs(db, self.packs.next_number + PACKS_OF_A_START)

    def close(self) -> None:
        self.packs.close()


def _frames(payloads: Mapping[BlobHash, bytes]) -> list[Frame]:
    """Neighbours share a frame up to FRAME_BYTES: small files compress far better together."""
    frames: list[Frame] = []
    group: list[tuple[BlobHash, bytes]] = []
    size, packer = 0, compressor()
    for name, data in payloads.items():
        # a blob that is larger than that has a frame of its own: it is never cut
        if group and size + len(data) > FRAME_BYTES:
            frames.append(make_frame(group, packer))
            group, size = [], 0
        group.append((name, data))
        size += len(data)
    frames.append(make_frame(group, packer))
    return frames


def _is_whole(open_one: Callable[[BlobHash], BinaryIO], name: BlobHash) -> bool:
    hasher = Hasher()
    try:
        with open_one(name) as source:
            while chunk := source.read(_CHUNK):
                hasher.update(chunk)
    except StoreDamagedError:
        return False
    return hasher.digest() == name


def copy_blob(source: BinaryIO, fd: int, name: BlobHash) -> None:
    """Copy a blob's stream to the end of ``fd``, by sharing its blocks where it is a file and the file system can. Long runs of
    zeros become holes, so that a sparse file comes back as one. Raises StoreDamagedError if the bytes are not what the name
    says.
    """
    hasher = Hasher()
    ends_in_hole = False
    shares = _shares_blocks(source, fd)
    while chunk := source.read(_CHUNK):
        hasher.update(chunk)
        if shares:
            continue
        ends_in_hole = _write_around_zeros(fd, chunk)
    if ends_in_hole:
        # lseek(2) past the end does not lengthen a file: a hole at its end has to be given by its size
        os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))
    if hasher.digest() != name:
        raise StoreDamagedError(f"blob {name.hex()[:12]} does not hold the bytes it is named after")


def _shares_blocks(source: BinaryIO, fd: int) -> bool:
    """Whether ``fd``, which was empty, has all of ``source`` by sharing its blocks, which nobody writes to."""
    try:
        return os.fstat(fd).st_size == 0 and clone_blocks(source.fileno(), fd)
    except io.UnsupportedOperation:  # what is in memory, or is unpacked
        return False


def _write_around_zeros(fd: int, chunk: bytes) -> bool:
    """Write ``chunk``, passing over its blocks of zeros; whether it ended with one."""
    start = 0
    for place in range(0, len(chunk) - _HOLE_BYTES + 1, _HOLE_BYTES):
        # compared in place: a slice would copy each block of each file
        if chunk.startswith(_ZEROS, place):
            write_all(fd, chunk[start:place])
            start = place + _HOLE_BYTES
            os.lseek(fd, _HOLE_BYTES, os.SEEK_CUR)
    write_all(fd, chunk[start:])
    return start == len(chunk)
