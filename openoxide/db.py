"""SQLite as the rooms use it: one writer at a time with IMMEDIATE transactions, readers that cannot write.

Deferred transactions that read and then write fail under contention without a retry, so the writer never uses them.
Readers hold one snapshot for as long as their ``with`` block; keep it short, it holds back the WAL checkpoint.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING

import peewee

from openoxide.errors import FailedError, StoreDamagedError, StoreFullError, StoreReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Sequence

Transaction = peewee.SqliteDatabase
"""What a ``with database.writing()`` or ``reading()`` block works on."""

PAGE_SIZE = 8192
BUSY_TIMEOUT_S = 5
WAL_LIMIT_BYTES = 64 << 20

# auto_vacuum and page_size must come before journal_mode: after it they are silently ignored
_WRITER_PRAGMAS: Sequence[tuple[str, object]] = (
    ("page_size", PAGE_SIZE),
    ("auto_vacuum", 2),
    ("journal_mode", "wal"),
    ("synchronous", 2),
    ("mmap_size", 0),
    ("secure_delete", 1),
    ("journal_size_limit", WAL_LIMIT_BYTES),
    ("foreign_keys", 1),
)
_READER_PRAGMAS: Sequence[tuple[str, object]] = (("query_only", 1), ("mmap_size", 0))


class Database:
    """One SQLite file. ``read_only`` opens it without the right to write; ``immutable`` also without the side files
    that SQLite would have to make, for a file that nobody writes to.
    """

    def __init__(self, path: Path, *, read_only: bool = False, immutable: bool = False) -> None:
        self.path = path
        self._uri = f"file:{_quoted(path)}?mode=ro" + ("&immutable=1" if immutable else "")
        self._lock = threading.RLock()
        self._readers: LifoQueue[peewee.SqliteDatabase] = LifoQueue()
        self._writer: peewee.SqliteDatabase | None = None
        if not read_only:
            self._writer = peewee.SqliteDatabase(
                str(path),
                pragmas=list(_WRITER_PRAGMAS),
                timeout=BUSY_TIMEOUT_S,
                thread_safe=False,
                check_same_thread=False,
            )
            with _translated(path):
                self._writer.connect()

    @property
    def journal_mode(self) -> str:
        """What SQLite really uses; not ``wal`` on file systems without shared memory."""
        with self.reading() as db:
            return str(db.execute_sql("pragma journal_mode").fetchone()[0])

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The writer, inside one IMMEDIATE transaction that is durable when the block ends."""
        if self._writer is None:
            raise StoreReadOnlyError(f"{self.path} is open for reading only", hint="make the home writable")
        with self._lock, _translated(self.path):
            self._writer.execute_sql("begin immediate")
            try:
                yield self._writer
                self._writer.execute_sql("commit")
            except BaseException:
                # SQLite rolls back by itself when the disk is full; a second rollback would hide why
                if self._writer.connection().in_transaction:
                    self._writer.execute_sql("rollback")
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A reader on one consistent snapshot."""
        with self.looking() as reader:
            reader.execute_sql("begin")
            try:
                yield reader
            finally:
                reader.execute_sql("rollback")

    @contextmanager
    def looking(self) -> Iterator[Transaction]:
        """A reader on which each statement has a snapshot of its own: for long work that holds none back."""
        try:
            reader = self._readers.get_nowait()
        except Empty:
            reader = self._open_reader()
        try:
            with _translated(self.path):
                yield reader
        except BaseException:
            reader.close()
            raise
        self._readers.put(reader)

    def _open_reader(self) -> peewee.SqliteDatabase:
        reader = peewee.SqliteDatabase(
            self._uri,
            uri=True,
            pragmas=list(_READER_PRAGMAS),
            timeout=BUSY_TIMEOUT_S,
            thread_safe=False,
            check_same_thread=False,
        )
        with _translated(self.path):
            reader.connect()
        return reader

    def fold_wal(self) -> bool:
        """Copy the WAL back into the file; whether all of it could be copied."""
        if self._writer is None:
            return False
        with self._lock, _translated(self.path):
            busy, _, _ = self._writer.execute_sql("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def close(self) -> None:
        """Close every connection; the last one folds the WAL into the file."""
        while True:
            try:
                self._readers.get_nowait().close()
            except Empty:
                break
        if self._writer is not None:
            with self._lock:
                self._writer.close()


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        raise _translation(path, error) from error


def _translation(path: Path, error: Exception) -> Exception:
    text = str(error)
    if "disk is full" in text:
        return StoreFullError("the disk that holds the store is full", hint="free some space and try again")
    if "readonly" in text or "unable to open" in text:
        return StoreReadOnlyError(f"{path} cannot be written or opened: {text}", hint="check its permissions")
    if "malformed" in text or "not a database" in text or "no such table" in text:
        return StoreDamagedError(f"{path} is damaged: {text}", hint="keep a copy of the home before anything else")
    return FailedError(f"{path}: {text}", hint="see the daemon's log")
