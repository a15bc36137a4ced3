"""``config.toml`` as a frozen value. Every key carries its unit; an unknown key or a bad value is refused by name.

A project may have its own: ``[project."/path/of/root".retention]`` holds for the worktree with that root alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from openoxide.errors import FailedError, UsageError
from openoxide.knobs import KNOBS, LONGEST_ITEM, allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """What is recorded and when."""

    max_file_bytes: int = 100 << 20
    # what an ignored tree may bring along; docs/design.md, 5, has the whole table
    ignored_file_bytes: int = 1 << 20
    ignored_tree_files: int = 2_000
    # a burst is one checkpoint once it has been quiet for so long, but at the latest after max_interval_ms
    quiet_ms: int = 2_000
    max_interval_ms: int = 30_000
    # finds what no event tells: open mappings, links from outside, mounts (docs/design.md, 4)
    full_pass_ms: int = 600_000
    extra_skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinSettings:
    """For how long, by age, every automatic checkpoint is kept, and one an hour; after that one a day."""

    all_days: int = 1
    hourly_days: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long unpinned checkpoints are promised to be kept, and what may cut that short. A number of bytes that is 0
    is no limit.
    """

    ttl_days: int = 30
    # from the day on that a checkpoint is forgotten: as long as it can be taken back
    trash_days: int = 7
    # of one project's worktrees together, trash included
    quota_bytes: int = 0
    total_quota_bytes: int = 0
    # 0, since what fills the disk is seldom the history, and a promise is not broken for somebody else's files
    min_free_bytes: int = 0
    thin: ThinSettings = field(default_factory=ThinSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """``worktrees``: which memory a worktree has, as ``openoxide.memory.worktrees`` has it."""

    worktrees: str = "shared"


Value = int | str | tuple[str, ...]
Values = Mapping[str, Value]
"""Values by key, as ``capture.quiet_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of ``config.toml``. ``projects``: what differs from it, by the root of a worktree."""

    capture: CaptureSettings = field(default_factory=CaptureSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    projects: Mapping[str, Values] = field(default_factory=dict)

    def of(self, root: bytes) -> Settings:
        """What holds for the worktree with this root."""
        return _replaced(self, self.projects.get(root.decode("utf-8", "surrogateescape"), {}))

    def quota_of(self, roots: Iterable[bytes]) -> int:
        """What the project with these roots may take, 0 for no limit: where they say different things, the most."""
        quotas = [self.of(root).retention.quota_bytes for root in roots]
        return max(quotas, default=0) if all(quotas) else 0

    def worktrees_of(self, root: bytes, first: bytes) -> str:
        """``memory.worktrees`` of the tree with this root. One that has no word of its own, as those that agents make, has that
        of the ``first`` of its project.
        """
        key = "memory.worktrees"
        found = (self.projects.get(one.decode("utf-8", "surrogateescape"), {}).get(key) for one in (root, first))
        return next((value for value in found if isinstance(value, str)), self.memory.worktrees)


class Given(NamedTuple):
    """What stands in the file: for all, and for the project with a root."""

    values: Values
    projects: Mapping[str, Values]


PROJECT = "project"
NOT_BUILT = frozenset("summarizer.command memory.policy".split())
"""Keys that nothing honours yet: accepting one would be a promise."""
_NO_LINE = re.compile(r"[\n\r\0\ud800-\udfff]")  # nor can half a surrogate pair be written as UTF-8
MOST_BYTES = 1 << 20
_TABLES = frozenset(key.rpartition(".")[0] for key in KNOBS)
_KNOWN = sorted({table.partition(".")[0] for table in _TABLES})
SECTIONS = frozenset({*_KNOWN, PROJECT, *(key.partition(".")[0] for key in NOT_BUILT)})


def load_settings(path: Path) -> Settings:
    """The settings in ``path``; defaults where the file does not exist. Raises UsageError that names key and value."""
    return parse_settings(read_text(path) or "", path)


def read_text(path: Path) -> str | None:
    """What stands in ``path``, None where there is no file. Raises UsageError for what is no text, FailedError for what
    cannot be read.
    """
    try:
        if path.exists() and not path.is_file():  # reading a FIFO would wait for whoever writes into it
            raise FailedError(f"{path} cannot be read: it is no regular file", hint="check what it is")
        # before it is read: what is no settings at all may be of any size
        if (size := path.stat().st_size) > MOST_BYTES:
            raise FailedError(
                f"{path} cannot be read: it has {size} bytes, and no settings have so many", hint="check it"
            )
        return path.read_bytes().decode()
    except FileNotFoundError:
        # a link to a disk that is not there: what it would say is not that there are no settings
        if path.is_symlink():
            raise FailedError(
                f"{path} cannot be read: it is a link that leads nowhere", hint="check what it is"
            ) from None
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}", hint="correct the file or move it away") from error
    except OSError as error:
        raise FailedError(f"{path} cannot be read: {error.strerror}", hint="check what it is") from error


def parse_settings(text: str, path: Path) -> Settings:
    """The settings that ``text`` spells; ``path`` is what errors name. Raises UsageError."""
    given = parse_given(text, path)
    return replace(_replaced(Settings(), given.values), projects=given.projects)


def parse_given(text: str, path: Path) -> Given:
    """What ``text`` sets, without the defaults. Raises UsageError."""
    try:
        document = tomllib.loads(text)
    # a number of thousands of digits, or brackets in brackets: neither is an error of TOML's (Python, tomllib)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", hint="correct the file or move it away") from error
    projects = document.pop(PROJECT, {})
    if not isinstance(projects, dict):
        raise _no_table(str(path), PROJECT, projects)
    own = {}
    for root, table in projects.items():
        place = f"{path}: project {root!r}"
        if not is_root(root):
            raise UsageError(f"{place} is not the absolute path of a root", hint="correct the file")
        if not isinstance(table, dict):
            raise _no_table(str(path), f"project.{root!r}", table)
        own[root] = _values(place, "", table)
        for key in own[root]:
            if KNOBS[key].whole:
                raise UsageError(f"{place}: {key} is one for all projects", hint=f"move it to [{key.split('.')[0]}]")
    return Given(_values(str(path), "", document), own)


def is_root(name: str) -> bool:
    """Whether a project is named as one is found: by its absolute path, spelled in the one way that counts."""
    spelled = PurePosixPath(name)
    return spelled.is_absolute() and str(spelled) == name and ".." not in spelled.parts and "\0" not in name


def flat(settings: Settings) -> dict[str, Value]:
    """Every key with its value, as ``capture.quiet_ms``; those of a table in a section follow the section's own."""
    return {key: value for name in _KNOWN for key, value in _flat(name, getattr(settings, name)).items()}


def _flat(name: str, section: Any) -> dict[str, Value]:
    values = {f"{name}.{key.name}": getattr(section, key.name) for key in fields(section)}
    tables = {key: value for key, value in values.items() if is_dataclass(value)}
    own = {key: value for key, value in values.items() if key not in tables}
    return own | {key: value for table, inner in tables.items() for key, value in _flat(table, inner).items()}


def _replaced(settings: Settings, values: Values) -> Settings:
    for key, value in values.items():
        settings = _with(settings, key.split("."), value)
    return settings


def _with(section: Any, names: list[str], value: Value) -> Any:
    name, *rest = names
    return replace(section, **{name: _with(getattr(section, name), rest, value) if rest else value})


def _values(place: str, prefix: str, table: dict[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in table.items():
        key = prefix + name
        if key in _TABLES:
            if not isinstance(value, dict):
                raise _no_table(place, key, value)
            found |= _values(place, f"{key}.", value)
        elif key in KNOBS:
            found[key] = _checked(place, key, value)
        else:
            raise _unknown(place, prefix, key)
    return found


def _checked(place: str, key: str, value: Any) -> Value:
    if isinstance(value, list):
        value = tuple(value)
    if not fits(key, value):
        shown = list(value) if isinstance(value, tuple) else value
        raise UsageError(f"{place}: {key} = {shown!r} is not {allowed(key)}", hint="correct the file")
    taken: Value = value
    return taken


def fits(key: str, value: object) -> bool:
    """Whether ``key`` takes ``value``."""
    if isinstance(_DEFAULTS[key], tuple):
        return isinstance(value, tuple) and len(value) <= KNOBS[key].most and all(map(_is_pattern, value))
    if KNOBS[key].words:
        return isinstance(value, str) and value in KNOBS[key].words
    # bool first: to Python `true` is the number 1
    return not isinstance(value, bool) and isinstance(value, int) and KNOBS[key].takes(value)


def _is_pattern(item: object) -> bool:
    return isinstance(item, str) and 0 < len(item) <= LONGEST_ITEM and not _NO_LINE.search(item)


def _no_table(place: str, key: str, value: object) -> UsageError:
    return UsageError(f"{place}: {key} = {value!r} is not a table", hint="correct the file")


def _unknown(place: str, prefix: str, key: str) -> UsageError:
    what = f"key {key}" if prefix else f"section [{key}]"
    # what is known but not built is no mistake in spelling
    if key in NOT_BUILT or (not prefix and any(known.startswith(f"{key}.") for known in NOT_BUILT)):
        return UsageError(f"{place}: {what} is not built yet", hint="take it out until it is")
    names = {known.removeprefix(prefix).partition(".")[0] for known in KNOBS if known.startswith(prefix)}
    return UsageError(f"{place}: unknown {what}", hint=f"known: {', '.join(sorted(names))}")


_DEFAULTS = flat(Settings())
