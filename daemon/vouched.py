"""What is known of the notes of a project as they stand now, for those who give them to agents and to people."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from openoxide.checkpoints import rows, vouching
from openoxide.checkpoints.model import BlobHash, Mark, Worktree
from openoxide.daemon.memories import files_at
from openoxide.errors import OpenOxideError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.markdown import decoded
from openoxide.memory.naming import INDEX
from openoxide.memory.standing import UNVERIFIED, Stand, Standing, Vouched, line_text

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

log = logging.getLogger(__name__)


def is_reviewed(service: Service, tree: Worktree) -> bool:
    """Whether the policy of the project of ``tree`` is ``review``."""
    roots = {other.worktree.root for other in service.trees() if other.worktree.project == tree.project}
    return service.settings.reviewed({tree.root, *roots})


def recorded_memory(service: Service, directory: MemoryDirectory) -> Worktree | None:
    """The memory in ``directory`` with all that was done to it until now, so far as that can be recorded."""
    watched = service.memories.of(directory)
    if watched is None:
        return service.memories.known(directory)
    try:
        with watched.lock:
            service.attach(watched)
            watched.record()
    except OpenOxideError as error:
        log.warning("what was done to the memory of %s is not recorded yet: %s", directory.path, error)
    return watched.worktree


def contents_now(service: Service, worktree: Worktree) -> dict[str, BlobHash]:
    """The files of a memory as they were recorded last."""
    with service.timeline.database.reading() as db:
        states = files_at(db, worktree.id, rows.read_head(db, worktree.id).seq)
    return {os.fsdecode(path): state.blob for path, state in states.items() if state.blob is not None}


def stands_now(service: Service, worktree: Worktree, index: bytes) -> Vouched:
    """What is known of each file of a memory, and of each line of ``index``."""
    contents = contents_now(service, worktree)
    lines = {line_text(line) for line in decoded(index).split("\n")}
    files, texts = service.memories.standings(worktree).of(set(contents.values()), lines)
    return Vouched(lines=texts, files={name: files[content] for name, content in contents.items() if name != INDEX})


def known_of(service: Service, tree: Worktree, index: bytes) -> Vouched:
    """As :func:`stands_now`, of all that a worktree reads: a file is its own before the project's, a line is vouched for where
    it is in one of the two.
    """
    layers = service.memories.layers(tree)
    lines: dict[str, Stand] = {}
    files: dict[str, Stand] = {}
    for directory in filter(None, (layers.below, layers.own)):
        worktree = recorded_memory(service, directory)
        if worktree is None:
            continue
        found = stands_now(service, worktree, index)
        files |= found.files
        for line, one in found.lines.items():
            lines[line] = min(
                lines.get(line, one), one, key=lambda each: (each.standing is not Standing.VERIFIED, not each.tainted)
            )
    return Vouched(lines=lines, files=files)


def vouched(service: Service, tree: Worktree, index: bytes, names: Iterable[str]) -> Vouched | None:
    """What agents are to be told of who wrote a memory, None where there is nothing to tell. Whoever starts a session waits for
    it.
    """
    review = is_reviewed(service, tree)
    if not review and not _is_doubtful(service, tree):
        return None
    found = known_of(service, tree, index)
    # what came to be in this very moment is not recorded: nobody vouches for it
    files = {name: found.files.get(name, UNVERIFIED) for name in names if name != INDEX}
    return Vouched(lines=found.lines, files=files, review=review)


def _is_doubtful(service: Service, tree: Worktree) -> bool:
    """Whether a tainted session worked here, or the user disputes something."""
    memories = [memory.worktree.id for memory in service.memories.read_by(tree)]
    with service.timeline.database.reading() as db:
        return any(Mark.DISPUTED in vouching.marks(db, id_).values() or vouching.taints(db, id_) for id_ in memories)
