"""Every kind of change to a tree, done at random places of it."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import socket
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

SIZES = (0, 1, 7, 300, 5_000)
FILE_MODES = (0o600, 0o644, 0o755, 0o4755)
FOLDER_MODES = (0o700, 0o755, 0o2775, 0o1777)

Touched = Iterable[str]
Change = Callable[["Hand"], Touched]


def _mode_of(path: Path) -> int:
    return path.lstat().st_mode if os.path.lexists(path) else 0


def _make_room(file: BinaryIO) -> None:
    """A map needs a file with something in it; where it has that already, the map alone tells of the change."""
    if os.fstat(file.fileno()).st_size < 20:
        file.truncate(100)


def _only_files(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not stat.S_ISREG(os.lstat(os.path.join(folder, name)).st_mode)}


class Hand:
    """Makes changes of every kind below ``root``; each method names the paths to look at, with all below them.

    The entries it touches are never those of the churning process.
    """

    def __init__(self, root: Path, outside: Path, seed: int) -> None:
        self._root = root
        self._outside = outside
        self._random = random.Random(seed)
        self._number = 0
        self._last = "none yet"
        self._folders = sorted(str(path.relative_to(root)) for path in root.glob("d*/*"))

    def _on(self, path: str) -> Path:
        return self._root / path

    def _folder(self) -> str:
        return self._random.choice(self._folders)

    def _new(self) -> str:
        self._number += 1
        self._last = f"{self._folder()}/new{self._number}"
        return self._last

    def _file(self) -> str:
        """A regular file, made where none is left."""
        folder = self._folder()
        names = sorted(entry.name for entry in os.scandir(self._on(folder)) if entry.is_file(follow_symlinks=False))
        if names:
            self._last = f"{folder}/{self._random.choice(names)}"
            return self._last
        path = self._new()
        self._on(path).write_bytes(self._content())
        return path

    def _content(self) -> bytes:
        return self._random.randbytes(self._random.choice(SIZES)) + b"%d" % self._random.getrandbits(60)

    def create(self) -> Touched:
        path = self._new()
        self._on(path).write_bytes(self._content())
        return [path]

    def append(self) -> Touched:
        path = self._file()
        with open(self._on(path), "ab") as file:
            file.write(self._content())
        return [path]

    def overwrite(self) -> Touched:
        """In place and of the same size: only the clock tells the difference."""
        path = self._file()
        with open(self._on(path), "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(self._random.randbytes(size))
        return [path]

    def overwrite_again(self) -> Touched:
        """The file of the round before, right after its checkpoint."""
        path = self._last if stat.S_ISREG(_mode_of(self._on(self._last))) else self._file()
        with open(self._on(path), "r+b") as file:
            file.write(self._random.randbytes(os.fstat(file.fileno()).st_size))
        return [path]

    def forge(self) -> Touched:
        """As before, and the old modification time put back."""
        path = self._file()
        with open(self._on(path), "r+b") as file:
            before = os.fstat(file.fileno())
            file.write(self._random.randbytes(before.st_size))
        os.utime(self._on(path), ns=(before.st_atime_ns, before.st_mtime_ns))
        return [path]

    def truncate(self) -> Touched:
        path = self._file()
        os.truncate(self._on(path), self._random.randrange(self._on(path).stat().st_size + 1))
        return [path]

    def map_and_write(self) -> Touched:
        path = self._file()
        with open(self._on(path), "r+b") as file:
            _make_room(file)
            with mmap.mmap(file.fileno(), 0) as memory:
                memory[10:20] = self._random.randbytes(10)
                memory.flush()
        return [path]

    def map_close_and_write(self) -> Touched:
        """The mapping outlives the descriptor it was made from."""
        path = self._file()
        with open(self._on(path), "r+b") as file:
            _make_room(file)
            memory = mmap.mmap(file.fileno(), 0)
        memory[10:20] = self._random.randbytes(10)
        memory.flush()
        memory.close()
        return [path]

    def save(self) -> Touched:
        path = self._file()
        self._on(path + "~").write_bytes(self._content())
        os.rename(self._on(path + "~"), self._on(path))
        return [path, path + "~"]

    def write_after_rename(self) -> Touched:
        """Through a descriptor that was opened under the old name."""
        path, to = self._file(), self._new()
        with open(self._on(path), "ab") as file:
            os.rename(self._on(path), self._on(to))
            file.write(self._content())
        return [path, to]

    def chmod_file(self) -> Touched:
        path = self._file()
        os.chmod(self._on(path), self._random.choice(FILE_MODES))
        return [path]

    def chmod_folder(self) -> Touched:
        path = self._folder()
        os.chmod(self._on(path), self._random.choice(FOLDER_MODES))
        return [path]

    def rename_file(self) -> Touched:
        path, to = self._file(), self._random.choice((self._file(), self._new()))
        os.rename(self._on(path), self._on(to))
        return [path, to]

    def rename_folder(self) -> Touched:
        """There, a change below, and back."""
        path = self._folder()
        os.rename(self._on(path), self._on(path + ".moved"))
        self._number += 1
        self._on(f"{path}.moved/below{self._number}").write_bytes(self._content())
        if self._random.random() < 0.5:
            os.rename(self._on(path + ".moved"), self._on(path))
        else:
            shutil.copytree(self._on(path + ".moved"), self._on(path), symlinks=True, ignore=_only_files)
            shutil.rmtree(self._on(path + ".moved"))
        return [path, path + ".moved"]

    def move_folder_into_another(self) -> Touched:
        made, to = self._new(), self._new()
        self._on(made).mkdir()
        (self._on(made) / "before").write_bytes(self._content())
        os.rename(self._on(made), self._on(to))
        (self._on(to) / "after").write_bytes(self._content())
        return [made, to]

    def delete_file(self) -> Touched:
        path = self._file()
        os.unlink(self._on(path))
        return [path]

    def delete_folder(self) -> Touched:
        path = self._new()
        self._on(path).mkdir()
        os.rmdir(self._on(path))
        return [path]

    def rmtree(self) -> Touched:
        path = self._folder()
        shutil.rmtree(self._on(path))
        os.makedirs(self._on(path))
        return [path]

    def link(self) -> Touched:
        path = self._new()
        os.symlink(self._random.choice(("f0", "../missing", "/etc/hostname")), self._on(path))
        return [path]

    def relink(self) -> Touched:
        """A link that takes a file's place, then points elsewhere."""
        path = self._file()
        for target in ("one", f"two{self._number}"):
            os.symlink(target, self._on(path + ".link"))
            os.rename(self._on(path + ".link"), self._on(path))
        return [path, path + ".link"]

    def hard_link(self) -> Touched:
        path, twin = self._file(), self._new()
        os.link(self._on(path), self._on(twin))
        return [path, twin]

    def write_through_twin(self) -> Touched:
        """Either name may have been made long before, or just now."""
        path, twin = self._file(), self._new()
        os.link(self._on(path), self._on(twin))
        names = [path, twin]
        self._random.shuffle(names)
        with open(self._on(names[0]), "ab") as file:
            file.write(self._content())
        return names

    def write_through_old_twin(self) -> Touched:
        """A file that had several names at the last checkpoint already, if there is one."""
        for folder in self._random.sample(self._folders, len(self._folders)):
            linked = [
                e for e in os.scandir(self._on(folder)) if e.is_file(follow_symlinks=False) and e.stat().st_nlink > 1
            ]
            if linked:
                chosen = self._random.choice(linked)
                with open(chosen.path, "ab") as file:
                    file.write(self._content())
                return self._names_of(chosen.stat().st_ino)
        return self.hard_link()

    def _names_of(self, inode: int) -> list[str]:
        entries = [(folder, entry) for folder in self._folders for entry in os.scandir(self._on(folder))]
        return [f"{folder}/{entry.name}" for folder, entry in entries if entry.inode() == inode]

    def mkdir_deep(self) -> Touched:
        path = self._new()
        os.makedirs(self._on(path) / "x" / "y" / "z")
        (self._on(path) / "x" / "y" / "z" / "leaf").write_bytes(self._content())
        return [path]

    def move_in(self) -> Touched:
        path, made = self._new(), self._outside / str(self._number)
        (made / "inner").mkdir(parents=True)
        (made / "inner" / "file").write_bytes(self._content())
        os.rename(made, self._on(path))
        (self._on(path) / "inner" / "file").write_bytes(self._content())
        return [path]

    def move_out(self) -> Touched:
        path = self._folder()
        self._number += 1
        os.rename(self._on(path), self._outside / str(self._number))
        os.makedirs(self._on(path))
        return [path]

    def touch(self) -> Touched:
        path = self._file()
        moment = self._random.randrange(2_000_000_000_000_000_000)
        os.utime(self._on(path), ns=(moment, moment))
        return [path]

    def fifo(self) -> Touched:
        path = self._new()
        os.mkfifo(self._on(path), self._random.choice((0o600, 0o644)))
        return [path]

    def socket(self) -> Touched:
        path = self._new()
        folder = os.open(self._on(path).parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/{self._on(path).name}")  # a socket's path has 107 bytes at most
        os.close(folder)
        return [path]

    def file_becomes_folder(self) -> Touched:
        path = self._file()
        os.unlink(self._on(path))
        self._on(path).mkdir()
        (self._on(path) / "in").write_bytes(self._content())
        return [path]

    def folder_becomes_file(self) -> Touched:
        path = self._new()
        self._on(path).mkdir()
        (self._on(path) / "in").write_bytes(self._content())
        shutil.rmtree(self._on(path))
        self._on(path).write_bytes(self._content())
        return [path]


KINDS: tuple[Change, ...] = tuple(act for name, act in vars(Hand).items() if callable(act) and not name.startswith("_"))
