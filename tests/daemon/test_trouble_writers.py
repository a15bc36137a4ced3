"""Other processes work on while a project is recorded and rewound: nothing of theirs is lost, and they are named."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.daemon.trouble import paths, reasons, refused, settled, write
from tests.kit import Description, diff_trees
from tests.kit.box import Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as made:
        yield made


@pytest.mark.parametrize("exact", [False, True])
def test_a_write_that_no_event_tells_of_is_found_before_anything_is_touched(box, tmp_path, exact):
    """Through a hard link outside: the whole tree is compared first, so it is neither missed nor lost."""
    twin = write(tmp_path / "twin", "first")
    (box.root / "linked").hardlink_to(twin)
    box.watch()
    twin.write_text("second, from outside")

    answer = box.rewind("1", exact=exact)

    assert paths(answer["restored"]) == [b"linked"]
    assert ((box.root / "linked").read_text(), twin.read_text()) == ("first", "second, from outside")
    assert box.call("cat", checkpoint=answer["pre_rewind_checkpoint"]["id"], file="linked") == b"second, from outside"


WRITER = """
import os, sys
fd, size, generation = os.open(sys.argv[1], os.O_WRONLY), int(sys.argv[2]), 0
while True:
    generation = generation % 250 + 1
    for at in range(0, size, 65536):
        os.pwrite(fd, bytes([generation]) * 65536, at)
    if generation == 1:
        print("round", flush=True)
"""
SIZE = 512 << 10


@contextmanager
def child(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``program`` until the block ends; it has said a first line."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def was_a_state(content: bytes) -> bool:
    """The writer goes through the file block by block: it holds one generation up to some block, then the one before."""
    first, last = content[0], content[-1]
    begun = content.rfind(bytes([first])) + 1
    follows = first == last or first == last % 250 + 1
    return content == bytes([first]) * begun + bytes([last]) * (len(content) - begun) and begun % 65536 == 0 and follows


def first_torn(box: Box) -> str:
    """Seal until a checkpoint says that it has no whole state of ``busy``; what others say it was, it was."""
    for _ in range(500):
        number = str(box.checkpoint()["number"])
        states = [item["new"] for item in box.call("show", checkpoint=number)["changes"] if item["path"] == "busy"]
        if any(state.get("torn") for state in states):
            return number
        assert was_a_state(box.call("cat", checkpoint=number, file="busy"))
    raise AssertionError("the writer never wrote during a read")


def test_a_file_that_changes_while_it_is_read_is_never_passed_off_as_a_state(box):
    busy = write(box.root / "busy", bytes(SIZE))
    write(box.root / "calm", "first")
    box.watch()
    with child(WRITER, busy, SIZE):
        torn = first_torn(box)
        write(box.root / "calm", "second")
        meanwhile = box.rewind("1")
        assert paths(meanwhile["restored"]) == [b"calm"]
        assert list(reasons(meanwhile["conflicts"])) == [b"busy"]
    with refused(box, "conflict", "busy"):
        box.rewind(torn, exact=True)
    assert reasons(box.rewind(torn)["conflicts"]) == {b"busy": "torn"}
    box.checkpoint()
    assert box.call("cat", checkpoint="last", file="busy") == busy.read_bytes()
    assert paths(box.rewind("1")["restored"]) == [b"busy"]


def test_a_torn_state_is_not_copied_out_as_a_state(box, tmp_path):
    busy = write(box.root / "busy", bytes(SIZE))
    box.watch()
    with child(WRITER, busy, SIZE):
        torn = first_torn(box)
    answer = box.call("restore", checkpoint=torn, to=str(tmp_path / "copy"))
    assert reasons(answer["skipped"]) == {b"busy": "torn"}


# SQLite

HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma wal_autocheckpoint = 0")
db.execute("update t set v = 'new'")
db.execute("insert into t values ('more')")
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database(box: Box, request: pytest.FixtureRequest) -> Path:
    """A database with an old row, in the journal mode that the test names."""
    path = box.root / "app.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"pragma journal_mode = {request.param}")
        db.execute("create table t(v)")
        db.execute("insert into t values ('old')")
    write(box.root / "plain", "first")
    box.watch()
    return path


def rows_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        return [value for (value,) in db.execute("select v from t")]


def unit(box: Box) -> dict[bytes, Description]:
    return {path: what for path, what in settled(box.root).items() if path.startswith(b"app.db")}


IN_BOTH_MODES = pytest.mark.parametrize("database", ["delete", "wal"], indirect=True)


@IN_BOTH_MODES
@pytest.mark.parametrize("exact", [False, True])
def test_a_database_that_a_process_has_open_is_a_conflict_that_names_it(box, database, exact):
    with child(HOLDER, database) as process:
        write(box.root / "plain", "second")
        held = unit(box)
        if exact:
            with refused(box, "conflict", f"pid {process.pid}"):
                box.rewind("1", exact=True)
        else:
            answer = box.rewind("1")
            assert paths(answer["restored"]) == [b"plain"]
            assert f"held_open by pid {process.pid}" in reasons(answer["conflicts"]).values()
        assert diff_trees(held, unit(box)) == []


@IN_BOTH_MODES
@pytest.mark.parametrize("exact", [False, True])
def test_a_database_that_is_held_open_is_not_touched(box, database, exact):
    with child(HOLDER, database):
        held = unit(box)
        if exact:
            with refused(box, "conflict", "app.db"):
                box.rewind("1", exact=True)
        else:
            box.rewind("1")
        assert diff_trees(held, unit(box)) == []
    assert rows_of(database) == ["new", "more"]


@IN_BOTH_MODES
@pytest.mark.parametrize("exact", [False, True])
def test_a_database_that_was_let_go_is_rewound_as_one(box, database, exact):
    """The process was killed: what it wrote last stands in a side file."""
    with child(HOLDER, database):
        pass
    now = unit(box)

    box.rewind("1", exact=exact)

    settled(box.root)
    assert rows_of(database) == ["old"]
    for side in unit(box).keys() - {b"app.db"}:
        (box.root / os.fsdecode(side)).unlink()
    box.call("undo")
    settled(box.root)
    assert diff_trees(now, unit(box)) == []
    assert rows_of(database) == ["new", "more"]
