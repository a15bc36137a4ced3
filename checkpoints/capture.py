"""From dirty paths, or a whole tree, to observed states. Events are hints; what lstat and the bytes say is the truth.

What is yielded differs from the live rows or renews their stat; what is not yielded is as the live rows say. Whole trees
are walked in the order of the rows, so that of either only one directory and one page are in memory.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.ignore import (
    CACHE_SIGNATURE,
    CACHE_TAG,
    IGNORE_FILES,
    MARKER_NAMES,
    RESERVED_NAMES,
)
from openoxide.checkpoints.known import Placed
from openoxide.checkpoints.live import LiveRow, unchanged
from openoxide.checkpoints.model import STAGING_NAME, Kind, SkipReason, join, split, sqlite_base
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.tree import GONE

EXCLUDE_FILE = b".git/info/exclude"


class Folder(NamedTuple):
    """A directory to be listed: its lstat (None where it has been dealt with) and its live row."""

    path: bytes
    found: os.stat_result | None
    row: LiveRow | None


class Listing(NamedTuple):
    """A directory that was listed. ``steps`` in the order of whole paths: each name with its lstat, and for a directory
    again, as ``name/`` without one, where the paths below it come.
    """

    path: bytes
    steps: Iterator[tuple[bytes, os.stat_result | None]]


class Capture:
    """One capture of one worktree; use it once. ``seen`` counts entries looked at, ``torn`` names what to look at again,
    ``rescanned`` the directories whose rules changed, ``replaced`` the topmost that others stand in the place of, ``held``
    what has changed and is to wait.
    """

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._tree, self._rules, self._live = entries.tree, entries.rules, entries.live
        # below both limits no rule on size has a say
        self._small = min(entries.settings.ignored_file_bytes, entries.settings.max_file_bytes)
        self._stats: dict[bytes, os.stat_result | None] = {}
        self._recorded: dict[bytes, bool] = {b"": True}
        self.torn, self.held = entries.torn, entries.held
        self.seen = 0
        self.rescanned: set[bytes] = set()
        self.replaced: set[bytes] = set()
        self._whole = False

    def everything(self, told: Collection[bytes] = ()) -> Iterator[Found]:
        """A full pass. ``told``: paths that an event named, which are read whatever their stat says."""
        self._whole = True
        self._live.expect(told)
        self._entries.told = {*told, *(twin for path in told for twin in self._twins(path))}
        # it lies in .git, where no walk ever comes by
        self._rules.load(b"", EXCLUDE_FILE, self._entries.content(EXCLUDE_FILE))
        yield from self._scan(b"")

    def dirty(self, paths: Mapping[bytes, bool], placed: Mapping[bytes, Placed] | None = None) -> Iterator[Found]:
        """What became of ``paths`` (path -> with all below it). ``placed``: entries that need not be read where their
        stat is still the one they were placed with.
        """
        self._entries.placed = placed or {}
        # one query for all that will be asked for one by one
        self._live.expect({*paths, *(split(path)[0] for path in paths)})
        self._entries.told = {*paths}
        work = self._worklist(paths)
        if work.pop(b"", False):
            yield from self.everything(paths)
            return
        stats = {path: self._stats[path] if path in self._stats else self._tree.lstat(path) for path in work}
        # before anything is read: a name that came may be the new one of a name that went
        self._entries.collect_moved(path for path, found in stats.items() if found is None)
        for path in sorted(work):
            if path in self._entries.done or not self._is_recorded(split(path)[0]):
                continue
            found = stats[path]
            if found is None:
                yield from self._entries.vanished(path)
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
                name in IGNORE_FILES and self._rules.load(directory, name, self._entries.content(path))
            ):
                work[directory] = True
                self.rescanned.add(directory)
            # a side file is part of its database's state (reading.py)
            base = sqlite_base(path)
            if base is not None and (row := self._live.one(base)) is not None and row.state.sqlite:
                work.setdefault(base, False)
            # inotify(7) names the path that was written through, and none of the file's others
            for twin in self._twins(path):
                self._entries.told.add(twin)
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
        for dev, ino in self._entries.linked:
            for path in self._live.twins(dev, ino):
                if path in self._entries.done:
                    continue
                try:
                    found = self._tree.lstat(path)
                except PermissionError:  # a folder above was shut, which is still to be told of
                    continue
                if found is not None and (found.st_dev, found.st_ino) == (dev, ino):
                    yield from self._not_a_folder(path, found)

    def _is_recorded(self, directory: bytes) -> bool:
        """Whether entries of ``directory`` are recorded: it and its parents are no skipped directories."""
        if directory in self._entries.skipped:
            return False
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
        recorded = _Recorded(self._live.below(top))
        waiting: dict[bytes, Folder] = {}
        # no recursion: trees get deeper than Python's stack
        stack = [(yield from self._open(Folder(top, None, self._live.one(top) if top else None)))]
        while stack:
            folder = yield from self._walk(stack[-1], recorded, waiting)
            if folder is None:
                stack.pop()
            else:
                stack.append((yield from self._open(folder)))
        yield from self._gone(recorded.before(None))
        # what stands for many entries: only now is it known whether one of them was met
        yield from self._gone(recorded.markers)

    def _open(self, folder: Folder) -> Generator[Found, None, Listing]:
        """List ``folder``: what it is itself, and then what is to be walked in it."""
        entries = self._list(folder.path)
        reason = SkipReason.UNREADABLE if entries is None else self._marked(folder.path, {n for n, _ in entries})
        if entries is None or reason is not None:
            yield from self._entries.skip(folder.path, reason or SkipReason.UNREADABLE, folder.row)
            return Listing(folder.path, iter(()))
        if folder.found is not None:
            if self._is_replaced(folder.path, folder.found, folder.row):
                self.replaced.add(folder.path)
            if folder.row is None or not unchanged(folder.row, folder.found):
                yield from self._entries.plain(folder.path, folder.found, folder.row)
        self._load_rules(folder.path, {name for name, _ in entries})
        below = [(name + b"/", None) for name, found in entries if stat.S_ISDIR(found.st_mode)]
        return Listing(folder.path, iter(sorted([*entries, *below], key=itemgetter(0)) if below else entries))

    def _walk(
        self, listing: Listing, recorded: _Recorded, waiting: dict[bytes, Folder]
    ) -> Generator[Found, None, Folder | None]:
        """What a listed directory holds, up to the next folder to be listed; None at the end."""
        directory, steps = listing
        entries, prefix = self._entries, directory + b"/" if directory else b""
        # asked once for the directory instead of for each of its entries
        unruled = self._rules.has_no_say(directory)
        for name, found in steps:
            path = prefix + name
            if found is None:
                if (folder := waiting.pop(path, None)) is not None:
                    return folder
                continue
            if recorded.next is not None and recorded.next[0] < path:
                yield from self._gone(recorded.before(path))
            row = recorded.take(path)
            if name == STAGING_NAME or path in entries.done:
                continue
            self.seen += 1
            if not self._whole:  # in a whole tree none comes again, and all of its paths are not to be held in memory
                entries.done.add(path)
            if stat.S_ISDIR(found.st_mode):
                if (reason := self._rules.skip_directory(path, ())) is not None:
                    yield from entries.skip(path, reason, row)
                else:
                    waiting[path + b"/"] = Folder(path, found, row)
                continue
            plain = unruled and self._is_plain(path, name, found)
            if row is None or not self._is_as_recorded(path, found, row, plain=plain):
                yield from entries.recorded(path, found, row) if plain else entries.entry(path, found, row)
        return None

    def _is_plain(self, path: bytes, name: bytes, found: os.stat_result) -> bool:
        """Whether no rule has a say about an entry, in a directory where none has of most (Rules.has_no_say)."""
        return (
            found.st_size <= self._small
            and name not in RESERVED_NAMES
            and not self._entries.is_over_quota(path, found.st_size)
        )

    def _is_as_recorded(self, path: bytes, found: os.stat_result, row: LiveRow, *, plain: bool) -> bool:
        # asked here for what is most of a tree: no value has to be made of its row (LiveRow)
        if not unchanged(row, found) or path in self._entries.told:
            return False
        return plain or self._entries.reason(path, found) is None

    def _gone(self, rows: Iterable[LiveRow]) -> Iterator[Found]:
        for row in rows:
            if row.path not in self._entries.done:
                yield from self._entries.left_over(row.path, row)

    def _is_replaced(self, path: bytes, found: os.stat_result, row: LiveRow | None) -> bool:
        """Whether another directory stands here than before, which no event told of: something was mounted, or unmounted."""
        before = row.identity if row is not None and row.kind == Kind.DIRECTORY else None
        if before is None:
            return False
        # in a part of the tree another number is no sign: what came with its parent is new, and watched since it came
        is_other = self._whole and found.st_ino != before.ino and path not in self._entries.told
        if not is_other and found.st_dev == before.dev:
            return False
        above = split(path)[0]
        while above and above not in self.replaced:
            above = split(above)[0]
        return not above

    def _list(self, directory: bytes) -> list[tuple[bytes, os.stat_result]] | None:
        try:
            # each name once: a listing of a directory that changes may hold one twice
            return list(dict(self._tree.entries(directory)).items())
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
        if CACHE_TAG in markers and not (self._entries.content(join(path, CACHE_TAG)) or b"").startswith(
            CACHE_SIGNATURE
        ):
            markers -= {CACHE_TAG}
        return self._rules.skip_directory(path, markers)

    def _load_rules(self, directory: bytes, names: set[bytes]) -> None:
        for name in IGNORE_FILES:
            if name in names:
                self._rules.load(directory, name, self._entries.content(join(directory, name)))
            elif name in self._rules.loaded(directory):
                self._rules.load(directory, name, None)

    def _folder(self, path: bytes, found: os.stat_result, *, recursive: bool) -> Iterator[Found]:
        row = self._live.one(path)
        known = row is not None and row.state.kind is Kind.DIRECTORY
        if row is not None and row.state.kind is Kind.SKIPPED and not recursive:
            # a new mode may have opened it; any other reason stands until a rule changes
            if row.state.target != SkipReason.UNREADABLE.value.encode():
                return
            recursive = True
        self._entries.done.add(path)
        self.seen += 1
        reason = self._rules.skip_directory(path, ())
        if reason is None and (recursive or not known or not self._may_list(path)):
            entries = self._list(path)
            reason = SkipReason.UNREADABLE if entries is None else self._marked(path, {name for name, _ in entries})
        if reason is not None:
            yield from self._entries.skip(path, reason, row)
            yield from self._entries.gone_below(path)
            return
        self._recorded[path] = True
        yield from self._entries.plain(path, found, row)
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

    def _not_a_folder(self, path: bytes, found: os.stat_result) -> Iterator[Found]:
        row = self._live.one(path)
        self.seen += 1
        self._entries.done.add(path)
        directory, name = split(path)
        plain = self._is_plain(path, name, found) and self._rules.has_no_say(directory)
        yield from self._entries.recorded(path, found, row) if plain else self._entries.entry(path, found, row)
        if row is not None and row.kind in (Kind.DIRECTORY, Kind.SKIPPED):
            yield from self._entries.gone_below(path)


class _Recorded:
    """Live rows in path order, beside a walk in the same order. ``next`` is the first that the walk has not come to."""

    def __init__(self, rows: Iterable[LiveRow]) -> None:
        self._rows = iter(rows)
        self.next = next(self._rows, None)
        self.markers: list[LiveRow] = []

    def take(self, path: bytes) -> LiveRow | None:
        """The row of ``path``, which the walk has come to."""
        row = self.next
        if row is None or row[0] != path:
            return None
        self.next = next(self._rows, None)
        return row

    def before(self, path: bytes | None) -> Iterator[LiveRow]:
        """Those before ``path`` (None: all that are left), which the walk did not come to."""
        while (row := self.next) is not None and (path is None or row.path < path):
            self.next = next(self._rows, None)
            # a path that ends in a slash is no entry's (Entries.entry)
            if row.path.endswith(b"/"):
                self.markers.append(row)
            else:
                yield row
