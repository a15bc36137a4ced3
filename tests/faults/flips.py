"""Single bits of a stored home that are turned over, and what of it then reads differently: an oracle that asks sqlite3,
zstandard and blake3 themselves, and nothing of ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import zstandard
from blake3 import blake3

HEADER, ENTRY = 15, 36  # docs/design.md, Pack format
BIG_PIECE = 1 << 20


class Frame(NamedTuple):
    """A frame that rows name: its file below ``blobs/``, where its header, its payload and its end are, and its blobs."""

    file: str
    start: int
    payload: int
    end: int
    codec: int
    blobs: tuple[tuple[bytes, int, int], ...]  # name, place in the frame, size


def frames(home: Path) -> list[Frame]:
    """All frames with a blob that a version, a live row or an outcome names."""
    query = """
      select f.pack, f.offset, f.stored, f.codec, b.hash, b.inner, b.size from frame f join blob b on b.frame = f.id
      where b.id in (select blob from version union select blob from live union select blob from outcome)
    """
    found: dict[tuple[object, ...], list[tuple[bytes, int, int]]] = {}
    with closing(sqlite3.connect(f"file:{home}/timeline.db?mode=ro", uri=True)) as db:
        for pack, offset, stored, codec, name, inner, size in db.execute(query):
            file = f"big/{name.hex()}" if pack is None else f"{pack:08d}.pack"
            found.setdefault((file, offset, stored, codec), []).append((name, inner, size))
    return [_frame(home, *place, tuple(blobs)) for place, blobs in found.items()]  # type: ignore[arg-type]


def _frame(
    home: Path, file: str, offset: int, stored: int, codec: int, blobs: tuple[tuple[bytes, int, int], ...]
) -> Frame:
    start = 0
    if not file.startswith("big/"):
        # the last header before the payload: a store without dead frames has it right there
        start = (home / "blobs" / file).read_bytes()[:offset].rindex(b"OXF1")
    return Frame(file, start, offset, offset + stored, codec, blobs)


def reads_differently(home: Path, frame: Frame) -> bool:
    """Whether any blob of the frame is not what its name was made of."""
    data = (home / "blobs" / frame.file).read_bytes()[frame.payload : frame.end]
    if frame.codec == 1:
        try:
            data = b"".join(_unpacked(data))
        except zstandard.ZstdError:
            return True
    return any(blake3(data[inner : inner + size]).digest() != name for name, inner, size in frame.blobs)


def _unpacked(data: bytes) -> Iterator[bytes]:
    yield from zstandard.ZstdDecompressor().read_to_iter(data)


@contextmanager
def flipped(file: Path, at: int, bit: int) -> Iterator[None]:
    """One bit of ``file`` is turned over for the length of the block."""
    _flip(file, at, bit)
    try:
        yield
    finally:
        _flip(file, at, bit)


def _flip(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << bit)]))


Rows = dict[str, list[tuple[object, ...]]]


def all_rows(database: Path) -> Rows | str:
    """Every row of every table as SQLite reads it, or why it does not."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as db:
            db.text_factory = bytes
            tables = [name.decode() for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
            rows = {name: db.execute(f"select * from {name}").fetchall() for name in sorted(tables)}
            rows["sqlite_master"] = db.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
            rows["pragma"] = [db.execute(f"pragma {name}").fetchone() for name in ("user_version", "application_id")]
            return rows
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        return f"refused: {error}"


def changed_columns(before: Rows, after: Rows, columns: dict[str, list[str]]) -> set[str]:
    """``table.column`` of each value that differs; ``table`` alone where rows came or went."""
    found: set[str] = set()
    for table in before.keys() | after.keys():
        old, new = before.get(table, []), after.get(table, [])
        if old == new:
            continue
        if len(old) != len(new):
            found.add(table)
            continue
        for a, b in zip(old, new, strict=True):
            found |= {
                f"{table}.{columns[table][i]}" if table in columns else table for i in range(len(a)) if a[i] != b[i]
            }
    return found


def columns_of(database: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        return {name: [row[1] for row in db.execute(f"pragma table_info({name})")] for name in tables}
