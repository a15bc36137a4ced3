"""A worktree through the descriptor of its root. Nothing here follows a link or leaves the tree.

Every access starts at the root's descriptor, whose (dev, ino) is compared when the tree is opened; below it the kernel
itself refuses links and ``..`` (openat2), or, where it has no openat2, each component is opened with O_NOFOLLOW.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shlex
import stat
import struct
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Self

from openoxide.checkpoints.model import StatIdentity, Worktree, split
from openoxide.errors import RootVanishedError
from openoxide.fileio import require_descriptors
from openoxide.syscalls import birth_ns

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FOLDER = (b"", -1)
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_OPENAT2 = 437  # one number on every Linux architecture
# RESOLVE_* of linux/openat2.h
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
# struct open_how: flags, mode, resolve (openat2(2))
_HOW = struct.Struct("QQQ")
# a plain int would be passed as a C int, and syscall(2) reads a whole register
_HOW_SIZE = ctypes.c_size_t(_HOW.size)
_libc = ctypes.CDLL(None, use_errno=True)
# ENOTDIR and ELOOP: a parent has become a file or a link; EXDEV: openat2's answer to a way out of the tree
# ENAMETOOLONG: nothing can have such a name, as the side file of a database whose own name is near the limit
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG})
# the trees of a daemon share the descriptors of one process (getrlimit(2))
MAX_OPEN_FOLDERS = 64
MOST_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """Names a directory itself, however it is called. ``birth_ns`` is 0 where the system does not tell it."""

    dev: int
    ino: int
    birth_ns: int = 0

    def same_as(self, other: RootIdentity) -> bool:
        """Whether both name one directory, as far as both know: an inode number alone is used again at once."""
        born_alike = self.birth_ns == other.birth_ns or not (self.birth_ns and other.birth_ns)
        return (self.dev, self.ino) == (other.dev, other.ino) and born_alike


def way_back(root: str) -> str:
    """How a root that was deleted is written anew, with its history."""
    at = shlex.quote(root)
    again = f"`oxide-ctl -C {at} restore last --to {at}` (or an older one of `oxide-ctl -C {at} log`)"
    return f"if it was deleted: {again} writes it anew, then {go_on_here(root)}"


def go_on_here(root: str) -> str:
    """How a directory that was made anew at ``root`` gets the history of the one before."""
    at = shlex.quote(root)
    return f"`oxide-ctl projects move {at} {at}` (the same path twice) lets the history go on in the new directory"


def identity_of(path: bytes) -> RootIdentity:
    """The identity of the directory at ``path``. Raises OSError."""
    # O_PATH asks for no right to read the directory (open(2))
    fd = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    try:
        return _identity_of_open(fd)
    finally:
        os.close(fd)


def recorded_identity(worktree: Worktree) -> RootIdentity:
    """The directory that a worktree was when it was last told."""
    return RootIdentity(worktree.dev, worktree.ino, worktree.birth_ns)


def _identity_of_open(fd: int) -> RootIdentity:
    found = os.fstat(fd)
    return RootIdentity(found.st_dev, found.st_ino, birth_ns(fd))


class Tree:
    """One opened worktree. Not for use by two threads at once."""

    def __init__(self, root: bytes, expected: RootIdentity | None = None) -> None:
        self.root = root
        try:
            self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            require_descriptors(error)
            raise RootVanishedError(
                f"{os.fsdecode(root)} cannot be opened: {error.strerror}",
                hint=way_back(os.fsdecode(root)),
            ) from error
        found = _identity_of_open(self.fd)
        self.dev = found.dev
        self._folders: OrderedDict[bytes, int] = OrderedDict()
        self._latest = _NO_FOLDER
        self._one_mount = False
        # a disk that is not mounted, or a directory made anew, must never be recorded as everything deleted
        if expected is not None and not found.same_as(expected):
            self.close()
            raise RootVanishedError(
                f"{os.fsdecode(root)} is not the directory that was watched",
                hint=f"{go_on_here(os.fsdecode(root))}; `oxide-ctl restore CKPT --to DIR` copies its checkpoints out; "
                "`oxide-ctl watch` starts a new history",
            )

    def close(self) -> None:
        self.forget_folders()
        os.close(self.fd)

    def stay_on_mount(self) -> None:
        """From now on whatever lies on something mounted below the root raises OSError (EXDEV)."""
        self._one_mount = True
        # the kept ones were opened without that check
        self.forget_folders()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def folder(self, directory: bytes) -> int:
        """A descriptor of ``directory``, kept open for the next entries in it. Raises OSError."""
        if not directory:
            return self.fd
        # entries of one directory are asked for one after the other
        if directory == self._latest[0]:
            return self._latest[1]
        fd = self._folders.get(directory)
        if fd is None:
            fd = open_beneath(self.fd, directory, _DIRECTORY, one_mount=self._one_mount)
            self._folders[directory] = fd
            if len(self._folders) > MAX_OPEN_FOLDERS:
                os.close(self._folders.popitem(last=False)[1])
        else:
            self._folders.move_to_end(directory)
        self._latest = directory, fd
        return fd

    def is_folder(self, directory: bytes, fd: int) -> bool:
        """Whether ``fd`` is what ``directory`` names now."""
        if not directory:
            return True
        try:
            again = open_beneath(self.fd, directory, _DIRECTORY, one_mount=self._one_mount)
        except OSError:
            return False
        try:
            one, other = os.fstat(again), os.fstat(fd)
            return (one.st_ino, one.st_dev) == (other.st_ino, other.st_dev)
        finally:
            os.close(again)

    def forget_folders(self) -> None:
        """Close the kept descriptors: a directory may have been moved away under one."""
        self._latest = _NO_FOLDER
        while self._folders:
            os.close(self._folders.popitem()[1])

    def lstat(self, path: bytes) -> os.stat_result | None:
        """lstat of ``path``; None where nothing stands there, a parent is gone, or a parent is a link."""
        directory, name = split(path)
        try:
            if not name:
                return os.fstat(self.fd)
            return os.stat(name, dir_fd=self.folder(directory), follow_symlinks=False)
        except OSError as error:
            # EXDEV then is a mount, and what stands there is not gone
            if error.errno in GONE and not (self._one_mount and error.errno == errno.EXDEV):
                return None
            raise

    def open_file(self, path: bytes) -> int:
        """A reading descriptor of a regular file. O_NONBLOCK: a FIFO that took its place must not block us."""
        directory, name = split(path)
        return os.open(name, _READING, dir_fd=self.folder(directory))

    def readlink(self, path: bytes) -> bytes:
        directory, name = split(path)
        return os.readlink(name, dir_fd=self.folder(directory))

    def entries(self, directory: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        """``(name, lstat)`` of each entry, in name order; entries that vanish meanwhile are left out."""
        fd = self.folder(directory)
        # read to the end first: who takes the entries works in the tree, and what readdir gives of a directory that
        # changes meanwhile is unspecified (POSIX)
        with os.scandir(fd) as listing:
            named = [(entry.name.encode(_ENCODING, _ERRORS), entry) for entry in listing]
        named.sort(key=itemgetter(0))  # a listing of a changing directory may hold a name twice
        for name, entry in named:
            try:
                yield name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def mtime_of(found: os.stat_result) -> int:
    """Nanoseconds since the epoch, as far as 64 bits hold them: file systems take years after 2262, a row does not."""
    mtime_ns = found.st_mtime_ns
    # asked for twice for each file that is read, so two comparisons and not two calls
    return mtime_ns if -MOST_NS <= mtime_ns <= MOST_NS else MOST_NS if mtime_ns > 0 else -MOST_NS


def identity(found: os.stat_result, read_at_ns: int) -> StatIdentity:
    """``found`` as the stat a state rests on."""
    return StatIdentity(
        found.st_dev,
        found.st_ino,
        found.st_size,
        mtime_of(found),
        found.st_ctime_ns,
        found.st_mode,
        # a directory's count changes with each directory in it
        found.st_nlink if stat.S_ISREG(found.st_mode) else 1,
        read_at_ns,
    )


def wall_ns() -> int:
    """The clock that file times are taken from; only compared with them, never shown."""
    return time.time_ns()


def _openat2(fd: int, path: bytes, flags: int, resolve: int) -> int:
    how = _HOW.pack(flags, 0, resolve)
    # glibc has no function for it (openat2(2))
    opened: int = _libc.syscall(_OPENAT2, fd, path, how, _HOW_SIZE)
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return opened


def _walk(fd: int, path: bytes, flags: int) -> int:
    *parents, last = path.split(b"/")
    # openat2 refuses a way up by RESOLVE_BENEATH; here nothing else would
    if {b"", b".", b".."}.intersection((*parents, last)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    current = fd
    try:
        for name in parents:
            opened = os.open(name, _DIRECTORY, dir_fd=current)
            if current != fd:
                os.close(current)
            current = opened
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        if current != fd:
            os.close(current)


_has_openat2 = platform.system() == "Linux"


def open_beneath(fd: int, path: bytes, flags: int, *, one_mount: bool = False) -> int:
    """Open ``path`` below ``fd`` without following any link. Raises OSError: ELOOP for a link; EXDEV for a way out, and
    with ``one_mount`` for what lies on another mount (the walk, for want of openat2, sees only another device).
    """
    global _has_openat2  # noqa: PLW0603 - learned once: the kernel or a seccomp filter has it or not
    if _has_openat2 and len(path) < 4000:  # longer paths than PATH_MAX exist; only a walk reaches them
        try:
            return _openat2(fd, path, flags, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH | (_NO_XDEV if one_mount else 0))
        except OSError as error:
            # EPERM is what seccomp filters of containers answer to a call that they do not know (test_tree.py)
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
        _has_openat2 = False
    opened = _walk(fd, path, flags)
    if one_mount and os.fstat(opened).st_dev != os.fstat(fd).st_dev:
        os.close(opened)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    return opened
