"""Frames of bytes in append-only files. A frame is never changed, and no file is appended to behind a failed write.

A frame holds one or more blobs, compressed together::

    magic "OXF1" | codec u8 | blobs u16 | stored u32 | raw u32 | blobs x (hash 32, size u32) | payload

All numbers are little-endian. Codec 0 is plain, 1 is zstd. The table of names lets an index be rebuilt from the files
alone. A blob of BIG_BYTES or more is a file of its own under ``big/``, named by its hash, with the same codecs.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import zstandard

from openoxide.checkpoints.hashing import HASH_BYTES, Hasher
from openoxide.checkpoints.model import BlobHash
from openoxide.errors import StoreDamagedError
from openoxide.fileio import fsync_folder, require_descriptors, write_all

MAGIC = b"OXF1"
PACK_BYTES = 64 << 20
# measured on a source tree: files packed one by one take 0.56 of what git takes, in such frames 0.5
FRAME_BYTES = 256 << 10
# from here on a content is copied in pieces and never held in memory (test_reading.py)
BIG_BYTES = 4 << 20
BIG = "big"
PLAIN, ZSTD = 0, 1
# halves source trees at the speed of the disk (docs/design.md, 9)
ZSTD_LEVEL = 1
_HEADER = struct.Struct("<4sBHII")
_ENTRY = struct.Struct(f"<{HASH_BYTES}sI")
# a frame's header and the longest table of names that it can have
_MOST_HEAD_BYTES = _HEADER.size + 0xFFFF * _ENTRY.size
_CHUNK = 1 << 20
# no more digits than SQLite's integers hold
_NUMBERED = re.compile(r"([0-9]{8,12})\.pack(?:\.aside)?")
_NAMED = re.compile(f"[0-9a-f]{{{2 * HASH_BYTES}}}")
_COPYING = re.compile(r"[0-9a-f]{16}\.tmp")


class Place(NamedTuple):
    """Where a frame's payload lies. ``pack`` None: a big blob's own file."""

    pack: int | None
    offset: int
    stored: int
    raw: int
    codec: int


# no two threads may be in one decompressor at once (zstandard, thread safety)
_of_thread = threading.local()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Compressed blobs, ready to be appended."""

    names: tuple[tuple[BlobHash, int], ...]
    payload: bytes
    raw: int
    codec: int


class Header(NamedTuple):
    """What a frame says of itself. ``entries``: name, place in the frame and size of each of its blobs."""

    codec: int
    stored: int
    raw: int
    entries: frozenset[tuple[BlobHash, int, int]]


def compressor() -> zstandard.ZstdCompressor:
    """For frames; to be used by one thread. Making one costs as much as packing a small file does."""
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL)


def make_frame(blobs: Sequence[tuple[BlobHash, bytes]], packer: zstandard.ZstdCompressor) -> Frame:
    """Compress ``blobs`` into one frame; plain where compression gains nothing."""
    data = blobs[0][1] if len(blobs) == 1 else b"".join([data for _, data in blobs])
    packed = packer.compress(data)
    # images and archives are compressed already and would grow
    codec, payload = (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)
    names = tuple([(name, len(data)) for name, data in blobs])
    return Frame(names=names, payload=payload, raw=len(data), codec=codec)


def _encode(frame: Frame) -> tuple[bytes, int]:
    """The frame's bytes, and where in them the payload begins."""
    head = _HEADER.pack(MAGIC, frame.codec, len(frame.names), len(frame.payload), frame.raw)
    table = b"".join([_ENTRY.pack(name, size) for name, size in frame.names])
    return head + table + frame.payload, len(head) + len(table)


def header_at_end(region: bytes) -> Header | None:
    """The header of the frame whose payload begins where ``region`` ends; None if it does not end in one."""
    start = region.find(MAGIC)
    while start >= 0 and len(region) - start >= _HEADER.size:
        _, codec, count, stored, raw = _HEADER.unpack_from(region, start)
        table = start + _HEADER.size
        # what lies before may hold these four bytes too, and then leads elsewhere
        if table + count * _ENTRY.size == len(region):
            return Header(codec, stored, raw, _entries(region[table:]))
        start = region.find(MAGIC, start + 1)
    return None


