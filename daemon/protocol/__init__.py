"""What travels over the socket: request names, answer shapes, the protocol version.

Every operation is ``POST /v1/NAME`` with a JSON object and answers one: ``{"ok": true, ...}``, or
``{"ok": false, "error": {...}}`` (openoxide.errors). ``cat`` alone answers raw bytes. With
``Accept: text/event-stream`` progress comes first, as Server-Sent Events named ``progress``; the answer is the event
``answer``. Fields may be added in a version, never changed. Times are RFC 3339 UTC, sizes bytes, paths relative to the
worktree: as text with unprintable parts escaped, and as ``path_b64`` beside it where the text is not the whole truth.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

PROTOCOL = 1
PROTOCOL_HEADER = "X-OpenOxide-Protocol"
VERSION_HEADER = "X-OpenOxide-Version"
MAX_REQUEST_BYTES = 8 << 20
HOST = "openoxide"
PREFIX = "/v1/"
EVENT_STREAM = "text/event-stream"
OCTETS = "application/octet-stream"
NOT_RUN = 503  # sent where the request was not carried out at all: it may be sent again
STOP_HINT = "run `oxide-ctl stop`; the next command starts a daemon of its own version"
ANY_VERSION = frozenset({"ping", "stop"})  # a client of another version must be able to stop the daemon
ONLY_READS = frozenset(
    {
        "ping",
        "status",
        "projects",
        "du",
        "check",
        "log",
        "show",
        "diff",
        "cat",
        "history",
        "operations",
        "survey",
        "memory_index",
        "memory_topics",
        "memory_read",
        "memory_read_version",
        "memory_search",
        "memory_lint",
        "memory_history",
        "memory_blame",
        "memory_review",
    }
)
"""What may be asked for again where an answer was cut off: it changes nothing that anybody could tell."""
MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103

STATUS_BY_KIND = {
    "usage": 400,
    "refused": 403,
    "not_found": 404,
    "ambiguous": 409,
    "conflict": 409,
    "version_mismatch": 426,
    "store_full": 507,
}


class PathEntry(TypedDict):
    """A path, with why it is listed."""

    path: str
    path_b64: NotRequired[str]
    reason: NotRequired[str]
    size_bytes: NotRequired[int]


class Items(TypedDict):
    """A list; ``next`` is the cursor of the following page, ``hint`` what can be done with what is listed."""

    ok: bool
    items: list[Any]
    next: NotRequired[str]
    hint: NotRequired[str]
    note: NotRequired[str]


Progress = dict[str, Any]
"""``{"stage", "done", "total", "bytes"}``: what a long operation has done so far; ``total`` is 0 while not known."""

ProgressCallback = Callable[[Progress], None]


def printable(text: str) -> str:
    r"""``text`` with control characters, bidi marks and undecodable bytes as visible ``\x..`` or ``\u....`` escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_entry(path: bytes, reason: str = "", size_bytes: int | None = None) -> PathEntry:
    """``path`` as answers carry it."""
    decoded = path.decode("utf-8", "surrogateescape")
    shown = printable(decoded)
    entry: PathEntry = {"path": shown}
    if shown != decoded:
        entry["path_b64"] = b64encode(path).decode("ascii")
    if reason:
        entry["reason"] = reason
    if size_bytes is not None:
        entry["size_bytes"] = size_bytes
    return entry


def entry_path(entry: PathEntry) -> bytes:
    """The path that :func:`path_entry` made ``entry`` from."""
    if "path_b64" in entry:
        return b64decode(entry["path_b64"])
    return entry["path"].encode("utf-8", "surrogateescape")
