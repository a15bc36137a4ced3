"""Frees what nothing needs any more: rows first, durably, then bytes. What is needed ``prunable.py`` decides.

Every transaction is short, and between two of them others go first. Killed at any point, a prune has freed less: what it
has begun the next one goes on with. Nothing that a read had found is deleted before that read has ended (``leases.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from openoxide.checkpoints import needed, packuse, prunable
from openoxide.checkpoints.blobs import Blobs
from openoxide.checkpoints.prunable import ROOM_BYTES, Needs, PackUse, Room, room_for
from openoxide.checkpoints.repack import repack
from openoxide.checkpoints.rows import raw
from openoxide.db import Database, Transaction
from openoxide.errors import StoreFullError
from openoxide.knobs import size

# what one transaction takes: a checkpoint waits for it (benchmarks, prune)
_BATCH = 100
# packs that are written anew together: versions of a path in two of them meet
PORTION_BYTES = 256 << 20
# pages that stay for the next rows, and that one slice gives back
_SPARE_PAGES, _SLICE_PAGES = 64, 32
# a fold of the WAL that a commit of somebody else would have to do comes at a thousand pages
_FOLD_EVERY = 4

READS_GO_ON = "somebody reads: what that may need was left to the next prune"
CLOCK = "the clock is not to be believed: no state was taken for older than a day"
NO_ROOM = "there is no room to write rows: what needs none was freed, and the rest is left to the next prune"

ENDLESS = Room(lambda: sys.maxsize)

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Pruned:
    """What a prune freed. ``versions`` are rows of the timeline; ``damaged`` contents stay in their packs. ``lacking_bytes``:
    how much would have to be free for more of it to go, 0 where nothing was left for want of room.
    """

    versions: int = 0
    contents: int = 0
    big_bytes: int = 0
    packs_deleted: int = 0
    packs_rewritten: int = 0
    damaged: int = 0
    lacking_bytes: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Prune:
    """One prune of a home. ``breathe`` is called where others may go first, and may raise to end it; ``drained`` tells
    whether the reads that have begun come to an end. ``given_up``: by worktree, up to which position a limit has given the
    fine window up. ``room``: of the disk; what is kept is for rows, and for packs, that find no other.
    """

    database: Database
    blobs: Blobs
    now_ms: int
    clock_trusted: bool
    breathe: Callable[[], None] = lambda: None
    drained: Callable[[], bool] = lambda: True
    given_up: Mapping[int, int] = field(default_factory=dict)
    room: Room = ENDLESS
    pruned: Pruned = field(default_factory=Pruned)
    _commits: int = 0

    def run(self) -> Pruned:
        """Free it. On a full disk rows need room that only rows would make: what is kept is given up once."""
        try:
            try:
                self._free()
            except StoreFullError:
                if not self.room.take():
                    raise
                self._free()
        except StoreFullError:
            if not self.pruned.packs_deleted and not self.pruned.big_bytes:
                raise
            self.pruned.lacking_bytes = ROOM_BYTES
            self._note(NO_ROOM)
        return self.pruned

    def _free(self) -> None:
        # what needs no room comes first: it makes room for the rest
        self._files()
        if not self.clock_trusted:
            self._note(CLOCK)
        elif self._wait():
            self._rows()
        self._contents()
        self._files()
        self._packs()
        self._pages()

    def _wait(self) -> bool:
        if self.drained():
            return True
        self._note(READS_GO_ON)
        return False

    def _note(self, text: str) -> None:
        if text not in self.pruned.notes:
            self.pruned.notes.append(text)

    def _files(self) -> None:
        self.pruned.big_bytes += self.blobs.drop_bigs(self._wait)
        self.pruned.packs_deleted += len(self.blobs.drop_packs(self._wait))

    def _look(self, look: Callable[[Transaction], _T]) -> _T:
        with self.database.looking() as db:
            return look(db)

    def _in_batches(self, items: Sequence[_T], act: Callable[[Transaction, Sequence[_T]], int | None]) -> int:
        done = 0
        for start in range(0, len(items), _BATCH):
            with self.database.writing() as db:
                done += act(db, items[start : start + _BATCH]) or 0
            self._commits += 1
            self.breathe()
            if self._commits % _FOLD_EVERY == 0:
                self.database.fold_beside()
                self.breathe()
        return done

    def _rows(self) -> None:
        for gone in superfluous(self.database, read_needs(self.database, self.now_ms, self.given_up), self.breathe):
            self.pruned.versions += self._in_batches(gone, needed.delete_rows)
        self._in_batches(self._look(needed.unused_writers), needed.delete_writers)
        self._in_batches(self._look(needed.unused_paths), needed.delete_paths)

    def _contents(self) -> None:
        def mark(db: Transaction, blobs: Sequence[int]) -> None:
            needed.mark_contents(db, blobs, self.now_ms)

        self._in_batches(self._look(needed.unmarked_contents), mark)
        # named since: before the mark, and then it is found now; or after it, and then the mark has gone
        dead, alive = self._look(needed.marked_contents)
        self._in_batches(alive, lambda db, blobs: needed.mark_contents(db, blobs, None))
        if dead and self._wait():
            self.pruned.contents += self._in_batches(dead, needed.delete_contents)

    def _packs(self) -> None:
        uses = packuse.count(
            self.database,
            self.blobs.packs,
            packuse.read_rows(self.database, (), self.breathe).older,
            self.breathe,
        )
        left = {use.number: use for use in prunable.worth_repacking(uses.packs)}
        for portion in prunable.portions([*left.values()], PORTION_BYTES, self.room):
            numbers = [use.number for use in portion]
            done = repack(self.database, self.blobs, numbers, breathe=self.breathe, drained=self._wait)
            self.pruned.packs_rewritten += len(done.removed & {*numbers})
            self.pruned.packs_deleted += len(done.removed.difference(numbers))
            self.pruned.damaged += len(done.damaged)
            for number in numbers:
                del left[number]
        if left:
            self.pruned.lacking_bytes = lacking(left.values())
            self._note(too_little_room(left.values(), self.room))

    def _pages(self) -> None:
        self.database.fold_beside()
        free = self.database.free_pages()
        while free > _SPARE_PAGES:
            self.database.vacuum(min(_SLICE_PAGES, free - _SPARE_PAGES))
            self.breathe()
            self.database.fold_beside()
            self.breathe()
            before, free = free, self.database.free_pages()
            if free >= before:  # others use them as fast, or there is no room to
                break


def lacking(left: Collection[PackUse]) -> int:
    """How much has to be free for one of them to be written anew."""
    return min(room_for(use.live_bytes) for use in left)


def too_little_room(left: Collection[PackUse], room: Room) -> str:
    """What the disk has no room to write anew, in words."""
    most = sum(use.freed_bytes for use in left)
    free, kept = room.free(), room.kept()
    reserve = f" beside the {size(kept)} of the reserve, which would not do either" if kept else ""
    packs = "1 pack stays as it is" if len(left) == 1 else f"{len(left)} packs stay as they are"
    return (
        f"{packs}: to write the smallest anew {size(lacking(left))} have to be free, and {size(free)} are{reserve};"
        f" that would free {size(most)} in all"
    )


def read_needs(
    database: Database, now_ms: int, given_up: Mapping[int, int], *, without_trash: bool = False
) -> dict[int, Needs]:
    """What is kept of each worktree."""
    with database.reading() as db:
        worktrees = [row[0] for row in raw(db).execute("select id from worktree")]
        return {
            worktree: needed.read_needs(db, worktree, now_ms, given_up.get(worktree, 0), without_trash=without_trash)
            for worktree in worktrees
        }


def superfluous(
    database: Database, needs: Mapping[int, Needs], breathe: Callable[[], None]
) -> Iterator[list[tuple[int, int]]]:
    """``(path id, seq)`` of rows that nothing needs, some paths at a time."""
    authors, last = needed.Authors(), 0
    while True:
        with database.looking() as db:
            paths = needed.paths_after(db, last, authors)
        if not paths:
            return
        last = paths[-1].id
        # a history that is deleted meanwhile has no needs and no rows
        known = [path for path in paths if path.worktree in needs]
        yield [
            (path.id, seq)
            for path in known
            for seq in prunable.superfluous(path.rows, needs[path.worktree], is_database=path.is_database)
        ]
        breathe()
