"""The folder of the home into which hooks write what no daemon took.

A file there is whole, or named ``.new``: it is renamed when it is. What is not of ours by its name and kind is left and
told of in the log; what is ours and cannot be read is removed, or it would fill the folder for good.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

MAX_BYTES = 9 << 20
HALF_WRITTEN_MS = 60_000  # a hook that wrote so long ago is dead
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"([0-9]{20})-[0-9]{1,10}\.(json|new)")


class Entry(NamedTuple):
    """A request that was not taken, and when."""

    name: str
    at_ms: int
    request: dict[str, Any]


class Spool:
    """``lock`` is held from :meth:`entries` to :meth:`remove`, so that nobody else takes up the same."""

    def __init__(self, folder: Path) -> None:
        self.lock = threading.Lock()
        self._folder = folder
        self._told: set[str] = set()
        self._done: set[str] = set()

    def entries(self, now_ms: int) -> list[Entry]:
        """What waits, oldest first."""
        with self._opened() as folder:
            if folder is None:
                return []
            return [entry for name in sorted(os.listdir(folder)) for entry in self._read(folder, name, now_ms)]

    def remove(self, entries: Iterable[Entry]) -> None:
        """They were taken up, and are not again by this daemon, also where they cannot be removed."""
        names = [entry.name for entry in entries]
        self._done.update(names)
        with self._opened() as folder:
            # oldest first, and none behind one that stays: what is left must not lack the ends of its begins
            while folder is not None and names and self._remove(folder, names[0]):
                self._done.discard(names.pop(0))

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        try:
            folder = os.open(self._folder, FOLDER)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            self._tell(str(self._folder), f"is not used: {error.strerror}")
            yield None
            return
        try:
            yield folder
        finally:
            os.close(folder)

    def _read(self, folder: int, name: str, now_ms: int) -> list[Entry]:
        match = _NAME.fullmatch(name)
        if name in self._done:
            return []
        if match is None:
            self._tell(name, "in the spool is not ours and is left there")
            return []
        at_ms = int(match[1]) // 1_000_000
        if match[2] == "new":
            # a younger one may be written to at this moment
            if at_ms + HALF_WRITTEN_MS < now_ms:
                self._remove(folder, name)
            return []
        try:
            request = json.loads(_content(folder, name))
        except OSError as error:
            self._tell(name, f"in the spool is left there: {error.strerror or error}")
            return []
        except (ValueError, RecursionError) as error:
            log.warning("%s in the spool is no request and is removed: %s", name, error)
            self._remove(folder, name)
            return []
        return [Entry(name, at_ms, request if isinstance(request, dict) else {})]

    def _remove(self, folder: int, name: str) -> bool:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._done.add(name)
            self._tell(name, f"in the spool cannot be removed: {error.strerror}")
            return False
        return True

    def _tell(self, name: str, what: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.warning("%s %s", name, what)


def _content(folder: int, name: str) -> bytes:
    # never through a link, and never waiting for a FIFO's other end
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(file, "rb") as stream:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_BYTES:
            raise OSError("it is no file that a hook has written")
        return stream.read()
