"""When thinning takes checkpoints: read by days it is what all of them together say, and a page costs what a page costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import store
from openoxide.checkpoints.clockmark import count_from
from openoxide.checkpoints.model import Checkpoint, Trigger
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.schema import open_timeline
from openoxide.checkpoints.thinning import next_thinning, thins_at
from openoxide.settings import ThinSettings
from tests.checkpoints.policy_model import DAY, HOUR, Point, Rules, thinned
from tests.kit import effort

BEGAN = 1_700_000_000_000 // DAY * DAY
THIN = ThinSettings(all_days=1, hourly_days=7)


def sealed(number, ms, trigger="quiet", worktree=1, **more):
    return Checkpoint(
        id=f"{worktree}-{number}", worktree=worktree, number=number, seq=number, created_at_ms=ms,
        trigger=Trigger(trigger), manifest_hash=b"", **more,
    )  # fmt: skip


def filled(folder, checkpoints):
    database = open_timeline(folder / "timeline.db")
    with database.writing() as db:
        for checkpoint in checkpoints:
            store.insert_checkpoint(db, checkpoint)
    return database


def model(points):
    """The first moment at which each is thinned, looked for at every moment that can be one."""
    found = {}
    for point in points:
        for days in (THIN.all_days, THIN.hourly_days):
            if thinned(point, points, point.counted + days * DAY, Rules()):
                found[point.id] = point.counted + days * DAY
                break
    return found


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4 * 24 * 4),  # quarters of an hour
            st.sampled_from(["quiet", "tool", "prompt", "manual"]),
            st.sampled_from(["", "", "", "", "pinned", "named", "spared", "trash", "failed"]),
        ),
        max_size=14,
    )
)
@settings(max_examples=effort(60), deadline=None)
def test_days_read_one_by_one_say_what_all_of_them_say(tmp_path_factory, drawn):
    checkpoints, points, spared = [], [], []
    for number, (quarter, trigger, mark) in enumerate(drawn, 1):
        ms = BEGAN + quarter * HOUR // 4
        more = {
            "pinned": {"pinned": True},
            "named": {"name": f"n{number}"},
            "trash": {"forgotten_at_ms": 1},
            "failed": {"failed": "why"},
        }.get(mark, {})
        one = sealed(number, ms, trigger, **more)
        checkpoints.append(one)
        spared += [one.id] if mark == "spared" else []
        if mark not in ("trash", "failed"):
            points.append(
                Point(one.id, "p", 1, number, trigger, ms, named=mark == "named", pinned=mark == "pinned",
                      spared=mark == "spared")
            )  # fmt: skip
    database = filled(tmp_path_factory.mktemp("store"), [*checkpoints, sealed(1, BEGAN, worktree=2)])
    expected = model(points)
    if points:
        expected.pop(points[-1].id, None)  # the newest never goes
    with database.writing() as db:
        count_from(db, spared, BEGAN + 9 * DAY)
    with database.reading() as db:
        assert thins_at(db, 1, THIN, [c.created_at_ms for c in checkpoints]) == expected
        for one in checkpoints:
            assert thins_at(db, 1, THIN, [one.created_at_ms]).get(one.id) == expected.get(one.id)
        assert next_thinning(db, 1, THIN) == min(expected.values(), default=None)
    database.close()


def steps(database, ask):
    """How many times a thousand steps of SQLite's machine ``ask`` takes."""
    taken = []
    with database.reading() as db:
        raw(db).set_progress_handler(lambda: taken.append(1), 100)
        ask(db)
        raw(db).set_progress_handler(None, 0)
    return len(taken)


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: thins_at(db, 1, THIN, [c.created_at_ms for c in store.CheckpointQuery(db, 1).listing(limit=20)]),
        lambda db: next_thinning(db, 1, THIN),
    ],
    ids=["a page", "status"],
)
def test_what_it_costs_does_not_grow_with_the_store(tmp_path, ask):
    taken = []
    for days in (20, 200):
        (folder := tmp_path / str(days)).mkdir()
        database = filled(folder, [sealed(number, BEGAN + number * DAY // 24) for number in range(1, days * 24 + 1)])
        taken.append(steps(database, ask))
        database.close()
    assert taken[1] <= taken[0] + 2, taken
