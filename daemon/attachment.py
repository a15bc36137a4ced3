"""Linux: one tree attached to one inotify instance, and the directories in it that are watched.

Invariant: a directory is watched before it is listed, and each directory that its listing showed is known too, unless
it is pruned (which is told), closed to us or beyond the watch limit. So what stands below a known directory cannot
change unseen, and moving it within the tree costs one link. Where a directory belongs is never concluded from events:
the queue lags behind the disk (and an exchange tells of the arrival first), so each event makes us look at what stands
there now. A place that cannot be looked at yet is remembered in ``_unlisted`` and looked at again after each read.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from openoxide.checkpoints.ignore import MARKER_NAMES
from openoxide.checkpoints.model import STAGING_NAME
from openoxide.daemon.inotify import (
    IN_ATTRIB,
    IN_DELETE,
    IN_DELETE_SELF,
    IN_IGNORED,
    IN_ISDIR,
    IN_MOVE_SELF,
    IN_Q_OVERFLOW,
    IN_UNMOUNT,
    Instance,
    Node,
    Tree,
    events,
    join,
)
from openoxide.fileio import EXHAUSTED

OVERFLOW: Final = "overflow"
WATCH_LIMIT: Final = "watch_limit"
WATCH_FAILED: Final = "watch_failed"
INSTANCE_LIMIT: Final = "instance_limit"
ROOT_LOST: Final = "root_lost"
ROOT_RETURNED: Final = "root_returned"
UNMOUNT: Final = "unmount"

_ROOT_GONE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# gone, or a file or link in its place by now: an event still to be read says so
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_READ_BYTES = 1 << 16
# Each removal queues an IN_IGNORED: thousands at once would overflow the queue they are read from.
_REMOVALS_PER_STEP = 1_000

log = logging.getLogger(__name__)


class Pruned(Enum):
    """Whether a directory is left out. SHUT: by a file in it, so that it is watched itself, and nothing below it."""

    NO = "no"
    OUT = "out"
    SHUT = "shut"


Prune = Callable[[bytes, bytes], Pruned]


class DetachedError(Exception):
    """The attachment cannot be trusted any more: close it and make a new one. ``cause`` names the gap."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class Report(Protocol):
    """Who is told what changed."""

    def mark(self, path: bytes, *, recursive: bool) -> None:
        """``path`` (or all below it) may differ from what it was."""

    def gap(self, cause: str) -> None:
        """Changes may have been missed."""

    def pruned(self, path: bytes) -> None:
        """What happens below ``path`` is not told from now on."""


