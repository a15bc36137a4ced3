"""Contents that are read by and by: how far that is, and what was found damaged, as rows of ``meta`` until it is mended or gone.

``check_at`` is the row id of the last content that was read (0: none), ``check_ms`` when that was; ``damaged:ID`` is when the
content with this row id was found damaged.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from openoxide.checkpoints.model import LOST_FRAME
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

_AT, _WHEN, _DAMAGED = "check_at", "check_ms", "damaged:"
_KNOWN = f"""
select count(*), min(m.value) from meta m join blob b on b.id = cast(substr(m.key, {len(_DAMAGED) + 1}) as integer)
where m.key like '{_DAMAGED}%' and b.frame <> {LOST_FRAME}
"""  # noqa: S608


class Damaged(NamedTuple):
    """How many contents were found damaged, and when the first of them was."""

    contents: int
    found_ms: int


class Progress(NamedTuple):
    """How far the contents were read. ``ms`` 0: never."""

    at: int
    ms: int


def progress(db: Transaction) -> Progress:
    """How far the last slice came."""
    found = dict(raw(db).execute("select key, value from meta where key in (?, ?)", (_AT, _WHEN)))
    return Progress(found.get(_AT, 0), found.get(_WHEN, 0))


def keep(db: Transaction, read: tuple[int, int], reached: Progress, damaged: Collection[int]) -> None:
    """The contents with row ids in ``(read[0], read[1]]`` were read, and of these ``damaged`` are."""
    connection = raw(db)
    connection.executemany(
        "insert or replace into meta(key, value) values(?, ?)", [(_AT, reached.at), (_WHEN, reached.ms)]
    )
    # what was damaged and is sound now was mended, or its row belongs to another content
    connection.execute(
        f"delete from meta where key like '{_DAMAGED}%'"  # noqa: S608
        f" and cast(substr(key, {len(_DAMAGED) + 1}) as integer) between ? and ?",
        (read[0] + 1, read[1]),
    )
    connection.executemany(
        "insert or replace into meta(key, value) values(?, ?)",
        ((f"{_DAMAGED}{number}", reached.ms) for number in damaged),
    )


def damaged(db: Transaction) -> Damaged | None:
    """What is known to be damaged; None where nothing is."""
    contents, found_ms = raw(db).execute(_KNOWN).fetchone()
    return Damaged(contents, found_ms) if contents else None
