"""A project and its memory for the fault lab: ``python -m tests.faults.both_worker FOLDER SCENARIO [late]``.

``rewind`` takes both back to before a turn, ``undo`` takes that back; ``recover``, ``continue`` and ``abort`` start on what
another run left. ``note`` saves, edits and brings back notes through the daemon, ``follow`` generates a file for an agent,
``promote`` makes the notes of a staged worktree the project's. What a run promises it acknowledges.
"""

from __future__ import annotations

import sys
from pathlib import Path

from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

AGENT = {"agent": "agent", "session": "s"}
HOUR_MS = 3_600_000
OLD = {"code.txt": "one\n", "kept.md": "kept\n", "note.md": "note\n"}
NEW = {"code.txt": "two\n", "kept.md": "kept\n", "note.md": "note\nmore\n", "new.md": "new\n"}


def memory_of(box: Box) -> Path:
    (project,) = {item["project"] for item in box.call("projects")["items"]}
    folder = box.home.folder / "projects" / str(project) / "memory"
    for part in (folder.parent.parent, folder.parent, folder):
        part.mkdir(mode=0o700, exist_ok=True)
    return folder


def write(box: Box, files: dict[str, str]) -> None:
    memory = memory_of(box)
    for name, text in files.items():
        (memory if name.endswith(".md") else box.root).joinpath(name).write_text(text)


def main(folder: Path, scenario: str, *, late: bool) -> None:
    clock = FakeClock(boot_ms=1_000_000 + HOUR_MS * late)
    if scenario in ("recover", "continue", "abort"):
        arm()
        box = Box(folder, clock=clock)
        box.checkpoint()
        ack("started")
        if scenario != "recover":
            box.call("settle", action=scenario)
            ack("settled")
        box.stop()
        return
    box = Box(folder, clock=clock, worktrees="staged" if scenario == "promote" else "shared")
    (box.root / "code.txt").write_text(OLD["code.txt"])
    box.watch()
    if scenario in ("note", "follow", "promote"):
        {"note": note, "follow": follow, "promote": promote}[scenario](box)
        box.stop()
        return
    write(box, OLD)
    box.checkpoint()
    box.call("turn_begin", prompt="p", **AGENT)
    write(box, NEW)
    box.call("turn_end", **AGENT)
    if scenario == "rewind":
        arm()
    box.rewind("turn:p", memory=True)
    ack("rewound")
    if scenario == "undo":
        arm()
        box.call("undo")
        ack("undone")
    box.stop()


def note(box: Box) -> None:
    arm()
    box.call("memory_save", name="n.md", text="# N\n\none\n")
    ack("saved")
    box.call("memory_edit", name="n.md", append="two")
    ack("edited")
    box.call("memory_revert", name="n.md")
    ack("reverted")
    box.call("memory_delete", name="n.md")
    ack("deleted")


def follow(box: Box) -> None:
    box.call("memory_save", name="n.md", text="# N\n\none\n")
    arm()
    box.call("memory_context", agent="aider", write=True)
    ack("generated")


def promote(box: Box) -> None:
    memory_of(box).joinpath("both.md").write_text("# Both\n- of the project\n")
    box.call("memory_edit", name="both.md", append="- of the branch")
    box.call("memory_save", name="new.md", text="# New\n\nnew\n")
    box.call("memory_edit", name="MEMORY.md", append="- a note of its own")
    arm()
    box.call("memory_promote")
    ack("promoted")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], late="late" in sys.argv[3:])
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
