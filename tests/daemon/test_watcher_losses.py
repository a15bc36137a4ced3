"""What cannot be known is told: overflow, limits, a root that goes, directories closed to us, faults of our own."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import openoxide
from openoxide.daemon.attachment import Prune, Pruned
from openoxide.daemon.changes import Drained, Gap
from openoxide.daemon.watcher import Watch
from tests.kit import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

DEADLINE_SECONDS = 20
COMPLETE = Drained(complete=True)
LIMITS = Path("/proc/sys/user")


class Watched:
    """A watched tree, and what its reader reported by itself."""

    def __init__(self, path: Path, prune: Prune = lambda parent, name: Pruned.NO) -> None:
        self.path = path
        self.path.mkdir(exist_ok=True)
        self.changed = threading.Event()
        self.watch = Watch(os.fsencode(path), prune=prune, on_change=self.changed.set)

    def until(self, cause: str) -> dict[bytes, bool]:
        """Wait for the gap ``cause``; answers the dirty paths that came up to it."""
        told: dict[bytes, bool] = {}
        while self.changed.wait(DEADLINE_SECONDS):
            self.changed.clear()
            dirty, gaps, _ = self.watch.take()
            told.update(dirty)
            if Gap(cause=cause) in gaps:
                return told
        raise AssertionError(f"no gap {cause}")

    def assert_root_was_lost(self) -> None:
        """The root is another directory than before the last take. (A reader that was faster has attached to it.)"""
        assert self.watch.barrier() in {COMPLETE, Drained(complete=False, cause="root_lost")}
        dirty, gaps, _ = self.watch.take()
        assert dirty[b""] is True
        assert gaps == (Gap(cause="root_lost"), Gap(cause="root_returned"))

    def assert_sees(self, *names: str) -> None:
        """Files made from now on are known after a barrier, by name."""
        assert self.watch.barrier() == COMPLETE
        self.watch.take()
        for name in names:
            (self.path / name).write_bytes(b"x")
        assert self.watch.barrier() == COMPLETE
        assert self.watch.take()[:2] == ({os.fsencode(name): False for name in names}, ())


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path / "tree")
    yield watched
    watched.watch.stop()


class Stalls:
    """Rules that stop the reader the first two times it looks at a directory named stall: with its lock held, and then
    while it attaches again.
    """

    def __init__(self) -> None:
        self._left = 2
        self._reached = threading.Semaphore(0)
        self._go_on = threading.Semaphore(0)

    def __call__(self, parent: bytes, name: bytes) -> bool:
        if name == b"stall" and self._left:
            self._left -= 1
            self._reached.release()
            assert self._go_on.acquire(timeout=DEADLINE_SECONDS)
        return False

    def reached(self) -> None:
        assert self._reached.acquire(timeout=DEADLINE_SECONDS)

    def go_on(self) -> None:
        self._go_on.release()


def test_an_overflow_is_told_and_recovered_from(tmp_path):
    stalls = Stalls()
    watched = Watched(tmp_path / "tree", stalls)
    (watched.path / "many" / "deep").mkdir(parents=True)
    watched.watch.start()
    (watched.path / "stall").mkdir()
    stalls.reached()
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    for number in range(queue // 2 + 1000):  # two events each
        os.close(os.open(watched.path / "many" / str(number), os.O_CREAT | os.O_WRONLY))
    (watched.path / "unseen").mkdir()
    stalls.go_on()
    stalls.reached()  # again: by now it lists the tree for a new instance
    # whoever asks meanwhile gets an answer: the reader stands still until it is let go on
    assert watched.watch.barrier() == Drained(complete=False, cause="overflow")
    assert watched.watch.take()[1] == (Gap(cause="overflow"),)
    stalls.go_on()
    wait_until(lambda: watched.watch.watches == 5, DEADLINE_SECONDS)
    assert watched.watch.barrier() == COMPLETE
    assert watched.watch.take()[:2] == ({b"": True}, ())
    watched.assert_sees("many/new", "many/deep/new", "unseen/new", "stall/new")
    watched.watch.stop()


def renamed_away(root: Path) -> None:
    root.rename(root.parent / "elsewhere")


def removed(root: Path) -> None:
    shutil.rmtree(root)


def made_a_link(root: Path) -> None:
    root.rename(root.parent / "elsewhere")
    root.symlink_to(root.parent / "elsewhere")


def parent_renamed(root: Path) -> None:
    root.parent.rename(root.parent.parent / "elsewhere")


@pytest.mark.parametrize("asked", [True, False], ids=["found by a barrier", "found by the reader"])
@pytest.mark.parametrize("lose", [renamed_away, removed, made_a_link, parent_renamed])
def test_a_lost_root_is_told_and_one_that_comes_back_is_watched(tmp_path, lose, asked):
    (tmp_path / "parent" / "tree" / "d").mkdir(parents=True)
    watched = Watched(tmp_path / "parent" / "tree")
    watched.watch.start()
    lose(watched.path)
    if asked:
        assert watched.watch.barrier() == Drained(complete=False, cause="root_lost")
    watched.until("root_lost")
    assert not watched.watch.root_present
    assert watched.watch.watches == 0
    assert watched.watch.barrier() == Drained(complete=False, cause="root_lost")
    if watched.path.is_symlink():
        watched.path.unlink()
    (watched.path / "e").mkdir(parents=True)
    if asked:
        watched.watch.barrier()
        assert watched.watch.root_present
    assert watched.until("root_returned")[b""] is True
    assert watched.watch.root_present
    watched.assert_sees("f", "e/f")
    watched.watch.stop()


def test_a_root_replaced_at_once_is_noticed_by_the_next_barrier(watched):
    watched.watch.start()
    watched.path.rename(watched.path.parent / "elsewhere")
    (watched.path / "d").mkdir(parents=True)
    watched.assert_root_was_lost()
    watched.assert_sees("d/f")
    (watched.path.parent / "elsewhere" / "f").write_bytes(b"x")
    assert watched.watch.barrier() == COMPLETE
    assert watched.watch.take()[:2] == ({}, ())


def test_losing_the_root_again_and_again_leaks_no_descriptor(watched):
    watched.watch.start()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        watched.path.rmdir()
        watched.path.mkdir()  # often with the inode number of the one before
        watched.assert_root_was_lost()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_reader_survives_a_fault_and_tells_of_it(tmp_path, caplog):
    broken = threading.Event()

    def prune(parent: bytes, name: bytes) -> Pruned:
        if broken.is_set():
            raise ValueError("a fault in the rules")
        return Pruned.OUT if name == b"pruned" else Pruned.NO

    caplog.set_level(logging.ERROR)
    watched = Watched(tmp_path / "tree", prune)
    (watched.path / "d").mkdir()
    watched.watch.start()
    descriptors = len(os.listdir("/proc/self/fd"))
    broken.set()
    (watched.path / "new").mkdir()
    watched.until("reader_error")
    assert watched.watch.barrier() == Drained(complete=False, cause="reader_error")
    assert watched.watch.degraded == "reader_error"
    assert watched.watch.errors >= 2
    assert [record.exc_info is not None for record in caplog.records] == [True]
    broken.clear()
    watched.watch.barrier()
    assert watched.watch.take()[0] == {b"": True}
    assert watched.watch.degraded == ""
    watched.assert_sees("f", "d/f", "new/f")
    assert len(os.listdir("/proc/self/fd")) == descriptors
    watched.watch.stop()


def test_the_reader_survives_a_listener_that_fails(tmp_path, caplog):
    calls = threading.Semaphore(0)

    def on_change() -> None:
        calls.release()
        raise ValueError("a fault in the listener")

    (tmp_path / "tree").mkdir()
    watch = Watch(os.fsencode(tmp_path / "tree"), prune=lambda parent, name: Pruned.NO, on_change=on_change)
    watch.start()
    for name in ("a", "b"):
        (tmp_path / "tree" / name).mkdir()
        assert calls.acquire(timeout=DEADLINE_SECONDS)
    watch.stop()
    assert watch.errors >= 2
    assert watch.take()[:2] == ({b"a": True, b"b": True}, ())


def watch_limit(root: Path) -> None:
    for number in range(40):
        (root / f"d{number}" / "e").mkdir(parents=True)
    (LIMITS / "max_inotify_watches").write_text("30")
    watched = Watched(root)
    watched.watch.start()
    assert watched.watch.watches == 30
    assert watched.watch.degraded == "watch_limit"
    assert watched.watch.take()[:2] == ({}, (Gap(cause="watch_limit"),))
    (root / "more").mkdir()
    assert watched.watch.barrier() == Drained(complete=False, cause="watch_limit")
    watched.watch.refresh(b"")
    assert watched.watch.take()[:2] == ({b"more": True}, ()), "a limit is told once"
    (LIMITS / "max_inotify_watches").write_text("1000")
    watched.watch.refresh(b"")
    assert watched.watch.degraded == ""
    assert watched.watch.watches == 82
    watched.assert_sees("more/f", *(f"d{number}/e/f" for number in range(40)))
    watched.watch.stop()


def descriptor_limit(root: Path) -> None:
    (root / "/".join("d" * 60)).mkdir(parents=True)
    watched = Watched(root)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    watched.watch.start()
    assert watched.watch.degraded == "watch_failed"
    assert watched.watch.barrier() == Drained(complete=False, cause="watch_failed")
    assert watched.watch.take()[:2] == ({}, (Gap(cause="watch_failed"),))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    watched.watch.refresh(b"")
    assert (watched.watch.degraded, watched.watch.watches) == ("", 61)
    watched.assert_sees("/".join("d" * 60) + "/f")
    watched.watch.stop()


def no_watch_at_all(root: Path) -> None:
    (LIMITS / "max_inotify_watches").write_text("0")
    watched = Watched(root)
    watched.watch.start()
    assert (watched.watch.degraded, watched.watch.root_present) == ("watch_limit", True)
    assert watched.watch.barrier() == Drained(complete=False, cause="watch_limit")
    assert watched.watch.take()[:2] == ({}, (Gap(cause="watch_limit"),))
    watched.watch.stop()


def instance_limit(root: Path) -> None:
    (LIMITS / "max_inotify_instances").write_text("0")
    watched = Watched(root)
    watched.watch.start()
    assert watched.watch.degraded == "instance_limit"
    watched.until("instance_limit")
    assert watched.watch.barrier() == Drained(complete=False, cause="instance_limit")
    (LIMITS / "max_inotify_instances").write_text("10")
    assert watched.changed.wait(DEADLINE_SECONDS), "tried again without being asked"
    assert watched.watch.take()[:2] == ({b"": True}, ())
    watched.assert_sees("f")
    watched.watch.stop()


def mounts(root: Path) -> None:
    (root / "mnt").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", root / "mnt"], check=True)
    (root / "mnt" / "d").mkdir()
    watched = Watched(root)
    watched.watch.start()
    assert watched.watch.watches == 3
    watched.assert_sees("mnt/d/f")
    subprocess.run(["umount", root / "mnt"], check=True)
    assert watched.watch.barrier() == COMPLETE
    dirty, gaps, _ = watched.watch.take()
    assert gaps == (Gap(cause="unmount"),)
    assert dirty[b"mnt"] is True
    watched.assert_sees("f", "mnt/f")
    assert watched.watch.watches == 2
    subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
    watched.assert_root_was_lost()
    watched.assert_sees("f")
    subprocess.run(["umount", root], check=True)
    watched.assert_root_was_lost()
    watched.assert_sees("mnt/f")
    watched.watch.stop()


def bind_mount_of_itself(root: Path) -> None:
    (root / "d" / "loop").mkdir(parents=True)
    subprocess.run(["mount", "--bind", root, root / "d" / "loop"], check=True)
    watched = Watched(root)
    watched.watch.start()
    watched.assert_sees("f", "d/f")
    watched.watch.stop()


def closed_directories(root: Path) -> None:
    for name in ("closed", "unsearchable"):
        (root / name / "below").mkdir(parents=True)
    (root / "closed").chmod(0)
    (root / "unsearchable").chmod(0o600)
    watched = Watched(root)
    watched.watch.start()
    assert watched.watch.watches == 2
    for name in ("closed", "unsearchable"):
        (root / name).chmod(0o700)
        assert watched.watch.barrier() == COMPLETE
        assert watched.watch.take()[:2] == ({name.encode(): True}, ())
        (root / name).chmod(0o750)
        assert watched.watch.barrier() == COMPLETE
        assert watched.watch.take()[:2] == ({name.encode(): False}, ())
    watched.assert_sees("closed/f", "closed/below/f", "unsearchable/below/f")
    root.chmod(0o750)
    assert watched.watch.barrier() == COMPLETE
    assert watched.watch.take()[:2] == ({b"": False}, ())
    watched.watch.stop()


AS_ROOT_OF_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
WITHOUT_PRIVILEGES = ["unshare", "--user"]
SCENARIOS = [
    (AS_ROOT_OF_A_NAMESPACE, watch_limit),
    (AS_ROOT_OF_A_NAMESPACE, no_watch_at_all),
    (AS_ROOT_OF_A_NAMESPACE, instance_limit),
    (AS_ROOT_OF_A_NAMESPACE, mounts),
    (AS_ROOT_OF_A_NAMESPACE, bind_mount_of_itself),
    (WITHOUT_PRIVILEGES, descriptor_limit),
    (WITHOUT_PRIVILEGES, closed_directories),
]


@pytest.mark.parametrize(("namespace", "scenario"), SCENARIOS, ids=[scenario.__name__ for _, scenario in SCENARIOS])
def test_in_a_namespace(tmp_path, namespace, scenario):
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel gives no user namespaces")
    root = tmp_path / "tree"
    root.mkdir()
    command = [*namespace, sys.executable, "-W", "error", __file__, scenario.__name__, str(root)]
    environment = {**os.environ, "PYTHONPATH": str(Path(openoxide.__file__).parent.parent)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
