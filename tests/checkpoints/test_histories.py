"""Short histories that the state machine found, each with what should come of it."""

from __future__ import annotations

import os
import shutil

import pytest

from openoxide.checkpoints.model import STAGING_NAME
from openoxide.checkpoints.timeline import CHUNK_PATHS
from openoxide.daemon.changes import Gap
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box

SESSION = {"agent": "agent", "session": "s", "prompt": "p"}


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path) as box:
        yield box


def look(box):
    return tree_of(box.root, skip={STAGING_NAME})


class TestHardLinks:
    """The kernel tells of the name that was used, the other names of the file are ours to find."""

    def test_a_change_through_one_name_is_recorded_for_the_other(self, box):
        (box.root / "a").write_text("one")
        os.link(box.root / "a", box.root / "b")
        box.watch()
        (box.root / "b").write_text("two")
        box.checkpoint()
        assert box.call("cat", checkpoint="last", file="a") == b"two"

    def test_a_change_through_a_name_that_is_new_is_recorded_for_the_old_one(self, box):
        (box.root / "a").write_text("one")
        box.watch()
        os.link(box.root / "a", box.root / "b")
        (box.root / "b").write_text("two")
        assert box.checkpoint()["complete"]
        assert box.call("cat", checkpoint="last", file="a") == b"two"

    def test_a_change_through_a_name_in_a_new_folder_is_recorded_for_the_old_one(self, box):
        (box.root / "a").write_text("one")
        box.watch()
        aside = box.root.parent / "aside"
        aside.mkdir()
        os.link(box.root / "a", aside / "b")
        (aside / "b").write_text("two")
        aside.rename(box.root / "folder")
        assert box.checkpoint()["complete"]
        assert box.call("cat", checkpoint="last", file="a") == b"two"

    def test_in_a_full_pass_too_a_session_has_changed_both_names(self, box):
        (box.root / "a").write_text("one")
        os.link(box.root / "a", box.root / "b")
        box.watch()
        before = look(box)
        begun = box.call("turn_begin", **SESSION)["checkpoint"]["number"]
        (box.root / "b").write_text("two")
        box.rewind("1", scope="all", dry_run=True)
        box.rewind(str(begun), scope="session")
        assert not diff_trees(before, look(box))


def test_what_a_session_writes_during_a_full_pass_is_its_own(box):
    """The pass comes round by the clock, also in the middle of a turn."""
    for folder in ("a", "z"):
        (box.root / folder).mkdir()
    box.watch()
    box.call("turn_begin", **SESSION)
    for number in range(CHUNK_PATHS + 10):
        (box.root / "z" / str(number)).touch()
    new = box.root / "a" / "new"
    (watched,) = box.service.all_watched()
    watched.full_pass(None, progress=lambda *_: new.exists() or new.touch())
    unknown = [item["path"] for item in box.call("diff", a="last")["items"] if item["certainty"] == "unknown"]
    assert unknown == []


class TestPathsBelowALink:
    """A name means a place in the tree of the checkpoint, where the link of today was a directory."""

    @pytest.fixture
    def replaced(self, box):
        for folder in ("a", "b"):
            (box.root / folder).mkdir()
            (box.root / folder / "f").write_text(f"of {folder}")
        box.watch()
        shutil.rmtree(box.root / "b")
        return box

    def test_a_past_file_is_shown_that_lies_below_what_is_a_link_now(self, replaced):
        (replaced.root / "b").symlink_to("a")
        assert replaced.call("cat", checkpoint="1", file="b/f") == b"of b"

    def test_also_if_the_link_leads_out_of_the_tree(self, replaced):
        (replaced.root / "b").symlink_to("/")
        assert replaced.call("cat", checkpoint="1", file="b/f") == b"of b"

    def test_a_rewind_touches_what_was_named_and_not_what_is_behind_the_link(self, replaced):
        (replaced.root / "a" / "f").write_text("to be kept")
        (replaced.root / "b").symlink_to("a")
        replaced.rewind("1", scope="all", paths=["b", "b/f"])
        assert (replaced.root / "b" / "f").read_text() == "of b"
        assert (replaced.root / "a" / "f").read_text() == "to be kept"

    @pytest.mark.parametrize("target", ["a", "/", "..", "nowhere"])
    def test_below_a_link_of_today_nothing_is_brought_back(self, replaced, target):
        """The parent was not named, so it stays a link, and what it leads to is left alone."""
        (replaced.root / "b").symlink_to(target)
        answer = replaced.rewind("1", scope="all", paths=["b/f"])
        assert [(item["path"], item["reason"]) for item in answer["conflicts"]] == [("b/f", "parent_not_directory")]
        assert any("rewind that path first" in note for note in answer["notes"])
        assert (replaced.root / "a" / "f").read_text() == "of a"
        assert os.readlink(replaced.root / "b") == target


def test_a_link_to_the_root_is_a_path_like_any_other(box):
    (box.root / "f").write_text("old")
    box.watch()
    (box.root / "f").write_text("to be kept")
    (box.root / "here").symlink_to(".")
    box.rewind("1", exact=True, paths=["here"])
    assert not os.path.lexists(box.root / "here")
    assert (box.root / "f").read_text() == "to be kept"


def test_our_own_staging_folder_is_never_an_answer(box):
    """Whether it is there depends on how far the sweep of the last operation is."""
    box.watch()
    (box.root / STAGING_NAME.decode()).mkdir()
    assert box.rewind("1", scope="all", dry_run=True)["skipped"] == []


class TickingClock(FakeClock):
    """Time passes between any two questions."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


def test_a_full_pass_closes_the_gap_that_it_was_made_for(tmp_path):
    with Box(tmp_path, clock=TickingClock()) as box:
        box.watch()
        (watched,) = box.service.all_watched()
        watched.watch.give_back({}, [Gap(cause="root_returned")])
        box.rewind("1", scope="all", dry_run=True)
        assert box.call("status")["worktrees"][0]["gaps"] == []
