"""One ``timeline.db`` in the place of another, such that a kill at any moment leaves one of them, whole.

A new one is written as ``timeline.db.repairing``. Once it is durable it gets the name ``timeline.db.repaired``: from then on
it is the store, and whoever comes next puts it in its place first. A WAL belongs to the old file alone (its frames would be
taken into any other), so it goes before the new file comes.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from openoxide.errors import StoreReadOnlyError
from openoxide.fileio import fsync_file, fsync_folder, write_all, write_errors

_SIDES = ("-wal", "-shm", "-journal")
_CHUNK = 1 << 20


def repairing(file: Path) -> Path:
    """Where the new file is written."""
    return file.with_name(file.name + ".repairing")


def _repaired(file: Path) -> Path:
    return file.with_name(file.name + ".repaired")


def is_waiting(file: Path) -> bool:
    """Whether a new one stands beside it that is to take its place."""
    return _repaired(file).exists()


def copy_database(file: Path, to: Path) -> None:
    """A durable copy of a database that others may be writing: by SQLite where it can read it, with its WAL taken in, else
    byte by byte with its WAL beside it. Raises OSError.
    """
    # SQLite has the side files beside what a link leads to
    file = Path(os.path.realpath(file))
    try:
        if _holds_something(Path(f"{file}-journal")):
            _copy_and_roll_back(file, to)
        else:
            _copy_by_sqlite(file, to)
    # it quotes what it read, and Python cannot decode the text of the error then
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if "disk is full" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        for side in _SIDES:
            Path(f"{to}{side}").unlink(missing_ok=True)
        for side in ("", "-wal", "-journal"):
            if os.path.exists(f"{file}{side}"):
                _copy(Path(f"{file}{side}"), Path(f"{to}{side}"))
    fsync_file(to)
    fsync_folder(to.parent)


def _holds_something(side: Path) -> bool:
    return side.exists() and side.stat().st_size > 0


def _copy_and_roll_back(file: Path, to: Path) -> None:
    """Whoever wrote was killed in a transaction, half of which is in the file (SQLite: File Locking And Concurrency, hot
    journals): it is taken back in the copy.
    """
    _copy(file, to)
    _copy(Path(f"{file}-journal"), Path(f"{to}-journal"))
    with closing(sqlite3.connect(to)) as target:
        # only a writer takes a transaction back, with its first look
        target.execute("pragma journal_mode = delete").fetchone()
        target.execute("select count(*) from sqlite_master").fetchone()


def _copy_by_sqlite(file: Path, to: Path) -> None:
    os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    # else SQLite would make side files beside a database that nobody has open
    alone = "" if _holds_something(Path(f"{file}-wal")) else "&immutable=1"
    uri = f"{file.absolute().as_uri()}?mode=ro{alone}"
    with closing(sqlite3.connect(uri, uri=True)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
        # else the copy would be one that wants a WAL beside it
        target.execute("pragma journal_mode = delete")


def _copy(file: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "rb") as source:
            while chunk := source.read(_CHUNK):
                write_all(fd, chunk)
        os.fsync(fd)
    finally:
        os.close(fd)


def commit(file: Path) -> None:
    """What stands at :func:`repairing` is ``file`` from now on. The caller holds the home's lock."""
    fsync_file(repairing(file))
    # the point of no return
    os.rename(repairing(file), _repaired(file))
    fsync_folder(file.parent)
    finish(file)


def finish(file: Path) -> None:
    """Put a new file in its place if a kill came before that; delete one that was not finished. The caller holds the home's
    lock.
    """
    with write_errors(file.name, StoreReadOnlyError):
        if _repaired(file).exists():
            for side in _SIDES:
                Path(f"{file}{side}").unlink(missing_ok=True)
            # a WAL that came back with the power would be taken into the new file
            fsync_folder(file.parent)
            os.rename(_repaired(file), file)
            fsync_folder(file.parent)
        for side in ("", *_SIDES):
            if os.path.lexists(left := f"{repairing(file)}{side}"):
                os.unlink(left)
