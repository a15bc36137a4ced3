"""What users and agents do to a tree, as values: a verb and numbers that pick paths among those that exist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.kit import tree_of

STAGING = b".openoxide-staging"
NAMES = (b"a", b"b", b"c.txt", b"\xff\xfe", "\u00e9".encode(), b"n\nl", b"-x y")
CONTENTS = (b"", b"one\n", b"two\n", b"three" * 50, bytes(range(0, 256, 7)))
FILE_MODES = (0o644, 0o600, 0o755, 0o444, 0o4755)
DIRECTORY_MODES = (0o755, 0o700, 0o750, 0o1777, 0o2775)
TARGETS = (b"a", b"../b", b"/nonexistent", b"\xff", b"b/a")
TIMES = (0, 1_000_000_000, 1_600_000_000_123_456_789)
DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Edit:
    """``pick`` chooses an entry that exists, ``place`` a directory and a name for a new one, ``what`` the content."""

    verb: str
    pick: int
    place: int
    what: int


class Editor:
    """Applies an edit below ``root``. What a file system would refuse is left undone.

    Files get ``mtime_ns``: two writes within one tick of the kernel's clock would make a history differ from its replay.
    """

    def __init__(self, root: bytes, edit: Edit, mtime_ns: int) -> None:
        self._root = root
        self._edit = edit
        self._mtime_ns = mtime_ns
        self._tree = tree_of(root, skip={STAGING})

    def apply(self) -> None:
        with suppress(OSError):  # a directory into itself, a file over a directory: the user gets the error, not we
            VERBS[self._edit.verb](self)

    def _below_root(self, path: bytes) -> bytes:
        return self._root + b"/" + path

    def _existing(self, *kinds: str) -> bytes:
        """An entry of one of ``kinds`` (all of them if none is named). Raises FileNotFoundError if there is none."""
        found = [path for path, what in sorted(self._tree.items()) if not kinds or what[0] in kinds]
        if not found:
            raise FileNotFoundError
        return self._below_root(found[self._edit.pick % len(found)])

    def _new(self) -> bytes:
        folders = [b"", *(path + b"/" for path, what in sorted(self._tree.items()) if what[0] == "dir")]
        folders = [folder for folder in folders if folder.count(b"/") < DEEPEST]
        folder, name = self._edit.place % len(folders), self._edit.place // len(folders) % len(NAMES)
        return self._below_root(folders[folder] + NAMES[name])

    def _write(self, path: bytes, mode: str) -> None:
        with open(path, mode, opener=_no_follow) as file:
            file.write(CONTENTS[self._edit.what % len(CONTENTS)])
            file.flush()
            os.utime(file.fileno(), ns=(self._mtime_ns, self._mtime_ns))

    def write(self) -> None:
        """A new file, or one with other content."""
        self._write(self._new(), "wb")

    def append(self) -> None:
        self._write(self._existing("file"), "ab")

    def truncate(self) -> None:
        path = self._existing("file")
        os.truncate(path, self._edit.what % 3)
        os.utime(path, ns=(self._mtime_ns, self._mtime_ns))

    def save(self) -> None:
        """A temporary file that is renamed over the old one."""
        path = self._existing("file")
        self._write(path + b"~", "xb")
        os.rename(path + b"~", path)

    def forge(self) -> None:
        """Other bytes of the same size, and the old mtime back."""
        path = self._existing("file")
        with open(path, "r+b") as file:
            before = os.fstat(file.fileno())
            content = file.read()
            file.seek(0)
            file.write(bytes(byte ^ 1 for byte in content))
        os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))

    def touch(self) -> None:
        moment = TIMES[self._edit.what % len(TIMES)]
        os.utime(self._existing("file"), ns=(moment, moment))

    def chmod(self) -> None:
        path = self._existing("file", "dir")
        modes = DIRECTORY_MODES if os.path.isdir(path) else FILE_MODES
        os.chmod(path, modes[self._edit.what % len(modes)])

    def mkdir(self) -> None:
        os.mkdir(self._new())

    def tree(self) -> None:
        """Directories and a file in them at once: the file may be there before the directory is watched."""
        folder = self._new() + b"/a/b"
        os.makedirs(folder)
        self._write(folder + b"/c.txt", "xb")

    def remove(self) -> None:
        _remove(self._existing())

    def rmtree(self) -> None:
        shutil.rmtree(self._existing("dir"))

    def rename(self) -> None:
        os.rename(self._existing(), self._new())

    def symlink(self) -> None:
        os.symlink(TARGETS[self._edit.what % len(TARGETS)], self._new())

    def link(self) -> None:
        os.link(self._existing("file"), self._new())

    def to_file(self) -> None:
        path = self._existing()
        _remove(path)
        self._write(path, "xb")

    def to_directory(self) -> None:
        path = self._existing()
        _remove(path)
        os.mkdir(path)
        if self._edit.what % 2:
            self._write(path + b"/a", "xb")

    def to_symlink(self) -> None:
        path = self._existing()
        _remove(path)
        os.symlink(TARGETS[self._edit.what % len(TARGETS)], path)


VERBS: dict[str, Callable[[Editor], None]] = {
    name: getattr(Editor, name)
    for name in (
        "write append truncate save forge touch chmod mkdir tree remove rmtree rename symlink link to_file to_directory"
        " to_symlink"
    ).split()
}


def edits() -> st.SearchStrategy[list[Edit]]:
    """A few edits in a row, possibly none."""
    number = st.integers(0, 1000)
    return st.lists(st.builds(Edit, st.sampled_from([*VERBS]), number, number, number), max_size=4)


def plant(root: bytes) -> None:
    """Something of each kind to begin with."""
    for folder in (b"a", b"a/b", b"b", b"empty"):
        os.mkdir(root + b"/" + folder, 0o755)
    for place, name in enumerate((b"c.txt", b"a/c.txt", b"a/\xff\xfe", b"a/b/n\nl", b"b/-x y")):
        with open(root + b"/" + name, "xb") as file:
            file.write(CONTENTS[place])
    os.symlink(b"../c.txt", root + b"/b/a")
    os.link(root + b"/c.txt", root + b"/b/c.txt")


def _no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
