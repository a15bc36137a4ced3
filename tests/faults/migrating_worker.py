"""A store being migrated twice over, for the fault lab: ``python -m tests.faults.migrating_worker TIMELINE``."""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.checkpoints.schema import open_timeline
from openoxide.errors import OpenOxideError
from tests.checkpoints.old_homes import CHAIN
from tests.faults.crashkit import ack, arm


def main(path: Path) -> None:
    arm()
    open_timeline(path, CHAIN).close()
    ack("migrated")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
