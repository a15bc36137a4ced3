"""System calls that Python does not wrap: rename with flags, syncfs, the order of who waits for a disk, and asking when a
file was made and who writes to it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "linux":
    import fcntl

_libc = ctypes.CDLL(None, use_errno=True)
_LINUX = sys.platform == "linux"
# renameat2 and renameatx_np: the same two wishes, other names and numbers
# None in C libraries older than glibc 2.28: then a path is the conflict `no_exchange` (docs/design.md, 10)
_rename = getattr(_libc, "renameat2" if _LINUX else "renameatx_np", None)
_statx = getattr(_libc, "statx", None) if _LINUX else None
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_KEEP_BIRTH = frozenset({0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994})  # ext, xfs, btrfs, f2fs, tmpfs
_IOPRIO = {"x86_64": (252, 251), "aarch64": (31, 30)}  # the numbers of ioprio_get and ioprio_set
_IOPRIO_WHO_PROCESS, _LAST_OF_BEST_EFFORT = 1, 2 << 13 | 7
_FICLONE = 0x40049409  # linux/fs.h
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
    # the return value before errno, which a call that succeeds does not clear (errno(3))
    if _rename(from_fd, source, to_fd, target, flags) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def clone_blocks(source: int, target: int) -> bool:
    """Let the empty file ``target`` hold what ``source`` holds by sharing its blocks; False, and still empty, where that cannot
    be: another file system, one that cannot, no room.
    """
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        if os.fstat(target).st_size:  # it stopped on the way
            os.ftruncate(target, 0)
        return False
    return True


def sync_filesystem(fd: int) -> None:
    """Make everything written to the file system of ``fd`` durable."""
    # macOS has no call for one file system alone
    if not hasattr(_libc, "syncfs"):
        os.sync()
    elif _libc.syncfs(fd) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def birth_ns(fd: int) -> int:
    """When the file or directory of this descriptor was made, 0 where the system does not tell or may tell otherwise
    later: an overlay has the birth of the layer below until something in the directory is changed.
    """
    # macOS and the BSDs have it in stat; Linux in statx only, and not on every file system
    told: float | None = getattr(os.fstat(fd), "st_birthtime", None)
    if told is not None:
        return int(told * 1e9)
    if _statx is None or _file_system_of(fd) not in _KEEP_BIRTH:
        return 0
    answer = ctypes.create_string_buffer(256)
    if _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, answer) < 0:
        return 0
    # stx_mask stands at 0, stx_btime at 80 (statx(2)); a file system may leave the bit out
    (mask,), (seconds, nanoseconds) = struct.unpack_from("=I", answer), struct.unpack_from("=qI", answer, 80)
    return int(seconds) * 1_000_000_000 + int(nanoseconds) if mask & _STATX_BTIME else 0


@contextmanager
def gentle_io() -> Iterator[None]:
    """For the length of the block this thread, and those it starts, come last of all that wait for the disk. Where the
    system or its scheduler has no such order nothing happens.
    """
    if not _LINUX or os.uname().machine not in _IOPRIO:
        yield
        return
    get, put = _IOPRIO[os.uname().machine]
    before = _libc.syscall(get, _IOPRIO_WHO_PROCESS, 0)
    _libc.syscall(put, _IOPRIO_WHO_PROCESS, 0, _LAST_OF_BEST_EFFORT)
    try:
        yield
    finally:
        _libc.syscall(put, _IOPRIO_WHO_PROCESS, 0, max(0, before))


def _file_system_of(fd: int) -> int:
    """The magic number of its type, the first word of a ``struct statfs``; 0 where that cannot be read."""
    answer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, answer) < 0:
        return 0
    # f_type is signed, and two of the magic numbers have their highest bit set
    return ctypes.c_long.from_buffer(answer).value & 0xFFFF_FFFF


def is_written_to(fd: int) -> bool | None:
    """Whether any process has the file of this reading descriptor open for writing, or mapped so; None where the
    system cannot tell. A read lease is granted only if nobody has (fcntl(2), F_SETLEASE). Where it may not be asked for,
    as of another user's file without CAP_LEASE, the descriptors of all processes that can be seen are looked at instead.
    """
    refusal = _lease_refusal(fd)
    if refusal is None:
        return False if _LINUX else None
    # EAGAIN alone says that somebody writes; any other refusal (a directory, no leases there) says nothing
    return True if refusal == errno.EAGAIN or _is_seen_written_to(fd) else None


def is_surely_written_to(fd: int) -> bool:
    """As far as a lease tells it, which costs two microseconds: nobody else is looked at."""
    return _lease_refusal(fd) == errno.EAGAIN


def _lease_refusal(fd: int) -> int | None:
    """The error of asking for a read lease, which is given back at once; None where it was granted, or cannot be asked."""
    if not _LINUX:
        return None
    try:
        # should somebody open the file right now, the default signal would end us; SIGURG is ignored by default
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        # at once: whoever opens the file for writing waits for a lease to be given up (fcntl(2)). EAGAIN says that it was
        # taken from us meanwhile: for somebody who writes
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno
    return None


def _is_seen_written_to(fd: int) -> bool:
    seen = os.fstat(fd)
    return any(_writes(link) for link in _descriptors_of(seen.st_dev, seen.st_ino))


def _writes(link: Path) -> bool:
    try:
        fields = dict(
            line.split(":\t", 1) for line in (link.parents[1] / "fdinfo" / link.name).read_text().splitlines()
        )
    except (OSError, ValueError):  # closed, or its process gone
        return False
    return int(fields.get("flags", "0"), 8) & os.O_ACCMODE != os.O_RDONLY


def holders(dev: int, ino: int) -> list[int]:
    """Other processes that have this file open, as far as they may be looked at; empty where there is no /proc."""
    # the file is open here too: that is how we came to ask
    return sorted({int(link.parts[2]) for link in _descriptors_of(dev, ino)} - {os.getpid()})


def _descriptors_of(dev: int, ino: int) -> Iterator[Path]:
    """``/proc/PID/fd/N`` of each open file that is this one, as far as processes may be looked at."""
    for process in Path("/proc").glob("[0-9]*"):
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
                yield descriptor
