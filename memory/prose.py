"""What of a Markdown text is text to a reader of Markdown: where Claude Code looks for imports, and nowhere else. Pure.

As it was measured, not all of CommonMark: a mark of emphasis, a tag or a link counts within a line and two hundred letters.
It is where imports are looked for, so only lines with an ``@`` are gone through.
"""

from __future__ import annotations

import re

from openoxide.memory.markdown import outside_code

_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)| |$)")
_RAW_START = re.compile(r"<(script|pre|style|textarea)(?=[\s>]|$)", re.IGNORECASE)
_BLOCK_START = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt"
    r"|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem"
    r"|meta|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)"
    r"(?=[\s>]|/>|$)",
    re.IGNORECASE,
)
_LONE_TAG = re.compile(r"</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>\s*$")

# how far each looks is bounded: a text of many starts without an end would take long
_INLINE = (
    (re.compile(r"</?[A-Za-z][^<>\n]{0,200}>"), "\n"),
    (re.compile(r"!\[[^\[\]\n]{0,200}\]\([^()\n]{0,200}\)"), "\n"),
    (re.compile(r"\[([^\[\]\n]{0,200})\]\([^()\n]{0,200}\)"), r"\n\1\n"),
)
_EMPHASIS = (
    re.compile(r"(?<![\w*\\])(\*{1,3})(?=[^\s*])([^\n]{1,200}?)(?<=[^\s*])\1(?!\*)"),
    re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])([^\n]{1,200}?)(?<=[^\s_])\1(?!\w)"),
)


def prose(text: str) -> str:
    """``text`` without code, HTML, images and the places of links, and with a line break for each mark of emphasis."""
    return "\n".join(map(_plain, _without_comments("\n".join(_lines(outside_code(text).split("\n")))).split("\n")))


def _without_comments(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        pieces += [text[at:start], "\n"]
        at = end + 3
    return "".join([*pieces, text[at:]])


def _plain(line: str) -> str:
    if "@" not in line:
        return line
    for pattern, instead in _INLINE:
        line = pattern.sub(instead, line)
    # twice: one may stand in another
    for pattern in _EMPHASIS * 2:
        line = pattern.sub(r"\n\2\n", line)
    return line


def _lines(lines: list[str]) -> list[str]:
    """The lines that are neither indented code nor a block of HTML; nothing in place of those."""
    found: list[str] = []
    html: str | None = None  # what ends the block: a tag, or nothing for a blank line
    items: list[int] = []  # where the text of each open list item begins
    apart = True
    for line in (line.expandtabs(4) for line in lines):
        bare = line.strip()
        found.append("")
        if html is not None:
            html = None if (html in line.lower() if html else not bare) else html
            apart = True
            continue
        if not bare:
            apart = True
            continue
        indent = len(line) - len(line.lstrip())
        while apart and items and indent < items[-1]:
            items.pop()
        inner = items[-1] if items else 0
        # no such code begins within a paragraph (CommonMark 4.4)
        if apart and indent >= inner + 4:
            continue
        if item := _ITEM.match(line):
            items.append(item.end())
        html = _html(bare, apart=apart)
        if html is None:
            found[-1] = line
            apart = False
        elif html and html in bare.lower():
            html = None
    return found


def _html(line: str, *, apart: bool) -> str | None:
    """What ends the block of HTML that a line begins (CommonMark 4.6); None where it begins none."""
    if raw := _RAW_START.match(line):
        return f"</{raw[1].lower()}>"
    return "" if _BLOCK_START.match(line) or (apart and _LONE_TAG.match(line)) else None
