"""Which files a block of a test opens below a directory, as the kernel tells it: what is not opened is not read."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Self

_IN_OPEN, _IN_Q_OVERFLOW, _IN_ISDIR = 0x20, 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


class Openings:
    """``files`` are the paths relative to ``top``, in order, once the block is over. Only for directories there before."""

    def __init__(self, top: Path) -> None:
        self.files: list[str] = []
        self._top = top
        self._folders: dict[int, str] = {}
        self._fd = -1

    def __enter__(self) -> Self:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        for folder, _, _ in os.walk(self._top):
            watch = _checked(_libc.inotify_add_watch(self._fd, os.fsencode(folder), ctypes.c_uint32(_IN_OPEN)))
            self._folders[watch] = os.path.relpath(folder, self._top)
        self._take()  # the walk's own
        self.files.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._take()
        os.close(self._fd)

    def _take(self) -> None:
        while data := self._read():
            offset = 0
            while offset < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size + length
                assert not mask & _IN_Q_OVERFLOW
                if not mask & _IN_ISDIR:
                    name = os.fsdecode(data[offset - length : offset].rstrip(b"\0"))
                    self.files.append(os.path.normpath(os.path.join(self._folders[watch], name)))

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return b""


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    return result
