"""From dirty paths, or a whole tree, to observed states. Events are hints; what lstat and the bytes say is the truth.

A path is read only if its stat differs from the one its live state rests on, or is too young to prove anything. What is
yielded differs from the live rows or renews their stat; what is not yielded is as the live rows say.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from openoxide.checkpoints.churn import Turn
from openoxide.checkpoints.ignore import (
    CACHE_SIGNATURE,
    CACHE_TAG,
    IGNORE_FILES,
    MARKER_NAMES,
    RESERVED_NAMES,
    Rules,
)
from openoxide.checkpoints.known import LiveStates, Moved, Placed, unchanged
from openoxide.checkpoints.model import (
    ABSENT,
    SQLITE_SUFFIXES,
    STAGING_NAME,
    Kind,
    Observed,
    SkipReason,
    join,
    skipped,
    split,
    sqlite_base,
)
from openoxide.checkpoints.reading import Found, StoreBig, read_file, read_simple, read_unit
from openoxide.checkpoints.staging import looks_like
from openoxide.checkpoints.tree import GONE, Tree, identity, wall_ns
from openoxide.settings import CaptureSettings

EXCLUDE_FILE = b".git/info/exclude"
_ABSENT = Kind.ABSENT


class Folder(NamedTuple):
    """A directory to be listed: its lstat (None where it has been dealt with) and its live row."""

    path: bytes
    found: os.stat_result | None
    row: Observed | None


class Capture:
    """One capture of one worktree; use it once. ``seen`` counts entries looked at, ``torn`` names what to look at again,
    ``rescanned`` the directories whose rules changed, ``replaced`` the topmost that others stand in the place of, ``held``
    what has changed and is to wait: with ``churn`` a file that changes all the time is not taken each time.
    """

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        settings: CaptureSettings,
        live: LiveStates,
        store_big: StoreBig,
        churn: Turn | None = None,
    ) -> None:
        self._tree = tree
        self._rules = rules
        self._settings = settings
        self._live = live
        self._store_big = store_big
        self._churn = churn
        self._done: set[bytes] = set()
        self._stats: dict[bytes, os.stat_result | None] = {}
        self._recorded: dict[bytes, bool] = {b"": True}
        self._skipped: dict[bytes, SkipReason] = {}
        self._linked: set[tuple[int, int]] = set()
        self._moved: dict[tuple[int, int], Moved] = {}
        self._ignored_counts: dict[bytes, int] = {}
        self._placed: Mapping[bytes, Placed] = {}
        self._told: set[bytes] = set()
        self.seen = 0
        self.torn: set[bytes] = set()
        self.held: set[bytes] = set()
        self.rescanned: set[bytes] = set()
        self.replaced: set[bytes] = set()
        self._whole = False

    def everything(self, told: Collection[bytes] = ()) -> Iterator[Found]:
        """A full pass. ``told``: paths that an event named, which are read whatever their stat says."""
        self._whole = True
        self._live.expect(told)
        self._told = {*told, *(twin for path in told for twin in self._twins(path))}
        # it lies in .git, where no walk ever comes by
        self._rules.load(b"", EXCLUDE_FILE, self._content(EXCLUDE_FILE))
        yield from self._scan(b"")

    def dirty(self, paths: Mapping[bytes, bool], placed: Mapping[bytes, Placed] | None = None) -> Iterator[Found]:
        """What became of ``paths`` (path -> with all below it). ``placed``: entries that need not be read where their
        stat is still the one they were placed with.
        """
        self._placed = placed or {}
        # one query for all that will be asked for one by one
        self._live.expect({*paths, *(split(path)[0] for path in paths)})
        self._told = {*paths}
        work = self._worklist(paths)
        if work.pop(b"", False):
            yield from self.everything(paths)
            return
        stats = {path: self._stats[path] if path in self._stats else self._tree.lstat(path) for path in work}
        # before anything is read: a name that came may be the new one of a name that went
        self._collect_moved(path for path, found in stats.items() if found is None)
        for path in sorted(work):
            if path in self._done or not self._is_recorded(split(path)[0]):
                continue
            found = stats[path]
            if found is None:
                yield from self._vanished(path)
            elif stat.S_ISDIR(found.st_mode):
                yield from self._folder(path, found, recursive=work[path])
            else:
                yield from self._not_a_folder(path, found)
        yield from self._other_names()

    # what to look at

    def _worklist(self, paths: Mapping[bytes, bool]) -> dict[bytes, bool]:
        """``paths`` with what hangs on them: unrecorded ancestors, folders whose rules changed, the database of a side
        file, other names of a hard-linked file.
        """
        work: dict[bytes, bool] = {}
        for path, recursive in paths.items():
            if STAGING_NAME in path.split(b"/"):
                continue
            directory, name = split(path)
            try:
                self._stats[path] = self._tree.lstat(path)
            except PermissionError:  # a folder above was shut: what becomes of it decides about all below
                work[directory] = True
                continue
            work[path] = work.get(path, False) or recursive
            if name in MARKER_NAMES or (
                name in IGNORE_FILES and self._rules.load(directory, name, self._content(path))
            ):
                work[directory] = True
                self.rescanned.add(directory)
            # a side file is part of its database's state (reading.py)
            base = sqlite_base(path)
            if base is not None and (row := self._live.one(base)) is not None and row.state.sqlite:
                work.setdefault(base, False)
            # inotify(7) names the path that was written through, and none of the file's others
            for twin in self._twins(path):
                self._told.add(twin)
                with contextlib.suppress(PermissionError):  # its folder was shut, which is told of by itself
                    self._stats.setdefault(twin, self._tree.lstat(twin))
                    work.setdefault(twin, False)
            self._add_unrecorded_ancestors(work, directory)
        return work

    def _add_unrecorded_ancestors(self, work: dict[bytes, bool], directory: bytes) -> None:
        while directory and directory not in self._recorded:
            row = self._live.one(directory)
            if row is not None and row.state.kind in (Kind.DIRECTORY, Kind.SKIPPED):
                self._recorded[directory] = row.state.kind is Kind.DIRECTORY
                return
            work[directory] = True
            directory = split(directory)[0]

    def _twins(self, path: bytes) -> list[bytes]:
        row = self._live.one(path)
        # by the link count of then, or else of now: either may be the greater one
        if row is not None and row.identity is not None and row.identity.nlink > 1:
            return self._live.twins(row.identity.dev, row.identity.ino)
        found = self._stats.get(path)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:
            return []
        return self._live.twins(found.st_dev, found.st_ino)

    def _other_names(self) -> Iterator[Found]:
        # events name the folder that is new, and not what was written through a name in it
        for dev, ino in self._linked:
            for path in self._live.twins(dev, ino):
                if path in self._done:
                    continue
                try:
                    found = self._tree.lstat(path)
                except PermissionError:  # a folder above was shut, which is still to be told of
                    continue
                if found is not None and (found.st_dev, found.st_ino) == (dev, ino):
                    yield from self._not_a_folder(path, found)

    def _collect_moved(self, vanished: Iterable[bytes]) -> None:
        for path in vanished:
            row = self._live.one(path)
            for gone in [*([row] if row else []), *self._live.below(path)]:
                if gone.identity is not None and gone.state.kind is Kind.FILE and not gone.state.torn:
                    moved = Moved(identity=gone.identity, state=gone.state)
                    self._moved[(gone.identity.dev, gone.identity.ino)] = moved

    def _is_recorded(self, directory: bytes) -> bool:
        """Whether entries of ``directory`` are recorded: it and its parents are no skipped directories."""
        known = self._recorded.get(directory)
        if known is None:
            row = self._live.one(directory)
            skipped_now = row is not None and row.state.kind is Kind.SKIPPED
            known = not skipped_now and self._is_recorded(split(directory)[0])
            self._recorded[directory] = known
        return known

    # directories

    def _scan(self, top: bytes) -> Iterator[Found]:
        """Everything below ``top``, and what was there before and is not now."""
        remaining = {row.path: row for row in self._live.below(top)}
        # no recursion: trees get deeper than Python's stack
        stack: list[Folder] = [Folder(top, None, self._live.one(top) if top else None)]
        while stack:
            folder = stack.pop()
            entries = self._list(folder.path)
            reason = SkipReason.UNREADABLE if entries is None else self._marked(folder.path, {n for n, _ in entries})
            if entries is None or reason is not None:
                yield from self._skip(folder.path, reason or SkipReason.UNREADABLE, folder.row)
                continue
            if folder.found is not None:
                if self._is_replaced(folder.path, folder.found, folder.row):
                    self.replaced.add(folder.path)
                yield from self._plain(folder.path, folder.found, folder.row)
            yield from self._entries(folder.path, entries, remaining, stack)
        for path, row in remaining.items():
            if path not in self._done:
                yield from self._left_over(path, row)

    def _is_replaced(self, path: bytes, found: os.stat_result, row: Observed | None) -> bool:
        """Whether another directory stands here than before, which no event told of: something was mounted, or unmounted."""
        if row is None or row.identity is None or row.state.kind is not Kind.DIRECTORY:
            return False
        # in a part of the tree another number is no sign: what came with its parent is new, and watched since it came
        is_other = self._whole and found.st_ino != row.identity.ino and path not in self._told
        if not is_other and found.st_dev == row.identity.dev:
            return False
        above = split(path)[0]
        while above and above not in self.replaced:
            above = split(above)[0]
        return not above

    def _entries(
        self,
        directory: bytes,
        entries: list[tuple[bytes, os.stat_result]],
        remaining: dict[bytes, Observed],
        stack: list[Folder],
    ) -> Iterator[Found]:
        """What a listed directory holds; folders in it go on the stack."""
        self._load_rules(directory, {name for name, _ in entries})
        # asked once for the directory instead of for each of its entries
        unruled = self._rules.has_no_say(directory)
        # below both limits no rule on size has a say either
        small = min(self._settings.ignored_file_bytes, self._settings.max_file_bytes)
        for name, found in entries:
            if name == STAGING_NAME:
                continue
            path = join(directory, name)
            self.seen += 1
            row = remaining.pop(path, None) if remaining else None
            if path in self._done:
                continue
            self._done.add(path)
            if stat.S_ISDIR(found.st_mode):
                if (reason := self._rules.skip_directory(path, ())) is not None:
                    yield from self._skip(path, reason, row)
                else:
                    stack.append(Folder(path, found, row))
            elif unruled and found.st_size <= small and name not in RESERVED_NAMES:
                yield from self._recorded_entry(path, found, row)
            else:
                yield from self._entry(path, found, row)

    def _list(self, directory: bytes) -> list[tuple[bytes, os.stat_result]] | None:
        try:
            return list(self._tree.entries(directory))
        except PermissionError:
            return None
        except OSError as error:
            if error.errno in GONE:
                # what was recorded in it is left over then, and so gone
                return []
            raise

    def _marked(self, path: bytes, names: Collection[bytes]) -> SkipReason | None:
        """Why a directory that holds ``names`` is skipped as a whole."""
        markers = MARKER_NAMES.intersection(names)
        if CACHE_TAG in markers and not (self._content(join(path, CACHE_TAG)) or b"").startswith(CACHE_SIGNATURE):
            markers -= {CACHE_TAG}
        return self._rules.skip_directory(path, markers)

    def _load_rules(self, directory: bytes, names: set[bytes]) -> None:
        for name in IGNORE_FILES:
            if name in names:
                self._rules.load(directory, name, self._content(join(directory, name)))
            elif name in self._rules.loaded(directory):
                self._rules.load(directory, name, None)

    def _content(self, path: bytes) -> bytes | None:
        seen = self._tree.lstat(path)
        found = read_file(self._tree, path, seen, self._store_big, None) if seen is not None else None
        return found.data if found is not None else None

    def _folder(self, path: bytes, found: os.stat_result, *, recursive: bool) -> Iterator[Found]:
        row = self._live.one(path)
        known = row is not None and row.state.kind is Kind.DIRECTORY
        if row is not None and row.state.kind is Kind.SKIPPED and not recursive:
            # a new mode may have opened it; any other reason stands until a rule changes
            if row.state.target != SkipReason.UNREADABLE.value.encode():
                return
            recursive = True
        self._done.add(path)
        self.seen += 1
        reason = self._rules.skip_directory(path, ())
        if reason is None and (recursive or not known or not self._may_list(path)):
            entries = self._list(path)
            reason = SkipReason.UNREADABLE if entries is None else self._marked(path, {name for name, _ in entries})
        if reason is not None:
            yield from self._skip(path, reason, row)
            yield from self._below(path)
            return
        self._recorded[path] = True
        yield from self._plain(path, found, row)
        if recursive or not known:
            yield from self._scan(path)

    def _may_list(self, path: bytes) -> bool:
        try:
            self._tree.folder(path)
        except PermissionError:
            return False
        except OSError as error:
            if error.errno not in GONE:
                raise
        return True

    def _skip(self, path: bytes, reason: SkipReason, row: Observed | None) -> Iterable[Found]:
        self._skipped[path] = reason
        self._recorded[path] = False
        return self._emit(Found(observed=Observed(path=path, state=skipped(reason))), row)

    # single entries

    def _vanished(self, path: bytes) -> Iterator[Found]:
        self._done.add(path)
        # its ignore files went with it, and must not rule over what comes there next
        self._rules.drop_below(path)
        row = self._live.one(path)
        if row is not None and row.state.kind is not Kind.ABSENT:
            yield Found(observed=Observed(path=path, state=ABSENT))
        yield from self._below(path)

    def _below(self, path: bytes) -> Iterator[Found]:
        for row in list(self._live.below(path)):
            if row.path not in self._done:
                yield from self._left_over(row.path, row)

    def _left_over(self, path: bytes, row: Observed) -> Iterator[Found]:
        """A recorded path that was not met: it is gone, or a rule took it out of sight."""
        self._done.add(path)
        parent = split(path)[0]
        while parent and parent not in self._skipped:
            parent = split(parent)[0]
        state = skipped(self._skipped[parent], row.state.size) if parent else ABSENT
        yield from self._emit(Found(observed=Observed(path=path, state=state)), row)

    def _not_a_folder(self, path: bytes, found: os.stat_result) -> Iterator[Found]:
        row = self._live.one(path)
        self.seen += 1
        yield from self._entry(path, found, row)
        if row is not None and row.state.kind in (Kind.DIRECTORY, Kind.SKIPPED):
            yield from self._below(path)

    # These run once for each file of a first capture, so they answer with a tuple where a generator would cost more
    # than what it does.

    def _entry(self, path: bytes, found: os.stat_result, row: Observed | None) -> Iterable[Found]:
        self._done.add(path)
        reason = self._entry_reason(path, found)
        if reason is not None:
            return self._emit(Found(observed=Observed(path=path, state=skipped(reason, found.st_size))), row)
        full = self._full_tree(path, found, row)
        if full is None:
            return self._recorded_entry(path, found, row)
        # no path ends in a slash: this row stands for all further entries (docs/design/002-main-job.md)
        marker = full + b"/"
        if marker in self._done:
            return ()
        self._done.add(marker)
        state = skipped(SkipReason.IGNORED_TREE_FULL)
        return self._emit(Found(observed=Observed(path=marker, state=state)), self._live.one(marker))

    def _recorded_entry(self, path: bytes, found: os.stat_result, row: Observed | None) -> Iterable[Found]:
        """What stands at ``path``, which no rule keeps from being recorded."""
        # a store into a page that was stored into before changes no time; that the mapping was closed is all that tells
        if row is not None and unchanged(row, found) and path not in self._told:
            return ()
        if self._churn is not None and row is not None and self._is_held(self._churn, path, found):
            # without a size: it would be a row of its own each time
            return self._emit(Found(observed=Observed(path=path, state=skipped(SkipReason.CHURNING))), row)
        if found.st_nlink > 1:
            self._linked.add((found.st_dev, found.st_ino))
        return self._read(path, found, row)

    def _is_held(self, churn: Turn, path: bytes, found: os.stat_result) -> bool:
        if not stat.S_ISREG(found.st_mode):
            return False
        held = churn.holds(path, found.st_size, max(found.st_mtime_ns, found.st_ctime_ns))
        if held:
            self.held.add(path)
        return held

    def _entry_reason(self, path: bytes, found: os.stat_result) -> SkipReason | None:
        reason = self._rules.skip_entry(path)
        if reason is not None or not stat.S_ISREG(found.st_mode):
            return reason
        if found.st_size > self._settings.max_file_bytes:
            return SkipReason.TOO_LARGE
        if found.st_size > self._settings.ignored_file_bytes and self._rules.ignored_top(path, False) is not None:
            return SkipReason.IGNORED_LARGE
        return None

    def _full_tree(self, path: bytes, found: os.stat_result, row: Observed | None) -> bytes | None:
        """The ignored directory tree that has no room for ``path``; what is recorded already stays recorded."""
        top = self._rules.ignored_top(path, False)
        if top is None or top == path or (row is not None and row.state.exists):
            return None
        limit = self._settings.ignored_tree_files
        count = self._ignored_counts.get(top)
        if count is None:
            count = self._live.files_below(top, limit)
        self._ignored_counts[top] = count + 1
        return top if count >= limit else None

    def _read(self, path: bytes, found: os.stat_result, row: Observed | None) -> Iterable[Found]:
        placed = self._placed.get(path) if self._placed else None
        if placed is not None and placed.ino == found.st_ino and looks_like(found, placed.state):
            # read_at_ns stays 0, so this stat never proves anything: the next look reads the bytes
            seen = Observed(path=path, state=placed.state, identity=identity(found, 0))
            return self._emit(Found(observed=seen), row)
        moved = self._moved.get((found.st_dev, found.st_ino)) if self._moved and path not in self._told else None
        # holds for what lies in a renamed directory; rename may renew the ctime of the file that it renames itself
        # (POSIX), which is read then
        if moved is not None and moved.identity.same_entry(identity(found, 0)) and not moved.identity.racy:
            return self._emit(Found(observed=Observed(path=path, state=moved.state, identity=moved.identity)), row)
        read = self._read_entry(path, found, row)
        if read is None:
            return self._vanished(path)
        if read.observed.state.sqlite:
            return self._unit(path)
        return self._emit(read, row)

    def _plain(self, path: bytes, found: os.stat_result, row: Observed | None) -> Iterable[Found]:
        simple = read_simple(self._tree, path, found, wall_ns())
        return self._emit(simple, row) if simple is not None else ()

    def _read_again(self, path: bytes, row: Observed | None) -> Found | None:
        found = self._tree.lstat(path)
        if found is None:
            return None
        if (reason := self._entry_reason(path, found)) is not None:
            return Found(observed=Observed(path=path, state=skipped(reason, found.st_size)))
        return self._read_entry(path, found, row)

    def _read_entry(self, path: bytes, found: os.stat_result, row: Observed | None) -> Found | None:
        if stat.S_ISREG(found.st_mode):
            return read_file(self._tree, path, found, self._store_big, row.state if row is not None else None)
        try:
            return read_simple(self._tree, path, found, wall_ns())
        except OSError as error:
            # it was a link when it was listed and is none any more: readlink(2) has EINVAL for anything else
            if error.errno in GONE or error.errno == errno.EINVAL:
                return None
            raise

    def _unit(self, base: bytes) -> Iterator[Found]:
        for member in read_unit(self._tree, base, lambda path: self._read_again(path, self._live.one(path))):
            self._done.add(member.observed.path)
            yield from self._emit(member, self._live.one(member.observed.path))
        # who closes a database last deletes -wal and -shm (SQLite, write-ahead logging), and a row of theirs that
        # stayed would be of another moment
        for suffix in SQLITE_SUFFIXES:
            side = base + suffix
            if side not in self._done and self._tree.lstat(side) is None:
                yield from self._vanished(side)

    def _emit(self, found: Found, row: Observed | None) -> tuple[Found, ...]:
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
