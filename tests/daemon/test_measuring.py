"""``du`` against the files themselves."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from tests.kit import FakeClock
from tests.kit.box import Box

DAY_MS = 86_400_000
KIB = 1 << 10


@pytest.fixture
def box(tmp_path):
    """Two watched worktrees with one file in common; every content is incompressible, so it takes what it is."""
    with Box(tmp_path, clock=FakeClock()) as box:
        (box.root / "own").write_bytes(os.urandom(40 * KIB))
        (box.root / "common").write_bytes(os.urandom(20 * KIB))
        (box.root / "empty").touch()
        box.watch()
        other = tmp_path / "other"
        other.mkdir()
        (other / "common").write_bytes((box.root / "common").read_bytes())
        box.call("watch", path=str(other))
        yield box


def stored_files(box):
    return sum(path.stat().st_size for path in box.home.blobs.rglob("*.pack"))


def test_each_worktree_has_its_share(box):
    own, other = box.call("du")["worktrees"]

    assert (own["root"], own["files"], own["checkpoints"], own["watching"]) == (str(box.root), 3, 1, True)
    assert own["logical_bytes"] == own["history_bytes"] == own["stored_bytes"] == 60 * KIB
    assert own["unique_bytes"] == 40 * KIB
    assert (other["stored_bytes"], other["unique_bytes"]) == (20 * KIB, 0)


def test_the_history_is_more_than_the_tree(box):
    (box.root / "own").write_bytes(os.urandom(10 * KIB))
    box.checkpoint()

    own, _ = box.call("du")["worktrees"]

    assert (own["logical_bytes"], own["history_bytes"]) == (30 * KIB, 70 * KIB)
    assert 70 * KIB < stored_files(box) < 71 * KIB


def test_what_compresses_is_counted_as_it_lies_there(box):
    (box.root / "text").write_bytes(b"all the same\n" * 10_000)
    box.checkpoint()

    own, _ = box.call("du")["worktrees"]

    assert own["history_bytes"] == 60 * KIB + 130_000
    assert own["stored_bytes"] <= stored_files(box) < 62 * KIB


def test_growth_is_by_the_day_of_the_first_recording(box):
    day = datetime.fromtimestamp(box.clock.now_ms() / 1000, UTC).date().isoformat()
    box.clock.advance(2 * DAY_MS)
    later = datetime.fromtimestamp(box.clock.now_ms() / 1000, UTC).date().isoformat()
    content = (box.root / "common").read_bytes()
    (box.root / "copy").write_bytes(content)
    (box.root / "new").write_bytes(os.urandom(5 * KIB))
    box.checkpoint()

    growth = box.call("du")["worktrees"][0]["growth"]

    assert growth == [
        {"day": day, "contents": 3, "stored_bytes": 60 * KIB},
        {"day": later, "contents": 1, "stored_bytes": 5 * KIB},
    ]


def test_the_largest_paths_come_first_with_all_their_contents(box):
    for _ in range(3):
        (box.root / "common").write_bytes(os.urandom(15 * KIB))
        box.checkpoint()
    (box.root / "common").unlink()
    box.checkpoint()

    first, second, _ = box.call("du")["worktrees"][0]["largest"]

    assert first == {"path": "common", "contents": 4, "stored_bytes": 65 * KIB}
    assert (second["path"], second["stored_bytes"]) == ("own", 40 * KIB)


def test_the_parts_are_the_whole_home(box):
    (box.home.folder / "config.toml").write_text("[capture]\n")
    (box.home.folder / "logs").mkdir()
    (box.home.folder / "logs" / "oxided.log").write_text("started\n")

    answer = box.call("du")

    sizes = {part["name"]: part["size_bytes"] for part in answer["parts"]}
    assert sizes["contents"] == sum(p.stat().st_blocks * 512 for p in box.home.blobs.rglob("*") if p.is_file())
    assert sizes["settings"] == (box.home.folder / "config.toml").stat().st_blocks * 512
    assert {part["name"]: part["files"] for part in answer["parts"] if part["name"] in ("settings", "logs")} == {
        "settings": 1,
        "logs": 1,
    }
    assert answer["total_bytes"] == sum(sizes.values())


def free(box):
    return box.call("du")["freeable_bytes"]


class TestFreeable:
    @pytest.fixture
    def history(self, box):
        """Checkpoints 2 and 3 that hold states which nothing else holds, and 4; two days later."""
        for number in (2, 3):
            (box.root / "own").write_bytes(os.urandom(number * KIB))
            assert box.checkpoint()["number"] == number
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.clock.advance(2 * DAY_MS)
        return box

    def test_nothing_that_a_checkpoint_holds(self, history):
        assert free(history) == 0

    def test_what_only_forgotten_checkpoints_hold(self, history):
        history.call("forget", checkpoints=["2"])
        assert free(history) == 2 * KIB
        history.call("forget", checkpoints=["3"])
        assert free(history) == 5 * KIB
        history.call("unforget", checkpoints=["2"])
        assert free(history) == 3 * KIB

    def test_nothing_of_the_last_day(self, box):
        (box.root / "own").write_bytes(os.urandom(2 * KIB))
        box.checkpoint()
        (box.root / "own").write_bytes(b"now")
        box.checkpoint()
        box.call("forget", checkpoints=["2"])
        assert free(box) == 0

    def test_nothing_that_another_worktree_or_path_still_has(self, history, tmp_path):
        content = history.call("cat", checkpoint="2", file=str(history.root / "own"))
        (tmp_path / "other" / "copy").write_bytes(content)
        history.call("checkpoint", path=str(tmp_path / "other"))
        history.call("forget", checkpoints=["2", "3"])
        assert free(history) == 3 * KIB

    def test_nothing_that_an_operation_began_from(self, history):
        history.rewind("2", exact=True)
        history.checkpoint()
        history.clock.advance(2 * DAY_MS)
        history.call("forget", checkpoints=["3", "4"])
        assert free(history) == 3 * KIB
        history.call("undo")
        assert (history.root / "own").read_bytes() == b"now"