def frames_in(pack: bytes) -> Iterator[tuple[Header, int, bytes]]:
    """Every frame of a whole pack whose header can be read, with the place of its payload and that itself, which may be
    damaged. What lies between is looked through for the next one.
    """
    start = pack.find(MAGIC)
    while start >= 0 and len(pack) - start >= _HEADER.size:
        _, codec, count, stored, raw = _HEADER.unpack_from(pack, start)
        table = start + _HEADER.size
        payload = table + count * _ENTRY.size
        if payload + stored <= len(pack):
            yield Header(codec, stored, raw, _entries(pack[table:payload])), payload, pack[payload : payload + stored]
        # not behind the payload: what says how long that is may be what is damaged
        start = pack.find(MAGIC, start + 1)


def unpacked(header: Header, payload: bytes) -> bytes:
    """The raw bytes of a frame that was found, unchecked; none where it cannot be unpacked."""
    with suppress(zstandard.ZstdError, MemoryError):
        return decompress(payload, Place(None, 0, header.stored, header.raw, header.codec), header.raw)
    return b""


def _entries(table: bytes) -> frozenset[tuple[BlobHash, int, int]]:
    entries, inner = [], 0
    for name, size in _ENTRY.iter_unpack(table):
        entries.append((BlobHash(name), inner, size))
        inner += size
    return frozenset(entries)


