"""Turns that are open though nothing was heard of their session for hours. Their agent may have died: then what anybody
writes is taken for its own, until somebody ends the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from openoxide.checkpoints.model import WindowKind
from openoxide.checkpoints.sight import heard_ms, open_windows
from openoxide.db import Transaction

# a choice, not a measurement: an agent may wait for its user over a long lunch, and not over a night
SILENT_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTurn:
    """An open turn; ``heard_ms``: when its session last declared anything."""

    agent: str
    session: str
    prompt: str
    heard_ms: int


def idle_turns(db: Transaction, worktree: int, now_ms: int) -> list[IdleTurn]:
    """The open turns whose sessions were silent for SILENT_MS, oldest first."""
    turns = [window for window in open_windows(db, worktree) if window.kind is WindowKind.TURN]
    found = [
        IdleTurn(agent=t.agent, session=t.session, prompt=t.prompt, heard_ms=heard_ms(db, worktree, t.session))
        for t in turns
    ]
    return [turn for turn in found if now_ms - turn.heard_ms >= SILENT_MS]
