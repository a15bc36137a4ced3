"""Where the system gives less than watching takes, a checkpoint says so, and the full pass is the tree all the same."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import openoxide
from openoxide.errors import OpenOxideError
from tests.daemon.trouble import isolated
from tests.daemon.workloads import rewrite, tree
from tests.kit.box import Box
from tests.kit.recorded import complete, differences, pass_of_the_clock, wait_for_full_pass

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

# of this user namespace alone, unlike what stands in /proc/sys/fs/inotify
LIMITS = Path("/proc/sys/user")
NAMESPACE = ["unshare", "--user", "--map-root-user"]


def incomplete(box: Box, cause: str) -> Any:
    """A checkpoint that names ``cause``, after which a full pass finds what it may lack."""
    sealed = box.checkpoint()
    assert (sealed["complete"], sealed["gap"]) == (False, cause), sealed
    pass_of_the_clock(box)
    assert not box.call("status")["worktrees"][0]["complete"]
    assert differences(box, box.checkpoint()["seq"]) == []
    return sealed


def too_few_watches_from_the_start(folder: Path) -> None:
    (LIMITS / "max_inotify_watches").write_text("30")
    with Box(folder) as box:
        tree(box.root / "n", 120)
        box.watch()
        for _ in range(3):
            rewrite(box.root, 100)
            incomplete(box, "watch_limit")
        subprocess.run(["rm", "-rf", box.root / "n"], check=True)
        incomplete(box, "watch_limit")


def too_few_watches_for_what_is_made(folder: Path) -> None:
    (LIMITS / "max_inotify_watches").write_text("30")
    with Box(folder) as box:
        tree(box.root / "n", 12)
        box.watch()
        complete(box)
        tree(box.root / "m", 120)
        incomplete(box, "watch_limit")
        rewrite(box.root, 100)
        incomplete(box, "watch_limit")


def no_instance(folder: Path) -> None:
    (LIMITS / "max_inotify_instances").write_text("0")
    with Box(folder) as box:
        tree(box.root / "n", 12)
        box.watch()
        rewrite(box.root, 100)
        incomplete(box, "instance_limit")
        (LIMITS / "max_inotify_instances").write_text("10")
        box.checkpoint()  # attaches again
        wait_for_full_pass(box)
        rewrite(box.root, 100)
        complete(box)


SCENARIOS = [too_few_watches_from_the_start, too_few_watches_for_what_is_made, no_instance]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_in_a_namespace(tmp_path, scenario):
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel gives no user namespaces")
    command = [*NAMESPACE, sys.executable, "-W", "error", __file__, scenario.__name__, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(openoxide.__file__).parent.parent)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@isolated
def test_a_checkpoint_without_descriptors_is_refused_and_the_next_one_has_lost_nothing(tmp_path):
    with Box(tmp_path) as box:
        tree(box.root / "n", 120)
        box.watch()
        complete(box)
        rewrite(box.root, 100)
        tree(box.root / "m", 120)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
        try:
            with pytest.raises((OpenOxideError, OSError)):
                box.checkpoint()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        sealed = box.checkpoint()
        if not sealed["complete"]:
            assert sealed["gap"] == "watch_failed", sealed
            pass_of_the_clock(box)
        assert differences(box, box.checkpoint()["seq"]) == []


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
