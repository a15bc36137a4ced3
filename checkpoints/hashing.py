"""Names of content and of states. A blob's name is the BLAKE3 of its bytes; a manifest's is a sum of its entries'.

The sum (mod 2^256) is updated per change, so sealing never visits unchanged paths. It detects damage, not an adversary:
sums of hashes can be forged by someone who chooses the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from blake3 import blake3

from openoxide.checkpoints.model import BlobHash, FileState

HASH_BYTES = 32
_MODULUS = 1 << 256
# a length before the path and fixed widths behind it: no two entries can give the same bytes to hash
_PATH = struct.Struct("<I")
_FIELDS = struct.Struct("<BHqq")


class Hasher:
    """BLAKE3 over a stream."""

    def __init__(self) -> None:
        # one thread, as by default: measured on two cores, more lose below 16 MiB at best and below 100 MiB at worst;
        # and no memory map, a live file that is cut meanwhile would end the process by SIGBUS
        self._state = blake3()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        self._state.update(data)

    def digest(self) -> BlobHash:
        return BlobHash(self._state.digest())


def blob_hash(data: bytes) -> BlobHash:
    """The name of ``data``."""
    return BlobHash(blake3(data).digest())


def _term(path: bytes, state: FileState) -> int:
    kind, mode, size, mtime_ns, blob, target, _, _ = state
    content = blob or target or b""
    entry = _PATH.pack(len(path)) + path + _FIELDS.pack(kind, mode, size, mtime_ns) + content
    return int.from_bytes(blake3(entry).digest(), "little")


def manifest_sum(total: int, changes: Iterable[tuple[bytes, FileState, FileState]]) -> int:
    """``total`` after ``(path, old state, new state)`` changes; what does not exist or is skipped adds nothing."""
    for path, old, new in changes:
        if old.exists:
            total -= _term(path, old)
        if new.exists:
            total += _term(path, new)
    # never negative in Python, also where more was taken off than put on
    return total % _MODULUS


def sum_to_bytes(total: int) -> bytes:
    """32 bytes, little end first: how a sum is stored and shown."""
    return total.to_bytes(HASH_BYTES, "little")


def sum_from_bytes(raw: bytes) -> int:
    """The inverse of :func:`sum_to_bytes`."""
    return int.from_bytes(raw, "little")
