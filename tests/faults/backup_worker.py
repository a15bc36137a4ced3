"""Backups for the fault lab: ``python -m tests.faults.backup_worker FOLDER first|update|restore``.

A project with two checkpoints. ``first`` makes a backup in ``disk/backup``; ``update`` brings one up to date that was made
after the first checkpoint; ``restore`` makes a home of one in ``there/home``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.daemon import offline
from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit.box import Box

BIG = bytes(range(256)) * (20 << 10)


def contents(number: int) -> dict[str, bytes]:
    """What the project holds at checkpoint ``number``."""
    return {"a.txt": b"state %d\n" % number, "big.bin": BIG + b"%d" % number}


def main(folder: Path, scenario: str) -> None:
    box = Box(folder)
    memory = box.home.folder / "projects" / "k" / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True)
    target = folder / "disk" / "backup"
    for number in (1, 2):
        for name, data in contents(number).items():
            (box.root / name).write_bytes(data)
        memory.write_text(f"memory {number}\n")
        box.watch() if number == 1 else box.checkpoint()
        if number == 1 and scenario == "update":
            box.call("backup", to=str(target))
    if scenario == "restore":
        box.call("backup", to=str(target))
        box.stop()
        request = {"source": str(target), "home": str(folder / "there" / "home")}
        arm()
        offline.restore_home(request, lambda _: None)
    else:
        arm()
        box.call("backup", to=str(target))
    ack(scenario)
    arm(on=False)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except OpenOxideError as error:
        arm(on=False)
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
