"""The product letting checkpoints expire, for the fault lab: into trash, and out of trash for good.

``python -m tests.faults.expiry_worker FOLDER``; FOLDER holds ``project`` and ``home``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.daemon.operations.expiring import expire_by_time
from openoxide.errors import OpenOxideError
from tests.faults.box_worker import make_first, write
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

DAY_MS = 86_400_000
KEPT = ("pinned", "taken back", "newest")
SPENT = 4  # checkpoints without a name, which the policy lets go


def later(clock: FakeClock) -> FakeClock:
    """When the last expire is."""
    clock.advance(47 * DAY_MS)
    return clock


def main(folder: Path) -> None:
    clock = FakeClock()
    box = Box(folder, clock=clock)
    make_first(box.root)
    box.watch()
    for number in range(SPENT - 1):
        write(box.root / "edited.txt", b"%d\n" % number * 20_000)
        box.checkpoint()
    for name in KEPT[:2]:
        write(box.root / "edited.txt", name.encode())
        box.checkpoint(name)
    box.call("pin", checkpoint="pinned")
    box.rewind("2")
    write(box.root / "edited.txt", b"newest")
    box.checkpoint("newest")
    box.call("forget", checkpoints=["1", "2"])
    clock.advance(40 * DAY_MS)
    expire_by_time(box.service)
    clock.advance(7 * DAY_MS)
    box.call("unforget", checkpoints=["taken back"])
    arm()
    expire_by_time(box.service)
    ack("expired")
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
