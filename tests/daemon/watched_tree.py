"""A tree with a watch on it, for the tests of the watcher."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from openoxide.daemon.attachment import Pruned
from openoxide.daemon.changes import Drained
from openoxide.daemon.watcher import Watch

COMPLETE = Drained(complete=True)
DEADLINE_SECONDS = 20


class Bench:
    """A tree with a watch on it; ``pruned`` are the names that the rules leave out."""

    def __init__(self, base: Path) -> None:
        self.outside = os.fsencode(base)
        self.root = os.path.join(self.outside, b"tree")
        os.mkdir(self.root)
        self.pruned: set[bytes] = set()
        self.watch = Watch(self.root, prune=self.prune, on_change=lambda: None)

    def prune(self, _parent: bytes, name: bytes) -> Pruned:
        return Pruned.OUT if name in self.pruned else Pruned.NO

    def at(self, path: bytes) -> bytes:
        return os.path.join(self.root, path)

    def settle(self) -> dict[bytes, bool]:
        assert self.watch.barrier() == COMPLETE
        dirty, gaps, _ = self.watch.take()
        assert gaps == ()
        return dirty

    def directories(self) -> list[bytes]:
        return [path for path, _, _ in os.walk(self.root)]


def write(path: bytes, content: bytes = b"x") -> bytes:
    with open(path, "ab") as file:
        file.write(content)
    return path


def make_tree(path: bytes) -> bytes:
    os.makedirs(path + b"/o/p")
    write(path + b"/o/f")
    write(path + b"/o/p/g")
    return path


def covers(dirty: Mapping[bytes, bool], path: bytes) -> bool:
    """Whether a capture of ``dirty`` looks at ``path``: it is named, or all below one of its parents is."""
    if path in dirty:
        return True
    while path:
        path = path.rpartition(b"/")[0]
        if dirty.get(path):
            return True
    return False


def exchange(one: bytes, other: bytes) -> None:
    at_cwd, exchange_flag = -100, 2
    if ctypes.CDLL(None, use_errno=True).renameat2(at_cwd, one, at_cwd, other, exchange_flag):
        raise OSError(ctypes.get_errno(), "renameat2")
