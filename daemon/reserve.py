"""Room for a rewind on a full disk: a file that keeps blocks of it from everybody until one needs them.

What undoes damage must not fail for want of space, and a full disk is when somebody wants it most.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from openoxide.errors import FULL_HINT, FailedError, StoreFullError
from openoxide.fileio import fsync_folder, write_all

log = logging.getLogger(__name__)

RESERVE_BYTES: Final = 64 << 20
# made only where it leaves three times as much to everybody else
ROOM_BYTES: Final = 4 * RESERVE_BYTES
_CHUNK: Final = 1 << 20
_NOTHING_BYTES: Final = 64 << 10

_T = TypeVar("_T")


class Reserve:
    """The file at ``path``. Whoever finds the disk full takes its room (:meth:`spend`); the heartbeat makes it anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """What it keeps; 0 where it is used up, was never made, or was cut off while it was made."""
        with suppress(FileNotFoundError):
            found = self._path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size >= RESERVE_BYTES:
                return found.st_size
        return 0

    def free_bytes(self) -> int:
        """What is free on the disk that it is on."""
        found = os.statvfs(self._path.parent)
        return found.f_bavail * found.f_frsize

    def make(self, least_bytes: int = ROOM_BYTES) -> bool:
        """Make it, where it is not there and ``least_bytes`` are free; whether it is there now."""
        with self._lock:
            if self.size_bytes:
                return True
            try:
                if self.free_bytes() < least_bytes:
                    return False
                # what a kill left of one; never what somebody else put here: O_EXCL refuses that
                with suppress(FileNotFoundError):
                    if stat.S_ISREG(self._path.lstat().st_mode):
                        self._path.unlink()
                self._fill()
                fsync_folder(self._path.parent)
            except OSError as error:  # another came first to the room, or the home refuses: the next beat tries again
                log.info("the reserve was not made: %s", error)
                return False
            return True

    def _fill(self) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, RESERVE_BYTES)
            else:  # macOS: nothing but bytes takes blocks
                for _ in range(RESERVE_BYTES // _CHUNK):
                    write_all(fd, bytes(_CHUNK))
            os.fsync(fd)
        except BaseException:
            self._path.unlink()  # half of one takes room and gives none
            raise
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give its room to whoever needs it now; whether there was any."""
        with self._lock:
            if not self.size_bytes:
                return False
            try:
                self._path.unlink()
                # a file system with a journal has the blocks back when it is committed
                fsync_folder(self._path.parent)
            except OSError as error:
                log.warning("the reserve could not be given up: %s", error)
                return False
            log.warning("the disk is full: the reserve of %d MiB was given up", RESERVE_BYTES >> 20)
            return True

    def spend(self, work: Callable[[], _T]) -> _T:
        """Do ``work``, and where the disk is full once more, with the room of the reserve. What failed for want of space
        must be such that it can be begun anew. Where it fails again the room is taken back. Raises what ``work`` does.
        """
        try:
            return work()
        except (StoreFullError, FailedError) as error:
            # SQLite calls it an I/O error where its -shm finds no room (os_unix.c, unixOpenSharedMemory)
            is_full = isinstance(error, StoreFullError) or self.free_bytes() < _NOTHING_BYTES
            if not is_full:
                raise
            if not self.release():
                raise StoreFullError("the disk that holds the store is full", hint=FULL_HINT) from error
        try:
            return work()
        except BaseException:
            self.make(RESERVE_BYTES)
            raise
