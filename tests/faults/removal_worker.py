"""A home with a history being removed, for the fault lab: ``python -m tests.faults.removal_worker FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from openoxide.errors import OpenOxideError
from openoxide.removal import remove
from tests.faults.box_worker import make_first, write
from tests.faults.crashkit import ack, arm
from tests.kit.box import Box


def main(folder: Path) -> None:
    box = Box(folder)
    make_first(box.root)
    write(box.root / "big.bin", os.urandom(5 << 20))
    box.watch()
    box.stop()
    write(box.home.folder / "notes.txt", b"not ours\n")
    write(box.home.blobs / "notes.txt", b"not ours\n")
    arm()
    done = remove(box.home, keep_history=False)
    if set(done.left.values()) == {"not_ours"}:
        ack("removed")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
