"""A memory that is written to, for the fault lab: ``python -m tests.faults.memory_worker FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.errors import OpenOxideError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import ABSENT, Append
from openoxide.memory.topics import Memory
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock

PROJECT = "kkkkkkkkkkkkkkkk"
OLD, GONE, NEW = "# Kept\n\nold text\n", "# Gone\n\nto be deleted\n", "# Kept\n\nnew text\n"


def main(folder: Path) -> None:
    memory = Memory(MemoryDirectory(folder / "home", PROJECT), FakeClock())
    kept = memory.save("kept.md", OLD, expect=ABSENT)
    gone = memory.save("gone.md", GONE, expect=ABSENT)
    arm()
    memory.save("kept.md", NEW, expect=kept.sha256)
    ack("saved")
    memory.edit("log.md", Append(text="- a note"))
    ack("appended")
    memory.delete("gone.md", expect=gone.sha256)
    ack("deleted")
    memory.rename("log.md", "notes/log.md")
    ack("renamed")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
