"""``@path`` in instruction files: which other files a text brings in, how far, and where that leads back.

The text stays as it is; what it imports comes right after it, as a section of its own. Measured: Claude Code looks for imports in
what Markdown takes for text, at most four hops; Gemini CLI in all that is no code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from openoxide.memory.gathering import Gathering, Level, Source
from openoxide.memory.markdown import decoded, outside_code, page_of, without_comments
from openoxide.memory.prose import prose

MOST_HOPS = 4
MOST_IMPORTS = 1_000  # of one file
IMPORTED_ENDINGS = frozenset(
    ". .md .txt .text .json .yaml .yml .toml .xml .csv .html .htm .css .scss .sass .less .js .ts .tsx .jsx .mjs .cjs .mts .cts"
    " .py .pyi .pyw .rb .erb .rake .go .rs .java .kt .kts .scala .c .cpp .cc .cxx .h .hpp .hxx .cs .swift .sh .bash .zsh .fish"
    " .ps1 .bat .cmd .env .ini .cfg .conf .config .properties .sql .graphql .gql .proto .vue .svelte .astro .ejs .hbs .pug .jade"
    " .php .pl .pm .lua .r .dart .ex .exs .erl .hrl .clj .cljs .cljc .edn .hs .lhs .elm .ml .mli .f .f90 .f95 .for .cmake .make"
    " .makefile .gradle .sbt .rst .adoc .asciidoc .org .tex .latex .lock .log .diff .patch".split()
)
"""Of a file that Claude Code imports; one without an ending is imported too."""

_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._~/-]")
_GEMINI_IMPORT = re.compile(r"(?:^|(?<=\s))@([A-Za-z./]\S*)", re.MULTILINE)


def imports_in(text: str) -> list[str]:
    """What Claude Code imports with a text, in order, each once: never from code or HTML, and ``@`` within a word is none."""
    found = (match[1].replace("\\ ", " ").partition("#")[0] for match in _IMPORT.finditer(prose(text)))
    return list(dict.fromkeys(path for path in found if path and _NAME.match(path) and path != "/"))[:MOST_IMPORTS]


def gemini_imports_in(text: str) -> list[str]:
    """What Gemini CLI imports with a text: up to the next white space, from comments too, and without escapes."""
    return list(dict.fromkeys(match[1] for match in _GEMINI_IMPORT.finditer(outside_code(text))))[:MOST_IMPORTS]


def is_text(path: PurePath) -> bool:
    """Whether Claude Code takes a file for one of text, by its name."""
    return not path.suffix or path.suffix.lower() in IMPORTED_ENDINGS


def instructions(text: str) -> str:
    """What Claude Code gives of an instruction file: no frontmatter, no block comments, no blank lines around."""
    return without_comments(page_of(text).body).strip("\n")


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
) -> None:
    """Gather what ``text`` imports, and what that imports, as Claude Code does. ``allowed`` gives the reason why a file may not
    be imported, or nothing.
    """

    def named(importer: PurePath, text: str) -> list[PurePath]:
        return [target_of(name, importer, home) for name in imports_in(text)]

    _follow(gathering, [importer], text, level, named, instructions, allowed, MOST_HOPS)


def follow_gemini(
    gathering: Gathering,
    importer: PurePath,
    text: str,
    level: Level,
    *,
    allowed: Callable[[PurePath], str],
    most_hops: int,
) -> None:
    """As :func:`follow`, as Gemini CLI does: no place for the home, and texts as they are."""

    def named(importer: PurePath, text: str) -> list[PurePath]:
        return [_normal(importer.parent / name) for name in gemini_imports_in(text)]

    _follow(gathering, [importer], text, level, named, str, allowed, most_hops)


def _follow(
    gathering: Gathering,
    chain: list[PurePath],
    text: str,
    level: Level,
    named: Callable[[PurePath, str], list[PurePath]],
    given: Callable[[str], str],
    allowed: Callable[[PurePath], str],
    most_hops: int,
) -> None:
    for target in named(chain[-1], text):
        if reason := _refusal(gathering, chain, target, allowed, most_hops):
            gathering.skip(target, reason)
            continue
        raw = gathering.take(target)
        # what is imported is read as its importer is
        imported = given(decoded(raw.data)) if raw else ""
        if raw is None or not imported.strip():
            continue
        source = Source(
            path=str(target), level=level, text=imported, size=raw.size, why=f"imported by {chain[-1]}", cut=raw.cut
        )
        gathering.sources.append(source)
        _follow(gathering, [*chain, target], imported, level, named, given, allowed, most_hops)


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
