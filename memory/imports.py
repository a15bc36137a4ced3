"""``@path`` in instruction files: which other files a text brings in, how far, and where that leads back.

The text stays as it is; what it imports comes right after it, as a section of its own. Measured: never from code, at most
four hops.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from openoxide.memory.gathering import Gathering, Level, Source
from openoxide.memory.markdown import decoded, outside_code, without_comments

MOST_HOPS = 4
MOST_IMPORTS = 1_000  # of one file

_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._~/-]")


def imports_in(text: str) -> list[str]:
    """What a text imports, in order, each once. Text in code is no import, and neither is ``@`` within a word."""
    found = (match[1].replace("\\ ", " ").partition("#")[0] for match in _IMPORT.finditer(outside_code(text)))
    return list(dict.fromkeys(path for path in found if path and _NAME.match(path) and path != "/"))[:MOST_IMPORTS]


def target_of(path: str, importer: PurePath, home: PurePath) -> PurePath:
    """The file that ``path`` names in a text of ``importer``."""
    if path.startswith("~/"):
        return _normal(home / path[2:])
    return _normal(importer.parent / path)


def _normal(path: PurePath) -> PurePath:
    """Without ``.`` and ``..``, by the text alone."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != "..":
            parts.append(part)
    return PurePath(*parts)


def follow(
    gathering: Gathering,
    importer: PurePath,
    text: str,
    level: Level,
    *,
    home: PurePath,
    allowed: Callable[[PurePath], str],
    most_hops: int = MOST_HOPS,
) -> None:
    """Gather what ``text`` imports, and what that imports. ``allowed`` gives the reason why a file may not be, or nothing."""
    _follow(gathering, [importer], text, level, home, allowed, most_hops)


def _follow(
    gathering: Gathering,
    chain: list[PurePath],
    text: str,
    level: Level,
    home: PurePath,
    allowed: Callable[[PurePath], str],
    most_hops: int,
) -> None:
    for name in imports_in(text):
        target = target_of(name, chain[-1], home)
        if reason := _refusal(gathering, chain, target, allowed, most_hops):
            gathering.skip(target, reason)
            continue
        raw = gathering.take(target)
        if raw is None:
            continue
        # what is imported is read as its importer is: without block comments
        imported = without_comments(decoded(raw.data))
        source = Source(
            path=str(target), level=level, text=imported, size=raw.size, why=f"imported by {chain[-1]}", cut=raw.cut
        )
        gathering.sources.append(source)
        _follow(gathering, [*chain, target], imported, level, home, allowed, most_hops)


def _refusal(
    gathering: Gathering,
    chain: list[PurePath],
    target: PurePath,
    allowed: Callable[[PurePath], str],
    most_hops: int,
) -> str:
    real = gathering.files.real(target)
    links = [gathering.files.real(one) for one in chain]
    # before it is asked whether it was given already: that alone would hide a loop
    if real in links:
        return f"an import loop: {' → '.join(map(str, [*chain[links.index(real) :], target]))}"
    if gathering.files.read(target) is None:
        return f"{chain[-1]} imports it, and it is no file"
    if len(chain) > most_hops:
        return f"it is more than {most_hops} imports away from {chain[0]}"
    return allowed(target)
