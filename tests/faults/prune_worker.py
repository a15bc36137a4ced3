"""A prune and a repack of what it leaves, for the fault lab: ``python -m tests.faults.prune_worker FOLDER [full]``.

The project has states that no checkpoint holds, a big file and a checkpoint that have gone, and edits of a text. What is
sealed before and after the prune is acknowledged by its number. With ``full`` there are files that no row names, and the
prune alone is in the sweep.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from openoxide.checkpoints.frames import compressor, make_frame
from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box
from tests.kit.recorded import wait_for_full_pass

DAY_MS = 86_400_000
BIG = 5 << 20


def text(number: int) -> bytes:
    lines = [b"line %d\n" % line for line in range(2_000)]
    lines[number * 7] = b"edited %d\n" % number
    return b"".join(lines)


def tree(root: Path, number: int) -> None:
    """What stands there at checkpoint ``number``."""
    (root / "text").write_bytes(text(number))
    (root / "noise").write_bytes(random.Random(number).randbytes(20_000))


def leave_files(box: Box) -> None:
    """A pack and a big file that no row names."""
    with box.service.timeline.blobs.packs.beside() as pack:
        pack.append([make_frame([(blob_hash(b"x"), b"x")], compressor())])
    with (box.home.folder.parent / "note").open("wb+") as source:
        source.write(random.Random(9).randbytes(BIG))
        source.seek(0)
        box.service.timeline.blobs.write_big(source)


def main(folder: Path, *, full: bool) -> None:
    box = Box(folder, clock=FakeClock())
    (box.root / "big").write_bytes(random.Random(0).randbytes(BIG))
    tree(box.root, 1)
    box.watch()
    wait_for_full_pass(box)
    (box.root / "big").unlink()
    for number in (2, 3, 4):
        for between in range(3):
            (box.root / "noise").write_bytes(random.Random(number * 100 + between).randbytes(30_000))
            for watched in box.service.all_watched():
                with watched.lock:
                    watched.record()
        tree(box.root, number)
        box.checkpoint()
    with box.service.timeline.database.writing() as db:
        db.execute_sql("delete from checkpoint where number = 1")
    box.clock.advance(2 * DAY_MS)
    if full:
        leave_files(box)
        arm()
        ack(" ".join(box.call("prune")["notes"]))
        arm(on=False)
        box.stop()
        return
    arm()
    tree(box.root, 5)
    ack(str(box.checkpoint()["number"]))
    box.call("prune")
    ack("pruned")
    tree(box.root, 6)
    ack(str(box.checkpoint()["number"]))
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), full=sys.argv[2:] == ["full"])
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
