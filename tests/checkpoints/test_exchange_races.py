"""The exchange beside processes that write: nothing they save is lost, and what they hold open is left to them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from openoxide.checkpoints.plan import Change, RewindPlan
from openoxide.checkpoints.tree import Tree
from tests.checkpoints.bench import DIRECTORY, NEW, OLD, Bench, forge, inode, names_in
from tests.kit import wait_until


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def stable(path: Path) -> tuple[object, ...]:
    """What stands there, as one moment had it."""
    while True:
        with path.open("rb") as file:
            before, content, after = os.fstat(file.fileno()), file.read(), os.fstat(file.fileno())
        if before == after:
            return "file", before.st_mode & 0o7777, before.st_mtime_ns, content


@contextmanager
def held_open(path: Path, mode: str = "r+") -> Iterator[int]:
    """The pid of another process that has the file open."""
    program = "import sys; f = open(sys.argv[1], sys.argv[2]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, os.fspath(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield other.pid
        other.communicate()


class TestHeldOpen:
    @pytest.mark.parametrize("wanted", [NEW, None])
    def test_a_file_that_is_open_for_writing_is_given_back(self, bench, wanted):
        bench.put({b"f": OLD})
        before = inode(bench.root / "f")
        steps = bench.stage({b"f": wanted})
        with held_open(bench.root / "f"):
            assert bench.swap(steps)[b"f"].startswith("held_open by pid ")
            assert inode(bench.root / "f") == before
        assert bench.swap(steps) == {}, "later it can be done"

    def test_who_holds_it_open_is_named(self, bench):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": NEW})
        with held_open(bench.root / "f") as pid:
            assert bench.swap(steps) == {b"f": f"held_open by pid {pid}"}

    def test_a_file_that_is_only_read_is_exchanged(self, bench):
        bench.put({b"f": OLD})
        steps = bench.stage({b"f": NEW})
        with (bench.root / "f").open("rb") as reader:
            assert bench.swap(steps) == {}
            assert reader.read() == OLD[3]


class TestRaces:
    def test_no_save_is_lost_to_an_exchange(self, bench, tmp_path):
        """A program saves without a pause while its file is exchanged. Its last save stands there in the end, and each
        time what it saved last, or what the plan saw, is there or in staging.
        """
        path, saved = bench.root / "f", [b"0"]
        path.write_bytes(b"0")
        stop = threading.Event()

        def save() -> None:
            for number in count(1):
                if stop.is_set():
                    return
                (tmp_path / "new").write_bytes(b"%d" % number)
                os.replace(tmp_path / "new", path)
                saved[0] = b"%d" % number

        saver = threading.Thread(target=save)
        saver.start()
        conflicts = 0
        for _ in range(150):
            seen = stable(path)
            plan = RewindPlan(restore=(Change(path=b"f", now=bench.known(seen), wanted=bench.known(OLD)),))
            steps, before = bench.stage_plan(plan), saved[0]
            conflict = bench.swap(steps)
            assert path.read_bytes().isdigit() or not conflict
            conflicts += bool(conflict)
            wait_until(lambda before=before: saved[0] != before, 30)
            os.unlink("place-0", dir_fd=bench.staging)
        stop.set()
        saver.join(30)
        assert path.read_bytes() == saved[0]
        assert conflicts, "nothing was raced"

    def test_a_save_in_the_middle_of_giving_back_wins(self, bench):
        """What was exchanged is hashed for some time; whoever saves in this time has the newest version."""
        path = bench.root / "f"
        path.write_bytes(bytes(96 << 20))
        steps = bench.stage({b"f": NEW})
        forge(path)
        staged = steps[0].new_ino
        (bench.root / "saved").write_bytes(b"the newest")

        def save_over_ours() -> None:
            wait_until(lambda: inode(path) == staged, 60)
            os.replace(bench.root / "saved", path)

        saver = threading.Thread(target=save_over_ours)
        saver.start()
        assert bench.swap(steps) == {b"f": "changing"}
        saver.join(60)
        assert path.read_bytes() == b"the newest"
        assert names_in(bench.staging) == ["place-0 -"], "what was displaced waits for the sweep"

    @pytest.mark.parametrize("wanted", [NEW, None])
    def test_a_folder_that_leaves_the_tree_takes_nothing_of_ours_along(self, tmp_path, wanted):
        """It leaves after it was opened and before the entry in it is exchanged."""

        class Leaving(Tree):
            def folder(self, directory: bytes) -> int:
                fd = super().folder(directory)
                if directory and os.path.exists(bench.root / "d"):
                    os.rename(bench.root / "d", tmp_path / "elsewhere")
                return fd

            def lstat(self, path: bytes) -> os.stat_result | None:
                return os.lstat(bench.root / "d" / "f") if os.path.exists(bench.root / "d") else super().lstat(path)

        bench = Bench(tmp_path)
        bench.put({b"d": DIRECTORY, b"d/f": OLD})
        steps = bench.stage({b"d/f": wanted})
        bench.tree.close()
        bench.tree = bench.exchange._tree = Leaving(os.fsencode(bench.root))
        assert bench.swap(steps) == {b"d/f": "parent_moved"}
        assert (tmp_path / "elsewhere" / "f").read_bytes() == OLD[3]
        assert bench.look() == {}
        bench.close()
