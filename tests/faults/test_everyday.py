"""A fault at every mutating call of ``config set`` and of pin, name, forget and unforget: old or new, never half; and
of the deletion of a history, and of a damaged copy that is stored anew.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openoxide import config
from openoxide.errors import UsageError
from openoxide.paths import Home
from openoxide.taken import take_settings
from tests.faults.everyday_worker import FIRST, SECRET
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.kit import FakeClock
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "torn", "enospc", "eio", "sticky")
STEPS = ("pin", "name", "forget", "unforget")


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def run(so: Path, folder: Path, scenario: str, mode: str, at: int) -> Outcome:
    (folder / "home").mkdir(mode=0o700, parents=True)
    argv = [sys.executable, "-m", "tests.faults.everyday_worker", str(folder), scenario]
    outcome = Lab(so, [folder / "home"], folder, armed=False).run(argv, mode=mode, at=at)
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    return outcome


def broken_runs(so: Path, tmp_path: Path, scenario: str, mode: str, sample: int) -> Iterator[tuple[Path, Outcome]]:
    """Runs of ``scenario`` that went wrong, each at another point, with their folders."""
    total = run(so, tmp_path / "count", scenario, mode, 0).calls
    assert total > 5
    for at in points(total, sample=sample_size(sample), seed=mode):
        yield tmp_path / str(at), run(so, tmp_path / str(at), scenario, mode, at)


@pytest.mark.parametrize("mode", MODES)
def test_the_settings_are_the_old_or_the_new_ones(mode, tmp_path, so):
    for folder, outcome in broken_runs(so, tmp_path, "config", mode, 8):
        home = Home(folder / "home")
        text, said = home.config.read_text(), outcome.acknowledged
        days = ["10", "20", "30"]
        possible = [days[len(said)], *(days[len(said) + 1 :][:1])]
        assert text in [FIRST.replace("10", value) for value in possible]
        if outcome.status != -9 and mode != "sticky":  # there the removal of what was begun fails too
            assert [path.name for path in home.folder.iterdir()] == ["config.toml"]
        config.change(home, "retention.ttl_days", ["40"])
        assert home.config.read_text() == FIRST.replace("10", "40")
        assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
        assert [path.name for path in home.folder.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("mode", ["kill", "torn", "eio"])
def test_a_daemon_always_has_whole_settings_to_go_back_to(mode, tmp_path, so):
    texts = [FIRST, FIRST.replace("10", "20")]
    for folder, outcome in broken_runs(so, tmp_path, "taking", mode, 12):
        home = Home(folder / "home")
        started = len(outcome.acknowledged)
        kept = home.used_config.read_text() if home.used_config.exists() else None
        # what failed ended no start, and left the copy of before
        assert kept in (
            [None, *texts] if mode == "eio" else [*([None] if not started else []), *texts[max(0, started - 1) :]]
        )
        (folder / "mine").write_text("[wrong")
        assert take_settings(home).settings.retention.ttl_days == {None: 0, texts[0]: 10, texts[1]: 20}[kept]


@pytest.mark.parametrize("mode", ["kill", "torn", "eio"])
def test_what_was_typed_and_not_taken_over_is_never_lost(mode, tmp_path, so):
    for folder, outcome in broken_runs(so, tmp_path, "rejected", mode, 12):  # each of its few steps
        home = Home(folder / "home")
        rejected = [home.rejected_config.read_text()] if home.rejected_config.exists() else []
        typed = [said.removeprefix("typed ") for said in outcome.acknowledged if said.startswith("typed ")]
        copies = [copy.read_text() for copy in (folder / "temporary").glob("*/config.toml")]
        assert typed[-1] in [*rejected, *copies]
        assert rejected in ([], ["[first"], ["[second"])
        assert home.config.read_text() == FIRST
        with pytest.raises(UsageError):
            config.edit(home, lambda copy: copy.write_text("[third") and None)
        assert home.rejected_config.read_text() == "[third"
        assert stat.S_IMODE(home.rejected_config.stat().st_mode) == 0o600
        assert {path.name for path in home.folder.iterdir()} == {"config.toml", "config.toml.rejected"}


def state(box: Box) -> tuple[object, ...]:
    items = {item["number"]: item for item in box.call("log", all=True)["items"]}
    return items[1]["pinned"], items[2]["name"], *(items[number]["forgotten_at"] is not None for number in (1, 2, 3))


AFTER = [
    (False, None, False, False, False),
    (True, None, False, False, False),
    (True, "second", False, False, False),
    (True, "second", False, True, True),
    (True, "second", False, True, False),
]


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_is_marked_as_it_was_promised_or_not_yet(mode, tmp_path, so):
    for folder, outcome in broken_runs(so, tmp_path, "keeping", mode, 4):
        done = len(outcome.acknowledged)
        assert outcome.acknowledged == [*STEPS[:done]]
        with Box(folder, clock=FakeClock()) as box:
            assert state(box) in AFTER[done : done + 2]
            box.checkpoint()


@pytest.mark.parametrize("mode", MODES)
def test_a_deleted_history_is_gone_and_what_comes_next_is_whole(mode, tmp_path, so):
    for folder, outcome in broken_runs(so, tmp_path, "deleting", mode, 8):
        assert outcome.acknowledged == ["deleted", "begun again"][: len(outcome.acknowledged)]
        with Box(folder, clock=FakeClock()) as box:
            if not outcome.acknowledged:  # not promised: it is all there or gone
                if box.call("projects")["items"]:
                    log = box.call("log", all=True)["items"]
                    kept = [box.call("cat", checkpoint=item["id"], file="secret") for item in log if not item["failed"]]
                    assert kept in ([], [SECRET])
                continue
            box.watch()
            assert box.call("cat", checkpoint=box.checkpoint()["id"], file="b") == b"two\n"
            assert SECRET not in b"".join(pack.read_bytes() for pack in box.home.blobs.glob("*.pack"))


@pytest.mark.parametrize("mode", MODES)
def test_a_file_whose_copy_was_damaged_is_in_its_place_or_stored(mode, tmp_path, so):
    assert run(so, tmp_path / "whole", "mending", mode, 0).acknowledged == ["rewound"]
    for folder, outcome in broken_runs(so, tmp_path, "mending", mode, 8):
        with Box(folder, clock=FakeClock()) as box:
            if any(item["phase"] == "interrupted" for item in box.call("operations")["items"]):
                box.call("settle", action="abort")
            now = (box.root / "f").read_bytes()
            assert now in ([b"first"] if outcome.acknowledged else [SECRET, b"first"])
            if now == b"first":
                assert box.call("cat", checkpoint="2", file="f") == SECRET
