"""A year of work stays within its quota with every promise kept."""

from __future__ import annotations

import pytest

from openoxide.settings import RetentionSettings, ThinSettings
from tests.checkpoints.year import Life

DAY_HOURS = 24


def live(folder, seed, days, retention, every=1):
    life = Life(folder, seed, retention)
    for hour in range(days * DAY_HOURS):
        life.hour(expire=hour % every == 0)
    life.set_clock(0)
    for _ in range(2 * DAY_HOURS):
        life.hour(faults=False)
    life.database.close()
    return life


@pytest.mark.parametrize("seed", [1, 2])
def test_weeks_of_work_keep_every_promise_and_stay_small(tmp_path, seed):
    short = RetentionSettings(ttl_days=5, trash_days=2, thin=ThinSettings(all_days=1, hourly_days=2))
    life = live(tmp_path, seed, 16, short, every=4)
    assert {"expired", "thinned", "trash_days"} <= life.causes.keys()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(3, 6))
def test_a_year_of_work_keeps_every_promise_and_stays_small(tmp_path, seed):
    life = live(tmp_path, seed, 365, RetentionSettings())
    assert {"expired", "thinned", "trash_days", "quota"} <= life.causes.keys()
    assert life.runs > 2_000
    assert life.prunes > 1_400
