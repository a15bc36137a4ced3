"""One tree, one daemon that watches it with its defaults, one shadow repository: what the figures of a size share.

A tree of a hundred thousand files takes longer to write and to capture than all that is measured on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

from checkpointing import watching
from corpus import Corpus, edited
from product import Daemon
from shadowgit import ShadowGit
from workshop import Case, Workshop


class Stage:
    """``case`` has the tree of ``corpus``, which ``daemon`` has captured."""

    def __init__(self, corpus: Corpus, case: Case, daemon: Daemon) -> None:
        self.corpus = corpus
        self.case = case
        self.daemon = daemon
        self.tree = str(case.tree)
        self._changes = 0

    @cached_property
    def shadow(self) -> ShadowGit:
        """A shadow repository that holds the tree; made when first asked for, which takes long."""
        shadow = ShadowGit(self.case.folder, self.case.tree)
        shadow.snapshot()
        return shadow

    def level(self) -> None:
        """Let both hold the tree as it is now."""
        self.daemon.client.checkpoint(self.tree)
        self.shadow.snapshot()
        self.daemon.settle()

    def change(self) -> Path:
        """Edit one file in place, each time another one; its path in the tree."""
        self._changes += 1
        chosen = self.corpus.chosen(2, self._changes)[1]
        path = self.case.tree / chosen
        path.write_bytes(edited(path.read_bytes(), f"change {self._changes}"))
        return chosen

    def full_passes(self) -> tuple[float, str]:
        """Seconds between those that the daemon makes by itself, and why that is often, if the tree is only polled."""
        (worktree,) = self.daemon.client.status()["worktrees"]
        return worktree["full_pass_every_ms"] / 1000, worktree["polled"] or ""


class Stages:
    """The stage that is set, one at a time: a daemon of another size would only be in the way."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._open = ExitStack()
        self._stage: Stage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def at(self, files: int) -> Stage:
        """The stage of this size."""
        if self._stage is None or len(self._stage.corpus.files) != files:
            self._stage = None
            self._open.close()
            self._stage = self._open.enter_context(_set(self._workshop, files))
        return self._stage


@contextmanager
def _set(workshop: Workshop, files: int) -> Iterator[Stage]:
    corpus, case = workshop.written(files)
    with watching(case) as daemon:
        yield Stage(corpus, case, daemon)
