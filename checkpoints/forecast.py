"""What a prune would free, counted without writing anything: by the same decisions, from what would be left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openoxide.checkpoints import needed, packuse, prunable
from openoxide.checkpoints.blobs import Blobs
from openoxide.checkpoints.prunable import PackUse, Room
from openoxide.checkpoints.prune import CLOCK, ENDLESS, PORTION_BYTES, lacking, read_needs, superfluous, too_little_room
from openoxide.db import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a prune would free (``freed_bytes``). ``dead_bytes``: all that nothing needs, also where its pack stays as it is;
    ``lacking_bytes``: as of a prune.
    """

    versions: int
    contents: int
    freed_bytes: int
    dead_bytes: int
    packs: int
    lacking_bytes: int = 0
    notes: tuple[str, ...] = ()


def forecast(
    database: Database,
    blobs: Blobs,
    now_ms: int,
    *,
    clock_trusted: bool,
    breathe: Callable[[], None] = lambda: None,
    given_up: Mapping[int, int] | None = None,
    room: Room = ENDLESS,
    without_trash: bool = False,
) -> Forecast:
    """The bytes are those of files that go or shrink, not of contents whose packs stay as they are. ``without_trash``: as if
    trash were emptied before.
    """
    gone: set[tuple[int, int]] = set()
    if clock_trusted:
        needs = read_needs(database, now_ms, given_up or {}, without_trash=without_trash)
        for some in superfluous(database, needs, breathe):
            gone.update(some)
    rows = packuse.read_rows(database, gone, breathe)
    with database.looking() as db:
        alive = needed.named_elsewhere(db).union(rows.named)
    uses = packuse.count(database, blobs.packs, rows.older, breathe, alive)
    # small ones that are only merged give nothing back
    worth = [use for use in prunable.worth_repacking(uses.packs) if use.freed_bytes]
    written, left = _written(worth, room, uses.big_bytes)
    notes = [] if clock_trusted else [CLOCK]
    if left:
        notes.append(too_little_room(left, room))
    return Forecast(
        versions=len(gone),
        contents=uses.contents,
        freed_bytes=uses.big_bytes + _freed(written),
        dead_bytes=uses.dead_bytes,
        packs=len(written),
        lacking_bytes=lacking(left) if left else 0,
        notes=tuple(notes),
    )


def _written(worth: list[PackUse], room: Room, big_bytes: int) -> tuple[list[PackUse], list[PackUse]]:
    """Which of the packs there is room to write anew, and which are left."""
    written: list[PackUse] = []
    taken = 0

    def take() -> bool:
        nonlocal taken
        taken, had = room.kept(), taken
        return taken > had

    expected = Room(
        lambda: room.free() + big_bytes + _freed(written) + taken, lambda: 0 if taken else room.kept(), take
    )
    for portion in prunable.portions(worth, PORTION_BYTES, expected):
        written += portion
    return written, [use for use in worth if use not in written]


def _freed(written: list[PackUse]) -> int:
    return sum(min(use.freed_bytes, use.size_bytes) for use in written)
