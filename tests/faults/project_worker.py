"""The product pausing or moving a small project, for the fault lab. What a run promises it acknowledges.

``python -m tests.faults.project_worker FOLDER SCENARIO``; FOLDER holds ``project`` and ``home``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.errors import OpenOxideError
from tests.faults.box_worker import make_first, write
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box


def main(folder: Path, scenario: str) -> None:
    box = Box(folder, clock=FakeClock())
    make_first(box.root)
    box.watch()
    write(box.root / "edited.txt", b"second\n")
    if scenario in ("pause", "unpause"):
        box.call("turn_begin", agent="agent", session="s", prompt="p")
        box.call("memory_save", name="note.md", text="# Note\n\nfirst\n")
        note = Path(box.call("memory_index")["path"]) / "note.md"
        if scenario == "unpause":
            box.call("pause")
            write(box.root / "meanwhile.txt", b"meanwhile\n")
        note.write_bytes(b"# Note\n\nsecond\n")
        arm()
        box.call(scenario)
    else:
        box.checkpoint()
        new = box.root.rename(folder / "moved")
        if scenario == "replace":
            box.call("watch", path=str(new))
        arm()
        box.call("projects_move", old=str(folder / "project"), new=str(new))
    ack(scenario)
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
