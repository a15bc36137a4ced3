"""The instruction files of Codex, OpenCode, Gemini CLI and Aider, in the order in which each loads them (measured).

Codex: one file of each folder from the project's root down, and 32,768 bytes for all of them, the root's first. OpenCode: all
AGENTS.md on the way up, else all CLAUDE.md, never both. Gemini CLI: its own file of each folder, with imports. Aider: what its
configuration names, and nothing else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

from openoxide.memory.directory import Raw
from openoxide.memory.gathering import Files, Gathering, Level, Places, Source, below, down_to, root_of
from openoxide.memory.imports import follow_gemini
from openoxide.memory.markdown import decoded, page_of

CODEX_BUDGET_BYTES = 32_768
GEMINI_HOPS = 5
OPENCODE_NAMES = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"]
OPENCODE_SETTINGS = ("opencode.json", "opencode.jsonc")

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_GLOB = re.compile(r"[*?\[{]")


def codex(gathering: Gathering, places: Places, cwd: PurePath) -> None:
    """What Codex gets, as far as the budget reaches."""
    config = _codex_config(gathering.files, places, cwd)
    fallbacks = [name for name in config.get("project_doc_fallback_filenames", []) if isinstance(name, str)]
    budget = config.get("project_doc_max_bytes", CODEX_BUDGET_BYTES)
    markers = config.get("project_root_markers", [".git"])
    _first(gathering, places.codex, ["AGENTS.override.md", "AGENTS.md"], Level.USER)
    root = root_of(gathering.files, cwd, tuple(str(marker) for marker in markers))
    left = budget if isinstance(budget, int) else CODEX_BUDGET_BYTES
    for folder in down_to(cwd, root) if root else [cwd]:
        left = _within(gathering, folder, ["AGENTS.override.md", "AGENTS.md", *fallbacks], left)


def _codex_config(files: Files, places: Places, cwd: PurePath) -> dict[str, Any]:
    """The user's settings, and above them those of a project that the user trusts."""
    config = _toml(files, places.codex / "config.toml")
    root = root_of(files, cwd) or cwd
    projects = config.get("projects")
    trusted = projects.get(str(root)) if isinstance(projects, dict) else None
    if not isinstance(trusted, dict) or trusted.get("trust_level") != "trusted":
        return config
    for folder in down_to(cwd, root):
        config |= _toml(files, folder / ".codex/config.toml")
    return config


def _within(gathering: Gathering, folder: PurePath, names: list[str], left: int) -> int:
    """The first file of a folder, cut to what is left of the budget; what is left then."""
    path = next((folder / name for name in names if _holds_text(gathering.files.read(folder / name))), None)
    if path is None:
        return left
    if left <= 0:
        gathering.skip(path, "the budget of project_doc_max_bytes is used up")
        return left
    raw = gathering.take(path)
    if raw is None:
        return left
    # at a byte, also in the middle of a character: measured
    given = raw.data[:left]
    cut = f"only the first {len(given)} of {raw.size} bytes fit project_doc_max_bytes" if len(given) < raw.size else ""
    gathering.sources.append(
        Source(path=str(path), level=Level.PROJECT, text=given.decode("utf-8", "replace"), size=raw.size, cut=cut)
    )
    return left - len(given)


def opencode(gathering: Gathering, places: Places, cwd: PurePath, file: PurePath | None = None) -> None:
    """What OpenCode gets: the project's files from ``cwd`` up, the user's, and what its configuration names."""
    root = root_of(gathering.files, cwd)
    way = down_to(cwd, root)
    if not _first(gathering, places.opencode, ["AGENTS.md"], Level.USER):
        _first(gathering, places.claude, ["CLAUDE.md"], Level.USER)
    for name in OPENCODE_NAMES:
        found = [folder / name for folder in way[::-1] if gathering.files.read(folder / name) is not None]
        # one kind of file for the whole way: a CLAUDE.md beside an AGENTS.md further up is not read
        for path in found:
            _plain(gathering, path, Level.PROJECT)
        if found:
            break
    # of the user's own files the last list counts, all others add up; what a folder's .opencode says comes last
    own: dict[str, Any] = {}
    for name in ("config.json", *OPENCODE_SETTINGS):
        own |= _jsonc(gathering.files, places.opencode / name)
    _named(gathering, places, way, own)
    for folder in (*way, *(one / ".opencode" for one in way[::-1])):
        for name in OPENCODE_SETTINGS:
            _named(gathering, places, way, _jsonc(gathering.files, folder / name))
    if file is not None:
        for folder in [one for one in down_to(file.parent, cwd)[::-1] if one not in way]:
            _first(gathering, folder, OPENCODE_NAMES, Level.PROJECT, f"{file} is read")


def _named(gathering: Gathering, places: Places, way: list[PurePath], config: dict[str, Any]) -> None:
    """What the instructions of a file name: from whichever file, in each folder from the working directory up to the root."""
    instructions = config.get("instructions")
    for name in instructions if isinstance(instructions, list) else []:
        if not isinstance(name, str):
            continue
        if name.startswith(("http://", "https://")):
            gathering.skip(PurePath(name), "it is an address, and nothing is asked of the network here")
            continue
        path = places.home / name[2:] if name.startswith("~/") else PurePath(name)
        for folder in [PurePath(path.anchor)] if path.is_absolute() else way[::-1]:
            if "**" in name or "{" in name:
                gathering.skip(folder / path, "it is a pattern of many folders, which only the agent resolves")
                continue
            for found in _fitting(gathering.files, folder, path.relative_to(path.anchor).parts):
                _plain(gathering, found, Level.PROJECT, "the configuration names it")


