"""Copy a past state out into a directory of its own. Nothing in the worktree is touched, no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from openoxide.checkpoints.blobs import Blobs, copy_blob
from openoxide.checkpoints.model import BlobHash, FileState, Kind, split
from openoxide.checkpoints.plan import Left
from openoxide.checkpoints.tree import GONE, Tree
from openoxide.errors import ConflictError, StoreDamagedError, UsageError
from openoxide.fileio import write_errors

OpenBlob = Callable[[BlobHash], BinaryIO]

_IN_THE_WAY = GONE | {errno.EISDIR, errno.EEXIST}
# a copy belongs to whoever asked for it: with a set-id bit others would act with their rights
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was written and what was not; ``damaged``: files that the store cannot give back."""

    written: tuple[bytes, ...]
    skipped: tuple[Left, ...]
    damaged: tuple[bytes, ...] = ()


def prepare_target(target: bytes, *, force: bool) -> None:
    """Make ``target``, which must be empty unless ``force``. Raises UsageError, ConflictError."""
    try:
        os.makedirs(target, mode=0o777, exist_ok=True)
        occupied = bool(os.listdir(target))
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{os.fsdecode(target)} is not a directory", hint="name another one after --to") from error
    except OSError as error:
        raise UsageError(f"{os.fsdecode(target)} cannot be used: {error.strerror}") from error
    if occupied and not force:
        raise ConflictError(f"{os.fsdecode(target)} is not empty", hint="choose an empty one, or add --force")


def materialise(blobs: Blobs, target: bytes, states: Mapping[bytes, FileState]) -> Copied:
    """Write ``states`` below ``target``: parents first, modes of directories last. An entry that is there already is
    replaced, if it is no directory.
    """
    written: list[bytes] = []
    skipped: list[Left] = []
    damaged: list[bytes] = []
    open_blob = blobs.opener(state.blob for state in states.values() if state.blob is not None)
    with write_errors(os.fsdecode(target)), Tree(target) as tree:
        for path, state in _with_parents(states):
            reason = _not_copied(state)
            if reason is not None:
                skipped.append(Left(path=path, reason=reason))
                continue
            try:
                _write(open_blob, tree, path, state)
                written.append(path)
            # all of them are told at once, and the others are copied
            except StoreDamagedError:
                damaged.append(path)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                skipped.append(Left(path=path, reason="in_the_way"))
        # last and deepest first: a mode without write or search would shut out what belongs inside
        for path in reversed(written):
            if states.get(path) is not None and states[path].kind is Kind.DIRECTORY:
                os.chmod(split(path)[1], states[path].mode, dir_fd=tree.folder(split(path)[0]))
    return Copied(written=tuple(written), skipped=tuple(skipped), damaged=tuple(damaged))


def _with_parents(states: Mapping[bytes, FileState]) -> Iterator[tuple[bytes, FileState]]:
    """Every state, after plain directories for those of its parents that are not among them."""
    seen: set[bytes] = set()
    for path in sorted(states):
        parts = path.split(b"/")
        for depth in range(1, len(parts)):
            parent = b"/".join(parts[:depth])
            if parent not in states and parent not in seen:
                seen.add(parent)
                yield parent, FileState(kind=Kind.DIRECTORY, mode=0o755)
        yield path, states[path]


def _not_copied(state: FileState) -> str | None:
    if state.kind is Kind.SKIPPED:
        return (state.target or b"").decode()
    if state.torn:
        return "torn"
    return "special" if state.kind is Kind.SPECIAL and state.target != b"fifo" else None


def _write(open_blob: OpenBlob, tree: Tree, path: bytes, state: FileState) -> None:
    directory, name = split(path)
    folder = tree.folder(directory)
    if state.kind is Kind.DIRECTORY:
        try:
            # wide enough to be filled; its own mode comes last
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            found = tree.lstat(path)
            if found is None or not stat.S_ISDIR(found.st_mode):
                raise
        return
    # beside its place, so that rename(2) replaces in one step and a failure leaves what was there
    temporary = b".openoxide-" + os.urandom(6).hex().encode()
    try:
        _create(open_blob, folder, temporary, state)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink_quietly(folder, temporary)
        raise


def _create(open_blob: OpenBlob, folder: int, name: bytes, state: FileState) -> None:
    if state.kind is Kind.SYMLINK:
        os.symlink(state.target or b"", name, dir_fd=folder)
    elif state.kind is Kind.SPECIAL:
        os.mkfifo(name, 0o600, dir_fd=folder)
        # apart from mkfifo, which takes the umask off
        os.chmod(name, state.mode & ~_SPECIAL_BITS, dir_fd=folder)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            assert state.blob is not None
            with open_blob(state.blob) as source:
                copy_blob(source, fd, state.blob)
            os.fchmod(fd, state.mode & ~_SPECIAL_BITS)
            # after the last write, which would set it again
            os.utime(fd, ns=(state.mtime_ns, state.mtime_ns))
        finally:
            os.close(fd)


def _unlink_quietly(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
