"""``du``: what is stored where, for whom, and what of it nothing needs. Only reads, and works without a daemon."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from openoxide.checkpoints import expiry, rows, store, usage
from openoxide.checkpoints.forecast import Forecast, forecast
from openoxide.checkpoints.model import STAGING_NAME, Worktree
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.timeline import Timeline
from openoxide.daemon.operations.pruning import forecast_of
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.health import DuAnswer, HomePart, KindUsage, ProjectUsage, WorktreeUsage
from openoxide.daemon.requests import Request
from openoxide.db import Database, Transaction
from openoxide.paths import Home
from openoxide.settings import Settings

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

LARGEST_PATHS = 20
_TRASH = "select 1 from checkpoint where failed is null and forgotten_ms is not null limit 1"
PARTS = {
    "timeline": "which file was in which state when, checkpoints, operations",
    "contents": "contents of files, compressed, each once",
    "logs": "what the daemon logged",
    "settings": "config.toml",
    "other": "the socket, the lock, the reserve, and what is not ours",
}
HISTORY, TRASH, DEAD = "history", "trash", "dead"
KINDS = {
    HISTORY: "contents that a checkpoint, an operation or the last 24 hours need",
    TRASH: "contents that only forgotten checkpoints hold",
    DEAD: "contents that nothing needs, and bytes in the store's files that no row names",
    "database": "which file was in which state when, checkpoints, operations",
    "wal": "what SQLite has still to take into the database",
    "logs": "what the daemon logged",
    "spool": "what hooks left while no daemon took it",
    "aside": "set aside: packs of another database, copies of the store",
    "reserve": "kept free of all else, for a rewind on a full disk",
    "settings": "config.toml",
    "memory": "what agents keep for themselves",
    "other": "the socket, the lock, and what is not ours",
}
_OF_FILES = {
    "timeline.db": "database",
    "timeline.db-wal": "wal",
    "timeline.db-shm": "wal",
    "timeline.db-journal": "wal",
    "oxided.reserve": "reserve",
}
_OF_FOLDERS = {"blobs": "contents", "logs": "logs", "spool": "spool", "projects": "memory"}


class Foretell(Protocol):
    """What a prune would free, now or once trash is emptied."""

    def __call__(self, *, without_trash: bool) -> Forecast: ...


class _Part(NamedTuple):
    name: str
    kind: str
    size: int
    length: int


class _Free(NamedTuple):
    """What a prune would free now, and once trash is emptied; what contents take that nothing needs, and trash alone."""

    prunable_bytes: int
    with_trash_bytes: int
    dead_bytes: int
    trash_bytes: int


def du(service: Service, _request: Request, report: Reporter) -> DuAnswer:
    """``du``."""
    foretell = partial(forecast_of, service, report)
    return measured(service.timeline, service.home, service.settings, service.clock.now_ms(), foretell)


def du_offline(timeline: Timeline, home: Home, settings: Settings, now_ms: int) -> DuAnswer:
    """The same of a store that no daemon writes."""
    with timeline.database.looking() as db:
        given_up = expiry.fine_given_up(db)

    def foretell(*, without_trash: bool) -> Forecast:
        return forecast(
            timeline.database,
            timeline.blobs,
            now_ms,
            clock_trusted=True,
            given_up=given_up,
            without_trash=without_trash,
        )

    return measured(timeline, home, settings, now_ms, foretell)


def measured(timeline: Timeline, home: Home, settings: Settings, now_ms: int, foretell: Foretell) -> DuAnswer:
    """The whole home: by kind, part by part, by project and by worktree. ``foretell``: what a prune would free."""
    found = list(_files(home))
    free = _free(timeline.database, foretell)
    used = used_of_projects(timeline.database, settings, now_ms)
    with timeline.database.looking() as db:
        known, shares, whole = store.worktrees(db), usage.shares(db), usage.whole_share(db)
        named, of_projects = usage.big_bytes(db), projects(db, known, settings, used)
        worktrees = [_worktree(db, worktree, shares.get(worktree.id, usage.Share()), now_ms) for worktree in known]
    return {
        "ok": True,
        "home": printable(str(home.folder)),
        "total_bytes": sum(part.size for part in found),
        "freeable_bytes": free.with_trash_bytes,
        "trash_bytes": free.with_trash_bytes - free.prunable_bytes,
        "dedup_ratio": whole.dedup_ratio,
        "compression_ratio": whole.compression_ratio,
        "kinds": _kinds(found, named + sum(timeline.blobs.packs.sizes().values()), free),
        "parts": _parts(found),
        "projects": of_projects,
        "worktrees": worktrees,
    }


def _free(database: Database, foretell: Foretell) -> _Free:
    now = foretell(without_trash=False)
    with database.looking() as db:
        trash = raw(db).execute(_TRASH).fetchone()
    then = foretell(without_trash=True) if trash else now
    return _Free(
        now.freed_bytes,
        max(now.freed_bytes, then.freed_bytes),
        now.dead_bytes,
        max(0, then.dead_bytes - now.dead_bytes),
    )


def used_of_projects(database: Database, settings: Settings, now_ms: int) -> Mapping[str | None, int]:
    """What counts against quotas, by project; empty where none has one, since it reads every version."""
    with database.looking() as db:
        has_one = any(settings.of(worktree.root).retention.quota_bytes for worktree in store.worktrees(db))
    return expiry.used(database, now_ms) if has_one else {}


def projects(
    db: Transaction, known: list[Worktree], settings: Settings, used: Mapping[str | None, int]
) -> list[ProjectUsage]:
    """What each project takes, and may take."""
    roots: dict[str, list[bytes]] = {}
    for worktree in known:
        roots.setdefault(worktree.project, []).append(worktree.root)
    shares = usage.project_shares(db)
    return [
        {
            "project": project,
            "roots": [printable(os.fsdecode(root)) for root in its],
            "stored_bytes": shares.get(project, usage.Share()).stored_bytes,
            "unique_bytes": shares.get(project, usage.Share()).unique_bytes,
            "quota_bytes": settings.quota_of(its),
            "used_bytes": used.get(project),
        }
        for project, its in roots.items()
    ]


def _worktree(db: Transaction, worktree: Worktree, share: usage.Share, now_ms: int) -> WorktreeUsage:
    head = rows.read_head(db, worktree.id)
    paths, patterns = usage.largest(usage.by_path(db, worktree.id), LARGEST_PATHS)
    return {
        "root": printable(os.fsdecode(worktree.root)),
        "project": worktree.project,
        "watching": worktree.watching,
        "checkpoints": store.CheckpointQuery(db, worktree.id).count(),
        "files": head.files,
        "logical_bytes": head.bytes,
        "recorded_bytes": share.recorded_bytes,
        "history_bytes": share.history_bytes,
        "stored_bytes": share.stored_bytes,
        "unique_bytes": share.unique_bytes,
        "dedup_ratio": share.dedup_ratio,
        "compression_ratio": share.compression_ratio,
        "staging_bytes": sum(found.st_blocks * 512 for _, _, found in _walk(os.path.join(worktree.root, STAGING_NAME))),
        "growth": [
            {"day": item.day, "contents": item.contents, "stored_bytes": item.stored_bytes}
            for item in usage.growth(db, worktree.id, now_ms)
        ],
        "largest": [
            {**path_entry(item.path), "contents": item.contents, "stored_bytes": item.stored_bytes}  # type: ignore[typeddict-unknown-key]
            for item in paths
        ],
        "patterns": [
            {
                **path_entry(item.folder),  # type: ignore[typeddict-unknown-key]
                "suffix": printable(os.fsdecode(item.suffix)),
                "contents": item.contents,
                "stored_bytes": item.stored_bytes,
            }
            for item in patterns
        ],
    }


def _kinds(found: list[_Part], named: int, free: _Free) -> list[KindUsage]:
    """The contents by what they are for, as far as the rows can tell; of the rest each file is of one kind."""
    sizes: Counter[str] = Counter()
    for part in found:
        sizes[part.kind] += part.size
    contents = sizes.pop("contents", 0)
    # big ones without a row; by their lengths: what a file's last block has left is nobody's dead weight
    unnamed = max(0, sum(part.length for part in found if part.kind == "contents") - named)
    # rows are read after the files: never more than there is
    sizes[TRASH] = min(free.trash_bytes, contents)
    sizes[DEAD] = min(free.dead_bytes + unnamed, contents - sizes[TRASH])
    sizes[HISTORY] = contents - sizes[TRASH] - sizes[DEAD]
    return [{"name": name, "what": what, "size_bytes": sizes[name]} for name, what in KINDS.items()]


def _parts(found: list[_Part]) -> list[HomePart]:
    sizes: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for part in found:
        sizes[part.name] += part.size
        files[part.name] += 1
    return [
        {"name": name, "what": what, "size_bytes": sizes[name], "files": files[name]} for name, what in PARTS.items()
    ]


def _files(home: Home) -> Iterator[_Part]:
    """Every file of the home with its bytes on disk, as ``status`` counts them."""
    for directory, name, found in _walk(str(home.folder)):
        folder = os.path.relpath(directory, home.folder).split(os.sep)[0]
        yield _Part(_part(folder, name), _kind(folder, name), found.st_blocks * 512, found.st_size)


def copies(home: Home) -> dict[str, int]:
    """What lies in the home of the store as it was, by name, in bytes on disk: a repair or a change of the schema left it."""
    sizes: Counter[str] = Counter()
    for directory, name, found in _walk(str(home.folder)):
        folder = os.path.relpath(directory, home.folder).split(os.sep)[0]
        if folder != "blobs" and _kind(folder, name) == "aside":
            sizes[name if folder == "." else folder] += found.st_blocks * 512
    return dict(sizes)


def _walk(top: str | bytes) -> Iterator[tuple[str, str, os.stat_result]]:
    for directory, _, names in os.walk(os.fsdecode(top)):
        for name in names:
            try:
                found = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:  # a WAL that was folded away, a pack that was dropped
                continue
            yield directory, name, found


def _part(folder: str, name: str) -> str:
    if folder == ".":
        return (
            "timeline" if name.startswith("timeline.db") else "settings" if name.startswith("config.toml") else "other"
        )
    return {"blobs": "contents", "logs": "logs"}.get(folder, "other")


def _kind(folder: str, name: str) -> str:
    match folder, name:
        case ".", _ if name in _OF_FILES:
            return _OF_FILES[name]
        case ".", _ if name.startswith("config.toml"):
            return "settings"
        case "blobs", _ if name.endswith(".aside"):
            return "aside"
        # a database that was swapped for a newer one, or a store that was repaired, as it was before
        case _ if name.startswith("timeline.db.") or folder.startswith("repair-"):
            return "aside"
    return _OF_FOLDERS.get(folder, "other")
