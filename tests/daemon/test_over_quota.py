"""A quota that what must stay exceeds by itself: the paths that cause it are not recorded until there is room, and shown."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from openoxide.daemon.operations.expiring import expire_by_time
from openoxide.errors import RefusedError
from openoxide.settings import RetentionSettings
from tests.daemon.trouble import paths, reasons, skips, write
from tests.kit.box import Box

MIB = 1 << 20


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def retain(box: Box, **values: int) -> None:
    box.service.settings = replace(box.settings, retention=RetentionSettings(**values))


def left_out(box: Box) -> list[bytes]:
    (worktree,) = box.call("status")["worktrees"]
    told = "over_quota" in {problem["kind"] for problem in box.call("doctor")["problems"]}
    assert told == bool(worktree["over_quota"])
    return paths(worktree["over_quota"])


@pytest.fixture
def box(tmp_path):
    """Two large files and a small one, with a checkpoint, in a quota that has room for one of the large ones."""
    with Box(tmp_path) as box:
        write(box.root / "huge", noise(1, 5 * MIB))
        write(box.root / "d" / "large", noise(2, 2 * MIB))
        write(box.root / "small", "small")
        box.watch()
        yield box


@pytest.mark.parametrize("key", ["quota_bytes", "total_quota_bytes"])
def test_the_largest_is_left_out_shown_and_recorded_again_when_there_is_room(box, key):
    retain(box, **{key: 3 * MIB})
    expire_by_time(box.service)
    assert left_out(box) == [b"huge"]

    write(box.root / "small", "changed")
    write(box.root / "huge", noise(3, 5 * MIB))
    assert box.checkpoint()["changed"]["modified"] == 1
    assert skips(box) == {b"huge": "over_quota"}
    assert skips(box, 1) == {}
    assert box.call("cat", checkpoint="1", file="huge") == noise(1, 5 * MIB)

    expire_by_time(box.service)  # the floor holds it still, and it waits still
    assert left_out(box) == [b"huge"]
    retain(box, **{key: 8 * MIB})
    expire_by_time(box.service)
    assert left_out(box) == []
    box.checkpoint()
    assert skips(box) == {}
    assert box.call("cat", checkpoint="last", file="huge") == noise(3, 5 * MIB)
    assert [p for p in box.call("check", read_data=True)["problems"] if p["severity"] == "error"] == []


def test_the_limit_is_refused_in_words_all_the_same(box):
    retain(box, quota_bytes=3 * MIB)
    with pytest.raises(RefusedError, match="the newest checkpoints alone take"):
        box.call("expire")
    assert left_out(box) == [b"huge"]
    box.checkpoint()
    assert skips(box) == {b"huge": "over_quota"}


def test_a_dry_run_leaves_nothing_out(box):
    retain(box, quota_bytes=3 * MIB)
    box.call("expire", dry_run=True)
    assert left_out(box) == []


@pytest.mark.parametrize("exact", [False, True])
def test_no_rewind_touches_what_is_left_out(box, exact):
    box.checkpoint("with all")
    write(box.root / "small", "changed")
    retain(box, quota_bytes=3 * MIB)
    expire_by_time(box.service)
    box.checkpoint("without")
    write(box.root / "huge", noise(4, 6 * MIB))
    (box.root / "d" / "large").unlink()

    for name in ("with all", "without", "1"):
        answer = box.rewind(name, exact=exact)
        assert reasons(answer["skipped"]) == {b"huge": "over_quota"} or name == "without"
        assert (box.root / "huge").read_bytes() == noise(4, 6 * MIB)
    assert (box.root / "d" / "large").read_bytes() == noise(2, 2 * MIB)
    box.call("undo")
    assert (box.root / "huge").read_bytes() == noise(4, 6 * MIB)


def test_a_restart_and_a_full_pass_leave_it_out_too(box):
    retain(box, quota_bytes=3 * MIB)
    expire_by_time(box.service)
    box.stop()
    box.start()
    assert left_out(box) == [b"huge"]
    for watched in box.service.all_watched():
        with watched.lock:
            box.service.attach(watched)
            watched.needs_full_pass = True
            watched.full_pass(None)
    box.checkpoint()
    assert skips(box) == {b"huge": "over_quota"}


def test_one_that_is_deleted_does_not_go_on_taking_room(box):
    retain(box, quota_bytes=3 * MIB)
    expire_by_time(box.service)
    box.checkpoint()
    (box.root / "huge").unlink()
    box.checkpoint()
    expire_by_time(box.service)
    assert left_out(box) == []


def test_a_quota_that_was_mistyped_ends_no_recording_of_what_is_small(box):
    retain(box, quota_bytes=1)
    expire_by_time(box.service)
    assert left_out(box) == [b"d/large", b"huge"]
    write(box.root / "small", "changed")
    box.checkpoint()
    assert box.call("cat", checkpoint="last", file="small") == b"changed"


def test_a_database_is_left_out_with_its_side_files(box):
    write(box.root / "base.db", b"SQLite format 3\0" + noise(5, 7 * MIB))
    write(box.root / "base.db-wal", "log")
    box.checkpoint()
    retain(box, quota_bytes=8 * MIB)
    expire_by_time(box.service)
    assert left_out(box) == [b"base.db"]
    write(box.root / "base.db-wal", "more")
    box.checkpoint()
    assert skips(box) == {b"base.db": "over_quota", b"base.db-wal": "over_quota"}


def test_what_has_become_small_is_recorded_again(box):
    retain(box, quota_bytes=3 * MIB)
    expire_by_time(box.service)
    assert left_out(box) == [b"huge"]

    write(box.root / "huge", "by hand")
    box.checkpoint()

    assert skips(box) == {}
    assert box.call("cat", checkpoint="last", file="huge") == b"by hand"
    expire_by_time(box.service)
    assert left_out(box) == []
