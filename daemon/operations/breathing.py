"""Long work on the store that lets others go first, and ends where the daemon does."""

from __future__ import annotations

import time
from collections.abc import Callable

from openoxide.errors import FailedError

# a thread that seals waits for the interpreter no longer than that at a time, and then has it for a while
_WORK_SECONDS, _REST_SECONDS = 0.001, 0.001
# who records for long, as a full pass does, has to share
_LONGEST_REST_SECONDS = 0.1


class Breath:
    """To be called each few milliseconds of the work that ``what`` names. Raises FailedError where ``is_ending`` says so.
    ``is_recording``: whether somebody records right now, for whom it waits: else they would meet at the disk.
    """

    def __init__(self, what: str, is_ending: Callable[[], bool], is_recording: Callable[[], bool]) -> None:
        self._what = what
        self._is_ending = is_ending
        self._is_recording = is_recording
        self._since = time.monotonic()

    def __call__(self) -> None:
        began = time.monotonic()
        if began - self._since < _WORK_SECONDS and not self._is_recording():
            return
        if self._is_ending():
            raise FailedError(f"the daemon ends, and the {self._what} with it", hint=f"{self._what} again")
        time.sleep(_REST_SECONDS)
        while self._is_recording() and time.monotonic() - began < _LONGEST_REST_SECONDS:
            time.sleep(_REST_SECONDS)
        self._since = time.monotonic()
