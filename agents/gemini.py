"""Hooks of Gemini CLI: https://geminicli.com/docs/hooks/reference.

It names neither prompts nor tool calls. A turn is named by the time that its payload tells; a call by its tool and
arguments, which both of its hooks have.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from openoxide.agents.bringing import brought
from openoxide.agents.hooks import HookCall, Kind, Payload, Write, call, path, text, tool_call, undeclared, written

KINDS = {
    "SessionStart": Kind.SESSION_START,
    "BeforeAgent": Kind.TURN_BEGIN,
    "BeforeTool": Kind.TOOL_BEGIN,
    "AfterTool": Kind.TOOL_END,
    "AfterAgent": Kind.TURN_END,
    "SessionEnd": Kind.SESSION_END,
}
READERS = frozenset(
    "read_file read_many_files list_directory glob grep_search search_file_content google_web_search web_fetch".split()
)


def read(event: str, payload: Payload, moment: str) -> HookCall:
    """What a hook of Gemini CLI tells."""
    prompt = text(payload, "timestamp") if event == "BeforeAgent" else ""
    found = call(KINDS, event, payload, prompt, moment)
    if found.kind not in {Kind.TOOL_BEGIN, Kind.TOOL_END}:
        return found
    name = text(payload, "tool_name")
    if name in READERS:
        return undeclared(found, f"{name} writes no file", brought(payload))
    return tool_call(found, _tool(name, payload.get("tool_input")), _writes(payload), brought(payload))


def _tool(name: str, arguments: Any) -> str:
    if not name:
        return ""
    said = json.dumps(arguments, sort_keys=True)  # all ASCII, whatever is in it
    return f"{name[:100]}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _writes(payload: Payload) -> tuple[Write, ...]:
    """What ``write_file`` and ``replace`` show of the file that they wrote."""
    # not the arguments: a user may have changed the proposal before it was written
    response = payload.get("tool_response")
    shown = response.get("returnDisplay") if isinstance(response, dict) else None
    if not isinstance(shown, dict):
        return ()
    return written(path(shown, "filePath"), shown.get("newContent"))
