"""Every kind of change is in the dirty set after a barrier, whoever else writes, and leaves no directory blind."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.watched_tree import COMPLETE, DEADLINE_SECONDS, Bench, covers, exchange, make_tree, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

ROUNDS = 15
Phases = Iterator[list[bytes]]

CHURN = r"""
import os, random, sys
root, pick = sys.argv[1], random.Random(7)
os.chdir(root)
while sys.stdin.read(1):
    for _ in range(15):
        here, there = f"c{pick.randrange(9)}", f"c{pick.randrange(9)}"
        os.makedirs(here, exist_ok=True)
        with open(f"{here}/f{pick.randrange(9)}", "w") as file:
            file.write("x")
        if pick.random() < .3:
            try:
                os.rename(here, there)
            except OSError:
                pass
    sys.stdout.write(".")
    sys.stdout.flush()
"""


MOVES = r"""
import ctypes, os, random, shutil, sys
root, away, pick = sys.argv[1], sys.argv[2], random.Random(int(sys.argv[3]))
renameat2 = ctypes.CDLL(None).renameat2
def place(base):
    return base + "".join("/" + pick.choice("abcde") for _ in range(pick.randrange(1, 5)))
for _ in range(800):
    kind = pick.random()
    try:
        if kind < .4: os.makedirs(place(root))
        elif kind < .6: os.rename(place(root), place(root))
        elif kind < .7: renameat2(-100, place(root).encode(), -100, place(root).encode(), 2)
        elif kind < .75: shutil.rmtree(place(root), ignore_errors=True)
        elif kind < .8: os.rename(place(root), place(away))
        elif kind < .85: os.rename(place(away), place(root))
        elif kind < .9: renameat2(-100, place(root).encode(), -100, place(away).encode(), 2)
        else: os.makedirs(place(away))
    except OSError:
        pass
"""


class Churn:
    """A second process that makes a burst of changes while the caller goes on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._pipes = process.stdin, process.stdout
        self._is_busy = False

    def burst(self) -> None:
        self.rest()
        self._pipes[0].write(b".")
        self._is_busy = True

    def rest(self) -> None:
        if self._is_busy:
            assert self._pipes[1].read(1) == b"."
        self._is_busy = False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.watch.stop()


