"""``repair``: in the process of the command line, without a daemon, since no other may have the store meanwhile. Imported by
``offline`` alone. A dry run works on a copy outside of the home, beside a daemon or without one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from openoxide.checkpoints import store, swapping
from openoxide.checkpoints.repair import Repair, Repairing
from openoxide.clock import SystemClock
from openoxide.daemon.instance import acquire
from openoxide.daemon.operations.checking import MOST_PROBLEMS, told_problem
from openoxide.daemon.protocol import ProgressCallback, printable
from openoxide.daemon.protocol.health import RepairAnswer
from openoxide.db import Database
from openoxide.errors import NotFoundError, RefusedError, StoreFullError, StoreReadOnlyError
from openoxide.fileio import fsync_folder, write_errors
from openoxide.paths import Home


def repair(home: Home, *, dry_run: bool, report: ProgressCallback) -> RepairAnswer:
    """What a repair does, or in a dry run would do. Raises NotFoundError where there is no store, AlreadyRunningError where a
    daemon has it.
    """
    if not home.timeline_db.exists() and not swapping.is_waiting(home.timeline_db):
        raise NotFoundError(f"{home.folder} holds no store", hint="there is nothing to repair")
    _require_file(home.timeline_db, dry_run=dry_run)
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="openoxide-") as folder:
            return _made(home, Path(folder), report, write=False)[0]
    # as a daemon does: none can start meanwhile, and two repairs cannot meet
    instance = acquire(home)
    try:
        with write_errors("the home", StoreReadOnlyError):
            return _repaired(home, report)
    finally:
        instance.close()


def _require_file(file: Path, *, dry_run: bool) -> None:
    """Raises RefusedError where something else stands in its place: a FIFO would be waited for, and what a link leads to is
    not to be replaced.
    """
    real = Path(os.path.realpath(file))
    if real.exists() and not real.is_file():
        raise RefusedError(f"{file} is no regular file", hint="move it away, and bring the home back from a backup")
    if file.is_symlink() and not dry_run:
        raise RefusedError(
            f"{file} is a link to {real}",
            hint=f"`oxide-ctl stop`, then move it and its {real.name}-wal, if there is one, into {file.parent}, and try again",
        )


def _repaired(home: Home, report: ProgressCallback) -> RepairAnswer:
    file = home.timeline_db
    swapping.finish(file)
    _sweep(home)
    folder = _work_folder(home)
    try:
        answer, is_needed = _made(home, folder, report, write=True)
        if not is_needed:
            return answer
        # first the folder that is to stay: once the new database counts, the old one is nowhere else
        kept = folder.with_suffix("")
        os.rename(folder / _NEW, swapping.repairing(file))
        os.rename(folder, kept)
        fsync_folder(home.folder)
        swapping.commit(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answer["kept"] = printable(str(kept))
    return answer


_OLD, _NEW = "timeline.db", "timeline.db.new"


def _made(home: Home, folder: Path, report: ProgressCallback, *, write: bool) -> tuple[RepairAnswer, bool]:
    """A copy of the database in ``folder``, and beside it the new one."""
    _require_room(home, folder)

    def progress(stage: str, done: int, total: int) -> None:
        report({"stage": stage, "done": done, "total": max(done, total), "bytes": 0})

    progress("copying", 0, 0)
    swapping.copy_database(home.timeline_db, folder / _OLD)
    run = Repairing(home=home, old=folder / _OLD, new=folder / _NEW, write=write, progress=progress)
    done = run.run()
    return _answer(done, folder / _NEW, dry_run=not write), done.is_needed


def _require_room(home: Home, folder: Path) -> None:
    """Three times the database: the copy, the new one, and its WAL while it is made."""
    needed = 3 * home.timeline_db.stat().st_size
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreFullError(
            f"a repair needs {needed >> 20} MiB in {folder}, and {free >> 20} MiB are free",
            hint="free some space and try again",
        )


def _work_folder(home: Home) -> Path:
    """A new folder in the home, which gets its final name once the copy in it is the state before a repair."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    folder = home.folder / f"repair-{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}.part"
    folder.mkdir(mode=0o700)
    return folder


def _sweep(home: Home) -> None:
    """Delete what a repair left that was killed: copies of what is still there."""
    for folder in home.folder.glob("repair-*.part"):
        shutil.rmtree(folder, ignore_errors=True)


def _answer(done: Repair, new: Path, *, dry_run: bool) -> RepairAnswer:
    roots = _roots(new)
    return {
        "ok": True,
        "dry_run": dry_run,
        "needed": done.is_needed,
        "structure": [printable(text) for text in done.structure],
        "fixes": [{"what": fix.what, "rows": fix.rows, "loses": fix.loses} for fix in done.fixes],
        "mended": [
            {"name": one.name.hex(), "source": one.source, "where": printable(one.where), "size_bytes": one.size}
            for one in done.mended[:MOST_PROBLEMS]
        ],
        "mended_count": len(done.mended),
        "newly_lost": done.newly_lost,
        "lost": [told_problem(problem, about, roots) for problem, about in done.lost],
        "kept": None,
    }


def _roots(new: Path) -> dict[int, str]:
    database = Database(new, read_only=True, immutable=True)
    try:
        with database.reading() as db:
            return {worktree.id: printable(os.fsdecode(worktree.root)) for worktree in store.worktrees(db)}
    finally:
        database.close()
