"""How packs are used, counted content by content: what is there, or what would be there after a prune. A prune decides by the
same count as its forecast does, and ``du`` tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from openoxide.checkpoints import needed
from openoxide.checkpoints.frames import DELTA, ZSTD, Place, head_bytes
from openoxide.checkpoints.needed import LEAST_DELTA_BYTES, ContentUse
from openoxide.checkpoints.packs import Packs
from openoxide.checkpoints.prunable import PackUse, worth_repacking
from openoxide.db import Database

_PAGE = 5_000
_ENTRY_BYTES = head_bytes(1) - head_bytes(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What rows of the timeline name: the contents of all, and of those that are not the newest of their paths."""

    named: Collection[int]
    older: Collection[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """``packs`` as they are without the contents that go: how many ``contents``, what they take in files of their own
    (``big_bytes``), and all that is dead then (``dead_bytes``): of these, and bytes of packs that no row names.
    """

    packs: list[PackUse]
    contents: int = 0
    dead_bytes: int = 0
    big_bytes: int = 0


def read_rows(database: Database, gone: Collection[tuple[int, int]], breathe: Callable[[], None]) -> Rows:
    """What all rows name but those that are ``gone``, by path and position."""
    named: set[int] = set()
    older: set[int] = set()
    for path, seq, blob, is_older in _every_row(database, breathe):
        if (path, seq) not in gone:
            named.add(blob)
            if is_older:
                older.add(blob)
    return Rows(named=named, older=older)


def count(
    database: Database,
    packs: Packs,
    older: Collection[int],
    breathe: Callable[[], None],
    alive: Collection[int] | None = None,
) -> Uses:
    """The packs by what lives in them: all that has a row, or of that what is ``alive``. ``older``: contents that a newer
    version of their path may be compared with.
    """
    found: defaultdict[int, _Pack] = defaultdict(_Pack)
    contents, big = 0, 0.0
    for content in _every_content(database, breathe):
        pack = content.place.pack
        if alive is not None and content.blob not in alive:
            contents += 1
            big += content.stored_bytes if pack is None else 0
        elif pack is not None:
            found[pack].add(content, is_older=content.blob in older)
    sizes = packs.sizes()
    uses = [found[number].use(number, size) for number, size in sizes.items()]
    resting = {use.number: found[use.number].resting_bytes(packs) for use in worth_repacking(uses)}
    found_uses = [
        PackUse(
            number=use.number,
            size_bytes=use.size_bytes,
            live_bytes=use.live_bytes + resting.get(use.number, 0),
            versions_bytes=use.versions_bytes,
        )
        for use in uses
    ]
    return Uses(
        packs=found_uses,
        contents=contents,
        dead_bytes=round(big) + sum(use.dead_bytes for use in found_uses),
        big_bytes=round(big),
    )


@dataclass(slots=True)
class _Pack:
    live: float = 0
    versions: float = 0
    frames: set[int] = field(default_factory=set)
    deltas: set[Place] = field(default_factory=set)

    def add(self, content: ContentUse, *, is_older: bool) -> None:
        place = content.place
        self.live += content.stored_bytes + _ENTRY_BYTES
        if place.offset not in self.frames:
            self.frames.add(place.offset)
            self.live += head_bytes(0)
        if place.codec == DELTA:
            self.deltas.add(place)
        elif is_older and place.codec == ZSTD and content.size >= LEAST_DELTA_BYTES and not content.settled:
            self.versions += content.stored_bytes

    def use(self, number: int, size_bytes: int) -> PackUse:
        return PackUse(
            number=number, size_bytes=size_bytes, live_bytes=round(self.live), versions_bytes=round(self.versions)
        )

    def resting_bytes(self, packs: Packs) -> int:
        """What frames take that no row names, and that others are deltas of: written anew, the newest of those is whole."""
        bases = {base for place in self.deltas if (base := packs.base(place)) is not None}
        return sum(base.stored + head_bytes(1) for base in bases if base.offset not in self.frames)


def _every_row(database: Database, breathe: Callable[[], None]) -> Iterator[tuple[int, int, int, bool]]:
    last = (-1, -1)
    while True:
        with database.looking() as db:
            page = needed.contents_of_rows(db, last, _PAGE)
        if not page:
            return
        yield from page
        last = page[-1][:2]
        breathe()


def _every_content(database: Database, breathe: Callable[[], None]) -> Iterable[ContentUse]:
    last = 0
    while True:
        with database.looking() as db:
            page = needed.content_uses(db, last, _PAGE)
        if not page:
            return
        yield from page
        last = page[-1].blob
        breathe()
