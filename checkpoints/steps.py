"""A plan as ordered steps. Pure: removals deepest first, placements parents first, directory modes last."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from openoxide.checkpoints.model import ABSENT, FileState, Kind
from openoxide.checkpoints.plan import OWNER_MAY_CHANGE, Change, RewindPlan

# wide enough to be filled; the recorded mode is a step of its own, and mkdir(2) would take the umask off
NEW_FOLDER_MODE = 0o700


class Action(str, Enum):
    """What a step does to its path."""

    REMOVE = "remove"
    RMDIR = "rmdir"
    PLACE = "place"
    MODE = "mode"
    CLOSE = "close"  # a widened directory gets its mode, whatever became of the step that needed it wide


class Step(NamedTuple):
    """One step. ``old`` is what must stand there, ``new`` what will; ``new_ino`` names the staged entry of a
    placement once it is staged.
    """

    number: int
    action: Action
    path: bytes
    old: FileState
    new: FileState
    new_ino: int | None = None

    @property
    def staged_name(self) -> str:
        """The entry in the staging folder that this step works with."""
        # a path is no name: it holds slashes, and may be longer than a name can be (NAME_MAX)
        # asked for some ten times a step: an action is a text itself, and its value is slow to reach
        return self.action + f"-{self.number}"


def is_staged_name(name: str) -> bool:
    """Whether a step may have made the entry of this name in the staging folder."""
    action, _, number = name.rpartition("-")
    return action in {known.value for known in Action} and number.isdecimal()


def steps_of(plan: RewindPlan) -> tuple[Step, ...]:
    """The steps of ``plan``, in the order they must be done."""
    changes = sorted(plan.changes, key=lambda change: (_depth(change), change.path))
    opened = {change.path: change.now._replace(mode=change.now.mode | OWNER_MAY_CHANGE) for change in plan.opened}
    found: list[tuple[Action, bytes, FileState, FileState]] = [
        (Action.MODE, change.path, change.now, opened[change.path]) for change in plan.opened
    ]
    # removals first and deepest first: they make room for what is placed, and empty the directories that go
    for change in reversed(changes):
        if change.now.exists and not _exchangeable(change) and not _only_mode(change):
            action = Action.RMDIR if change.now.kind is Kind.DIRECTORY else Action.REMOVE
            found.append((action, change.path, change.now, ABSENT))
    # parents first: a file needs its directory
    for change in changes:
        if change.wanted.exists and not _only_mode(change):
            old = change.now if _exchangeable(change) else ABSENT
            found.append((Action.PLACE, change.path, old, change.wanted))
    # modes last, deepest first: a directory that shuts us out may be any directory above the next one
    for change in reversed(changes):
        if change.wanted.kind is Kind.DIRECTORY and change.path not in opened:
            old = change.now if _only_mode(change) else FileState(kind=Kind.DIRECTORY, mode=NEW_FOLDER_MODE)
            found.append((Action.MODE, change.path, old, change.wanted))
    for change in reversed(plan.opened):
        final = change.wanted if change.wanted.kind is Kind.DIRECTORY else change.now
        found.append((Action.CLOSE, change.path, opened[change.path], final))
    return tuple(
        Step(number=number, action=action, path=path, old=old, new=new)
        for number, (action, path, old, new) in enumerate(found)
    )


def _depth(change: Change) -> int:
    return change.path.count(b"/")


def _exchangeable(change: Change) -> bool:
    """Whether one exchange brings ``wanted``: both sides are entries other than directories."""
    sides = (change.now, change.wanted)
    return all(state.exists and state.kind is not Kind.DIRECTORY for state in sides)


def _only_mode(change: Change) -> bool:
    return change.now.kind is Kind.DIRECTORY and change.wanted.kind is Kind.DIRECTORY
