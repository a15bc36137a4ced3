"""Writes into each file of a folder again as soon as it sees it change, as a formatter does on save.

``language_server.py FOLDER LOG``: half of the files are replaced, the others written in place. LOG gets a line for each
record it wrote, with those that it destroyed in doing so. A line of standard input is answered by ``idle`` when it has
seen every change made before.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import struct
import sys
from contextlib import suppress

IN_CLOSE_WRITE, IN_MOVED_TO = 0x8, 0x80
EVENT = struct.Struct("iIII")
MARK = re.compile(rb"<([0-9]{8})>")

libc = ctypes.CDLL(None, use_errno=True)


class Server:
    def __init__(self, folder: str, log: str) -> None:
        self._folder = os.fsencode(folder)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._own: dict[bytes, tuple[int, int]] = {}
        self._number = 0
        self.inotify = libc.inotify_init1(os.O_CLOEXEC)
        libc.inotify_add_watch(self.inotify, self._folder, IN_CLOSE_WRITE | IN_MOVED_TO)

    def react(self) -> None:
        data, offset = os.read(self.inotify, 1 << 16), 0
        while offset < len(data):
            *_, length = EVENT.unpack_from(data, offset)
            offset += EVENT.size
            name = data[offset : offset + length].rstrip(b"\0")
            offset += length
            if not name.endswith(b".new"):
                with suppress(FileNotFoundError):
                    self._format(name)

    def _format(self, name: bytes) -> None:
        path = self._folder + b"/" + name
        seen = os.stat(path)
        if self._own.get(name) == (seen.st_ino, seen.st_mtime_ns):
            return  # before it is opened for writing: closing that would be the next event
        fd = os.open(path, os.O_RDWR)
        try:
            before = os.pread(fd, os.fstat(fd).st_size, 0)
            self._number += 1
            after = MARK.sub(b"", before).rstrip() + b" <%08d>\n" % self._number
            if name[-1] % 2:
                os.pwrite(fd, after, 0)
                os.ftruncate(fd, len(after))
                self._note(name, before, written=os.fstat(fd))
            else:
                self._replace(path, name, fd, after)
        finally:
            os.close(fd)

    def _replace(self, path: bytes, name: bytes, before: int, after: bytes) -> None:
        with open(path + b".new", "wb") as file:
            file.write(after)
            file.flush()
            written = os.fstat(file.fileno())
        os.rename(path + b".new", path)
        gone = os.pread(before, os.fstat(before).st_size, 0) if os.fstat(before).st_nlink == 0 else b""
        self._note(name, gone, written)

    def _note(self, name: bytes, gone: bytes, written: os.stat_result) -> None:
        self._own[name] = (written.st_ino, written.st_mtime_ns)
        destroyed = b" ".join(MARK.findall(gone))
        os.write(self._log, b"%s %08d %s\n" % (name, self._number, destroyed))


def main(folder: str, log: str) -> None:
    server = Server(folder, log)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin, server.inotify], [], [])
        if server.inotify in ready:
            server.react()
        elif not sys.stdin.readline():
            return
        else:
            print("idle", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
