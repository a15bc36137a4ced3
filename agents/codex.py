"""Hooks of Codex: https://developers.openai.com/codex/hooks. They are Claude Code's but for the names of some fields."""

from __future__ import annotations

import posixpath
from itertools import pairwise

from openoxide.agents.bringing import brought
from openoxide.agents.hooks import HookCall, Kind, Payload, Write, call, nothing, path, text, tool_call, written

KINDS = {
    "SessionStart": Kind.SESSION_START,
    "UserPromptSubmit": Kind.TURN_BEGIN,
    "PreToolUse": Kind.TOOL_BEGIN,
    "PostToolUse": Kind.TOOL_END,
    "Stop": Kind.TURN_END,
    "Interrupt": Kind.TURN_END,
    "SessionEnd": Kind.SESSION_END,
}
MAX_PATCH = 4 << 20
_ADD = "*** Add File: "


def read(event: str, payload: Payload, moment: str) -> HookCall:
    """What a hook of Codex tells. The session in which it looks after its own memories works on no project."""
    if not isinstance(payload.get("transcript_path"), str) or _is_of_memories(path(payload, "cwd")):
        return nothing("a session of Codex itself")
    found = call(KINDS, event, payload, text(payload, "turn_id"), moment)
    if found.kind not in {Kind.TOOL_BEGIN, Kind.TOOL_END}:
        return found
    writes = _added(payload, found.cwd) if text(payload, "tool_name") == "apply_patch" else ()
    return tool_call(found, text(payload, "tool_use_id"), writes, brought(payload))


def _is_of_memories(cwd: str) -> bool:
    parts = posixpath.normpath(cwd).split("/") if cwd else []
    return any(home == ".codex" and name.startswith("memories") for home, name in pairwise(parts))


def _added(payload: Payload, cwd: str) -> tuple[Write, ...]:
    """The files that a patch makes: it holds all of their bytes, but of a changed file only some."""
    found: list[Write] = []
    patch = text(payload.get("tool_input"), "command", MAX_PATCH)
    for part in patch.split("\n" + _ADD)[1:]:
        name, *lines = part.split("\n")
        body = [line for line in lines[: _end(lines)] if line]
        # what is no line of the file makes the rest of it doubtful too
        if all(line.startswith("+") for line in body):
            content = "".join(line[1:] + "\n" for line in body)
            found += written(path({"path": name.strip()}, "path", cwd), content)
    return tuple(found)


def _end(lines: list[str]) -> int:
    return next((number for number, line in enumerate(lines) if line.startswith("*** ")), len(lines))
