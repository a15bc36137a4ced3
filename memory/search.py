"""Full-text search over a memory. The index is derived, in memory, and brought up to date before each search by what a listing
says: the disk is the truth, and a lost index is made again.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass

from openoxide.memory.directory import FileInfo, MemoryDirectory
from openoxide.memory.index import title_from
from openoxide.memory.markdown import decoded, page_of
from openoxide.memory.naming import INDEX, SUFFIX

SNIPPET_WORDS = 12
BEFORE, AFTER, GAP = "[", "]", "…"
MOST_HITS = 1_000

# remove_diacritics 2: é is found as e, also where it is written with a combining mark (SQLite: FTS5, 4.3.1)
_SCHEMA = """
create virtual table topic using fts5(name, title, body, tokenize = "unicode61 remove_diacritics 2");
create table known(name text primary key, id integer not null, size integer, mtime_ns integer, ino integer) strict;
"""
# a word in the name or the title says more about a topic than one in its text
_SEARCH = """
select name, title, snippet(topic, 2, ?, ?, ?, ?), body from topic
where topic match ? order by bm25(topic, 60.0, 30.0, 1.0), name limit ?
"""
_SCAN = (
    "select name, title, body from topic where instr(lower(name || char(10) || body), lower(?)) order by name limit ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A file that fits: ``snippet`` has what was found between brackets, ``line`` (from 1) is where it stands first."""

    name: str
    title: str
    snippet: str
    line: int


class Search:
    """Over one memory. Made once and kept: it reads only what changed since. ``clean`` takes out what must not be shown."""

    def __init__(self, directory: MemoryDirectory, clean: Callable[[str], str] = str) -> None:
        self._directory = directory
        self._clean = clean
        # one connection, guarded by a lock: requests come from many threads
        self._lock = threading.Lock()
        # in memory: nothing of a note outlives its file in a database of ours
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Give the index up."""
        self._db.close()

    def find(self, query: str, limit: int = 20) -> list[Hit]:
        """The files that hold every word of ``query``, the best first; a last word may be a beginning. Any text is a query."""
        limit = max(1, min(limit, MOST_HITS))
        with self._lock:
            self._refresh()
            words = re.findall(r"\w+", query)
            marks = (BEFORE, AFTER, GAP, SNIPPET_WORDS)
            rows = self._db.execute(_SEARCH, (*marks, _match(words), limit)).fetchall() if words else []
            if rows:
                return [_hit(name, title, snippet, body, words) for name, title, snippet, body in rows]
            # within a word, signs, and scripts that put no spaces between words
            wanted = query.strip()
            scanned = self._db.execute(_SCAN, (wanted, limit)).fetchall() if wanted else []
            return [_hit(name, title, _around(body, wanted), body, [wanted]) for name, title, body in scanned]

    def _refresh(self) -> None:
        files = {file.name: file for file in self._directory.listing().files if file.name.endswith(SUFFIX)}
        known = {row[0]: FileInfo(row[0], *row[2:]) for row in self._db.execute("select * from known")}
        gone = [name for name, seen in known.items() if files.get(name) != seen]
        self._db.execute("begin")
        # deleted by row id: FTS5 looks through everything for a name
        for name in gone:
            self._db.execute("delete from topic where rowid = (select id from known where name = ?)", (name,))
            self._db.execute("delete from known where name = ?", (name,))
        for name in files.keys() - (known.keys() - set(gone)):
            self._add(files[name])
        self._db.execute("commit")

    def _add(self, file: FileInfo) -> None:
        raw = self._directory.read(file.name)
        text = self._clean(decoded(raw.data if raw else b""))
        body = page_of(text).body
        heading = re.search(r"^#+\s*(.+)$", body, re.MULTILINE)
        title = file.name if file.name == INDEX else heading[1].strip() if heading else title_from(file.name)
        row = self._db.execute("insert into topic(name, title, body) values(?, ?, ?)", (file.name, title, text))
        self._db.execute("insert into known values(?, ?, ?, ?, ?)", (file.name, row.lastrowid, *file[1:]))


def _match(words: list[str]) -> str:
    """All of the words, the last one as a beginning; in quotes nothing of the query language means anything."""
    return " ".join(f'"{word}"' for word in words) + "*"


def _hit(name: str, title: str, snippet: str, body: str, words: list[str]) -> Hit:
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    match = pattern.search(body)
    line = body.count("\n", 0, match.start()) + 1 if match else 1
    return Hit(name=name, title=title, snippet=" ".join(snippet.split()), line=line)


def _around(body: str, wanted: str) -> str:
    at = body.lower().find(wanted.lower())
    if at < 0:
        return ""
    start, stop = max(0, at - 40), at + len(wanted)
    return f"{GAP if start else ''}{body[start:at]}{BEFORE}{body[at:stop]}{AFTER}{body[stop : stop + 40]}"
