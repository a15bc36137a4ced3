"""A kill or a refusal of the disk at each step of a backup, of an update of one, and of making a home of it: what was there is
there, or what was to be is there as a whole; doing it again finishes.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing

import pytest
from blake3 import blake3

from openoxide.daemon import offline
from tests.faults.backup_worker import contents
from tests.faults.lab import Lab, points, sample_size, shim
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ["kill", "torn", "enospc", "eio"]


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def lab_of(so, folder, scenario):
    folder.mkdir()
    (folder / "disk").mkdir()
    (folder / "there").mkdir()
    watched = folder / ("there" if scenario == "restore" else "disk")
    argv = [sys.executable, "-m", "tests.faults.backup_worker", str(folder), scenario]
    return Lab(so, [watched], folder, armed=False), argv


def swept(so, tmp_path, scenario, mode):
    """Each point of a sample: the folder of a run and how it ended."""
    lab, argv = lab_of(so, tmp_path / "count", scenario)
    total = lab.count(argv, mode=mode).calls
    assert total > 5
    for at in points(total, sample=sample_size(6), seed=mode):
        folder = tmp_path / str(at)
        lab, argv = lab_of(so, folder, scenario)
        outcome = lab.run(argv, mode=mode, at=at)
        assert outcome.status in (0, 9, -9), outcome
        if outcome.status == 9:
            assert outcome.stderr.startswith((b"store_full", b"failed", b"store_read_only")), outcome
        yield folder, outcome


def run_of(target):
    """The update that the list in ``target`` counts, after each of its files was found to be whole; 0 where there is none."""
    if not (target / "backup.json").exists():
        return 0
    made = json.loads((target / "backup.json").read_bytes())["backup"]
    for entry in made["files"]:
        fresh = target / f"{entry['name']}.{made['run']}.oxide-new"
        path = fresh if entry["fresh"] and fresh.exists() else target / entry["name"]
        data = path.read_bytes()[: entry["size"]]
        assert blake3(data).hexdigest() == entry["hash"], entry["name"]
    return made["run"]


def home_holds(home, upto, folder):
    """The home is whole and gives back its first ``upto`` checkpoints and the memory of then, and nothing after."""
    assert (home / "projects/k/memory/MEMORY.md").read_text() == f"memory {upto}\n"
    with closing(sqlite3.connect(home / "timeline.db")) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    with Box(home.parent, root=folder / "none") as box:
        root = str(folder / "project")
        listed = [item["number"] for item in box.call("log", path=root)["items"]]
        assert min(listed) == 1
        # the same tree went on: what a start finds there is one more
        assert set(range(1, upto + 1)) <= set(listed)
        for number in range(1, upto + 1):
            given = folder / f"given {home.parent.name} {number}"
            box.call("restore", path=root, checkpoint=str(number), to=str(given))
            assert {path.name: path.read_bytes() for path in given.iterdir()} == contents(number)
        assert box.call("check", path=root, read_data=True)["problems"] == []


def restored(target, place):
    place.mkdir()
    offline.restore_home({"source": str(target), "home": str(place / "home")}, lambda _: None)
    return place / "home"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("scenario", "before"), [("first", 0), ("update", 1)])
def test_a_backup_that_was_cut_off_is_the_one_before_or_the_new_one(scenario, before, mode, tmp_path, so):
    for folder, outcome in swept(so, tmp_path, scenario, mode):
        target = folder / "disk" / "backup"

        run = run_of(target)

        assert run in (before, before + 1), outcome
        assert run == before + 1 or not outcome.acknowledged, outcome
        if run:
            home_holds(restored(target, folder / "then"), run if scenario == "update" else 2, folder)
        if mode == "enospc" and run == before:
            assert not list((folder / "disk").rglob("*.oxide-new")), outcome
        with Box(folder) as box:
            box.call("backup", to=str(target))
        assert run_of(target) == run + 1
        assert not list(target.rglob("*.oxide-new"))
        assert not (target / "backup.unfinished").exists()
        home_holds(restored(target, folder / "now"), 2, folder)


@pytest.mark.parametrize("mode", MODES)
def test_a_home_that_was_cut_off_is_not_there_or_whole(mode, tmp_path, so):
    for folder, outcome in swept(so, tmp_path, "restore", mode):
        home = folder / "there" / "home"
        if not home.exists():
            assert not outcome.acknowledged, outcome
            if mode == "enospc":
                assert list(home.parent.iterdir()) == [], outcome
            request = {"source": str(folder / "disk" / "backup"), "home": str(home)}
            offline.restore_home(request, lambda _: None)
        assert [found.name for found in home.parent.iterdir()] == ["home"]
        home_holds(home, 2, folder)
