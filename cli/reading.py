"""A store that cannot be written is still read: in this process, since no daemon serves it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from openoxide.daemon.client import Client
from openoxide.errors import OpenOxideError, StoreDamagedError, StoreFullError, StoreReadOnlyError

if TYPE_CHECKING:
    from openoxide.daemon.protocol import ProgressCallback
    from openoxide.daemon.protocol.health import RepairAnswer

NOTE = "the store cannot be written: it was read without a daemon, and nothing is recorded"
DAMAGED_NOTE = "no daemon starts with this store: it was checked without one"


class ReadingClient(Client):
    """A client that looks into the store itself where the daemon refuses; ``note`` is told when it did."""

    def __init__(self, path: str, *, autostart: bool, note: Callable[[str], None]) -> None:
        super().__init__(path, autostart=autostart)
        self._note = note

    def call(self, name: str, request: Mapping[str, Any], progress: ProgressCallback | None = None) -> dict[str, Any]:
        try:
            return super().call(name, request, progress)
        except (StoreReadOnlyError, StoreFullError) as error:
            answer = self._look_instead(name, request, error)
        except StoreDamagedError:
            if name != "check":
                raise
            # no daemon starts on what it is asked to look at
            answer = self._look(name, request, DAMAGED_NOTE)
        assert isinstance(answer, dict)
        return {"ok": True, **answer}

    def call_bytes(self, name: str, request: Mapping[str, Any]) -> bytes:
        try:
            return super().call_bytes(name, request)
        except (StoreReadOnlyError, StoreFullError) as error:
            answer = self._look_instead(name, request, error)
            assert isinstance(answer, bytes)
            return answer

    def repair(self, *, dry_run: bool, progress: ProgressCallback | None = None) -> RepairAnswer:
        """No daemon is asked: one that runs has to be stopped first, unless it is a dry run."""
        from openoxide.daemon import offline  # noqa: PLC0415 half of the daemon comes with it

        return offline.repair(os.environ, dry_run=dry_run, report=progress or (lambda _: None))

    def _look_instead(self, name: str, request: Mapping[str, Any], error: OpenOxideError) -> dict[str, Any] | bytes:
        """The answer without the daemon that could not start. Raises ``error`` where one runs, or for a command that writes."""
        if isinstance(error, StoreFullError):
            from openoxide.daemon import offline  # noqa: PLC0415 half of the daemon comes with it

            if name not in offline.ANSWERABLE or self.runs():
                raise error
        return self._look(name, request, NOTE)

    def _look(self, name: str, request: Mapping[str, Any], note: str) -> dict[str, Any] | bytes:
        from openoxide.daemon import offline  # noqa: PLC0415 half of the daemon comes with it

        answer = offline.answer(name, dict(request), os.environ)
        self._note(note)
        return answer
