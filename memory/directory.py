"""Where a project's memory is, and how it is read. Nothing is followed: each part of a path is opened below the one before.

``$OPENOXIDE_HOME/projects/<project>/memory/`` holds plain Markdown that is the user's own. Beside it, so that no agent sees
them: ``staging/`` for what is being written, ``trash/`` for what was deleted, and a lock. A worktree that has a memory of its
own has the same below ``worktrees/<worktree>/``. All of it is made when the first thing is written. Folders are 0700.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from openoxide.errors import FailedError, NotFoundError, RefusedError
from openoxide.fileio import require_descriptors
from openoxide.memory.naming import INDEX, MOST_PARTS, id_of, parts_of, shown
from openoxide.ownership import require_ours
from openoxide.paths import Home

MEMORY, STAGING, TRASH, LOCK = "memory", "staging", "trash", "memory.lock"
PROJECTS, WORKTREES = "projects", "worktrees"
MOST_READ_BYTES = 4 << 20  # what is longer is cut when it is read, and told
EVERYTHING = -1  # a writer compares whole files, however long
MOST_FILES = 10_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GROWTH_BYTES = 64 << 10  # between a look at a file and its last byte
# O_NONBLOCK: to open a FIFO waits for a writer (fifo(7)); it changes nothing for a regular file
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRONG_KIND = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR})


class FileInfo(NamedTuple):
    """A file of the memory: its name, and what tells that it is as it was."""

    name: str
    size: int
    mtime_ns: int
    ino: int


class Refused(NamedTuple):
    """An entry of the memory that is not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is in a memory, by name."""

    files: tuple[FileInfo, ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def names(self) -> list[str]:
        return [file.name for file in self.files]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Bytes of a file, at most MOST_READ_BYTES of ``size``."""

    data: bytes
    size: int

    @property
    def cut(self) -> str:
        """What is missing, in words; empty if nothing is."""
        if self.size <= len(self.data):
            return ""
        return f"only the first {len(self.data)} of {self.size} bytes were read"


