"""``backup`` while the daemon records, and ``restore-home``, which is before any daemon."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openoxide import __version__
from openoxide.checkpoints import store
from openoxide.checkpoints.backing_up import back_up, damaged_contents
from openoxide.checkpoints.backup_folder import backup_in, read_list
from openoxide.checkpoints.backup_list import BackupList
from openoxide.checkpoints.backup_sizes import needed
from openoxide.checkpoints.bringing_back import bring_back, require_known, require_room, verify
from openoxide.checkpoints.model import Worktree, join
from openoxide.checkpoints.tree import identity_of, recorded_identity
from openoxide.clock import rfc3339
from openoxide.daemon.attachment import Pruned
from openoxide.daemon.operations.breathing import Breath
from openoxide.daemon.operations.looking import holds
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.backups import BackupAnswer, RestoredWorktree, RestoreHomeAnswer
from openoxide.daemon.pruning import Pruner
from openoxide.daemon.requests import Request, flag, path
from openoxide.errors import FailedError, RefusedError, StoreFullError
from openoxide.fileio import write_errors
from openoxide.paths import Home
from openoxide.syscalls import gentle_io

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

OPEN = "its file system keeps no rights: whoever can read that disk can read it"
DAMAGED = (
    "these contents are damaged in the home already: `oxide-ctl check --read-data` says which files and checkpoints that"
    " affects, `oxide-ctl repair --dry-run` what can be mended"
)
SAME_DISK = "it is on the same file system as the home: it survives a mistake, and not the disk"


def backup(service: Service, request: Request, report: Reporter) -> BackupAnswer:
    """``backup``: what the rows name now is copied, and nothing of it is deleted meanwhile."""
    target = Path(os.fsdecode(os.path.realpath(path(request, "to"))))
    with write_errors(f"the backup in {target}"):
        return _backup(service, target, report, dry_run=flag(request, "dry_run"))


def _backup(service: Service, target: Path, report: Reporter, *, dry_run: bool) -> BackupAnswer:
    _require_place(service, target)
    database, before = service.timeline.database, backup_in(target)
    wanted, free = needed(database, service.home, target, before), _free_bytes(target)
    answer: BackupAnswer = {
        "ok": True,
        "dry_run": dry_run,
        "to": printable(str(target)),
        "home": printable(str(service.home.folder)),
        "updated": before is not None,
        "files": wanted.files,
        "bytes": wanted.bytes,
        "copied_files": wanted.copied,
        "copied_bytes": wanted.copied_bytes,
        "free_bytes": free,
        "checkpoints": _checkpoints(service),
        "same_disk": _device(target) == _device(service.home.folder),
        "skipped": [],
        "mended": [],
        "damaged": 0,
        "notes": [],
    }
    answer["notes"] += [SAME_DISK] if answer["same_disk"] else []
    if dry_run:
        return answer
    if free < wanted.copied_bytes:
        raise StoreFullError(
            f"the backup takes {wanted.copied_bytes} bytes in {target}, and {free} are free",
            hint="free some space, or name a folder on another disk",
        )

    def breathe() -> None:
        if service.stop_requested.is_set():
            raise FailedError("the daemon ends, and the backup with it", hint="start the backup again")

    def progress(stage: str, done: int, total: int, size: int) -> None:
        report({"stage": stage, "done": done, "total": max(done, total), "bytes": size})

    # whoever waits for a checkpoint is not to wait for the other disk
    blobs = service.timeline.blobs
    with blobs.leases.holding(), gentle_io():
        made = back_up(
            database,
            service.home,
            target,
            program=__version__,
            now_ms=service.clock.now_ms(),
            breathe=breathe,
            report=partial(progress, "copying"),
        )
    answer |= {"files": len(made.list.files), "bytes": made.list.size}
    answer |= {"copied_files": made.copied, "copied_bytes": made.copied_bytes, "free_bytes": _free_bytes(target)}
    # of the folder alone: what is in it was made for its owner alone, where the file system knows of owners
    answer["notes"] += [OPEN] if target.stat().st_mode & 0o077 else []
    answer["skipped"] += [path_entry(os.fsencode(name), reason) for name, reason in made.skipped.items()]
    answer["mended"] += [path_entry(os.fsencode(name)) for name in made.bad]
    # behind the lease: what is read is the copies
    with gentle_io():
        breath = Breath("backup", service.stop_requested.is_set, lambda: blobs.is_adding)
        answer["damaged"] = damaged_contents(target, made.list, breath, partial(progress, "reading"))
    answer["notes"] += [DAMAGED] if answer["damaged"] else []
    return answer


def _require_place(service: Service, target: Path) -> None:
    """Raises RefusedError where a backup would be in its own way, or be recorded."""
    place, own = os.fsencode(target), os.path.realpath(os.fsencode(service.home.folder))
    if holds(own, place) or holds(place, own):
        raise RefusedError(
            f"{target} is in the home, or holds it", hint="name a folder elsewhere, best on another disk"
        )
    for watched in service.trees():
        root = watched.worktree.root
        if holds(root, place) and is_recorded(root, place, Pruner(root, service.settings.of(root).capture)):
            raise RefusedError(
                f"{target} is in the watched project {shown(root)}, which would record the backup",
                hint="name a folder elsewhere, or have .oxideignore leave that one out",
            )


def is_recorded(root: bytes, place: bytes, prune: Pruner) -> bool:
    """Whether the rules of the tree at ``root`` let it record what a folder in it holds."""
    parent = b""
    for name in filter(None, place[len(root) :].split(b"/")):
        if prune(parent, name) is not Pruned.NO:
            return False
        parent = join(parent, name)
    return True


def _free_bytes(target: Path) -> int:
    return shutil.disk_usage(_there(target)).free


def _device(target: Path) -> int:
    return os.stat(_there(target)).st_dev


def _there(target: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    # what is not there yet will be on the disk of what it is made in
    return next(step for step in (target, *target.parents) if step.exists())


def _checkpoints(service: Service) -> int:
    with service.timeline.database.reading() as db:
        return sum(store.CheckpointQuery(db, worktree.id).count() for worktree in store.worktrees(db))


def restore_home(request: Request, report: Reporter) -> RestoreHomeAnswer:
    """``restore-home``. ``dry_run`` reads all of the backup, writes nothing and needs no free place; ``planned`` does not even
    read it.
    """
    source, home = Path(os.fsdecode(path(request, "source"))), Home(Path(os.fsdecode(path(request, "home"))))
    made = read_list(source)
    require_known(made)
    notes = []
    with write_errors(f"the home {home.folder}"):
        try:
            require_room(home)
        except RefusedError as error:
            # a backup is to be tried while the home that it is of is there
            if not flag(request, "dry_run"):
                raise
            notes.append(f"as it is, it would be refused: {error.message}; {error.hint}")
    answer: RestoreHomeAnswer = {
        "ok": True,
        "dry_run": flag(request, "dry_run"),
        "source": printable(str(source)),
        "home": printable(str(home.folder)),
        "from_home": printable(made.folder),
        "made_at": rfc3339(made.at_ms),
        "made_by": made.program,
        "files": len(made.files),
        "bytes": made.size,
        "worktrees": [],
        "notes": notes,
    }
    if flag(request, "planned"):
        return answer
    _restore(source, home, made, answer, report)
    return answer


def _restore(source: Path, home: Home, made: BackupList, answer: RestoreHomeAnswer, report: Reporter) -> None:
    stage = "reading" if answer["dry_run"] else "restoring"

    def progress(done: int, total: int, size: int) -> None:
        report({"stage": stage, "done": done, "total": total, "bytes": size})

    if answer["dry_run"]:
        verify(source, made, lambda: None, progress)
        return
    for worktree, checkpoints in bring_back(source, home, made, lambda: None, progress):
        answer["worktrees"].append(_restored(worktree, checkpoints))


def _restored(worktree: Worktree, checkpoints: int) -> RestoredWorktree:
    try:
        same = identity_of(worktree.root).same_as(recorded_identity(worktree))
        state = "as_it_was" if same else "another_directory"
    except OSError:
        state = "gone"
    return {"root": shown(worktree.root), "project": worktree.project, "state": state, "checkpoints": checkpoints}
