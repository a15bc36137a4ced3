"""Which of the packs that no row names are litter, and which may be the only ones to hold what a row names.

A crash or a deletion leaves litter. A copy of ``timeline.db`` that came back names packs that are gone by now: what they held
lies where a repack has moved it since then, in packs that this copy knows nothing of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from openoxide.checkpoints import stored
from openoxide.checkpoints.frames import PLAIN, Place, frames_in
from openoxide.checkpoints.hashing import HASH_BYTES
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import Packs, pack_name
from openoxide.db import Database
from openoxide.errors import OpenOxideError
from openoxide.fileio import read_regular

_NOBODY = BlobHash(bytes(HASH_BYTES))
Damaged = Callable[[Sequence[BlobHash]], list[BlobHash]]
"""Which contents cannot be read where their rows lead (``Blobs.damaged``)."""


def litter(database: Database, packs: Packs, numbers: Collection[int], damaged: Damaged) -> set[int]:
    """Those of ``numbers``, packs that no row names, of which nothing can be needed. In doubt one is none."""
    if not numbers or not _all_there(database, packs):
        return set()
    return {number for number in numbers if not _holds_needed(database, packs, number, damaged)}


def _all_there(database: Database, packs: Packs) -> bool:
    """Whether the packs that rows name are there, and as long as the rows say."""
    try:
        with database.reading() as db:
            reached = stored.pack_sizes(db)
        return all((packs.length(Place(pack, 0, 0, 0, PLAIN), _NOBODY) or 0) >= size for pack, size in reached.items())
    except (OSError, OpenOxideError):  # who cannot tell deletes nothing
        return False


def _holds_needed(database: Database, packs: Packs, number: int, damaged: Damaged) -> bool:
    """Whether a content in it has a row and cannot be read where that leads."""
    try:
        # frame by frame up to its end: one that is damaged hides none of those behind it
        data = read_regular(packs.folder / pack_name(number), follow=False)
        names = {name for header, _ in frames_in(data) for name, _, _ in header.entries}
        with database.reading() as db:
            named = stored.named(db, names)
        return bool(damaged(named))
    except (OSError, OpenOxideError):
        return True
