"""What can be wrong with a home, whoever looks: the daemon, or the command line where no daemon answers.

A repair takes nothing away from anybody: it is the right to read that others lose.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from openoxide import surroundings
from openoxide.fileio import make_private
from openoxide.ownership import FOREIGN_HINT, foreign_text, is_foreign
from openoxide.paths import Home
from openoxide.surroundings import Side, file_system, reach

ERROR, WARNING, NOTE = "error", "warning", "note"
LITTLE_BYTES, TOO_LITTLE_BYTES = 1 << 30, 100 << 20


class Problem(NamedTuple):  # the command line makes some: no dataclass, see cli.context
    """One finding. ``severity``: ERROR (something is not recorded or will be lost), WARNING (it may be) or NOTE (as it was
    asked for, or good to know).
    """

    kind: str
    severity: str
    message: str
    hint: str
    fixed: bool = False


def foreign_problems(home: Home) -> list[Problem]:
    """Whether the home is somebody else's folder, of which nothing is to be touched."""
    if not is_foreign(home):
        return []
    return [Problem("foreign_home", ERROR, foreign_text(home), FOREIGN_HINT)]


def home_problems(home: Home, *, fix: bool) -> list[Problem]:
    """What is wrong with the home's modes, its file system and the space on it; nothing where there is no home yet."""
    if not home.folder.is_dir():
        return []
    free = os.statvfs(home.folder)
    return [
        *_mode_problems(home, fix=fix),
        *place_problems(str(home.folder), file_system(str(home.folder))),
        # f_bavail, not f_bfree: the rest is reserved for root (statvfs(3))
        *space_problems(str(home.folder), free.f_bavail * free.f_frsize),
    ]


def _mode_problems(home: Home, *, fix: bool) -> Iterator[Problem]:
    open_to_others = [name for name in _with_modes(home) if _grants(name)]
    if not open_to_others:
        return
    if fix:
        home.folder.chmod(0o700)
        make_private(home.folder)
        # make_private changes files and folders only
        if home.socket.exists():
            home.socket.chmod(0o600)
    # looked at again: only what was seen to be shut is called fixed
    left = [name for name in open_to_others if _grants(name)]
    yield Problem(
        "home_permissions",
        ERROR,
        f"others may reach {len(open_to_others)} of the home's files and folders, first {open_to_others[0]}",
        "`oxide-ctl doctor --fix` takes their rights away",
        fixed=not left,
    )


def _with_modes(home: Home) -> Iterator[str]:
    yield str(home.folder)
    for directory, folders, names in os.walk(home.folder):
        yield from (os.path.join(directory, name) for name in [*folders, *names])


def _grants(name: str) -> bool:
    try:
        # the mode of a link says nothing about what it leads to (symlink(7))
        mode = os.lstat(name).st_mode
    # a WAL or a log may go while we look
    except FileNotFoundError:
        return False
    return not stat.S_ISLNK(mode) and bool(stat.S_IMODE(mode) & 0o077)


def place_problems(folder: str, kind: str) -> list[Problem]:
    """What it means that the home lies on a file system of this type. Pure."""
    local = "name a folder on a local disk in OPENOXIDE_HOME"
    match reach(kind):
        case surroundings.NETWORK | surroundings.HOST_SHARE:
            text = f"the home {folder} is on {kind}, where SQLite's locks and its WAL cannot be relied on"
            return [Problem("home_not_local", ERROR, text, local)]
        case surroundings.MEMORY:
            return [
                Problem("home_in_memory", WARNING, f"the home {folder} is on {kind} and gone after a restart", local)
            ]
        case surroundings.OVERLAY:
            text = f"the home {folder} is in the container's own layer and goes when the container is deleted"
            return [Problem("home_in_container", NOTE, text, "name a folder on a volume in OPENOXIDE_HOME")]
        case _:
            return []


def space_problems(folder: str, free_bytes: int) -> list[Problem]:
    """Whether there is room to record. Pure."""
    if free_bytes >= LITTLE_BYTES:
        return []
    severity = ERROR if free_bytes < TOO_LITTLE_BYTES else WARNING
    text = f"{free_bytes >> 20} MiB are free on the disk of {folder}"
    return [
        Problem("disk_space", severity, text, "free some space: a full disk ends recording, and a rewind needs room")
    ]


def tree_problems(root: str, kind: str) -> list[Problem]:
    """What it means that a watched tree lies on a file system of this type. Pure."""
    if reach(kind) not in (surroundings.NETWORK, surroundings.HOST_SHARE):
        return []
    text = (
        f"{root} is on {kind}: changes that are made on its other side are not reported, and found by the periodic pass"
    )
    return [
        Problem("tree_not_local", WARNING, text, "run the daemon where the files are written (docs/environments.md)")
    ]


def side_problems(ours: Side, daemons: Side) -> list[Problem]:
    """What is worth knowing about where the daemon runs, and the command line beside it. Pure."""
    found = []
    if ours.world and daemons.world and ours.world != daemons.world:
        text = f"the daemon runs elsewhere than this command: {_named(daemons)}, not {_named(ours)}"
        hint = "paths must be the same on both sides (docs/environments.md)"
        found.append(Problem("other_side", WARNING, text, hint))
    if daemons.container:
        text = f"the daemon runs in a container ({daemons.container}): it sees that one's files, and ends with it"
        found.append(Problem("container", NOTE, text, "see docs/environments.md"))
    if daemons.wsl:
        text = f"the daemon runs in {daemons.wsl}: trees below /mnt/c are on the other side"
        found.append(Problem("wsl", NOTE, text, "keep projects in the Linux file system (docs/environments.md)"))
    if ours.sandbox:
        text = "this command runs with a system call filter, as in an agent's sandbox"
        found.append(Problem("sandbox", NOTE, text, "start the daemon outside of it first (docs/environments.md)"))
    return found


def _named(side: Side) -> str:
    return side.container or side.wsl or "a system without a container"
