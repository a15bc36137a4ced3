"""How a memory is written: one writer of ours at a time, and never over what somebody else has just written.

The new bytes are staged beside the memory, durably, and then swapped with the live file in a single system call; what comes
out is looked at when nobody can reach it any more. If it is not what the writer had read, it goes back, and the writer begins
again with it. An agent's own tools and the user's editor take no lock of ours: that is who this is for. Nothing is deleted
before it is known to be ours or to be what was meant; whatever else was displaced ends in the trash.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from openoxide.errors import ConflictError, OpenOxideError, RefusedError
from openoxide.fileio import write_all, write_errors
from openoxide.memory.directory import EVERYTHING, LOCK, MEMORY, STAGING, TRASH, MemoryDirectory, content, read_at
from openoxide.memory.naming import parts_of
from openoxide.memory.trash import TRASHED, Reason, remove, trash_id
from openoxide.syscalls import exchange, is_written_to, rename_exclusive

LOCK_SECONDS, BUSY_SECONDS = 30.0, 5.0

_POLL_SECONDS = 0.005
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# rename(2): RENAME_EXCHANGE on a file system that has none, or on a kernel or library that does not know it
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Put(NamedTuple):
    """Whether the new bytes stand there now. If not, somebody else wrote meanwhile; ``orphan`` is a text of theirs that
    stands nowhere any more, and has to be taken in.
    """

    done: bool
    orphan: bytes | None = None


@contextmanager
def writing(directory: MemoryDirectory, now_ms: int) -> Iterator[Hands]:
    """The one writer of this memory, for as long as the block lasts: no slow work belongs into it. Raises ConflictError
    where another one does not end.
    """
    with ExitStack() as stack, write_errors(str(directory.path)):
        stack.enter_context(alone(directory, create=True))
        folders = [stack.enter_context(directory.opened(name, create=True)) for name in (MEMORY, STAGING, TRASH)]
        hands = Hands(directory, folders[0], folders[1], folders[2], now_ms)
        hands.collect_left()
        yield hands


@contextmanager
def alone(directory: MemoryDirectory, *, create: bool = False) -> Iterator[None]:
    """No writer of ours is at work in this memory for as long as the block lasts. Raises ConflictError where another one does
    not end, NotFoundError where there is nothing (and ``create`` is not said).
    """
    with ExitStack() as stack:
        _take(stack, stack.enter_context(directory.opened(create=create)), directory)
        yield


def _take(stack: ExitStack, base: int, directory: MemoryDirectory) -> None:
    # beside the memory: a file in it would be listed, watched, and deleted with it
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=base)
    stack.callback(os.close, lock)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"another writer holds {directory.path}", hint="try again when it has ended"
                ) from None
            # flock(2) has no time limit, and a writer that was stopped must not stop all others
            time.sleep(_POLL_SECONDS)
        else:
            return


def _is_held(fd: int, seconds: float) -> bool:
    """Whether somebody has this file open for writing, and still has after so long."""
    deadline = time.monotonic() + seconds
    while is_written_to(fd):
        if time.monotonic() >= deadline:
            return True
        # nothing tells of a close by another process but to ask again
        time.sleep(_POLL_SECONDS)
    return False


def _identity(seen: os.stat_result) -> tuple[int, ...]:
    # not the ctime, which an exchange changes
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


class Hands:
    """What may be done to a memory while its lock is held. Made by :func:`writing`."""

    def __init__(self, directory: MemoryDirectory, memory: int, staging: int, trash: int, now_ms: int) -> None:
        self._directory = directory
        self._memory, self._staging, self._trash = memory, staging, trash
        self._now_ms = now_ms
        self._staged = 0

    def read(self, name: str) -> bytes | None:
        """All of a file, None where there is none."""
        found = self._directory.read(name, EVERYTHING)
        return None if found is None else found.data

    def put(self, name: str, expected: bytes | None, new: bytes) -> Put:
        """Let ``new`` take the place of ``expected`` (None: of nothing), durably, if that is what stands there."""
        *folders, last = parts_of(name)
        with self._directory.opened(MEMORY, *folders, create=True) as folder:
            staged = self._stage(new)
            if expected is None:
                return self._place(folder, last, staged)
            seen = self._swap_if(folder, last, staged, name, expected)
            if seen is None:
                return Put(done=False)
            came = _identity(os.stat(staged, dir_fd=self._staging, follow_symlinks=False))
            if came == seen and self._displaced(staged) == expected:
                os.fsync(folder)
                # only now: until the exchange is durable this is the only copy of what stood there
                os.unlink(staged, dir_fd=self._staging)
                return Put(done=True)
            return self._give_back(folder, last, staged, new, name)

    def _swap_if(self, folder: int, last: str, staged: str, name: str, expected: bytes) -> tuple[int, ...] | None:
        """Exchange if the live file is what was expected; the identity that it had. None where it is not, with nothing staged
        any more. Raises as :meth:`_look`.
        """
        try:
            seen = self._look(folder, last, name, expected)
            # as late as can be: whoever reads between an exchange and its reversal does not see what was displaced
            if seen is not None and _identity(os.stat(last, dir_fd=folder, follow_symlinks=False)) == seen:
                self._swap(folder, last, staged)
                return seen
        except FileNotFoundError:
            pass  # deleted since
        except OpenOxideError:
            os.unlink(staged, dir_fd=self._staging)
            raise
        os.unlink(staged, dir_fd=self._staging)
        return None

    def _look(self, folder: int, last: str, name: str, expected: bytes) -> tuple[int, ...] | None:
        """The identity of the live file, None where it is not what was expected. Raises RefusedError where no plain file
        stands, ConflictError where somebody does not stop writing to it.
        """
        try:
            fd = os.open(last, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RefusedError(f"{name} is a link", hint="a memory holds plain files only") from error
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise RefusedError(f"{name} is no regular file", hint="a memory holds plain files only")
            if _is_held(fd, BUSY_SECONDS):
                raise ConflictError(
                    f"{name} is held open by a program that writes to it", hint="close it and try again"
                )
            seen = os.fstat(fd)
            return _identity(seen) if content(fd) == expected else None
        finally:
            os.close(fd)

    def _stage(self, new: bytes) -> str:
        self._staged += 1
        staged = f"{os.getpid()}-{self._staged}"
        fd = os.open(staged, _NEW, 0o600, dir_fd=self._staging)
        try:
            write_all(fd, new)
            os.fsync(fd)
        finally:
            os.close(fd)
        return staged

    def _place(self, folder: int, last: str, staged: str) -> Put:
        try:
            rename_exclusive(self._staging, staged.encode(), folder, os.fsencode(last))
        except FileExistsError:
            os.unlink(staged, dir_fd=self._staging)
            return Put(done=False)
        os.fsync(folder)
        return Put(done=True)

    def _swap(self, folder: int, last: str, staged: str) -> None:
        try:
            exchange(self._staging, staged.encode(), folder, os.fsencode(last))
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            # not in one step, as somebody could write between the two; the old file is kept by a name of its own
            aside = f"{staged}-aside"
            os.link(last, aside, src_dir_fd=folder, dst_dir_fd=self._staging, follow_symlinks=False)
            os.rename(staged, last, src_dir_fd=self._staging, dst_dir_fd=folder)
            os.rename(aside, staged, src_dir_fd=self._staging, dst_dir_fd=self._staging)

    def _displaced(self, staged: str, *, patient: bool = False) -> bytes | None:
        """What came out; None where it is no plain file, or somebody still writes to it who had opened it before the swap.
        ``patient``: such a writer is waited for.
        """
        try:
            fd = os.open(staged, _READ, dir_fd=self._staging)
        except OSError:  # a link: it goes back
            return None
        try:
            # asked before it is read: who comes later does not find it any more
            return None if _is_held(fd, BUSY_SECONDS if patient else 0) else content(fd)
        finally:
            os.close(fd)

    def _give_back(self, folder: int, last: str, staged: str, new: bytes, name: str) -> Put:
        """Put a foreign file back in its place, at once, and a copy into the trash: an editor that read ours meanwhile may
        yet write over it. What stood there meanwhile is ours, and goes; or it is a newer foreign one, which nobody may lose.
        """
        with ExitStack() as stack:
            theirs = self._pinned(stack, staged)
            try:
                self._swap(folder, last, staged)
            except FileNotFoundError:
                # deleted meanwhile, with our text in it: theirs is what they had last
                rename_exclusive(self._staging, staged.encode(), folder, os.fsencode(last))
                there: bytes | None = new
            else:
                os.fsync(folder)
                there = self._displaced(staged, patient=True)
                if there == new:
                    os.unlink(staged, dir_fd=self._staging)
                else:
                    self._keep(staged, name, Reason.OVERTAKEN)
            text = None if theirs is None else content(theirs)
            if text is not None:
                self.keep(name, text, Reason.OVERTAKEN)
        return Put(done=False, orphan=None if there == new else there)

    def _pinned(self, stack: ExitStack, staged: str) -> int | None:
        """A descriptor of what came out, whatever becomes of its name; None for a link."""
        try:
            fd = os.open(staged, _READ, dir_fd=self._staging)
        except OSError:
            return None
        stack.callback(os.close, fd)
        return fd

    def move(self, old: str, new: str) -> bool:
        """Rename a file or folder; whether it was done: not over anything, and not where there is nothing."""
        *from_folders, from_last = parts_of(old)
        *to_folders, to_last = parts_of(new)
        with ExitStack() as stack:
            source = stack.enter_context(self._directory.opened(MEMORY, *from_folders))
            os.stat(from_last, dir_fd=source, follow_symlinks=False)  # before a folder is made for it
            target = stack.enter_context(self._directory.opened(MEMORY, *to_folders, create=True))
            try:
                rename_exclusive(source, os.fsencode(from_last), target, os.fsencode(to_last))
            except FileExistsError:
                return False
            os.fsync(target)
            os.fsync(source)
            return True

    def discard(self, name: str, expected: bytes | None) -> str | None:
        """Move a file (a folder, where ``expected`` is None) to the trash; the id under which it lies there. None where the
        file is not what was expected: it is back then.
        """
        *folders, last = parts_of(name)
        trashed = self._trash_folder(Reason.DELETED)
        with ExitStack() as stack:
            source = stack.enter_context(self._directory.opened(MEMORY, *folders))
            target = stack.enter_context(self._directory.opened(TRASH, trashed, *folders, create=True))
            rename_exclusive(source, os.fsencode(last), target, os.fsencode(last))
            # looked at where nobody can reach it any more, as after an exchange
            found = None if expected is None else read_at(target, last, name, EVERYTHING)
            if found is not None and found.data != expected:
                with suppress(FileExistsError):  # there is a new one already: this one stays where it is found again
                    rename_exclusive(target, os.fsencode(last), source, os.fsencode(last))
                    os.fsync(source)
                    return None
            for fd in (target, self._trash, source):
                os.fsync(fd)
        return trashed

    def keep(self, name: str, text: bytes, reason: Reason) -> str:
        """A text that stands nowhere, durably in the trash; its id."""
        return self._keep(self._stage(text), name, reason)

    def _keep(self, staged: str, name: str, reason: Reason) -> str:
        *folders, last = parts_of(name)
        trashed = self._trash_folder(reason)
        with self._directory.opened(TRASH, trashed, *folders, create=True) as target:
            rename_exclusive(self._staging, staged.encode(), target, os.fsencode(last))
            os.fsync(target)
        os.fsync(self._trash)
        return trashed

    def _trash_folder(self, reason: Reason) -> str:
        for n in range(1 << 20):
            name = f"{self._now_ms:013d}-{reason.value}-{n}"
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._trash)
                return name
        raise ConflictError("the trash has no free name", hint="empty it")

    def collect_left(self) -> None:
        """What a killed writer left in staging may be the only copy of somebody's text: it goes to the trash."""
        for staged in sorted(os.listdir(self._staging)):
            trashed = self._trash_folder(Reason.LEFT)
            with self._directory.opened(TRASH, trashed, create=True) as target:
                rename_exclusive(self._staging, os.fsencode(staged), target, f"{staged}.md".encode())
                os.fsync(target)
            os.fsync(self._trash)

    def restore(self, trashed: str, name: str, to: str = "") -> bool:
        """Bring a file back from the trash; whether it was done: never over anything."""
        *folders, last = parts_of(name)
        *to_folders, to_last = parts_of(to or name)
        with ExitStack() as stack:
            source = stack.enter_context(self._directory.opened(TRASH, trash_id(trashed), *folders))
            target = stack.enter_context(self._directory.opened(MEMORY, *to_folders, create=True))
            try:
                rename_exclusive(source, os.fsencode(last), target, os.fsencode(to_last))
            except FileExistsError:
                return False
            os.fsync(target)
            return True

    def empty_trash(self, before_ms: int) -> int:
        """Delete what was put into the trash before a moment; how many deletions that were."""
        old = [
            name
            for name in sorted(os.listdir(self._trash))
            if (m := TRASHED.fullmatch(name)) and int(m["ms"]) < before_ms
        ]
        for name in old:
            remove(self._trash, name)
        return len(old)
