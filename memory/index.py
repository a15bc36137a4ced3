"""MEMORY.md as an agent gets it: exactly the part that Claude Code loads, and a warning that names what was cut. Pure.

Frontmatter and block comments go first; then 200 lines or 25,000 UTF-16 units count, whichever ends first, and whole lines
only. Measured on the real client: bytes and code points are not what it counts. A file of any size or bytes loads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from openoxide.memory.markdown import code_lines, decoded, page_of, without_comments
from openoxide.memory.naming import INDEX

MOST_LINES, MOST_UNITS = 200, 25_000
NEAR_LINES, NEAR_UNITS = 180, 22_500  # told before anything is lost
GONE_MARK = " (file gone)"

_SHOWN = 80
_PIECE = 16 << 10
_ENTRY = re.compile(r"\s*[-*+]\s+\[(?P<title>[^\]]*)\]\((?P<target><[^>]*>|[^)\s]*)\)(?:\s*[-–—:]+\s*(?P<hook>.*))?")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|#|/")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedIndex:
    """``text`` is what is given to an agent, without the warning. Lines are counted after frontmatter and comments went;
    ``first_cut`` is the first line that is missing, 0 if none is.
    """

    text: str = ""
    warning: str = ""
    lines: int = 0
    units: int = 0
    loaded_lines: int = 0
    first_cut: int = 0
    first_cut_text: str = ""

    @property
    def is_near(self) -> bool:
        """Whether nine tenths of what loads are used up."""
        return self.lines >= NEAR_LINES or self.units >= NEAR_UNITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the index that leads to a topic; ``line`` counts from 1 in the file as it is."""

    line: int
    title: str
    name: str
    hook: str
    is_marked: bool = False


def units(text: str) -> int:
    """The length of a text as JavaScript counts it, in UTF-16 units."""
    # in pieces: of a megabyte the room for it would take longer than to fill it
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return sum(len(piece.encode("utf-16-le", "surrogatepass")) for piece in pieces) // 2


def load_index(raw: bytes, most_lines: int = MOST_LINES, most_units: int = MOST_UNITS) -> LoadedIndex:
    """What an agent is given of these bytes."""
    return loaded(body_of(raw), most_lines, most_units)


def body_of(raw: bytes) -> str:
    """What counts of these bytes: without frontmatter, block comments, and blank lines around."""
    # bytes are sooner looked through and cut than text, and one byte sooner than four
    body = page_of(decoded(raw.rstrip(b"\n"))).body
    return (without_comments(body) if b"<" in raw and b"<!--" in raw else body).strip("\n")


def loaded(body: str, most_lines: int = MOST_LINES, most_units: int = MOST_UNITS) -> LoadedIndex:
    """What an agent is given of a body."""
    count, total = body.count("\n") + 1 if body else 0, units(body)
    if count <= most_lines and total <= most_units:
        return LoadedIndex(text=body, lines=count, units=total, loaded_lines=count)
    lines = _first_lines(body, most_lines + 1)
    kept = _fitting(lines[:most_lines], most_units)
    text = "\n".join(lines[:kept])
    if not kept:
        # a first line that is too long by itself: better a piece of it than nothing
        text = lines[0].encode("utf-16-le", "surrogatepass")[: most_units * 2].decode("utf-16-le", "ignore")
    over = [f"{count} lines (limit: {most_lines})"] if count > most_lines else []
    over += [f"{total} characters (limit: {most_units})"] if total > most_units else []
    return LoadedIndex(
        text=text,
        warning=_warning(over, count - kept, count, lines[kept].strip()),
        lines=count,
        units=total,
        loaded_lines=kept,
        first_cut=kept + 1,
        first_cut_text=lines[kept],
    )


def _first_lines(text: str, most: int) -> list[str]:
    """At most so many: of a megabyte nobody needs each line, nor a copy of the rest."""
    end = -1
    for _ in range(most):
        end = text.find("\n", end + 1)
        if end < 0:
            return text.split("\n")
    return text[:end].split("\n")


def _fitting(lines: Sequence[str], most_units: int) -> int:
    """How many whole lines fit; the line feed behind the last one does not count."""
    # the first line has no line feed before it
    used = -1
    for at, line in enumerate(lines):
        used += units(line) + 1
        if used > most_units:
            return at
    return len(lines)


def _warning(over: Sequence[str], cut: int, count: int, first: str) -> str:
    return (
        f"WARNING: {INDEX} is {' and '.join(over)}. Only part of it was loaded: {cut} of {count} lines "
        f"were cut off, starting at line {count - cut + 1} ({first[:_SHOWN]}{'…' if len(first) > _SHOWN else ''})"
    )


def entries(text: str) -> list[Entry]:
    """Every line that leads to a file of the memory, in order. Code, frontmatter and links elsewhere are none."""
    lines = text.split("\n")
    body_at = page_of(text).body_at
    found: list[Entry] = []
    for at, (line, coded) in enumerate(zip(lines, code_lines(lines), strict=True)):
        match = _ENTRY.match(line.rstrip("\r"))
        # links are written with %20 for a space by some editors, and in angle brackets by others
        name = "" if match is None else unquote(match["target"].strip("<>")).removeprefix("./")
        if match is None or coded or at < body_at or not name or _ELSEWHERE.match(name):
            continue
        hook = (match["hook"] or "").strip()
        marked = line.rstrip("\r").endswith(GONE_MARK)
        found.append(
            Entry(
                line=at + 1,
                title=match["title"],
                name=name.partition("#")[0],
                hook=hook.removesuffix(GONE_MARK.strip()).rstrip(),
                is_marked=marked,
            )
        )
    return found


def entry_line(name: str, title: str = "", hook: str = "") -> str:
    """The index line of a topic, as Claude Code writes it."""
    title = " ".join(title.split()).replace("[", "(").replace("]", ")") or title_from(name)
    # a space or a bracket would end the target of a link (CommonMark, 6.3)
    target = f"<{name}>" if re.search(r"[\s()]", name) else name
    hook = " ".join(hook.split())
    return f"- [{title}]({target})" + (f" — {hook}" if hook else "")


def title_from(name: str) -> str:
    """A title for a file that has none: ``api/http-errors.md`` is “Http errors”."""
    words = re.sub(r"[-_]+", " ", name.rpartition("/")[2].removesuffix(".md")).strip()
    return words[:1].upper() + words[1:] or name
