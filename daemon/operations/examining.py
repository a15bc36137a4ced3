"""``doctor``: gathers the facts that only the daemon has, repairs what takes nothing away, lets ``diagnosis`` judge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openoxide import __version__
from openoxide.checkpoints import expiry, journal, sight, store
from openoxide.checkpoints.idle import idle_turns
from openoxide.checkpoints.inventory import Inventory, take_inventory
from openoxide.checkpoints.policy import Cause, Plan
from openoxide.checkpoints.staging import find_staging, remove_staging
from openoxide.checkpoints.tree import Tree
from openoxide.clock import rfc3339
from openoxide.daemon.answers import idle_turn_object
from openoxide.daemon.diagnosis import (
    TreeFacts,
    ahead_problems,
    clock_problems,
    config_problems,
    copy_problems,
    job_problems,
    limit_problems,
    problems_of_tree,
    purge_problems,
    quota_command,
    quota_problems,
    reserve_problems,
    retention_problems,
    spent_problems,
    store_problems,
)
from openoxide.daemon.operations.checking import aside_told, damage_known, packs_aside
from openoxide.daemon.operations.expiring import retention
from openoxide.daemon.operations.foreseeing import foreseen
from openoxide.daemon.operations.looking import holds
from openoxide.daemon.operations.measuring import copies, projects
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.operations.watching import job_object, shown, state_of
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.health import AheadObject, DoctorAnswer
from openoxide.daemon.requests import Request, flag
from openoxide.daemon.watched import Watched
from openoxide.errors import RootVanishedError
from openoxide.health import WARNING, Problem, home_problems
from openoxide.ownership import foreign_names
from openoxide.settings import Settings
from openoxide.surroundings import file_system, this_side
from openoxide.taken import waits

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

QUOTA = "retention.quota_bytes"
# of the whole machine, and of a user namespace (namespaces(7)): the lower one counts
MAX_WATCHES = (Path("/proc/sys/fs/inotify/max_user_watches"), Path("/proc/sys/user/max_inotify_watches"))


def doctor(service: Service, request: Request, _report: Reporter) -> DoctorAnswer:
    """Everything that is wrong as far as the daemon can see. With ``fix`` the safe repairs are done and said."""
    fix = flag(request, "fix")
    trees = service.all_watched()
    problems = [
        *home_problems(service.home, fix=fix),
        *_store_problems(service),
        *purge_problems(waits=service.purge_waits),
        *_room_problems(service),
        *retention_problems(retention(service)),
        *job_problems(map(job_object, service.scheduler.states())),
        *_left_problems(service),
        *clock_problems(service.clock.now_ms(), _newest_ms(service)),
        *limit_problems(sum(_watches(tree) for tree in trees), _max_watches(), [t.polled for t in trees]),
        *(problem for tree in trees for problem in problems_of_tree(_facts(service, tree, fix=fix))),
    ]
    return {
        "ok": True,
        "problems": [problem._asdict() for problem in problems],
        "daemon": {
            "pid": os.getpid(),
            "version": __version__,
            "home": printable(str(service.home.folder)),
            "side": this_side(os.environ)._asdict(),
        },
    }


def _store_problems(service: Service) -> list[Problem]:
    found = _config_problems(service)
    mode = service.timeline.database.journal_mode
    if mode != "wal":
        text = f"SQLite uses the journal mode {mode}, not wal: recording and looking wait for each other"
        found.append(Problem("journal_mode", WARNING, text, "name a folder on a local disk in OPENOXIDE_HOME"))
    return found + store_problems(_inventory(service)) + damage_known(service)


def _left_problems(service: Service) -> list[Problem]:
    """Copies of the store as it was, and packs that were set aside."""
    folder, aside = service.home.folder, packs_aside(service)
    sizes = copies(service.home)
    sizes |= {name: os.stat(folder / name).st_blocks * 512 for name in aside.kept if (folder / name).exists()}
    return [*copy_problems(printable(str(folder)), sizes), *aside_told(service, aside)]


def _room_problems(service: Service) -> list[Problem]:
    """Whether what the settings leave to the history is used up."""
    retention = service.settings.retention
    found = spent_problems(service.reserve.size_bytes, service.reserve.free_bytes())
    if retention.min_free_bytes:
        free = os.statvfs(service.home.folder)
        found += reserve_problems(free.f_bavail * free.f_frsize, retention.min_free_bytes)
    quotas: dict[str | None, tuple[str, str, int]] = {
        None: ("the whole history", quota_command("retention.total_quota_bytes"), retention.total_quota_bytes)
    }
    with service.timeline.database.looking() as db:
        for project in projects(db, store.worktrees(db), service.settings, {}):
            roots = project["roots"]
            command = quota_command(QUOTA, _own_quota(service.settings, roots))
            quotas[project["project"]] = (", ".join(roots), command, project["quota_bytes"])
    # adding up what is needed reads every version
    if retention.min_free_bytes or any(quota for _, _, quota in quotas.values()):
        plan, coming = foreseen(service)
        # a plan that no limit could be exceeded for has measured nothing
        used = plan.needed or expiry.used(service.timeline.database, service.clock.now_ms())
        for whose, (name, command, quota) in quotas.items():
            found += quota_problems(name, command, used.get(whose, 0), quota, _then(plan, coming, whose))
        found += ahead_problems(coming)
    return found


def _then(plan: Plan, coming: Sequence[AheadObject], project: str | None) -> str:
    """What comes of a quota that is exceeded: that of a project, or (None) of all."""
    cause = Cause.TOTAL_QUOTA if project is None else Cause.QUOTA
    if (cause, project) in plan.helpless:
        return "nothing is forgotten for that, since no forgetting would hold it"
    found = [ahead["text"] for ahead in coming if (ahead["reason"], ahead["project"]) == (cause.value, project)]
    if found:
        return found[0]
    if plan.release or plan.fine:
        return "what is in trash, and states of the last day, go for that; no other checkpoint has to"
    return "nothing that may go is left"


def _own_quota(settings: Settings, roots: Sequence[str]) -> str:
    """The first of a project's ``roots`` that has a quota of its own, which one for all would not change; else empty."""
    return next((root for root in roots if QUOTA in settings.projects.get(root, {})), "")


