"""A store of two records with a choice of bugs, to see whether a sweep finds them.

    python -m tests.faults.small_store sound|row-first|in-place FOLDER

For each record: its bytes as a file, a row that names it, and ``newest``, a copy of the last record; then ``ACK id``.
``row-first`` commits the row before the bytes. ``in-place`` writes ``newest`` over the old one.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from pathlib import Path

from tests.faults.crashkit import ack, arm

RECORDS = 2


def content(record: int) -> bytes:
    return hashlib.sha256(b"record %d" % record).hexdigest().encode() * 100


def put(path: Path, data: bytes) -> None:
    """``path`` holds ``data`` durably, or what it held before."""
    fresh = path.with_suffix(".tmp")
    overwrite(fresh, data)
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def overwrite(path: Path, data: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


def main(bug: str, folder: Path) -> None:
    db = sqlite3.connect(folder / "rows.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE record (id INTEGER PRIMARY KEY) STRICT")
    arm()
    for record in range(RECORDS):
        store = [
            lambda record=record: put(folder / str(record), content(record)),
            lambda record=record: db.execute("INSERT INTO record VALUES (?)", (record,)),
        ]
        for step in reversed(store) if bug == "row-first" else store:
            step()
        (overwrite if bug == "in-place" else put)(folder / "newest", content(record))
        ack(str(record))
    db.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
