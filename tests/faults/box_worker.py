"""The product doing one thing to a small project, for the fault lab. What a run promises it acknowledges.

``python -m tests.faults.box_worker FOLDER SCENARIO [late]``; FOLDER holds ``project`` and ``home``. Everything before
``arm()`` is set-up. With ``late`` the machine has been up for an hour longer than when the operation was interrupted.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import OpenOxideError
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box

HOUR_MS = 3_600_000
OLD_NS = 1_600_000_000_000_000_000


def write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    os.utime(path, ns=(OLD_NS, OLD_NS))


def make_first(root: Path) -> None:
    """The tree of checkpoint 1."""
    write(root / "kept.txt", b"never touched\n")
    write(root / "edited.txt", b"first\n" * 50)
    write(root / "secret.env", b"KEY=1\n", 0o600)
    write(root / "gone/deep/file.bin", bytes(range(256)) * 40)
    write(root / "gone/deep/holes.bin", b"x" + bytes(128 << 10))
    write(root / "becomes_file/inner.txt", b"inner\n")
    write(root / "becomes_folder", b"a file\n")
    write(root / "moved.txt", b"moved\n")
    write(root / "both.txt", lines())
    (root / "empty").mkdir()
    (root / "link").symlink_to("edited.txt")


def make_second(root: Path) -> None:
    """What the agent makes of it."""
    write(root / "edited.txt", b"second\n" * 60)
    write(root / "secret.env", b"KEY=2\n", 0o644)
    shutil.rmtree(root / "gone")
    shutil.rmtree(root / "becomes_file")
    write(root / "becomes_file", b"now a file\n")
    (root / "becomes_folder").unlink()
    write(root / "becomes_folder/inside.txt", b"now a folder\n")
    (root / "moved.txt").rename(root / "moved-away.txt")
    write(root / "both.txt", lines(b"agent"))
    (root / "empty").chmod(0o700)
    (root / "link").unlink()
    (root / "link").symlink_to("kept.txt")
    write(root / "new/file.txt", b"new\n")


def name_edits(box: Box) -> None:
    """A tool call ends that names what it has written."""
    name = "edited.txt"
    writes = [{"path": name, "hash": blob_hash((box.root / name).read_bytes()).hex()}]
    box.call("tool_end", agent="agent", session="s", tool="edit", writes=writes)


def claim(box: Box) -> None:
    """A checkpoint is sealed between the write and the end of the tool call."""
    for boundary in ("turn_begin", "tool_begin"):
        box.call(boundary, agent="agent", session="s", prompt="p", tool="edit")
    make_second(box.root)
    box.checkpoint()
    arm()
    name_edits(box)
    ack("named")


def make_users(root: Path) -> None:
    """What the user makes of that."""
    write(root / "both.txt", lines(b"agent", b"user"), 0o755)


def make_merged(root: Path) -> None:
    """The tree of checkpoint 1 with what the user made, when the agent's changes are taken out."""
    make_first(root)
    write(root / "both.txt", lines(b"start", b"user"), 0o755)
    now_ns = FakeClock().now_ms() * 1_000_000
    os.utime(root / "both.txt", ns=(now_ns, now_ns))


def lines(first: bytes = b"start", last: bytes = b"end") -> bytes:
    return first + b"\n" + b"between\n" * 20 + last + b"\n"


def main(folder: Path, scenario: str, *, late: bool) -> None:
    clock = FakeClock(boot_ms=1_000_000 + HOUR_MS * late)
    if scenario in ("continue", "abort", "recover"):
        settle(folder, scenario, clock)
        return
    box = Box(folder, clock=clock)
    make_first(box.root)
    if scenario == "first":
        arm()
    box.watch()
    ack("1")
    if scenario == "first":
        box.stop()
        return
    if scenario in ("claim", "merge"):
        {"claim": claim, "merge": merge}[scenario](box)
        box.stop()
        return
    make_second(box.root)
    if scenario == "seal":
        arm()
    box.checkpoint()
    ack("2")
    if scenario == "rewind":
        arm()
        box.rewind("1", exact=True)
        ack("rewound")
    if scenario == "undo":
        box.rewind("1", exact=True)
        arm()
        box.call("undo")
        ack("undone")
    box.stop()


def merge(box: Box) -> None:
    """The agent's turn is taken back after the user went on with one of its files."""
    box.call("turn_begin", agent="agent", session="s", prompt="p")
    make_second(box.root)
    box.call("turn_end", session="s")
    make_users(box.root)
    arm()
    answer = box.rewind("turn:p", conflict="merge")
    assert answer["merged"] == [{"path": "both.txt"}], answer
    ack("merged")


def settle(folder: Path, scenario: str, clock: FakeClock) -> None:
    """Start on what another run left; ``recover`` is the start alone."""
    arm()
    box = Box(folder, clock=clock)
    box.checkpoint()  # the worktree is attached, and settled as far as the start does that
    ack("started")
    if scenario != "recover":
        box.call("settle", action=scenario)
        ack("settled")
    box.stop()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], late="late" in sys.argv[3:])
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
