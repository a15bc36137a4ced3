"""``config.toml`` as a frozen value. Every key carries its unit; an unknown key or a bad value is refused by name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from openoxide.errors import FailedError, UsageError


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
class Settings:
    """All of ``config.toml``."""

    capture: CaptureSettings = field(default_factory=CaptureSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)


Value = int | tuple[str, ...]

NOT_BUILT = frozenset("summarizer.command memory.worktrees memory.policy".split())
"""Keys that nothing honours yet: accepting one would be a promise."""

Section = CaptureSettings | RetentionSettings | ThinSettings

_SECTIONS: dict[str, type[Section]] = {
    "capture": CaptureSettings,
    "retention": RetentionSettings,
}
SECTIONS = frozenset({*_SECTIONS, *(key.partition(".")[0] for key in NOT_BUILT)})
MOST_DAYS, MOST = 36_500, 10**12  # beyond these a time is no date any more, or a wait no number of seconds


def load_settings(path: Path) -> Settings:
    """The settings in ``path``; defaults where the file does not exist. Raises UsageError that names key and value."""
    try:
        if path.exists() and not path.is_file():  # reading a FIFO would wait for whoever writes into it
            raise FailedError(f"{path} cannot be read: it is no regular file", hint="check what it is")
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Settings()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}", hint="correct the file or move it away") from error
    except OSError as error:
        raise FailedError(f"{path} cannot be read: {error.strerror}", hint="check what it is") from error
    return parse_settings(text, path)


def parse_settings(text: str, path: Path) -> Settings:
    """The settings that ``text`` spells; ``path`` is what errors name. Raises UsageError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}", hint="correct the file or move it away") from error
    sections: dict[str, Any] = {}
    for name, table in document.items():
        if name not in _SECTIONS or not isinstance(table, dict):
            # a section that is known but not built is no mistake in spelling
            later = name not in _SECTIONS and any(key.startswith(f"{name}.") for key in NOT_BUILT)
            raise _unknown(path, f"section [{name}]", [*_SECTIONS], later=later)
        sections[name] = _section(path, name, table, _SECTIONS[name])
    return Settings(**sections)


def flat(settings: Settings) -> dict[str, Value]:
    """Every key with its value, as ``capture.quiet_ms``; those of a table in a section follow the section's own."""
    return {key: value for name in _SECTIONS for key, value in _flat(name, getattr(settings, name)).items()}


def _flat(name: str, section: Section) -> dict[str, Value]:
    values = {f"{name}.{key.name}": getattr(section, key.name) for key in fields(section)}
    tables = {key: value for key, value in values.items() if isinstance(value, ThinSettings)}
    own = {key: value for key, value in values.items() if key not in tables}
    return own | {key: value for table, inner in tables.items() for key, value in _flat(table, inner).items()}


def most(key: str) -> int:
    """The largest number that ``key`` takes, in its unit."""
    return MOST_DAYS if key.endswith("_days") else MOST


def _section(path: Path, name: str, table: dict[str, Any], cls: type[Section]) -> Section:
    defaults = {f.name: getattr(cls(), f.name) for f in fields(cls)}
    for key, value in table.items():
        if key not in defaults:
            raise _unknown(path, f"key {name}.{key}", list(defaults), later=f"{name}.{key}" in NOT_BUILT)
        wants_list = isinstance(defaults[key], tuple)
        if isinstance(defaults[key], ThinSettings):
            if not isinstance(value, dict):
                raise UsageError(f"{path}: {name}.{key} = {value!r} is not a table", hint="correct the file")
            table[key] = _section(path, f"{name}.{key}", value, ThinSettings)
        elif wants_list and isinstance(value, list) and all(isinstance(item, str) for item in value):
            table[key] = tuple(value)
        # bool first: to Python `true` is the number 1
        elif wants_list or isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most(key):
            wanted = "a list of names" if wants_list else f"a whole number of 0 or more, up to {most(key)}"
            raise UsageError(f"{path}: {name}.{key} = {value!r} is not {wanted}", hint="correct the file")
    return cls(**table)


def _unknown(path: Path, what: str, known: list[str], *, later: bool) -> UsageError:
    if later:
        return UsageError(f"{path}: {what} is not built yet", hint="take it out until it is")
    return UsageError(f"{path}: unknown {what}", hint=f"known: {', '.join(known)}")
