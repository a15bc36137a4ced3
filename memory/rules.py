"""Which rule files of ``.claude/rules`` apply to a file, and which files an exclude names. Pure.

The globs of a rule are read as lines of a .gitignore, in any case of letters (measured; Claude Code's pages call them globs): a
pattern without a slash fits at any depth, and one that fits a folder fits all that is in it. Excludes are globs: ``*`` and ``?``
within a name, ``**`` over folders, ``[abc]``, ``{a,b}``. A pattern that would take long to match matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from openoxide.memory.markdown import Page

MOST_PATTERN, MOST_STARS, MOST_CHOICES = 1_000, 12, 256

_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ANY_CHOICE = re.compile(r"\{([^{}]+)\}")  # of a rule, {a} is one too


class _Line(NamedTuple):
    """A line of a .gitignore: what it fits, whether only folders, and whether it takes back."""

    fits: re.Pattern[str]
    only_folders: bool
    takes_back: bool


def paths_of(page: Page) -> tuple[str, ...]:
    """The globs of a rule; none for a rule that always applies. One that takes everything is no condition."""
    pieces = (piece.strip() for text in page.texts("paths") for piece in _at_commas(text))
    choices = (choice.strip().removesuffix("/**") for piece in pieces for choice in _choices(piece, _ANY_CHOICE))
    patterns = tuple(choice for choice in choices if choice)
    return () if all(pattern == "**" for pattern in patterns) else patterns


def applies(patterns: Iterable[str], path: str) -> bool:
    """Whether a rule with these globs applies to ``path``, which is relative to where they count from."""
    lines = [line for pattern in patterns if (line := _line(pattern))]
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        above = "/".join(parts[:depth])
        fitting = [
            line for line in lines if line.fits.fullmatch(above) and (depth < len(parts) or not line.only_folders)
        ]
        # what is in a folder that was taken is not taken back (gitignore, PATTERN FORMAT)
        if fitting and not fitting[-1].takes_back:
            return True
    return False


@cache
def _line(pattern: str) -> _Line | None:
    takes_back = pattern.startswith("!")
    bare = pattern.removeprefix("!")
    only_folders = bare.endswith("/")
    bare = bare.removesuffix("/")
    if not bare.strip("/") or pattern.startswith("#") or len(bare) > MOST_PATTERN or bare.count("*") > MOST_STARS:
        return None
    anywhere = "" if "/" in bare else "(?:.*/)?"
    body = re.sub(
        r"\\(?P<escaped>.)|(?P<mark>^\*\*/|/\*\*/|\*+|\?|\[[^\]/]+\])|(?P<plain>.)", _ignoring, bare.removeprefix("/")
    )
    return _Line(re.compile(anywhere + body, re.DOTALL | re.IGNORECASE), only_folders, takes_back)


def _ignoring(match: re.Match[str]) -> str:
    mark = match["mark"]
    if mark is None:
        return re.escape(match["escaped"] or match["plain"])
    if mark in ("**/", "/**/"):
        return "(?:.*/)?" if mark == "**/" else "/(?:.*/)?"
    if mark == "?":
        return "[^/]"
    # the client does not know a class that is negated: its first sign is one of the class
    inner = re.sub(r"([\\\[\]^&~|!])", r"\\\1", mark[1:-1])
    return "[^/]*" if mark.startswith("*") else f"[{inner}]" if _is_class(inner) else re.escape(mark)


def matches(patterns: Iterable[str], path: str) -> bool:
    """Whether an exclude fits ``path``, which is absolute."""
    return any(compiled.fullmatch(path) for pattern in patterns for compiled in [_compiled(pattern)] if compiled)


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    choices = _choices(pattern.removeprefix("./"), _CHOICE)
    # each star may multiply what a backtracking matcher tries
    if not choices or any(choice.count("*") > MOST_STARS for choice in choices):
        return None
    return re.compile("|".join(map(_translated, choices)), re.DOTALL)


def _choices(pattern: str, braces: re.Pattern[str]) -> list[str]:
    """``a.{b,c}`` as ``a.b`` and ``a.c``, nested ones too; nothing for more than MOST_CHOICES."""
    open_, done = [pattern], list[str]()
    while open_ and len(open_) + len(done) <= MOST_CHOICES and len(pattern) <= MOST_PATTERN:
        one = open_.pop(0)
        # the innermost first: what is in it has no braces of its own
        match = braces.search(one)
        if match is None:
            done.append(one)
        else:
            open_ += [one[: match.start()] + choice + one[match.end() :] for choice in match[1].split(",")]
    return [] if open_ else done


def _translated(pattern: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        mark = re.compile(r"(?:\*\*/)+|\*\*+|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL).match(pattern, at)
        assert mark is not None, "a dot fits anything"
        at = mark.end()
        pieces.append(_piece(mark[0]))
    return "".join(pieces)


def _piece(mark: str) -> str:
    if mark.endswith("**/"):
        return "(?:.*/)?"
    if mark.startswith("**"):
        return ".*"
    if mark in "*?":
        return "[^/]*" if mark == "*" else "[^/]"
    if mark.startswith("[") and len(mark) > 2:
        negated = mark[1] == "!"
        inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", mark[2 if negated else 1 : -1])
        return f"[{'^/' if negated else ''}{inner}]" if _is_class(inner) else re.escape(mark)
    return re.escape(mark)


def _is_class(inner: str) -> bool:
    try:
        re.compile(f"[{inner}]")
    except re.error:  # a range that runs backwards
        return False
    return bool(inner)


def _at_commas(text: str) -> list[str]:
    """``a, b`` as two; a comma in braces divides nothing."""
    return re.split(r",(?![^{]*\})", text)
