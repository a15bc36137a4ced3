"""The instruction files of Codex, OpenCode, Gemini CLI and Aider, in the order in which each loads them.

Codex: one file of each folder from the project's root down, and 32,768 bytes for all of them, the root's first. OpenCode: all
AGENTS.md on the way up, else all CLAUDE.md, never both. Gemini CLI: its own file of each folder, with imports. Aider: what its
configuration names, and nothing else.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import PurePath
from typing import Any

from openoxide.memory.directory import Raw
from openoxide.memory.gathering import Files, Gathering, Level, Places, Source, down_to, root_of
from openoxide.memory.imports import follow
from openoxide.memory.markdown import decoded, page_of

CODEX_BUDGET_BYTES = 32_768
GEMINI_HOPS = 5

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_GLOB = re.compile(r"[*?\[{]")


def codex(gathering: Gathering, places: Places, cwd: PurePath) -> None:
    """What Codex gets, as far as the budget reaches."""
    config = _toml(gathering.files, places.codex / "config.toml")
    fallbacks = [name for name in config.get("project_doc_fallback_filenames", []) if isinstance(name, str)]
    budget = config.get("project_doc_max_bytes", CODEX_BUDGET_BYTES)
    markers = config.get("project_root_markers", [".git"])
    _first(gathering, places.codex, ["AGENTS.override.md", "AGENTS.md"], Level.USER)
    root = root_of(gathering.files, cwd, tuple(str(marker) for marker in markers))
    left = budget if isinstance(budget, int) else CODEX_BUDGET_BYTES
    for folder in down_to(cwd, root) if root else [cwd]:
        left = _within(gathering, folder, ["AGENTS.override.md", "AGENTS.md", *fallbacks], left)


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
    for name in ("AGENTS.md", "CLAUDE.md", "CONTEXT.md"):
        found = [folder / name for folder in way[::-1] if gathering.files.read(folder / name) is not None]
        # one kind of file for the whole way: a CLAUDE.md beside an AGENTS.md further up is not read
        for path in found:
            _plain(gathering, path, Level.PROJECT)
        if found:
            break
    if not _first(gathering, places.opencode, ["AGENTS.md"], Level.USER):
        _first(gathering, places.claude, ["CLAUDE.md"], Level.USER)
    for folder in (places.opencode, *way):
        for name in ("opencode.json", "opencode.jsonc"):
            _named(gathering, places, folder, _jsonc(gathering.files, folder / name).get("instructions"))
    if file is not None:
        for folder in [one for one in down_to(file.parent, cwd) if one not in way]:
            _plain(gathering, folder / "AGENTS.md", Level.PROJECT, f"{file} is read")


def _named(gathering: Gathering, places: Places, folder: PurePath, instructions: Any) -> None:
    for name in instructions if isinstance(instructions, list) else []:
        if not isinstance(name, str):
            continue
        path = places.home / name[2:] if name.startswith("~/") else folder / name
        if name.startswith(("http://", "https://")):
            gathering.skip(PurePath(name), "it is an address, and nothing is asked of the network here")
        elif _GLOB.search(name):
            gathering.skip(path, "it is a pattern, which only the agent resolves")
        else:
            _plain(gathering, path, Level.PROJECT, "the configuration names it")


def gemini(gathering: Gathering, places: Places, cwd: PurePath, file: PurePath | None = None) -> None:
    """What Gemini CLI gets: the user's file, then those of each folder from the project's root down."""
    names = _gemini_names(gathering.files, places, cwd)
    root = root_of(gathering.files, cwd)
    way = down_to(cwd, root) if root else [cwd]
    for name in names:
        _with_imports(gathering, places, places.gemini / name, Level.USER, cwd)
    for folder in way:
        for name in names:
            _with_imports(gathering, places, folder / name, Level.PROJECT, cwd)
    if file is not None:
        for folder in [one for one in down_to(file.parent, cwd) if one not in way]:
            for name in names:
                _with_imports(gathering, places, folder / name, Level.PROJECT, cwd, f"{file} is read")


def _gemini_names(files: Files, places: Places, cwd: PurePath) -> list[str]:
    found: Any = None
    for path in (places.gemini / "settings.json", cwd / ".gemini/settings.json"):
        context = _jsonc(files, path).get("context")
        # the project's settings take the place of the user's
        found = (context.get("fileName") if isinstance(context, dict) else None) or found
    names = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return [name for name in names if isinstance(name, str)] or ["GEMINI.md"]


def _with_imports(
    gathering: Gathering, places: Places, path: PurePath, level: Level, cwd: PurePath, why: str = ""
) -> None:
    source = _plain(gathering, path, level, why)
    if source is not None:
        root = root_of(gathering.files, cwd) or cwd

        def allowed(target: PurePath) -> str:
            inside = gathering.files.real(target).is_relative_to(gathering.files.real(root))
            return "" if inside or level is Level.USER else "it lies outside the project"

        follow(gathering, path, source.text, level, home=places.home, allowed=allowed, most_hops=GEMINI_HOPS)


def aider(gathering: Gathering, places: Places, cwd: PurePath) -> None:
    """What Aider gets: the files of ``read:`` in the nearest configuration that has it."""
    root = root_of(gathering.files, cwd)
    for folder in (cwd, *([root] if root else []), places.home):
        raw = gathering.files.read(folder / ".aider.conf.yml")
        # a frontmatter is YAML between two lines of three hyphens
        names = page_of(f"---\n{decoded(raw.data)}\n---\n").texts("read") if raw else ()
        for name in names:
            path = places.home / name[2:] if name.startswith("~/") else cwd / name
            if _plain(gathering, path, Level.PROJECT, "the configuration names it") is None:
                gathering.skip(path, f"{folder / '.aider.conf.yml'} names it, and it is no file")
        if names:
            return


def _first(gathering: Gathering, folder: PurePath, names: list[str], level: Level) -> bool:
    for name in names:
        if _holds_text(gathering.files.read(folder / name)):
            return _plain(gathering, folder / name, level) is not None
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
