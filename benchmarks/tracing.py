"""Which files a traced process asked the kernel about: reads what ``strace -f -y`` wrote. Pure.

A call that strace shows in two halves names its paths in the first, so the second is passed over.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

_CALL = re.compile(r"^(?:\d+ +)?([a-z]\w*)\((.*)$")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
# a folder's descriptor, with its path as -y shows it, and a path that starts there
_BELOW = re.compile(r"(?:AT_FDCWD|\d+)(?:<((?:[^>\\]|\\.)*)>)?, " + _QUOTED)
_DESCRIPTOR = re.compile(r"\d+<(/(?:[^>\\]|\\.)*)>")
_TAKES_FOLDER = re.compile(r"(?!fstat$|lstat$|stat$)\w+at2?|statx")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}

LISTS = frozenset({"getdents64", "getdents"})
SYNCS = frozenset({"fsync", "fdatasync", "sync_file_range", "syncfs", "sync"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One call on one path, by its name or by a descriptor of it."""

    call: str
    path: str


class Place(Enum):
    """Where a path lies, seen from a checkpoint of one changed file."""

    CHANGED = "changed file"
    PARENT = "its parent folders"
    GIT = "git position"
    UNCHANGED = "unchanged files"
    OTHER = "others in the tree"
    STORE = "store"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A checkpoint that was traced: absolute paths, ``files`` relative to ``root`` and with the changed one."""

    root: str
    home: str
    changed: str
    files: frozenset[str]

    def place(self, path: str) -> Place:
        """Where ``path`` lies."""
        if path == self.root or self.root.startswith(path.rstrip("/") + "/"):
            return Place.PARENT
        if path.startswith(self.root + "/"):
            return self._inside(path[len(self.root) + 1 :])
        return Place.STORE if path == self.home or path.startswith(self.home + "/") else Place.ELSEWHERE

    def _inside(self, path: str) -> Place:
        if path == self.changed:
            return Place.CHANGED
        if self.changed.startswith(path + "/"):
            return Place.PARENT
        if path in self.files:
            return Place.UNCHANGED
        return Place.GIT if path.partition("/")[0] == ".git" else Place.OTHER


def touches(trace: Iterable[str]) -> Iterator[Touch]:
    """Every call on a path, in the order they were begun."""
    for line in trace:
        call = _CALL.match(line)
        if call is None:
            continue
        name, arguments = call.groups()
        for path in _paths(name, arguments):
            yield Touch(call=name, path=path)


def _paths(name: str, arguments: str) -> list[str]:
    if _TAKES_FOLDER.fullmatch(name):
        found = [os.path.join(_plain(folder or ""), _plain(path)) for folder, path in _BELOW.findall(arguments)]
        return [os.path.normpath(path) for path in found]
    if arguments.startswith('"'):
        return [os.path.normpath(_plain(path)) for path in re.findall(_QUOTED, arguments.partition(" = ")[0])[:1]]
    return [_plain(path) for path in _DESCRIPTOR.findall(re.sub(_QUOTED, "", arguments))]


def _plain(shown: str) -> str:
    """What strace shows with C's escapes; bytes that are not UTF-8 as Python has them in a path."""
    return os.fsdecode(_ESCAPE.sub(_unescaped, shown).encode("latin-1"))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if len(code) == 3 else _LETTERS.get(code, code)


def by_place(found: Iterable[Touch], scene: Scene) -> dict[Place, Counter[tuple[str, str]]]:
    """How often each call was made on each path, by where it lies."""
    counted: dict[Place, Counter[tuple[str, str]]] = {place: Counter() for place in Place}
    for touch in found:
        counted[scene.place(touch.path)][touch.call, touch.path] += 1
    return counted


def calls(counted: Mapping[tuple[str, str], int], names: frozenset[str]) -> int:
    """How many of ``counted`` are calls of these ``names``."""
    return sum(count for (call, _), count in counted.items() if call in names)
