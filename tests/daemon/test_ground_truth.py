"""No change is missed: whatever happens to a tree, the checkpoint asked for right after it is the tree, or says why not.

The oracle walks the tree by itself and reads every file. A checkpoint that calls itself complete has to be equal to it,
one that does not has to name a loss that the kernel did report, and the full pass that follows it has to find the rest.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from openoxide.errors import RootVanishedError
from tests.daemon.trouble import with_own_mounts
from tests.daemon.workloads import WORKLOADS, rewrite, tree
from tests.kit import wait_until
from tests.kit.box import Box
from tests.kit.openings import Openings
from tests.kit.recorded import complete, differences, pass_of_the_clock, wait_for_full_pass
from tests.races.programs import SOAK_TIMEOUT_S, soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

UNCHANGED = {"added": 0, "modified": 0, "removed": 0}
OVERFLOW = "overflow (reported by the kernel)"
FULL = pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(SOAK_TIMEOUT_S), soak], id="in full")
IN_PART = pytest.param(25, id="in part")


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        yield box


@pytest.fixture(name="away")
def _away(tmp_path: Path) -> Path:
    folder = tmp_path / "away"
    folder.mkdir()
    return folder


def told(box: Box) -> dict[bytes, bool]:
    """What the watcher has to tell, with everything that the kernel had queued."""
    (watched,) = box.service.all_watched()
    assert watched.watch.barrier().complete
    return watched.watch.take()[0]


@pytest.mark.parametrize("part", [IN_PART, FULL])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.__name__)
def test_a_checkpoint_right_after_it_is_the_tree(box, away, caplog, workload, part):
    moments = workload(box.root, away, part)
    next(moments)
    box.watch()
    for _ in moments:
        sealed = box.checkpoint()
        if part == 1 and sealed["gap"] == "overflow":  # more events than a queue has room for
            assert OVERFLOW in caplog.text
            wait_for_full_pass(box)
        else:
            assert (sealed["complete"], sealed["gap"]) == (True, "")
            assert differences(box, sealed["seq"]) == []
        complete(box)
    assert box.call("status")["worktrees"][0]["gaps"] == []


def test_nothing_is_told_of_what_was_moved_out(box, away):
    tree(box.root / "n", 60)
    box.watch()
    (box.root / "n").rename(away / "n")
    complete(box)
    rewrite(away / "n", 50)
    tree(away / "n" / "new", 6)
    assert told(box) == {}
    assert complete(box)["changed"] == UNCHANGED


# The root


def test_a_root_that_was_deleted_and_made_again_is_told_and_recorded_when_it_is_watched_again(box):
    tree(box.root / "n", 60)
    box.watch()
    before = complete(box)
    subprocess.run(["rm", "-rf", box.root], check=True)
    with pytest.raises(RootVanishedError):
        box.checkpoint()
    tree(box.root / "m", 60)
    with pytest.raises(RootVanishedError):
        box.checkpoint()
    assert box.watch()["created"]
    complete(box)
    rewrite(box.root / "m", 50)
    complete(box)
    assert before["id"] not in [item["id"] for item in box.call("log")["items"]], "the history of another directory"


def test_a_new_root_in_the_place_of_one_renamed_away_is_not_mistaken_for_it(box, away):
    tree(box.root / "n", 60)
    box.watch()
    complete(box)
    box.root.rename(away / "old")
    tree(box.root / "m", 60)
    rewrite(away / "old", 50)
    with pytest.raises(RootVanishedError):
        box.checkpoint()
    assert box.watch()["created"]
    complete(box)
    rewrite(away / "old", 50)
    assert told(box) == {}
    rewrite(box.root / "m", 50)
    complete(box)


def test_a_root_that_comes_back_is_compared_as_a_whole(box, away):
    tree(box.root / "n", 60)
    box.watch()
    complete(box)
    box.root.rename(away / "old")
    with pytest.raises(RootVanishedError):
        box.checkpoint()
    rewrite(away / "old", 50)
    (away / "old").rename(box.root)
    sealed = box.checkpoint()
    assert (sealed["complete"], sealed["gap"] in {"root_lost", "root_returned"}) == (False, True), sealed
    wait_for_full_pass(box)
    complete(box)
    rewrite(box.root, 50)
    complete(box)


# What no event tells of


def stored_through_a_mapping(here: Path, away: Path) -> Iterator[None]:
    """That stays open, while its file is closed."""
    for number in range(50):
        (here / f"f{number}").write_bytes(bytes(8192))
    yield
    mapped = []
    for number in range(50):
        with (here / f"f{number}").open("r+b") as file:
            mapped.append(mmap.mmap(file.fileno(), 0))
    yield  # closing a file is told of, though nothing was written
    for memory in mapped:
        memory[4096:4101] = b"after"
    yield
    for memory in mapped:
        memory.close()


def written_outside(here: Path, away: Path) -> Iterator[None]:
    for number in range(100):
        (away / f"f{number}").write_text("before")
        os.link(away / f"f{number}", here / f"f{number}")
    yield
    yield
    for number in range(100):
        (away / f"f{number}").write_text("after")
    yield


@pytest.mark.parametrize("act", [stored_through_a_mapping, written_outside])
def test_what_no_event_tells_of_is_found_by_the_full_pass(box, away, act):
    moments = act(box.root, away)
    next(moments)
    box.watch()
    next(moments)
    complete(box)
    next(moments)
    assert told(box) == {}, "no limit any more: say so in README.md"
    pass_of_the_clock(box)
    complete(box)
    next(moments, None)
    complete(box)


def until_it_proves_something(*paths: Path) -> None:
    """Wait until a stat taken now is old enough to prove what the files hold: twice the tick that a record allows for."""
    changed = max(path.lstat().st_ctime_ns for path in paths)
    wait_until(lambda: time.time_ns() > changed + 20_000_000, 10)


def test_what_is_stored_through_a_mapping_is_found_although_nobody_heard_it_closed(box):
    """A store into a page that is dirty already changes no time, so a stat from before it proves nothing."""
    file = box.root / "mapped"
    file.write_bytes(b"A" * mmap.PAGESIZE)
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), 0)
    memory[:4] = b"BBBB"
    until_it_proves_something(file)
    box.watch()
    memory[:4] = b"CCCC"
    box.stop()
    memory.close()
    box.start()

    sealed = box.checkpoint()
    assert box.call("cat", checkpoint=sealed["id"], file="mapped")[:4] == b"CCCC"


def test_what_is_stored_through_a_mapping_is_known_once_that_is_closed(box):
    for number in range(50):
        (box.root / f"f{number}").write_bytes(bytes(8192))
    box.watch()
    for number in range(50):
        with (box.root / f"f{number}").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[4096:4101] = b"after"
    complete(box)


@pytest.mark.parametrize("where", ["in its place", "under two names", "in a folder that is renamed"])
@pytest.mark.parametrize("then", [complete, pass_of_the_clock], ids=["a checkpoint", "a full pass"])
def test_what_is_stored_through_a_mapping_after_a_checkpoint_is_known_once_that_is_closed(box, then, where):
    """A second store into a page changes no time of its file."""
    file = box.root / "n" / "f"
    file.parent.mkdir()
    file.write_bytes(bytes(8192))
    if where == "under two names":
        (box.root / "twin").hardlink_to(file)
    box.watch()
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory[0:5] = b"first"
        until_it_proves_something(file)
        pass_of_the_clock(box)
        complete(box)
        if where == "in a folder that is renamed":
            file.parent.rename(box.root / "m")
        memory[0:5] = b"after"
    then(box)
    complete(box)


# Mounts


def _mount(place: Path) -> None:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)


@with_own_mounts
def test_a_file_system_that_is_unmounted_below_is_a_gap(tmp_path):
    with Box(tmp_path) as box:
        tree(box.root / "n", 60)
        _mount(box.root / "mnt")
        tree(box.root / "mnt" / "m", 60)
        box.watch()
        rewrite(box.root / "mnt", 50)
        complete(box)
        subprocess.run(["umount", box.root / "mnt"], check=True)
        sealed = box.checkpoint()
        assert (sealed["complete"], sealed["gap"]) == (False, "unmount")
        wait_for_full_pass(box)
        complete(box)
        tree(box.root / "mnt" / "m", 60)
        complete(box)


@with_own_mounts
def test_file_systems_mounted_over_watched_directories_are_found_by_the_full_pass(tmp_path):
    with Box(tmp_path) as box:
        for number in range(20):
            tree(box.root / f"d{number}", 6)
        box.watch()
        complete(box)
        for number in range(20):
            _mount(box.root / f"d{number}")
            tree(box.root / f"d{number}", 6, 1)
        assert told(box) == {}, "no limit any more: say so in README.md"
        pass_of_the_clock(box)
        complete(box)
        for number in range(20):
            rewrite(box.root / f"d{number}", 50)
        pass_of_the_clock(box)
        complete(box)
        for number in range(20):
            subprocess.run(["umount", box.root / f"d{number}"], check=True)
        pass_of_the_clock(box)
        complete(box)
        for number in range(20):
            rewrite(box.root / f"d{number}", 50)
        complete(box)


# Cost


def test_a_directory_that_is_renamed_is_not_read_again(box):
    until_it_proves_something(*tree(box.root / "n", 60, 20).rglob("f*"))
    box.watch()
    complete(box)
    (box.root / "n").rename(box.root / "m")
    with Openings(box.root / "m") as openings:
        box.checkpoint()
    assert openings.files == []
    with Openings(box.root / "m") as openings:
        complete(box)
    assert len(openings.files) == 1_200, "the oracle reads each, and that is seen"