@pytest.fixture
def churn(bench: Bench) -> Iterator[Churn]:
    os.mkdir(bench.at(b"churn"))
    command = [sys.executable, "-c", CHURN, bench.at(b"churn")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        yield Churn(process)
        process.kill()


# Each kind of change prepares, then yields after each step the paths that must be dirty by then. ``here`` is a watched
# directory of its own, ``away`` lies outside of the tree.


def created(here: bytes, away: bytes) -> Phases:
    yield []
    yield [write(here + b"/f")]


def appended(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    yield [write(path)]


def written_and_kept_open(here: bytes, away: bytes) -> Phases:
    with open(write(here + b"/f"), "r+b", buffering=0) as file:
        yield []
        file.write(b"y")
        yield [here + b"/f"]


def truncated(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.truncate(path, 0)
    yield [path]


def mapped(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"M"
    yield [path]


def deleted(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.unlink(path)
    yield [path]


def renamed(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.rename(path, here + b"/g")
    yield [path, here + b"/g"]


def saved_atomically(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.rename(write(here + b"/f.tmp"), path)
    yield [path, here + b"/f.tmp"]


def mode_changed(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.chmod(path, 0o600)
    yield [path]


def touched(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.utime(path, ns=(1, 1))
    yield [path]


def linked(here: bytes, away: bytes) -> Phases:
    path = write(here + b"/f")
    yield []
    os.link(path, here + b"/g")
    os.symlink(b"f", here + b"/s")
    yield [here + b"/g", here + b"/s"]


def directory_mode_changed(here: bytes, away: bytes) -> Phases:
    os.mkdir(here + b"/d")
    yield []
    os.chmod(here + b"/d", 0o700)
    yield [here + b"/d"]
    os.chmod(here, 0o700)
    yield [here]


def directories_made(here: bytes, away: bytes) -> Phases:
    yield []
    make_tree(here + b"/n")
    yield [here + b"/n", here + b"/n/o/f", here + b"/n/o/p/g"]
    yield [write(here + b"/n/o/p/g")]


def made_and_removed(here: bytes, away: bytes) -> Phases:
    yield []
    shutil.rmtree(make_tree(here + b"/n"))
    yield [here + b"/n", here + b"/n/o/f"]


def tree_removed(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/n")
    yield []
    shutil.rmtree(here + b"/n")
    yield [here + b"/n", here + b"/n/o/f", here + b"/n/o/p"]


def directory_renamed_there_and_back(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/n")
    yield []
    os.rename(here + b"/n", here + b"/m")
    write(here + b"/m/o/f")
    os.rename(here + b"/m", here + b"/n")
    yield [here + b"/m", here + b"/n/o/f"]
    yield [write(here + b"/n/o/p/g")]


def directory_moved_deeper(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/n")
    make_tree(here + b"/m")
    yield []
    os.rename(here + b"/n", here + b"/m/o/p/n")
    yield [here + b"/n", here + b"/n/o/f", here + b"/m/o/p/n/o/f"]
    yield [write(here + b"/m/o/p/n/o/p/g")]


def directories_exchanged(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/m")
    make_tree(here + b"/n")
    os.mkdir(here + b"/n/only")
    yield []
    exchange(here + b"/m", here + b"/n")
    yield [here + b"/m/o/f", here + b"/n/o/f"]
    yield [write(here + b"/m/only/f"), write(here + b"/m/o/p/g"), write(here + b"/n/o/p/g")]


def exchanged_with_outside(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/m")
    make_tree(away + b"/n")
    yield []
    exchange(away + b"/n", here + b"/m")
    yield [here + b"/m/o/f"]
    yield [write(here + b"/m/o/p/g")]


def moved_in(here: bytes, away: bytes) -> Phases:
    make_tree(away + b"/n")
    yield []
    os.rename(away + b"/n", here + b"/n")
    write(here + b"/n/o/f")
    yield [here + b"/n", here + b"/n/o/f"]
    yield [write(here + b"/n/o/p/g")]


def out_and_in_under_another_name(here: bytes, away: bytes) -> Phases:
    make_tree(here + b"/n")
    yield []
    os.rename(here + b"/n", away + b"/n")
    os.makedirs(away + b"/n/late")
    os.rename(away + b"/n", here + b"/m")
    yield [here + b"/n/o/f", here + b"/m/o/f"]
    yield [write(here + b"/m/o/p/g"), write(here + b"/m/late/f")]


def file_and_directory_swap_places(here: bytes, away: bytes) -> Phases:
    write(here + b"/flip")
    yield []
    os.unlink(here + b"/flip")
    make_tree(here + b"/flip")
    yield [here + b"/flip", here + b"/flip/o/f"]
    shutil.rmtree(here + b"/flip")
    yield [write(here + b"/flip"), here + b"/flip/o/f"]


def name_reused_by_a_moved_directory(here: bytes, away: bytes) -> Phases:
    os.mkdir(here + b"/p")
    make_tree(here + b"/y")
    yield []
    os.mkdir(here + b"/p/o")
    os.rename(here + b"/p", here + b"/q")
    os.rename(here + b"/y", here + b"/p")
    yield [here + b"/q/o", here + b"/p/o/f", here + b"/y/o/f"]
    yield [write(here + b"/q/o/f"), write(here + b"/p/o/f"), write(here + b"/p/o/p/g")]


KINDS = [
    created, appended, written_and_kept_open, truncated, mapped, deleted, renamed, saved_atomically, mode_changed, touched,
    linked, directory_mode_changed, directories_made, made_and_removed, tree_removed, directory_renamed_there_and_back,
    directory_moved_deeper, directories_exchanged, exchanged_with_outside, moved_in, out_and_in_under_another_name,
    file_and_directory_swap_places, name_reused_by_a_moved_directory,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_change_is_dirty_right_after_it_was_made(bench, churn, kind):
    bench.watch.start()
    for number in range(ROUNDS):
        here, away = bench.at(b"w%d" % number), os.path.join(bench.outside, b"away%d" % number)
        os.mkdir(here)
        os.mkdir(away)
        for phase, paths in enumerate(kind(here, away)):
            dirty = bench.settle()
            missing = [path for path in paths if not covers(dirty, os.path.relpath(path, bench.root))]
            assert not missing, (number, phase, dirty)
            assert phase == 0 or not covers(dirty, b"w%d/untouched" % number)
            churn.burst()
    churn.rest()
    bench.settle()
    assert bench.watch.watches == len(bench.directories())
    assert bench.watch.errors == 0


@pytest.mark.parametrize("ask", [True, False], ids=["asked all the time", "asked at the end"])
def test_whatever_moves_where_no_directory_is_blind_or_misnamed(bench, ask):
    away = os.path.join(bench.outside, b"away")
    os.mkdir(away)
    bench.watch.start()
    command = [sys.executable, "-c", MOVES, bench.root, away]
    movers = [subprocess.Popen([*command, str(seed)]) for seed in range(3)]
    for mover in movers:
        while ask and mover.poll() is None:
            assert bench.watch.barrier() == COMPLETE
        assert mover.wait(DEADLINE_SECONDS) == 0
    bench.settle()
    assert bench.watch.watches == len(bench.directories())
    probes = [os.path.relpath(write(path + b"/probe"), bench.root) for path in bench.directories()]
    assert bench.settle() == dict.fromkeys(probes, False)
    for path, _, _ in os.walk(away):
        write(path + b"/probe")
    assert bench.settle() == {}
