"""Which tool calls bring before a session what nobody here vouches for: pages, answers of servers, files from elsewhere. Pure.

The name of the tool says it, or the command that a shell is to run, or the paths that it reads; whether a path is from elsewhere
is for whoever knows the project. A program that fetches something by itself is not seen, nor is a file that a shell reads.
"""

from __future__ import annotations

import re
from typing import Any

from openoxide.agents.hooks import Brought, Payload, path, text

MAX_COMMAND = 4 << 20
MOST_PATHS = 100
WEB = frozenset("WebFetch WebSearch web_fetch google_web_search web_search".split())
SERVER = ("mcp__", "mcp_")
SHELLS = frozenset("Bash PowerShell run_shell_command shell local_shell exec_command".split())
READING = frozenset(
    "Read Grep Glob LS NotebookRead read_file read_many_files grep_search search_file_content glob".split()
)
# issues and pull requests are written by anybody
_FETCHING = re.compile(r"(?:^|[\s;&|(`])(?:\S*/)?(?:curl|wget|gh)\s")
_PATHS = ("file_path", "absolute_path", "notebook_path", "path", "dir_path")
_LISTS = ("paths", "include")


def brought(payload: Payload) -> Brought | None:
    """What a tool call brings, None where that is the project's own for all that is told."""
    name, arguments = text(payload, "tool_name"), payload.get("tool_input")
    if name in WEB or name.startswith(SERVER) or isinstance(payload.get("mcp_context"), dict):
        return Brought(name) if name else None
    if name in SHELLS:
        return Brought(name) if _FETCHING.search(text(arguments, "command", MAX_COMMAND)) else None
    found = _read(arguments, path(payload, "cwd")) if name in READING else ()
    return Brought(name, found) if found else None


def _read(arguments: Any, cwd: str) -> tuple[str, ...]:
    found = [path(arguments, name, cwd) for name in _PATHS]
    for name in _LISTS:
        listed = arguments.get(name) if isinstance(arguments, dict) else None
        found += [
            path({"path": item}, "path", cwd) for item in (listed[:MOST_PATHS] if isinstance(listed, list) else ())
        ]
    return tuple(dict.fromkeys(filter(None, found)))
