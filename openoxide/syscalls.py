"""System calls that Python does not wrap: rename with flags, syncfs, and asking who writes to a file."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from pathlib import Path

if sys.platform == "linux":
    import fcntl

_libc = ctypes.CDLL(None, use_errno=True)
_LINUX = sys.platform == "linux"
# renameat2 and renameatx_np: the same two wishes, other names and numbers
_rename = getattr(_libc, "renameat2" if _LINUX else "renameatx_np", None)
_EXCHANGE, _NOREPLACE = (2, 1) if _LINUX else (2, 4)


def rename_exclusive(from_fd: int, source: bytes, to_fd: int, target: bytes) -> None:
    """Rename without ever replacing. Raises FileExistsError, other OSError."""
    _rename_flags(from_fd, source, to_fd, target, _NOREPLACE)


def exchange(from_fd: int, source: bytes, to_fd: int, target: bytes) -> None:
    """Swap two entries in one step; both exist before and after. Raises OSError."""
    _rename_flags(from_fd, source, to_fd, target, _EXCHANGE)


def _rename_flags(from_fd: int, source: bytes, to_fd: int, target: bytes, flags: int) -> None:
    if _rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
    if _rename(from_fd, source, to_fd, target, flags) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def sync_filesystem(fd: int) -> None:
    """Make everything written to the file system of ``fd`` durable."""
    if not hasattr(_libc, "syncfs"):
        os.sync()
    elif _libc.syncfs(fd) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def is_written_to(fd: int) -> bool | None:
    """Whether any process has the file of this reading descriptor open for writing, or mapped so; None where the
    system cannot tell. A read lease is granted only if nobody has (fcntl(2), F_SETLEASE).
    """
    if not _LINUX:
        return None
    try:
        # should somebody open the file right now, the default signal would end us; SIGURG is ignored by default
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def holders(dev: int, ino: int) -> list[int]:
    """Other processes that have this file open, as far as they may be looked at; empty where there is no /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            descriptors = list((process / "fd").iterdir())
        except OSError:  # gone, or another user's
            continue
        for descriptor in descriptors:
            try:
                seen = descriptor.stat()
            except OSError:
                continue
            if (seen.st_dev, seen.st_ino) == (dev, ino):
                found.append(int(process.name))
                break
    return sorted(found)
