"""Whose the changes are that a full pass finds, while one session has a turn open."""

from __future__ import annotations

import os

import pytest

from openoxide.checkpoints.timeline import CHUNK_PATHS
from openoxide.daemon.changes import Gap
from tests.kit.box import Box


@pytest.fixture(name="box")
def _box(tmp_path):
    """A file with a name outside the tree, one with two names inside, and a turn that is open."""
    with Box(tmp_path) as box:
        for folder in ("a", "Z"):
            (box.root / folder).mkdir()
        (box.root / "a" / "shared").write_text("old")
        os.link(box.root / "a" / "shared", tmp_path / "outside")
        (box.root / "a" / "one").write_text("old")
        os.link(box.root / "a" / "one", box.root / "a" / "two")
        box.watch()
        box.call("turn_begin", agent="agent", session="s", prompt="p")
        yield box


@pytest.fixture(name="watched")
def _watched(box):
    (watched,) = box.service.all_watched()
    return watched


def certainties(box):
    """By path, what is said of the changes below ``a``."""
    items = box.call("diff", a="last")["items"]
    return {item["path"]: item["certainty"] for item in items if item["path"].startswith("a/")}


def pass_with(box, watched, act):
    """A full pass that ``act`` comes into, after the barrier and before ``a`` is looked at: ``Z`` comes before it."""
    for number in range(CHUNK_PATHS + 10):
        (box.root / "Z" / str(number)).touch()
    acted = []
    watched.full_pass(None, progress=lambda *_: acted or acted.append(act()))
    assert acted


def add(box):
    (box.root / "a" / "new").write_text("new")


def remove(box):
    (box.root / "a" / "shared").unlink()


def write_through_one_name(box):
    (box.root / "a" / "one").write_text("new")


def write_through_a_name_that_is_gone(box):
    (box.root / "a" / "one").write_text("new")
    (box.root / "a" / "one").unlink()


def write_through_a_new_name(box):
    os.link(box.root / "a" / "shared", box.root / "Z" / "new name")
    (box.root / "Z" / "new name").write_text("new")


def write_through_a_name_in_a_new_folder(box):
    """Made elsewhere, so that no event can name what is in it."""
    aside = box.root.parent / "aside"
    (aside / "deep").mkdir(parents=True)
    os.link(box.root / "a" / "shared", aside / "deep" / "name")
    (aside / "deep" / "name").write_text("new")
    aside.rename(box.root / "new")


def replace_a_folder(box):
    (box.root / "aside").mkdir()
    (box.root / "aside" / "new").write_text("new")
    (box.root / "a").rename(box.root / "b")
    (box.root / "aside").rename(box.root / "a")


ACTS = [
    pytest.param(add, {"a/new"}, id="a new file"),
    pytest.param(remove, {"a/shared"}, id="a removal"),
    pytest.param(write_through_one_name, {"a/one", "a/two"}, id="a write through one of two names"),
    pytest.param(write_through_a_name_that_is_gone, {"a/one", "a/two"}, id="the name of a write is gone"),
    pytest.param(write_through_a_new_name, {"a/shared"}, id="a write through a new name"),
    pytest.param(write_through_a_name_in_a_new_folder, {"a/shared"}, id="a write through a name in a new folder"),
    pytest.param(replace_a_folder, {"a/new", "a/one", "a/two", "a/shared"}, id="a folder in the place of another"),
]


@pytest.mark.parametrize(("act", "paths"), ACTS)
def test_what_is_told_of_before_a_pass_is_likely_the_sessions(box, watched, act, paths):
    act(box)
    watched.full_pass(None)
    assert certainties(box) == dict.fromkeys(paths, "likely")


@pytest.mark.parametrize(("act", "paths"), ACTS)
def test_what_is_told_of_during_a_pass_is_likely_the_sessions(box, watched, act, paths):
    pass_with(box, watched, lambda: act(box))
    assert certainties(box) == dict.fromkeys(paths, "likely")


@pytest.mark.parametrize("during", [False, True])
def test_what_no_event_told_of_is_nobodys(box, watched, tmp_path, during):
    """Somebody may have written it before the turn began."""

    def act():
        (tmp_path / "outside").write_text("by somebody")
        write_through_one_name(box)

    if during:
        pass_with(box, watched, act)
    else:
        act()
        watched.full_pass(None)
    assert certainties(box) == {"a/shared": "unknown", "a/one": "likely", "a/two": "likely"}


def test_what_is_told_of_during_the_pass_that_closes_a_gap_is_nobodys(box, watched):
    """It may have changed in the gap as well, and that was not the session's."""
    watched.watch.give_back({}, [Gap(cause="overflow")])
    pass_with(box, watched, lambda: add(box))
    assert certainties(box) == {"a/new": "unknown"}


def test_what_is_told_of_after_the_pass_has_looked_is_still_dirty(box, watched, tmp_path):
    for number in range(CHUNK_PATHS + 10):
        (box.root / "a" / f"more {number}").touch()
    (tmp_path / "outside").write_text("not told of: the pass listens when it comes to it")
    late = box.root / "Z" / "late"
    watched.full_pass(None, progress=lambda *_: late.exists() or late.write_text("late"))
    assert certainties(box)["a/shared"] == "unknown"
    assert box.call("cat", checkpoint=box.checkpoint()["id"], file="Z/late") == b"late"
