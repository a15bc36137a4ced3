"""What ``oxide-hook`` asks and is answered.

The request is ``{"payload", "agent", "event", "at_ms"}``: what the agent gave its hook, as it is, and when that began (boot
clock). Beside it stand ``project_dir`` where the agent told where it was started, ``due_ms`` until when the agent waits for
the answer, and ``dropped_bytes`` where the payload was too large to be sent.
"""

from __future__ import annotations

from typing import TypedDict


class HookAnswer(TypedDict):
    """``stdout`` is for the agent, most often empty; ``notes`` say why nothing, or not all, was declared."""

    ok: bool
    stdout: str
    notes: list[str]
