"""Whether what was opened by its path is still what lies there.

A daemon holds its database and its packs open and follows them wherever they are moved, but whatever it opens anew it
opens by path: after ``mv home home2`` that would be another home's. So the paths are compared with what they led to at
the start, before anything is written and again before it counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from openoxide.errors import FailedError


class Standing:
    """``paths`` as they are now; the first is the home, which is named in errors. ``on_loss`` is called by whoever finds
    that one of them leads elsewhere.
    """

    def __init__(self, paths: Iterable[Path], on_loss: Callable[[], None] = lambda: None) -> None:
        self._identities = {path: _identity(path) for path in paths}
        self._home = next(iter(self._identities))
        self.on_loss = on_loss

    def holds(self) -> bool:
        """Whether every path leads to what it led to."""
        if all(_identity(path) == identity for path, identity in self._identities.items()):
            return True
        self.on_loss()
        return False

    def leads(self, path: Path) -> bool:
        """Whether one of the paths leads to what it led to."""
        return path in self._identities and _identity(path) == self._identities[path]

    def require(self) -> None:
        """Raises FailedError where one leads elsewhere, or nowhere."""
        if not self.holds():
            raise FailedError(
                f"{self._home} was moved, or something in it was moved or replaced, while its daemon ran",
                hint="that daemon ends now; the next command starts one for the home that OPENOXIDE_HOME names",
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
