"""Durable file writes, and what the system's refusals mean for the store."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openoxide.errors import FULL_HINT, FailedError, OpenOxideError, StoreFullError

# over the quota is as full as no space: both end when the user frees some
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def write_all(fd: int, data: bytes) -> None:
    """Write every byte; ``os.write`` may stop short."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_file(path: Path, data: bytes) -> None:
    """``path`` holds ``data``, durably and for its owner alone, or what it held before. Two at a time are the caller's to
    prevent: both would write beside it under the same name, which is why nothing of a killed run piles up.
    """
    # beside the target: a rename is atomic within one file system only (rename(2))
    fresh = path.with_name(path.name + ".new")
    # a killed run may have left one; with O_EXCL and not O_TRUNC, so that a link there is never written through
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(fd, data)
            # before the rename: else a crash may leave the new name with none of the bytes (ext4(5), auto_da_alloc)
            os.fsync(fd)
        finally:
            os.close(fd)
        fresh.replace(path)
    # Ctrl-C too: no half file stays beside the target
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    # fsync of a file does not make its name durable (fsync(2))
    fsync_folder(path.parent)


def read_regular(path: Path, *, follow: bool = True) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else, and never waits for a FIFO's other end."""
    with open(open_regular(path, follow=follow), "rb") as file:
        return file.read()


def open_regular(path: Path | str, *, follow: bool = True, dir_fd: int | None = None) -> int:
    """A descriptor to read a regular file with; as :func:`read_regular`."""
    # O_NONBLOCK: to open a FIFO waits for a writer (fifo(7)); it changes nothing for a regular file
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags, dir_fd=dir_fd)
    # asked of the descriptor: the name may lead elsewhere by now
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file")
    return fd


def fsync_file(path: Path) -> None:
    """Make the bytes of a file durable. Of a database this process has open it would give up the locks (fcntl(2))."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_folder(folder: Path) -> None:
    """Make the entries of ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private(folder: Path) -> None:
    """Take everybody else's rights from what is in ``folder``: a restored backup, or a file copied in, may grant them."""
    for directory, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(directory) / name
            # never through a link: chmod would change what it leads to (chmod(2))
            mode = path.lstat().st_mode
            if stat.S_IMODE(mode) & 0o077 and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                path.chmod(stat.S_IMODE(mode) & 0o700)


def require_descriptors(error: BaseException) -> None:
    """Raises FailedError where ``error`` says that no file can be opened any more: it tells nothing about the file."""
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        raise FailedError(
            "the daemon is out of file descriptors",
            hint="raise its limit (`ulimit -n 4096`), then `oxide-ctl stop`; the next command starts it with the new one",
        ) from error


def require_readable(error: BaseException) -> None:
    """Raises FailedError where ``error`` tells nothing about what a stored file holds: none can be opened any more, or
    this one may not be read.
    """
    require_descriptors(error)
    if isinstance(error, PermissionError):
        raise FailedError(
            f"the content store may not be read: {error.strerror}",
            hint="give its owner the rights back with `chmod -R u+rwX` on the home; nothing is lost",
        ) from error


@contextmanager
def write_errors(what: str, unwritable: type[OpenOxideError] = FailedError) -> Iterator[None]:
    """Failures to write ``what`` as errors a user can act on; ``unwritable`` where the right to write is missing."""
    try:
        yield
    except OSError as error:
        require_descriptors(error)
        if error.errno in FULL:
            raise StoreFullError(f"no space left to write {what}", hint=FULL_HINT) from error
        if error.errno in UNWRITABLE:
            raise unwritable(f"{what} cannot be written: {error.strerror}", hint="make it writable") from error
        raise FailedError(f"{what} cannot be written: {error}") from error
