"""``config.toml`` as a frozen value. Every key carries its unit; an unknown key or a bad value is refused by name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from openoxide.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """What is recorded and when."""

    max_file_bytes: int = 100 << 20
    ignored_file_bytes: int = 1 << 20
    ignored_tree_files: int = 2_000
    quiet_ms: int = 2_000
    max_interval_ms: int = 30_000
    full_pass_ms: int = 600_000
    extra_skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long unpinned checkpoints are promised to be kept."""

    ttl_days: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of ``config.toml``."""

    capture: CaptureSettings = field(default_factory=CaptureSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)


_SECTIONS: dict[str, type[CaptureSettings | RetentionSettings]] = {
    "capture": CaptureSettings,
    "retention": RetentionSettings,
}


def load_settings(path: Path) -> Settings:
    """The settings in ``path``; defaults where the file does not exist. Raises UsageError that names key and value."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Settings()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", hint="correct the file or move it away") from error
    sections: dict[str, Any] = {}
    for name, table in document.items():
        if name not in _SECTIONS or not isinstance(table, dict):
            raise UsageError(f"{path}: unknown section [{name}]", hint=f"known: {', '.join(_SECTIONS)}")
        sections[name] = _section(path, name, table)
    return Settings(**sections)


def _section(path: Path, name: str, table: dict[str, Any]) -> CaptureSettings | RetentionSettings:
    cls = _SECTIONS[name]
    defaults = {f.name: getattr(cls(), f.name) for f in fields(cls)}
    for key, value in table.items():
        if key not in defaults:
            raise UsageError(f"{path}: unknown key {name}.{key}", hint=f"known: {', '.join(defaults)}")
        wants_list = isinstance(defaults[key], tuple)
        if wants_list and isinstance(value, list) and all(isinstance(item, str) for item in value):
            table[key] = tuple(value)
        elif wants_list or isinstance(value, bool) or not isinstance(value, int) or value < 0:
            wanted = "a list of names" if wants_list else "a whole number of 0 or more"
            raise UsageError(f"{path}: {name}.{key} = {value!r} is not {wanted}", hint="correct the file")
    return cls(**table)