class Attachment:
    """A tree as far as it is watched, from attaching to the root until :class:`DetachedError`. Not thread-safe."""

    def __init__(self, root: bytes, prune: Prune, report: Report) -> None:
        self.degraded = ""
        self.entries = 0  # met when the directories were listed for the first time
        self._root = root
        self._prune = prune
        self._report = report
        self._told: set[str] = set()
        self._tree = Tree()
        self._new: list[Node] = []  # since the last refresh began
        self._unlisted: set[Node] = set()  # could not be looked at: moved by an event still to be read
        self._refused: set[Node] = set()  # a directory in it may not be opened; changing that makes an ATTRIB here
        try:
            self._instance = Instance()
        except OSError as error:
            raise DetachedError(INSTANCE_LIMIT) from error
        try:
            self._top = self._attach()
        except BaseException:
            self.close()
            raise

    @property
    def fd(self) -> int:
        return self._instance.fd

    @property
    def watches(self) -> int:
        return len(self._tree.nodes)

    @property
    def has_doomed(self) -> bool:
        return bool(self._tree.doomed)

    def close(self) -> None:
        self._instance.close()

    def read_some(self) -> None:
        """Apply one buffer of events and remove some of the watches that nobody wants."""
        self._read(_READ_BYTES)
        self._tidy()
        for _ in range(min(len(self._tree.doomed), _REMOVALS_PER_STEP)):
            self._instance.remove(self._tree.doomed.pop())

    def read_queued(self) -> None:
        """Apply every event queued before the call: bounded, however fast others write."""
        remaining = self._instance.queued()
        while remaining > 0 and (done := self._read(min(remaining, _READ_BYTES))):
            remaining -= done
        self._tidy()
        self.check_root()

    def check_root(self) -> None:
        """No event tells that a parent of the root was renamed or that something was mounted over it."""
        try:
            now = os.lstat(self._root)
        except OSError as error:
            raise DetachedError(ROOT_LOST) from error
        if (now.st_dev, now.st_ino) != self._identity:
            raise DetachedError(ROOT_LOST)

    def refresh(self, directory: bytes) -> None:
        """The rules for ``directory`` changed, or another stands in its place: watch and drop accordingly below it, and mark
        what is watched anew. The root also lifts ``degraded``.
        """
        if not directory:
            self.degraded = ""
        self._new.clear()
        node = self._top
        for name in directory.split(b"/") if directory else ():
            known = node.kids.get(name)
            # also where one is known: no event tells that something was mounted over it
            self._settle(node, name)
            if known is None or node.kids.get(name) is not known:
                break
            node = known
        else:
            self._list_again(node, everything=True)
        if not directory and not self.degraded:
            self._told.clear()
        self._mark_new()
        self._tidy()

    def _mark_new(self) -> None:
        """What is watched anew may have changed before."""
        new = set(self._new)  # thousands, where a rule lets a large folder in
        for node in new:
            where = node.path()
            if where is not None and node.parent not in new:
                self._report.mark(where, recursive=True)
        self._new.clear()

    # Watching

    def _attach(self) -> Node:
        try:
            directory = os.open(self._root, _DIRECTORY)
        except OSError as error:
            # that we may open nothing says nothing about the root
            raise DetachedError(WATCH_FAILED if error.errno in EXHAUSTED else ROOT_LOST) from error
        try:
            found = os.fstat(directory)
            self._identity = found.st_dev, found.st_ino
            top = self._tree.new(self._instance.add(directory, IN_DELETE_SELF | IN_MOVE_SELF))
        except OSError as error:
            os.close(directory)
            raise DetachedError(_cause(error)) from error
        self._descend(top, directory)
        return top

    def _descend(self, node: Node, directory: int, *, everything: bool = False) -> None:
        """Take in what ``node`` holds, and close ``directory``; ``everything``: also below directories known before."""
        # a stack of our own: a tree of 500 levels would end in a RecursionError
        levels = [(node, directory)]
        names: list[list[bytes]] = []
        try:
            while levels:
                node, directory = levels[-1]
                if len(names) < len(levels):
                    names.append(self._names(node, directory))
                elif names[-1]:
                    entered = self._enter(node, directory, names[-1].pop(), everything=everything)
                    if entered is not None:
                        levels.append(entered)
                else:
                    names.pop()
                    levels.pop()
                    os.close(directory)
        finally:
            for _, opened in levels:
                os.close(opened)

    def _names(self, node: Node, directory: int) -> list[bytes]:
        """The directories in ``node``; kids that are no longer among them leave their place."""
        where = node.path()
        assert where is not None
        try:
            with os.scandir(directory) as listing:
                entries = list(listing)
            names = [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno not in _ABSENT:
                self._fall_short(error, where)
            return []
        self.entries += len(entries)
        for name in node.kids.keys() - set(names):
            self._tree.empty(node, name)
        return names

    def _enter(self, parent: Node, directory: int, name: bytes, *, everything: bool) -> tuple[Node, int] | None:
        """Watch the directory ``name`` in ``parent``; answers the node and its descriptor where it has to be listed."""
        pruned = self._pruned(parent, name)
        watched = self._add(parent, directory, name) if pruned is not Pruned.OUT else None
        if watched is None:
            self._tree.empty(parent, name)
            return None
        opened, watch = watched
        node = self._tree.nodes.get(watch)
        is_new = node is None or (node.shut and pruned is Pruned.NO)
        if node is None:
            node = self._tree.new(watch)
        if self._tree.link(node, parent, name):
            self._shut(node, shut=pruned is Pruned.SHUT)
            if is_new:
                self._new.append(node)
            if (is_new or everything) and not node.shut:
                return node, opened
        os.close(opened)
        return None

    def _add(self, parent: Node, directory: int, name: bytes) -> tuple[int, int] | None:
        """A descriptor and a watch of the directory ``name`` in ``parent``."""
        try:
            opened = os.open(name, _DIRECTORY, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                self._refused.add(parent)
            elif error.errno not in _ABSENT:
                self._fall_short(error, join(parent.path() or b"", name))
            return None
        try:
            # before it is listed: what is made in between is in the listing or has an event
            return opened, self._instance.add(opened)
        except OSError as error:
            os.close(opened)
            self._fall_short(error, join(parent.path() or b"", name))
            return None

    def _shut(self, node: Node, *, shut: bool) -> None:
        node.shut = shut
        for name in list(node.kids) if shut else ():
            self._tree.empty(node, name)

    def _open(self, node: Node) -> int | None:
        """A descriptor of ``node``'s directory; None if its path leads elsewhere: an event still to be read says so."""
        where = node.path()
        if where is None:
            return None
        try:
            opened = os.open(join(self._root, where) if where else self._root, _DIRECTORY)
        except OSError:
            return None
        try:
            watch = self._instance.add(opened)
        except OSError:
            watch = -1
        if watch == node.watch:
            return opened
        os.close(opened)
        if watch >= 0 and watch not in self._tree.nodes:
            self._tree.doomed.add(watch)
        return None

    def _settle(self, parent: Node, name: bytes) -> None:
        """Make the tree say what stands at ``name`` in ``parent`` now."""
        directory = self._open(parent)
        if directory is None:
            self._unlisted.add(parent)
            return
        try:
            entered = self._enter(parent, directory, name, everything=False)
        finally:
            os.close(directory)
        if entered is not None:
            self._descend(*entered)

    def _list_again(self, node: Node, *, everything: bool = False) -> None:
        directory = self._open(node)
        if directory is None:
            self._unlisted.add(node)
            return
        self._unlisted.discard(node)
        self._descend(node, directory, everything=everything)

    def _pruned(self, parent: Node, name: bytes) -> Pruned:
        where = parent.path()
        if name == STAGING_NAME or where is None:  # a parent that is loose: where it moves to is looked into
            return Pruned.OUT
        pruned = self._prune(where, name)
        if pruned is not Pruned.NO:
            self._report.pruned(join(where, name))
        return pruned

    def _fall_short(self, error: OSError, path: bytes) -> None:
        cause = self.degraded = _cause(error)
        if cause not in self._told:
            self._told.add(cause)
            self._report.gap(cause)
            log.warning("%r in %r is not watched: %s (told once)", path, self._root, error)

    # Events

    def _read(self, size: int) -> int:
        data = self._instance.read(size)
        for watch, mask, name in events(data):
            if mask & IN_Q_OVERFLOW:
                raise DetachedError(OVERFLOW)
            node = self._tree.nodes.get(watch)
            if node is not None:
                self._apply(node, mask, name)
            elif mask & IN_IGNORED:
                self._tree.forget(watch)
        return len(data)

    def _tidy(self) -> None:
        """After a read every move is known whole: look where that was not possible, drop what left the tree."""
        self._new.clear()
        for node in list(self._unlisted):
            before = dict(node.kids)
            self._list_again(node)
            for name, kid in node.kids.items():
                if before.get(name) is not kid:  # what is beside it has events of its own
                    self._report.mark(join(node.path() or b"", name), recursive=True)
        self._mark_new()
        self._tree.drop_loose()
        self._unlisted = {node for node in self._unlisted if self._tree.nodes.get(node.watch) is node}
        self._refused = {node for node in self._refused if self._tree.nodes.get(node.watch) is node}

    def _apply(self, node: Node, mask: int, name: bytes) -> None:
        where = node.path()
        if not name:
            self._apply_to_itself(node, where, mask)
        elif name == STAGING_NAME:
            return
        elif node.shut:
            self._apply_to_shut(node, where, name)
        elif mask & IN_ISDIR:
            self._apply_to_directory(node, where, mask, name)
        elif where is not None:  # else: where it moves to is marked as a whole
            self._report.mark(join(where, name), recursive=False)

    def _apply_to_itself(self, node: Node, where: bytes | None, mask: int) -> None:
        if node is self._top and mask & _ROOT_GONE:
            raise DetachedError(ROOT_LOST)
        if mask & IN_UNMOUNT and where is not None:
            self._report.gap(UNMOUNT)
            self._report.mark(where, recursive=True)
        if mask & IN_IGNORED:
            parent = self._tree.forget(node.watch)
            if parent is not None:  # unmounted: what lies under the mount is to be watched
                self._unlisted.add(parent)
        elif mask & IN_ATTRIB and node is self._top:
            self._new.clear()
            self._look_into(node)
            self._mark_new()
            self._report.mark(b"", recursive=False)

    def _apply_to_directory(self, parent: Node, where: bytes | None, mask: int, name: bytes) -> None:
        if where is None:
            self._unlisted.add(parent)
            return
        before = len(self._tree.nodes)
        kid = parent.kids.get(name)
        if mask & IN_DELETE:
            self._tree.empty(parent, name)
        elif mask & IN_ATTRIB and kid is not None and self._pruned(parent, name) is Pruned.NO:
            self._look_into(kid)
        else:
            self._settle(parent, name)
        is_new = len(self._tree.nodes) > before
        self._report.mark(join(where, name), recursive=is_new or not mask & IN_ATTRIB)

    def _apply_to_shut(self, node: Node, where: bytes | None, name: bytes) -> None:
        if name not in MARKER_NAMES or node.parent is None or where is None:
            return
        self._settle(node.parent, node.name)
        if not node.shut:
            self._report.mark(where, recursive=True)

    def _look_into(self, node: Node) -> None:
        """Its attributes changed: what was refused in it may be open now."""
        if node in self._refused:
            self._refused.discard(node)
            self._list_again(node)


def _cause(error: OSError) -> str:
    # ENOSPC is the limit of watches, not the disk (inotify_add_watch(2))
    return WATCH_LIMIT if error.errno == errno.ENOSPC else WATCH_FAILED
