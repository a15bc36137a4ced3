"""The instruction files of Claude Code, in the order in which it loads them (measured, not as its pages say).

Managed policy; the user's own file, its imports and rules; then from the root of the file system down to the working
directory CLAUDE.md, .claude/CLAUDE.md, rules without ``paths``, CLAUDE.local.md; then every AGENTS.md of that way, if no
CLAUDE.md on it holds anything. Auto memory comes last, and is not looked for here. A file that is being read brings those
of its folders and the rules whose globs it fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from openoxide.memory.gathering import Files, Gathering, Level, Places, Source, below, down_to, root_of
from openoxide.memory.imports import follow, instructions, is_text
from openoxide.memory.markdown import decoded, page_of
from openoxide.memory.rules import applies, matches, paths_of

OUTSIDE = "it lies outside the working directory and was not approved"
EXCLUDED = "claudeMdExcludes names it"
NO_TEXT = "Claude Code imports no file with such an ending"


class AgentsFiles(str, Enum):
    """Which instruction files are read: the setting ``instructionFiles``."""

    NEVER = "claude-md"
    FALLBACK = "claude-md-or-agents-md"
    ALWAYS = "claude-md-and-agents-md"
    MANAGED_ONLY = "managed-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeOptions:
    """What the settings files say about instruction files and memory."""

    excludes: tuple[str, ...] = ()
    agents_files: AgentsFiles = AgentsFiles.FALLBACK
    outside_imports: bool = False
    memory_directory: str = ""
    memory_enabled: bool = True


def options_from(files: Files, places: Places, cwd: PurePath) -> ClaudeOptions:
    """The options of the settings files; of those that say the same thing the closest to the project counts, above all of
    them the managed ones. Lists add up.
    """
    user, managed = places.claude / "settings.json", places.managed / "managed-settings.json"
    root = root_of(files, cwd) or cwd
    # measured: of the repository's root the local settings count, and the shared ones do not
    local = dict.fromkeys(folder / ".claude/settings.local.json" for folder in (root, cwd))
    merged: dict[str, Any] = {}
    excludes: list[str] = []
    for path in (user, cwd / ".claude/settings.json", *local, managed):
        settings = _object(files, path)
        named = settings.get("claudeMdExcludes")
        excludes += [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
        plugin: Any = settings.get("pluginConfigs")
        for key in ("agents-md@builtin", "options"):
            plugin = plugin.get(key) if isinstance(plugin, dict) else None
        merged |= {key: value for key, value in settings.items() if key.startswith("autoMemory")}
        # a project does not configure plugins
        merged |= plugin if isinstance(plugin, dict) and path in (user, managed) else {}
    wanted, place = merged.get("instructionFiles"), merged.get("autoMemoryDirectory")
    return ClaudeOptions(
        excludes=tuple(excludes),
        agents_files=AgentsFiles(wanted) if wanted in set(AgentsFiles) else AgentsFiles.FALLBACK,
        # a relative one is ignored without a word by the client
        memory_directory=place if isinstance(place, str) and place.startswith(("/", "~/")) else "",
        memory_enabled=merged.get("autoMemoryEnabled") is not False,
    )


def _object(files: Files, path: PurePath) -> Mapping[str, Any]:
    raw = files.read(path)
    try:
        found = json.loads(raw.data) if raw else None
    # settings that the client cannot read either; its own doctor tells
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class ClaudeFiles:
    """Gathers what Claude Code loads in ``cwd``, and what it loads besides when it reads ``file``."""

    def __init__(self, gathering: Gathering, places: Places, cwd: PurePath, options: ClaudeOptions) -> None:
        self._gathering = gathering
        self._files = gathering.files
        self._places = places
        self._cwd = cwd
        self._options = options

    def gather(self, file: PurePath | None = None) -> None:
        """All of it, into the gathering."""
        self._one(self._places.managed / "CLAUDE.md", Level.MANAGED)
        if self._options.agents_files is AgentsFiles.MANAGED_ONLY:
            return
        self._one(self._places.claude / "CLAUDE.md", Level.USER)
        self._rules(self._places.claude / "rules", Level.USER, None)
        way = down_to(self._cwd)
        for folder in way:
            self._folder(folder)
        self._agents_files(way)
        if file is not None:
            self._for_file(file, way)

    def _folder(self, folder: PurePath, why: str = "") -> None:
        self._one(folder / "CLAUDE.md", Level.PROJECT, why)
        self._one(folder / ".claude/CLAUDE.md", Level.PROJECT, why)
        # at the start rules come before the local file, later behind it: measured
        if why:
            self._one(folder / "CLAUDE.local.md", Level.LOCAL, why)
        self._rules(folder / ".claude/rules", Level.RULES, None, why)
        if not why:
            self._one(folder / "CLAUDE.local.md", Level.LOCAL, why)

    def _agents_files(self, way: list[PurePath], why: str = "") -> None:
        found = [folder / "AGENTS.md" for folder in way if self._files.read(folder / "AGENTS.md") is not None]
        mode = self._options.agents_files
        on_way = self._own_file(down_to(self._cwd)) if mode is AgentsFiles.FALLBACK else None
        for path in found:
            # below the working directory a CLAUDE.md hides that of its own folder alone
            hidden_by = on_way or (self._own_file([path.parent]) if mode is AgentsFiles.FALLBACK else None)
            if mode is AgentsFiles.NEVER:
                self._gathering.skip(path, "the setting instructionFiles leaves it out")
            elif hidden_by is not None:
                self._gathering.skip(path, f"{hidden_by} is there, and is read instead")
            else:
                self._one(path, Level.PROJECT, why)

    def _own_file(self, way: list[PurePath]) -> PurePath | None:
        """The first CLAUDE.md of the project that holds anything; the user's own does not count."""
        for folder in way:
            for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"):
                path = folder / name
                raw = (
                    None
                    if self._is_excluded(path) or path == self._places.claude / "CLAUDE.md"
                    else self._files.read(path)
                )
                if raw is not None and instructions(decoded(raw.data)).strip():
                    return path
        return None

    def _for_file(self, file: PurePath, way: list[PurePath]) -> None:
        why = f"{file} is read"
        # what is read elsewhere brings nothing, not even a rule of a folder above both
        if not file.is_relative_to(self._cwd):
            return
        nested = [folder for folder in down_to(file.parent) if folder not in way]
        for folder in nested:
            self._folder(folder, why)
        self._agents_files(nested, why)
        self._rules(self._places.claude / "rules", Level.USER, (file, self._cwd), why)
        for folder in [*way, *nested]:
            # the home's own are the user's, and count from the working directory
            if folder / ".claude" == self._places.claude:
                continue
            self._rules(folder / ".claude/rules", Level.RULES, (file, folder), why)

    def _rules(self, folder: PurePath, level: Level, reading: tuple[PurePath, PurePath] | None, why: str = "") -> None:
        """Rules without globs where nothing is being read; else those whose globs fit, counted from a folder."""
        for path in below(self._files, folder, ".md"):
            raw = self._files.read(path)
            patterns = paths_of(page_of(decoded(raw.data if raw else b"")))
            if reading is None and not patterns:
                self._one(path, level, why)
            elif reading is None and raw is not None and not self._is_excluded(path):
                # measured: what a rule imports is given at the start, whether the rule applies or not
                self._imports(path, instructions(decoded(raw.data)), level)
            elif reading is not None and patterns and applies(patterns, reading[0].relative_to(reading[1]).as_posix()):
                self._one(path, level, why)

    def _one(self, path: PurePath, level: Level, why: str = "") -> None:
        """A file and what it imports."""
        if level is not Level.MANAGED and self._is_excluded(path):
            if self._files.read(path) is not None:
                self._gathering.skip(path, EXCLUDED)
            return
        raw = self._gathering.take(path)
        text = instructions(decoded(raw.data)) if raw else ""
        # one that says nothing to a model is given to nobody, and hides no AGENTS.md
        if raw is None or not text.strip():
            return
        self._gathering.sources.append(Source(path=str(path), level=level, text=text, size=raw.size, why=why))
        self._imports(path, text, level)

    def _imports(self, path: PurePath, text: str, level: Level) -> None:
        follow(self._gathering, path, text, level, home=self._places.home, allowed=self._allowed(level))

    def _allowed(self, level: Level) -> Callable[[PurePath], str]:
        def refusal(target: PurePath) -> str:
            if self._is_excluded(target) and level is not Level.MANAGED:
                return EXCLUDED
            if not is_text(target):
                return NO_TEXT
            # by the real path: a link inside may lead outside
            inside = self._files.real(target).is_relative_to(self._files.real(self._cwd))
            trusted = level in (Level.MANAGED, Level.USER) or self._options.outside_imports
            return "" if inside or trusted else OUTSIDE

        return refusal

    def _is_excluded(self, path: PurePath) -> bool:
        return matches(self._options.excludes, path.as_posix())
