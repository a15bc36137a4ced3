"""Fields of a request, checked: every wrong one is a UsageError that names it."""

from __future__ import annotations

import os
from typing import Any

from openoxide.errors import UsageError

Request = dict[str, Any]


def text(request: Request, name: str) -> str:
    """A required text that is not empty."""
    value = request.get(name)
    if value == "":
        raise UsageError(f"{name} is empty")
    if not isinstance(value, str) or "\0" in value:
        raise UsageError(f"{name} is missing or is not text")
    return value


def optional_text(request: Request, name: str) -> str | None:
    """A text, or None where it is left out."""
    return text(request, name) if request.get(name) is not None else None


def texts(request: Request, name: str) -> list[str]:
    """A list of at least one text, none of them empty."""
    value = request.get(name)
    if not isinstance(value, list) or not value:
        raise UsageError(f"{name} is missing or is not a list")
    return [text({name: item}, name) for item in value]


def flag(request: Request, name: str) -> bool:
    """A truth value, false where it is left out."""
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name} is not true or false")
    return value


def number(request: Request, name: str, least: int = 1) -> int | None:
    """A whole number of at least ``least``, or None where it is left out."""
    value = request.get(name)
    if value is None:
        return None
    # bool first: to Python true is the number 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is not a whole number of {least} or more")
    return value


def path(request: Request, name: str = "path") -> bytes:
    """An absolute path."""
    value = os.fsencode(text(request, name))
    if not os.path.isabs(value):
        raise UsageError(f"{os.fsdecode(value)} is not an absolute path")
    return value


def inside(root: bytes, named: str) -> bytes:
    """The path of ``named`` relative to ``root``, as it was spelled: it names a place of the timeline, and a folder on the
    way may be a link today. Raises UsageError where it lies outside.
    """
    given = b"/" + os.path.normpath(os.path.join(root, os.fsencode(named))).lstrip(b"/")
    below = root.rstrip(b"/") + b"/"
    if not _is_within(given, below):
        given = _entered(given, below)
    if not _is_within(given, below):
        raise UsageError(
            f"{named} is outside the worktree {os.fsdecode(root)}",
            hint="name paths inside it, or choose another with -C",
        )
    return given[len(below) :]


def _is_within(given: bytes, below: bytes) -> bool:
    return (given + b"/").startswith(below)


def _entered(given: bytes, below: bytes) -> bytes:
    """``given`` with the way into the worktree resolved, where it comes through a link from outside (such as one to the
    root); what follows the first folder in it stays as it was spelled.
    """
    parts = given.split(b"/")
    for end in range(2, len(parts) + 1):
        real = os.path.realpath(b"/".join(parts[:end]))
        if _is_within(real, below) and os.path.isdir(real):
            return os.path.join(real, *parts[end:])
    return given


def paths(request: Request, root: bytes, name: str = "paths") -> tuple[bytes, ...]:
    """A list of paths inside ``root``."""
    value = request.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item and "\0" not in item for item in value):
        raise UsageError(f"{name} is not a list of paths")
    return tuple(inside(root, item) for item in value)
