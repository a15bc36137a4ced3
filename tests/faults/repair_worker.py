"""A repair for the fault lab: ``python -m tests.faults.repair_worker FOLDER``.

The store of a small project is damaged everywhere at once: the row of a state, an index, a pack whose content is still in the
tree, and one whose content is nowhere. The repair is acknowledged once it is promised.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from openoxide.daemon.mending import repair
from openoxide.errors import OpenOxideError
from openoxide.paths import Home
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box
from tests.kit.recorded import wait_for_full_pass

KEPT, GONE = b"still in the tree", b"\x00 nowhere but in its pack: q8Zr2"


def prepare(folder: Path) -> None:
    """A pack for each content: a start begins a new one."""
    box = Box(folder, clock=FakeClock())
    (box.root / "sound").write_bytes(b"sound")
    box.watch()
    for name, data in (("kept", KEPT), ("gone", GONE)):
        box.stop()
        box.start()
        box.watch()
        wait_for_full_pass(box)
        (box.root / name).write_bytes(data)
        box.checkpoint(name)
    (box.root / "gone").unlink()
    box.checkpoint()
    box.stop()
    _, kept, gone = sorted(box.home.blobs.glob("*.pack"))
    for pack in (kept, gone):
        os.truncate(pack, pack.stat().st_size - 3)
    with closing(sqlite3.connect(box.home.timeline_db)) as db, db:
        db.execute("update live set mode = mode + 1 where kind = 1")
        db.execute("drop index version_seq")
    (box.home.folder / "oxided.lock").touch(0o600)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    os.umask(0o077)
    try:
        prepare(place)
        arm()
        repair(Home(place / "home"), dry_run=False, report=lambda _: None)
        ack("repaired")
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
