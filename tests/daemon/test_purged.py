"""What meets a purged version says so and leaves that path alone; whoever asks, and in whatever way."""

from __future__ import annotations

from pathlib import Path

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import NotFoundError
from tests.daemon.test_purging import problems
from tests.kit import FakeClock
from tests.kit.box import Box

ONE, TWO, THREE = b"one: marker\nshared line\n", b"two: marker\nshared line\n", b"three\nshared line\n"


@pytest.fixture(name="box")
def _box(tmp_path):
    """``file`` is ONE at 1, TWO at 2 (purged) and THREE at 3 and now; ``other`` changes along, and stays."""
    with Box(tmp_path, clock=FakeClock()) as box:
        for number, content in enumerate((ONE, TWO, THREE), 1):
            (box.root / "file").write_bytes(content)
            (box.root / "other").write_bytes(b"other %d\n" % number)
            box.watch() if number == 1 else box.checkpoint()
        yield box


def purge(box: Box, content: bytes) -> None:
    assert box.call("purge", blobs=[blob_hash(content).hex()])["finished"]


def reasons(answer, group: str) -> dict[str, str]:
    return {item["path"]: item.get("reason", "") for item in answer[group]}


@pytest.mark.parametrize(
    "options", [{}, {"exact": True}, {"scope": "all", "conflict": "overwrite"}, {"paths": ["file", "other"]}]
)
def test_a_rewind_leaves_it_and_brings_the_others_back(box, options):
    purge(box, TWO)
    plan = box.rewind("2", dry_run=True, **options)
    answer = box.rewind("2", **options)
    assert reasons(plan, "skipped") == reasons(answer, "skipped") == {"file": "purged"}
    assert reasons(answer, "restored") == {"other": ""}
    assert ((box.root / "file").read_bytes(), (box.root / "other").read_bytes()) == (THREE, b"other 2\n")
    assert problems(box) == []


def test_a_rewind_to_where_it_is_gone_today(box):
    (box.root / "file").unlink()
    box.checkpoint()
    purge(box, THREE)
    answer = box.rewind("3", exact=True)
    assert reasons(answer, "skipped") == {"file": "purged, and it is gone"}
    assert not (box.root / "file").exists()
    assert box.rewind("2")["restored"]
    assert (box.root / "file").read_bytes() == TWO


def test_undo_and_redo_leave_it(box):
    box.rewind("2")  # THREE became TWO
    box.rewind("1")
    purge(box, TWO)
    answer = box.call("undo")
    assert reasons(answer, "skipped") == {"file": "purged"}
    assert ((box.root / "file").read_bytes(), (box.root / "other").read_bytes()) == (ONE, b"other 2\n")
    redone = box.call("redo")
    assert (redone["conflicts"], (box.root / "other").read_bytes()) == ([], b"other 1\n")
    box.call("undo", count=2)
    assert (box.root / "other").read_bytes() == b"other 3\n"
    assert problems(box) == []


@pytest.mark.parametrize("conflict", ["keep", "merge", "overwrite"])
def test_a_session_that_made_it(box, conflict):
    box.call("turn_begin", agent="a", session="s", prompt="p")
    (box.root / "file").write_bytes(TWO + b"by the agent\n")
    box.call("turn_end", agent="a", session="s", prompt="p")
    (box.root / "file").write_bytes(TWO + b"by the agent\nand by hand\n")
    box.checkpoint()
    purge(box, TWO + b"by the agent\n")
    answer = box.rewind("turn:p", scope="session", conflict=conflict)
    assert [*reasons(answer, "conflicts"), *reasons(answer, "restored"), *reasons(answer, "skipped")] == ["file"]
    assert (box.root / "file").read_bytes() in (THREE, TWO + b"by the agent\nand by hand\n")
    assert problems(box) == []


def test_a_session_whose_start_is_purged(box):
    box.call("turn_begin", agent="a", session="s", prompt="p")
    (box.root / "file").write_bytes(b"by the agent\n")
    box.call("turn_end", agent="a", session="s", prompt="p")
    purge(box, THREE)
    answer = box.rewind("turn:p", scope="session")
    assert reasons(answer, "skipped") == {"file": "purged"}
    assert (box.root / "file").read_bytes() == b"by the agent\n"


def test_looking_back(box, tmp_path):
    purge(box, TWO)
    with pytest.raises(NotFoundError, match="purged"):
        box.call("cat", checkpoint="2", file="file")
    with pytest.raises(NotFoundError, match="purged"):
        box.call("restore", checkpoint="2", to=str(tmp_path / "alone"), paths=["file"])
    copied = box.call("restore", checkpoint="2", to=str(tmp_path / "copy"))
    assert (reasons(copied, "skipped"), (tmp_path / "copy" / "other").read_bytes()) == (
        {"file": "purged"},
        b"other 2\n",
    )
    assert {"path": "file", "reason": "purged"} in box.call("show", checkpoint="2")["skipped_paths"]
    assert [item.get("reason") for item in box.call("history", file="file")["items"]] == [None, "purged", None]
    for patch in (False, True):
        away, back = (box.call("diff", a=a, b=b, patch=patch)["items"][0] for a, b in (("1", "2"), ("2", "3")))
        assert [(item["status"], item["reason"]) for item in (away, back)] == [("D", "purged"), ("A", "purged")]
        assert not patch or (away["patch"], back["patch"]) == ("", "")
    assert box.call("diff", a="1", b="3", patch=True)["items"][0]["status"] == "M"


def test_a_search_does_not_take_it_for_the_end_of_a_text(box):
    assert [item["versions"] for item in box.call("history", search="shared line")["items"]] == [3]
    purge(box, TWO)
    (item,) = box.call("history", search="shared line")["items"]
    assert (item["versions"], item["vanished"]) == (2, None)
    assert box.call("history", search="marker")["items"][0]["vanished"]["checkpoint"]["number"] == 3


def test_what_is_recorded_afterwards_is_a_version_like_any_other(box):
    purge(box, TWO)
    (box.root / "file").write_bytes(TWO)
    number = box.checkpoint()["number"]
    assert box.call("cat", checkpoint=str(number), file="file") == TWO
    assert box.rewind("3")["restored"]
    box.call("undo")
    assert (box.root / "file").read_bytes() == TWO
    assert problems(box) == []


def test_a_folder_in_the_place_of_a_purged_file(box, tmp_path):
    (box.root / "file").unlink()
    (box.root / "file").mkdir()
    (box.root / "file" / "inner").write_bytes(b"inner\n")
    box.checkpoint()
    purge(box, THREE)
    answer = box.rewind("3", exact=True)
    assert set(reasons(answer, "skipped")) >= {"file"}
    assert (box.root / "file" / "inner").read_bytes() == b"inner\n"
    assert problems(box) == []


def test_the_file_of_a_database_is_left_with_its_log(box, tmp_path: Path):
    for number in range(2):
        (box.root / "data").write_bytes(b"SQLite format 3\0" + b"%d" % number * 100)
        (box.root / "data-wal").write_bytes(b"log %d" % number)
        box.checkpoint()
    purge(box, b"SQLite format 3\0" + b"0" * 100)
    answer = box.rewind("4")
    assert (box.root / "data-wal").read_bytes() == b"log 1"
    assert reasons(answer, "skipped") == {"data": "purged"}
    assert reasons(answer, "conflicts") == {"data-wal": "database"}
