"""Numbers of the store that belong to no table of their own: ``meta`` rows, by a prefix that ends in a dot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

# by worktree: up to which position a limit has given the fine window up
FINE = "fine."
# by number of a pack: the repair (the digits of its folder's name) since which only the state before that names it
ASIDE = "aside."


def read(db: Transaction, prefix: str) -> dict[str, int]:
    """All values under ``prefix``, by the rest of their keys."""
    # the end of a range, which the index serves: the character after the dot is the slash
    found = raw(db).execute("select key, value from meta where key >= ? and key < ?", (prefix, prefix[:-1] + "/"))
    return {key.removeprefix(prefix): value for key, value in found}


def write(db: Transaction, prefix: str, values: Mapping[str, int]) -> None:
    """Set values under ``prefix``; others stay."""
    rows = [(prefix + key, value) for key, value in values.items()]
    raw(db).executemany("insert or replace into meta(key, value) values(?, ?)", rows)


def delete(db: Transaction, prefix: str, keys: Iterable[str]) -> None:
    """Take values out."""
    raw(db).executemany("delete from meta where key = ?", [(prefix + key,) for key in keys])
