"""Copy, migrate, swap: how a ``timeline.db`` of an older schema becomes one of the newest, whatever ends the process.

The migrations run on a copy beside the store, ``timeline.db.migrating``, which is checked and made durable before one
rename puts it in the place of the old one. Until then the old one is what it was; afterwards it is kept under its version,
``timeline.db.v1``, for KEPT_MS. Whoever is killed before the rename starts over. The caller holds the lock of the home.

A migration changes tables and never takes rows away from one that stays: the copy is held against that.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from openoxide.db import Database, opened
from openoxide.errors import FailedError, StoreDamagedError, StoreFullError, StoreReadOnlyError
from openoxide.fileio import fsync_file, fsync_folder, write_errors

KEPT_MS = 7 * 86_400_000
UNFINISHED = ".migrating"
_KEPT = re.compile(r"\.v[0-9]{1,4}")
# the copy, once more for what the migrations write, and room for the rest of the home
_TIMES, _ROOM_BYTES = 2, 4 << 20


def statements(script: str) -> Iterable[str]:
    """The statements of a migration: executescript would commit the open transaction first (Python, sqlite3)."""
    return filter(str.strip, script.split(";\n"))


def migrate(path: Path, reached: int, migrations: Sequence[str]) -> None:
    """Bring the store at ``path`` from version ``reached`` to that of ``migrations``. Raises StoreFullError before anything
    is written where the space will not do; after any error the old store is in its place, and whole.
    """
    path = _real(path)
    with write_errors(f"the migrated copy of {path.name}", StoreReadOnlyError):
        drop_unfinished(path)
    require_space(path, shutil.disk_usage(path.parent).free)
    settle(path)
    copy = _unfinished(path)
    try:
        with write_errors(f"the migrated copy of {path.name}", StoreReadOnlyError):
            _copy(path, copy)
            _run(copy, reached, migrations)
            _check(path, copy, migrations)
            fsync_file(copy)
            _swap(path, copy, kept_as(path, reached))
    except BaseException:
        with suppress(OSError):  # the error that is under way says more
            drop_unfinished(path)
        raise


def require_space(path: Path, free_bytes: int) -> None:
    """Raises StoreFullError where a migration would need more."""
    needed = _TIMES * sum(_size(Path(f"{path}{suffix}")) for suffix in ("", "-wal")) + _ROOM_BYTES
    if free_bytes < needed:
        raise StoreFullError(
            f"{path} has to be migrated, which takes {needed} bytes of free space, and {free_bytes} are free",
            hint="free some space and try again; the store is as it was",
        )


def settle(path: Path) -> None:
    """One file that is the whole store: what a WAL or a rollback journal holds goes into it, or is taken back."""
    # a WAL beside the file that takes its place would be read into it, page by page (SQLite: How To Corrupt, 2.4)
    try:
        with opened(_real(path)) as db:
            mode = db.execute("pragma journal_mode = delete").fetchone()[0]
    except FailedError as error:
        if "locked" not in str(error.__cause__):
            raise
        mode = "locked"
    if mode != "delete" or any(os.path.exists(f"{_real(path)}{suffix}") for suffix in ("-wal", "-journal")):
        raise FailedError(
            f"{path} has to be migrated, and another program has it open",
            hint="close what looks into it (a database browser, a backup tool), then try again",
        )


def _copy(path: Path, copy: Path) -> None:
    database = Database(path, read_only=True)
    try:
        database.copy_to(copy)
    finally:
        database.close()


def _run(copy: Path, reached: int, migrations: Sequence[str]) -> None:
    with opened(copy) as db:
        # as in Database.copy_to; what is dropped is overwritten, as the writer does it
        for pragma in ("journal_mode = off", "synchronous = off", "secure_delete = 1"):
            db.execute(f"pragma {pragma}")
        db.execute("begin immediate")
        for script in migrations[reached:]:
            for statement in statements(script):
                db.execute(statement)
        db.execute(f"pragma user_version = {len(migrations)}")
        db.execute("commit")


def _check(path: Path, copy: Path, migrations: Sequence[str]) -> None:
    with opened(copy) as new, opened(path) as old:
        found = new.execute("pragma quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreDamagedError(f"{path} could not be migrated: {found}", hint="run `oxide-ctl check`")
        # as SQLite keeps the text: a column that came by `alter table` reads alike, whether the store was old or new
        if schema_of(new) != schema_from(migrations):
            raise FailedError(f"{path} could not be migrated: its tables are not those of this version")
        tables = _tables(old) & _tables(new)
        lost = sorted(name for name in tables if _count(old, name) != _count(new, name))
        if lost:
            raise FailedError(f"{path} could not be migrated: rows of {', '.join(lost)} would be lost")


def schema_of(db: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Every table and index as SQLite keeps its text."""
    return set(db.execute("select type, name, tbl_name, sql from sqlite_master where sql is not null"))


def schema_from(migrations: Sequence[str]) -> set[tuple[str, ...]]:
    """What :func:`schema_of` tells of a store that is new."""
    with opened(Path(":memory:")) as db:
        for script in migrations:
            for statement in statements(script):
                db.execute(statement)
        return schema_of(db)


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("select name from sqlite_master where type = 'table' and sql is not null")}


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f'select count(*) from "{table}"').fetchone()[0])  # noqa: S608 - a name of our own schema


def _swap(path: Path, copy: Path, kept: Path) -> None:
    # a second name, and not a rename: at each moment a whole store has the name that everybody opens
    kept.unlink(missing_ok=True)
    try:
        os.link(path, kept)
    except OSError:  # exFAT and some FUSE file systems have no hard links
        shutil.copyfile(path, kept)
        kept.chmod(0o600)
        fsync_file(kept)
    # a link has the time of the last write, which may be long ago; KEPT_MS counts from now on
    os.utime(kept)
    fsync_folder(path.parent)
    os.rename(copy, path)
    fsync_folder(path.parent)


def drop_unfinished(path: Path) -> None:
    """Remove what a migration left that was killed."""
    for suffix in ("", "-journal"):
        if os.path.lexists(left := f"{_unfinished(_real(path))}{suffix}"):
            os.unlink(left)


def kept_as(path: Path, version: int) -> Path:
    """Where the store stays that was migrated from ``version``."""
    return path.with_name(f"{path.name}.v{version}")


def kept_stores(path: Path) -> list[Path]:
    """The stores of older versions that stand beside ``path``: they hold what it held then."""
    path = _real(path)
    return sorted(
        found for found in path.parent.glob(f"{path.name}.v*") if _KEPT.fullmatch(found.name.removeprefix(path.name))
    )


def drop_old_stores(path: Path, now_ms: int) -> None:
    """Remove the stores of older versions that were migrated KEPT_MS ago: this version has run since then."""
    for kept in kept_stores(path):
        with suppress(OSError):  # one that resists is tried again at the next start
            if now_ms - kept.lstat().st_mtime_ns // 1_000_000 >= KEPT_MS:
                kept.unlink()


def _real(path: Path) -> Path:
    # SQLite follows a link too, and has its side files beside what it leads to
    return Path(os.path.realpath(path))


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + UNFINISHED)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
