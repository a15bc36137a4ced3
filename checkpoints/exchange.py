"""Exchange, check, put back. A live entry is never overwritten: it is swapped with a staged one, and what came
out is looked at when nobody else can reach it any more. What is not as the plan saw it goes back and is a conflict.

Each step can be done again: whether it was done is read from the staged entry's inode number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from openoxide.checkpoints.model import SQLITE_SUFFIXES, FileState, Kind, split
from openoxide.checkpoints.plan import Left
from openoxide.checkpoints.staging import FEW_FILES, hash_of, looks_like
from openoxide.checkpoints.steps import NEW_FOLDER_MODE, Action, Step
from openoxide.checkpoints.tree import GONE, Tree, open_beneath
from openoxide.syscalls import exchange, holders, is_written_to, rename_exclusive, sync_filesystem

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_PATH opens a link itself, and a FIFO without a wait for its other end (open(2)); macOS has O_SYMLINK and O_NONBLOCK
_LINUX_PIN, _OTHER_PIN = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW, os.O_NONBLOCK | getattr(os, "O_SYMLINK", 0)
_PIN = (_LINUX_PIN if hasattr(os, "O_PATH") else _OTHER_PIN) | os.O_CLOEXEC
# the name of no step, and one that is deleted with theirs where a crash left it
_PROBE = f"{Action.PLACE.value}-{1 << 40}"
# what the kernel says about one path; any other error is trouble of the file system, which interrupts the operation
_REASONS = {
    errno.ENOENT: "vanished",
    errno.EEXIST: "appeared",
    errno.ENOTDIR: "parent_not_directory",
    errno.ELOOP: "parent_not_directory",
    errno.ENOTEMPTY: "not_empty",
    errno.EBUSY: "busy",
    errno.EXDEV: "other_device",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    # rename(2): RENAME_EXCHANGE on a file system that has none, or on a kernel that does not know the flag
    errno.EINVAL: "no_exchange",
    errno.ENOSYS: "no_exchange",
    errno.EOPNOTSUPP: "no_exchange",
}

Act = Callable[[int, bytes], None]


class PathConflictError(Exception):
    """This path cannot be done; the message is the reason that is reported."""


class Exchange:
    """The steps of one operation between a tree and the operation's staging folder (an open descriptor)."""

    def __init__(self, tree: Tree, staging: int) -> None:
        self._tree = tree
        # EXDEV would come only from the rename: a bind mount of the same file system has the same device number
        self._tree.stay_on_mount()
        self._staging = staging

    # forward

    def swap(self, steps: Sequence[Step]) -> list[Left]:
        """Do every step that is not done yet; what could not be done, with the reason. Raises OSError where the file
        system itself fails: the operation is interrupted then.
        """
        self._tree.forget_folders()
        left = self._each(steps, self._forward)
        # a database of which one member was left goes back as a whole, before anybody can open the halves together
        broken = _databases_of(left, steps)
        if broken:
            undo = [step for step in steps if step.path in broken and step.action is not Action.MODE]
            left += [
                Left(path=step.path, reason="database") for step in undo if step.path not in {x.path for x in left}
            ]
            self._each(list(reversed(undo)), self._backward)
        self._sync_swapped(steps)
        return left

    def _each(self, steps: Sequence[Step], act: Callable[[Step], None]) -> list[Left]:
        left: dict[bytes, Left] = {}
        for step in steps:
            # the steps of a path build on each other; closing a widened directory is due whatever became of the rest
            if step.path in left and step.action is not Action.CLOSE:
                continue
            try:
                act(step)
            except PathConflictError as conflict:
                left.setdefault(step.path, Left(path=step.path, reason=str(conflict)))
            except OSError as error:
                # from a look at the path itself; in a rename it is a conflict already (_REASONS)
                if error.errno != errno.EXDEV:
                    raise
                left.setdefault(step.path, Left(path=step.path, reason=_REASONS[errno.EXDEV]))
        return list(left.values())

    def _forward(self, step: Step) -> None:
        match step.action:
            case Action.REMOVE:
                self._remove(step.path, step.staged_name, step.old)
            case Action.RMDIR:
                self._rmdir(step.path)
            case Action.PLACE:
                self._place(step)
            case Action.MODE:
                self._chmod(step.path, step.old.mode, step.new.mode)
            case Action.CLOSE:
                self._chmod_if_there(step.path, step.old.mode, step.new.mode)

    def _remove(self, path: bytes, aside: str, expected: FileState) -> None:
        """Move ``path`` aside and look at it there."""
        if not self._is_staged(aside):
            live = self._tree.lstat(path)
            if live is None:
                return
            self._expect(live, expected)
            self._aside(path, aside)
        reason = self._mismatch(aside, expected)
        if reason is None:
            return
        with contextlib.suppress(PathConflictError):  # a newer entry stands there: the sweep stores this one
            self._into(path, aside)
        raise PathConflictError(reason)

    def _rmdir(self, path: bytes) -> None:
        live = self._tree.lstat(path)
        if live is None or not stat.S_ISDIR(live.st_mode):  # done before; what stands there now is the next step's
            return
        mode = stat.S_IMODE(live.st_mode)
        # rmdir(2) refuses what is not empty: no look before it could be as sure
        self._at(
            path,
            lambda folder, name: os.rmdir(name, dir_fd=folder),
            lambda folder, name: os.mkdir(name, mode, dir_fd=folder),
        )
        self._tree.forget_folders()

    def _place(self, step: Step) -> None:
        live = self._tree.lstat(step.path)
        done = live is not None and self._is_ours(live, step)
        if done and not step.old.exists:
            return
        # held open, our entry's inode number cannot be given to a newcomer while we tell the two apart by it
        ours = self._pinned(step)
        try:
            if not done:
                self._expect_ours(ours, step)
            if not step.old.exists:
                if live is not None:
                    raise PathConflictError("appeared")
                self._into(step.path, step.staged_name)
                return
            if not done:
                self._expect(live, step.old)
                self._exchange(step)
            # what is in staging now was live a moment ago, and only a descriptor that is open already still leads to it
            reason = self._mismatch(step.staged_name, step.old)
            if reason is not None:
                self._give_back(step)
                raise PathConflictError(reason)
        finally:
            os.close(ours)

    def _give_back(self, step: Step) -> None:
        """Exchange back. If what comes out then is not ours, somebody saved in between: their newest goes back to its
        place, and what stays in staging is stored by the sweep.
        """
        with contextlib.suppress(PathConflictError):  # removed meanwhile: the sweep stores what staging holds
            self._exchange(step)
            if not self._is_ours(self._staged_stat(step.staged_name), step):
                self._exchange(step)

    def _chmod(self, path: bytes, old: int, new: int) -> None:
        try:
            fd = open_beneath(self._tree.fd, path, _FOLDER, one_mount=True)
        except OSError as error:
            known = {errno.EACCES: "permission", errno.EPERM: "permission", errno.EXDEV: "other_device"}
            raise PathConflictError(known.get(error.errno or 0, "vanished")) from error
        try:
            # not by name: between a look and chmod(2) another directory could take the name
            now = stat.S_IMODE(os.fstat(fd).st_mode)
            if now not in (old, new):
                raise PathConflictError("changing")
            os.fchmod(fd, new)
        finally:
            os.close(fd)

    # backward

    def unswap(self, steps: Sequence[Step]) -> list[Left]:
        """Take every step back that was done; what could not be taken back, with the reason."""
        self._tree.forget_folders()
        left = self._each(list(reversed(steps)), self._backward)
        self._sync_swapped(steps)
        return left

    def _backward(self, step: Step) -> None:
        match step.action:
            case Action.REMOVE:
                if self._is_staged(step.staged_name):
                    self._into(step.path, step.staged_name)
            case Action.RMDIR:
                self._make_folder(step)
            case Action.PLACE:
                self._unplace(step)
            case Action.MODE | Action.CLOSE:
                self._chmod_if_there(step.path, step.new.mode, step.old.mode)

    def _make_folder(self, step: Step) -> None:
        if self._tree.lstat(step.path) is None:
            self._at(
                step.path,
                lambda folder, name: os.mkdir(name, NEW_FOLDER_MODE, dir_fd=folder),
                lambda folder, name: os.rmdir(name, dir_fd=folder),
            )
        # apart from mkdir, so a crash in between leaves NEW_FOLDER_MODE: done again, this finds it and goes on
        self._chmod_if_there(step.path, NEW_FOLDER_MODE, step.old.mode)

    def _unplace(self, step: Step) -> None:
        live = self._tree.lstat(step.path)
        if live is None or not self._is_ours(live, step):
            swapped = step.old.exists and self._is_staged(step.staged_name)
            # what we placed is neither here nor there: somebody has replaced it since
            if swapped and not self._is_ours(self._staged_stat(step.staged_name), step):
                raise PathConflictError("changed_later")
        elif step.old.exists:
            # the same proof the other way: what we placed may have been written to since
            self._exchange(step)
            reason = self._mismatch(step.staged_name, step.new)
            if reason is not None:
                self._exchange(step)
                raise PathConflictError(reason)
        elif step.new.kind is Kind.DIRECTORY:
            self._unplace_folder(step)
        else:
            self._remove(step.path, step.staged_name, step.new)

    def _unplace_folder(self, step: Step) -> None:
        """Back into staging, so that it can come again; what somebody put into it keeps it in its place."""
        self._aside(step.path, step.staged_name)
        self._tree.forget_folders()
        fd = os.open(step.staged_name, _FOLDER, dir_fd=self._staging)
        try:
            occupied = bool(os.listdir(fd))
        finally:
            os.close(fd)
        if occupied:
            self._into(step.path, step.staged_name)
            raise PathConflictError("not_empty")

    def _chmod_if_there(self, path: bytes, old: int, new: int) -> None:
        live = self._tree.lstat(path)
        if live is not None and stat.S_ISDIR(live.st_mode) and stat.S_IMODE(live.st_mode) == old:
            self._chmod(path, old, new)

    # renaming

    def _exchange(self, step: Step) -> None:
        staged = step.staged_name.encode()

        def swap(folder: int, name: bytes) -> None:
            exchange(self._staging, staged, folder, name)

        self._at(step.path, swap, swap)

    def _aside(self, path: bytes, staged: str) -> None:
        self._at(path, self._out_of(staged), self._in_from(staged))

    def _into(self, path: bytes, staged: str) -> None:
        self._at(path, self._in_from(staged), self._out_of(staged))

    def _out_of(self, staged: str) -> Act:
        return lambda folder, name: rename_exclusive(folder, name, self._staging, staged.encode())

    def _in_from(self, staged: str) -> Act:
        return lambda folder, name: rename_exclusive(self._staging, staged.encode(), folder, name)

    def _at(self, path: bytes, act: Act, inverse: Act) -> None:
        """``act`` on the folder and name of ``path``. The folder must still be in its place afterwards: one that was
        moved out of the tree under us took the entry with it, so the inverse is done there and the path left.
        """
        directory, name = split(path)
        try:
            folder = self._tree.folder(directory)
            act(folder, name)
            # renameat2 follows the descriptor wherever its directory was moved to: only a look afterwards can tell
            if not self._tree.is_folder(directory, folder):
                inverse(folder, name)
                self._tree.forget_folders()
                raise PathConflictError("parent_moved")
        except OSError as error:
            reason = _REASONS.get(error.errno or 0)
            if reason is None:
                raise
            raise PathConflictError(reason) from error

    # looking

    @staticmethod
    def _expect(live: os.stat_result | None, expected: FileState) -> None:
        """A cheap look before the exchange; the look that counts comes after it."""
        if live is None or not looks_like(live, expected):
            raise PathConflictError("changing")

    def _is_ours(self, found: os.stat_result, step: Step) -> bool:
        """Whether this is the entry that was staged for ``step``, and so whether the exchange was made: nobody else can have
        its number, on its device, while it is there.
        """
        if found.st_ino != step.new_ino:
            return False
        return found.st_dev == (self._tree.dev if stat.S_ISDIR(found.st_mode) else self._file_dev)

    @cached_property
    def _file_dev(self) -> int:
        """The device of what is staged now and is no directory. On an overlay of several file systems it is not that of the
        directories, and the layer below may hold a file with the same number.
        """
        # asked of a new file: what stands in the folder may have been displaced from another layer
        fd = os.open(_PROBE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._staging)
        try:
            return os.fstat(fd).st_dev
        finally:
            os.close(fd)
            os.unlink(_PROBE, dir_fd=self._staging)

    def _expect_ours(self, staged: int, step: Step) -> None:
        """What is about to be placed must be what was staged."""
        if not self._is_ours(os.fstat(staged), step):
            raise PathConflictError("staging_changed")

    def _pinned(self, step: Step) -> int:
        """The staged entry, held open so that its inode number stays its own."""
        try:
            return os.open(step.staged_name, _PIN, dir_fd=self._staging)
        except FileNotFoundError as error:  # it was placed, and has been replaced since
            raise PathConflictError("changed_later") from error

    def _mismatch(self, name: str, expected: FileState) -> str | None:
        """Why the staged entry is not ``expected``; None if it is, and nobody can write to it any more."""
        found = self._staged_stat(name)
        if not looks_like(found, expected):
            return "changing"
        if expected.kind is Kind.SYMLINK:
            target = os.readlink(name.encode(), dir_fd=self._staging)
            return None if target == expected.target else "changing"
        if expected.kind is not Kind.FILE:
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=self._staging)
        try:
            # first the lease, then the hash: a writer that is there could change what was hashed already
            if is_written_to(fd):
                return "held_open" + "".join(f" by pid {pid}" for pid in holders(found.st_dev, found.st_ino)[:1])
            return None if hash_of(fd) == expected.blob else "changing"
        finally:
            os.close(fd)

    def _staged_stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._staging, follow_symlinks=False)

    def _is_staged(self, name: str) -> bool:
        try:
            self._staged_stat(name)
        except FileNotFoundError:
            return False
        return True

    def _sync_swapped(self, steps: Sequence[Step]) -> None:
        if len(steps) > FEW_FILES:
            sync_filesystem(self._tree.fd)
            return
        os.fsync(self._staging)
        for directory in {split(step.path)[0] for step in steps}:
            try:
                os.fsync(self._tree.folder(directory))
            except OSError as error:
                # somebody removed it meanwhile: its names are gone and not ours to keep
                if error.errno not in GONE:
                    raise


def _databases_of(left: Iterable[Left], steps: Iterable[Step]) -> set[bytes]:
    """Members of SQLite databases of which at least one path was left: the others must go back."""
    blocked = {item.path for item in left}
    found: set[bytes] = set()
    for base in {step.path for step in steps if step.old.sqlite or step.new.sqlite}:
        members = {base, *(base + suffix for suffix in SQLITE_SUFFIXES)}
        if members & blocked:
            found |= members
    return found
