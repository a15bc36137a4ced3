"""Reading commands without a daemon, for a store that cannot be written. Imported by the command line only when a
daemon refused to start for that reason; nothing in the home is changed, but by a repair.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openoxide import __version__
from openoxide.checkpoints import store
from openoxide.checkpoints.model import Worktree
from openoxide.checkpoints.schema import MIGRATIONS, check_version, open_timeline
from openoxide.checkpoints.timeline import Timeline
from openoxide.clock import SystemClock
from openoxide.daemon import mending
from openoxide.daemon.answers import time_or_none
from openoxide.daemon.operations import backing
from openoxide.daemon.operations.checking import checked
from openoxide.daemon.operations.looking import View, holds
from openoxide.daemon.operations.measuring import measured
from openoxide.daemon.operations.watching import folder_bytes
from openoxide.daemon.protocol import ProgressCallback, printable
from openoxide.daemon.protocol.health import RepairAnswer
from openoxide.daemon.requests import path
from openoxide.daemon.routes import LOOKING
from openoxide.db import Database
from openoxide.errors import NotFoundError, OpenOxideError, StoreDamagedError, StoreReadOnlyError
from openoxide.paths import Home, home_from
from openoxide.settings import Settings, load_settings

ANSWERABLE = frozenset({*LOOKING, "status", "du", "check"})


def answer(name: str, request: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any] | bytes:
    """The answer to a reading command; ``store_read_only`` for every other. A diff against now compares with what was
    recorded last.
    """
    home = home_from(dict(environ))
    if name not in ANSWERABLE:
        raise StoreReadOnlyError(
            f"{home.folder} cannot be written",
            hint="status, log, show, diff, history, du, check, cat and restore still work",
        )
    if not home.timeline_db.exists():
        raise StoreReadOnlyError(f"{home.folder} cannot be written and holds no store", hint="make it writable")
    with _database(home.timeline_db) as stored, _newest(stored) as database:
        if name == "check":
            return {**checked(database, home, request, lambda _: None, lambda: None)}
        timeline = Timeline(home, read_only=database)
        try:
            if name == "status":
                return _status(timeline, home)
            if name == "du":
                return {**measured(timeline, home, _settings(home), SystemClock().now_ms())}
            view = View(timeline=timeline, worktree=_find(timeline, path(request)), now_ms=SystemClock().now_ms())
            found: dict[str, Any] | bytes = LOOKING[name](view, request)
            return found
        finally:
            timeline.close()


def repair(environ: Mapping[str, str], *, dry_run: bool, report: ProgressCallback) -> RepairAnswer:
    """``repair``, for which no daemon may have the store."""
    return mending.repair(home_from(dict(environ)), dry_run=dry_run, report=report)


def _settings(home: Home) -> Settings:
    with suppress(OpenOxideError):
        return load_settings(home.config)
    return Settings()


def restore_home(request: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """``restore-home``: there is no daemon before there is a home."""
    return {**backing.restore_home(request, report)}


@contextmanager
def _database(file: Path) -> Iterator[Database]:
    """The database, read where it lies; from a copy where a WAL would have to be taken in and cannot."""
    # SQLite has the WAL beside what a link leads to
    file = Path(os.path.realpath(file))
    wal = file.with_name(file.name + "-wal")
    if not wal.exists() or not wal.stat().st_size:
        yield Database(file, read_only=True, immutable=True)
        return
    database = Database(file, read_only=True)
    try:
        check_version(database)
    except OpenOxideError:
        with _copied(file, wal) as copy:
            yield Database(copy, read_only=True)
    else:
        yield database


@contextmanager
def _copied(*files: Path) -> Iterator[Path]:
    """The first of ``files`` in a folder of ours, with the others beside it."""
    with tempfile.TemporaryDirectory(prefix="openoxide-") as folder:
        for source in files:
            if source.exists():
                shutil.copyfile(source, Path(folder) / source.name)
        yield Path(folder) / files[0].name


@contextmanager
def _newest(database: Database) -> Iterator[Database]:
    """The database with the tables that this version reads: a copy is migrated where it is an older one."""
    reached = 0
    # that a damaged database does not tell its version is one of the problems of a check, and no reason to look no further
    with suppress(StoreDamagedError):
        reached = check_version(database)
    if not 0 < reached < len(MIGRATIONS):
        yield database
        return
    with _copied(database.path, database.path.with_name(database.path.name + "-wal")) as copy:
        migrated = open_timeline(copy)
        try:
            yield migrated
        finally:
            migrated.close()


def _find(timeline: Timeline, named: bytes) -> Worktree:
    real = os.path.realpath(named)
    with timeline.database.reading() as db:
        holding = [w for w in store.worktrees(db) if w.watching and not w.is_memory and holds(w.root, real)]
    if not holding:
        raise NotFoundError(f"{os.fsdecode(named)} is not in a watched project", hint="choose another with -C")
    return max(holding, key=lambda w: len(w.root))


def _status(timeline: Timeline, home: Home) -> dict[str, Any]:
    worktrees = []
    with timeline.database.reading() as db:
        for worktree in (w for w in store.worktrees(db) if not w.is_memory):
            checkpoints = store.CheckpointQuery(db, worktree.id)
            newest = checkpoints.newest()
            worktrees.append(
                {
                    "root": printable(os.fsdecode(worktree.root)),
                    "project": worktree.project,
                    "state": "stopped",
                    "reason": "the store cannot be written",
                    "complete": False,
                    "pending": 0,
                    "watches": 0,
                    "seq": newest.seq if newest else 0,
                    "checkpoints": checkpoints.count(),
                    "last_checkpoint_at": time_or_none(newest.created_at_ms if newest else None),
                    "next_expiry": time_or_none(checkpoints.next_expiry()),
                    "gaps": [],
                    "interrupted": [],
                    "paused_at": time_or_none(worktree.paused_ms),
                    "paused_until": time_or_none(worktree.paused_until_ms),
                }
            )
    folder = str(home.folder)
    problem = f"{printable(folder)} cannot be written: nothing is recorded"
    daemon = {
        "pid": 0,
        "version": __version__,
        "uptime_ms": 0,
        "rss_bytes": 0,
        "home": printable(folder),
        "store_bytes": folder_bytes(home.folder),
        "store_writable": False,
        "store_trouble": StoreReadOnlyError.kind,
        "problems": [problem],
    }
    return {"ok": True, "daemon": daemon, "worktrees": worktrees}
