"""The little Markdown and YAML that memory and instruction files are read by. Pure; any text is taken, none raises.

A text that is not what it should be (a frontmatter or a comment that never ends) is taken as plain text: nothing that
somebody wrote disappears because a mark is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Value = str | tuple[str, ...] | dict[str, str]

# the info of a fence of backticks holds none, else it is a code span (CommonMark 4.5)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_COMMENT_START = re.compile(r" {0,3}<!--")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w.-]*)\s*:(?:\s+(.*)|\s*)$")
_ITEM = re.compile(r"\s*-\s+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A file's frontmatter, and the text behind it, which begins at line ``body_at`` (from 0)."""

    fields: dict[str, Value] = field(default_factory=dict)
    body: str = ""
    body_at: int = 0

    def text(self, name: str) -> str:
        """A field that is a single text, else an empty one."""
        value = self.fields.get(name, "")
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that is a list, or a single text as a list of one."""
        value = self.fields.get(name, ())
        if isinstance(value, tuple):
            return value
        return (value,) if isinstance(value, str) and value else ()


def decoded(raw: bytes) -> str:
    """The text of any bytes, as a model may be given it: no byte order mark, U+FFFD for what is no UTF-8 and for NUL."""
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    # looked for in the bytes: in a text of a megabyte it takes ten times as long
    return text.replace("\0", "\ufffd") if b"\0" in raw else text


def page_of(text: str) -> Page:
    """``text`` divided at its frontmatter, which stands between two lines of three hyphens at the very start."""
    if not text.startswith("---"):
        return Page(body=text)
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return Page(body=text)
    head: list[str] = []
    lines = rest.split("\n")
    for at, line in enumerate(lines):
        if line.rstrip() == "---":
            return Page(fields=_fields(head), body="\n".join(lines[at + 1 :]), body_at=at + 2)
        head.append(line.rstrip("\r"))
    return Page(body=text)


def without_comments(text: str) -> str:
    """``text`` without its block comments (CommonMark: HTML blocks of the second kind); what stands behind one on its last
    line stays, and so do comments in code, in the middle of a line, or without an end.
    """
    if "<!--" not in text:
        return text
    kept: list[str] = []
    lines = text.split("\n")
    coded = code_lines(lines)
    at = 0
    # where the last end is: a text of many starts without an end is looked through once
    last_end = max((n for n, line in enumerate(lines) if "-->" in line), default=-1)
    while at < len(lines):
        end = _comment_end(lines, at) if not coded[at] and at <= last_end and _COMMENT_START.match(lines[at]) else -1
        if end < 0:
            kept.append(lines[at])
            at += 1
            continue
        # the block ends with the line, not with the mark (CommonMark 4.6): what follows the mark is somebody's text
        rest = _COMMENT.sub("", "\n".join(lines[at : end + 1]))
        kept += [rest] if rest.strip() else []
        at = end + 1
    return "\n".join(kept)


def _comment_end(lines: list[str], at: int) -> int:
    start = lines[at].index("<!--") + 4
    if "-->" in lines[at][start:]:
        return at
    return next((n for n in range(at + 1, len(lines)) if "-->" in lines[n]), -1)


def code_lines(lines: list[str]) -> list[bool]:
    """For each line whether it stands in a fenced code block, fences included."""
    found: list[bool] = []
    fence = ""
    for line in lines:
        match = _FENCE.match(line.rstrip("\r"))
        found.append(bool(fence or match))
        if not fence:
            fence = match[1] if match else ""
        elif _closes(line, fence):
            fence = ""
    return found


def _closes(line: str, fence: str) -> bool:
    # four spaces are indented code, and no fence (CommonMark 4.5)
    bare = line.strip()
    return len(line) - len(line.lstrip(" ")) < 4 and len(bare) >= len(fence) and not bare.strip(fence[0])


def outside_code(text: str) -> str:
    """``text`` with spaces in place of all code, fenced or in a line; of the same length, with the same lines."""
    lines = text.split("\n")
    coded = code_lines(lines)
    plain = [" " * len(line) if in_code else line for line, in_code in zip(lines, coded, strict=True)]
    found: list[str] = []
    block: list[str] = []
    for line in plain:
        # a code span does not reach over a blank line: another paragraph begins there
        if line.strip():
            block.append(line)
            continue
        found += [_without_spans("\n".join(block)), line] if block else [line]
        block = []
    return "\n".join([*found, _without_spans("\n".join(block))] if block else found)


def _without_spans(block: str) -> str:
    # a span ends at the next run of the same length (CommonMark 6.1): looked up, since a search for each would be quadratic
    runs = [match.span() for match in re.finditer("`+", block)]
    later: dict[int, list[int]] = {}
    for at in range(len(runs) - 1, -1, -1):
        later.setdefault(runs[at][1] - runs[at][0], []).append(at)
    pieces: list[str] = []
    done = skip = 0
    for at, (start, stop) in enumerate(runs):
        same = later[stop - start]
        while same and same[-1] <= at:
            same.pop()
        if at < skip or not same:
            continue
        skip = same[-1] + 1
        end = runs[same[-1]][1]
        pieces += [block[done:start], re.sub(r"[^\n]", " ", block[start:end])]
        done = end
    return "".join([*pieces, block[done:]])


def _fields(lines: list[str]) -> dict[str, Value]:
    """The keys of the first level; of YAML what such files use: scalars, lists, and mappings of scalars."""
    found: dict[str, Value] = {}
    for key, first, below in _keys(lines):
        if first.startswith("["):
            found[key] = tuple(_split_list(" ".join([first, *map(str.strip, below)])))
        elif first:
            found[key] = _scalar(first)
        elif below and all(_ITEM.match(line) for line in below):
            found[key] = tuple(_scalar(match[1]) for line in below if (match := _ITEM.match(line)))
        else:
            inner = [match for line in below if (match := _KEY.match(line.strip()))]
            found[key] = {match[1]: _scalar(match[2] or "") for match in inner}
    return found


def _keys(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    key, first, below = "", "", list[str]()
    for line in lines:
        # at any indent a hash begins a comment (YAML 1.2, 6.6)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.match(line)
        if match:
            if key:
                yield key, first, below
            key, first, below = match[1], (match[2] or "").strip(), []
        else:
            below.append(line)
    if key:
        yield key, first, below


def _split_list(text: str) -> list[str]:
    """The items between brackets; a comma in quotes or braces divides nothing."""
    items, item, quote, depth = list[str](), "", "", 0
    for char in text[1:]:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "{}":
            depth += 1 if char == "{" else -1
        elif char == "," and depth <= 0:
            items.append(item)
            item = ""
            continue
        elif char == "]" and depth <= 0:
            break
        item += char
    return [_scalar(one) for one in [*items, item] if one.strip()]


def _scalar(text: str) -> str:
    text = text.strip()
    if text[:1] in "\"'" and text[:1]:
        end = text.find(text[0], 1)
        return text[1:end] if end > 0 else text[1:]
    # a comment begins at a hash behind a space (YAML 1.2, 6.6)
    return re.split(r"\s#", text, maxsplit=1)[0].strip()
