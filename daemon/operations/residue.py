"""What a purge has to look for beside the timeline and its packs: staging folders, packs set aside, logs, copies of the
database. What other rooms keep joins :func:`look`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, store
from openoxide.checkpoints.model import BlobHash, Worktree
from openoxide.checkpoints.packs import pack_name
from openoxide.checkpoints.purging import Doomed
from openoxide.checkpoints.scrub import aside_holding, blank_aside, mask, residue
from openoxide.checkpoints.staging import drop_staged, find_staging, staged_of
from openoxide.checkpoints.tree import Tree, recorded_identity
from openoxide.daemon.operations.briefing import generate_anew, stale
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.operations.withdrawing import Sought
from openoxide.errors import RootVanishedError, StoreReadOnlyError
from openoxide.fileio import write_errors
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.scraps import erase, memories_in, scraps

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

_HEX_IN_TEXTS = 12  # as errors name a content (checkpoints.blobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """``staged``: how many files lie in staging folders; ``aside`` and ``logs``: files that are rewritten; ``scraps``: files
    beside memories, by their places; ``generated``: how many files for agents are not up to date; ``left``: what the user
    alone can remove.
    """

    staged: int = 0
    scraps: tuple[tuple[MemoryDirectory, list[str]], ...] = ()
    generated: int = 0
    aside: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def holds_any(self) -> bool:
        """Whether a content lies there, and not only its name."""
        return bool(self.staged or self.aside or self.scraps)


def look(service: Service, doomed: Doomed, sought: Sought) -> Beside:
    """Where else the contents stand, or their names."""
    names, home = doomed.wanted.names, service.home
    staged = sum(len(staged_of(folder, operations, names)) for folder, operations in _stagings(service))
    found = _named_files(service, names)
    scraps = ((directory, held) for directory in memories_in(home.folder) if (held := _held(directory, names, sought)))
    return Beside(
        staged=staged,
        scraps=tuple(scraps),
        generated=sum(stale(service, project) for project in _projects(service, doomed)),
        aside=tuple(aside_holding(home.blobs, names)),
        logs=tuple(file for file in found if file.parent == home.logs),
        left=(*_copies(file for file in found if file.parent != home.logs), *_elsewhere(service, doomed)),
    )


def _held(directory: MemoryDirectory, names: Collection[BlobHash], sought: Sought) -> list[str]:
    return [scrap.place for scrap in scraps(directory) if sought.wants(directory.project, names, scrap)]


def _projects(service: Service, doomed: Doomed) -> list[str]:
    """Those of whose memories something goes."""
    with service.timeline.database.reading() as db:
        known = store.worktrees(db)
    return sorted({w.project for w in known if w.is_memory and w.id in doomed.worktrees})


def remove(service: Service, doomed: Doomed, beside: Beside, sought: Sought) -> None:
    """Take it out of there."""
    names = doomed.wanted.names
    for directory, _ in beside.scraps:
        erase(directory, partial(sought.wants, directory.project, names))
    for project in _projects(service, doomed):
        generate_anew(service, project)
    for folder, operations in _stagings(service):
        drop_staged(folder, operations, names)
    with write_errors("the home", StoreReadOnlyError):
        for file in beside.aside:
            blank_aside(file, names)
        for file in beside.logs:
            with suppress(FileNotFoundError):  # it was rotated away
                mask(file, _needles(names))


def _needles(names: Collection[BlobHash]) -> list[bytes]:
    """How a content is named in files, the longest first."""
    digits = [name.hex() for name in sorted(names)]
    return [
        *map(bytes, names),
        *(text.encode() for text in digits),
        *(text[:_HEX_IN_TEXTS].encode() for text in digits),
    ]


def _named_files(service: Service, names: Collection[BlobHash]) -> Sequence[Path]:
    home = service.home
    # whoever closes a file that SQLite has open gives up its locks on it (fcntl(2)); and the packs have their own search
    database = (f"{home.timeline_db}{suffix}" for suffix in ("", "-wal", "-shm", "-journal"))
    skipped = [home.blobs, home.lock, home.socket, *map(Path, database)]
    return residue(home.folder, _needles(names), skipped) if names else ()


def _copies(files: Iterator[Path]) -> Iterator[str]:
    return (f"{file} names what is purged: delete it if you need it no more" for file in files)


def _elsewhere(service: Service, doomed: Doomed) -> Iterator[str]:
    for number in sorted(doomed.packs):
        file = service.home.blobs / pack_name(number)
        if file.is_symlink():
            yield f"{os.readlink(file)}: a pack was moved there by somebody, and only the link to it is ours"
    with service.timeline.database.reading() as db:
        ours = [worktree for worktree in store.worktrees(db) if worktree.id in {step.worktree for step in doomed.steps}]
    for worktree in ours:
        if _tree(worktree) is None:
            yield f"the staging folder in {shown(worktree.root)}, which is not there now"


def _tree(worktree: Worktree) -> Tree | None:
    try:
        return Tree(worktree.root, recorded_identity(worktree))
    except RootVanishedError:
        return None


def _stagings(service: Service) -> Iterator[tuple[int, frozenset[str]]]:
    """The staging folder of each tree that is there, opened for the time of a step, with the operations in it that are open:
    those need all that they have.
    """
    with service.timeline.database.reading() as db:
        known = [
            (worktree, frozenset(o.staging_name for o in journal.open_operations(db, worktree.id)))
            for worktree in store.worktrees(db)
        ]
    for worktree, operations in known:
        tree = _tree(worktree)
        if tree is None:
            continue
        with closing(tree):
            folder = find_staging(tree)
            if folder is not None:
                try:
                    yield folder, operations
                finally:
                    os.close(folder)