def _config_problems(service: Service) -> list[Problem]:
    if service.taken is None:
        return []
    roots = [os.fsdecode(root) for root in _roots(service)]
    return config_problems(
        service.config_trouble(),
        waits=waits(service.home, service.taken),
        strangers=[root for root in service.settings.projects if root not in roots],
    )


def _roots(service: Service) -> list[bytes]:
    with service.timeline.database.reading() as db:
        return [worktree.root for worktree in store.worktrees(db)]


def _inventory(service: Service) -> Inventory:
    foreign = foreign_names(service.home.folder, "blobs/")
    with service.timeline.database.reading() as db:
        return take_inventory(db, service.home.blobs, foreign)


def _newest_ms(service: Service) -> int:
    with service.timeline.database.reading() as db:
        newest = [store.CheckpointQuery(db, worktree.id).newest() for worktree in store.worktrees(db)]
    return max((checkpoint.created_at_ms for checkpoint in newest if checkpoint is not None), default=0)


def _watches(tree: Watched) -> int:
    return tree.watch.watches if tree.attached else 0


def _max_watches() -> int:
    """0 where the system does not say."""
    limits = []
    for place in MAX_WATCHES:
        with suppress(OSError, ValueError):
            limits.append(int(place.read_text("ascii")))
    return min(limits, default=0)


def _facts(service: Service, tree: Watched, *, fix: bool) -> TreeFacts:
    root = tree.worktree.root
    with service.timeline.database.reading() as db:
        gaps = [cause for cause, _ in sight.open_gaps(db, tree.worktree.id)]
        interrupted = [operation.public_id for operation in journal.open_operations(db, tree.worktree.id)]
        idle = idle_turns(db, tree.worktree.id, service.clock.now_ms())
    state, reason = state_of(tree)
    until = tree.worktree.paused_until_ms
    return TreeFacts(
        root=shown(root),
        state=state,
        reason=reason,
        hint=tree.trouble_hint if reason == tree.trouble else "",
        paused=tree.paused,
        paused_until=rfc3339(until) if until is not None else None,
        gaps=gaps,
        interrupted=interrupted,
        idle_turns=[idle_turn_object(turn, root) for turn in idle],
        file_system=file_system(os.fsdecode(root)),
        over_quota=[shown(path) for path in sorted(tree.over_quota)],
        holds_home=holds(root, os.path.realpath(os.fsencode(service.home.folder))),
        staging="" if interrupted else staging_of(service, tree, sweep=fix),
    )


def staging_of(service: Service, tree: Watched, *, sweep: bool) -> str:
    """What is to be said of a tree's staging folder while no operation is open: nothing (empty), ``left``, ``swept`` or
    ``busy``. With ``sweep`` what ended operations left in it is stored or deleted as always.
    """
    try:
        with tree.lock, tree.open_tree() as opened:
            if not _exists(opened):
                return ""
            if not sweep:
                return "" if _waits(service, tree) else "left"
            sweep_ended(service, tree)
            remove_staging(opened)
            return "busy" if _exists(opened) else "swept"
    except RootVanishedError:
        return ""


def _waits(service: Service, tree: Watched) -> bool:
    """Whether the folder of an ended operation is still to be swept, which happens by itself."""
    with service.timeline.database.reading() as db:
        return bool(journal.unswept(db, tree.worktree.id))


def _exists(tree: Tree) -> bool:
    folder = find_staging(tree)
    if folder is None:
        return False
    os.close(folder)
    return True
