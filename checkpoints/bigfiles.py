"""The file of a big blob: its bytes as they are, sharing the blocks of the file that they were read from, or zstd.

Which of the two it is, the file says by itself: what begins with zstd's magic number is zstd, so bytes that begin so are never
stored as they are.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

import zstandard

from openoxide.checkpoints.frames import PLAIN, ZSTD, compressor
from openoxide.checkpoints.hashing import Hasher
from openoxide.checkpoints.model import BlobHash
from openoxide.errors import StoreDamagedError
from openoxide.syscalls import clone_blocks

CHUNK = 1 << 20
# below it a file is not worth an extent of its own, and zstd makes it smaller
CLONE_BYTES = 4 << 20
_MAGIC = zstandard.FRAME_HEADER


def codec_at(fd: int) -> int:
    """The codec of a big blob's open file."""
    return ZSTD if os.pread(fd, len(_MAGIC), 0) == _MAGIC else PLAIN


def write_big_file(source: BinaryIO, out: BinaryIO, codec: int | None = None) -> tuple[BlobHash, int, int]:
    """Write what ``source`` holds to the empty ``out``; its name, length and codec, which is free to choose where it is None.
    ``source`` is at its end then.
    """
    if codec is None and _cloned(source, out):
        # of the clone, which nobody else writes to: the source may change while it is read
        with open(out.fileno(), "rb", closefd=False) as clone:
            name, raw = _passed(clone, None)
        source.seek(raw)
        return name, raw, PLAIN
    if codec == PLAIN:
        return *_passed(source, out), PLAIN
    with compressor().stream_writer(out, closefd=False) as packer:
        return *_passed(source, packer), ZSTD


def _cloned(source: BinaryIO, out: BinaryIO) -> bool:
    try:
        whole = source.tell() == 0 and os.fstat(source.fileno()).st_size >= CLONE_BYTES
    except OSError:  # no file, but bytes in memory or what is being unpacked
        return False
    if not whole or not clone_blocks(source.fileno(), out.fileno()):
        return False
    if codec_at(out.fileno()) == PLAIN:
        return True
    os.ftruncate(out.fileno(), 0)
    return False


def _passed(source: BinaryIO, out: Any) -> tuple[BlobHash, int]:
    hasher, raw = Hasher(), 0
    while chunk := source.read(CHUNK):
        hasher.update(chunk)
        raw += len(chunk)
        if out is not None:
            out.write(chunk)
    return hasher.digest(), raw


def raw_bytes_of(source: BinaryIO, name: BlobHash) -> BinaryIO:
    """A stream over the raw bytes of a big blob's open file, which it closes; with a descriptor of its own where these are what
    the file holds.
    """
    if codec_at(source.fileno()) == PLAIN:
        return source
    return io.BufferedReader(_Unpacked(source, name), CHUNK)


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