class Packs:
    """The ``blobs/`` folder. ``first_pack`` is a number no existing file has: each start opens a fresh pack."""

    def __init__(self, folder: Path, first_pack: int) -> None:
        self.folder = folder
        self.big = folder / BIG
        self._packs = _Held(self.folder)
        self._bigs = _Held(self.big)
        self._lock = threading.Lock()
        self._number = first_pack
        self._fd: int | None = None
        self._offset = 0

    def append(self, frames: Sequence[Frame]) -> list[Place]:
        """Write ``frames`` and make them durable. On any failure the pack is left behind for good."""
        with self._lock:
            try:
                return self._append(frames)
            except BaseException:
                # O_APPEND goes on at the real end of the file, which a short write has moved: every offset counted from
                # here would be wrong (test_a_short_write_closes_the_pack)
                if self._fd is not None:
                    with suppress(OSError):  # what was written in part would keep a full disk full
                        os.ftruncate(self._fd, self._offset)
                self._close()
                raise

    def _append(self, frames: Sequence[Frame]) -> list[Place]:
        # cut short or added to by somebody: what is appended would not be where the offset says
        if self._fd is not None and os.fstat(self._fd).st_size != self._offset:
            self._close()
        if self._fd is None:
            self._open()
        assert self._fd is not None
        chunks: list[bytes] = []
        places: list[Place] = []
        position = self._offset
        for frame in frames:
            encoded, start = _encode(frame)
            chunks.append(encoded)
            places.append(
                Place(
                    pack=self._number,
                    offset=position + start,
                    stored=len(frame.payload),
                    raw=frame.raw,
                    codec=frame.codec,
                )
            )
            position += len(encoded)
        # one write and one sync, however many frames
        write_all(self._fd, b"".join(chunks))
        # fdatasync(2) flushes the new length too, without which the bytes could not be found again; times do not matter
        os.fdatasync(self._fd)
        self._offset = position
        if position >= PACK_BYTES:
            self._close()
        return places

    def _open(self) -> None:
        # O_EXCL: a file of that number is somebody's, and its end may be torn
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(pack_name(self._number), flags, 0o600, dir_fd=self._packs.fd())
        self._offset = 0
        # fsync(2): syncing a file does not make its name durable
        os.fsync(self._packs.fd())

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        # also where nothing is open: a failed start of this number may have left a file
        self._number += 1

    def close(self) -> None:
        """Close the pack that is being written."""
        with self._lock:
            self._close()
        self._packs.close()
        self._bigs.close()

    def numbers(self) -> list[int]:
        """The packs that exist. What somebody put beside them, or in the place of one, is none."""
        return sorted(number for number in taken_numbers(self._packs.fd()) if self._packs.holds(pack_name(number)))

    def remove(self, number: int) -> None:
        """Delete a pack that no row names."""
        os.unlink(pack_name(number), dir_fd=self._packs.fd())

    def set_aside(self, number: int) -> None:
        """Keep a pack out of sight for good."""
        # not deleted: these may be the only bytes of a timeline.db that comes back
        folder = self._packs.fd()
        os.rename(pack_name(number), f"{pack_name(number)}.aside", src_dir_fd=folder, dst_dir_fd=folder)

    def drop_unused(self, used: Collection[int]) -> set[int]:
        """Delete the packs that are not ``used``, and tell which: somebody may just have appended to one of them."""
        with self._lock:
            # what comes next goes into a new file, so that this one can go
            if self._number not in used:
                self._close()
            gone = set(self.numbers()) - {*used, self._number}
            for number in gone:
                self.remove(number)
        return gone

    def drop_big(self, names: Iterable[BlobHash]) -> None:
        """Delete big blobs' own files."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name.hex(), dir_fd=self._bigs.fd())

    def read(self, place: Place, size: int) -> bytes:
        """The first ``size`` raw bytes of a frame in a pack, at least. Raises StoreDamagedError where they cannot be had."""
        assert place.pack is not None
        try:
            fd = os.open(pack_name(place.pack), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._packs.fd())
            try:
                payload = os.pread(fd, place.stored, place.offset)
            finally:
                os.close(fd)
            if len(payload) != place.stored:
                raise StoreDamagedError(f"pack {place.pack} ends before offset {place.offset + place.stored}")
            return decompress(payload, place, size)
        except (OSError, zstandard.ZstdError, MemoryError) as error:  # a damaged frame may claim any size
            require_descriptors(error)
            raise StoreDamagedError(f"pack {place.pack} cannot be read at {place.offset}: {error}") from error

    def header(self, place: Place, after: int) -> Header | None:
        """The header of a frame in a pack, looked for behind ``after``; None where there is none. Raises OSError."""
        assert place.pack is not None
        start = min(max(after, place.offset - _MOST_HEAD_BYTES), place.offset)
        fd = os.open(pack_name(place.pack), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._packs.fd())
        try:
            return header_at_end(os.pread(fd, place.offset - start, start))
        finally:
            os.close(fd)

    def length(self, place: Place, name: BlobHash) -> int | None:
        """How long the file is that ``place`` is in, for a big blob its own; None where there is none."""
        folder, file = (self._packs, pack_name(place.pack)) if place.pack is not None else (self._bigs, name.hex())
        try:
            # a link is followed: a pack may have been moved to another disk
            found = os.stat(file, dir_fd=folder.fd())
        except OSError as error:
            require_descriptors(error)
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def is_obstructed(self, name: BlobHash) -> bool:
        """Whether something that is no file stands where a big blob's own would be."""
        with suppress(FileNotFoundError):
            return not stat.S_ISREG(os.stat(name.hex(), dir_fd=self._bigs.fd()).st_mode)
        return False

    def bigs(self) -> list[str]:
        """The names of the big blobs' files."""
        return [name for name in os.listdir(self._bigs.fd()) if _NAMED.fullmatch(name) and self._bigs.holds(name)]

    def add_big(self, source: BinaryIO) -> tuple[BlobHash, Place]:
        """Copy ``source`` into a file of its own, durable under its hash when this returns."""
        # beside its place: rename(2) is atomic within one file system only
        temporary = f"{os.urandom(8).hex()}.tmp"
        hasher, raw, kept = Hasher(), 0, False
        try:
            with open(temporary, "xb", opener=self._bigs.opener) as out:
                with compressor().stream_writer(out, closefd=False) as packer:
                    while chunk := source.read(_CHUNK):
                        hasher.update(chunk)
                        raw += len(chunk)
                        packer.write(chunk)
                out.flush()
                # before the rename: a name must never lead to bytes that a power cut can take
                os.fsync(out.fileno())
                stored = out.tell()
            name = hasher.digest()
            # the same content may be there already and is replaced by itself; who has it open goes on reading
            os.rename(temporary, name.hex(), src_dir_fd=self._bigs.fd(), dst_dir_fd=self._bigs.fd())
            kept = True
        finally:
            if not kept:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=self._bigs.fd())
        os.fsync(self._bigs.fd())
        return name, Place(pack=None, offset=0, stored=stored, raw=raw, codec=ZSTD)

    def open_big(self, name: BlobHash) -> BinaryIO:
        """A stream over a big blob's raw bytes."""
        try:
            source = open(name.hex(), "rb", opener=self._bigs.opener)  # noqa: SIM115 - the stream reader closes it
        except OSError as error:
            require_descriptors(error)
            raise StoreDamagedError(f"blob {name.hex()[:12]} cannot be opened: {error}") from error
        return io.BufferedReader(_Unpacked(source, name), _CHUNK)

    def prepare(self) -> None:
        """Make the folders and remove what an interrupted copy left behind."""
        self.big.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.fsync(self._packs.fd())
        # a new folder's name lies in the folder above
        fsync_folder(self.folder.parent)
        for name in os.listdir(self._bigs.fd()):
            if _COPYING.fullmatch(name) and self._bigs.holds(name):
                os.unlink(name, dir_fd=self._bigs.fd())


