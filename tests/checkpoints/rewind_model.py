"""What a rewind must come to, worked out from snapshots of the tree alone: no code and no value of the product.

A :class:`History` knows what stood where at each recording and who had the pen. From it follow, for a rewind, the state
each path must get (``wanted``) and those that must stay. What hangs on the shape of the tree (a directory that
something stays in, a parent that is a file) is not predicted: an answer may name such a reason, and then the tree that
it leads to has to show it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kit import Description

Tree = dict[bytes, Description]
USER, OPERATION = "user", "operation"
SHAPES = {"not_empty", "directory_not_empty", "parent_not_directory"}


@dataclass(frozen=True)
class Version:
    """What stood at a path from a recording on (None: nothing), and who had written it: a turn, the user or us."""

    state: Description | None
    by: str


@dataclass(frozen=True)
class Sealed:
    """A checkpoint: the tree at that moment, how many recordings there had been, the turn it belongs to."""

    tree: Tree
    position: int
    turn: str = ""


@dataclass
class Prediction:
    """``wanted``: what paths must become; ``conflicts`` and ``kept``: what must stay, with the reason; ``unsure``: newer
    paths that may go or stay, since a crash has blurred who made them."""

    then: Tree
    wanted: dict[bytes, Description | None] = field(default_factory=dict)
    conflicts: dict[bytes, str] = field(default_factory=dict)
    kept: dict[bytes, str] = field(default_factory=dict)
    unsure: set[bytes] = field(default_factory=set)


@dataclass(frozen=True)
class Done:
    """An operation that was carried out, as undo and redo have to know it."""

    before: Tree
    after: Tree

    @property
    def touched(self) -> list[bytes]:
        paths = self.before.keys() | self.after.keys()
        return [path for path in paths if self.before.get(path) != self.after.get(path)]


class History:
    """Everything that was recorded."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.log: list[dict[bytes, Version]] = []
        self.sealed: dict[int, Sealed] = {}
        self.blurred_at = 0
        self.blurred: set[bytes] = set()

    def record(self, now: Tree, by: str) -> None:
        changed = [path for path in self.tree.keys() | now.keys() if self.tree.get(path) != now.get(path)]
        self.log.append({path: Version(now.get(path), by) for path in changed})
        self.tree = now

    def seal(self, number: int, turn: str = "") -> None:
        """Checkpoint ``number`` is of the tree as it was recorded last, unless it is known already."""
        self.sealed.setdefault(number, Sealed(self.tree, len(self.log), turn))

    @property
    def newest(self) -> Tree:
        """The tree of the newest checkpoint."""
        return self.sealed[max(self.sealed)].tree

    def is_clear(self, then: Sealed) -> bool:
        """Whether no crash came over an operation since."""
        return then.position >= self.blurred_at

    def blur(self, paths: Iterable[bytes]) -> None:
        """A crash came over an operation on these paths: what was recorded in its middle is not modelled."""
        self.blurred_at = len(self.log)
        self.blurred.update(paths)

    def versions(self, path: bytes, since: int) -> list[Version]:
        return [recording[path] for recording in self.log[since:] if path in recording]

    def _writers(self, path: bytes, then: Sealed) -> list[str]:
        """The writer of each state since: what an operation brought back is its earlier writer's, "" if of before."""
        base = Version(then.tree.get(path), "")
        known = [base]
        for version in self.versions(path, then.position):
            again = [old for old in known if old.state == version.state]
            by = again[-1].by if version.by == OPERATION and again else version.by
            known.append(Version(version.state, by))
        return [version.by for version in known[1:]]

    def everything(self, then: Sealed, chosen: Collection[bytes], *, exact: bool) -> Prediction:
        """Scope all: what differs comes back; newer paths go if they are a declared writer's, or if ``exact``."""
        found = Prediction(then.tree)
        for path in self._differing(then.tree, chosen):
            newer = path not in then.tree and not exact
            if newer and path in self.blurred and not self.is_clear(then):
                found.unsure.add(path)
            if newer and {USER, OPERATION} & set(self._writers(path, then)):
                found.kept[path] = "newer"
            else:
                found.wanted[path] = then.tree.get(path)
        return found

    def _differing(self, then: Tree, chosen: Collection[bytes]) -> list[bytes]:
        paths = then.keys() | self.tree.keys()
        return [path for path in paths if _chosen(path, chosen) and then.get(path) != self.tree.get(path)]

    def written_by(self, then: Sealed, turns: Collection[str], chosen: Collection[bytes]) -> Prediction:
        """Scope session or turn: the paths that ``turns`` changed last, back to what was there before they did."""
        found = Prediction(then.tree)
        for path in {path for recording in self.log[then.position :] for path in recording if _chosen(path, chosen)}:
            states = [then.tree.get(path), *(version.state for version in self.versions(path, then.position))]
            writers = self._writers(path, then)
            mine = [at for at, by in enumerate(writers) if by in turns]
            others = [at for at, by in enumerate(writers) if by and by not in turns]
            if not mine or states[mine[0]] == self.tree.get(path):
                continue
            if others and others[-1] > mine[-1]:
                found.conflicts[path] = "changed_later"
            elif any(at > mine[0] for at in others):
                found.conflicts[path] = "mixed_writers"
            else:
                found.wanted[path] = states[mine[0]]
        return found

    def reversed(self, done: Done) -> Prediction:
        """Undo and redo: what the operation touched goes back where it still is as the operation left it."""
        found = Prediction(done.before)
        for path in done.touched:
            then, left, now = done.before.get(path), done.after.get(path), self.tree.get(path)
            if now == then:
                continue
            if now == left:
                found.wanted[path] = then
            else:
                found.conflicts[path] = "changed_later"
        return found


