"""A tree that cannot be watched whole is polled: nothing is called complete that may not be, and nothing is missed for long.

The limits are the kernel's own, lowered in a user namespace.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import openoxide
from openoxide.daemon.cadence import POLL_MS
from tests.kit import FakeClock
from tests.kit.box import NO_QUIET, Box

LIMITS = Path("/proc/sys/user")
SECONDS = 60


def beat(box: Box, ms: int) -> None:
    box.clock.advance(ms)
    box.service.beat()
    box.service.background.submit("last", box.service.stop_requested.set)
    assert box.service.stop_requested.wait(SECONDS)
    box.service.stop_requested.clear()


def watches(folder: Path) -> None:
    with Box(folder, clock=FakeClock()) as box:
        for number in range(40):
            (box.root / f"d{number}").mkdir()
        (LIMITS / "max_inotify_watches").write_text("10")
        first = box.watch()["checkpoint"]
        assert (first["complete"], first["gap"]) == (False, "watch_limit")
        for number in range(40):
            (box.root / f"d{number}" / "f").write_text(str(number))
        beat(box, POLL_MS)
        for number in range(40):
            assert box.call("cat", checkpoint="last", file=f"d{number}/f") == str(number).encode()
        for number in range(40):
            (box.root / f"d{number}" / "f").write_text(f"again {number}")
        sealed = box.checkpoint()
        for number in range(40):
            assert box.call("cat", checkpoint=sealed["id"], file=f"d{number}/f") == f"again {number}".encode()
        assert (sealed["complete"], sealed["gap"]) == (False, "watch_limit"), (
            "a poll proves nothing about later changes"
        )
        status = box.call("status")["worktrees"][0]
        assert (status["state"], status["polled"], status["full_pass_every_ms"]) == ("degraded", "watch_limit", POLL_MS)

        (LIMITS / "max_inotify_watches").write_text("1000")
        beat(box, NO_QUIET.full_pass_ms)
        beat(box, NO_QUIET.full_pass_ms)
        assert box.checkpoint()["complete"]
        (status,) = box.call("status")["worktrees"]
        assert (status["state"], status["polled"], status["gaps"]) == ("watching", "", [])


def instances(folder: Path) -> None:
    with Box(folder, clock=FakeClock()) as box:
        (LIMITS / "max_inotify_instances").write_text("0")
        first = box.watch()["checkpoint"]
        assert (first["complete"], first["gap"]) == (False, "instance_limit")
        (box.root / "f").write_text("x")
        beat(box, POLL_MS)
        assert box.call("cat", checkpoint="last", file="f") == b"x"
        (box.root / "f").write_text("changed")
        asked_for = box.checkpoint()
        assert not asked_for["complete"]
        assert box.call("cat", checkpoint=asked_for["id"], file="f") == b"changed", "it looks at everything itself"


@pytest.mark.parametrize("scenario", [watches, instances])
def test_a_limit_of_the_kernel_makes_a_tree_polled(tmp_path, scenario):
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel gives no user namespaces")
    environment = {**os.environ, "PYTHONPATH": str(Path(openoxide.__file__).parent.parent)}
    command = [*namespace, sys.executable, "-W", "error", "-m", "tests.daemon.test_polling"]
    done = subprocess.run(
        [*command, scenario.__name__, str(tmp_path)],
        env=environment, check=False, capture_output=True, text=True, timeout=120, cwd=environment["PYTHONPATH"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
