"""A process beside the project's other users: keeps a file or a SQLite database open and does what it is told.

``neighbour.py file PATH`` holds PATH open for appending. ``neighbour.py database PATH`` holds a WAL database open with a
table of words. Each line of standard input is a command: ``write TEXT`` or ``add WORD``, ``flush`` (the log into the
database), ``words``, ``close``, ``open``; each is answered by one line.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable


class File:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, text: str) -> str:
        os.write(self._fd, text.encode() + b"\n")
        return "written"


class Database:
    def __init__(self, path: str) -> None:
        self._path = path
        self.open("")

    def open(self, _: str) -> str:
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("create table if not exists word(word text)")
        return "open"

    def add(self, word: str) -> str:
        self._connection.execute("insert into word values(?)", (word,))
        return "added"

    def words(self, _: str) -> str:
        (verdict,) = self._connection.execute("pragma integrity_check").fetchone()
        found = " ".join(word for (word,) in self._connection.execute("select word from word order by rowid"))
        return f"{verdict}: {found}"

    def flush(self, _: str) -> str:
        self._connection.execute("pragma wal_checkpoint(truncate)")
        return "flushed"

    def close(self, _: str) -> str:
        self._connection.close()
        return "closed"


def main(what: str, path: str) -> None:
    held = File(path) if what == "file" else Database(path)
    print("ready", flush=True)
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        act: Callable[[str], str] = getattr(held, command)
        print(act(rest), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
