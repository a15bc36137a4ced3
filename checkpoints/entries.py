"""Single entries of a tree: what stands at a path, read only where its stat says that it may have changed.

What is yielded differs from the live row or renews its stat.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping

from openoxide.checkpoints.churn import Turn
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.known import LiveStates, Moved, Placed
from openoxide.checkpoints.live import LiveRow, unchanged
from openoxide.checkpoints.model import ABSENT, SQLITE_SUFFIXES, Kind, Observed, SkipReason, skipped, split, sqlite_base
from openoxide.checkpoints.overquota import LEAST_BYTES
from openoxide.checkpoints.reading import Found, StoreBig, read_file, read_simple, read_unit
from openoxide.checkpoints.staging import looks_like
from openoxide.checkpoints.tree import GONE, Tree, identity, wall_ns
from openoxide.settings import CaptureSettings

_ABSENT = Kind.ABSENT


class Entries:
    """The entries of one capture; with ``churn`` a file that changes all the time is not taken each time. ``done`` holds
    paths that are not to be met again, ``torn`` what changed while it was read, ``held`` what has changed and is to wait,
    ``linked`` the inodes of files with several names. ``over_quota``: paths that there is no room for.

    ``told``: paths that an event named, which are read whatever their stat says; ``placed``: entries that need not be
    read where their stat is still the one they were placed with.
    """

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        settings: CaptureSettings,
        live: LiveStates,
        store_big: StoreBig,
        churn: Turn | None = None,
        over_quota: Collection[bytes] = frozenset(),
    ) -> None:
        self.tree = tree
        self.rules = rules
        self.settings = settings
        self.live = live
        self._store_big = store_big
        self._churn = churn
        self.over_quota = over_quota
        self._moved: dict[tuple[int, int], Moved] = {}
        self._ignored_counts: dict[bytes, int] = {}
        self.skipped: dict[bytes, SkipReason] = {}
        self.placed: Mapping[bytes, Placed] = {}
        self.told: set[bytes] = set()
        self.done: set[bytes] = set()
        self.linked: set[tuple[int, int]] = set()
        self.torn: set[bytes] = set()
        self.held: set[bytes] = set()

    def collect_moved(self, vanished: Iterable[bytes]) -> None:
        """What went may have come elsewhere: it is known there by its inode."""
        for path in vanished:
            row = self.live.one(path)
            for gone in [*([row] if row else []), *self.live.below(path)]:
                if gone.identity is not None and gone.state.kind is Kind.FILE and not gone.state.torn:
                    moved = Moved(identity=gone.identity, state=gone.state)
                    self._moved[(gone.identity.dev, gone.identity.ino)] = moved

    def content(self, path: bytes) -> bytes | None:
        """The bytes of a file that rules are read from; None if there is none."""
        seen = self.tree.lstat(path)
        found = read_file(self.tree, path, seen, self._store_big, None) if seen is not None else None
        return found.data if found is not None else None

    def skip(self, path: bytes, reason: SkipReason, row: LiveRow | None) -> Iterable[Found]:
        """A directory that is not recorded, nor anything below it."""
        self.skipped[path] = reason
        return self._emit(Found(observed=Observed(path=path, state=skipped(reason))), row)

    def vanished(self, path: bytes) -> Iterator[Found]:
        """Nothing stands at ``path``."""
        self.done.add(path)
        # its ignore files went with it, and must not rule over what comes there next
        self.rules.drop_below(path)
        row = self.live.one(path)
        if row is not None and row.state.kind is not Kind.ABSENT:
            yield Found(observed=Observed(path=path, state=ABSENT))
        yield from self.gone_below(path)

    def gone_below(self, path: bytes) -> Iterator[Found]:
        """What was recorded below ``path``, where nothing can stand now."""
        for row in self.live.below(path):
            if row.path not in self.done:
                yield from self.left_over(row.path, row)

    def left_over(self, path: bytes, row: LiveRow) -> Iterator[Found]:
        """A recorded path that was not met: it is gone, or a rule took it out of sight."""
        self.done.add(path)
        parent = split(path)[0]
        while parent and parent not in self.skipped:
            parent = split(parent)[0]
        state = skipped(self.skipped[parent], row.state.size) if parent else ABSENT
        yield from self._emit(Found(observed=Observed(path=path, state=state)), row)

    # These run once for each file of a first capture, so they answer with a tuple where a generator would cost more
    # than what it does.

    def entry(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Iterable[Found]:
        """What stands at ``path``, which is no directory."""
        reason = self.reason(path, found)
        if reason is not None:
            return self._emit(Found(observed=Observed(path=path, state=skipped(reason, found.st_size))), row)
        full = self._full_tree(path, found, row)
        if full is None:
            return self.recorded(path, found, row)
        # no path ends in a slash: this row stands for all further entries (docs/design/002-main-job.md)
        marker = full + b"/"
        if marker in self.done:
            return ()
        self.done.add(marker)
        state = skipped(SkipReason.IGNORED_TREE_FULL)
        return self._emit(Found(observed=Observed(path=marker, state=state)), self.live.one(marker))

    def recorded(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Iterable[Found]:
        """As :meth:`entry`, where no rule keeps it from being recorded."""
        # a store into a page that was stored into before changes no time; that the mapping was closed is all that tells
        if row is not None and unchanged(row, found) and path not in self.told:
            return ()
        if self._churn is not None and row is not None and self._is_held(self._churn, path, found):
            # without a size: it would be a row of its own each time
            return self._emit(Found(observed=Observed(path=path, state=skipped(SkipReason.CHURNING))), row)
        if found.st_nlink > 1:
            self.linked.add((found.st_dev, found.st_ino))
        return self._read(path, found, row)

    def _is_held(self, churn: Turn, path: bytes, found: os.stat_result) -> bool:
        if not stat.S_ISREG(found.st_mode):
            return False
        held = churn.holds(path, found.st_size, max(found.st_mtime_ns, found.st_ctime_ns))
        if held:
            self.held.add(path)
        return held

    def reason(self, path: bytes, found: os.stat_result) -> SkipReason | None:
        """Why ``path``, which is no directory, is not recorded."""
        reason = self.rules.skip_entry(path)
        if reason is not None or not stat.S_ISREG(found.st_mode):
            return reason
        if self.is_over_quota(path, found.st_size):
            return SkipReason.OVER_QUOTA
        if found.st_size > self.settings.max_file_bytes:
            return SkipReason.TOO_LARGE
        if found.st_size > self.settings.ignored_file_bytes and self.rules.ignored_top(path, False) is not None:
            return SkipReason.IGNORED_LARGE
        return None

    def is_over_quota(self, path: bytes, size: int) -> bool:
        """Whether there is no room for a file of so many bytes; the side files of a database go with it."""
        over = self.over_quota
        # what has become small since is recorded, as everything of that size is
        return bool(over) and ((path in over and size >= LEAST_BYTES) or sqlite_base(path) in over)

    def _full_tree(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> bytes | None:
        """The ignored directory tree that has no room for ``path``; what is recorded already stays recorded."""
        top = self.rules.ignored_top(path, False)
        if top is None or top == path or (row is not None and row.state.exists):
            return None
        limit = self.settings.ignored_tree_files
        count = self._ignored_counts.get(top)
        if count is None:
            count = self.live.files_below(top, limit)
        self._ignored_counts[top] = count + 1
        return top if count >= limit else None

    def _read(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Iterable[Found]:
        placed = self.placed.get(path) if self.placed else None
        if placed is not None and placed.ino == found.st_ino and looks_like(found, placed.state):
            # read_at_ns stays 0, so this stat never proves anything: the next look reads the bytes
            seen = Observed(path=path, state=placed.state, identity=identity(found, 0))
            return self._emit(Found(observed=seen), row)
        moved = self._moved.get((found.st_dev, found.st_ino)) if self._moved and path not in self.told else None
        # holds for what lies in a renamed directory; rename may renew the ctime of the file that it renames itself
        # (POSIX), which is read then
        if moved is not None and moved.identity.same_entry(identity(found, 0)) and not moved.identity.racy:
            return self._emit(Found(observed=Observed(path=path, state=moved.state, identity=moved.identity)), row)
        read = self._read_entry(path, found, row)
        if read is None:
            return self.vanished(path)
        if read.observed.state.sqlite:
            return self._unit(path)
        return self._emit(read, row)

    def plain(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Iterable[Found]:
        """A directory, or what else has no content to read."""
        simple = read_simple(self.tree, path, found, wall_ns())
        return self._emit(simple, row) if simple is not None else ()

    def _read_again(self, path: bytes, row: LiveRow | None) -> Found | None:
        found = self.tree.lstat(path)
        if found is None:
            return None
        if (reason := self.reason(path, found)) is not None:
            return Found(observed=Observed(path=path, state=skipped(reason, found.st_size)))
        return self._read_entry(path, found, row)

    def _read_entry(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> Found | None:
        if stat.S_ISREG(found.st_mode):
            return read_file(self.tree, path, found, self._store_big, row.state if row is not None else None)
        try:
            return read_simple(self.tree, path, found, wall_ns())
        except OSError as error:
            # it was a link when it was listed and is none any more: readlink(2) has EINVAL for anything else
            if error.errno in GONE or error.errno == errno.EINVAL:
                return None
            raise

    def _unit(self, base: bytes) -> Iterator[Found]:
        for member in read_unit(self.tree, base, lambda path: self._read_again(path, self.live.one(path))):
            self.done.add(member.observed.path)
            yield from self._emit(member, self.live.one(member.observed.path))
        # who closes a database last deletes -wal and -shm (SQLite, write-ahead logging), and a row of theirs that
        # stayed would be of another moment
        for suffix in SQLITE_SUFFIXES:
            side = base + suffix
            if side not in self.done and self.tree.lstat(side) is None:
                yield from self.vanished(side)

    def _emit(self, found: Found, row: LiveRow | None) -> tuple[Found, ...]:
        """``found``, unless the live row says the same; without bytes that are stored already."""
        path, state, seen = found.observed
        if state.torn:
            self.torn.add(path)
        if row is None:
            return (found,) if state.kind is not _ABSENT else ()
        if state != row.state:
            same = state.blob is not None and state.blob == row.state.blob
            return (found._replace(data=None) if same else found,)
        return (found._replace(data=None),) if seen is not None and seen != row.identity else ()
