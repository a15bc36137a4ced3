"""``watch projects status stop``: which worktrees there are and how they are."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openoxide import __version__
from openoxide.checkpoints import journal, sight, store
from openoxide.checkpoints.gitposition import common_dir
from openoxide.checkpoints.idle import idle_turns
from openoxide.checkpoints.model import Trigger, WindowKind, Worktree
from openoxide.checkpoints.thinning import next_thinning
from openoxide.checkpoints.tree import identity_of, recorded_identity
from openoxide.clock import rfc3339
from openoxide.daemon.answers import checkpoint_object, idle_turn_object, time_or_none
from openoxide.daemon.diagnosis import ROOT_GONE, ROOT_REPLACED, purge_problems, spent_problems
from openoxide.daemon.operations.checking import aside_told, damage_known, packs_aside
from openoxide.daemon.operations.expiring import retention, retention_of
from openoxide.daemon.operations.foreseeing import ahead
from openoxide.daemon.operations.likeness import gone_with_history, is_gone, like, likeness, lookalike, traces_at
from openoxide.daemon.operations.looking import holds, is_broad
from openoxide.daemon.operations.promoting import unread
from openoxide.daemon.operations.reviewing import deletions
from openoxide.daemon.pauses import try_to_follow
from openoxide.daemon.protocol import Items, path_entry, printable
from openoxide.daemon.protocol.health import JobObject, StatusAnswer, WorktreeStatus
from openoxide.daemon.protocol.memories import MemoryStatus
from openoxide.daemon.protocol.projects import Lookalike, ProjectItem, WatchAnswer
from openoxide.daemon.requests import Request, flag, path
from openoxide.daemon.scheduler import JobState
from openoxide.daemon.watched import FullPassProgress, Label, Watched
from openoxide.db import Transaction
from openoxide.errors import OpenOxideError, RefusedError, UsageError
from openoxide.health import WARNING
from openoxide.ids import ID_BYTES, letters
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.index import MOST_LINES, MOST_UNITS, body_of, loaded
from openoxide.memory.topics import Memory
from openoxide.surroundings import KERNEL_KINDS, file_system

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


def watch(service: Service, request: Request, report: Reporter) -> WatchAnswer:
    """Register a worktree and capture it; idempotent. Answers when the first checkpoint is sealed."""
    root = checked_root(service, path(request), allow_broad=flag(request, "allow_broad"))
    watched, created = _registered(service, root)
    with watched.lock:
        try:
            if created:
                try_to_follow(service, watched.worktree)
            with service.timeline.database.reading() as db:
                likely = like(db, root) if created and watched.newest() is None else []
            service.attach(watched, counting(report))
        except BaseException:
            if created:
                _unregister(service, watched)
            raise
        newest = watched.newest()
        if newest is None:
            newest = watched.seal(Label(trigger=Trigger.MANUAL))
        head = service.timeline.head(watched.worktree.id)
    if created:
        # a first capture leaves a log of half the size of the store behind, until the next one has filled it again
        service.background.submit("fold the write-ahead log", service.timeline.database.fold_wal)
    return {
        "ok": True,
        "project": watched.worktree.project,
        "worktree": watched.worktree.id,
        "root": shown(root),
        "checkpoint": checkpoint_object(newest),
        "files": head.files,
        "bytes": head.bytes,
        "skipped": head.skipped,
        "created": created,
        "notes": _overlaps(service, root),
        "lookalikes": likely,
    }


def counting(report: Reporter) -> FullPassProgress:
    """What tells ``report`` how far a full pass is."""

    def progress(done: int, total: int, size: int) -> None:
        report({"stage": "files", "done": done, "total": total, "bytes": size})

    return progress


def _overlaps(service: Service, root: bytes) -> list[str]:
    """What is to be said of other watched worktrees that hold ``root`` or are in it."""
    others = sorted(w.worktree.root for w in service.trees() if w.worktree.root != root)
    pairs = [(root, other) for other in others if holds(other, root)]
    pairs += [(other, root) for other in others if holds(root, other)]
    return [
        f"{shown(inner)} is inside {shown(outer)}, and both are watched: its files are recorded in both, "
        f"and a command given in it acts on it alone; `oxide-ctl unwatch {shlex.quote(shown(inner))}` leaves it to the outer one"
        for inner, outer in pairs
    ]


def _unregister(service: Service, watched: Watched) -> None:
    """A worktree whose first capture failed is not watched; what it recorded is used when it is watched again."""
    service.let_go(watched)
    with service.timeline.database.writing() as db:
        if watched.newest() is None and not service.timeline.head(watched.worktree.id).seq:
            store.delete_history(db, watched.worktree.id)
        else:
            store.set_watching(db, watched.worktree.id, service.clock.now_ms(), watching=False)


def shown(root: bytes) -> str:
    """A root as answers carry it."""
    return printable(os.fsdecode(root))


def checked_root(service: Service, named: bytes, *, allow_broad: bool) -> bytes:
    """The real path of a directory that may be watched. Raises UsageError and RefusedError."""
    real = os.path.realpath(named)
    if not os.path.exists(real):
        raise UsageError(f"{os.fsdecode(named)} does not exist", hint="name a directory")
    if not os.path.isdir(real):
        raise UsageError(f"{os.fsdecode(named)} is not a directory", hint="name the directory that holds it")
    if is_broad(real) and not allow_broad:
        raise RefusedError(
            f"{os.fsdecode(real)} is the home directory or holds it",
            hint="name a project inside it, or add --allow-broad if everything in it shall be recorded",
        )
    kind = file_system(os.fsdecode(real))
    if kind in KERNEL_KINDS:
        raise RefusedError(f"{os.fsdecode(real)} is on {kind}: the kernel makes what is in it", hint="name a project")
    own = os.path.realpath(os.fsencode(service.home.folder))
    if real == own or real.startswith(own + b"/"):
        raise RefusedError(f"{os.fsdecode(real)} is where OpenOxide keeps its store", hint="name a project")
    return real


def _registered(service: Service, root: bytes) -> tuple[Watched, bool]:
    """The watched worktree at ``root``, made where there is none; a new one is the caller's to attach. A directory that
    took the place of a watched one is a worktree of its own.
    """
    identity = identity_of(root)
    for watched in service.all_watched():
        if watched.worktree.root == root:
            if watched.identity.same_as(identity):
                return watched, False
            service.let_go(watched)
            with service.timeline.database.writing() as db:
                store.set_watching(db, watched.worktree.id, service.clock.now_ms(), watching=False)
    with service.timeline.database.writing() as db:
        known = store.worktrees(db)
        for worktree in known:
            if worktree.root == root and recorded_identity(worktree).same_as(identity):
                store.set_watching(db, worktree.id, service.clock.now_ms(), watching=True)
                return service.take_up(worktree), True
        common = common_dir(root)
        project = next((w.project for w in known if common and w.common_dir == common), letters(os.urandom(ID_BYTES)))
        new = Worktree(
            id=0,
            project=project,
            root=root,
            dev=identity.dev,
            ino=identity.ino,
            birth_ns=identity.birth_ns,
            watching=True,
            common_dir=common,
        )
        worktree = store.insert_worktree(db, new, service.clock.now_ms())
    return service.take_up(worktree), True


def projects(service: Service, _request: Request, _report: Reporter) -> Items:
    """Every worktree ever watched."""
    with service.timeline.database.reading() as db:
        known, items = [w for w in store.worktrees(db) if not w.is_memory], []
        candidates = _whereabouts(db, known)
        for worktree in known:
            checkpoints = store.CheckpointQuery(db, worktree.id)
            newest = checkpoints.newest()
            item: ProjectItem = {
                "project": worktree.project,
                "root": shown(worktree.root),
                "watching": worktree.watching,
                "checkpoints": checkpoints.count(),
                "store_bytes": store.stored_bytes(db, worktree.id),
                "last_change_at": time_or_none(newest.created_at_ms if newest else None),
                "gone": is_gone(worktree),
                "lookalikes": candidates.get(worktree.id, []),
            }
            items.append(item)
    return {"ok": True, "items": items}


def _whereabouts(db: Transaction, known: list[Worktree]) -> dict[int, list[Lookalike]]:
    """By the id of each worktree that is gone: the watched roots that look like it and are not its project already."""
    gone = gone_with_history(db, known)
    present = [(w, traces_at(w.root)) for w in known if gone and w.watching and not is_gone(w)]
    return {
        lost.id: [
            lookalike(w.root, reason)
            for w, there in present
            if there is not None and w.project != lost.project and (reason := likeness(old, there))
        ]
        for lost, old in gone
    }


def status(service: Service, _request: Request, _report: Reporter) -> StatusAnswer:
    """The daemon and the health of each watched worktree."""
    service.end_due_pauses()
    troubled = [watched for watched in service.all_watched() if watched.trouble]
    troubles = sorted({watched.trouble for watched in troubled})
    return {
        "ok": True,
        "daemon": {
            "pid": os.getpid(),
            "version": __version__,
            "uptime_ms": max(0, service.clock.now_ms() - service.started_ms),
            "rss_bytes": _rss_bytes(),
            "home": printable(str(service.home.folder)),
            "store_bytes": folder_bytes(service.home.folder),
            "store_writable": not troubles,
            "reserve_bytes": service.reserve.size_bytes,
            "store_trouble": min((watched.trouble_kind for watched in troubled), default=""),
            "problems": [
                *filter(None, [service.config_trouble()]),
                *(problem.message for problem in purge_problems(waits=service.purge_waits)),
                *(
                    problem.message
                    for problem in spent_problems(service.reserve.size_bytes, service.reserve.free_bytes())
                ),
                *troubles,
                *(problem.message for problem in damage_known(service)),
                *(
                    problem.message
                    for problem in aside_told(service, packs_aside(service))
                    if problem.severity == WARNING
                ),
            ],
        },
        "retention": {**retention(service), "ahead": ahead(service)},
        "jobs": [job_object(state) for state in service.scheduler.states()],
        "worktrees": [_worktree_status(service, watched) for watched in service.trees()],
    }


def job_object(state: JobState) -> JobObject:
    """A job as ``status`` tells it."""
    return {
        "name": state.name,
        "every_ms": 1_000 * state.seconds,
        "running": state.running,
        "last_run_at": time_or_none(state.last_run_ms),
        "next_run_at": time_or_none(state.next_run_ms),
        "failures": state.failures,
        "error": state.error,
    }


def _worktree_status(service: Service, watched: Watched) -> WorktreeStatus:
    with service.timeline.database.reading() as db:
        checkpoints = store.CheckpointQuery(db, watched.worktree.id)
        newest = checkpoints.newest()
        gaps = sight.open_gaps(db, watched.worktree.id)
        interrupted = [o.public_id for o in journal.open_operations(db, watched.worktree.id)]
        thins = next_thinning(db, watched.worktree.id, retention_of(service, watched.worktree).thin)
        count = checkpoints.count()
        expiry = min(filter(None, (checkpoints.next_expiry(), thins)), default=None)
        idle = idle_turns(db, watched.worktree.id, service.clock.now_ms())
    state, reason = state_of(watched)
    head, capturing = service.timeline.head(watched.worktree.id), watched.capturing
    return {
        "root": shown(watched.worktree.root),
        "project": watched.worktree.project,
        "state": state,
        "reason": reason,
        "complete": not gaps and state == "watching" and not watched.trouble,
        "pending": _pending(watched),
        "watches": watched.watch.watches if watched.attached else 0,
        "seq": head.seq,
        "files": head.files,
        "bytes": head.bytes,
        "skipped": head.skipped,
        "over_quota": [path_entry(path) for path in sorted(watched.over_quota)],
        "scanned": capturing.seen if capturing is not None else None,
        "entries": watched.last_pass.entries if watched.last_pass else 0,
        "full_pass_every_ms": watched.wait_ms,
        "polled": watched.polled if watched.attached else "",
        "checkpoints": count,
        "last_checkpoint_at": time_or_none(newest.created_at_ms if newest else None),
        "next_expiry": time_or_none(expiry),
        "gaps": [{"cause": cause, "opened_at": rfc3339(ms)} for cause, ms in gaps],
        "interrupted": interrupted,
        "paused_at": time_or_none(watched.worktree.paused_ms),
        "paused_until": time_or_none(watched.worktree.paused_until_ms),
        "next_full_pass_in_ms": watched.next_pass_in_ms(service.clock.boot_ms()),
        "open_turns": [
            {"agent": window.agent, "session": window.session, "prompt": window.prompt}
            for window in watched.windows
            if window.kind is WindowKind.TURN
        ],
        "idle_turns": [idle_turn_object(turn, watched.worktree.root) for turn in idle],
        "memory": _memory_status(service, watched.worktree),
        "unread_memories": unread(service, watched.worktree),
    }


def _memory_status(service: Service, tree: Worktree) -> MemoryStatus | None:
    """The memory that a worktree writes to, else what it reads; None where there is none, nor ever was."""
    for directory in service.memories.layers(tree).both:
        watched = None
        with suppress(OpenOxideError):  # one that is new cannot be registered now: told of once it is
            watched = service.memories.of(directory)
        known = watched.worktree if watched is not None else service.memories.known(directory)
        if known is not None:
            return _noted(service, tree, directory, watched, known)
    return None


def _noted(
    service: Service, tree: Worktree, directory: MemoryDirectory, watched: Watched | None, known: Worktree
) -> MemoryStatus:
    state, reason = state_of(watched) if watched is not None else ("paused", ROOT_GONE)
    head = service.timeline.head(known.id)
    with service.timeline.database.reading() as db:
        interrupted = [operation.public_id for operation in journal.open_operations(db, known.id)]
    return {
        "policy": service.memories.policy(tree).value,
        "path": printable(str(directory.path)),
        "state": state,
        "reason": reason,
        "files": head.files,
        "bytes": head.bytes,
        "version": head.seq,
        "warning": _index_warning(service.memories.notes(tree)),
        "deletions": deletions(service, known),
        "interrupted": interrupted,
    }


def _index_warning(notes: Memory) -> str:
    """What is wrong with MEMORY.md, or about to be; empty where all of it loads and there is room."""
    try:
        index = loaded(notes.clean(body_of(notes.index())))
    except OpenOxideError as error:  # a link in its place, say: that is no reason to tell nothing of anything
        return error.message
    near = f"{index.lines} of {MOST_LINES} lines and {index.units} of {MOST_UNITS} characters that load are used"
    return index.warning or (near if index.is_near else "")


def _pending(watched: Watched) -> int:
    if not watched.attached:
        return 0
    watched.watch.barrier()  # what the kernel has told counts, whether the reader has come to it or not
    return watched.watch.pending


def state_of(watched: Watched) -> tuple[str, str]:
    """A worktree's ``state`` as ``status`` tells it, and the reason for one that is not good."""
    return ("paused", "asked for") if watched.paused else _state(watched)


def _state(watched: Watched) -> tuple[str, str]:
    if watched.capturing:
        return "capturing", ""
    try:
        same = identity_of(watched.worktree.root).same_as(watched.identity)
    except OSError:
        return "paused", ROOT_GONE
    if not same:
        return "paused", ROOT_REPLACED
    # a store that cannot be written is what keeps a tree from being attached
    if watched.trouble:
        return "degraded", watched.trouble
    if not watched.attached:
        return "capturing", "not attached yet"
    return ("degraded", watched.polled) if watched.polled else ("watching", "")


def _rss_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def folder_bytes(folder: Path) -> int:
    """Bytes on disk; the store is a few large files."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def stop(service: Service, _request: Request, _report: Reporter) -> dict[str, Any]:
    """End the daemon once this answer is out."""
    service.stop_requested.set()
    return {"ok": True, "pid": os.getpid()}
