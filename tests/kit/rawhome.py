"""Every byte of a home, as somebody reads it who knows the formats: files as they are, and each frame unpacked."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import zstandard
from blake3 import blake3

_HEAD, _ENTRY, _BASE = struct.Struct("<4sBHII"), struct.Struct("<32sI"), struct.Struct("<QIIB")


def texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    """``(where, bytes)``: each file, and what each frame and each compressed file in it unpacks to."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        data = file.read_bytes()
        where = str(file.relative_to(folder))
        yield where, data
        if ".pack" in file.name:
            for offset, payload in _frames(data):
                yield f"{where}@{offset}", payload
        elif file.parent.name == "big":
            yield f"{where} unpacked", zstandard.ZstdDecompressor().stream_reader(data).read()


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    # wherever the four letters stand: a frame that nothing leads to is one as well
    at = data.find(b"OXF1")
    while at >= 0:
        if len(data) - at >= _HEAD.size:
            _, codec, count, stored, raw = _HEAD.unpack_from(data, at)
            begin = at + _HEAD.size + count * _ENTRY.size
            yield at, _unpacked(data, codec, begin, stored, raw)
        at = data.find(b"OXF1", at + 1)


def _unpacked(data: bytes, codec: int, begin: int, stored: int, raw: int) -> bytes:
    payload = data[begin : begin + stored]
    try:
        if codec == 1:
            return zstandard.ZstdDecompressor().decompress(payload, max_output_size=raw)
        if codec == 2:
            offset, length, size, inner = _BASE.unpack_from(payload)
            base = _unpacked(data, inner, offset, length, size)
            words = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            return zstandard.ZstdDecompressor(dict_data=words).decompress(payload[_BASE.size :], max_output_size=raw)
    except (zstandard.ZstdError, struct.error, MemoryError):
        return b""
    return payload


def traces(folder: Path, *contents: bytes) -> list[str]:
    """Where one of ``contents``, or its name in any spelling, stands in ``folder``."""
    needles = []
    for content in contents:
        name = blake3(content).digest()
        needles += [content, name, name.hex().encode(), name.hex()[:12].encode(), b64encode(name)]
    return [where for where, data in texts(folder) if any(needle in data for needle in needles)]
