"""SQLite as the rooms use it: one writer at a time with IMMEDIATE transactions, readers that cannot write.

Deferred transactions that read and then write fail under contention without a retry, so the writer never uses them.
Readers hold one snapshot for as long as their ``with`` block; keep it short, it holds back the WAL checkpoint.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING

import peewee

from openoxide.errors import FULL_HINT, FailedError, StoreDamagedError, StoreFullError, StoreReadOnlyError
from openoxide.fileio import fsync_file, require_descriptors

if TYPE_CHECKING:
    from collections.abc import Sequence

Transaction = peewee.SqliteDatabase
"""What a ``with database.writing()`` or ``reading()`` block works on."""

# measured between 4096, where rows cost more overhead, and 16384, where a commit took 10 to 30 % longer
PAGE_SIZE = 8192
# a backup tool or a database browser may hold the file for a moment
BUSY_TIMEOUT_S = 5
WAL_LIMIT_BYTES = 64 << 20

# auto_vacuum and page_size must come before journal_mode: after it they are silently ignored
_WRITER_PRAGMAS: Sequence[tuple[str, object]] = (
    ("page_size", PAGE_SIZE),
    # incremental: space that is deleted can be given back in pieces, and it cannot be turned on later without VACUUM
    ("auto_vacuum", 2),
    ("journal_mode", "wal"),
    # FULL: in WAL mode NORMAL may lose the last commits with the power, and a checkpoint is promised as durable
    ("synchronous", 2),
    # an I/O error in a mapping is a signal that ends us, not an error code (SQLite: Memory-Mapped I/O)
    ("mmap_size", 0),
    # what is deleted is overwritten: OFF and FAST leave readable rows in the file; the default differs by build
    ("secure_delete", 1),
    # else the WAL stays as large as it ever was
    ("journal_size_limit", WAL_LIMIT_BYTES),
    # off by default, and for each connection anew
    ("foreign_keys", 1),
)
# what SQLite says of a file whose bytes are not those that were written
_DAMAGE = (
    "malformed",
    "not a database",
    "no such table",
    "no such column",
    "unsupported file format",
    "decode to UTF-8",
)
_BESIDE_PRAGMAS: Sequence[tuple[str, object]] = (("synchronous", 2), ("mmap_size", 0), ("secure_delete", 1))
_READER_PRAGMAS: Sequence[tuple[str, object]] = (("query_only", 1), ("mmap_size", 0))


class Database:
    """One SQLite file. ``read_only`` opens it without the right to write; ``immutable`` also without the side files
    that SQLite would have to make, for a file that nobody writes to.
    """

    def __init__(self, path: Path, *, read_only: bool = False, immutable: bool = False) -> None:
        self.path = path
        # raises where the path may lead elsewhere by now: asked before anything is written, and before it is committed
        self.guard: Callable[[], None] = lambda: None
        self._uri = f"file:{_quoted(path)}?mode=ro" + ("&immutable=1" if immutable else "")
        # the writing connection is shared by all threads: the lock is what makes check_same_thread=False sound
        self._lock = threading.RLock()
        self._readers: LifoQueue[peewee.SqliteDatabase] = LifoQueue()
        self._writer: peewee.SqliteDatabase | None = None
        if not read_only:
            # not thread_safe, which to peewee means a connection for each thread that nobody closes
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
            self.guard()
            # a deferred one that reads first fails at its first write if somebody wrote meanwhile, whatever the busy
            # timeout: SQLite cannot renew a snapshot. Measured: 512 of 1,713 transactions of three processes.
            self._writer.execute_sql("begin immediate")
            try:
                yield self._writer
                # what the rows name may have gone elsewhere in the meantime
                self.guard()
                self._writer.execute_sql("commit")
            # Ctrl-C too: a transaction that stays open would shut out every writer after it
            except BaseException:
                # SQLite rolls back by itself when the disk is full; a second rollback would hide why
                if self._writer.connection().in_transaction:
                    self._writer.execute_sql("rollback")
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A reader on one consistent snapshot."""
        with self.looking() as reader:
            # deferred: the snapshot is that of the first read (SQLite: Isolation)
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
            # not back among the others: a statement that was broken off may still hold its snapshot
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
        try:
            with _translated(self.path):
                reader.connect()
                # a first read opens the WAL, by path as well: from here on it is known which files these are
                reader.execute_sql("pragma schema_version").fetchone()
                self.guard()
        except BaseException:
            reader.close()
            raise
        return reader

    def side_files(self) -> tuple[Path, Path]:
        """The WAL and what its readers share; they are there while a database in that mode is open."""
        return self.path.with_name(f"{self.path.name}-wal"), self.path.with_name(f"{self.path.name}-shm")

    def write_anew(self) -> None:
        """Write the whole file anew, in one transaction. What was deleted stands nowhere in it then: a page that was split
        keeps copies of what it once held in the part that it does not use, and ``secure_delete`` does not reach those.
        """
        if self._writer is None:
            raise StoreReadOnlyError(f"{self.path} is open for reading only", hint="make the home writable")
        with self._lock, _translated(self.path):
            self.guard()
            # in memory: what VACUUM collects would lie outside of the home for a moment
            self._writer.execute_sql("pragma temp_store = 2")
            try:
                self._writer.execute_sql("vacuum")
            finally:
                self._writer.execute_sql("pragma temp_store = 0")

    def empty_wal(self) -> bool:
        """Copy the WAL back into the file and cut it to nothing; False where a reader is in the way, for which nobody waits."""
        if self._writer is None:
            return False
        with self._lock, _translated(self.path):
            self._writer.execute_sql("pragma busy_timeout = 0")
            try:
                busy, _, _ = self._writer.execute_sql("pragma wal_checkpoint(truncate)").fetchone()
            finally:
                self._writer.execute_sql(f"pragma busy_timeout = {BUSY_TIMEOUT_S * 1000}")
        return not busy

    def fold_wal(self) -> bool:
        """Copy the WAL back into the file; whether all of it could be copied."""
        if self._writer is None:
            return False
        with self._lock, _translated(self.path):
            # a reader in the middle holds it back without an error: only the first column tells
            # (SQLite: PRAGMA wal_checkpoint)
            busy, _, _ = self._writer.execute_sql("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def copy_to(self, target: Path) -> None:
        """A consistent copy in a new file, durable when this returns; whoever writes meanwhile goes on."""
        # an own file from the start: SQLite would make it with the rights that the umask leaves
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with self.looking() as reader, opened(target) as copy:
            # whoever is killed here starts over: no journal, and one sync at the end
            copy.execute("pragma journal_mode = off")
            copy.execute("pragma synchronous = off")
            # all pages at once: in steps it starts again at each commit of the writer (measured: 766 times in 15 s)
            reader.connection().backup(copy, pages=-1)
        fsync_file(target)

    def fold_beside(self) -> None:
        """Copy as much of the WAL into the file as no reader needs, on a connection of its own: nobody waits for it."""
        # passive: it never waits for readers, as truncate does, for as long as the busy timeout (SQLite: PRAGMA wal_checkpoint)
        with self._another() as db:
            db.execute_sql("pragma wal_checkpoint(passive)").fetchone()

    @contextmanager
    def _another(self) -> Iterator[Transaction]:
        another = peewee.SqliteDatabase(str(self.path), pragmas=list(_BESIDE_PRAGMAS), thread_safe=False)
        try:
            with _translated(self.path):
                self.guard()
                another.connect()
                # as for a reader: a first read opens the WAL, by path as well
                another.execute_sql("pragma schema_version").fetchone()
                self.guard()
                yield another
        finally:
            another.close()

    def free_pages(self) -> int:
        """Pages of the file that hold nothing."""
        with self.looking() as db:
            return int(db.execute_sql("pragma freelist_count").fetchone()[0])

    def vacuum(self, pages: int) -> None:
        """Give up to so many free pages at the end of the file back, in one transaction."""
        if self._writer is None:
            raise StoreReadOnlyError(f"{self.path} is open for reading only", hint="make the home writable")
        with self._lock, _translated(self.path):
            self.guard()
            # not through execute: one step of the statement frees one page, and only executescript takes all of them
            self._writer.connection().executescript(f"pragma incremental_vacuum({pages})")

    def close(self) -> None:
        """Close every connection; the last one folds the WAL into the file."""
        while True:
            try:
                self._readers.get_nowait().close()
            except Empty:
                break
        if self._writer is not None:
            with self._lock:
                # of a WAL that was deleted this is the last chance, and closing leaves it to others who have it open
                with suppress(peewee.DatabaseError):
                    self._writer.execute_sql("pragma wal_checkpoint(passive)").fetchone()
                self._writer.close()


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection in autocommit mode to a file that no other one of this process has open."""
    with _translated(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("pragma mmap_size = 0")
            yield connection
        finally:
            connection.close()


def _quoted(path: Path) -> str:
    # SQLite decodes %HH in a URI and ends the path at ? and #; % goes first, or it would escape the escapes
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _require_openable(path: Path) -> None:
    """Raises FailedError where the process may not open anything: SQLite does not say why it could not."""
    try:
        # not the database: to close any descriptor of it would give up SQLite's locks on it (fcntl(2))
        os.close(os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        require_descriptors(error)


def _damaged(path: Path, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"{path} is damaged: {what}", hint="`oxide-ctl repair --dry-run` says what can be mended, and what is lost"
    )


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    # peewee translates what execute raises; a cursor that is read on raises sqlite3's own
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        raise _translation(path, error) from error
    # SQLite quotes what it read, and Python cannot decode the text of the error then
    except UnicodeDecodeError as error:
        raise _damaged(path, "it holds text that is not UTF-8") from error


def _translation(path: Path, error: Exception) -> Exception:
    # by the text: peewee's exceptions do not carry sqlite_errorcode
    text = str(error)
    if "disk is full" in text:
        return StoreFullError("the disk that holds the store is full", hint=FULL_HINT)
    if "is locked" in text:
        hint = "close what has it open, such as a database browser or a backup, and try again"
        return FailedError(f"{path} is held by another program: {text}", hint=hint)
    if "unable to open" in text:
        _require_openable(path)
    if "readonly" in text or "unable to open" in text:
        return StoreReadOnlyError(f"{path} cannot be written or opened: {text}", hint="check its permissions")
    if any(sign in text for sign in _DAMAGE):
        return _damaged(path, text)
    return FailedError(f"{path}: {text}", hint="see the daemon's log")
