"""What a prune keeps of the last day: not what a limit took out of it, and no more because a clock was wrong."""

from __future__ import annotations

import pytest

from openoxide.checkpoints.clockmark import count_from
from openoxide.checkpoints.needed import read_needs
from openoxide.checkpoints.rows import raw
from openoxide.settings import RetentionSettings
from tests.checkpoints.test_thinning import filled, sealed
from tests.checkpoints.year import BUSY, DAY, GB, HOUR, QUOTA, Life

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("counted", "fine"),
    [((2,), 3), ((), 1), ((1, 2), 3), ((1, 2, 3), 0)],
    ids=["known", "unknown", "others too", "nothing else is old"],
)
def test_what_a_clock_that_was_ahead_sealed_does_not_make_all_after_it_young(tmp_path, counted, fine):
    # the second one was sealed three days ago, by a clock that was three days ahead
    ages = [5 * DAY, HOUR, 2 * DAY, HOUR]
    database = filled(tmp_path, [sealed(number, NOW - age) for number, age in enumerate(ages, 1)])
    with database.writing() as db:
        count_from(db, [f"1-{number}" for number in counted], NOW - 3 * DAY)
    with database.reading() as db:
        assert read_needs(db, 1, NOW).fine_seq == fine
    database.close()


def test_what_a_limit_takes_out_of_the_last_day_is_gone_after_the_next_prune(tmp_path):
    life = Life(tmp_path, 1, RetentionSettings())
    burst = [life.edit(BUSY, QUOTA // 4) for _ in range(5)]
    life.seal(BUSY, "quiet")
    for path in burst:
        life.remove(BUSY, path)
    life.seal(BUSY, "quiet")
    life.pass_time(HOUR)
    life.expire()
    assert life.causes["quota"] > 0
    life.prune()
    with life.database.reading() as db:
        (stored,) = raw(db).execute("select sum(stored) from frame").fetchone()
    assert stored < GB
    life.database.close()
