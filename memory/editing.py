"""What an edit makes of a text, and how two texts of one file are kept both. Pure.

A text is decoded with surrogateescape, so bytes that are no UTF-8 come back as they were.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from openoxide.errors import ConflictError, RefusedError, UsageError

ABSENT = ""
"""The hash of a file that is not there: what a new one is written against."""

MOST_COMPARED_LINES = 5_000  # difflib's time grows with the square of the lines that differ
_PLACEHOLDER = re.compile(
    r"(?im)^\W*(?:[\[(<{]?\s*(?:\.\.\.|…)?\s*(?:the\s+)?(?:rest|remainder|remaining|previous|existing|other)\b[^\n]{0,40}"
    r"\b(?:unchanged|stays|omitted|as before|same|remains?|here)\b)[^\n]{0,20}$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """``old``, which stands there exactly once, becomes ``new``."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """``text`` comes behind line ``line``; 0 is before the first."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """``text`` comes at the end, on lines of its own."""

    text: str


Edit = Replace | Insert | Append


def sha256(raw: bytes | None) -> str:
    """What a precondition compares: of the bytes that were read, ABSENT for a file that is not there."""
    return ABSENT if raw is None else hashlib.sha256(raw).hexdigest()


def to_text(raw: bytes) -> str:
    """The text of any bytes, to be edited and written back."""
    return raw.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """The bytes of an edited text; a surrogate that no bytes made is written as a question mark."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def edited(text: str, edit: Edit, name: str) -> str:
    """``text`` after the edit. Raises ConflictError where what is to be replaced is not there once, UsageError for a line
    that is not there.
    """
    match edit:
        case Replace(old=old, new=new):
            return _replaced(text, old, new, name)
        case Insert(line=line, text=new):
            return _inserted(text, line, new, name)
        case Append(text=new):
            end = newline_of(text)
            gap = end if text and not text.endswith("\n") else ""
            return text + gap + _ended(new, end)


def _replaced(text: str, old: str, new: str, name: str) -> str:
    places = occurrences(text, old)
    if len(places) == 1:
        return text.replace(old, new, 1)
    if not places:
        raise ConflictError(f"{name} does not hold the text that is to be replaced", hint="read it again")
    lines = ", ".join(map(str, places))
    raise ConflictError(f"{name} holds the text {len(places)} times, in lines {lines}", hint="replace a longer piece")


def occurrences(text: str, old: str) -> list[int]:
    """The line, from 1, of each place where ``old`` stands, overlapping ones included; none for an empty text."""
    found: list[int] = []
    at = text.find(old) if old else -1
    while at >= 0:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    return found


def _inserted(text: str, line: int, new: str, name: str) -> str:
    lines = lines_of(text)
    if not 0 <= line <= len(lines):
        raise UsageError(f"{name} has no line {line}: it has {len(lines)}", hint=f"name one from 0 to {len(lines)}")
    end = newline_of(text)
    before = "".join(lines[:line])
    return before + (end if before and not before.endswith("\n") else "") + _ended(new, end) + "".join(lines[line:])


def lines_of(text: str) -> list[str]:
    """The lines of a text with their line feeds, which alone end one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def newline_of(text: str) -> str:
    """How the lines of a text end, by its first."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _ended(text: str, end: str) -> str:
    # a text that comes with its own line ends takes on those of the file
    plain = text.replace("\r\n", "\n")
    return (plain if plain.endswith("\n") or not plain else plain + "\n").replace("\n", end)


def normalised(text: str) -> str:
    """What two notes that say the same have in common: no case, no marks of a list, one space between words."""
    words = (re.sub(r"^\s*(?:[-*+]|\d+[.)]|#+|>)\s+", "", line) for line in text.casefold().splitlines())
    return " ".join(" ".join(words).split())


def already_in(text: str, new: str) -> int:
    """The line, from 1, on which a text says what ``new`` says, 0 where it does not. Only words count."""
    wanted = normalised(new)
    # a rule or a blank line says nothing, and may stand there as often as it likes
    if not re.search(r"\w", wanted):
        return 0
    height = len([line for line in new.splitlines() if line.strip()])
    if height == 1 and wanted not in " ".join(text.casefold().split()):
        return 0
    lines = text.splitlines()
    said = [normalised(line) for line in lines]
    spoken = [at for at, line in enumerate(said) if line]
    for first in range(len(spoken) - height + 1):
        if " ".join(said[at] for at in spoken[first : first + height]) == wanted:
            return spoken[first] + 1
    return 0


def keep_both(ours: str, theirs: str) -> str:
    """Every line of both texts, common ones once, in the order of both: what nobody may lose. The one that is longer than
    can be compared follows the other as a whole.
    """
    if ours == theirs or not ours:
        return theirs
    a, b = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    if max(len(a), len(b)) > MOST_COMPARED_LINES:
        # rather twice than not at all
        return _ended(theirs, newline_of(theirs)) + ours
    found: list[str] = []
    end = newline_of(theirs if "\n" in theirs else ours)
    compared = SequenceMatcher(None, _comparable(b, end), _comparable(a, end), autojunk=False)
    for tag, a1, a2, b1, b2 in compared.get_opcodes():
        found += b[a1:a2]
        if tag in ("replace", "insert"):
            found += a[b1:b2]
    # a last line without its end would run into the next one
    return "".join(line if line.endswith("\n") or at == len(found) - 1 else line + end for at, line in enumerate(found))


def _comparable(lines: list[str], end: str) -> list[str]:
    # a last line says the same with its end and without
    return [line if line.endswith("\n") or at < len(lines) - 1 else line + end for at, line in enumerate(lines)]


def doubts(before: str, after: str) -> list[str]:
    """What makes a whole new text look like an accident: it lost most of the old one, or has a mark in its place."""
    found: list[str] = []
    # a short text may well be halved on purpose
    if len(after) * 2 < len(before) and len(before) > 200:
        found.append(f"it shrank from {len(before)} to {len(after)} characters")
    match = _PLACEHOLDER.search(after)
    if match and match[0] not in before:
        found.append(f"it holds “{match[0].strip()}”, as if text was left out")
    return found


def require(name: str, found: bytes | None, expected: str) -> None:
    """Raises ConflictError where a file is not what its writer read."""
    have = sha256(found)
    if have == expected:
        return
    text = "is there already" if not expected else "is gone" if not have else "was changed since it was read"
    raise ConflictError(
        f"{name} {text}", hint="read it again, then write", details={"expected": expected, "found": have}
    )


def refuse_twice(name: str, text: str, new: str) -> None:
    """Raises RefusedError where ``text`` already says ``new``."""
    line = already_in(text, new)
    if line:
        raise RefusedError(
            f"{name} says that already, in line {line}",
            hint="nothing was written",
            details={"line": line, "same_as": name},
        )
