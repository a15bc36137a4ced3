"""Whose the changes are that a full pass finds: the open windows' where the watcher told of them, nobody's else.

A pass looks at everything, so it also meets what no event told: stores through a mapping, writes through a name outside
the tree, whatever changed in a gap. When that was is not known, so no window answers for it.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from openoxide.checkpoints.attribution import is_told, writer_between
from openoxide.checkpoints.known import LiveStates
from openoxide.checkpoints.live import LiveRow
from openoxide.checkpoints.model import UNKNOWN_WRITER, Observed, Window, Writer, join
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.tree import Tree
from openoxide.daemon.changes import Gap
from openoxide.daemon.watcher import Watch


class Heard:
    """What the watcher told of the tree for one full pass; use it once.

    ``dirty`` was told before the pass. ``listening``: what is told while it goes on counts too, which is right only if
    nothing can have changed unseen before. ``give_back`` has to follow: what was told late is still to be looked at.
    """

    def __init__(
        self, watch: Watch, dirty: Mapping[bytes, bool], windows: Collection[Window], *, listening: bool
    ) -> None:
        self._watch = watch
        self._writer = writer_between(windows)
        self._listening = listening
        self._told = dict(dirty)
        self._late: dict[bytes, bool] = {}
        self._late_gaps: list[Gap] = []
        self._late_unentered: set[bytes] = set()
        self._looked_at: set[tuple[bytes, bool]] = set()
        self._inodes: set[tuple[int, int]] = set()
        self._theirs: set[bytes] = set()

    def writer_of(self, seen: Observed) -> Writer:
        """The attribution of what has come through :meth:`sift`."""
        return self._writer if seen.path in self._theirs else UNKNOWN_WRITER

    def sift(self, found: Iterable[Found], tree: Tree, live: LiveStates) -> Iterator[Found]:
        """``found`` as it is. Each item is judged before the next is looked at: an event that comes between a look and
        its judgement would be taken for the cause of what was seen.
        """
        for item in found:
            if self._writer != UNKNOWN_WRITER and self._is_theirs(item.observed, tree, live):
                self._theirs.add(item.observed.path)
            yield item

    def give_back(self) -> None:
        """Late events are dirty again: the pass may have looked before they came."""
        self._watch.give_back(self._late, self._late_gaps, self._late_unentered)

    def _is_theirs(self, seen: Observed, tree: Tree, live: LiveStates) -> bool:
        if is_told(seen.path, self._told):
            return True
        row = live.one(seen.path)
        if row is not None and row.state == seen.state:  # no change: nobody asks for its writer
            return False
        if self._listening:
            self._listen()
        return is_told(seen.path, self._told) or self._is_twin(seen, row, tree, live)

    def _listen(self) -> None:
        self._watch.barrier()
        late, gaps, unentered = self._watch.take()
        for dirty in (self._told, self._late):
            dirty.update({path: recursive or dirty.get(path, False) for path, recursive in late.items()})
        self._late_gaps += gaps
        self._late_unentered |= unentered

    def _is_twin(self, seen: Observed, row: LiveRow | None, tree: Tree, live: LiveStates) -> bool:
        """Whether the file was told of by another of its names, be it gone by now: events come for the name in use."""
        names = [known.identity.nlink for known in (seen, row) if known is not None and known.identity is not None]
        if seen.identity is None or max(names) < 2:
            return False
        for path, below in self._told.items() - self._looked_at:
            self._inodes.update(_linked_inodes(tree, live, path, below=below))
        self._looked_at.update(self._told.items())
        return (seen.identity.dev, seen.identity.ino) in self._inodes


def _linked_inodes(tree: Tree, live: LiveStates, path: bytes, *, below: bool) -> Iterator[tuple[int, int]]:
    """The files with several names that ``path`` was when it was recorded, and that stand there (and ``below``) now."""
    row = live.one(path)
    if row is not None and row.identity is not None and row.identity.nlink > 1:
        yield row.identity.dev, row.identity.ino
    stack = [path]
    while stack:
        here = stack.pop()
        with suppress(OSError):  # gone meanwhile, or shut: then nothing is known of it
            found = tree.lstat(here)
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                yield found.st_dev, found.st_ino
            elif found is not None and stat.S_ISDIR(found.st_mode) and below:
                stack += [join(here, name) for name, _ in tree.entries(here)]
