"""Before an uninstall the daemon takes its folders out of the trees, and keeps what only the store can settle."""

from __future__ import annotations

import shutil

import pytest

from openoxide.errors import RefusedError
from tests.daemon.trouble import settled
from tests.kit.box import Box

STAGING = ".openoxide-staging"


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "a").write_text("one")
        box.watch()
        yield box


def leave(box, **options):
    return box.call("leave", **{"dry_run": False, "keep_history": False, **options})


def interrupted(box):
    (box.root / "a").write_text("two")
    box.rewind("1")
    settled(box.root)
    (box.root / STAGING / "x").mkdir(parents=True)
    with box.service.timeline.database.writing() as db:
        db.execute_sql("update operation set phase = 'interrupted'")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_folder_that_nobody_needs_goes(box, dry_run):
    (box.root / STAGING).mkdir()

    answer = leave(box, dry_run=dry_run)

    assert ([entry["path"] for entry in answer["removed"]], answer["left"]) == ([str(box.root / STAGING)], [])
    assert (box.root / STAGING).exists() is dry_run


def test_a_folder_with_something_that_is_not_ours_stays(box):
    (box.root / STAGING).mkdir()
    (box.root / STAGING / "theirs").write_text("x")

    answer = leave(box)

    assert (answer["removed"], [entry["reason"] for entry in answer["left"]]) == ([], ["busy"])
    assert (box.root / STAGING / "theirs").exists()


def test_a_tree_without_one_is_not_mentioned(box):
    assert leave(box) == {"ok": True, "removed": [], "left": []}


@pytest.mark.parametrize("paused", [False, True])
def test_an_interrupted_operation_keeps_the_history(box, paused):
    interrupted(box)
    if paused:
        box.call("pause")

    with pytest.raises(RefusedError) as caught:
        leave(box)

    assert "rewind --continue" in caught.value.hint
    assert (box.root / STAGING / "x").exists()


def test_with_the_history_kept_it_is_left_as_it_is(box):
    interrupted(box)

    (entry,) = leave(box, keep_history=True)["left"]

    assert (entry["path"], entry["reason"]) == (str(box.root / STAGING), "interrupted")


def test_an_interrupted_operation_in_a_tree_that_is_gone_is_in_nobodys_way(box):
    interrupted(box)
    shutil.rmtree(box.root)

    assert leave(box)["left"] == []


def test_a_tree_that_is_no_longer_watched_is_looked_at_but_not_touched(box):
    box.call("unwatch")
    (box.root / STAGING).mkdir()

    (entry,) = leave(box)["left"]

    assert (entry["reason"], (box.root / STAGING).exists()) == ("busy", True)