def _chosen(path: bytes, chosen: Collection[bytes]) -> bool:
    return not chosen or any((path + b"/").startswith(one + b"/") for one in chosen)


def promised(now: Tree, predicted: Prediction, answer: Mapping[str, Any]) -> Tree:
    """The tree that ``answer`` promises. AssertionError where that is not what was predicted."""
    listed = {
        name: {_path(entry): entry.get("reason", "") for entry in answer[name]}
        for name in ("restored", "removed", "kept", "conflicts", "merged", "skipped", "changed_since")
    }
    assert not any(listed[name] for name in ("merged", "skipped", "changed_since")), listed
    after = dict(now)
    for path in listed["removed"]:
        gone = path in predicted.wanted and predicted.wanted[path] is None
        assert gone or path in predicted.unsure, (path, "removed", predicted)
        del after[path]
    for path, reason in listed["restored"].items():
        if reason == "parent" and path not in predicted.wanted:
            assert path not in now, (path, reason)
            assert any(child.startswith(path + b"/") for child in listed["restored"]), (path, reason)
            after[path] = predicted.then[path]
        else:
            assert predicted.wanted.get(path) is not None, (path, "restored", predicted)
            after[path] = predicted.wanted[path]  # type: ignore[assignment]
    _explained(predicted, after, listed)
    return after


def _path(entry: Mapping[str, str]) -> bytes:
    return b64decode(entry["path_b64"]) if "path_b64" in entry else entry["path"].encode()


def _explained(predicted: Prediction, after: Tree, listed: Mapping[str, Mapping[bytes, str]]) -> None:
    """Nothing that was wanted is missing without a reason, and no reason is a pretext."""
    done = listed["restored"].keys() | listed["removed"].keys()
    stays = {**listed["kept"], **listed["conflicts"]}
    for path in predicted.wanted.keys() - done - predicted.unsure:
        assert stays.get(path) in SHAPES, (path, "neither done nor explained", stays.get(path))
    for path, reason in stays.items():
        if reason in SHAPES:
            assert _shaped(path, reason, after), (path, reason)
        else:
            expected = predicted.conflicts.get(path) or predicted.kept.get(path)
            assert reason == expected or path in predicted.unsure, (path, reason, expected)
    for path in predicted.conflicts.keys() | predicted.kept.keys():
        assert path in stays or path in predicted.unsure, (path, "must stay, and be listed")


def _shaped(path: bytes, reason: str, after: Tree) -> bool:
    if reason == "parent_not_directory":
        return not has_parents(path, after)
    return any(other.startswith(path + b"/") for other in after)


def has_parents(path: bytes, tree: Tree) -> bool:
    """Whether ``path`` may stand in ``tree``: all above it are directories."""
    parents = [path[:at] for at, char in enumerate(path) if char == ord("/")]
    return all(tree.get(parent, ("",))[0] == "dir" for parent in parents)
