"""A patch shown for two file contents turns the one into the other with ``git apply`` and ``patch``, or says why not.

Lines end at a line feed only. Time and memory follow the part that differs: what both have in common at the start and
at the end is cut off before lines are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT_LINES = 3
_BINARY_HEAD_BYTES = 8_000  # git looks for a NUL no further (buffer_is_binary)
_BLOCK_BYTES = 1 << 16
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Middle:
    """What differs, with lines of context around it; it begins ``first_line`` lines below the top of both files."""

    old: bytes
    new: bytes
    first_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFile:
    """What git would keep of a path: ``mode`` as it spells it (100644, 100755; 120000 for a link, whose target is the
    ``content``).
    """

    mode: str
    content: bytes


def git_patch(path: str, old: GitFile | None, new: GitFile | None) -> str:
    """As :func:`unified`, with the header that says what a plain patch cannot: modes, links, and files that come or go.
    What is too large or binary is one line that `git apply` passes over.
    """
    # a file that becomes a link, or a link a file: git deletes the one and makes the other
    if old and new and old.mode[:3] != new.mode[:3]:
        return git_patch(path, old, None) + git_patch(path, None, new)
    body = unified(path, path, old.content if old else None, new.content if new else None)
    if body.startswith(("Binary files ", "Files ")):
        # git takes a line that begins so for a part of the patch before it, and refuses that one (git-apply(1))
        return f"# {body}"
    events = []
    if old is None and new is not None:
        events = [f"new file mode {new.mode}\n"]
    elif new is None and old is not None:
        events = [f"deleted file mode {old.mode}\n"]
    elif old and new and old.mode != new.mode:
        events = [f"old mode {old.mode}\n", f"new mode {new.mode}\n"]
    # of an empty file the body is git's header already, without its true mode
    hunks = body if body.startswith("---") else ""
    header = f"diff --git {_label('a/' + path)} {_label('b/' + path)}\n"
    return header + "".join(events) + hunks if events or hunks else ""


def unified(path_old: str, path_new: str, old: bytes | None, new: bytes | None, limit_lines: int = 5_000) -> str:
    """The patch from ``old`` to ``new`` (None: no file), empty when they are equal.

    Paths are relative, with undecodable bytes as surrogateescape has them. When the part that differs has more than
    ``limit_lines`` lines, old and new together, one line with the counts stands in for the patch.
    """
    if old == new:
        return ""
    label_old = "/dev/null" if old is None else _label("a/" + path_old)
    label_new = "/dev/null" if new is None else _label("b/" + path_new)
    if _is_binary(old or b"") or _is_binary(new or b""):
        return f"Binary files {label_old} and {label_new} differ\n"
    if not old and not new:
        return _empty_file(path_new if old is None else path_old, "new" if old is None else "deleted")
    middle = _middle(old or b"", new or b"")
    counts = _count_lines(middle.old), _count_lines(middle.new)
    if sum(counts) > limit_lines:
        lines = f"{counts[0]} old and {counts[1]} new lines"
        return f"Files {label_old} and {label_new} differ: {lines}, too many to compare (limit {limit_lines})\n"
    header = f"--- {_terminated(label_old)}\n+++ {_terminated(label_new)}\n"
    return header + b"".join(_hunks(middle)).decode("utf-8")


def _is_binary(content: bytes) -> bool:
    if b"\0" in content[:_BINARY_HEAD_BYTES]:
        return True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _label(path: str) -> str:
    """``path`` as git spells it (core.quotePath off): in C quotes where it could not be read back otherwise."""
    if path.isprintable() and not set(path) & {'"', "\\"}:
        return path
    return '"' + "".join(_quoted(char) for char in path) + '"'


def _quoted(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    return _ESCAPES.get(char) or "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def _terminated(label: str) -> str:
    # without the tab, patch takes what follows a space for a time stamp
    return label + "\t" if " " in label else label


def _empty_file(path: str, event: str) -> str:
    # Only git's extended header can say that an empty file comes or goes, and it is not accepted without a mode.
    return f"diff --git {_label('a/' + path)} {_label('b/' + path)}\n{event} file mode 100644\n"


def _middle(old: bytes, new: bytes) -> _Middle:
    shared = _common_start(old, new)
    start = old.rfind(b"\n", 0, shared) + 1
    old_end, new_end = len(old), len(new)
    shared = _common_end(old, new, min(old_end, new_end) - start)
    cut = old.find(b"\n", old_end - shared)
    if shared and cut >= 0:
        shared = old_end - (cut + 1)
        old_end, new_end = _with_context(old, cut + 1), _with_context(new, new_end - shared)
    for _ in range(CONTEXT_LINES):
        start = old.rfind(b"\n", 0, max(start - 1, 0)) + 1
    return _Middle(old=old[start:old_end], new=new[start:new_end], first_line=old.count(b"\n", 0, start))


def _common_start(old: bytes, new: bytes) -> int:
    most = min(len(old), len(new))
    at = 0
    # by blocks, which are compared in C; bytes one by one only in the block that differs
    while at < most and old[at : at + _BLOCK_BYTES] == new[at : at + _BLOCK_BYTES]:
        at += _BLOCK_BYTES
    while at < most and old[at] == new[at]:
        at += 1
    return at


def _common_end(old: bytes, new: bytes, most: int) -> int:
    def tail(content: bytes, length: int) -> bytes:
        return content[max(len(content) - length - _BLOCK_BYTES, 0) : len(content) - length]

    length = 0
    while length + _BLOCK_BYTES <= most and tail(old, length) == tail(new, length):
        length += _BLOCK_BYTES
    while length < most and old[-length - 1] == new[-length - 1]:
        length += 1
    return length


def _with_context(content: bytes, end: int) -> int:
    for _ in range(CONTEXT_LINES):
        end = content.find(b"\n", end) + 1 or len(content)
    return end


def _count_lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def _hunks(middle: _Middle) -> Iterator[bytes]:
    old, new = _LINE.findall(middle.old), _LINE.findall(middle.new)
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        old_range = _range(middle.first_line + old_start, old_end - old_start)
        new_range = _range(middle.first_line + new_start, new_end - new_start)
        yield f"@@ -{old_range} +{new_range} @@\n".encode()
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_shown(b" ", line) for line in old[i1:i2])
            else:
                yield from (_shown(b"-", line) for line in old[i1:i2])
                yield from (_shown(b"+", line) for line in new[j1:j2])


def _range(lines_before: int, length: int) -> str:
    if length == 1:
        return str(lines_before + 1)
    # an empty range names the line before it (POSIX, diff -u)
    return f"{lines_before + 1 if length else lines_before},{length}"


def _shown(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + _NO_NEWLINE
