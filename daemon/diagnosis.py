"""From facts about a daemon's trees to problems. Pure; the facts are gathered in ``operations/examining.py``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openoxide.checkpoints.inventory import Inventory
from openoxide.checkpoints.tree import go_on_here, way_back
from openoxide.daemon.attachment import INSTANCE_LIMIT, WATCH_LIMIT
from openoxide.daemon.cadence import NETWORK_FS
from openoxide.daemon.protocol.health import AheadObject, IdleTurnObject, JobObject, RetentionObject
from openoxide.daemon.reserve import RESERVE_BYTES, ROOM_BYTES
from openoxide.health import ERROR, NOTE, WARNING, Problem, tree_problems
from openoxide.knobs import size

ENOUGH_WATCHES, ENOUGH_INSTANCES = 524_288, 1_024
EARLIEST_MS = 1_767_225_600_000  # 2026-01-01: before this program was written
SKEW_MS = 60_000
ROOT_GONE, ROOT_REPLACED = "the root is gone", "another directory has taken the place of the root"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFacts:
    """One watched tree. ``state``, ``reason``, ``gaps`` (causes), ``interrupted`` and ``idle_turns`` as ``status`` has
    them; ``hint``: what helps against the reason; ``staging``: a staging folder that no operation needs is ``left``, or was
    just ``swept``, or is still ``busy``; ``over_quota``: paths that the quota has no room for.
    """

    root: str
    state: str = "watching"
    reason: str = ""
    hint: str = ""
    paused_until: str | None = None
    paused: bool = False
    gaps: Sequence[str] = ()
    interrupted: Sequence[str] = ()
    idle_turns: Sequence[IdleTurnObject] = ()
    file_system: str = ""
    holds_home: bool = False
    staging: str = ""
    over_quota: Sequence[str] = ()


def problems_of_tree(tree: TreeFacts) -> list[Problem]:
    """What is wrong with one tree."""
    found = [*_state(tree), *tree_problems(tree.root, tree.file_system), *_staging(tree)]
    if tree.gaps and not tree.paused:
        text = f"{tree.root} may lack changes: {', '.join(tree.gaps)}"
        found.append(
            Problem("gap", WARNING, text, "a full pass closes it; `oxide-ctl status` says when the next one comes")
        )
    for operation in tree.interrupted:
        hint = f"settle it with `oxide-ctl -C {shlex.quote(tree.root)} rewind --continue` or `--abort`"
        found.append(Problem("interrupted", ERROR, f"operation {operation[:8]} of {tree.root} was interrupted", hint))
    for turn in tree.idle_turns:
        text = f"a turn of session {turn['session']} is open in {tree.root}, and nothing was heard of it since {turn['heard_at']}"
        hint = f"what anybody writes there is taken for its own; if its agent is gone: `{turn['command']}`"
        found.append(Problem("turn_open", WARNING, text, hint))
    if tree.over_quota:
        files = f"{len(tree.over_quota)} files of {tree.root}, first {tree.over_quota[0]}"
        text = f"they are not recorded, since the quota has no room for them: {files}"
        hint = "raise retention.quota_bytes, unpin what holds their versions, or name them in .oxideignore"
        found.append(Problem("over_quota", WARNING, text, hint))
    if tree.holds_home:
        text = (
            f"the home lies inside the watched tree {tree.root}: it is not recorded, and goes when the tree is deleted"
        )
        found.append(Problem("home_in_project", WARNING, text, "name a folder outside in OPENOXIDE_HOME"))
    return found


def _state(tree: TreeFacts) -> list[Problem]:
    if tree.paused:
        end = f" until {tree.paused_until}" if tree.paused_until else ""
        hint = f"`oxide-ctl unpause {shlex.quote(tree.root)}` ends it"
        return [Problem("paused", NOTE, f"{tree.root} is paused{end}", hint)]
    if tree.state == "paused":
        moved = f"if it was moved: `oxide-ctl projects move {shlex.quote(tree.root)} NEW`"
        again = way_back(tree.root) if tree.reason == ROOT_GONE else go_on_here(tree.root)
        hint = f"{moved}; {again}; else `oxide-ctl unwatch {shlex.quote(tree.root)}`"
        return [Problem("root_gone", ERROR, f"{tree.root} is not recorded: {tree.reason}", hint)]
    # limits are told once for all trees, a file system by tree_problems
    if tree.state == "degraded" and tree.reason not in (WATCH_LIMIT, INSTANCE_LIMIT, NETWORK_FS):
        hint = tree.hint or "see the daemon's log"
        return [Problem("degraded", ERROR, f"{tree.root} is not recorded whole: {tree.reason}", hint)]
    return []


def _staging(tree: TreeFacts) -> list[Problem]:
    match tree.staging:
        case "left" | "swept":
            text = f"a staging folder was left in {tree.root} by an operation that ended"
            hint = "`oxide-ctl doctor --fix` removes it"
            return [Problem("staging_left", WARNING, text, hint, fixed=tree.staging == "swept")]
        case "busy":
            text = f"the staging folder in {tree.root} holds something that is not ours, or still open, and stays"
            return [Problem("staging_busy", WARNING, text, "look into .openoxide-staging, and close what writes to it")]
        case _:
            return []


def limit_problems(watches: int, limit: int, reasons: Sequence[str]) -> list[Problem]:
    """Whether the kernel lets us watch every directory. ``limit`` 0: not known; ``reasons``: why trees are degraded."""
    found = []
    if WATCH_LIMIT in reasons or (limit and watches * 10 >= limit * 8):
        severity = ERROR if WATCH_LIMIT in reasons else WARNING
        text = f"{watches} directories are watched and the limit of this user is {limit}"
        found.append(
            Problem("watch_limit", severity, text, _sysctl("max_user_watches", max(ENOUGH_WATCHES, 4 * limit)))
        )
    if INSTANCE_LIMIT in reasons:
        text = "this user may not have another inotify instance"
        found.append(Problem("instance_limit", ERROR, text, _sysctl("max_user_instances", ENOUGH_INSTANCES)))
    return found


def _sysctl(name: str, value: int) -> str:
    line = f"fs.inotify.{name}={value}"
    return f"`sudo sysctl {line}`, and that line in /etc/sysctl.d/60-inotify.conf so that it stays"


def config_problems(trouble: str, *, waits: bool, strangers: Sequence[str]) -> list[Problem]:
    """What is wrong with ``config.toml``. ``waits``: it says something else than the daemon goes by; ``strangers``: roots
    of projects in it that nobody ever watched.
    """
    found = []
    if trouble:
        hint = (
            "correct it with `oxide-ctl config edit`, then `oxide-ctl stop`: the next command starts a daemon with it"
        )
        found.append(Problem("config", ERROR, trouble, hint))
    elif waits:
        text = "config.toml was changed after the daemon started, and is not taken up yet"
        found.append(Problem("config_waits", NOTE, text, "`oxide-ctl stop`; the next command starts a daemon with it"))
    for root in strangers:
        text = f"config.toml has settings for {root}, which was never watched"
        hint = "a root is named as `oxide-ctl projects` shows it; `oxide-ctl config edit` mends or deletes the table"
        found.append(Problem("config_stranger", WARNING, text, hint))
    return found


def purge_problems(*, waits: bool) -> list[Problem]:
    """Whether a purge has bytes left to remove."""
    if not waits:
        return []
    text = "a purge is not finished: somebody reads the database or the packs, or the disk refused"
    hint = "the daemon goes on with it once a minute; end what reads `timeline.db` (a browser of databases, a backup)"
    return [Problem("purge_waits", WARNING, text, hint)]


def quota_command(key: str, root: str = "") -> str:
    """What sets a quota anew, but for its size: for all, or where it stands for the project with ``root`` alone."""
    return f"oxide-ctl -C {shlex.quote(root)} config set --project {key}" if root else f"oxide-ctl config set {key}"


def quota_problems(name: str, command: str, stored: int, quota: int, then: str = "") -> list[Problem]:
    """Whether ``name`` takes more than its quota, or nearly; ``command`` SIZE raises it. 0 is no quota. ``then``: what comes."""
    if not quota or stored * 10 < quota * 9:
        return []
    used = f"{name} takes {size(stored)} of its quota of {size(quota)}"
    hint = f"`oxide-ctl du` shows what takes it; `{command} SIZE` raises it"
    if stored <= quota:
        return [Problem("quota_near", NOTE, used, hint)]
    return [Problem("quota_exceeded", WARNING, f"{used}: {then}", hint)]


def ahead_problems(coming: Iterable[AheadObject]) -> list[Problem]:
    """What ``min_free_bytes`` takes; what a quota does is told with the quota."""
    hint = "`oxide-ctl expire --dry-run` lists them; free some space, or lower retention.min_free_bytes"
    found = [ahead["text"] for ahead in coming if ahead["reason"] == "min_free"]
    return [Problem("limit_ahead", WARNING, text, hint) for text in found]


def reserve_problems(free: int, least: int) -> list[Problem]:
    """Whether the disk has less than ``retention.min_free_bytes``, or nearly; 0 is no bound."""
    if not least or free * 10 >= least * 11:
        return []
    text = f"{free >> 20} MiB of the disk are free, and retention.min_free_bytes wants {least >> 20} MiB to be"
    hint = "free some space, or `oxide-ctl config set retention.min_free_bytes SIZE`: `oxide-ctl du` shows what the history takes"
    if free >= least:
        return [Problem("reserve_near", NOTE, text, hint)]
    return [Problem("reserve", WARNING, f"{text}: checkpoints are forgotten before their time", hint)]


def spent_problems(kept: int, free: int) -> list[Problem]:
    """Whether the reserve for a rewind on a full disk is used up, or could not be made: ``kept`` bytes of it are there, and
    ``free`` on the disk. Where there is room it comes with the next heartbeat.
    """
    if kept or free >= ROOM_BYTES:
        return []
    text = f"nothing is kept for a rewind on a full disk: {free >> 20} MiB are free, and that takes {ROOM_BYTES >> 20}"
    hint = (
        f"free some space: with {ROOM_BYTES >> 20} MiB the daemon keeps {RESERVE_BYTES >> 20} of them within a minute"
    )
    return [Problem("reserve_spent", WARNING, text, hint)]


def retention_problems(retention: RetentionObject) -> list[Problem]:
    """Whether nothing expires, and which limits the last expire could not hold."""
    found = []
    # what is wrong with the settings is told of itself
    if retention["paused"] and retention["reason"] != "config":
        found.append(Problem("retention_paused", WARNING, f"nothing expires: {retention['why']}", retention["hint"]))
    for text in retention["refused"]:
        hint = "`oxide-ctl config list` shows the limits, `oxide-ctl expire --dry-run` what they would take"
        found.append(Problem("limit_refused", WARNING, f"a limit of the settings is not held: {text}", hint))
    return found


def job_problems(jobs: Iterable[JobObject]) -> list[Problem]:
    """Which work that is done by the clock fails."""
    return [
        Problem(
            "job_failed",
            WARNING,
            f"the job {job['name']} failed {job['failures']} times since it last did not: {job['error']}",
            "it is tried again; `oxide-ctl status` says when, and the daemon's log tells more",
        )
        for job in jobs
        if job["failures"]
    ]


def copy_problems(home: str, sizes: Mapping[str, int]) -> list[Problem]:
    """What a repair or a change of the schema left of the store as it was, with the packs that only this names; ``sizes`` by
    name in the home.
    """
    if not sizes:
        return []
    names = sorted(sizes)
    text = f"copies of the store as it was are left in {home}, {_mib(sum(sizes.values()))} MiB: {', '.join(names)}"
    hint = (
        "once `oxide-ctl check --read-data` finds nothing but what is marked as lost, and nothing is missed, they can go:"
        f" `{_removal(home, names)}`"
    )
    repairs = [name for name in names if name.startswith("repair-")]
    if repairs:
        hint += (
            f"; until then the way back is `oxide-ctl stop`, then to put {repairs[-1]}/timeline.db in the place of timeline.db:"
            " the next start takes the packs back that it names, and what was recorded since is given up"
        )
    return [Problem("copies_left", NOTE, text, hint)]


def _removal(home: str, names: Sequence[str]) -> str:
    return f"rm -r {shlex.join(os.path.join(home, name) for name in names)}"


def _mib(size_bytes: int) -> int:
    """Rounded up: what is there is not nothing."""
    return -(-size_bytes >> 20)


def store_problems(found: Inventory) -> list[Problem]:
    """What is wrong with the files of the content store."""
    problems = []
    for names, how in ((found.missing, "missing"), (found.short, "cut short")):
        if names:
            text = f"files of the store are {how}: {len(names)}, first blobs/{names[0]}"
            hint = "bring them back from a backup if there is one; else `oxide-ctl repair --dry-run` says what can be mended"
            problems.append(Problem("store_damaged", ERROR, text, hint))
    if found.shut:
        text = f"files of the store may not be read: {len(found.shut)}, first blobs/{found.shut[0]}"
        hint = "give their owner the rights back with `chmod -R u+rwX` on the home; nothing is lost"
        problems.append(Problem("store_shut", ERROR, text, hint))
    if found.foreign:
        text = f"what is not ours lies in the store and stays there: {len(found.foreign)}, first {found.foreign[0]}"
        problems.append(Problem("store_foreign", WARNING, text, "move them out of the home"))
    return problems


def aside_problems(home: str, left: Sequence[str], foreign: Sequence[str]) -> list[Problem]:
    """Whether packs in ``home`` were set aside that belong to no copy of the store there: ``left`` by a repair whose folder
    is gone, or ``foreign``.
    """
    found = []
    if left:
        text = f"packs are left that only the state before a repair named, which is gone: {len(left)}, first {left[0]}"
        hint = f"only another repair looks into them; if nothing is missed they can go: `{_removal(home, left)}`"
        found.append(Problem("packs_left", NOTE, text, hint))
    if foreign:
        text = f"packs of another timeline.db were set aside: {len(foreign)}, first {foreign[0]}"
        hint = (
            "`oxide-ctl stop`, then bring that timeline.db back, from a backup if there is one: the next start takes these"
            " packs back; delete them only if nothing is missed"
        )
        found.append(Problem("packs_aside", WARNING, text, hint))
    return found


def clock_problems(now_ms: int, newest_ms: int) -> list[Problem]:
    """Whether the wall clock can be believed; ``newest_ms``: the latest time in the store."""
    hint = "set the clock: expiry, `@10m` and the end of a pause go by it"
    if now_ms < EARLIEST_MS:
        return [Problem("clock", ERROR, "the clock is before 2026", hint)]
    if newest_ms > now_ms + SKEW_MS:
        behind = (newest_ms - now_ms) // 1000
        return [Problem("clock", WARNING, f"the newest checkpoint is {behind} s in the future", hint)]
    return []
