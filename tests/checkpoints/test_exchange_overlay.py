"""The exchange on an overlay whose layers are different file systems: files have other device numbers than directories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints.bench import DIRECTORY, FIFO, LINK, NEW, OLD, Bench, inode, put
from tests.daemon.trouble import small_disk, with_own_mounts
from tests.kit import diff_trees

BEFORE = {b"d": DIRECTORY, b"d/changed": OLD, b"d/gone": OLD, b"d/link": LINK, b"d/pipe": FIFO, b"last": OLD}
WANTED = {**BEFORE, b"d/changed": NEW, b"d/link": ("link", b"elsewhere"), b"d/new": NEW, b"e": DIRECTORY, b"last": NEW}
del WANTED[b"d/gone"]


def may_overlay() -> bool:
    script = "mount -t tmpfs none /tmp && cd /tmp && mkdir a b c && mount -t overlay -o lowerdir=a,upperdir=b,workdir=c none b"
    options = "-m" if os.geteuid() == 0 else "-Urm"
    return (
        sys.platform == "linux" and not subprocess.run(["unshare", options, "sh", "-c", script], check=False).returncode
    )


pytestmark = pytest.mark.skipif(not may_overlay(), reason="no overlay can be mounted here")


def overlaid(folder: Path, burnt: int = 0) -> Bench:
    """A bench whose tree lies below, on another file system than what is changed in it."""
    below, above, merged = small_disk(folder / "below", "8m"), small_disk(folder / "above", "8m"), folder / "merged"
    for made in (below / "tree" / "d", above / "upper", above / "work", merged):
        made.mkdir(parents=True)
    for number in range(burnt):
        (below / str(number)).touch()
    for path, what in BEFORE.items():
        if what != DIRECTORY:
            put(below / "tree" / os.fsdecode(path), what)
    (below / "tree" / "d").chmod(0o750)
    options = f"lowerdir={below},upperdir={above / 'upper'},workdir={above / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "none", merged], check=True)
    return Bench(merged)


@with_own_mounts
def test_an_exchange_that_stopped_goes_on_or_back(tmp_path):
    for done in range(8):
        for onwards in (True, False):
            bench = overlaid(tmp_path / f"{done} {onwards}")
            steps = bench.stage_all(WANTED)
            assert len(steps) == 7
            assert bench.swap(steps[:done]) == {}
            assert (bench.swap if onwards else bench.unswap)(steps) == {}
            assert diff_trees(WANTED if onwards else BEFORE, bench.look()) == []
            bench.close()


@with_own_mounts
def test_a_file_below_with_the_number_of_the_staged_one_is_not_taken_for_it(tmp_path):
    bench = overlaid(tmp_path, burnt=100)
    target = bench.root / "last"
    spare = bench.root / "spare"
    while True:  # a tmpfs counts its inodes up
        spare.touch()
        if inode(spare) >= inode(target) - 1:
            break
        spare.unlink()
    spare.unlink()
    steps = bench.stage({b"last": NEW})
    assert steps[0].new_ino == inode(target)

    assert bench.swap(steps) == {}
    assert bench.look()[b"last"] == NEW
    assert bench.swap(steps) == {}
    assert bench.unswap(steps) == {}
    assert bench.look()[b"last"] == OLD
    bench.close()
