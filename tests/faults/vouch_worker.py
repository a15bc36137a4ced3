"""A session that is tainted, what it notes, and what the user says of it, for the fault lab:
``python -m tests.faults.vouch_worker FOLDER``. What a run promises it acknowledges.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

SESSION = "s"
MINE, THEIRS = "# Mine\n\nmine\n", "# Theirs\n\ntheirs\n"


def main(folder: Path) -> None:
    with Box(folder, clock=FakeClock()) as box:
        (box.root / "a").write_text("one\n")
        box.watch()
        box.call("memory_save", name="mine.md", text=MINE)
        box.call("turn_begin", agent="claude", session=SESSION, prompt="p")
        payload = {"session_id": SESSION, "cwd": str(box.root), "tool_name": "WebFetch", "tool_use_id": "c"}
        arm()
        box.call("hook", payload=payload, agent="claude", event="PreToolUse")
        ack("tainted")
        box.call("memory_save", name="theirs.md", text=THEIRS, session=SESSION)
        ack("saved")
        box.call("memory_edit", name="mine.md", append="more of theirs\n", session=SESSION)
        ack("edited")
        box.call("memory_mark", names=["theirs.md"], standing="verified")
        ack("accepted")
        box.call("memory_reject", names=["mine.md"])
        ack("rejected")
        arm(on=False)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
