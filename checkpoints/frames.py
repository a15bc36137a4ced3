"""The bytes of a frame, which is never changed once it is written.

It begins with a header and a table of names::

    magic "OXF1" | codec u8 | blobs u16 | stored u32 | raw u32 | blobs x (hash 32, size u32) | payload

All numbers are little-endian. Codec 0 is plain, 1 is zstd. Codec 2 is zstd too, with the raw bytes of another frame of the
same pack as its dictionary; its payload begins with where that one lies (offset u64 | stored u32 | raw u32 | codec u8), which
has codec 0 or 1, and 8 bytes of the hash of that and of the rest. The table of names lets an index be rebuilt from the files
alone.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import zstandard

from openoxide.checkpoints.hashing import HASH_BYTES, blob_hash
from openoxide.checkpoints.model import BlobHash

MAGIC = b"OXF1"
# measured on a source tree: files packed one by one take 0.56 of what git takes, in such frames 0.5
FRAME_BYTES = 256 << 10
PLAIN, ZSTD, DELTA = 0, 1, 2
# halves source trees at the speed of the disk (docs/design.md, 9)
ZSTD_LEVEL = 1
# below 6 zstd does not find the lines that a dictionary of a megabyte shares with its edit (benchmarks, repack)
DELTA_LEVEL = 6
# as they were packed first, and harder where others were packed by what is blanked
_BLANKING_LEVELS = (ZSTD_LEVEL, 12, 19)
_HEADER = struct.Struct("<4sBHII")
_ENTRY = struct.Struct(f"<{HASH_BYTES}sI")
_BASE = struct.Struct("<QIIB")
_SUM_BYTES = 8
# a frame's header and the longest table of names that it can have
MOST_HEAD_BYTES = _HEADER.size + 0xFFFF * _ENTRY.size


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
    """Compressed blobs, ready to be appended. ``base``: the frame whose raw bytes are its dictionary, earlier in the same
    list of those that are appended together.
    """

    names: tuple[tuple[BlobHash, int], ...]
    payload: bytes
    raw: int
    codec: int
    base: Frame | None = None


class Header(NamedTuple):
    """What a frame says of itself. ``entries``: name, place in the frame and size of each of its blobs."""

    codec: int
    stored: int
    raw: int
    entries: frozenset[tuple[BlobHash, int, int]]


def compressor(level: int = ZSTD_LEVEL) -> zstandard.ZstdCompressor:
    """For frames; to be used by one thread. Making one costs as much as packing a small file does."""
    return zstandard.ZstdCompressor(level=level)


def make_frame(blobs: Sequence[tuple[BlobHash, bytes]], packer: zstandard.ZstdCompressor) -> Frame:
    """Compress ``blobs`` into one frame; plain where compression gains nothing."""
    data = blobs[0][1] if len(blobs) == 1 else b"".join([data for _, data in blobs])
    packed = packer.compress(data)
    # images and archives are compressed already and would grow
    codec, payload = (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)
    names = tuple([(name, len(data)) for name, data in blobs])
    return Frame(names=names, payload=payload, raw=len(data), codec=codec)


def make_delta(blobs: Sequence[tuple[BlobHash, bytes]], base: Frame, dictionary: bytes) -> Frame:
    """Compress ``blobs`` as what they differ in from ``dictionary``, the raw bytes of ``base``."""
    data = b"".join([data for _, data in blobs])
    parameters = zstandard.ZstdCompressionParameters.from_level(
        # the window has to reach over both, or the beginning of the dictionary is out of sight
        DELTA_LEVEL,
        source_size=len(data),
        dict_size=len(dictionary),
        window_log=max(20, (len(data) + len(dictionary)).bit_length()),
    )
    raw = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    payload = zstandard.ZstdCompressor(dict_data=raw, compression_params=parameters).compress(data)
    names = tuple([(name, len(data)) for name, data in blobs])
    return Frame(names=names, payload=payload, raw=len(data), codec=DELTA, base=base)


def lay_out(frames: Sequence[Frame], pack: int, offset: int) -> tuple[bytes, list[Place]]:
    """The bytes of ``frames`` from ``offset`` of ``pack`` on, and where each one's payload lies."""
    chunks: list[bytes] = []
    places: dict[int, Place] = {}
    for frame in frames:
        head = _HEADER.pack(MAGIC, frame.codec, len(frame.names), stored_bytes(frame), frame.raw)
        table = table_of(frame.names)
        start = offset + len(head) + len(table)
        places[id(frame)] = Place(pack, start, stored_bytes(frame), frame.raw, frame.codec)
        chunks += [head, table]
        if frame.base is not None:
            base = _BASE.pack(*places[id(frame.base)][1:])
            chunks += [base, _sum(base, frame.payload)]
        chunks.append(frame.payload)
        offset = start + stored_bytes(frame)
    return b"".join(chunks), [places[id(frame)] for frame in frames]


def stored_bytes(frame: Frame) -> int:
    """How long its payload is in a pack."""
    return len(frame.payload) + (0 if frame.base is None else _BASE.size + _SUM_BYTES)


def head_bytes(blobs: int) -> int:
    """How long what stands before the payload of a frame with so many blobs is."""
    return _HEADER.size + blobs * _ENTRY.size


