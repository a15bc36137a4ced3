"""What a timeline says stood in a tree, described as the oracle of ``tests.kit`` describes the disk."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from openoxide.checkpoints import rows
from openoxide.checkpoints.model import FileState, Kind
from tests.kit import Description, diff_trees, tree_of
from tests.kit.box import Box

PASS_WITHIN_S = 120


def recorded_tree(box: Box, seq: int, root: Path | None = None) -> dict[bytes, Description]:
    """The whole worktree at ``root``, or the box's own, at a position; what a rule leaves out is not in it."""
    states = box.service.timeline.states(_worktree(box, root or box.root), seq)
    return _described(box, states)


def recorded_below(box: Box, seq: int, path: bytes) -> dict[bytes, Description]:
    """``path`` and all below it at a position."""
    worktree = _worktree(box, box.root)
    with box.service.timeline.database.reading() as db:
        states = rows.states_at(db, worktree, seq, [path]) | rows.states_below(db, worktree, seq, path)
    return _described(box, states)


def differences(box: Box, seq: int, skip: Collection[bytes] = (b".git",)) -> list[str]:
    """How the record at a position differs from what stands on the disk now; names in ``skip`` are not recorded."""
    return diff_trees(tree_of(box.root, skip), recorded_tree(box, seq))


def complete(box: Box) -> Any:
    """A checkpoint that calls itself complete, and is."""
    sealed = box.checkpoint()
    assert (sealed["complete"], sealed["gap"]) == (True, "")
    lost = differences(box, sealed["seq"])
    assert lost == [], f"{len(lost)} lost"
    return sealed


def wait_for_full_pass(box: Box) -> None:
    """Returns when every full pass that has been asked for by now is over."""
    done = threading.Event()
    box.service.background.submit("a test waits", done.set)
    assert done.wait(PASS_WITHIN_S)


def pass_of_the_clock(box: Box) -> None:
    """The full pass that comes round by itself; returns when it is over."""
    for watched in box.service.all_watched():
        watched.last_pass = None  # its time has come
    box.service.beat()
    wait_for_full_pass(box)


def _worktree(box: Box, root: Path) -> int:
    return box.service.find(bytes(root)).worktree.id


def _described(box: Box, states: dict[bytes, FileState]) -> dict[bytes, Description]:
    here = {path: state for path, state in states.items() if state.kind not in (Kind.ABSENT, Kind.SKIPPED)}
    return {path: _description(box, state) for path, state in here.items()}


def _description(box: Box, state: FileState) -> Description:
    match state.kind:
        case Kind.FILE if state.blob is not None:
            return ("file", state.mode, state.mtime_ns, box.service.timeline.blobs.read(state.blob))
        case Kind.DIRECTORY:
            return ("dir", state.mode)
        case Kind.SYMLINK:
            return ("link", state.target)
        case Kind.SPECIAL:
            return ((state.target or b"").decode(), state.mode)
        case other:
            return (other.name, state.target)
