"""The hidden folder at a worktree's root where a rewind prepares what it will place and puts what it displaced.

It has an ignore-all file of its own and is never recorded. Nothing in it is deleted before everything that is not ours,
and not in the store already, has been stored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from openoxide.checkpoints.blobs import copy_blob, require_whole
from openoxide.checkpoints.hashing import Hasher
from openoxide.checkpoints.model import STAGING_NAME, BlobHash, FileState, Kind
from openoxide.checkpoints.steps import NEW_FOLDER_MODE, Action, Step, is_staged_name
from openoxide.checkpoints.tree import Tree, mtime_of
from openoxide.errors import RefusedError, StoreDamagedError
from openoxide.fileio import require_descriptors
from openoxide.syscalls import is_written_to, sync_filesystem

FEW_FILES = 8  # up to here one fsync each is cheaper than syncfs, which waits for everybody's dirty pages
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_CHUNK = 1 << 20
# O_NOFOLLOW: a link of our name would lead what we write out of the tree
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

OpenBlob = Callable[[BlobHash], BinaryIO]


def open_staging(tree: Tree) -> int:
    """The staging folder of a tree, made on demand. Raises RefusedError where something else has its name."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(STAGING_NAME, 0o700, dir_fd=tree.fd)
    try:
        folder = os.open(STAGING_NAME, _FOLDER, dir_fd=tree.fd)
    except OSError as error:
        require_descriptors(error)
        place = os.fsdecode(tree.root + b"/" + STAGING_NAME)
        raise RefusedError(f"{place} is not a directory of ours", hint="move it away and try again") from error
    # in a shared tree somebody could have made it first and would own what we put into it
    if os.fstat(folder).st_uid != os.geteuid():
        os.close(folder)
        place = os.fsdecode(tree.root + b"/" + STAGING_NAME)
        raise RefusedError(f"{place} belongs to another user", hint="move it away and try again")
    # one that was there may be open to others, and copies of private files will lie in it
    os.fchmod(folder, 0o700)
    # only ever made, never opened: whatever else has this name is not ours to write to
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError):
        ignore = os.open(".gitignore", flags, 0o600, dir_fd=folder)
        try:
            os.write(ignore, b"*\n")
        finally:
            os.close(ignore)
    return folder


def make_operation_folder(staging: int, name: str) -> int:
    """A new folder for one operation."""
    os.mkdir(name, 0o700, dir_fd=staging)
    return os.open(name, _FOLDER, dir_fd=staging)


def open_operation_folder(staging: int, name: str) -> int:
    """The folder of an operation. Raises FileNotFoundError."""
    return os.open(name, _FOLDER, dir_fd=staging)


def require_staged(steps: Iterable[Step], open_blob: OpenBlob) -> None:
    """Raises what :meth:`Stager.stage` would of the contents of ``steps``; nothing is written."""
    damaged = []
    for step in _as_stored(steps):
        if step.action is Action.PLACE and step.new.blob is not None:
            try:
                require_whole(open_blob, step.new.blob)
            except StoreDamagedError as error:
                damaged.append((step.path, error))
    _refuse_damaged(damaged)


def _as_stored(steps: Iterable[Step]) -> list[Step]:
    """In path order, as captures store files: neighbours lie in one frame, which is unpacked once."""
    return sorted(steps, key=lambda step: step.path)


def _refuse_damaged(damaged: Sequence[tuple[bytes, StoreDamagedError]]) -> None:
    if not damaged:
        return
    files = "1 stored file is" if len(damaged) == 1 else f"{len(damaged)} stored files are"
    raise StoreDamagedError(
        f"{files} damaged, first {os.fsdecode(damaged[0][0])!r}: {damaged[0][1]}",
        hint="nothing was changed; --partial leaves these paths out, `oxide-ctl repair` may bring them back",
        details={"paths": [os.fsdecode(path) for path, _ in damaged]},
    )


