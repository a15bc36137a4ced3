"""Hooks of Claude Code: https://code.claude.com/docs/en/hooks.

An interrupted turn tells nothing of its end: the next prompt of the session ends it, or the end of the session.
"""

from __future__ import annotations

from typing import Any

from openoxide.agents.bringing import brought
from openoxide.agents.hooks import HookCall, Kind, Payload, Write, call, path, text, tool_call, undeclared, written

KINDS = {
    "SessionStart": Kind.SESSION_START,
    "UserPromptSubmit": Kind.TURN_BEGIN,
    "PreToolUse": Kind.TOOL_BEGIN,
    "PostToolUse": Kind.TOOL_END,
    "PostToolUseFailure": Kind.TOOL_END,
    "Stop": Kind.TURN_END,
    "StopFailure": Kind.TURN_END,
    "SessionEnd": Kind.SESSION_END,
}
# any other tool, one of a server too, may write
READERS = frozenset(
    "Read Glob Grep LS NotebookRead WebFetch WebSearch ToolSearch TodoWrite Task Agent AskUserQuestion ExitPlanMode".split()
)


def read(event: str, payload: Payload, moment: str) -> HookCall:
    """What a hook of Claude Code tells. Tool calls of a subagent are those of the turn that started it."""
    found = call(KINDS, event, payload, text(payload, "prompt_id"), moment)
    if found.kind not in {Kind.TOOL_BEGIN, Kind.TOOL_END}:
        return found
    name = text(payload, "tool_name")
    if name in READERS:
        return undeclared(found, f"{name} writes no file", brought(payload))
    writes = _writes(name, payload, payload.get("tool_response"))
    return tool_call(found, text(payload, "tool_use_id"), writes, brought(payload))


def _writes(name: str, payload: Payload, response: Any) -> tuple[Write, ...]:
    """What the tool meant to leave: it is the call's only where these very bytes are found there."""
    where = path(payload.get("tool_input"), "file_path", path(payload, "cwd"))
    if not isinstance(response, dict):
        return ()
    match name:
        case "Write":
            return written(where, response.get("content"))
        case "Edit":
            return written(where, _edited(response))
        case _:
            return ()


def _edited(response: Payload) -> str | None:
    before, old, new = (response.get(name) for name in ("originalFile", "oldString", "newString"))
    if not (isinstance(before, str) and isinstance(old, str) and isinstance(new, str) and old):
        return None
    return before.replace(old, new, -1 if response.get("replaceAll") is True else 1)
