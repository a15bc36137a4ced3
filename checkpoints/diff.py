"""What differs between two states of a tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from openoxide.checkpoints.model import ABSENT, FileState


class Status(str, Enum):
    """As git spells it: added, modified, deleted, type changed."""

    ADDED = "A"
    MODIFIED = "M"
    DELETED = "D"
    TYPE = "T"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One path that differs."""

    path: bytes
    status: Status
    old: FileState
    new: FileState


def status_of(old: FileState, new: FileState) -> Status | None:
    """How ``new`` differs from ``old``; None where neither exists or both are the same. What is skipped counts as not
    there.
    """
    if not old.exists:
        return Status.ADDED if new.exists else None
    if not new.exists:
        return Status.DELETED
    if old.kind is not new.kind:
        return Status.TYPE
    return Status.MODIFIED if old != new else None


def differences(old: Mapping[bytes, FileState], new: Mapping[bytes, FileState]) -> list[Difference]:
    """All differing paths, in path order. A path that one side does not name is absent there."""
    found = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path, ABSENT), new.get(path, ABSENT)
        status = status_of(before, after)
        if status is not None:
            found.append(Difference(path=path, status=status, old=before, new=after))
    return found
