"""The tools that are measured beside one another, all driven alike: a peer is one tool on the tree of one case, with a
store of its own. Here are the product and git; ``archivers.py`` and ``undoers.py`` have the others.

A peer is entered before anything is measured, and then has an empty store: what `git init`, `restic init` and their
like cost is in no figure. The product's daemon starts then too, and its CPU time until then belongs to the first
capture.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from measuring import Spent, cpu_s, run, settle
from product import NOT_BY_ITSELF, Daemon, bare_environ
from shadowgit import ShadowGit
from workshop import Case

PRODUCT, GIT, FSMONITOR = "openoxide", "git", "git fsmonitor"
LOG_FORMAT = "%(refname) %(objectname) %(creatordate:iso) %(subject)"


class Peer:
    """A tool on the tree of ``case``. A name is what the tool calls a state that it holds."""

    can_advance: ClassVar[bool] = False

    def __init__(self, case: Case) -> None:
        self.case = case
        self.environ = bare_environ(case.folder)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing stays behind."""

    def begin(self) -> None:
        """Make the empty store."""

    @property
    def store(self) -> Path:
        """The folder that grows."""
        return self.case.folder / "store"

    @property
    def background_cpu_s(self) -> float:
        """What its daemon has used since it began."""
        return 0.0

    def settle(self) -> None:
        """Return when its daemon does nothing any more."""

    def first(self) -> tuple[Spent, str]:
        """The first state of the tree."""
        return self.snapshot()

    def snapshot(self) -> tuple[Spent, str]:
        """The tree as it is now, as its users ask for it: whole processes."""
        raise NotImplementedError

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        """Bring ``files``, which are all that differs, back to a state."""
        raise NotImplementedError

    def names_between(self, a: str, b: str) -> tuple[Spent, int]:
        """Which paths differ; how many."""
        raise NotImplementedError

    def advance(self, file: Path) -> str:
        """A state with this one file changed, made as cheaply as the tool can, to have a history; not measured."""
        raise NotImplementedError

    def log(self) -> tuple[Spent, int]:
        """All states, with their times; how many lines."""
        raise NotImplementedError

    def command(self, *argv: str) -> Spent:
        return run(argv, self.environ, self.case.tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A peer that takes part. ``version``: where the list of what was measured does not have it anyway. ``once``: in the
    first round only, since it takes longer than all others together and is best at nothing.
    """

    name: str
    make: Callable[[Case], Peer]
    version: str = ""
    once: bool = False


class Oxide(Peer):
    """The product. Nothing is recorded before it is asked for, so that all of it is in the measured time."""

    can_advance = True

    def __init__(self, case: Case, program: Sequence[str] = ()) -> None:
        super().__init__(case)
        self.daemon = Daemon(case.folder, NOT_BY_ITSELF, program)

    def begin(self) -> None:
        self.daemon.__enter__()

    def __exit__(self, *_: object) -> None:
        self.daemon.stop()

    @property
    def store(self) -> Path:
        return self.daemon.home

    @property
    def background_cpu_s(self) -> float:
        return self.daemon.cpu_s

    def settle(self) -> None:
        self.daemon.settle()

    def first(self) -> tuple[Spent, str]:
        spent = self.daemon.ctl(self.case.tree, "--json", "watch")
        return spent, json.loads(spent.output)["checkpoint"]["id"]

    def snapshot(self) -> tuple[Spent, str]:
        spent = self.daemon.ctl(self.case.tree, "-q", "checkpoint")
        return spent, spent.output.strip()

    def by_socket(self) -> Spent:
        """A checkpoint as a program asks for it that runs already; CPU of the asking thread."""
        used, began = time.thread_time(), time.perf_counter()
        self.daemon.client.checkpoint(str(self.case.tree))
        return Spent(wall_s=time.perf_counter() - began, cpu_s=time.thread_time() - used)

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        return self.daemon.ctl(self.case.tree, "-q", "rewind", name, "--yes")

    def names_between(self, a: str, b: str) -> tuple[Spent, int]:
        spent = self.daemon.ctl(self.case.tree, "diff", a, b, "--name-status")
        return spent, len(spent.output.splitlines())

    def advance(self, file: Path) -> str:
        return self.daemon.client.checkpoint(str(self.case.tree))["id"]

    def log(self) -> tuple[Spent, int]:
        spent = self.daemon.ctl(self.case.tree, "log")
        return spent, len(spent.output.splitlines())


class Git(Peer):
    """A shadow repository; what is ignored is not in it, and no folder that is empty."""

    can_advance = True
    settings: ClassVar[dict[str, str]] = {}

    def begin(self) -> None:
        self.shadow = ShadowGit(self.case.folder, self.case.tree, self.settings)

    @property
    def store(self) -> Path:
        return self.shadow.store

    def snapshot(self) -> tuple[Spent, str]:
        return self.shadow.snapshot()

    def restore(self, name: str, files: Sequence[Path]) -> Spent:
        return self.shadow.restore(name)

    def names_between(self, a: str, b: str) -> tuple[Spent, int]:
        spent = self.shadow.git("diff-tree", "-r", "--name-status", a, b)
        return spent, len(spent.output.splitlines())

    def advance(self, file: Path) -> str:
        return self.shadow.snapshot(only=file)[1]

    def log(self) -> tuple[Spent, int]:
        spent = self.shadow.git("for-each-ref", f"--format={LOG_FORMAT}", "refs/checkpoints")
        return spent, len(spent.output.splitlines())


class GitWithMonitor(Git):
    """git with its own daemon, which knows what changed; only newer ones have it on Linux."""

    settings: ClassVar[dict[str, str]] = {"core.fsmonitor": "true", "core.untrackedCache": "true", "index.version": "4"}
    _monitor: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        super().begin()
        self._monitor = subprocess.Popen(
            ["git", "fsmonitor--daemon", "run"],
            env=self.shadow.environ,
            cwd=self.case.tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        if self._monitor is not None:
            self._monitor.kill()
            self._monitor.wait()

    @property
    def background_cpu_s(self) -> float:
        return cpu_s(self._monitor.pid) if self._monitor is not None else 0.0

    def settle(self) -> None:
        if self._monitor is not None:
            settle(self._monitor.pid)


def git_has_monitor() -> bool:
    """Whether this git was built with the daemon."""
    said = subprocess.run(["git", "version", "--build-options"], capture_output=True, text=True, check=False)
    return "feature: fsmonitor--daemon" in said.stdout
