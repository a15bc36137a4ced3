"""Hooks for the fault lab: ``python -m tests.faults.hook_worker FOLDER``, where FOLDER holds ``project`` and ``home``.

A turn and two of its tool calls lie in the spool, one call of them over. The daemon starts and takes them up; what it
holds open then is acknowledged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

CALLS = (
    ("UserPromptSubmit", ""),
    ("PreToolUse", "over"),
    ("PreToolUse", "open"),
    ("PostToolUse", "over"),
)


def request(root: Path, event: str, tool: str) -> dict[str, Any]:
    """What a hook of Claude Code sends."""
    payload = {"session_id": "s", "prompt_id": "p", "cwd": str(root), "tool_name": "Bash", "tool_use_id": tool}
    return {"payload": payload, "agent": "claude", "event": event}


def leave(box: Box) -> None:
    """Put CALLS into the spool."""
    box.home.spool.mkdir(mode=0o700)
    for number, (event, tool) in enumerate(CALLS):
        name = f"{box.clock.now_ms() * 1_000_000 + number:020d}-1.json"
        (box.home.spool / name).write_text(json.dumps(request(box.root, event, tool)))


def windows(box: Box) -> list[tuple[str, str | None]]:
    """What is open."""
    (watched,) = box.service.all_watched()
    return [(window.kind.value, window.tool) for window in watched.windows]


def main(folder: Path) -> None:
    box = Box(folder, clock=FakeClock())
    (box.root / "a").write_text("one\n")
    box.watch()
    box.stop()
    leave(box)
    arm()
    box.start()
    box.call("hook")
    ack(json.dumps(windows(box)))
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
