"""A disk that is full to its last byte: a rewind still is whole, with the room that was kept for it, or it is refused."""

from __future__ import annotations

import os
import random
import sqlite3
import stat

import pytest

from openoxide.daemon.operations.pruning import prune_store
from openoxide.daemon.reserve import RESERVE_BYTES, ROOM_BYTES, Reserve
from openoxide.errors import StoreFullError
from tests.daemon.trouble import fill, paths, phases, refused, settled, small_disk, with_own_mounts, write
from tests.kit import FakeClock, tree_of, wait_until
from tests.kit.box import Box

MIB = 1 << 20
DAY_MS = 86_400_000
# the reserve with its room, and what the tests put beside it
DISK = f"{(ROOM_BYTES >> 20) + 96}m"


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def damage(box: Box) -> list[str]:
    return [p["message"] for p in box.call("check", read_data=True)["problems"] if p["severity"] == "error"]


def told(box: Box) -> tuple[bool, bool]:
    """Whether status and doctor tell that nothing is kept."""
    in_status = any("nothing is kept for a rewind" in text for text in box.call("status")["daemon"]["problems"])
    return in_status, "reserve_spent" in {problem["kind"] for problem in box.call("doctor")["problems"]}


# The file


def test_it_is_private_takes_its_blocks_and_gives_them_back(tmp_path):
    path = tmp_path / "oxided.reserve"
    kept = Reserve(path)
    assert (kept.size_bytes, kept.release()) == (0, False)

    assert kept.make()
    found = path.stat()
    assert (found.st_size, stat.S_IMODE(found.st_mode)) == (RESERVE_BYTES, 0o600)
    assert found.st_blocks * 512 >= RESERVE_BYTES
    assert kept.make(1 << 62)  # it is there

    assert kept.release()
    assert not path.exists()
    assert not kept.release()


def test_it_is_not_made_where_others_need_the_room(tmp_path):
    kept = Reserve(tmp_path / "oxided.reserve")
    assert not kept.make(kept.free_bytes() + RESERVE_BYTES)
    assert os.listdir(tmp_path) == []


def test_what_a_kill_left_of_one_is_made_anew(tmp_path):
    path = tmp_path / "oxided.reserve"
    path.write_bytes(bytes(MIB))
    kept = Reserve(path)
    assert (kept.size_bytes, kept.release()) == (0, False)
    assert kept.make()
    assert kept.size_bytes == RESERVE_BYTES


@pytest.mark.parametrize("what", ["link", "folder"])
def test_what_somebody_put_in_its_place_stays(tmp_path, what):
    path, other = tmp_path / "oxided.reserve", tmp_path / "other"
    other.write_bytes(bytes(MIB))
    path.symlink_to(other) if what == "link" else path.mkdir()
    kept = Reserve(path)
    assert (kept.make(), kept.release(), kept.size_bytes) == (False, False, 0)
    assert path.is_symlink() if what == "link" else path.is_dir()
    assert other.stat().st_size == MIB


def test_where_its_room_does_not_help_it_is_taken_back(tmp_path):
    kept = Reserve(tmp_path / "oxided.reserve")
    kept.make()
    seen = []

    def work() -> None:
        seen.append(kept.size_bytes)
        raise StoreFullError("no space left")

    with pytest.raises(StoreFullError):
        kept.spend(work)
    assert seen == [RESERVE_BYTES, 0]
    assert kept.size_bytes == RESERVE_BYTES


def test_what_ends_otherwise_is_not_begun_anew(tmp_path):
    kept = Reserve(tmp_path / "oxided.reserve")
    kept.make()
    assert kept.spend(lambda: "done") == "done"
    with pytest.raises(ValueError, match="no"):
        kept.spend(lambda: int("no"))
    assert kept.size_bytes == RESERVE_BYTES


# The daemon on a full disk


@with_own_mounts
def test_on_a_full_disk_a_rewind_an_undo_and_a_prune_still_work(tmp_path):
    disk = small_disk(tmp_path / "disk", DISK)
    with Box(disk) as box:
        before = {name: noise(number, 3 * MIB) for number, name in enumerate(("a", "b", "c"))}
        for name, content in before.items():
            write(box.root / name, content)
        box.watch()
        first = tree_of(box.root)
        box.service.beat()
        wait_until(lambda: box.call("status")["daemon"]["reserve_bytes"] == RESERVE_BYTES, 30)
        after = {name: noise(10 + number, 3 * MIB) for number, name in enumerate(("a", "b", "d"))}
        for name, content in after.items():
            write(box.root / name, content)
        (box.root / "c").unlink()
        fill(disk)
        assert os.statvfs(disk).f_bavail == 0
        with pytest.raises(StoreFullError):
            box.checkpoint()  # the room is kept for what brings back
        assert box.call("status")["daemon"]["reserve_bytes"] == RESERVE_BYTES
        assert told(box) == (False, False)

        answer = box.rewind("1", exact=True)

        assert settled(box.root) == first
        assert paths(answer["restored"]) == [b"a", b"b", b"c"]
        assert answer["conflicts"] == []
        assert told(box) == (True, True)
        assert box.call("status")["daemon"]["reserve_bytes"] == 0
        for name, content in after.items():
            assert box.call("cat", checkpoint=answer["pre_rewind_checkpoint"]["id"], file=name) == content
        box.call("undo")
        assert {name: (box.root / name).read_bytes() for name in after} == after
        assert not (box.root / "c").exists()
        assert phases(box) == ["done", "done"]
        assert damage(box) == []


