"""A fault at every mutating call of a hook that spools, and of the daemon that takes a spool up: a call is there whole or
not at all, and a turn is declared once.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from openoxide.checkpoints import sight
from openoxide.checkpoints.model import WindowKind
from openoxide.daemon.spool import HALF_WRITTEN_MS, Spool
from tests.faults.hook_worker import request, windows
from tests.faults.lab import CHECKOUT, Lab, Outcome, points, sample_size, shim
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "killafter", "torn", "enospc", "eio")
FAR_AHEAD_MS = 1 << 62
OPEN = [["turn", None], ["tool", "open"]]


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def hook(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    home = folder / "home"
    home.mkdir(mode=0o700, parents=True)
    (home / "timeline.db").touch()
    (folder / "payload").write_text(json.dumps(request(folder, "UserPromptSubmit", "")["payload"]))
    program = shlex.join([sys.executable, "-I", "-S", str(CHECKOUT / "cli/hook.py"), "claude", "UserPromptSubmit"])
    argv = ["sh", "-c", f"exec {program} < {shlex.quote(str(folder / 'payload'))}"]
    return Lab(so, [home], folder).run(argv, mode=mode, at=at, env={"OPENOXIDE_HOME": str(home)})


@pytest.mark.parametrize("mode", MODES)
def test_a_hook_leaves_its_call_whole_or_not_at_all(mode, tmp_path, so):
    total = hook(so, tmp_path / "count", mode, 0).calls
    assert total >= 3
    for at in range(1, total + 1):
        folder = tmp_path / str(at)

        outcome = hook(so, folder, mode, at)

        assert (outcome.status, outcome.stderr) in ((0, b""), (-9, b"")), outcome
        spool = Spool(folder / "home" / "spool")
        assert [entry.request["agent"] for entry in spool.entries(now_ms=0)] in ([], ["claude"])
        if outcome.status == 0:
            left = [*(folder / "home").glob("spool/*.new")]
            assert left == [], outcome.call
        spool.remove(spool.entries(now_ms=FAR_AHEAD_MS + HALF_WRITTEN_MS))
        assert [*(folder / "home").glob("spool/*")] == []


def take_up(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    argv = [sys.executable, "-m", "tests.faults.hook_worker", str(folder)]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


@pytest.mark.parametrize("mode", MODES)
def test_what_lies_in_the_spool_is_taken_up_once(mode, tmp_path, so):
    (tmp_path / "count").mkdir()
    whole = take_up(so, tmp_path / "count", mode, 0)
    assert [json.loads(said) for said in whole.acknowledged] == [OPEN]
    for at in points(whole.calls, sample=sample_size(10), seed=mode):
        folder = tmp_path / str(at)
        folder.mkdir()

        outcome = take_up(so, folder, mode, at)

        with Box(folder, clock=FakeClock()) as box:
            box.call("hook")
            assert list(box.home.spool.iterdir()) == [], outcome.call
            with box.service.timeline.database.reading() as db:
                declared = sight.session_windows(db, box.service.all_watched()[0].worktree.id, "s")
            assert {window.prompt for window in declared if window.kind is WindowKind.TURN} == {"p"}, outcome.call
            sealed = [item["late"] for item in box.call("log")["items"] if item["trigger"] == "prompt"]
            assert sealed == [True], outcome.call
            # the second daemon took it up, or what the first one had declared ended with it
            assert windows(box) in ([], [tuple(window) for window in OPEN], [("tool", "open")]), outcome.call
