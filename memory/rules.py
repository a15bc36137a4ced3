"""Which rule files of ``.claude/rules`` apply to a file, and which files an exclude names. Pure.

Globs as Claude Code documents them: ``*`` and ``?`` within a name, ``**`` over folders, ``[abc]``, ``{a,b}``. A pattern without
a slash is about the folder itself. A pattern that would take long to match matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from openoxide.memory.markdown import Page

MOST_PATTERN, MOST_STARS, MOST_CHOICES = 1_000, 12, 256


def paths_of(page: Page) -> tuple[str, ...]:
    """The globs of a rule; none for a rule that always applies. One that takes everything is no condition."""
    patterns = tuple(piece.strip() for text in page.texts("paths") for piece in _at_commas(text) if piece.strip())
    return () if patterns and all(pattern in ("**", "**/*") for pattern in patterns) else patterns


def matches(patterns: Iterable[str], path: str) -> bool:
    """Whether any pattern fits ``path``, which is relative to where the patterns count from, or absolute if they are."""
    return any(compiled.fullmatch(path) for pattern in patterns for compiled in [_compiled(pattern)] if compiled)


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    choices = _choices(pattern.removeprefix("./"))
    # each star may multiply what a backtracking matcher tries
    if not choices or any(choice.count("*") > MOST_STARS for choice in choices):
        return None
    return re.compile("|".join(map(_translated, choices)), re.DOTALL)


def _choices(pattern: str) -> list[str]:
    """``a.{b,c}`` as ``a.b`` and ``a.c``, nested ones too; nothing for more than MOST_CHOICES."""
    open_, done = [pattern], list[str]()
    while open_ and len(open_) + len(done) <= MOST_CHOICES and len(pattern) <= MOST_PATTERN:
        one = open_.pop(0)
        # the innermost first: what is in it has no braces of its own
        match = re.search(r"\{([^{}]*,[^{}]*)\}", one)
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
