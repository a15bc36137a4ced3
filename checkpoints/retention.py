"""What must never be forgotten, by whoever asks. Pure.

The floor: pins, the newest checkpoint, what the last operations go back to, the starts of the last turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from openoxide.checkpoints.model import Checkpoint, Trigger

# the floor of docs/design.md, Forgetting
FLOOR_OPERATIONS = 10
FLOOR_TURNS = 3


class Reason(str, Enum):
    """Why a checkpoint stays."""

    PINNED = "pinned"
    NEWEST = "newest"
    UNDO = "needed_by_undo"
    RECENT_TURN = "recent_turn"


class Held(Protocol):
    """What the floor goes by: a checkpoint, whole or in part."""

    @property
    def id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def trigger(self) -> Trigger: ...
    @property
    def pinned(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint that stays, and why."""

    checkpoint: Checkpoint
    reason: Reason


def floor(kept: Sequence[Held], befores: Collection[str]) -> dict[str, Reason]:
    """Which of ``kept``, all the sealed checkpoints of a worktree that are not in trash, must stay: by id, with the first
    reason that holds. ``befores``: ids of what the operations that can still be reversed or settled go back to.
    """
    newest_first = sorted(kept, key=lambda checkpoint: checkpoint.number, reverse=True)
    turns = [checkpoint for checkpoint in newest_first if checkpoint.trigger is Trigger.PROMPT]
    # the weakest reason first: what comes later replaces it
    found = {checkpoint.id: Reason.RECENT_TURN for checkpoint in turns[:FLOOR_TURNS]}
    found |= {checkpoint.id: Reason.UNDO for checkpoint in newest_first if checkpoint.id in befores}
    found |= {checkpoint.id: Reason.NEWEST for checkpoint in newest_first[:1]}
    return found | {checkpoint.id: Reason.PINNED for checkpoint in newest_first if checkpoint.pinned}


def spare(asked: Iterable[Checkpoint], reasons: dict[str, Reason]) -> tuple[list[Checkpoint], list[Kept]]:
    """``asked``, each once and in number order: what goes, and what stays because of ``reasons``."""
    # two names may have meant the same one
    each = sorted(
        {checkpoint.id: checkpoint for checkpoint in asked}.values(), key=lambda checkpoint: checkpoint.number
    )
    go = [checkpoint for checkpoint in each if checkpoint.id not in reasons]
    stay = [
        Kept(checkpoint=checkpoint, reason=reasons[checkpoint.id]) for checkpoint in each if checkpoint.id in reasons
    ]
    return go, stay
