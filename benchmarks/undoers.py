"""Undo tools for agents as peers, those that a package index gives. Both keep their store inside the tree.

They are installed into the scratch folder, once, each by its name; a machine without an index measures without them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measuring import Spent, UnmeasuredError
from peers import Peer
from workshop import Case

STEPBACK, UNEDIT = "stepback", "unedit"
INSTALL_SECONDS = 600.0


class Stepback(Peer):
    """stepback wraps an agent: here the shortest one, which does nothing. A checkpoint is taken when it is started with
    something changed. Most of its wall time it waits for its watcher; compare its CPU.
    """

    def __init__(self, case: Case, program: Path) -> None:
        super().__init__(case)
        self._program = str(program)
        self._states = 0

    @property
    def store(self) -> Path:
        return self.case.tree / ".stepback"

    def snapshot(self) -> tuple[Spent, str]:
        spent = self.command(self._program, "run", "--", "true")
        self._states += 1
        return spent, str(self._states)

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        return self.command(self._program, "rewind", name, "--yes")


class Unedit(Peer):
    """unedit copies the tree into objects named by SHA-256, when it is asked."""

    def __init__(self, case: Case, program: Path) -> None:
        super().__init__(case)
        self._program = str(program)

    @property
    def store(self) -> Path:
        return self.case.tree / ".unedit"

    def snapshot(self) -> tuple[Spent, str]:
        spent = self.command(self._program, "save", "--json", "--force", "-m", "state")
        return spent, json.loads(spent.output)["id"]

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        return self.command(self._program, "back", name, "--yes", "--force")


class Shelf:
    """Where tools from the package index are put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(self, name: str) -> Path:
        """The program ``name`` of the package of that name. Raises UnmeasuredError when it cannot be had."""
        python = self._folder / "bin" / "python"
        if not python.exists():
            _try([sys.executable, "-m", "venv", str(self._folder)], "venv")
        _try([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name], name)
        return self._folder / "bin" / name

    def version(self, name: str) -> str:
        """Of an installed one."""
        ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
        return _try([str(self._folder / "bin" / "python"), "-c", ask, name], name).strip()


def _try(argv: Sequence[str], what: str) -> str:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise UnmeasuredError(f"{what} cannot be installed: {last[:200]}")
    return done.stdout
