"""``repair`` where versions of a file lie as what they differ in from the newest one, and that one is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from openoxide.checkpoints.frames import DELTA
from openoxide.checkpoints.repack import repack
from openoxide.daemon.mending import repair
from tests.kit import FakeClock
from tests.kit.box import Box

VERSIONS = 5
OTHER = b"of another path, in the same pack\n" * 200


def edited(number: int) -> bytes:
    lines = [b"line %d of a longer file\n" % line for line in range(2_000)]
    lines[: 10 * number : 10] = [b"edited, version %d\n" % number] * number
    return b"".join(lines)


@pytest.fixture(name="box")
def _box(tmp_path):
    """``code`` has a version at each checkpoint from 1 on, packed against the last one."""
    with Box(tmp_path, clock=FakeClock()) as box:
        (box.root / "code").write_bytes(edited(0))
        (box.root / "other").write_bytes(OTHER)
        box.watch()
        for number in range(1, VERSIONS):
            (box.root / "code").write_bytes(edited(number))
            box.checkpoint()
        repack(box.service.timeline.database, box.service.timeline.blobs, range(1, 100))
        box.stop()
        with closing(sqlite3.connect(box.home.timeline_db)) as db:
            (deltas,) = db.execute(
                "select count(*) from blob b join frame f on f.id = b.frame where f.codec = ?", (DELTA,)
            )
        assert deltas == (VERSIONS - 1,)
        box.start()
        yield box


def turn_a_bit_of_the_base(box: Box) -> str:
    """The name of the pack that it is in."""
    with closing(sqlite3.connect(box.home.timeline_db)) as db:
        query = "select pack, offset, stored from frame where codec <> ? order by raw desc limit 1"
        pack, offset, stored = db.execute(query, (DELTA,)).fetchone()
    file = box.home.blobs / f"{pack:08}.pack"
    data = bytearray(file.read_bytes())
    data[offset + stored // 2] ^= 1
    file.write_bytes(data)
    return file.name


def mended(box: Box, *, dry_run: bool = False) -> tuple[int, int]:
    """How many contents were found, and how many are lost, by a repair beside no daemon."""
    box.stop()
    try:
        answer = repair(box.home, dry_run=dry_run, report=lambda _: None)
    finally:
        box.start()
    return answer["mended_count"], answer["newly_lost"]


def given_back(box: Box) -> list[bytes]:
    return [box.call("cat", checkpoint=str(1 + number), file="code") for number in range(VERSIONS)]


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_rests_on_a_base_comes_back_with_it(box, dry_run):
    """The worktree has the base, byte for byte."""
    turn_a_bit_of_the_base(box)
    assert mended(box, dry_run=dry_run) == (VERSIONS, 0)
    if not dry_run:
        assert {problem["kind"] for problem in box.call("check", read_data=True)["problems"]} <= {"mode"}
        assert given_back(box) == [edited(number) for number in range(VERSIONS)]


def test_a_base_that_was_stored_anew_meanwhile_serves_too(box):
    """A rewind mends what it is about to displace: the row leads elsewhere then, and the others rest on what is damaged."""
    turn_a_bit_of_the_base(box)
    name = box.call("history", file="code")["items"][0]["state"]["hash"]
    with open(box.root / "code", "rb") as source:
        assert box.service.timeline.blobs.mend(bytes.fromhex(name), source)
    (box.root / "code").write_bytes(b"something else")
    assert mended(box) == (VERSIONS - 1, 0)
    assert given_back(box) == [edited(number) for number in range(VERSIONS)]


def test_a_pack_whose_contents_are_lost_outlives_every_prune(box):
    """The state before the repair names them there, and what they rest on may come back to somebody."""
    pack = turn_a_bit_of_the_base(box)
    before = (box.home.blobs / pack).read_bytes()
    (box.root / "code").write_bytes(b"something else")
    assert mended(box) == (0, VERSIONS)
    repack(box.service.timeline.database, box.service.timeline.blobs, range(1, 100))
    assert not (box.home.blobs / pack).exists()
    assert (box.home.blobs / f"{pack}.aside").read_bytes() == before
    assert box.call("cat", checkpoint="1", file="other") == OTHER
