"""Writes ``homes/vN.zip`` of the newest schema version, for old_homes.py: ``python -m tests.checkpoints.make_home``. To be
run once, by whoever releases that version.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import zipfile
from contextlib import closing
from pathlib import Path

from openoxide.checkpoints.schema import MIGRATIONS
from tests.checkpoints.old_homes import HOMES, contents
from tests.kit.box import Box


def make(folder: Path) -> Path:
    """A home with the history that old_homes.py describes."""
    with Box(folder) as box:
        for number in (1, 2, 3):
            for path in box.root.iterdir():
                path.unlink()
            for name, data in contents(number).items():
                (box.root / name.decode()).write_bytes(data)
            box.watch() if number == 1 else box.checkpoint(f"state {number - 1}")
        box.call("name", checkpoint="1", name="first")
        box.call("pin", checkpoint="2")
        box.call("turn_begin", agent="codex", session="s", prompt="p")
        (box.root / "turn.txt").write_text("in a turn\n")
        box.call("turn_end", agent="codex", session="s")
        box.rewind("1", scope="all")
    # where it was made is nobody's business; what is deleted is overwritten
    with closing(sqlite3.connect(box.home.timeline_db, isolation_level=None)) as db:
        for statement in ("pragma secure_delete = 1", "update worktree set root = x'2f7372632f617070'", "vacuum"):
            db.execute(statement)
        db.execute("pragma wal_checkpoint(truncate)")
    return box.home.folder


def main() -> None:
    packed = HOMES / f"v{len(MIGRATIONS)}.zip"
    if packed.exists():
        sys.exit(f"{packed} is there: a released version is frozen")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "x", zipfile.ZIP_DEFLATED) as out:
        home = make(Path(folder))
        for name in ("timeline.db", *(str(path.relative_to(home)) for path in sorted(home.glob("blobs/*.pack")))):
            out.write(home / name, name)


if __name__ == "__main__":
    main()
