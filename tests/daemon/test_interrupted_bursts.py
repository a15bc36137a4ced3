"""The real daemon, killed or halted while a project is being written: what it did not see, it finds.

Only its own answers are used, and a copy that it makes of its last checkpoint, which is compared with the tree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openoxide.daemon.client import Client
from openoxide.errors import DaemonUnreachableError
from tests.daemon.workloads import python, tree
from tests.kit import diff_trees, tree_of, wait_until
from tests.kit.openings import Openings
from tests.races.programs import Program, rounds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWERS_WITHIN_S = 60
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
# more events than there may be in most queues, each of another name, without ever looking how far anybody is
_CREATE = """
import os, sys
for number in range(int(sys.argv[2])):
    os.close(os.open(f"{sys.argv[1]}/n{number}", os.O_CREAT | os.O_WRONLY))
"""


class Daemon:
    """``oxided`` on ``root``, a process of its own."""

    def __init__(self, home: Path, root: Path) -> None:
        self._home = home
        self._root = root
        self.client = Client(str(home / "oxided.sock"), autostart=False, timeout_seconds=ANSWERS_WITHIN_S)
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Returns when it has compared the tree with its record."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openoxide.daemon.main", "--foreground", "--watch", self._root, "--timeline"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENOXIDE_HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        while b" watching " not in (line := self.process.stdout.readline()):
            assert line, self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def checkpoint(self) -> Any:
        return self.client.checkpoint(str(self._root))

    def differences(self, to: Path) -> list[str]:
        """How a copy of a complete checkpoint, made in the folder ``to``, differs from the tree."""
        sealed = self.checkpoint()
        assert (sealed["complete"], sealed["gap"]) == (True, "")
        self.client.call("restore", {"path": str(self._root), "checkpoint": sealed["id"], "to": str(to)})
        return diff_trees(tree_of(self._root), tree_of(to))

    def gaps(self) -> list[str]:
        return [gap["cause"] for gap in self.client.status()["worktrees"][0]["gaps"]]


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    tree(tmp_path / "project" / "n", 120)
    return tmp_path / "project"


@pytest.fixture(name="daemon")
def _daemon(root: Path) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="oxide-") as folder:  # a socket's path may only be 107 bytes long
        daemon = Daemon(Path(folder) / "home", root)
        yield daemon
        daemon.kill()


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Path:
    tree(tmp_path / "more" / "m", 120)
    archive = tmp_path / "more.tar"
    subprocess.run(["tar", "-cf", archive, "-C", tmp_path / "more", "m"], check=True)
    return archive


@pytest.mark.parametrize("kind", ["untar", "remove"])
@rounds(few=2, full=50)
def test_what_a_killed_daemon_did_not_record_is_found_by_the_next_one(daemon, root, archive, tmp_path, kind, rounds):
    for number in range(rounds):
        with Program("storm", kind, root, archive) as storm:
            assert storm.hear() == "."
            daemon.checkpoint()  # it is at work: the storm has gone on meanwhile
            daemon.kill()
            assert storm.hear() == ".", "nobody saw this round"
            if number % 2:
                daemon.start()  # with the storm around it
        if not number % 2:
            daemon.start()
        sealed = daemon.checkpoint()
        # a folder that came while the daemon took the tree up may not be watched yet, and it says so
        assert sealed["complete"] or sealed["gap"] in ("overflow", "not_watched"), sealed
        wait_until(lambda: daemon.gaps() == [], ANSWERS_WITHIN_S)
        assert daemon.differences(tmp_path / f"copy{number}") == []


def test_what_a_halted_daemon_could_not_take_in_is_told_and_found(daemon, root, tmp_path):
    """As a machine does that sleeps while others go on: the queue of the kernel is too short for what happens."""
    count = int(QUEUE.read_text("ascii")) // 2 + 1_000
    if count > 50_000:
        pytest.skip("this kernel's queue is too long for a test")
    (root / "new").mkdir()
    daemon.checkpoint()
    daemon.process.send_signal(signal.SIGSTOP)
    assert python(_CREATE, root / "new", count).wait() == 0  # two events each
    daemon.process.send_signal(signal.SIGCONT)
    sealed = daemon.checkpoint()
    assert (sealed["complete"], sealed["gap"]) == (False, "overflow")
    wait_until(lambda: daemon.gaps() == [], ANSWERS_WITHIN_S)
    assert daemon.differences(tmp_path / "copy") == []


def test_a_daemon_that_was_halted_for_less_than_the_queue_holds_has_missed_nothing(daemon, root, tmp_path):
    (root / "new").mkdir()
    daemon.checkpoint()
    daemon.process.send_signal(signal.SIGSTOP)
    assert python(_CREATE, root / "new", 1_000).wait() == 0
    daemon.process.send_signal(signal.SIGCONT)
    assert daemon.differences(tmp_path / "copy") == []


def test_a_first_capture_that_was_killed_goes_on_where_it_was(daemon, tmp_path):
    root, files = tmp_path / "large", 4_000
    for number in range(files):
        (root / f"{number % 40}").mkdir(parents=True, exist_ok=True)
        (root / f"{number % 40}" / f"{number}").write_text(str(number))
    steps: list[dict[str, Any]] = []

    def kill_in_the_middle(step: dict[str, Any]) -> None:
        steps.append(step)
        if step["done"] > files // 2:
            daemon.process.kill()

    with pytest.raises(DaemonUnreachableError):
        daemon.client.watch(str(root), progress=kill_in_the_middle)
    daemon.process.communicate()
    assert {step["total"] for step in steps} == {files + 40}
    assert [step["done"] for step in steps] == sorted(step["done"] for step in steps)
    with Openings(root) as openings:
        daemon.start()
        daemon.client.watch(str(root))
    again = {name for name in openings.files if name.split("/")[-1].isdigit()}

    # what was committed is not read again, but for what was written within the tick of the file system's clock
    assert len(again) < files - 1_000
    assert daemon.client.status()["worktrees"][1]["files"] == files
