"""The scratch folder of one run: generated trees are made once, and every measurement gets a fresh copy of its own."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corpus import Corpus, generate
from measuring import run

NOT_COPIED = shutil.ignore_patterns("__pycache__", "site-packages", "dist-packages", ".git")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A tree that may be changed, and an empty folder beside it."""

    tree: Path
    folder: Path


class Workshop:
    """``scratch`` is an empty folder; ``real_tree`` a tree that somebody wrote, and ``source`` one that takes the place of
    every generated one. Only copies of them are used.
    """

    def __init__(self, scratch: Path, real_tree: Path, source: Path | None = None) -> None:
        self.scratch = scratch
        self._real_tree = real_tree
        self._source = source
        self._corpora: dict[int, Corpus] = {}
        self._cases = 0

    def corpus(self, files: int) -> Corpus:
        """The generated tree of this many files, or the source, not to be changed."""
        if self._source is not None:
            return Corpus(root=self._source, files=files_of(self._source))
        if files not in self._corpora:
            root = self.scratch / f"corpus-{files}"
            root.mkdir()
            self._corpora[files] = generate(root, files)
        return self._corpora[files]

    def asked(self, files: int) -> str:
        """How to ask for that corpus again."""
        return f"--source {shlex.quote(self._source.name)}" if self._source is not None else f"--files {files}"

    def real_tree(self) -> Path:
        """The real tree without what installers and interpreters put there, not to be changed."""
        copy = self.scratch / "real"
        if not copy.exists():
            shutil.copytree(self._real_tree, copy, symlinks=True, ignore=NOT_COPIED)
        return copy

    @contextmanager
    def case(self, tree: Path) -> Iterator[Case]:
        """A copy of ``tree``, on disk when this returns: nobody's measured time holds the writing of it. It stays until the
        scratch folder goes (benchmarks/rewinding.py says why).
        """
        folder = self._folder()
        run(["cp", "-a", str(tree), str(folder / "tree")], _environ(), folder)
        run(["sync", "-f", str(folder)], _environ(), folder)
        yield Case(tree=folder / "tree", folder=folder)

    def written(self, files: int) -> tuple[Corpus, Case]:
        """A generated tree that may be changed itself, on disk: a million files need no copy of which there is one."""
        folder = self._folder()
        corpus = generate(folder / "tree", files)
        run(["sync", "-f", str(folder)], _environ(), folder)
        return corpus, Case(tree=corpus.root, folder=folder)

    def _folder(self) -> Path:
        self._cases += 1
        folder = self.scratch / f"case-{self._cases}"
        folder.mkdir()
        return folder


def files_of(tree: Path) -> tuple[Path, ...]:
    """The regular files of a tree, relative to it."""
    return tuple(sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and not path.is_symlink()))


def _environ() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}