class Stager:
    """Writes what an operation will place into its folder."""

    def __init__(self, tree: Tree, folder: int, open_blob: OpenBlob) -> None:
        self._tree = tree
        self._folder = folder
        self._open_blob = open_blob
        self.notes: list[str] = []

    def stage(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """Write what will be placed, durable when this returns. Raises StoreDamagedError that names all bad paths."""
        staged, damaged = [], []
        for step in _as_stored(steps):
            if step.action is not Action.PLACE:
                staged.append(step)
                continue
            try:
                staged.append(step._replace(new_ino=self._write(step)))
            except StoreDamagedError as error:
                damaged.append((step.path, error))
        _refuse_damaged(damaged)
        self._sync([s.staged_name for s in staged if s.action is Action.PLACE and s.new.kind is Kind.FILE])
        return tuple(sorted(staged, key=lambda step: step.number))

    def _write(self, step: Step) -> int:
        """Make the entry; its inode number."""
        name, new = step.staged_name, step.new
        if new.kind is Kind.FILE:
            return self._write_file(step)
        if new.kind is Kind.DIRECTORY:
            os.mkdir(name, NEW_FOLDER_MODE, dir_fd=self._folder)
        elif new.kind is Kind.SYMLINK:
            os.symlink(new.target or b"", name.encode(), dir_fd=self._folder)
        else:
            os.mkfifo(name, 0o600, dir_fd=self._folder)
            # by name: opening a FIFO to get a descriptor would wait for its other end, fifo(7)
            os.chmod(name, self._mode_for(step), dir_fd=self._folder)
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_ino

    def _write_file(self, step: Step) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        assert step.new.blob is not None
        # readable by the owner only until it is complete; the mode that it ends with comes last but for the time
        fd = os.open(step.staged_name, flags, 0o600, dir_fd=self._folder)
        try:
            with self._open_blob(step.new.blob) as source:
                copy_blob(source, fd, step.new.blob)
            os.fchmod(fd, self._mode_for(step))
            # after the last write, which would set it again
            os.utime(fd, ns=(step.new.mtime_ns, step.new.mtime_ns))
            return os.fstat(fd).st_ino
        finally:
            os.close(fd)

    def _mode_for(self, step: Step) -> int:
        """setuid, setgid and sticky only where the file is the user's own already, or the tree is."""
        mode = step.new.mode
        if not mode & _SPECIAL_BITS:
            return mode
        # what is placed will be ours: with a set-id bit on what was another's, others would act with our rights
        live = self._tree.lstat(step.path) or os.fstat(self._tree.fd)
        if live.st_uid == os.geteuid():
            return mode
        self.notes.append(f"{os.fsdecode(step.path)!r}: setuid, setgid and sticky bits were left out")
        return mode & ~_SPECIAL_BITS

    def _sync(self, names: Sequence[str]) -> None:
        if len(names) > FEW_FILES:
            sync_filesystem(self._folder)
            return
        for name in names:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        # the names are in the folder: fsync(2) of the files does not keep them
        os.fsync(self._folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strays:
    """What an operation's folder holds beside what it may: ``files`` with an open reading descriptor each, for the caller
    to close; ``busy`` while a process can still write to one; ``folders`` that are not empty.
    """

    files: tuple[tuple[Step, int], ...] = ()
    folders: tuple[Step, ...] = ()
    busy: bool = False


def strays(folder: int, steps: Iterable[Step]) -> Strays:
    """Entries that hold neither what the step was to place nor what it expected to displace: what a process wrote late,
    or saved in the middle. Every file is hashed: an inode number or a stat proves nothing about bytes.
    """
    files, folders, busy = [], [], False
    for step in steps:
        try:
            seen = os.stat(step.staged_name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                if not _is_empty(folder, step.staged_name):
                    folders.append(step)
                continue
            # a link holds nothing but its target, a FIFO nothing at all: both stand in the timeline as a whole
            if not stat.S_ISREG(seen.st_mode):
                continue
            fd = os.open(step.staged_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            continue
        # the lease before the hash: a writer that is there could change what was hashed already
        busy = busy or bool(is_written_to(fd))
        if hash_of(fd) in (step.old.blob, step.new.blob):
            os.close(fd)
        else:
            files.append((step, fd))
    return Strays(files=tuple(files), folders=tuple(folders), busy=busy)


def _is_empty(folder: int, name: str) -> bool:
    fd = os.open(name, _FOLDER, dir_fd=folder)
    try:
        return not os.listdir(fd)
    finally:
        os.close(fd)


def looks_like(found: os.stat_result, expected: FileState) -> bool:
    """Whether a stat is that of ``expected``, as far as a stat can tell."""
    if stat.S_ISREG(found.st_mode):
        same = (expected.mode, expected.size, expected.mtime_ns)
        return expected.kind is Kind.FILE and (stat.S_IMODE(found.st_mode), found.st_size, mtime_of(found)) == same
    if stat.S_ISLNK(found.st_mode):
        return expected.kind is Kind.SYMLINK
    if stat.S_ISDIR(found.st_mode):
        return expected.kind is Kind.DIRECTORY
    return expected.kind is Kind.SPECIAL and stat.S_ISFIFO(found.st_mode) == (expected.target == b"fifo")


def hash_of(fd: int) -> BlobHash:
    """The name of what ``fd`` holds from its start."""
    hasher, offset, length = Hasher(), 0, os.fstat(fd).st_size
    # no larger a buffer than the file: the system hands out and takes back a large one for each call
    size = min(_CHUNK, length + 1)
    while chunk := os.pread(fd, size, offset):
        hasher.update(chunk)
        offset += len(chunk)
        # fewer bytes than asked for are the end of the file, and no further call has to tell
        if len(chunk) < size and offset == length:
            break
    return hasher.digest()


def staged_of(staging: int, spared: Collection[str], names: Collection[BlobHash]) -> list[tuple[str, str]]:
    """Files of ours in a staging folder that hold one of the contents: the operation's folder, but for those that are
    ``spared``, and the name.
    """
    found = []
    for operation in sorted({*os.listdir(staging)} - {*spared}):
        try:
            folder = open_operation_folder(staging, operation)
        except OSError:  # the ignore file, or what somebody else put there
            continue
        try:
            held = (name for name in os.listdir(folder) if is_staged_name(name) and _hash_at(folder, name) in names)
            found += [(operation, name) for name in held]
        finally:
            os.close(folder)
    return found


def _hash_at(folder: int, name: str) -> BlobHash | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # a link, or gone
        return None
    try:
        return hash_of(fd) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def drop_staged(staging: int, spared: Collection[str], names: Collection[BlobHash]) -> None:
    """Delete what :func:`staged_of` finds."""
    for operation, name in staged_of(staging, spared, names):
        folder = open_operation_folder(staging, operation)
        try:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)


def delete_operation_folder(staging: int, name: str) -> None:
    """Delete an operation's folder with all that is ours in it. What somebody else put there stays, and the folder too."""
    try:
        folder = open_operation_folder(staging, name)
    except FileNotFoundError:
        return
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry, is_directory in found:
            if is_staged_name(entry):
                _delete(folder, entry, is_directory=is_directory)
    finally:
        os.close(folder)
    _delete(staging, name, is_directory=True)


def _delete(folder: int, name: str, *, is_directory: bool) -> None:
    if not is_directory:
        os.unlink(name, dir_fd=folder)
        return
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        # ours are empty: it holds what somebody put there
        if error.errno != errno.ENOTEMPTY:
            raise


def find_staging(tree: Tree) -> int | None:
    """The staging folder of a tree, None where there is none."""
    try:
        # any failure, also a link or a file of that name: then nothing of ours is in there
        return os.open(STAGING_NAME, _FOLDER, dir_fd=tree.fd)
    except OSError:
        return None


def remove_staging(tree: Tree) -> None:
    """Remove the staging folder if no operation has anything in it."""
    folder = find_staging(tree)
    if folder is None:
        return
    try:
        # anything else belongs to another operation, or to somebody who put it here
        if set(os.listdir(folder)) <= {".gitignore"}:
            with contextlib.suppress(FileNotFoundError):  # a crash may have come before it was made
                os.unlink(".gitignore", dir_fd=folder)
            os.rmdir(STAGING_NAME, dir_fd=tree.fd)
    except FileNotFoundError:
        pass
    finally:
        os.close(folder)
