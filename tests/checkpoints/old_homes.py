"""Homes as earlier versions left them, which every later one has to open: ``homes/vN.zip``, of schema version N.

Each holds the worktree /src/app with seven checkpoints: three by hand, whose files ``contents`` makes, a turn, and a
rewind to the first with what it brings along. CHAIN is a made-up line of versions that begins with the real first one.
"""

from __future__ import annotations

import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from openoxide.checkpoints.schema import MIGRATIONS

HOMES = Path(__file__).with_name("homes")
VERSIONS = sorted(int(found.stem.removeprefix("v")) for found in HOMES.glob("v*.zip"))


FIRST = MIGRATIONS[0]
SECOND = """
alter table checkpoint add column colour text not null default 'none';
create index checkpoint_colour on checkpoint(colour) where colour <> 'none';
"""
# a table made anew, as SQLite wants it where a column changes its type
THIRD = """
create table gap_new(
  id integer primary key, worktree integer not null, cause text not null, opened_ms integer not null,
  closed_ms integer, seen integer not null default 0
) strict;
insert into gap_new(id, worktree, cause, opened_ms, closed_ms) select id, worktree, cause, opened_ms, closed_ms from gap;
drop table gap;
alter table gap_new rename to gap;
create index gap_open on gap(worktree) where closed_ms is null;
"""
CHAIN = (FIRST, SECOND, THIRD)


def unpack(version: int, folder: Path) -> Path:
    """The home as it was, in ``folder``."""
    with zipfile.ZipFile(HOMES / f"v{version}.zip") as packed:
        packed.extractall(folder)
    for found in [folder, *folder.rglob("*")]:  # zip keeps no modes
        found.chmod(0o700 if found.is_dir() else 0o600)
    return folder


def contents(number: int) -> dict[bytes, bytes]:
    """What the files held at checkpoint ``number``, 1 to 3."""
    made = number - 1
    return {
        b"text.txt": "".join(f"line {line} of version {made}\n" for line in range(40)).encode(),
        b"data.bin": bytes((at * 7 + made) % 256 for at in range(3000)),
        b"only-%d.txt" % made: b"made at %d\n" % made,
    }


def dump(path: Path) -> tuple[dict[str, list[Any]], Any, Any]:
    """Every row of every table, and what the file says of itself."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("select name from sqlite_master where type = 'table' order by name")]
        found = {name: sorted(db.execute(f"select * from {name}"), key=repr) for name in names}
        return found, db.execute("pragma user_version").fetchone(), db.execute("pragma application_id").fetchone()
