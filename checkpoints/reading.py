"""Reading one entry as it really was: stable across the read, or marked torn.

The stat before and after a read must agree, and a SQLite database is read together with its side files, which must all
stand still: a main file and a WAL of different moments are not a state the database ever had.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from openoxide.checkpoints.hashing import Hasher, blob_hash
from openoxide.checkpoints.model import (
    SQLITE_SUFFIXES,
    BlobHash,
    FileState,
    Kind,
    Observed,
    SkipReason,
    StatIdentity,
    skipped,
)
from openoxide.checkpoints.packs import BIG_BYTES
from openoxide.checkpoints.tree import Tree, identity, mtime_of, wall_ns
from openoxide.syscalls import is_surely_written_to

SQLITE_MAGIC = b"SQLite format 3\0"
_FILE = Kind.FILE  # looked up by the ten thousand, and an enum's members are slow to reach
# then the state is marked torn and the path looked at again later (Capture.torn)
_ATTEMPTS = 3
_CHUNK = 1 << 20
_MODE_BITS = 0o7777  # what stat.S_IMODE leaves, without a call for each file
MAPPED_NS = 120 * 10**9  # dirty pages are written back after 30 s (vm.dirty_expire_centisecs), looked for every 5 s
# EISDIR: a directory took the file's place; an event of its own tells of it
# ELOOP: a link did; ENXIO: a socket did (open(2))
_VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EISDIR})
# EIO: one bad sector must not end the capture of everything else
_UNREADABLE = frozenset({errno.EACCES, errno.EPERM, errno.EIO})
_SPECIAL = {
    stat.S_IFIFO: b"fifo",
    stat.S_IFSOCK: b"socket",
    stat.S_IFCHR: b"char",
    stat.S_IFBLK: b"block",
}

StoreBig = Callable[[BinaryIO], BlobHash]


class Found(NamedTuple):
    """An entry as it was read; ``data`` is its content where that still has to be stored."""

    observed: Observed
    data: bytes | None = None


def read_simple(tree: Tree, path: bytes, found: os.stat_result, read_at_ns: int) -> Found | None:
    """A directory, link or special file; None for a regular file."""
    if stat.S_ISREG(found.st_mode):
        return None
    mode = stat.S_IMODE(found.st_mode)
    seen = identity(found, read_at_ns)
    if stat.S_ISDIR(found.st_mode):
        return Found(observed=Observed(path=path, state=FileState(kind=Kind.DIRECTORY, mode=mode), identity=seen))
    if stat.S_ISLNK(found.st_mode):
        target = tree.readlink(path)
        # without a mode: that of a link means nothing (symlink(7))
        state = FileState(kind=Kind.SYMLINK, size=len(target), target=target)
        return Found(observed=Observed(path=path, state=state, identity=seen))
    special = _SPECIAL.get(stat.S_IFMT(found.st_mode), b"special")
    state = FileState(kind=Kind.SPECIAL, mode=mode, target=special)
    return Found(observed=Observed(path=path, state=state, identity=seen))


def read_file(
    tree: Tree, path: bytes, seen: os.stat_result, store_big: StoreBig, known: FileState | None
) -> Found | None:
    """A regular file, read stable; None where it vanished. ``seen``: its lstat, which the one after the read must
    equal. ``known``: its last state, to spare a big copy.
    """
    last: Found | None = None
    before: os.stat_result | None = seen
    try:
        for _ in range(_ATTEMPTS):
            if before is None or not stat.S_ISREG(before.st_mode):
                return None
            last, stable = _read_once(tree, path, before, store_big, known)
            if stable:
                break
            before = tree.lstat(path)
    except OSError as error:
        if error.errno in _VANISHED:
            return None
        if error.errno not in _UNREADABLE:
            raise
        return _unreadable(tree, path)
    return last


def _read_once(
    tree: Tree, path: bytes, before: os.stat_result, store_big: StoreBig, known: FileState | None
) -> tuple[Found, bool]:
    fd = tree.open_file(path)
    try:
        # the time before the read: what is written while it goes on leaves a stat that is too young to prove anything
        read_at_ns = wall_ns()
        if before.st_size >= BIG_BYTES:
            data, name, size, sqlite = None, *_read_big(fd, store_big, known)
        else:
            data = _read_all(fd, before.st_size)
            name, size, sqlite = blob_hash(data), len(data), data.startswith(SQLITE_MAGIC)
        after = os.fstat(fd)
        # a store into a page that is dirty already changes no time; the page is written back within the minute
        young = read_at_ns - after.st_mtime_ns < MAPPED_NS
        proven_ns = 0 if young and is_surely_written_to(fd) else read_at_ns
    finally:
        os.close(fd)
    stable = _same_entry(before, after) and size == after.st_size
    state = FileState(_FILE, after.st_mode & _MODE_BITS, size, mtime_of(after), name, None, not stable, sqlite)
    return Found(Observed(path, state, identity(before, proven_ns)), data), stable


def _same_entry(a: os.stat_result, b: os.stat_result) -> bool:
    return (a.st_ino, a.st_size, a.st_mtime_ns, a.st_ctime_ns, a.st_mode, a.st_dev) == (
        b.st_ino, b.st_size, b.st_mtime_ns, b.st_ctime_ns, b.st_mode, b.st_dev)  # fmt: skip


def _read_all(fd: int, expected: int) -> bytes:
    # one more than expected: fewer bytes than asked for are the end of the file, and no second call has to tell
    data = os.read(fd, expected + 1)
    if len(data) == expected:
        return data
    chunks = [data]
    while chunk := os.read(fd, _CHUNK):
        chunks.append(chunk)
    return b"".join(chunks)


def _read_big(fd: int, store_big: StoreBig, known: FileState | None) -> tuple[BlobHash, int, bool]:
    with open(fd, "rb", closefd=False) as source:
        sqlite = source.peek(len(SQLITE_MAGIC)).startswith(SQLITE_MAGIC)
        # hashed first where the size is the same: a file that was only touched is not copied again
        if known is not None and known.blob is not None and known.size == os.fstat(fd).st_size:
            hasher, size = Hasher(), 0
            while chunk := source.read(_CHUNK):
                hasher.update(chunk)
                size += len(chunk)
            if hasher.digest() == known.blob:
                return known.blob, size, sqlite
            source.seek(0)
        name = store_big(source)
        return name, source.tell(), sqlite


def _unreadable(tree: Tree, path: bytes) -> Found | None:
    found = tree.lstat(path)
    if found is None:
        return None
    seen = identity(found, wall_ns())
    return Found(observed=Observed(path=path, state=skipped(SkipReason.UNREADABLE, found.st_size), identity=seen))


def read_unit(tree: Tree, base: bytes, read_one: Callable[[bytes], Found | None]) -> list[Found]:
    """A SQLite database and its side files as one state: all of them stood still while all were read."""
    paths = [base, *(base + suffix for suffix in SQLITE_SUFFIXES)]
    members: list[Found] = []
    for _ in range(_ATTEMPTS):
        before = _stats(tree, paths)
        # a folder or a link of such a name is none of SQLite's, and is looked at for itself
        files = [path for path, seen in before.items() if seen is not None and stat.S_ISREG(seen.mode)]
        members = [found for path in files if (found := read_one(path)) is not None]
        if _stats(tree, paths) == before:
            return members
    return [_torn(member) for member in members]


def _stats(tree: Tree, paths: list[bytes]) -> dict[bytes, StatIdentity | None]:
    found = {path: tree.lstat(path) for path in paths}
    return {path: identity(seen, 0) if seen is not None else None for path, seen in found.items()}


def _torn(member: Found) -> Found:
    seen = member.observed
    if seen.state.kind is not Kind.FILE:
        return member
    return member._replace(observed=seen._replace(state=seen.state._replace(torn=True)))
