"""What a watch tells and what it keeps to itself: rules, names, moves, links, threads, start and stop."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from openoxide.daemon.attachment import Pruned
from openoxide.daemon.changes import Drained, Gap
from openoxide.daemon.watcher import Watch
from openoxide.errors import RootVanishedError
from tests.daemon.watched_tree import COMPLETE, DEADLINE_SECONDS, Bench, covers, exchange, make_tree, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.watch.stop()


def kernel_watches() -> int:
    count = 0
    for descriptor in os.listdir("/proc/self/fdinfo"):
        with suppress(FileNotFoundError):  # the listing's own
            count += Path("/proc/self/fdinfo", descriptor).read_text("ascii").count("inotify wd:")
    return count


def test_mkdir_p_leaves_no_directory_blind(bench):
    bench.watch.start()
    directories = [b"t%d" % number + b"/a/b/c/d"[: 2 * depth] for number in range(300) for depth in range(5)]
    files = []
    for directory in directories:
        os.mkdir(bench.at(directory))
        files.append(directory + b"/f")
        write(bench.at(files[-1]))
    dirty = bench.settle()
    assert [path for path in files if not covers(dirty, path)] == []
    for path in files:
        write(bench.at(path))
    assert bench.settle() == dict.fromkeys(files, False)
    assert bench.watch.watches == len(directories) + 1


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b" ", b"*", b"\\x41", b"n" * 255, "é".encode()])
def test_names_are_bytes_of_any_kind(bench, name):
    bench.watch.start()
    os.mkdir(bench.at(name))
    assert bench.settle() == {name: True}
    write(bench.at(name + b"/" + name))
    assert bench.settle() == {name + b"/" + name: False}


def test_a_renamed_directory_takes_its_watches_along(bench):
    make_tree(bench.at(b"a/deep"))
    bench.watch.start()
    watches = bench.watch.watches
    os.rename(bench.at(b"a"), bench.at(b"b"))
    assert bench.settle() == {b"a": True, b"b": True}
    assert bench.watch.watches == watches
    write(bench.at(b"b/deep/o/p/g"))
    assert bench.settle() == {b"b/deep/o/p/g": False}


def test_what_left_the_tree_is_not_watched(bench):
    make_tree(bench.at(b"a"))
    bench.watch.start()
    away = os.path.join(bench.outside, b"away")
    os.rename(bench.at(b"a"), away)
    assert bench.settle() == {b"a": True}
    assert bench.watch.watches == 1
    write(away + b"/o/p/g")
    os.mkdir(away + b"/o/new")
    assert bench.settle() == {}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while kernel_watches() > 1:
        assert time.monotonic() < deadline, "the kernel still watches it"


def test_pruned_directories_cost_no_watch_and_nothing_in_them_is_told(bench):
    bench.pruned.add(b"node_modules")
    make_tree(bench.at(b"src"))
    make_tree(bench.at(b"node_modules"))
    make_tree(bench.at(b"src/node_modules"))
    bench.watch.start()
    assert bench.watch.watches == 4
    write(bench.at(b"src/node_modules/o/f"))
    make_tree(bench.at(b"node_modules/new"))
    make_tree(bench.at(b"src/o/node_modules"))
    os.rename(bench.at(b"src/o/p"), bench.at(b"src/node_modules/p"))
    assert bench.settle() == {b"src/o/p": True, b"src/o/node_modules": True}
    assert bench.watch.watches == 3


def test_staging_is_never_seen(bench):
    os.makedirs(bench.at(b"d/e"))
    make_tree(bench.at(b".openoxide-staging"))
    bench.watch.start()
    assert bench.watch.watches == 3
    make_tree(bench.at(b"d/.openoxide-staging"))
    write(bench.at(b"d/e/.openoxide-staging"))
    write(bench.at(b".openoxide-staging/f"))
    assert bench.settle() == {}
    exchange(bench.at(b".openoxide-staging/o"), bench.at(b"d"))
    assert bench.settle() == {b"d": True}
    write(bench.at(b"d/p/g"))
    assert bench.settle() == {b"d/p/g": False}


def test_linked_directories_are_not_followed(bench):
    away = make_tree(os.path.join(bench.outside, b"away"))
    os.symlink(away, bench.at(b"old"))
    bench.watch.start()
    os.symlink(away, bench.at(b"new"))
    write(away + b"/o/f")
    assert bench.settle() == {b"new": False}
    assert bench.watch.watches == 1


def test_changed_rules_add_and_drop_watches(bench):
    bench.pruned.add(b"out")
    make_tree(bench.at(b"d/out"))
    make_tree(bench.at(b"d/in"))
    bench.watch.start()
    assert bench.watch.watches == 5
    bench.pruned = {b"in"}
    bench.watch.refresh(b"d")
    assert bench.watch.watches == 5
    write(bench.at(b"d/in/o/f"))
    assert bench.settle() == {b"d/out": True}, "what was not watched may have changed"
    write(bench.at(b"d/out/o/p/g"))
    assert bench.settle() == {b"d/out/o/p/g": False}


def test_a_directory_found_to_be_pruned_by_now_is_dropped(bench):
    make_tree(bench.at(b"d"))
    bench.watch.start()
    bench.pruned.add(b"d")
    os.chmod(bench.at(b"d"), 0o700)
    assert bench.settle() == {b"d": False}
    assert bench.watch.watches == 1


@pytest.mark.parametrize(("directory", "watches"), [(b"d", 5), (b"d/out", 5), (b"d/out/o", 5), (b"", 5), (b"none", 2)])
def test_a_directory_that_is_no_longer_pruned_is_watched_wherever_the_refresh_begins(bench, directory, watches):
    bench.pruned.add(b"out")
    make_tree(bench.at(b"d/out"))
    bench.watch.start()
    bench.pruned.clear()
    bench.watch.refresh(directory)
    assert bench.watch.watches == watches
    assert bench.settle() == ({b"d/out": True} if watches == 5 else {})


def test_what_was_given_back_is_taken_again_and_recursive_wins(bench):
    bench.watch.start()
    for name in (b"a", b"b"):
        write(bench.at(name))
    os.mkdir(bench.at(b"d"))
    assert bench.watch.barrier() == COMPLETE
    bench.watch.give_back({b"a": True, b"c": False, b"d": False}, [Gap(cause="overflow")])
    assert bench.watch.pending == 4
    assert bench.watch.take()[:2] == ({b"a": True, b"b": False, b"c": False, b"d": True}, (Gap(cause="overflow"),))
    assert bench.watch.take()[:2] == ({}, ())


def test_on_change_may_call_the_watch(bench):
    taken: dict[bytes, bool] = {}
    done = threading.Event()

    def on_change() -> None:
        taken.update(watch.take()[0])
        if b"last" in taken:
            done.set()

    watch = Watch(bench.root, prune=lambda parent, name: Pruned.NO, on_change=on_change)
    watch.start()
    write(bench.at(b"first"))
    watch.barrier()
    write(bench.at(b"last"))
    assert done.wait(DEADLINE_SECONDS)
    watch.stop()
    assert taken == {b"first": False, b"last": False}


def test_a_barrier_needs_no_reader_and_what_came_back_stays_watched(bench):
    entered, leave = threading.Semaphore(0), threading.Semaphore(0)

    def on_change() -> None:
        entered.release()
        leave.acquire(timeout=DEADLINE_SECONDS)

    make_tree(bench.at(b"a"))
    bench.watch.stop()
    bench.watch = Watch(bench.root, prune=lambda parent, name: Pruned.NO, on_change=on_change)
    bench.watch.start()
    write(bench.at(b"f"))
    assert entered.acquire(timeout=DEADLINE_SECONDS)  # the reader stands still
    away = os.path.join(bench.outside, b"away")
    os.rename(bench.at(b"a"), away)
    assert bench.settle()[b"a"] is True
    os.rename(away, bench.at(b"b"))
    assert bench.settle() == {b"b": True}
    leave.release()
    assert entered.acquire(timeout=DEADLINE_SECONDS)  # it has removed by now what it had to remove
    write(bench.at(b"b/o/p/g"))
    assert bench.settle() == {b"b/o/p/g": False}
    leave.release(100)


def test_a_removed_directory_that_is_still_open_somewhere_is_dropped(bench):
    os.mkdir(bench.at(b"d"))
    bench.watch.start()
    descriptor = os.open(bench.at(b"d"), os.O_RDONLY)
    os.rmdir(bench.at(b"d"))
    assert bench.settle() == {b"d": True}
    assert bench.watch.watches == 1
    os.close(descriptor)


def test_threads_that_take_at_once_lose_nothing(bench):
    for name in (b"d0", b"d1", b"d2", b"moving0"):
        make_tree(bench.at(name))
    bench.watch.start()
    stop = threading.Event()
    union: dict[bytes, bool] = {}
    guard = threading.Lock()

    def hammer() -> None:
        while not stop.is_set():
            assert bench.watch.barrier() == COMPLETE
            dirty, _, _ = bench.watch.take()
            if len(dirty) % 3 == 1:
                bench.watch.give_back(dirty)
                continue
            with guard:
                union.update({path: recursive or union.get(path, False) for path, recursive in dirty.items()})

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    paths = []
    for number in range(600):
        if number % 20 == 19:
            os.rename(bench.at(b"moving%d" % (number // 20)), bench.at(b"moving%d" % (number // 20 + 1)))
        paths.append(b"d%d/f%d" % (number % 3, number))
        write(bench.at(paths[-1]))
    stop.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    union.update(bench.settle())
    assert [path for path in paths if path not in union] == []
    assert bench.watch.watches == len(bench.directories())
    assert bench.watch.errors == 0


@pytest.mark.parametrize("missing", ["absent", "file", "link"])
def test_a_root_that_is_no_directory_is_refused(tmp_path, missing):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    descriptors = len(os.listdir("/proc/self/fd"))
    root = os.fsencode(tmp_path / missing)
    with pytest.raises(RootVanishedError, match=missing):
        Watch(root, prune=lambda parent, name: Pruned.NO, on_change=lambda: None).start()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_stopped_watch_holds_nothing(bench):
    make_tree(bench.at(b"a"))
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    bench.watch.start()
    bench.watch.stop()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors - 1
    assert bench.watch.barrier() == Drained(complete=False, cause="stopped")
    assert bench.watch.watches == 0
    assert bench.watch.take()[:2] == ({}, ())
