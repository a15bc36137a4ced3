"""A kill or a refusal of the disk at each step of a migration: a whole store of the old version or one of the new, and the
next start finishes.
"""

from __future__ import annotations

import shutil
import sys

import pytest

from openoxide.checkpoints.migrating import kept_stores
from openoxide.checkpoints.schema import open_timeline
from tests.checkpoints.old_homes import CHAIN, dump, unpack
from tests.faults.lab import Lab, points, sample_size, shim

pytestmark = pytest.mark.faults


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


@pytest.fixture(name="wanted", scope="module")
def _wanted(tmp_path_factory):
    """What the store holds in either version."""
    path = unpack(1, tmp_path_factory.mktemp("wanted")) / "timeline.db"
    old = dump(path)
    open_timeline(path, CHAIN).close()
    return {1: old, 3: dump(path)}


def lab_of(so, folder):
    path = unpack(1, folder / "home") / "timeline.db"
    argv = [sys.executable, "-m", "tests.faults.migrating_worker", str(path)]
    return Lab(so, [folder / "home"], folder, armed=False), argv, path


def held(path, folder):
    """The version of the store that stands there and what is in it, read from a copy: looking changes what is left."""
    shutil.copytree(path.parent, folder)
    found = dump(folder / path.name)
    return found[1][0], found


@pytest.mark.parametrize("mode", ["kill", "torn", "eio", "enospc", "sticky"])
def test_a_migration_that_was_cut_off_is_done_again(mode, tmp_path, so, wanted):
    (tmp_path / "count").mkdir()
    lab, argv, _ = lab_of(so, tmp_path / "count")
    total = lab.count(argv, mode=mode).calls
    assert total > 5
    for at in points(total, sample=sample_size(10), seed=mode):
        folder = tmp_path / str(at)
        folder.mkdir()
        lab, argv, path = lab_of(so, folder)

        outcome = lab.run(argv, mode=mode, at=at)

        version, found = held(path, folder / "looked at")
        assert found == wanted[version], (at, outcome)
        assert version == 3 or not outcome.acknowledged, (at, outcome)
        if outcome.status not in (0, -9):
            assert outcome.status == 9, (at, outcome)  # told, and no traceback
            assert outcome.stderr.startswith((b"store_full", b"failed", b"store_read_only")), (at, outcome)
        open_timeline(path, CHAIN).close()
        assert dump(path) == wanted[3], (at, outcome)
        assert [kept.name for kept in kept_stores(path)] == ["timeline.db.v1"], (at, outcome)
        assert not path.with_name("timeline.db.migrating").exists()
