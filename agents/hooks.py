"""What a hook of any agent tells, in our words. Pure; a payload may hold anything, and none raises.

A reader (``claude.read``, ``codex.read``, ``gemini.read``) takes the name of the event, the payload and a name for this
moment, which stands in where the agent has none for its prompt.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

MAX_ID, MAX_PATH = 200, 4_096

Payload = Mapping[str, Any]


class Kind(str, Enum):
    """What begins or ends. NONE: nothing that concerns us, or nothing that can be understood."""

    SESSION_START = "session_start"
    TURN_BEGIN = "turn_begin"
    TOOL_BEGIN = "tool_begin"
    TOOL_END = "tool_end"
    TURN_END = "turn_end"
    SESSION_END = "session_end"
    NONE = "none"


class Write(NamedTuple):
    """A file that a tool call wrote: its absolute path, and all of its bytes as the tool meant them to be."""

    path: str
    content: bytes


class Brought(NamedTuple):
    """What a tool call brings before its session (agents/bringing.py): from elsewhere for sure, or where one of ``paths`` is."""

    tool: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """``prompt`` names the turn, None where the payload does not say which; ``reason`` says why the kind is NONE. ``brought`` is
    told whatever the kind is.
    """

    kind: Kind
    session: str = ""
    prompt: str | None = None
    tool: str = ""
    cwd: str = ""
    writes: tuple[Write, ...] = ()
    brought: Brought | None = None
    reason: str = ""


Reader = Callable[[str, Payload, str], HookCall]


def nothing(reason: str) -> HookCall:
    """A hook that declares nothing."""
    return HookCall(kind=Kind.NONE, reason=reason)


def text(payload: Any, name: str, limit: int = MAX_ID) -> str:
    """A field that can be stored and shown, else an empty text."""
    value = payload.get(name) if isinstance(payload, Mapping) else None
    if not isinstance(value, str) or len(value) > limit or "\0" in value or _bytes(value) is None:
        return ""
    return value


def path(payload: Any, name: str, cwd: str = "") -> str:
    """An absolute path, from ``cwd`` where it is relative, else an empty text."""
    found = text(payload, name, MAX_PATH)
    joined = posixpath.join(cwd, found) if found else ""
    return joined if posixpath.isabs(joined) else ""


def written(where: str, content: Any) -> tuple[Write, ...]:
    """One write, none where place or content are not known for sure."""
    found = _bytes(content) if where and isinstance(content, str) else None
    return (Write(where, found),) if found is not None else ()


def call(kinds: Mapping[str, Kind], event: str, payload: Payload, prompt: str, moment: str) -> HookCall:
    """What ``kinds`` says of the event, with the fields that all agents name alike. A turn that begins without a prompt of
    its own is named after the moment.
    """
    kind = kinds.get(event, Kind.NONE)
    session = text(payload, "session_id")
    if kind is Kind.NONE:
        return nothing(f"{event} declares nothing")
    if not session:
        return nothing(f"{event} names no session")
    named = prompt or (moment if kind is Kind.TURN_BEGIN else None)
    return HookCall(kind=kind, session=session, prompt=named, cwd=path(payload, "cwd"))


def tool_call(found: HookCall, tool: str, writes: tuple[Write, ...], brought: Brought | None) -> HookCall:
    """``found`` with the tool call that it is about."""
    if not tool:
        return undeclared(found, "the tool call has no id", brought)
    return replace(found, tool=tool, writes=writes if found.kind is Kind.TOOL_END else (), brought=brought)


def undeclared(found: HookCall, reason: str, brought: Brought | None) -> HookCall:
    """A tool call that declares nothing, and may bring something all the same."""
    if brought is None:
        return nothing(reason)
    return HookCall(kind=Kind.NONE, reason=reason, session=found.session, cwd=found.cwd, brought=brought)


def _bytes(value: str) -> bytes | None:
    """None for a lone surrogate: neither a path nor SQLite's text nor a file that an agent wrote can hold one."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        return None
