"""Where things are: the home and what lies in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

APPLICATION_ID = 0x4F584944  # "OXID", in the header of each database of ours: what tells a home of ours
HOME_VARIABLE = "OPENOXIDE_HOME"


@dataclass(frozen=True, slots=True)
class Home:
    """``$OPENOXIDE_HOME`` (default ``~/.openoxide``), an absolute path; nothing is created here."""

    folder: Path

    @property
    def socket(self) -> Path:
        return self.folder / "oxided.sock"

    @property
    def lock(self) -> Path:
        return self.folder / "oxided.lock"

    @property
    def timeline_db(self) -> Path:
        return self.folder / "timeline.db"

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def spool(self) -> Path:
        """Where hooks leave what no daemon took."""
        return self.folder / "spool"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def rejected_config(self) -> Path:
        """The last text that was edited as ``config.toml`` and did not take its place."""
        return self.folder / "config.toml.rejected"

    @property
    def used_config(self) -> Path:
        """The last text of ``config.toml`` that a daemon took its settings from."""
        return self.folder / "config.toml.used"

    @property
    def reserve(self) -> Path:
        """What keeps room for a rewind on a full disk."""
        return self.folder / "oxided.reserve"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def home_from(environ: dict[str, str] | os._Environ[str]) -> Home:
    """The home that ``environ`` names."""
    named = environ.get(HOME_VARIABLE)
    folder = Path(named) if named else Path.home() / ".openoxide"
    # a relative name means one place for good: a daemon that is started on demand runs in /
    return Home(folder.absolute())
