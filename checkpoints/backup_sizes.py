"""What a backup of a home has to hold, and how much of that is new."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openoxide.checkpoints import backup_folder, stored
from openoxide.checkpoints.backup_list import CONFIGS, DATABASE, PROJECTS, BackupList, names_of
from openoxide.checkpoints.packs import BIG, pack_name
from openoxide.db import Database, Transaction
from openoxide.paths import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What a backup has to hold, and what of that would have to be copied now."""

    files: int
    bytes: int
    copied: int
    copied_bytes: int


def needed(database: Database, home: Home, target: Path, before: BackupList | None) -> Needed:
    """What a backup in ``target`` takes, judged by names and sizes. Only reads."""
    with database.reading() as db:
        sizes = store_sizes(db)
        (pages,), (page_bytes,) = (db.execute_sql(f"pragma {name}").fetchone() for name in ("page_count", "page_size"))
    there = _there(target, before) if before else {}
    changing = {DATABASE: pages * page_bytes}
    for name in (*CONFIGS, *memory_names(home)[0]):
        with suppress(OSError):
            changing[name] = os.stat(home.folder / name).st_size
    # a pack that has grown is copied as a whole: nothing is ever added to a file that the list before names
    new = {name: size for name, size in sizes.items() if there.get(name, -1) < size} | changing
    return Needed(
        files=len(sizes) + len(changing),
        bytes=sum(sizes.values()) + sum(changing.values()),
        copied=len(new),
        copied_bytes=sum(new.values()),
    )


def _there(target: Path, before: BackupList) -> dict[str, int]:
    """The copies that lie in ``target``, as far as their lengths tell."""
    return {
        entry.name: entry.size
        for entry in before.files
        if any(backup_folder.copy_at(target / name, entry.size) for name in names_of(entry, before.run))
    }


def store_sizes(db: Transaction) -> dict[str, int]:
    """How many bytes of which files of the content store the rows name."""
    packs = {f"blobs/{pack_name(number)}": size for number, size in stored.pack_sizes(db).items()}
    return packs | {f"blobs/{BIG}/{name.hex()}": size for name, size in stored.big_sizes(db).items()}


def memory_names(home: Home) -> tuple[list[str], dict[str, str]]:
    """Every regular file of the memory directories (a link is not followed, and is not one); and the folders that may not
    be read, with the reason.
    """
    found, shut = [], {}

    def unread(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # most homes have none, and one may go meanwhile
            shut[os.path.relpath(error.filename, home.folder)] = error.strerror or str(error)

    for folder, _, names in os.walk(home.folder / PROJECTS, onerror=unread):
        for name in names:
            path = Path(folder) / name
            with suppress(OSError):  # gone meanwhile
                if stat.S_ISREG(path.lstat().st_mode):
                    found.append(str(path.relative_to(home.folder)))
    return sorted(found), shut