def _fitting(files: Files, folder: PurePath, parts: tuple[str, ...]) -> list[PurePath]:
    """The paths below a folder that a pattern fits, part by part; what is in no folder's names is found by its own."""
    if not parts:
        return [folder]
    names: Sequence[str] = parts[:1]
    if _GLOB.search(parts[0]):
        # a star stands for no dot at the beginning
        fitting = (name for name in files.names(folder) if name[0] != "." or parts[0][0] == ".")
        names = sorted(name for name in fitting if fnmatchcase(name, parts[0]))
    next_ = [folder.parent if name == ".." else folder / name for name in names]
    return [path for one in next_ for path in _fitting(files, one, parts[1:])]


def gemini(gathering: Gathering, places: Places, cwd: PurePath, file: PurePath | None = None) -> None:
    """What Gemini CLI gets: the user's file, then those of each folder from the project's root down."""
    names = _gemini_names(gathering.files, places, cwd)
    root = root_of(gathering.files, cwd)
    way = down_to(cwd, root) if root else [cwd]
    for name in names:
        _with_imports(gathering, places.gemini / name, Level.USER)
    for folder in way:
        for name in names:
            _with_imports(gathering, folder / name, Level.PROJECT)
    if file is not None:
        for folder in [one for one in down_to(file.parent, cwd) if one not in way]:
            for name in names:
                _with_imports(gathering, folder / name, Level.PROJECT, f"{file} is read")


def _gemini_names(files: Files, places: Places, cwd: PurePath) -> list[str]:
    found: Any = None
    for path in (places.gemini / "settings.json", cwd / ".gemini/settings.json"):
        context = _jsonc(files, path).get("context")
        # the project's settings take the place of the user's
        found = (context.get("fileName") if isinstance(context, dict) else None) or found
    names = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    # measured: its own file is read whatever is configured
    return list(dict.fromkeys([*(name for name in names if isinstance(name, str)), "GEMINI.md"]))


def _with_imports(gathering: Gathering, path: PurePath, level: Level, why: str = "") -> None:
    source = _plain(gathering, path, level, why)
    if source is None:
        return
    # of the file, not of the session: the user's own file reaches no further than its repository, or its folder
    root = root_of(gathering.files, path.parent) or path.parent

    def allowed(target: PurePath) -> str:
        inside = gathering.files.real(target).is_relative_to(gathering.files.real(root))
        return "" if inside else f"it lies outside {root}"

    follow_gemini(gathering, path, source.text, level, allowed=allowed, most_hops=GEMINI_HOPS)


def aider(gathering: Gathering, places: Places, cwd: PurePath) -> None:
    """What Aider gets: the files of ``read:`` in the nearest configuration that has it."""
    root = root_of(gathering.files, cwd)
    for folder in (cwd, *([root] if root else []), places.home):
        raw = gathering.files.read(folder / ".aider.conf.yml")
        # a frontmatter is YAML between two lines of three hyphens
        names = page_of(f"---\n{decoded(raw.data)}\n---\n").texts("read") if raw else ()
        for name in names:
            path = places.home / name[2:] if name.startswith("~/") else cwd / name
            # all that is in a folder
            named = [path] if gathering.files.read(path) else list(below(gathering.files, path, ""))
            given = [_plain(gathering, one, Level.PROJECT, "the configuration names it") for one in named]
            if not any(given):
                gathering.skip(path, f"{folder / '.aider.conf.yml'} names it, and it is no file")
        if names:
            return


def _first(gathering: Gathering, folder: PurePath, names: list[str], level: Level, why: str = "") -> bool:
    for name in names:
        if _holds_text(gathering.files.read(folder / name)):
            return _plain(gathering, folder / name, level, why) is not None
    return False


def _holds_text(raw: Raw | None) -> bool:
    return raw is not None and bool(raw.data.strip())


def _plain(gathering: Gathering, path: PurePath, level: Level, why: str = "") -> Source | None:
    raw = gathering.take(path)
    if raw is None or not raw.data.strip():
        return None
    source = Source(path=str(path), level=level, text=decoded(raw.data), size=raw.size, why=why)
    gathering.sources.append(source)
    return source


def _toml(files: Files, path: PurePath) -> dict[str, Any]:
    raw = files.read(path)
    try:
        return tomllib.loads(decoded(raw.data)) if raw else {}
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _jsonc(files: Files, path: PurePath) -> dict[str, Any]:
    """JSON with comments and last commas, as OpenCode and Gemini CLI take it."""
    raw = files.read(path)
    try:
        plain = _COMMENT.sub(lambda match: match[1] or " ", decoded(raw.data)) if raw else ""
        found = json.loads(_LAST_COMMA.sub(lambda match: match[1] or "", plain)) if raw else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
