"""A purge, for the fault lab: ``python -m tests.faults.purge_worker FOLDER``. ``purged`` is acknowledged where it was finished.

What goes lies in packs with others, in a file of its own, in a pack that was set aside and, by its name, in a log.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

SECRETS = (b"token = q8Zr2-marker\n", b"token = q8Zr2-marker, changed\n", random.Random(1).randbytes(5 << 20))
KEPT = {f"kept{number}": b"kept %d\n" % number * 50 for number in range(6)}


def prepare(box: Box) -> None:
    for name, content in KEPT.items():
        (box.root / name).write_bytes(content)
    (box.root / "secret").write_bytes(SECRETS[0])
    box.watch()
    for content in SECRETS[1:]:
        (box.root / "secret").write_bytes(content)
        box.checkpoint()
    (box.root / "secret").unlink()
    box.checkpoint()
    (pack,) = box.home.blobs.glob("*.pack")
    shutil.copy(pack, box.home.blobs / "09999999.pack.aside")
    box.home.logs.mkdir()
    (box.home.logs / "oxided.log").write_text(f"blob {blob_hash(SECRETS[0]).hex()[:12]} is missing\n")


def main(folder: Path) -> None:
    box = Box(folder, clock=FakeClock())
    prepare(box)
    arm()
    if box.call("purge", paths=["secret"])["finished"]:
        ack("purged")
    arm(on=False)
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
