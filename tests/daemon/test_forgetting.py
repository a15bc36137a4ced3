"""``unwatch`` and what stays: the history of a worktree that is not watched, and nothing of one that was forgotten."""

from __future__ import annotations

import os

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import NotFoundError, UsageError
from tests.kit import wait_until
from tests.kit.box import Box


def stored(box: Box) -> bytes:
    """Every byte in the content store's files."""
    return b"".join(path.read_bytes() for path in sorted(box.home.blobs.rglob("*")) if path.is_file())


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "secret").write_bytes(b"incompressible" + os.urandom(64))
        (box.root / "large").write_bytes(os.urandom(5 << 20))
        (box.root / "sub").mkdir()
        box.watch()
        yield box


def test_unwatch_acts_on_a_root_only(box):
    with pytest.raises(UsageError, match=str(box.root)):
        box.call("unwatch", path=str(box.root / "sub"), delete_history=True)
    assert box.call("log")["items"]


def test_the_history_of_a_worktree_that_is_not_watched_can_be_read_and_forgotten(box):
    content = (box.root / "secret").read_bytes()
    box.call("unwatch")

    assert box.call("cat", checkpoint="1", file=str(box.root / "secret")) == content
    assert box.call("log")["items"][0]["number"] == 1
    box.call("unwatch", delete_history=True)
    with pytest.raises(NotFoundError):
        box.call("log")


def test_a_stopped_worktree_in_a_watched_one_can_be_forgotten(box):
    inner = str(box.root / "sub")
    box.call("watch", path=inner)
    box.call("unwatch", path=inner)

    answer = box.call("unwatch", path=inner, delete_history=True)

    assert (answer["root"], answer["history_deleted"]) == (inner, True)
    assert [item["root"] for item in box.call("projects")["items"]] == [str(box.root)]
    with pytest.raises(UsageError, match="inside the worktree"):
        box.call("unwatch", path=inner, delete_history=True)


def test_watching_again_goes_on_with_the_history(box):
    box.call("unwatch")
    assert box.watch()["created"]
    assert box.checkpoint()["number"] > 1


def test_forgotten_content_leaves_the_store(box):
    secret, large = (box.root / "secret").read_bytes(), (box.root / "large").read_bytes()
    assert secret in stored(box)
    box.call("unwatch", delete_history=True)
    assert (large[:4096] in stored(box), secret in stored(box)) == (False, False)
    assert stored(box) == b""


def test_forgotten_content_in_a_file_that_others_share_is_told_of(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_bytes(b"of the other")
    box.call("watch", path=str(other))
    secret = (box.root / "secret").read_bytes()
    answer = box.call("unwatch", delete_history=True)
    assert secret in stored(box)
    assert len(secret) <= answer["remaining_bytes"] < 200
    assert box.call("unwatch", path=str(other), delete_history=True)["remaining_bytes"] == 0
    assert stored(box) == b""


def test_content_that_another_worktree_holds_too_stays(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("secret", "large"):
        (other / name).write_bytes((box.root / name).read_bytes())
    box.call("watch", path=str(other))
    box.call("unwatch", delete_history=True)
    box.stop()
    box.start()
    for name in ("secret", "large"):
        kept = box.call("cat", path=str(other), checkpoint="1", file=str(other / name))
        assert kept == (other / name).read_bytes()


def test_content_is_stored_again_after_it_was_forgotten(box):
    box.call("unwatch", delete_history=True)
    box.watch()
    assert box.call("cat", checkpoint="1", file=str(box.root / "large")) == (box.root / "large").read_bytes()


def test_what_was_claimed_is_forgotten_with_the_history(box):
    """Row numbers are given again: a claim that stays would be one on another's file."""
    for name in ("turn_begin", "tool_begin"):
        box.call(name, agent="agent", session="s", prompt="p", tool="edit")
    (box.root / "new").write_bytes(b"new")
    box.checkpoint()
    named = [{"path": "new", "hash": blob_hash(b"new").hex()}]
    box.call("tool_end", agent="agent", session="s", tool="edit", writes=named)
    box.call("unwatch", delete_history=True)
    with box.service.timeline.database.reading() as db:
        assert db.execute_sql("select * from claim").fetchall() == []


def test_a_first_capture_leaves_no_log_behind(box):
    """Its write-ahead log would stay as large as half the store."""
    wait_until(lambda: (box.home.folder / "timeline.db-wal").stat().st_size == 0, 10)
