"""A kill or a refusal of the disk at each call that taints, notes, accepts and rejects: what was acknowledged holds, and
nothing that a session brought is vouched for by anybody but the user.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openoxide.checkpoints import vouching
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.faults.vouch_worker import MINE, SESSION, THEIRS
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, mode: str, at: int) -> Outcome:
    folder.mkdir()
    argv = [sys.executable, "-m", "tests.faults.vouch_worker", str(folder)]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


def judge(box: Box, acknowledged: list[str]) -> None:
    with box.service.timeline.database.reading() as db:
        tainted = vouching.is_tainted(db, ("claude", SESSION))
    assert tainted or "tainted" not in acknowledged
    found = {item["name"]: item for item in box.call("memory_topics")["items"]}
    texts = {name: box.call("memory_read", name=name)["text"] for name in found}
    mine = found["mine.md"]["standing"]
    assert texts["mine.md"] in (MINE, MINE + "more of theirs\n")
    assert mine == ("verified" if texts["mine.md"] == MINE else "unverified")
    if "rejected" in acknowledged:
        assert texts["mine.md"] == MINE
    if "saved" in acknowledged:
        assert texts["theirs.md"] == THEIRS
    if "theirs.md" in found:
        theirs = found["theirs.md"]
        assert theirs["standing"] == "unverified" or texts["theirs.md"] == THEIRS
        # one that a kill kept from being recorded is nobody's, and not the user's
        assert theirs["tainted"] == "WebFetch" or "saved" not in acknowledged
    if "accepted" in acknowledged:
        assert found["theirs.md"]["standing"] == "verified"
    elif "theirs.md" in found and "edited" not in acknowledged:
        assert found["theirs.md"]["standing"] == "unverified"


@pytest.mark.parametrize("mode", ["kill", "killafter", "torn", "enospc", "eio"])
def test_what_was_said_of_notes_is_durable_and_nothing_else_is_vouched_for(mode, tmp_path, so):
    whole = run(so, tmp_path / "count", mode, 0)
    assert whole.acknowledged == ["tainted", "saved", "edited", "accepted", "rejected"]
    assert whole.calls > 20
    for at in points(whole.calls, sample=sample_size(4), seed=1):
        outcome = run(so, tmp_path / str(at), mode, at)

        with Box(tmp_path / str(at), clock=FakeClock()) as box:
            judge(box, outcome.acknowledged)
