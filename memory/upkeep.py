"""How an index is kept in order: new topics get a line, dead links a mark, and too long a file a suggestion. Pure.

Nothing that somebody wrote is taken out or moved: a line is added, a mark is set or taken back, and what should move is only
said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from openoxide.memory.editing import to_bytes
from openoxide.memory.index import GONE_MARK, MOST_LINES, MOST_UNITS, entries, entry_line, load_index, units
from openoxide.memory.markdown import code_lines, page_of

LONG_ENTRY_UNITS = 200


class Told(NamedTuple):
    """What a topic's file says of itself."""

    title: str = ""
    hook: str = ""


class Did(str, Enum):
    """What was done to a line of the index."""

    ADDED = "added"
    UPDATED = "updated"
    MARKED = "marked"
    UNMARKED = "unmarked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line that is other than before."""

    did: Did
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A line that had better go into a topic, or away; ``line`` counts from 1."""

    line: int
    text: str
    reason: str


def maintained(text: str, topics: Mapping[str, Told], files: Collection[str]) -> tuple[str, list[Change]]:
    """The index with a line for each of ``topics``, and a mark on each line that leads to none of ``files``."""
    known = entries(text)
    named = {entry.name for entry in known}
    lines = text.split("\n")
    changes: list[Change] = []
    for entry in known:
        # both are true, or neither: the mark is wrong
        if entry.is_marked is (entry.name in files):
            changes.append(Change(did=Did.UNMARKED if entry.is_marked else Did.MARKED, name=entry.name))
            lines[entry.line - 1] = _remarked(lines[entry.line - 1], marked=not entry.is_marked)
    text = "\n".join(lines)
    for name in sorted(topics.keys() - named):
        text = with_entry(text, name, topics[name])[0]
        changes.append(Change(did=Did.ADDED, name=name))
    return text, changes


def _remarked(line: str, *, marked: bool) -> str:
    bare, end = (line[:-1], "\r") if line.endswith("\r") else (line, "")
    return (bare + GONE_MARK if marked else bare.removesuffix(GONE_MARK)) + end


def with_entry(text: str, name: str, told: Told, section: str = "") -> tuple[str, list[Change]]:
    """The index with a line for the topic: an existing one takes on what is told, a new one comes first in its section,
    or in the first list, since what stands last is the first to be cut.
    """
    lines = text.split("\n")
    old = next((entry for entry in entries(text) if entry.name == name), None)
    if old is not None:
        # what is not told is left as somebody worded it
        line = entry_line(name, told.title or old.title, told.hook or old.hook)
        end = "\r" if lines[old.line - 1].endswith("\r") else ""
        if (told.title in ("", old.title) and told.hook in ("", old.hook)) or lines[old.line - 1] == line + end:
            return text, []
        lines[old.line - 1] = line + end
        return "\n".join(lines), [Change(did=Did.UPDATED, name=name)]
    return _inserted(text, entry_line(name, told.title, told.hook), section), [Change(did=Did.ADDED, name=name)]


def _inserted(text: str, line: str, section: str) -> str:
    lines = text.split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    body_at = page_of(text).body_at
    headings = _headings(lines, body_at)
    start = next((at for at, title in headings if section and title == section.casefold()), None)
    if section and start is None:
        return _with_section(text, line, section, end)
    begin = body_at if start is None else start + 1
    stop = next((at for at, _ in headings if start is not None and at > start), len(lines))
    first = next((entry.line - 1 for entry in entries(text) if begin <= entry.line - 1 < stop), None)
    if first is not None:
        lines.insert(first, line + end)
        return "\n".join(lines)
    # no list yet: behind the heading, with a blank line on both sides
    at = begin if start is not None else next((at + 1 for at, _ in headings[:1]), body_at)
    before = [end] if at > 0 and lines[at - 1].strip() else []
    after = [end] if at < len(lines) and lines[at].strip() else []
    return "\n".join([*lines[:at], *before, line + end, *after, *(lines[at:] or [""])])


def _with_section(text: str, line: str, section: str, end: str) -> str:
    gap = "" if not text else end + "\n" if text.endswith("\n") else f"{end}\n{end}\n"
    return f"{text}{gap}## {section}{end}\n{end}\n{line}{end}\n"


def _headings(lines: list[str], body_at: int) -> list[tuple[int, str]]:
    coded = code_lines(lines)
    return [
        (at, line.strip().strip("#").strip().casefold())
        for at, line in enumerate(lines)
        if at >= body_at and not coded[at] and line.startswith("#")
    ]


def without_entry(text: str, name: str) -> str:
    """The index without the line of a topic that was deleted on purpose; other lines stay, byte for byte."""
    gone = {entry.line - 1 for entry in entries(text) if entry.name == name}
    return "\n".join(line for at, line in enumerate(text.split("\n")) if at not in gone)


def renamed_entry(text: str, old: str, new: str) -> str:
    """The index with the line of ``old`` leading to ``new``."""
    lines = text.split("\n")
    for entry in entries(text):
        if entry.name == old:
            end = "\r" if lines[entry.line - 1].endswith("\r") else ""
            lines[entry.line - 1] = entry_line(new, entry.title, entry.hook) + end
    return "\n".join(lines)


def suggested(text: str, used: Mapping[str, int] | None = None, most_lines: int = MOST_LINES) -> list[Move]:
    """Which lines had better move so that all of the index loads, no more of them than it takes; none where it does.
    ``used`` is when each topic was last read (ms): of live lines the longest unused go first, then the lowest.
    """
    moves: list[Move] = []
    lines = text.split("\n")
    found = load_index(to_bytes(text), most_lines)
    candidates = iter(_candidates(text, used or {}))
    while found.first_cut:
        lines_over, units_over = found.lines - most_lines, found.units - MOST_UNITS
        before = len(moves)
        while lines_over > 0 or units_over > 0:
            move = next(candidates, None)
            if move is None:
                return moves
            moves.append(move)
            lines_over, units_over = lines_over - 1, units_over - units(move.text) - 1
        # some lines did not count: blank ones at the end, comments
        gone = {move.line for move in moves}
        rest = "\n".join(line for at, line in enumerate(lines, 1) if at not in gone)
        found = load_index(to_bytes(rest), most_lines)
        assert len(moves) > before, "what is over takes at least one line"
    return moves


def _candidates(text: str, used: Mapping[str, int]) -> Iterable[Move]:
    known = entries(text)
    lines = text.split("\n")
    reasons: dict[int, str] = {}
    first: set[str] = set()
    for entry in known:
        reason = "dead" if entry.is_marked else "twice" if entry.name in first else ""
        first.add(entry.name)
        reasons |= {entry.line: reason} if reason else {}
    reasons |= {at: "long" for at in _long(lines) if at not in reasons}
    reasons |= {at: "detail" for at in _prose(lines, {entry.line for entry in known}) if at not in reasons}
    live = [entry for entry in known if entry.line not in reasons]
    for entry in sorted(live, key=lambda entry: (used.get(entry.name, 0), -entry.line)):
        reasons[entry.line] = "unused"
    # headings, where there is nothing else
    reasons |= {at: "structure" for at in range(len(lines), 0, -1) if at not in reasons and lines[at - 1].strip()}
    body_at = page_of(text).body_at
    for at, reason in reasons.items():
        if at > body_at:
            yield Move(line=at, text=lines[at - 1], reason=reason)


def _long(lines: list[str]) -> list[int]:
    """The longest first: fewest lines move."""
    long = [(-units(line), at) for at, line in enumerate(lines, 1) if units(line) > LONG_ENTRY_UNITS]
    return [at for _, at in sorted(long)]


def _prose(lines: list[str], known: Collection[int]) -> list[int]:
    plain = [at for at, line in enumerate(lines, 1) if at not in known and line.strip() and not line.startswith("#")]
    return plain[::-1]


def told_by(body: str, description: str = "") -> Told:
    """What a topic's text says of itself: its first heading, and its description or else its first line of prose."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    title = next((line.lstrip("#").strip() for line in lines if line.startswith("#")), "")
    prose = next((line for line in lines if not line.startswith(("#", "```", "---", "<!--"))), "")
    hook = description or prose.lstrip("-*+> ").strip()
    return Told(title, hook if len(hook) <= 120 else hook[:119].rstrip() + "…")
