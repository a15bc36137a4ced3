"""What was deleted or displaced lies beside the memory for 30 days, each deletion in a folder of its own, whose name says when
and why.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from openoxide.errors import NotFoundError, RefusedError
from openoxide.memory.directory import TRASH, MemoryDirectory

TRASH_MS = 30 * 86_400_000
TRASHED = re.compile(r"(?P<ms>[0-9]{13,15})-(?P<reason>[a-z]+)-(?P<n>[0-9]+)")


class Reason(str, Enum):
    """Why something is in the trash."""

    DELETED = "deleted"
    REPLACED = "replaced"  # a whole text that another took the place of, and it looked like an accident
    REFUSED = "refused"  # what a writer wanted to write over a change that it had not read
    OVERTAKEN = "overtaken"  # a foreign write that another one came on top of
    LEFT = "left"  # in staging, from a writer that was killed


class Trashed(NamedTuple):
    """A file in the trash: ``id`` names the deletion that it belongs to."""

    id: str
    name: str
    reason: Reason
    at_ms: int
    size: int


def trashed(directory: MemoryDirectory) -> list[Trashed]:
    """What is in the trash, newest first."""
    found: list[Trashed] = []
    try:
        with directory.opened(TRASH) as trash:
            for name in sorted(os.listdir(trash), reverse=True):
                match = TRASHED.fullmatch(name)
                if match and match["reason"] in set(Reason):
                    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trash)
                    try:
                        files = [(path, size) for path, size in _files(inner, "")]
                    finally:
                        os.close(inner)
                    found += [
                        Trashed(name, path, Reason(match["reason"]), int(match["ms"]), size) for path, size in files
                    ]
    except NotFoundError:
        return []
    return found


def _files(folder: int, prefix: str) -> Iterator[tuple[str, int]]:
    for entry in sorted(os.listdir(folder)):
        seen = os.stat(entry, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(seen.st_mode):
            yield prefix + entry, seen.st_size
        elif stat.S_ISDIR(seen.st_mode):
            inner = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                yield from _files(inner, f"{prefix}{entry}/")
            finally:
                os.close(inner)


def remove(folder: int, name: str) -> None:
    """Delete an entry with what is below it, links as links."""
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(seen.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        for entry in os.listdir(inner):
            remove(inner, entry)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def trash_id(text: str) -> str:
    """The name of a deletion, as it stands in a path. Raises RefusedError."""
    if not TRASHED.fullmatch(text):
        raise RefusedError(f"{text!r} is no id of something in the trash", hint="ids are listed with the trash")
    return text
