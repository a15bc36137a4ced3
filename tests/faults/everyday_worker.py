"""Everyday writes for the fault lab: ``python -m tests.faults.everyday_worker FOLDER SCENARIO``.

``taking`` starts twice from settings that differ. ``config`` sets the days to live twice, from a file with comments.
``rejected`` edits that file twice into what cannot be read; what was typed is acknowledged too. ``keeping`` pins,
names, forgets and takes back the checkpoints of a small project. ``deleting`` deletes the history of a project, whose
content is the only one in its file of the store, and begins another. ``mending`` rewinds a file whose copy in the store
is damaged. Each step is acknowledged once it is promised.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from openoxide import config
from openoxide.errors import OpenOxideError
from openoxide.paths import Home
from openoxide.taken import take_settings
from tests.faults.crashkit import ack, arm
from tests.kit import FakeClock
from tests.kit.box import Box
from tests.kit.recorded import wait_for_full_pass

SECRET = b"\x00\xff incompressible: q8Zr2"
FIRST = "# mine\n[retention]\nttl_days = 10  # first\n"


def set_days(folder: Path) -> None:
    home = Home(folder / "home")
    home.config.write_text(FIRST)
    arm()
    for days in ("20", "30"):
        config.change(home, "retention.ttl_days", [days])
        ack(days)


def take(folder: Path) -> None:
    home = Home(folder / "home")
    mine = folder / "mine"
    home.config.symlink_to(mine)  # it is not this write that is to fail
    arm()
    for days in ("10", "20"):
        mine.write_text(FIRST.replace("10", days))
        take_settings(home)
        ack(days)


def reject(folder: Path) -> None:
    home = Home(folder / "home")
    home.config.write_text(FIRST)
    (folder / "temporary").mkdir()
    tempfile.tempdir = str(folder / "temporary")
    arm()
    for text in ("[first", "[second"):

        def editor(copy: Path, text: str = text) -> None:
            copy.write_text(text)
            ack(f"typed {text}")

        with suppress(OpenOxideError):
            config.edit(home, editor)
        ack(f"rejected {text}")


def keep(folder: Path) -> None:
    box = Box(folder, clock=FakeClock())
    (box.root / "a").write_text("one\n")
    box.watch()
    for _ in range(3):
        box.checkpoint()
    arm()
    for name, request in (
        ("pin", {"checkpoint": "1"}),
        ("name", {"checkpoint": "2", "name": "second"}),
        ("forget", {"checkpoints": ["1", "2", "3"]}),
        ("unforget", {"checkpoints": ["3"]}),
    ):
        box.call(name, **request)
        ack(name)
    box.stop()


def delete(folder: Path) -> None:
    box = Box(folder, clock=FakeClock())
    (box.root / "secret").write_bytes(SECRET)
    box.watch()
    arm()
    box.call("unwatch", delete_history=True)
    ack("deleted")
    (box.root / "secret").unlink()
    (box.root / "b").write_text("two\n")
    box.watch()
    ack("begun again")
    box.stop()


def mend(folder: Path) -> None:
    box = Box(folder, clock=FakeClock())
    (box.root / "f").write_text("first")
    box.watch()
    box.stop()
    box.start()  # a pack of its own for what comes next
    box.watch()
    wait_for_full_pass(box)  # else it may record the file in the middle of being written
    (box.root / "f").write_bytes(SECRET)
    box.checkpoint()
    newest = max(box.home.blobs.glob("*.pack"))
    newest.write_bytes(newest.read_bytes()[:-3])
    arm()
    box.rewind("1")
    ack("rewound")
    box.stop()


SCENARIOS = {
    "taking": take,
    "config": set_days,
    "rejected": reject,
    "keeping": keep,
    "deleting": delete,
    "mending": mend,
}

if __name__ == "__main__":
    try:
        SCENARIOS[sys.argv[2]](Path(sys.argv[1]))
    except OpenOxideError as error:
        sys.stderr.write(f"{error.kind}: {error.message}\n")
        sys.exit(9)
