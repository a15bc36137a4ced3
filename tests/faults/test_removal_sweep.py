"""A kill or a refusal of the disk at each step of a removal: the history is whole or gone, doing it again finishes, and
what is not ours is never touched.
"""

from __future__ import annotations

import sys

import pytest

from openoxide.paths import Home
from openoxide.removal import remove
from tests.faults.box_worker import make_first
from tests.faults.lab import Lab, points, sample_size, shim
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box

pytestmark = pytest.mark.faults

FOREIGN = ["blobs", "blobs/notes.txt", "notes.txt"]


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory):
    return shim(tmp_path_factory.getbasetemp())


def lab_of(so, folder):
    for name in ("project", "home"):
        (folder / name).mkdir(parents=True, mode=0o700)
    return Lab(so, [folder / "home"], folder, armed=False), [
        sys.executable,
        "-m",
        "tests.faults.removal_worker",
        str(folder),
    ]


def is_whole(folder) -> None:
    """The history that is still there gives back what it held."""
    with Box(folder) as box:
        box.call("restore", checkpoint="1", to=str(folder / "given"), paths=["gone", "edited.txt", "link"])
    make_first(folder / "expected")
    wanted = {
        path: what
        for path, what in tree_of(folder / "expected").items()
        if path.startswith((b"gone", b"edited", b"link"))
    }
    assert not diff_trees(tree_of(folder / "given"), wanted)


@pytest.mark.parametrize("mode", ["kill", "eio"])
def test_a_removal_that_was_cut_off_can_be_finished(mode, tmp_path, so):
    lab, argv = lab_of(so, tmp_path / "count")
    total = lab.count(argv, mode=mode).calls
    assert total > 5
    for at in points(total, sample=sample_size(8), seed=mode):
        folder = tmp_path / str(at)
        lab, argv = lab_of(so, folder)
        outcome = lab.run(argv, mode=mode, at=at)
        home = Home(folder / "home")
        if home.timeline_db.exists():
            assert outcome.acknowledged == []
            is_whole(folder)

        done = remove(home, keep_history=False)

        assert set(done.left.values()) <= {"not_ours"}
        assert sorted(str(path.relative_to(home.folder)) for path in home.folder.rglob("*")) == FOREIGN
        assert (home.folder / "notes.txt").read_bytes() == b"not ours\n"
