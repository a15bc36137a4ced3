"""A bit of live data that is turned over is told by who reads it: ``check --read-data``."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing

import pytest

from openoxide.daemon.operations.checking import checked
from openoxide.db import Database
from openoxide.fileio import make_private
from openoxide.paths import Home
from tests.faults.flips import all_rows, changed_columns, columns_of, flipped, frames, reads_differently
from tests.kit.box import Box

KIB = 1 << 10
FEW, MANY, SHARES = 60, 2_000, 20
SLOW = [pytest.param(number, MANY // SHARES, marks=pytest.mark.slow, id=f"slow{number}") for number in range(SHARES)]

# what stands beside the states, and nothing else of the store says: a bit in it is a bit of a number or of a text
BESIDE = {
    *(f"live.{name}" for name in "dev ino stat_size stat_mtime_ns ctime_ns stat_mode nlink read_at_ns".split()),
    *(
        f"checkpoint.{name}"
        for name in "id public_id number created_ms name pinned expires_ms turn agent session prompt complete late gap git_head"
        " git_branch git_origin added modified removed failed forgotten_ms".split()
    ),
    *(
        f"worktree.{name}"
        for name in "project root kind dev ino birth_ns common_dir created_ms paused_ms paused_until_ms".split()
    ),
    *(f"window.{name}" for name in "agent session prompt tool began_ms ended_ms began_seq ended_seq declares_tools lost".split()),
    *(
        f"operation.{name}"
        for name in "public_id at_ms boot_id boot_ms scope exact touch target before after summary reverses".split()
    ),
    *(f"outcome.{name}" for name in "id operation kind path reason blob".split()),
    *(f"gap.{name}" for name in "id cause opened_ms closed_ms".split()),
    *(f"writer.{name}" for name in "certainty operation".split()),
    "blob.dead_ms",
    "claim.writer",
    "meta.key",
    "meta.value",
    "version.writer",
    "writer_window.window",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _as_the_daemon_has_it():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    """Small contents together, one alone, one that does not compress, and two in files of their own."""
    made = random.Random(0)
    with Box(tmp_path_factory.mktemp("flips")) as box:
        for number in range(60):
            (box.root / f"small{number}").write_text(f"line {number} of a text\n" * number)
        (box.root / "solid").write_bytes(b"".join(b"%d\n" % made.randrange(10**6) for _ in range(60_000)))
        (box.root / "raw").write_bytes(made.randbytes(300 * KIB))
        (box.root / "big raw").write_bytes(made.randbytes(4_100 * KIB))
        (box.root / "big").write_bytes(b"".join(b"%d\n" % made.randrange(10**9) for _ in range(500_000)))
        box.watch()
        for number in range(3):
            (box.root / f"small{number}").write_text(f"another {number}\n" * 9)
            box.checkpoint()
        box.rewind("1", exact=True)
        make_private(box.home.folder)
    return box.home


def problems(home, *, read_data):
    database = Database(home.timeline_db, read_only=True, immutable=True)
    try:
        return checked(database, home, {"read_data": read_data}, lambda _: None, lambda: None)["problems"]
    finally:
        database.close()


def test_the_store_holds_what_the_flips_are_to_hit(home):
    found = frames(home.folder)

    assert {frame.codec for frame in found} == {0, 1}
    assert sum(frame.file.startswith("big/") for frame in found) == 2
    assert max(len(frame.blobs) for frame in found) > 40
    assert not any(reads_differently(home.folder, frame) for frame in found)
    assert problems(home, read_data=True) == []


@pytest.mark.parametrize(("seed", "count"), [pytest.param(100, FEW, id="few"), *SLOW])
def test_each_bit_that_changes_a_live_byte_is_told(home, seed, count):
    drawn, found = random.Random(seed), frames(home.folder)
    for _ in range(count):
        # a frame first: most bytes are in the big ones
        frame = drawn.choice(found)
        at, bit = drawn.randrange(frame.start, frame.end), drawn.randrange(8)
        with flipped(home.blobs / frame.file, at, bit):
            # nothing is read by the header and its table; they are live all the same, as what an index is made of again
            changed = at < frame.payload or reads_differently(home.folder, frame)
            told = problems(home, read_data=True)
        assert bool(told) == changed, (frame.file, at, bit, told)


@pytest.mark.parametrize(("seed", "count"), [pytest.param(200, 100, id="few"), *SLOW])
def test_a_bit_of_the_database_is_told_refused_or_beside_the_states(home, seed, count):
    """What is not found is listed in docs/design.md; this holds the list."""
    drawn, size = random.Random(seed), home.timeline_db.stat().st_size
    before, columns = all_rows(home.timeline_db), columns_of(home.timeline_db)
    for _ in range(count):
        at, bit = drawn.randrange(size), drawn.randrange(8)
        with flipped(home.timeline_db, at, bit):
            after = all_rows(home.timeline_db)
            told = problems(home, read_data=False)
        if isinstance(after, str):
            assert told, (at, bit, after)
        elif after != before and not told:
            assert changed_columns(before, after, columns) <= BESIDE, (at, bit)


def test_no_value_that_is_beside_the_states_is_one_of_the_states(home):
    columns = columns_of(home.timeline_db)
    states = {f"{table}.{name}" for table in ("version", "path", "head", "frame") for name in columns[table]}

    assert {f"{table}.{name}" for table in columns for name in columns[table]} >= BESIDE
    assert BESIDE & states == {"version.writer"}
    with closing(sqlite3.connect(home.timeline_db)) as db:
        assert db.execute("select count(*) from version").fetchone()[0] > 60
