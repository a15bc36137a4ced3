"""Every error a user can meet, and the exit code of each.

A class for each thing a caller can do something about. The message says what failed and on which object, without a
final period; ``hint`` says what to do next. ``EXIT_CODES`` is the one table from classes to exit codes (docs/scripting.md).
"""

from __future__ import annotations

from typing import Any


class OpenOxideError(Exception):
    """Base of all errors that are shown to a user; ``details`` is JSON-ready and goes into the error object."""

    kind = "failed"

    def __init__(self, message: str, *, hint: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}


class FailedError(OpenOxideError):
    """The command could not be carried out; nothing is half done."""


FULL_HINT = (
    "free some space and try again; `oxide-ctl expire --trash`, then `oxide-ctl prune` takes it from the history"
)


class StoreFullError(OpenOxideError):
    """The disk that holds the store, or the staging folder of a rewind, is full."""

    kind = "store_full"


class NewerStoreError(OpenOxideError):
    """The store was written by a newer version; it is left untouched."""

    kind = "newer_store"


class RootVanishedError(OpenOxideError):
    """The worktree's root is gone, was replaced or was unmounted; the worktree is paused."""

    kind = "root_vanished"


class InterruptedOperationError(OpenOxideError):
    """An earlier rewind of this worktree has to be continued or aborted first."""

    kind = "operation_interrupted"


class AlreadyRunningError(OpenOxideError):
    """Another daemon owns this home."""

    kind = "already_running"


class UsageError(OpenOxideError):
    """The request itself is wrong: a path that is no directory, a path outside the worktree, an unknown option."""

    kind = "usage"


class ConflictError(OpenOxideError):
    """The whole operation was refused because of conflicts; nothing changed."""

    kind = "conflict"


class NotFoundError(OpenOxideError):
    """No such worktree, checkpoint, operation or path."""

    kind = "not_found"


class AmbiguousError(OpenOxideError):
    """What was named fits more than one checkpoint or history; ``details["candidates"]`` lists them."""

    kind = "ambiguous"


class DaemonUnreachableError(OpenOxideError):
    """The daemon does not answer and could not be started."""

    kind = "daemon_unreachable"


class VersionMismatchError(OpenOxideError):
    """The daemon speaks another protocol version than this client."""

    kind = "version_mismatch"


class StoreReadOnlyError(OpenOxideError):
    """The home cannot be written; only reading commands work."""

    kind = "store_read_only"


class StoreDamagedError(OpenOxideError):
    """Stored bytes are missing or are not what their name says; ``details["paths"]`` lists what is affected."""

    kind = "store_damaged"


class RefusedError(OpenOxideError):
    """Refused for safety, or for want of a yes."""

    kind = "refused"


# 130 as a shell tells of SIGINT: 128 + 2
EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL, EXIT_INTERRUPTED = 0, 1, 3, 130

EXIT_CODES: dict[type[OpenOxideError], int] = {
    FailedError: 1,
    StoreFullError: 1,
    NewerStoreError: 1,
    RootVanishedError: 1,
    InterruptedOperationError: 1,
    AlreadyRunningError: 1,
    UsageError: 2,
    ConflictError: 4,
    NotFoundError: 5,
    AmbiguousError: 5,
    DaemonUnreachableError: 6,
    VersionMismatchError: 6,
    StoreReadOnlyError: 6,
    StoreDamagedError: 7,
    RefusedError: 8,
}

BY_KIND: dict[str, type[OpenOxideError]] = {cls.kind: cls for cls in EXIT_CODES}


def exit_code(error: OpenOxideError) -> int:
    """The exit code for ``error`` (1 for a class that the table does not name)."""
    return EXIT_CODES.get(type(error), 1)


def error_object(error: OpenOxideError) -> dict[str, Any]:
    """``{"kind", "message", "hint", ...}`` as it stands in a JSON answer and on the wire."""
    # the details first: they cannot replace what the error is (tests/openoxide/test_errors.py)
    return {**error.details, "kind": error.kind, "message": error.message, "hint": error.hint}


def from_object(obj: dict[str, Any]) -> OpenOxideError:
    """The exception that :func:`error_object` made ``obj`` from."""
    details = {key: value for key, value in obj.items() if key not in ("kind", "message", "hint")}
    # a daemon of another version may know kinds that we do not
    cls = BY_KIND.get(str(obj.get("kind")), FailedError)
    return cls(str(obj.get("message", "unknown error")), hint=str(obj.get("hint", "")), details=details)
