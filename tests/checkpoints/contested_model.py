"""What a rewind of a turn or session must make of files that others changed too; no code and no value of the product.

Each line is marked with the edit that wrote it. The merges are git's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

State = tuple[object, ...]  # as the kit describes a file
Tree = dict[bytes, State]
USER, A, B, BOTH = "user", "a", "b", "both"


@dataclass(frozen=True)
class Edit:
    """``number`` is the edit's own; ``verb`` and ``place`` say what it does to the file ``name``."""

    number: int
    by: str
    name: bytes
    verb: str
    place: int

    def apply(self, content: bytes) -> bytes:
        """The lines after it. Those that it writes are marked with it."""
        lines = content.splitlines(keepends=True)
        at = self.place % (len(lines) + 1)
        mine = b"%s-%d\n" % (self.by.encode(), self.number)
        if self.verb == "insert":
            return b"".join([*lines[:at], mine, *lines[at:]])
        return b"".join([*lines[:at], *([mine] if self.verb == "replace" else []), *lines[at + 1 :]])


@dataclass
class Outcome:
    """The tree that must come out, and the list that each path must be in."""

    tree: Tree
    listed: dict[bytes, str] = field(default_factory=dict)


class History:
    """The tree after each edit, and who made it."""

    def __init__(self, tree: Tree, scratch: Path) -> None:
        self.trees = [tree]
        self.edits: list[Edit] = []
        self._scratch = scratch

    def add(self, edit: Edit, tree: Tree) -> None:
        self.edits.append(edit)
        self.trees.append(tree)

    def rewound(self, since: int, mine: Callable[[Edit], bool], conflict: str, now_ns: int) -> Outcome:
        """What a rewind to before edit ``since`` comes to that takes back the edits that are ``mine``."""
        now = self.trees[-1]
        found = Outcome(dict(now))
        for path in {edit.name for edit in self.edits[since:] if mine(edit)}:
            kind, state = self._path(path, since, mine, conflict, now_ns)
            if kind:
                found.listed[path] = kind
            if state is None:
                found.tree.pop(path, None)
            else:
                found.tree[path] = state
        return found

    def _path(
        self, path: bytes, since: int, mine: Callable[[Edit], bool], conflict: str, now_ns: int
    ) -> tuple[str, State | None]:
        now = self.trees[-1].get(path)
        changed = [
            at for at in range(since, len(self.edits)) if self.trees[at].get(path) != self.trees[at + 1].get(path)
        ]
        first = next((at for at in changed if mine(self.edits[at])), None)
        wanted = now if first is None else self.trees[first].get(path)
        if first is None or now == wanted:
            return "", now
        later = [self.edits[at] for at in changed if at >= first]
        if conflict == "overwrite" or all(mine(edit) and edit.by != BOTH for edit in later):
            return "restored" if wanted else "removed", wanted
        if conflict == "keep" or any(mine(edit) and edit.by == BOTH for edit in later):
            return "conflicts", now
        runs = [[*run] for own, run in groupby(changed, lambda at: mine(self.edits[at])) if own]
        changes = [(self.trees[run[0]].get(path), self.trees[run[-1] + 1].get(path)) for run in reversed(runs)]
        return _outcome(now, wanted, self._merged(now, changes), now_ns)

    def _merged(
        self, now: State | None, changes: list[tuple[State | None, State | None]]
    ) -> tuple[object, object] | None:
        if now is None or not all(before and after for before, after in changes):
            return None
        mode, content = now[1], now[3]
        for before, after in changes:
            assert before is not None
            assert after is not None
            if before[1] != after[1]:
                if mode not in (before[1], after[1]):
                    return None
                mode = before[1]
            content = self._git(content, after[3], before[3])
            if content is None:
                return None
        return mode, content

    def _git(self, *texts: object) -> object:
        for name, text in zip(("ours", "base", "theirs"), texts, strict=True):
            assert isinstance(text, bytes)
            (self._scratch / name).write_bytes(text)
        done = subprocess.run(
            ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=self._scratch, capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None


def _outcome(
    now: State | None, wanted: State | None, merged: tuple[object, object] | None, now_ns: int
) -> tuple[str, State | None]:
    """What becomes of a path whose mode and content are ``merged``, None where they cannot be."""
    if now is None or merged is None:
        return "conflicts", now
    if (now[1], now[3]) == merged:
        return "", now
    if wanted and (wanted[1], wanted[3]) == merged:
        return "restored", wanted
    return "merged", ("file", merged[0], now[2] if merged[1] == now[3] else now_ns, merged[1])


def lines_by(content: object, mine: set[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The lines of ``content`` that carry one of these marks, and the others."""
    assert isinstance(content, bytes)
    lines = content.splitlines()
    return [line for line in lines if line in mine], [line for line in lines if line not in mine]
