"""The files of a purge, once no row names its contents: packs, big files, and what SQLite keeps of rows that are gone.

All of it follows from what the rows name, so a purge that was cut off anywhere is finished by doing this again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from openoxide.checkpoints import purging, stored
from openoxide.checkpoints.frames import Span
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import BIG, pack_name
from openoxide.checkpoints.repack import repack
from openoxide.checkpoints.scrub import blank
from openoxide.checkpoints.timeline import Timeline
from openoxide.errors import StoreReadOnlyError
from openoxide.fileio import fsync_folder, write_errors

_WAIT_SECONDS, _PAUSE_SECONDS = 5, 0.1


def finish(timeline: Timeline, pause: Callable[[float], bool]) -> bool:
    """Do what is left of a purge whose rows are gone; False where who reads old pages or packs, or a copy that goes on,
    leaves it to be done later. ``pause`` waits for so long, and tells whether to end.
    """
    database, blobs = timeline.database, timeline.blobs
    with database.reading() as db:
        left = purging.pending(db)
    if left is None:
        return True
    # what a capture has appended and not named yet would look like what nobody needs
    blobs.shut(left.packs)

    def drained() -> bool:
        # a read that had begun before the rows went may still need a file
        return blobs.leases.drained(_WAIT_SECONDS, lambda: pause(0))

    repack(database, blobs, left.packs, drained=drained)
    _blank_what_stays(timeline, left.packs)
    blobs.drop_packs(drained)
    with database.looking() as db:
        if left.packs & blobs.packs.unused(stored.used_packs(db)):
            return False
    if not _tried(lambda: blobs.drop_unnamed_big(drained), pause):
        return False
    with write_errors("the content store", StoreReadOnlyError):
        for folder in (blobs.packs.folder, blobs.packs.folder / BIG):
            fsync_folder(folder)
    database.write_anew()
    if not _tried(database.empty_wal, pause):
        return False
    with database.writing() as db:
        purging.settle(db)
    return True


def _tried(attempt: Callable[[], bool], pause: Callable[[float], bool]) -> bool:
    for _ in range(round(_WAIT_SECONDS / _PAUSE_SECONDS)):
        if attempt():
            return True
        if pause(_PAUSE_SECONDS):
            break
    return False


def _blank_what_stays(timeline: Timeline, packs: Collection[int]) -> None:
    """A pack with damaged contents stays for what may still be got out of it, without what no row names: under another number,
    since the bytes of a pack never change (a backup holds them against what it has).
    """
    blobs, folder = timeline.blobs, timeline.blobs.packs.folder
    for number in sorted(packs):
        with timeline.database.looking() as db:
            named = stored.named_in(db, number)
        if not named:
            continue

        def goes(span: Span, name: BlobHash, named: Collection[tuple[int, BlobHash]] = named) -> bool:
            return (span.payload, name) not in named

        # a link to a pack that somebody moved is theirs (and told of): what it leads to is not written
        if (folder / pack_name(number)).is_symlink():
            continue
        blobs.promise_packs()
        with (
            write_errors("the content store", StoreReadOnlyError),
            suppress(FileNotFoundError),
            blobs.packs.beside() as fresh,
        ):
            # no row can be helped by what is behind it: where a frame has no header, its contents are damaged anyway
            blank(folder / pack_name(number), folder / pack_name(fresh.number), goes, lambda _: b"")
            with timeline.database.writing() as db:
                stored.renumber_pack(db, number, fresh.number)
