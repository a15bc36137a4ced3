"""When a memory is paused: while all watched trees that read it are. It follows whatever happens to them; what was done until
a pause is recorded before it, what was done in it after it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from openoxide.checkpoints.model import Trigger, Worktree
from openoxide.daemon.watched import Label, Watched
from openoxide.errors import OpenOxideError

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

log = logging.getLogger(__name__)


class Pause(NamedTuple):
    """Until when one lasts; None: until somebody ends it."""

    until_ms: int | None


def pause_of(trees: Sequence[Worktree | None]) -> Pause | None:
    """The pause of a memory that these watched trees read (None: one whose pause is over); None where it has none, since one
    of them is recorded. It ends with the first of theirs. Pure.
    """
    paused = [tree for tree in trees if tree is not None and tree.paused_ms is not None]
    if not trees or len(paused) < len(trees):
        return None
    return Pause(min((tree.paused_until_ms for tree in paused if tree.paused_until_ms is not None), default=None))


def follow(service: Service, tree: Worktree) -> None:
    """After ``tree`` was paused, or is not any more, or came: the same for the memories that it reads. The caller may hold the
    lock of one of the trees.
    """
    for directory in service.memories.layers(tree).both:
        memory = service.memories.of(directory)
        if memory is not None:
            _follow_readers(service, memory)


def try_to_follow(service: Service, tree: Worktree) -> None:
    """As :func:`follow`, where what is done to a tree does not fail for its memories."""
    for directory in service.memories.layers(tree).both:
        try:
            memory = service.memories.of(directory)
        except OpenOxideError as error:
            log.warning("the memory of %s does not follow a pause: %s", tree.project, error)
            continue
        if memory is not None:
            try_to_follow_readers(service, memory)


def try_to_follow_readers(service: Service, memory: Watched) -> None:
    """After the trees that read a memory have become others. The caller may hold the lock of one of them."""
    try:
        _follow_readers(service, memory)
    except OpenOxideError as error:
        log.warning("the memory of %s does not follow a pause: %s", memory.worktree.project, error)


def _follow_readers(service: Service, memory: Watched) -> None:
    with memory.lock:
        if memory.released:
            return
        if _pause(service, memory) is not None and not memory.paused:
            service.attach(memory)
            memory.seal(Label(trigger=Trigger.QUIET, turn=memory.only_turn, only_if_changed=True))
        align(service, memory)
        if not memory.paused:
            service.attach(memory)


def align(service: Service, memory: Watched) -> None:
    """As the trees say, who may have been stopped in the middle of telling it. The caller holds its lock."""
    pause = _pause(service, memory)
    if pause is not None and (not memory.paused or memory.worktree.paused_until_ms != pause.until_ms):
        # its end needs no clock of its own: that of a tree, or the heartbeat, is told of to both
        memory.set_pause(memory.worktree.paused_ms or service.clock.now_ms(), pause.until_ms)
    if pause is None and memory.paused:
        memory.set_pause(None, None)


def _pause(service: Service, memory: Watched) -> Pause | None:
    now_ms = service.clock.now_ms()
    trees = service.memories.readers(memory.worktree)
    return pause_of([None if tree.pause_is_over(now_ms) else tree.worktree for tree in trees])
