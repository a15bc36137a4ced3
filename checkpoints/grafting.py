"""Gives a copy of a database, whose first page or length SQLite does not take, another first page: its own with the header of a
sound one, or that of a new database. What it says is proven by the rows that are read with it.

Tables and indexes of ours begin at pages that are known: one script makes all in one go, a migration adds to them, and a purge,
which writes the file anew, brings the tables before the indexes.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from openoxide.checkpoints.migrating import statements
from openoxide.checkpoints.salvage import Salvage, Table, tables_of
from openoxide.checkpoints.schema import MIGRATIONS
from openoxide.db import PAGE_SIZE

# SQLite: Database File Format, 1.3
_HEADER_BYTES = 100
_MODES, _COUNT = slice(18, 20), slice(28, 32)
_ROLLBACK, _WAL = b"\x01\x01", b"\x02\x02"
_ROWS = 100  # of each table: one that begins at another page shows in the first of them


def grafted(old: Path) -> Path:
    """A copy of ``old`` beside it, with the first page by which most tables can be read. Its WAL goes along."""
    copy = old.with_name(old.name + ".grafted")
    shutil.copyfile(old, copy)
    copy.chmod(0o600)
    wal = old.with_name(old.name + "-wal")
    if has_wal := wal.exists() and wal.stat().st_size > 0:
        shutil.copyfile(wal, copy.with_name(copy.name + "-wal"))
    own, pages = _first_page(old), old.stat().st_size // PAGE_SIZE
    with tempfile.TemporaryDirectory(dir=old.parent) as folder:
        made = [*_made(Path(folder))]
    with closing(_opened(":memory:")) as db:
        _migrate(db, 0)
        wanted = {table: _is_of_its_types(db, table) for table in tables_of(db)}
    candidates = [
        _fitted(page, pages, has_wal=has_wal) for page in (made[0][:_HEADER_BYTES] + own[_HEADER_BYTES:], *made)
    ]
    best = max(candidates, key=lambda page: _readable(copy, page, wanted))
    _write(copy, best)
    return copy


def drop(copy: Path) -> None:
    """Delete what :func:`grafted` made."""
    for side in ("", "-wal", "-shm"):
        copy.with_name(copy.name + side).unlink(missing_ok=True)


def _made(folder: Path) -> Iterator[bytes]:
    """The first page of a new database, and of those that were written anew when they had reached each of our schemas."""
    for reached in range(len(MIGRATIONS) + 1):
        file = folder / str(reached)
        with closing(_opened(str(file))) as db:
            _migrate(db, reached)
        yield _first_page(file)


def _opened(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, isolation_level=None)
    for pragma in (f"page_size = {PAGE_SIZE}", "auto_vacuum = 2", "synchronous = off"):
        db.execute(f"pragma {pragma}")
    return db


def _migrate(db: sqlite3.Connection, vacuumed_at: int) -> None:
    for number, script in enumerate(MIGRATIONS):
        for statement in statements(script):
            db.execute(statement)
        if number + 1 == vacuumed_at:
            db.execute("vacuum")
    db.execute(f"pragma user_version = {len(MIGRATIONS)}")


def _first_page(file: Path) -> bytes:
    with open(file, "rb") as source:
        return source.read(PAGE_SIZE).ljust(PAGE_SIZE, b"\0")


def _fitted(page: bytes, pages: int, *, has_wal: bool) -> bytes:
    """``page`` as the first one of so many: SQLite reads none beyond the count."""
    fitted = bytearray(page)
    fitted[_MODES] = _WAL if has_wal else _ROLLBACK
    fitted[_COUNT] = pages.to_bytes(4, "big")
    return bytes(fitted)


def _write(copy: Path, page: bytes) -> None:
    with open(copy, "r+b") as file:
        file.write(page)


def _is_of_its_types(db: sqlite3.Connection, table: Table) -> dict[str, str]:
    """For each column of ``table`` what is so of its values; a strict table has no others."""
    info = db.execute('select name, type, "notnull" or pk from pragma_table_info(?)', (table.name,)).fetchall()
    nullable = {True: "", False: " or {0} is null"}
    return {
        name: f"(typeof({name}) = '{kind.lower()}'{nullable[bool(filled)].format(name)})" for name, kind, filled in info
    }


def _readable(copy: Path, page: bytes, wanted: dict[Table, dict[str, str]]) -> int:
    """How many tables can be read by ``page``: their first rows have the types of their columns."""
    _write(copy, page)
    found = 0
    with suppress(sqlite3.Error), closing(Salvage(copy)) as salvage:
        for table, types in wanted.items():
            columns = salvage.having(table).columns
            if columns:
                is_so = " and ".join(types[column] for column in columns)
                limited = f"select {', '.join(columns)} from {table.name} not indexed limit {_ROWS}"  # noqa: S608 names of ours
                found += salvage.ask(f"select count(*) from ({limited}) where not ({is_so})") == [(0,)]  # noqa: S608
    return found