def decompress(payload: bytes, place: Place, size: int) -> bytes:
    """The first ``size`` raw bytes of a payload, at least: the work that a frame takes grows with what is unpacked."""
    if place.codec == PLAIN:
        return payload
    if not hasattr(_of_thread, "decompressor"):  # making one for each frame costs an eighth of the unpacking
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    if size >= place.raw:
        whole: bytes = _of_thread.decompressor.decompress(payload, max_output_size=place.raw)
        return whole
    with _of_thread.decompressor.stream_reader(payload) as reader:
        first: bytes = reader.read(size)
        return first


class _Unpacked(io.RawIOBase):
    """The raw bytes of a big blob's file; damage that the decompressor meets is damage of the store."""

    def __init__(self, source: BinaryIO, name: BlobHash) -> None:
        self._reader = zstandard.ZstdDecompressor().stream_reader(source, closefd=True)
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return self._reader.readinto(buffer)
        except zstandard.ZstdError as error:
            raise StoreDamagedError(f"blob {self._name.hex()[:12]} cannot be unpacked: {error}") from error

    def close(self) -> None:
        self._reader.close()  # type: ignore[no-untyped-call]
        super().close()


class _Held:
    """A folder that is reached by one descriptor from its first use on: moved or replaced, it stays the one that it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd: int | None = None

    def fd(self) -> int:
        """Its descriptor. Raises OSError."""
        with self._lock:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return self._fd

    def opener(self, name: str, flags: int) -> int:
        """For ``open``: a file in it, its owner's alone."""
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self.fd())

    def holds(self, name: str) -> bool:
        """Whether there is a regular file of this name."""
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=self.fd(), follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def taken_numbers(folder: Path | int) -> set[int]:
    """The numbers for which something stands in a ``blobs/`` folder, whatever it is; none where there is no folder."""
    # a reader may come before the first daemon has made anything
    with suppress(FileNotFoundError):
        return {int(found[1]) for name in os.listdir(folder) if (found := _NUMBERED.fullmatch(name))}
    return set()


def pack_name(number: int) -> str:
    """The name of a pack's file."""
    return f"{number:08d}.pack"


def pack_number(file: str) -> int | None:
    """The number of a pack by its file's name; None for one that was set aside, or is none."""
    found = _NUMBERED.fullmatch(file)
    return int(found[1]) if found and not file.endswith(".aside") else None
