"""Writes into the files of a folder in every way that editors, loggers and tools have, and logs what it wrote.

``writer.py FOLDER LOG SEED`` works until its standard input ends. Each record has a number of its own. A line of the
log is durable before the next change: ``w NUMBER STYLE FILE`` after a record was written, ``d NUMBER...`` for records
that the writer itself destroyed. It knows those exactly: in place it has read what it overwrites through the same
descriptor, and an entry it replaces is looked at once it has come out.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import select
import sys
from collections.abc import Callable

RECORD = re.compile(rb"<([0-9]{8})>")
LARGEST = 16_000
OPEN_AT_ONCE = 4
HELD = 3
EXCHANGE = 2
AT_FDCWD = -100

libc = ctypes.CDLL(None, use_errno=True)


def exchange(a: str, b: str) -> None:
    if libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), EXCHANGE) < 0:
        raise OSError(ctypes.get_errno(), a)


def records(data: bytes) -> set[bytes]:
    return set(RECORD.findall(data))


def whole(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


class Writer:
    """The first HELD files are open for appending from the start to the end."""

    def __init__(self, folder: str, log: str, seed: int) -> None:
        self._folder = folder
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._random = random.Random(seed)
        self._number = 0
        self._files = sorted(os.listdir(folder))
        self._held = {name: os.open(self._path(name), os.O_RDWR | os.O_APPEND) for name in self._files[:HELD]}
        self._lingering: list[tuple[str, int]] = []
        self._reading: list[int] = []
        self._styles: list[Callable[[str], None]] = [
            self.append, self.linger, self.replace, self.trade, self.rewrite, self.truncate, self.read,
        ]  # fmt: skip

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _note(self, line: str) -> None:
        os.write(self._log, line.encode() + b"\n")
        os.fdatasync(self._log)

    def _new(self) -> bytes:
        self._number += 1
        return b"<%08d>" % self._number + b"." * self._random.randrange(60) + b"\n"

    def _wrote(self, record: bytes, style: str, name: str) -> None:
        self._note(f"w {record[1:9].decode()} {style} {name}")

    def _destroyed(self, gone: set[bytes]) -> None:
        if gone:
            self._note("d " + " ".join(sorted(number.decode() for number in gone)))

    def step(self) -> None:
        """One change. A file that is absent for a moment is none of ours now."""
        try:
            self._append_to_held() if self._random.random() < 0.3 else self._change_another()
        except FileNotFoundError:
            return

    def _append_to_held(self) -> None:
        """Through the descriptor that stays open or, as a second logger would, through one of its own."""
        name = self._random.choice(self._files[:HELD])
        if self._random.random() < 0.5:
            self.append(name)
        else:
            self._append(self._held[name], "held", name)

    def _change_another(self) -> None:
        self._random.choice(self._styles)(self._random.choice(self._files[HELD:]))

    def _append(self, fd: int, style: str, name: str) -> None:
        if os.fstat(fd).st_size > LARGEST:
            self._destroyed(records(whole(fd)))
            os.ftruncate(fd, 0)
        record = self._new()
        os.write(fd, record)
        self._wrote(record, style, name)

    def append(self, name: str) -> None:
        """Open, append, close."""
        fd = os.open(self._path(name), os.O_RDWR | os.O_APPEND)
        try:
            self._append(fd, "append", name)
        finally:
            os.close(fd)

    def linger(self, name: str) -> None:
        """Append through a descriptor that stays open for some changes more."""
        self._lingering.append((name, os.open(self._path(name), os.O_RDWR | os.O_APPEND)))
        for opened, fd in self._lingering:
            self._append(fd, "linger", opened)
        if len(self._lingering) > OPEN_AT_ONCE:
            os.close(self._lingering.pop(0)[1])

    def replace(self, name: str) -> None:
        """Save as editors do. What goes is the file that was there before, unless that one is still linked."""
        before = os.open(self._path(name), os.O_RDONLY)
        try:
            record = self._save_aside(name)
            os.rename(self._path(name) + ".tmp", self._path(name))
            self._wrote(record, "replace", name)
            if os.fstat(before).st_nlink == 0:
                self._let_go(before)
        finally:
            os.close(before)

    def trade(self, name: str) -> None:
        """Swap a new file in and look at the one that came out."""
        record = self._save_aside(name)
        exchange(self._path(name) + ".tmp", self._path(name))
        self._wrote(record, "trade", name)
        fd = os.open(self._path(name) + ".tmp", os.O_RDONLY)
        self._let_go(fd)
        os.close(fd)
        os.unlink(self._path(name) + ".tmp")

    def _let_go(self, gone: int) -> None:
        """The file behind ``gone`` was replaced by us: what is in it goes, and nothing is appended to it any more."""
        self._destroyed(records(whole(gone)))
        for opened in [opened for opened in self._lingering if os.path.sameopenfile(opened[1], gone)]:
            self._lingering.remove(opened)
            os.close(opened[1])

    def _save_aside(self, name: str) -> bytes:
        record = self._new()
        fd = os.open(self._path(name) + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, record)
        os.close(fd)
        return record

    def rewrite(self, name: str) -> None:
        """Other content in place, then the rest cut off."""
        fd = os.open(self._path(name), os.O_RDWR)
        try:
            gone, record = records(whole(fd)), self._new()
            os.pwrite(fd, record, 0)
            os.ftruncate(fd, len(record))
            self._wrote(record, "rewrite", name)
            self._destroyed(gone)
        finally:
            os.close(fd)

    def truncate(self, name: str) -> None:
        """Cut the file anywhere."""
        fd = os.open(self._path(name), os.O_RDWR)
        try:
            before = whole(fd)
            size = self._random.randrange(len(before) + 1)
            os.ftruncate(fd, size)
            self._destroyed(records(before) - records(before[:size]))
        finally:
            os.close(fd)

    def read(self, name: str) -> None:
        """Hold the file open for reading for a while."""
        self._reading.append(os.open(self._path(name), os.O_RDONLY))
        if len(self._reading) > OPEN_AT_ONCE:
            os.close(self._reading.pop(0))


def main(folder: str, log: str, seed: str) -> None:
    writer = Writer(folder, log, int(seed))
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        writer.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
