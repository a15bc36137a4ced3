"""Reads what can be read of a database that is damaged: each table by its key, around what SQLite refuses.

A damaged page hides the rows in it and nothing else: a range of keys that cannot be read is halved until what is left of it
is the rows that are gone. Nothing is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

# more than any key of ours; where the greatest cannot be asked for, it is looked for by doubling
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_MOST_PROBES = 200_000  # statements that a table may take: one whose inner pages are all gone would take for ever
_REFUSED = (sqlite3.Error, UnicodeDecodeError, OverflowError)


class Table(NamedTuple):
    """A table of ours: its columns in their order, the one that its rows are ordered by, and whether that is a number."""

    name: str
    columns: tuple[str, ...]
    key: str
    is_numbered: bool


def tables_of(fresh: sqlite3.Connection) -> list[Table]:
    """The tables of a database that was just made."""
    names = [name for (name,) in fresh.execute("select name from sqlite_master where type = 'table' order by name")]
    found = []
    for name in names:
        info = fresh.execute("select name, type, pk from pragma_table_info(?) order by cid", (name,)).fetchall()
        key, kind = next((column, kind) for column, kind, place in info if place == 1)
        found.append(Table(name, tuple(column for column, _, _ in info), key, kind.upper() == "INTEGER"))
    return found


class Salvage:
    """One database, opened for reading. ``damaged`` names the tables of which something could not be read."""

    def __init__(self, file: Path) -> None:
        # immutable where there is no WAL: nothing is made beside what is to stay as it is
        wal = file.with_name(file.name + "-wal")
        has_wal = wal.exists() and wal.stat().st_size > 0
        uri = f"file:{_quoted(file)}?mode=ro{'' if has_wal else '&immutable=1'}"
        self._db = sqlite3.connect(uri, uri=True, isolation_level=None)
        self.damaged: set[str] = set()

    def close(self) -> None:
        self._db.close()

    def version(self) -> int | None:
        """The schema version reached; None where even that cannot be read, or the schema behind it."""
        with suppress(*_REFUSED):
            (reached,) = self._db.execute("pragma user_version").fetchone()
            self._db.execute("select count(*) from sqlite_master").fetchone()
            return int(reached)
        return None

    def rows(self, table: Table) -> Iterator[tuple[Any, ...]]:
        """Every row that can be read, in no order that counts; columns that the table does not have are left out of its
        ``columns`` by :meth:`having`.
        """
        if not table.columns:  # there is no such table: each of the statements would be refused
            self.damaged.add(table.name)
            return
        # the rows themselves: SQLite would rather read an index that has all columns, which is another copy
        indexed = " not indexed" if table.is_numbered else ""
        select = f"select {', '.join(table.columns)} from {table.name}{indexed}"  # noqa: S608 as everywhere here: names of ours
        seen = 0
        with suppress(*_REFUSED):
            for row in self._db.execute(select):
                seen += 1
                yield row
            return
        # SQLite goes by the key here, so what came before the damage comes again: the caller takes each key once
        self.damaged.add(table.name)
        if table.is_numbered:
            yield from self._around(table, select)

    def having(self, table: Table) -> Table:
        """``table`` with the columns that it has in this database: an earlier schema has fewer."""
        with suppress(*_REFUSED):
            there = {name for (name,) in self._db.execute("select name from pragma_table_info(?)", (table.name,))}
            return table._replace(columns=tuple(column for column in table.columns if column in there))
        return table

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """What one statement finds, such as what an index alone tells of rows that are gone; nothing where that is damaged."""
        with suppress(*_REFUSED):
            return self._db.execute(query).fetchall()
        return []

    def _around(self, table: Table, select: str) -> Iterator[tuple[Any, ...]]:
        low, high = self._end(table, "min", _LEAST), self._end(table, "max", _GREATEST)
        ranges, probes = [(low, high)], 0
        while ranges and probes < _MOST_PROBES:
            low, high = ranges.pop()
            probes += 1
            try:
                yield from self._db.execute(f"{select} where {table.key} between ? and ?", (low, high)).fetchall()
            except _REFUSED:
                # a single row that is refused is gone; nothing smaller can be asked for
                if low < high:
                    middle = (low + high) // 2
                    ranges += [(middle + 1, high), (low, middle)]

    def _end(self, table: Table, which: str, fallback: int) -> int:
        with suppress(*_REFUSED):
            (found,) = self._db.execute(f"select {which}({table.key}) from {table.name}").fetchone()  # noqa: S608
            if type(found) is int:
                return found
        # a key is never negative, and none of ours comes near to this
        return 0 if fallback == _LEAST else 1 << 40


def _quoted(file: Path) -> str:
    return str(file).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def is_readable(file: Path) -> bool:
    """Whether SQLite takes ``file`` for a database and finds its schema."""
    with suppress(*_REFUSED), closing(Salvage(file)) as opened:
        return opened.version() is not None
    return False