@with_own_mounts
def test_it_is_made_again_when_there_is_room(tmp_path):
    disk = small_disk(tmp_path / "disk", DISK)
    with Box(disk) as box:
        write(box.root / "file", "first")
        box.watch()
        box.service.reserve.make()
        write(box.root / "file", noise(1, MIB))
        ballast = fill(disk)
        box.rewind("1")
        box.service.beat()
        box.service.background.submit("marker", lambda: None)
        assert told(box) == (True, True)

        ballast.unlink()
        assert told(box) == (False, False)  # it comes by itself
        box.service.beat()
        wait_until(lambda: box.call("status")["daemon"]["reserve_bytes"] == RESERVE_BYTES, 30)


@with_own_mounts
def test_a_rewind_that_needs_more_than_is_kept_is_refused_whole(tmp_path):
    disk = small_disk(tmp_path / "disk", DISK)
    with Box(disk) as box:
        write(box.root / "file", "first")
        write(box.root / "large", noise(1, 40 * MIB))
        box.watch()
        box.service.reserve.make()
        write(box.root / "file", "second")
        write(box.root / "large", noise(2, 40 * MIB))
        fill(disk)
        # the changed file fits, and then there is no room for the one that comes back
        with refused(box, "store_full", "no space left"):
            box.rewind("1", exact=True)
        assert (box.root / "file").read_text() == "second"
        assert not any(phase in ("swapping", "interrupted") for phase in phases(box))
        (box.root / "large").unlink()
        assert damage(box) == []


@with_own_mounts
def test_without_a_reserve_a_rewind_on_a_full_disk_is_refused_whole(tmp_path):
    disk = small_disk(tmp_path / "disk", "16m")
    with Box(disk) as box:
        write(box.root / "file", "first")
        box.watch()
        box.service.beat()
        write(box.root / "file", noise(1, MIB))
        fill(disk)
        with refused(box, "store_full", "no space left"):
            box.rewind("1")
        assert told(box) == (True, True)


@with_own_mounts
@pytest.mark.parametrize("kept", [True, False])
def test_a_prune_on_a_full_disk_takes_the_room_for_its_rows(tmp_path, kept):
    disk = small_disk(tmp_path / "disk", DISK)
    clock = FakeClock()
    with Box(disk, clock=clock) as box:
        box.watch()
        for number in range(200):
            write(box.root / "file", f"{number}")
            box.service.all_watched()[0].record()
        box.checkpoint()
        clock.advance(3 * DAY_MS)
        if kept:
            box.service.reserve.make()
        with sqlite3.connect(box.home.timeline_db) as foreign:  # what the WAL holds is room that could be used again
            foreign.execute("pragma wal_checkpoint(truncate)")
        box.checkpoint()
        with sqlite3.connect(box.home.timeline_db) as foreign:
            foreign.execute("pragma wal_checkpoint(truncate)")
        fill(disk)
        if not kept:
            with pytest.raises(StoreFullError):
                prune_store(box.service)
            return
        assert prune_store(box.service).versions > 100
        assert damage(box) == []


def full_of_versions(box: Box, disk, number: int, size: int) -> None:
    """A disk without a free block, and a pack that is dead but for one of ``number`` versions of ``size``."""
    box.watch()
    for version in range(number):
        write(box.root / "movie.bin", noise(version, size))
        box.checkpoint()
    box.clock.advance(2 * DAY_MS)
    box.service.reserve.make()
    box.checkpoint()
    box.call("forget", checkpoints=[str(1 + each) for each in range(number)])
    box.call("expire", trash=True)
    fill(disk)


@with_own_mounts
def test_a_prune_on_a_full_disk_takes_the_room_for_its_copies_and_gives_it_back(tmp_path):
    disk = small_disk(tmp_path / "disk", DISK)
    with Box(disk, clock=FakeClock()) as box:
        full_of_versions(box, disk, 6, 3 * MIB)
        assert os.statvfs(disk).f_bavail == 0
        plan = box.call("prune", dry_run=True)
        assert box.call("status")["daemon"]["reserve_bytes"] == RESERVE_BYTES

        answer = box.call("prune")

        assert (plan["lacking_bytes"], answer["lacking_bytes"], answer["notes"]) == (0, 0, [])
        assert answer["freed_bytes"] == pytest.approx(5 * 3 * MIB, rel=0.02)
        assert plan["freed_bytes"] == pytest.approx(answer["freed_bytes"], rel=0.02)
        assert box.call("status")["daemon"]["reserve_bytes"] == RESERVE_BYTES
        box.checkpoint()  # what the hint of a full disk leads to works
        assert damage(box) == []


@with_own_mounts
def test_a_prune_for_which_the_reserve_is_too_small_leaves_it_and_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("openoxide.daemon.reserve.RESERVE_BYTES", 4 * MIB)
    disk = small_disk(tmp_path / "disk", DISK)
    with Box(disk, clock=FakeClock()) as box:
        full_of_versions(box, disk, 6, 3 * MIB)
        for told in (box.call("prune", dry_run=True), box.call("prune")):
            assert told["lacking_bytes"] == pytest.approx(3 * MIB * 5 / 4 + 4 * MIB, rel=0.01)
            assert "7.8 MiB have to be free, and 0 B are beside the 4.0 MiB of the reserve" in told["notes"][-1]
        assert box.call("status")["daemon"]["reserve_bytes"] == 4 * MIB
        assert damage(box) == []
