"""Whether a limit is measured: not where what was needed once, and all that came since, is within it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openoxide.checkpoints import expiry
from openoxide.checkpoints.gauge import Gauge
from openoxide.settings import RetentionSettings
from tests.checkpoints.year import BUSY, CALM, DAY, GB, Life


@pytest.fixture
def life(tmp_path):
    life = Life(tmp_path, 1, RetentionSettings())
    yield life
    life.database.close()


def survey(life, gauge, **limits):
    retention = replace(life.retention, **{"quota_bytes": 0, "total_quota_bytes": 0, **limits})
    return expiry.survey(life.database, life.folder, retention, lambda _: retention, life.clock.now_ms(), gauge)


def dead(life, worktree, size):
    """Something is stored that no checkpoint needs: as in the hours between a limit and a prune."""
    life.remove(worktree, life.edit(worktree, size))
    life.seal(worktree, "quiet")
    life.clock.advance(DAY + 1)  # within a day every state is needed


def needed(life, gauge=None, **limits):
    """What is measured at a limit that all the dead makes doubtful."""
    dead(life, BUSY, 100 * GB)
    return survey(life, gauge or Gauge(), **(limits or {"total_quota_bytes": 50 * GB}))[1]


def test_what_was_measured_is_what_the_model_says(life):
    found = needed(life).needed
    assert found[None] == life.used() > 0
    assert [found[f"p{worktree}"] for worktree in life.trees] == [life.used(worktree) for worktree in life.trees]


def test_nothing_is_measured_where_no_limit_is_near(life):
    gauge = Gauge()
    assert survey(life, gauge, total_quota_bytes=50 * GB)[1] is gauge


@pytest.mark.parametrize("limit", ["quota_bytes", "total_quota_bytes"])
def test_it_is_measured_again_when_as_much_came_as_a_limit_has_left(life, limit):
    gauge = needed(life, **{limit: 50 * GB})
    assert survey(life, gauge, **{limit: 50 * GB})[1] is gauge
    life.edit(CALM, 20 * GB)
    life.seal(CALM, "quiet")
    assert survey(life, gauge, **{limit: 50 * GB})[1] is gauge
    life.edit(CALM, 40 * GB)
    life.seal(CALM, "quiet")
    assert survey(life, gauge, **{limit: 50 * GB})[1] is not gauge


def test_what_comes_to_one_project_leaves_the_limit_of_another_alone(life):
    gauge = needed(life, quota_bytes=50 * GB)
    life.edit(CALM, 40 * GB)
    assert survey(life, gauge, quota_bytes=50 * GB)[1] is gauge
    assert survey(life, gauge, total_quota_bytes=30 * GB)[1] is not gauge


def test_an_old_content_that_comes_back_counts(life):
    path = life.edit(BUSY, 40 * GB)
    content = life.trees[BUSY].files[path]
    life.remove(BUSY, path)
    gauge = needed(life, total_quota_bytes=30 * GB)
    assert survey(life, gauge, total_quota_bytes=30 * GB)[1] is gauge
    with life.database.writing() as db:
        life._row(db, BUSY, path, content)
    assert survey(life, gauge, total_quota_bytes=30 * GB)[1] is not gauge


@pytest.mark.parametrize(("after", "is_measured"), [(DAY - 1, False), (DAY, True), (-1, True)])
def test_once_a_day_it_is_measured_whatever_came(life, after, is_measured):
    gauge = needed(life)
    life.clock.wall += after
    assert (survey(life, gauge, total_quota_bytes=50 * GB)[1] is not gauge) is is_measured


def test_a_limit_that_is_exceeded_is_measured_each_time(life):
    life.edit(BUSY, 40 * GB)
    life.seal(BUSY, "manual")
    decided, gauge = survey(life, Gauge(), total_quota_bytes=30 * GB)
    assert decided.refused
    again, measured = survey(life, gauge, total_quota_bytes=30 * GB)
    assert measured is not gauge
    assert again.refused == decided.refused
