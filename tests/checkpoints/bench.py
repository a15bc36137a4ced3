"""An exchange laid bare: a tree, a staging folder, and the steps between what stands there and what is wanted."""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from openoxide.checkpoints.exchange import Exchange
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import ABSENT, STAGING_NAME, BlobHash, FileState, Kind
from openoxide.checkpoints.plan import Change, Left, RewindPlan
from openoxide.checkpoints.staging import Stager, make_operation_folder, open_staging
from openoxide.checkpoints.steps import Step, steps_of
from openoxide.checkpoints.tree import Tree
from tests.kit import tree_of

Looks = Mapping[bytes, tuple[object, ...]]

T = 1_600_000_000_000_000_001
OLD = ("file", 0o644, T, b"old")
NEW = ("file", 0o600, T + 1, b"newer")
DIRECTORY = ("dir", 0o750)
LINK = ("link", b"nowhere")
FIFO = ("fifo", 0o640)


class Bench:
    """Wanted entries are described as the kit describes a tree: ``("file", mode, mtime_ns, content)`` and so on."""

    def __init__(self, folder: Path, tree: type[Tree] = Tree) -> None:
        self.root = folder / "tree"
        self.root.mkdir(exist_ok=True)
        self.tree = tree(os.fsencode(self.root))
        self.blobs: dict[BlobHash, bytes] = {}
        staging = open_staging(self.tree)
        self.staging = make_operation_folder(staging, "operation")
        os.close(staging)
        self.exchange = Exchange(self.tree, self.staging)

    def close(self) -> None:
        os.close(self.staging)
        self.tree.close()

    def look(self) -> dict[bytes, tuple[object, ...]]:
        return tree_of(self.root, skip={STAGING_NAME})

    def state(self, path: bytes) -> FileState:
        return self.known(self.look().get(path))

    def known(self, what: tuple[object, ...] | None) -> FileState:
        """The state that ``what`` describes, its content in our store."""
        match what:
            case None:
                return ABSENT
            case ("file", int(mode), int(mtime_ns), bytes(content)):
                self.blobs[blob_hash(content)] = content
                blob, size = blob_hash(content), len(content)
                return FileState(kind=Kind.FILE, mode=mode, size=size, mtime_ns=mtime_ns, blob=blob)
            case ("link", bytes(target)):
                return FileState(kind=Kind.SYMLINK, size=len(target), target=target)
            case ("dir", int(mode)):
                return FileState(kind=Kind.DIRECTORY, mode=mode)
            case (str(special), int(mode)):
                return FileState(kind=Kind.SPECIAL, mode=mode, target=special.encode())
        raise AssertionError(what)

    def stage(self, wanted: Mapping[bytes, tuple[object, ...] | None]) -> tuple[Step, ...]:
        """The steps that make each named path what is wanted, staged."""
        now = self.look()
        changes = [
            Change(path=path, now=self.known(now.get(path)), wanted=self.known(what))
            for path, what in wanted.items()
            if now.get(path) != what
        ]
        return self.stage_plan(
            RewindPlan(
                restore=tuple(change for change in changes if change.wanted.exists),
                remove=tuple(change for change in changes if not change.wanted.exists),
            )
        )

    def stage_plan(self, plan: RewindPlan) -> tuple[Step, ...]:
        return Stager(self.tree, self.staging, self.open_blob).stage(steps_of(plan))

    def stage_all(self, wanted: Looks) -> tuple[Step, ...]:
        """The steps that make the tree the wanted one."""
        return self.stage({path: wanted.get(path) for path in self.look().keys() | wanted.keys()})

    def open_blob(self, name: BlobHash) -> BinaryIO:
        return io.BytesIO(self.blobs[name])

    def swap(self, steps: Sequence[Step]) -> dict[bytes, str]:
        return reasons(self.exchange.swap(steps))

    def unswap(self, steps: Sequence[Step]) -> dict[bytes, str]:
        return reasons(self.exchange.unswap(steps))

    def put(self, wanted: Looks) -> None:
        """Make the tree this, by plain means."""
        for entry in self.root.iterdir():
            if os.fsencode(entry.name) != STAGING_NAME:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for path in sorted(wanted):
            put(self.root / os.fsdecode(path), wanted[path])
        for path in sorted(wanted, reverse=True):
            if wanted[path][0] == "dir":
                os.chmod(self.root / os.fsdecode(path), int(str(wanted[path][1])))


def reasons(left: Sequence[Left]) -> dict[bytes, str]:
    found = {item.path: item.reason for item in left}
    assert len(found) == len(left), "a path is named twice"
    return found


def put(path: Path, what: tuple[object, ...]) -> None:
    """One entry; a directory gets its mode when everything is in it."""
    match what:
        case ("file", int(mode), int(mtime_ns), bytes(content)):
            path.write_bytes(content)
            path.chmod(mode)
            os.utime(path, ns=(mtime_ns, mtime_ns))
        case ("link", bytes(target)):
            path.symlink_to(os.fsdecode(target))
        case ("dir", _):
            path.mkdir()
        case ("fifo", int(mode)):
            os.mkfifo(path)
            path.chmod(mode)


def forge(path: Path) -> None:
    """Other bytes, with the size, mode and time of the old ones."""
    content, seen = path.read_bytes(), path.stat()
    path.write_bytes(bytes(byte ^ 1 for byte in content))
    os.utime(path, ns=(seen.st_mtime_ns, seen.st_mtime_ns))


def inode(path: Path) -> int:
    return os.lstat(path).st_ino


def names_in(folder: int) -> list[str]:
    """Entries of a folder with their kinds, for messages and assertions."""
    return sorted(
        f"{name} {stat.filemode(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)[0]}"
        for name in os.listdir(folder)
    )
