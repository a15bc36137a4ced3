"""Turns that are open though nothing was heard of their session for hours. Their agent may have died: then what anybody
writes is taken for its own, until somebody ends the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from openoxide.checkpoints.model import WindowKind
from openoxide.checkpoints.store import WindowRow, open_windows
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
        IdleTurn(agent=t.agent, session=t.session, prompt=t.prompt, heard_ms=_heard_ms(db, worktree, t.session))
        for t in turns
    ]
    return [turn for turn in found if now_ms - turn.heard_ms >= SILENT_MS]


def _heard_ms(db: Transaction, worktree: int, session: str) -> int:
    """When the session last began or ended a turn or a tool call."""
    declared = WindowRow.select().where(WindowRow.worktree == worktree, WindowRow.session == session)
    began = declared.order_by(WindowRow.began_ms.desc()).limit(1).execute(db)
    ended = declared.where(WindowRow.ended_ms.is_null(False)).order_by(WindowRow.ended_ms.desc()).limit(1).execute(db)
    return max([*(int(row.began_ms) for row in began), *(int(row.ended_ms) for row in ended)])