class MemoryDirectory:
    """The memory of one project, or of one worktree of it. Nothing is made before :meth:`opened` is asked to."""

    def __init__(self, home: Path, project: str, worktree: str = "") -> None:
        self.home = home
        self.project, self.worktree = project, worktree
        self.parts = (PROJECTS, id_of(project), *((WORKTREES, id_of(worktree)) if worktree else ()))

    @property
    def path(self) -> Path:
        """Where it is, for people and for agents' settings."""
        return self.home.joinpath(*self.parts, MEMORY)

    @contextmanager
    def opened(self, *names: str, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder beside or below the memory (``MEMORY``, ``TRASH``, ...), by default the one that holds
        them. Raises NotFoundError where it is not there, RefusedError where a part of it is no folder.
        """
        here = self._open_home(create=create)
        try:
            for part in (*self.parts, *names):
                below = self._step(here, part, create=create)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _open_home(self, *, create: bool) -> int:
        if create:
            # a folder of somebody else's that is named as the home by mistake gets nothing
            if not self.home.joinpath(*self.parts).is_dir():
                require_ours(Home(self.home))
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # the only part that may be a link: the user has named it
            return os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._trouble(error, str(self.home)) from error

    def _step(self, above: int, part: str, *, create: bool) -> int:
        if create:
            self._make(above, part)
        try:
            return os.open(part, _FOLDER, dir_fd=above)
        except OSError as error:
            raise self._trouble(error, part) from error

    def _make(self, above: int, part: str) -> None:
        try:
            os.mkdir(part, 0o700, dir_fd=above)
            # before what is in it is promised: a folder's name is durable with the folder above (fsync(2))
            os.fsync(above)
        except FileExistsError:
            return
        except OSError as error:
            raise self._trouble(error, part) from error

    def _trouble(self, error: OSError, part: str) -> Exception:
        require_descriptors(error)
        if error.errno == errno.ENOENT:
            return NotFoundError(f"{self.path} does not exist yet", hint="it is made when something is saved")
        if error.errno in _WRONG_KIND:
            return RefusedError(
                f"{shown(part)} on the way to {self.path} is a link or no folder",
                hint="nothing goes through it; move it away",
            )
        return FailedError(f"{self.path} cannot be opened: {error.strerror}", hint="check its owner and mode")

    def read(self, name: str, most: int = MOST_READ_BYTES) -> Raw | None:
        """The bytes of a file, None where there is none. Raises RefusedError for a name that is none, and for a link or
        whatever else is no regular file.
        """
        *folders, last = parts_of(name)
        try:
            with self.opened(MEMORY, *folders) as folder:
                return read_at(folder, last, name, most)
        except NotFoundError:
            return None

    def index(self) -> Raw:
        """The bytes of MEMORY.md, none where there is none."""
        return self.read(INDEX) or Raw(data=b"", size=0)

    def listing(self, below: str = "") -> Listing:
        """What is there, at most MOST_FILES of it; hidden entries are nobody's topic, links and odd names are refused."""
        files: list[FileInfo] = []
        folders: list[str] = []
        refused: list[Refused] = []
        try:
            with self.opened(MEMORY, *(parts_of(below) if below else ())) as folder:
                _list(folder, f"{below}/" if below else "", files, folders, refused)
        except NotFoundError:
            return Listing()
        return Listing(files=tuple(files), folders=tuple(folders), refused=tuple(refused))


def read_at(folder: int, last: str, name: str, most: int = MOST_READ_BYTES) -> Raw | None:
    """The bytes of the regular file ``last`` in an open folder, None where there is none. Raises RefusedError."""
    try:
        fd = os.open(last, _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        require_descriptors(error)
        if error.errno in _WRONG_KIND:
            raise _odd(name) from error
        raise FailedError(f"{name} cannot be read: {error.strerror}", hint="check its owner and mode") from error
    try:
        data = content(fd, most)
        if data is None:
            raise _odd(name)
        return Raw(data=data, size=max(os.fstat(fd).st_size, len(data)))
    finally:
        os.close(fd)


def content(fd: int, most: int = -1) -> bytes | None:
    """What an open regular file holds, up to ``most`` bytes of it; None for anything else."""
    # before a file object is made of it: that raises for a directory
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        return None
    with open(fd, "rb", closefd=False) as file:
        # room for `most` is room for 4 MB, most often for nothing
        return file.read(min(most, seen.st_size + _GROWTH_BYTES))


def _odd(name: str) -> RefusedError:
    return RefusedError(
        f"{name} is a link or no regular file", hint="a memory holds plain files only; put a copy in its place"
    )


def _list(folder: int, prefix: str, files: list[FileInfo], folders: list[str], refused: list[Refused]) -> None:
    for entry in sorted(os.listdir(folder)):
        name = prefix + entry
        # editors keep what they are at work on so, and so do agents
        if entry.startswith("."):
            continue
        if len(files) >= MOST_FILES:
            refused.append(Refused(name, f"there are more than {MOST_FILES} files"))
            return
        try:
            parts_of(name)
            seen = os.stat(entry, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        except RefusedError as error:
            refused.append(Refused(shown(name), error.message.rpartition(": ")[2]))
            continue
        if stat.S_ISREG(seen.st_mode):
            files.append(FileInfo(name, seen.st_size, seen.st_mtime_ns, seen.st_ino))
        elif stat.S_ISDIR(seen.st_mode) and name.count("/") + 1 < MOST_PARTS:
            folders.append(name)
            _list_inner(folder, entry, name, files, folders, refused)
        else:
            refused.append(Refused(name, "it is a link" if stat.S_ISLNK(seen.st_mode) else "it is no regular file"))


def _list_inner(
    folder: int, entry: str, name: str, files: list[FileInfo], folders: list[str], refused: list[Refused]
) -> None:
    try:
        inner = os.open(entry, _FOLDER, dir_fd=folder)
    except OSError as error:
        require_descriptors(error)
        refused.append(Refused(name, error.strerror or "it cannot be opened"))
        return
    try:
        _list(inner, f"{name}/", files, folders, refused)
    finally:
        os.close(inner)
