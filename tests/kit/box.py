"""A service with a project, inside the test process: the whole product but for the socket and the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from openoxide.clock import Clock, SystemClock
from openoxide.daemon.routes import routes
from openoxide.daemon.service import Service
from openoxide.paths import Home
from openoxide.settings import CaptureSettings, MemorySettings, Settings

NO_QUIET = CaptureSettings(quiet_ms=3_600_000, max_interval_ms=3_600_000)
"""No checkpoint is sealed by itself: a test sees only those it asks for."""


class Box:
    """``call`` runs an operation as the socket would; paths may be given as bytes relative to the project."""

    def __init__(
        self,
        folder: Path,
        *,
        capture: CaptureSettings = NO_QUIET,
        clock: Clock | None = None,
        root: Path | None = None,
        worktrees: str = "shared",
    ) -> None:
        self.root = root or folder / "project"
        self.root.mkdir(parents=True, exist_ok=True)
        self.home = Home(folder / "home")
        self.home.folder.mkdir(mode=0o700, exist_ok=True)
        self.settings = Settings(capture=capture, memory=MemorySettings(worktrees=worktrees))
        self.clock = clock or SystemClock()
        self.service: Service
        self.progress: list[Mapping[str, Any]] = []
        self.start()

    def start(self) -> None:
        """Start the service, as a new daemon would."""
        self.service = Service(self.home, self.settings, self.clock)
        self._routes = routes(self.service)
        self.service.start()

    def stop(self) -> None:
        """Stop the service as a clean shutdown does."""
        self.service.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, name: str, /, **request: Any) -> Any:
        """The answer of an operation on the project. Raises its OpenOxideError."""
        request.setdefault("path", os.fspath(self.root))
        for key, value in request.items():
            if isinstance(value, bytes):
                request[key] = os.fsdecode(value)
        return self._routes[name](request, self.progress.append)

    def watch(self) -> Any:
        return self.call("watch")

    def checkpoint(self, name: str | None = None) -> Any:
        return self.call("checkpoint", **({"name": name} if name else {}))

    def rewind(self, checkpoint: str, **options: Any) -> Any:
        return self.call("rewind", checkpoint=str(checkpoint), **options)
