"""A home that an earlier version left: a daemon takes it up, and a reader without one looks into it."""

from __future__ import annotations

import os

import pytest

from openoxide.checkpoints.migrating import KEPT_MS, kept_as, kept_stores
from openoxide.daemon import offline
from tests.checkpoints.old_homes import VERSIONS, contents, unpack
from tests.kit import FakeClock, tree_of
from tests.kit.box import Box

ROOT = "/src/app"  # is not there: its history can still be read


@pytest.fixture(name="box", params=VERSIONS)
def _box(request, tmp_path):
    unpack(request.param, tmp_path / "home")
    with Box(tmp_path) as box:
        yield box


def test_its_checkpoints_are_listed_and_copied_out(box, tmp_path):
    listed = box.call("log", path=ROOT)["items"]
    assert [item["number"] for item in listed] == [7, 6, 5, 4, 3, 2, 1]
    assert [item["name"] for item in listed[-3:]] == ["state 2", "state 1", "first"]
    assert box.call("check", path=ROOT, read_data=True)["problems"] == []

    for number in (1, 2, 3):
        box.call("restore", path=ROOT, checkpoint=str(number), to=str(tmp_path / str(number)))
        found = {path: (tmp_path / str(number) / os.fsdecode(path)).read_bytes() for path in contents(number)}
        assert found == contents(number)


@pytest.mark.parametrize(("later_ms", "left"), [(KEPT_MS // 2, 1), (2 * KEPT_MS, 0)])
def test_the_store_of_the_version_before_goes_after_a_week(tmp_path, later_ms, left):
    home = tmp_path / "home"
    unpack(1, home)
    timeline = home / "timeline.db"
    kept = kept_as(timeline, 0)
    kept.write_bytes(timeline.read_bytes())
    clock = FakeClock(now_ms=kept.stat().st_mtime_ns // 1_000_000 + later_ms)
    clock.kept = True
    with Box(tmp_path, clock=clock):
        assert kept_stores(timeline).count(kept) == left


def test_it_stays_where_the_clock_is_not_to_be_believed(tmp_path):
    home = tmp_path / "home"
    unpack(1, home)
    timeline = home / "timeline.db"
    kept = kept_as(timeline, 0)
    kept.write_bytes(timeline.read_bytes())
    with Box(tmp_path, clock=FakeClock(now_ms=kept.stat().st_mtime_ns // 1_000_000 + 2 * KEPT_MS)):
        assert kept in kept_stores(timeline)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "field", "count"),
    [("log", "items", 7), ("check", "problems", 0), ("status", "worktrees", 1), ("du", "worktrees", 1)],
)
def test_a_reader_without_a_daemon_changes_nothing(version, name, field, count, tmp_path):
    home = unpack(version, tmp_path / "home")
    before = tree_of(home)

    answer = offline.answer(name, {"path": ROOT}, {"OPENOXIDE_HOME": str(home)})

    assert answer["ok"] is True
    assert len(answer.get(field, ())) == count
    assert tree_of(home) == before
