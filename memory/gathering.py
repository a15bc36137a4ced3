"""What is collected while an agent's instruction files are looked for: the files in the order in which the agent is given
them, and every file that it is not given, with the reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePath
from typing import Protocol

from openoxide.memory.directory import Raw, content

MOST_INSTRUCTION_BYTES = 4 << 20  # Claude Code skips a longer CLAUDE.md


class Level(str, Enum):
    """Whose word an instruction is, in the order of the hierarchy; the order of loading is each agent's own."""

    MANAGED = "managed policy"
    PROJECT = "project"
    RULES = "project rules"
    USER = "user"
    LOCAL = "project local"
    MEMORY = "auto memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that an agent is given. ``text`` is what it is given of it, ``size`` the bytes of the file; ``why`` says what
    brought it in where that was not the start of the session; ``cut`` what is missing of it.
    """

    path: str
    level: Level
    text: str
    size: int
    why: str = ""
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that is there, or is named, and that the agent is not given."""

    path: str
    reason: str


class Files(Protocol):
    """How instruction files are read; links are followed, as the agents do."""

    def read(self, path: PurePath) -> Raw | None:
        """At most MOST_INSTRUCTION_BYTES of a regular file, None for anything else."""

    def names(self, folder: PurePath) -> list[str]:
        """What is in a folder, in the order of the file system, as agents see it; nothing for anything else."""

    def real(self, path: PurePath) -> PurePath:
        """The path without links: what tells that two names are one file."""


class DiskFiles:
    """The real files."""

    def read(self, path: PurePath) -> Raw | None:
        try:
            # followed, unlike in a memory: the agent follows it too, and CLAUDE.md is often a link to AGENTS.md
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):  # not there, not to be read, or a name with a NUL
            return None
        try:
            data = content(fd, MOST_INSTRUCTION_BYTES)
            return None if data is None else Raw(data=data, size=os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def names(self, folder: PurePath) -> list[str]:
        try:
            return os.listdir(folder)
        except OSError:
            return []

    def real(self, path: PurePath) -> PurePath:
        return Path(os.path.realpath(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where agents look outside a project."""

    home: Path
    managed: Path = Path("/etc/claude-code")
    claude: Path
    codex: Path
    opencode: Path
    gemini: Path


def places_from(environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Places:
    """Where the agents of this user look, by the variables that they honour."""
    managed = "/Library/Application Support/ClaudeCode" if platform == "darwin" else "/etc/claude-code"
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return Places(
        home=home,
        managed=Path(managed),
        claude=Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude"),
        codex=Path(environ.get("CODEX_HOME") or home / ".codex"),
        opencode=config / "opencode",
        gemini=home / ".gemini",
    )


@dataclass(slots=True)
class Gathering:
    """Collects. A file is given once, under the first name that leads to it; ``by_name``: once under each."""

    files: Files
    by_name: bool = False
    sources: list[Source] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    seen: set[PurePath] = field(default_factory=set)

    def skip(self, path: PurePath, reason: str) -> None:
        """Tell that a file is left out."""
        one = Skipped(path=str(path), reason=reason)
        if one not in self.skipped:
            self.skipped.append(one)

    def take(self, path: PurePath) -> Raw | None:
        """A file that was not taken before; None for one that is not there, is too long or was."""
        real = path if self.by_name else self.files.real(path)
        if real in self.seen:
            return None
        raw = self.files.read(path)
        if raw is None:
            return None
        self.seen.add(real)
        if raw.size > MOST_INSTRUCTION_BYTES:
            self.skip(path, f"it is longer than {MOST_INSTRUCTION_BYTES >> 20} MiB")
            return None
        return raw


def down_to(folder: PurePath, root: PurePath | None = None) -> list[PurePath]:
    """Each folder from ``root`` (by default that of the file system) to ``folder``, the outermost first."""
    way = [folder, *folder.parents][::-1]
    return [one for one in way if root is None or one.is_relative_to(root)]


def root_of(files: Files, cwd: PurePath, markers: tuple[str, ...] = (".git",)) -> PurePath | None:
    """The nearest folder at or above ``cwd`` that has one of the markers."""
    return next((one for one in (cwd, *cwd.parents) if set(markers) & set(files.names(one))), None)


def below(files: Files, folder: PurePath, suffix: str, seen: set[PurePath] | None = None) -> Iterator[PurePath]:
    """The files below a folder whose names end so, as they lie there; a folder that links back is entered once."""
    seen = set() if seen is None else seen
    # a folder of rules may be linked into itself
    real = files.real(folder)
    if real in seen:
        return
    seen.add(real)
    for name in files.names(folder):
        path = folder / name
        if name.endswith(suffix) and files.read(path) is not None:
            yield path
        else:
            yield from below(files, path, suffix, seen)