def base_of(payload: bytes, place: Place) -> Place:
    """Where the dictionary of a payload with the codec DELTA lies. Raises ValueError."""
    base, told, rest = payload[: _BASE.size], payload[_BASE.size :][:_SUM_BYTES], payload[_BASE.size + _SUM_BYTES :]
    # a bit of either may well be turned over and give the same bytes: what a match is copied from stands in many places
    if told != _sum(base, rest):
        raise ValueError("it is not what was written")
    return Place(place.pack, *_BASE.unpack(base))


def _sum(base: bytes, payload: bytes) -> bytes:
    return blob_hash(base + payload)[:_SUM_BYTES]


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


def frames_in(pack: bytes) -> Iterator[tuple[Header, int]]:
    """Every frame of a whole pack whose header can be read, with the place of its payload, which may be damaged. What lies
    between is looked through for the next one.
    """
    start = pack.find(MAGIC)
    while start >= 0 and len(pack) - start >= _HEADER.size:
        _, codec, count, stored, raw = _HEADER.unpack_from(pack, start)
        table = start + _HEADER.size
        payload = table + count * _ENTRY.size
        if payload + stored <= len(pack):
            yield Header(codec, stored, raw, _entries(pack[table:payload])), payload
        # not behind the payload: what says how long that is may be what is damaged
        start = pack.find(MAGIC, start + 1)


def unpacked(pack: bytes, place: Place) -> bytes:
    """The raw bytes of a frame of a whole pack, unchecked; none where it cannot be unpacked."""
    payload, dictionary = pack[place.offset : place.offset + place.stored], b""
    with suppress(zstandard.ZstdError, ValueError, MemoryError):
        if place.codec == DELTA:
            base = base_of(payload, place)
            # what another differs from differs from none itself
            dictionary = unpacked(pack, base) if base.codec != DELTA else b""
        return decompress(payload, place, place.raw, dictionary)
    return b""


class Span(NamedTuple):
    """A frame as it lies in a file: where it begins, where its payload does and where it ends; ``names`` with sizes."""

    start: int
    payload: int
    end: int
    codec: int
    raw: int
    names: tuple[tuple[BlobHash, int], ...]


def spans(fd: int) -> Iterator[Span]:
    """The frames of a pack one behind the other, up to its end or to where none begins."""
    start, size = 0, os.fstat(fd).st_size
    while True:
        head = os.pread(fd, _HEADER.size, start)
        if len(head) < _HEADER.size or not head.startswith(MAGIC):
            return
        _, codec, count, stored, raw = _HEADER.unpack(head)
        payload = start + head_bytes(count)
        if payload + stored > size:
            return
        table = os.pread(fd, count * _ENTRY.size, start + _HEADER.size)
        names = tuple((BlobHash(name), length) for name, length in _ENTRY.iter_unpack(table))
        yield Span(start, payload, payload + stored, codec, raw, names)
        start = payload + stored


def table_of(names: Iterable[tuple[BlobHash, int]]) -> bytes:
    """A frame's table of names."""
    return b"".join([_ENTRY.pack(name, size) for name, size in names])


def blanked(payload: bytes, span: Span, gone: Sequence[bool]) -> bytes:
    """``payload`` with zeros for what is gone, as long as before; nothing but zeros where that cannot be had."""
    try:
        data = bytearray(payload if span.codec == PLAIN else _alone(payload, span))
    except (zstandard.ZstdError, MemoryError):  # a damaged frame may claim any size
        return bytes(len(payload))
    inner = 0
    for (_, size), is_gone in zip(span.names, gone, strict=True):
        if is_gone:
            data[inner : inner + size] = bytes(size)
        inner += size
    if span.codec == PLAIN:
        return bytes(data)
    tried = (zstandard.ZstdCompressor(level=level).compress(bytes(data)) for level in _BLANKING_LEVELS)
    fitting = next((packed for packed in tried if len(packed) <= len(payload)), b"")
    # zstd stops at the end of its frame, and does not look at what follows
    return fitting.ljust(len(payload), b"\0")


def _alone(payload: bytes, span: Span) -> bytes:
    if span.codec != ZSTD:
        raise zstandard.ZstdError("it needs another frame")
    return zstandard.ZstdDecompressor().decompress(payload, max_output_size=span.raw)


def _entries(table: bytes) -> frozenset[tuple[BlobHash, int, int]]:
    entries, inner = [], 0
    for name, size in _ENTRY.iter_unpack(table):
        entries.append((BlobHash(name), inner, size))
        inner += size
    return frozenset(entries)


def decompress(payload: bytes, place: Place, size: int, dictionary: bytes = b"") -> bytes:
    """The first ``size`` raw bytes of a payload, at least: the work that a frame takes grows with what is unpacked."""
    if place.codec == PLAIN:
        return payload
    if place.codec == DELTA:
        raw = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return _unpack(zstandard.ZstdDecompressor(dict_data=raw), payload[_BASE.size + _SUM_BYTES :], place, size)
    if not hasattr(_of_thread, "decompressor"):  # making one for each frame costs an eighth of the unpacking
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    return _unpack(_of_thread.decompressor, payload, place, size)


def _unpack(decompressor: zstandard.ZstdDecompressor, payload: bytes, place: Place, size: int) -> bytes:
    if size >= place.raw:
        return decompressor.decompress(payload, max_output_size=place.raw)
    with decompressor.stream_reader(payload) as reader:
        return reader.read(size)
