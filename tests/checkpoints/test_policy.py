"""What expires: cases as tables, and any store against a model that shares no code with the policy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints.limits import limits
from openoxide.checkpoints.model import Trigger
from openoxide.checkpoints.policy import (
    Candidate,
    Cause,
    Disk,
    Limit,
    Stretch,
    Tree,
    Why,
    needed_bytes,
    plan,
    thinned_at,
)
from openoxide.checkpoints.retention import Reason
from openoxide.settings import RetentionSettings, ThinSettings
from tests.checkpoints.policy_model import DAY, HOUR, Point, Rules, decide, used
from tests.kit import effort

NOW = 1_800_000_000_000 // DAY * DAY + 12 * HOUR
TREES = {1: Tree(project="p", retention=RetentionSettings())}


def candidate(number: int, age: int, **more: object) -> Candidate:
    values = {"trigger": Trigger.MANUAL, "worktree": 1, "expires_ms": NOW - age + 30 * DAY, **more}
    return Candidate(id=f"c{number}", number=number, seq=10 * number, counted_ms=NOW - age, **values)


NEWEST = candidate(99, 0)


@pytest.mark.parametrize(
    ("age", "more", "fate"),
    [
        (29 * DAY, {}, Why.PROMISED),
        (30 * DAY, {}, Cause.EXPIRED),
        (90 * DAY, {"pinned": True}, Reason.PINNED),
        (90 * DAY, {"expires_ms": None}, Why.NO_EXPIRY),
        (29 * DAY, {"expires_ms": NOW}, Cause.EXPIRED),
        (90 * DAY, {"expires_ms": NOW + 1}, Why.PROMISED),
        (90 * DAY, {"trigger": Trigger.PROMPT}, Reason.RECENT_TURN),
        (90 * DAY, {"named": True}, Cause.EXPIRED),
        (20 * DAY, {"trigger": Trigger.QUIET}, Why.PROMISED),
    ],
)
def test_the_time_of_one(age, more, fate):
    found = plan([candidate(1, age, **more), NEWEST], TREES, NOW)
    assert {**found.keep, **found.forget}["c1"] is fate
    assert found.release == {}


@pytest.mark.parametrize(("days", "goes"), [(6, False), (7, True)])
def test_trash_is_kept_for_its_grace(days, goes):
    found = plan([candidate(1, 90 * DAY, forgotten_ms=NOW - days * DAY), NEWEST], TREES, NOW)
    assert ("c1" in found.release, found.keep.get("c1")) == (goes, None if goes else Why.IN_TRASH)


def test_what_operations_need_stays():
    trees = {1: Tree(project="p", retention=RetentionSettings(), needed={"c1"})}
    assert plan([candidate(1, 90 * DAY), NEWEST], trees, NOW).keep["c1"] is Reason.UNDO


def test_memory_never_expires():
    trees = {1: Tree(project="p", retention=RetentionSettings(), kind="memory")}
    old = [candidate(n, 90 * DAY + n, trigger=Trigger.QUIET) for n in (1, 2)]
    assert set(plan([*old, NEWEST], trees, NOW).keep.values()) == {Why.MEMORY}


@pytest.mark.parametrize(
    ("ages", "days"),
    [
        ([30 * 60_000, 20 * 60_000, 10 * 60_000], [None, 1, 1]),
        ([90 * 60_000, 30 * 60_000], [None, 7]),
        ([26 * HOUR, HOUR], [None, None]),
    ],
)
def test_the_first_of_each_hour_and_of_each_day_stays(ages, days):
    held = [candidate(n, age, trigger=Trigger.QUIET) for n, age in enumerate(ages)]
    found = thinned_at(held, ThinSettings())
    assert [found.get(c.id) for c in held] == [
        None if day is None else c.counted_ms + day * DAY for c, day in zip(held, days, strict=True)
    ]


@pytest.mark.parametrize(
    "more",
    [{"trigger": t} for t in Trigger if t not in (Trigger.QUIET, Trigger.TOOL)]
    + [{"trigger": Trigger.QUIET, how: True} for how in ("named", "pinned", "spared")],
)
def test_what_somebody_wanted_is_not_thinned(more):
    held = [candidate(n, 20 * DAY, **more) for n in range(5)]
    assert thinned_at(held, ThinSettings()) == {}


def test_what_thinning_leaves_it_leaves_for_good():
    """The next run, an hour later and so on: who stands for his hour or day stays."""
    kept = {c.id: c for c in (candidate(n, n * 7 * 60_000, trigger=Trigger.QUIET) for n in range(200))}
    for hour in range(24 * 9):
        gone = plan([*kept.values(), NEWEST], TREES, NOW + hour * HOUR).forget
        kept = {id_: c for id_, c in kept.items() if id_ not in gone}
    days = [c.counted_ms // DAY for c in kept.values()]
    assert len(days) == len(set(days)) == 2


class TestLimits:
    def test_a_widest_quota_of_a_project_holds_and_none_is_none(self):
        trees = {
            1: Tree(project="a", retention=RetentionSettings(quota_bytes=5)),
            2: Tree(project="a", retention=RetentionSettings(quota_bytes=7)),
            3: Tree(project="b", retention=RetentionSettings(quota_bytes=5)),
            4: Tree(project="b", retention=RetentionSettings()),
        }
        assert limits(trees, 9, 0, Disk(100, 100)) == ([Limit(Cause.QUOTA, 7, "a"), Limit(Cause.TOTAL_QUOTA, 9)], [])

    @pytest.mark.parametrize(
        ("least", "free", "found", "refused"),
        [(0, 0, [], 0), (10, 10, [], 0), (10, 4, [Limit(Cause.MIN_FREE, 6)], 0), (100, 4, [], 1), (200, 4, [], 1)],
    )
    def test_more_than_the_disk_has_can_never_be_free(self, least, free, found, refused):
        told = limits({}, 0, least, Disk(100, free))
        assert (told[0], len(told[1])) == (found, refused)


def store(sizes, ages, *, limit, settings_=None, **more):
    """One content a checkpoint, the n-th of the n-th, needed by it alone; the newest needs the last."""
    held = [candidate(n, age, **more) for n, age in enumerate(ages, 1)]
    stretches = [Stretch(n, size, 1, 10 * n, 10 * n + 10) for n, size in enumerate(sizes, 1)]
    trees = {1: Tree(project="p", retention=settings_ or RetentionSettings())}
    return plan([*held, candidate(90, 0)], trees, NOW, [limit], [*stretches, Stretch(90, 5, 1, 890, None)])


class TestAQuota:
    @pytest.mark.parametrize(
        ("most", "gone"), [(45, []), (35, [1]), (34, [1, 2]), (15, [1, 2, 3]), (14, [1, 2, 3, 4]), (5, [1, 2, 3, 4])]
    )
    def test_the_oldest_go_until_it_is_held(self, most, gone):
        found = store([10] * 4, [9 * DAY, 8 * DAY, 7 * DAY, HOUR], limit=Limit(Cause.QUOTA, most, "p"))
        assert found.release == dict.fromkeys([f"c{n}" for n in gone], Cause.QUOTA)
        assert found.forget == {}

    def test_one_that_does_not_hold_the_newest_is_refused(self):
        found = store([10] * 4, [9 * DAY] * 4, limit=Limit(Cause.QUOTA, 4, "p"))
        assert (found.release, len(found.refused)) == ({}, 1)

    def test_the_quota_of_a_project_takes_nothing_of_another_that_shares_a_content(self):
        retention = RetentionSettings()
        trees = {1: Tree(project="p", retention=retention), 2: Tree(project="q", retention=retention)}
        held = [candidate(n, (9 - n) * DAY, worktree=1 + n % 2) for n in range(1, 5)]
        held += [candidate(98, 0, worktree=2), NEWEST]
        # the first of each has the same content
        stretches = [Stretch(c.number // 3, 10, c.worktree, c.seq, c.seq + 1) for c in held if c.number < 90]
        found = plan(held, trees, NOW, [Limit(Cause.QUOTA, 0, "p")], stretches)
        assert {c.worktree for c in held if c.id in found.release} == {1}

    def test_trash_goes_first_then_automatic_ones_of_the_last_day(self):
        held = [
            candidate(1, 2 * HOUR, trigger=Trigger.PROMPT),
            candidate(2, 3 * DAY),
            candidate(3, HOUR, trigger=Trigger.QUIET),
            candidate(4, 90 * DAY, forgotten_ms=NOW),
            candidate(5, 3 * HOUR),
            *(candidate(n, 30_000, trigger=Trigger.PROMPT) for n in (6, 7, 8)),
        ]
        stretches = [Stretch(c.number, 10, 1, c.seq, c.seq + 1) for c in held]
        trees = {1: Tree(project="p", retention=RetentionSettings(), fine=(45, NEWEST.seq))}
        order = []
        for most in (70, 60, 50, 40, 30):
            found = plan([*held, NEWEST], trees, NOW, [Limit(Cause.TOTAL_QUOTA, most)], stretches)
            order += [id_ for id_ in found.release if id_ not in order]
        assert order == ["c4", "c2", "c3", "c5", "c1"]
        # 3, 5 and 1 are of the last day: nothing of it is kept for the fine window any more
        assert found.fine == {1: NEWEST.seq}

    @pytest.mark.parametrize(
        ("most", "gone", "fine", "unheld"),
        [
            (45, set(), {}, 0),
            (35, {"c1"}, {}, 0),
            (25, {"c1"}, {1: 100}, 0),
            (15, {"c1", "c2"}, {1: 100}, 0),
            (14, {"c1", "c2"}, {1: 100}, 1),
        ],
    )
    def test_states_of_the_last_day_that_no_checkpoint_holds_go_before_its_checkpoints(self, most, gone, fine, unheld):
        held = [candidate(1, 2 * DAY), candidate(2, HOUR), candidate(10, 0)]
        trees = {1: Tree(project="p", retention=RetentionSettings(), fine=(15, 100), root="/src")}
        stretches = [
            Stretch(1, 10, 1, 10, 11),  # held by the first alone
            Stretch(2, 10, 1, 20, 21),  # by the second, and for the fine window
            Stretch(3, 10, 1, 30, 40),  # for the fine window alone
            Stretch(4, 10, 1, 95, 102),  # by the newest
            Stretch(5, 5, 1, 101, 110),  # the fine window is given up to the newest and not further
        ]
        found = plan(held, trees, NOW, [Limit(Cause.QUOTA, most, "p")], stretches)
        assert (set(found.release), dict(found.fine), len(found.unheld)) == (gone, fine, unheld)
        if unheld:
            (text,) = found.unheld
            assert text.startswith("quota_bytes of /src is 14 B, and with pins, ")
            assert text.endswith(
                "takes 15 B: `oxide-ctl -C /src config set --project retention.quota_bytes 1MiB` would do"
            )
        assert needed_bytes(held, trees, NOW, stretches) == {"p": 45, None: 45}

    def test_a_content_that_two_projects_need_is_gone_when_both_let_it_go(self):
        trees = {n: Tree(project=f"p{n}", retention=RetentionSettings()) for n in (1, 2)}
        held = [candidate(n, (9 - n) * DAY, worktree=n % 2 + 1) for n in range(1, 5)]
        newest = [candidate(90 + n, 0, worktree=n) for n in (1, 2)]
        shared = [Stretch(7, 50, c.worktree, c.seq, c.seq + 1) for c in held[:3]]
        found = plan([*held, *newest], trees, NOW, [Limit(Cause.TOTAL_QUOTA, 0)], shared)
        assert set(found.release) == {"c1", "c2", "c3"}

    def test_an_idle_project_does_not_pay_for_another(self):
        trees = {n: Tree(project=f"p{n}", retention=RetentionSettings()) for n in (1, 2)}
        idle = [candidate(n, 20 * DAY, worktree=2) for n in range(1, 5)]
        busy = [candidate(n, 2 * DAY) for n in range(5, 9)]
        stretches = [Stretch(1, 5, 2, 0, None), *(Stretch(c.number, 10, 1, c.seq, c.seq + 1) for c in busy)]
        found = plan(
            [*idle, candidate(97, 0, worktree=2), *busy, NEWEST], trees, NOW, [Limit(Cause.TOTAL_QUOTA, 25)], stretches
        )
        assert set(found.release) == {"c5", "c6"}

    def test_a_project_does_not_pay_with_what_another_goes_on_needing(self):
        trees = {n: Tree(project=f"p{n}", retention=RetentionSettings()) for n in (1, 2)}
        held = [candidate(1, 9 * DAY), candidate(2, 8 * DAY, worktree=2)]
        newest = [candidate(90 + n, 0, worktree=n) for n in (1, 2)]
        stretches = [Stretch(7, 50, 1, 10, 11), Stretch(7, 50, 2, 0, None), Stretch(8, 10, 2, 20, 21)]
        found = plan([*held, *newest], trees, NOW, [Limit(Cause.TOTAL_QUOTA, 55)], stretches)
        assert set(found.release) == {"c2"}


class TestMinFree:
    @pytest.mark.parametrize(("lacking", "gone"), [(1, [1]), (10, [1]), (11, [1, 2]), (40, [1, 2, 3, 4])])
    def test_as_many_go_as_it_lacks(self, lacking, gone):
        found = store([10] * 4, [9 * DAY] * 4, limit=Limit(Cause.MIN_FREE, lacking))
        assert set(found.release) == {f"c{n}" for n in gone}

    def test_what_cannot_be_reached_takes_nothing(self):
        found = store([10] * 4, [9 * DAY] * 4, limit=Limit(Cause.MIN_FREE, 41))
        assert (found.release, len(found.refused)) == ({}, 1)

    def test_what_a_prune_gives_back_anyway_counts(self):
        unneeded = Stretch(70, 30, 1, 1, 2)
        trees = {1: Tree(project="p", retention=RetentionSettings())}
        held = [candidate(1, 9 * DAY), NEWEST]
        assert plan(held, trees, NOW, [Limit(Cause.MIN_FREE, 30)], [unneeded, Stretch(1, 9, 1, 10, 11)]).release == {}


@st.composite
def stores(draw):
    """``(points, stretches, sizes, needed)``: up to three worktrees of two projects with their contents."""
    points, stretches, sizes = [], [], {}
    triggers = st.sampled_from(["quiet", "quiet", "tool", "prompt", "manual", "rewind"])
    content = 0
    for worktree in range(1, draw(st.integers(1, 3)) + 1):
        project = "a" if worktree < 3 else "b"
        ages = sorted(draw(st.lists(st.integers(0, 45 * 24 * 4), min_size=1, max_size=9)), reverse=True)
        mine = [
            Point(
                id=f"{worktree}.{number}", project=project, worktree=worktree, number=number, trigger=draw(triggers),
                counted=NOW - age * HOUR // 4,
                expires=draw(st.sampled_from([None, NOW - HOUR, NOW, NOW + DAY, NOW + 9 * DAY])),
                named=draw(st.integers(0, 5)) == 0, pinned=draw(st.integers(0, 7)) == 0, spared=draw(st.integers(0, 7)) == 0,
                trashed=draw(st.sampled_from([None, None, None, NOW - 8 * DAY, NOW - DAY])),
            )
            for number, age in enumerate(ages, 1)
        ]  # fmt: skip
        mine[-1].trashed = None
        points += mine
        for _ in range(draw(st.integers(0, 6))):
            begin = draw(st.integers(0, len(mine)))
            end = draw(st.none() | st.integers(begin, len(mine) + 1))
            content = draw(st.integers(1, content + 1))
            sizes[content] = sizes.get(content, draw(st.integers(1, 20)))
            stretches.append((content, worktree, begin, end))
    for content, worktree, begin, end in stretches:
        for point in points:
            if point.worktree == worktree and begin <= point.number and (end is None or point.number < end):
                point.holds |= {content}
    needed = draw(st.sets(st.sampled_from([p.id for p in points]), max_size=2))
    return points, stretches, sizes, needed


RULES = st.builds(
    Rules,
    all_days=st.integers(0, 3),
    hourly_days=st.integers(0, 9),
    trash_days=st.integers(0, 9),
    quotas=st.fixed_dictionaries({"a": st.integers(0, 60), "b": st.integers(0, 60)}),
    total=st.integers(0, 90),
)


def decided(points, stretches, sizes, needed, rules):
    found = [
        Candidate(
            id=p.id, worktree=p.worktree, number=p.number, seq=p.number, trigger=Trigger(p.trigger), counted_ms=p.counted,
            expires_ms=p.expires, named=p.named, pinned=p.pinned, spared=p.spared, forgotten_ms=p.trashed,
        )
        for p in points
    ]  # fmt: skip
    trees = {
        p.worktree: Tree(
            project=p.project,
            needed=needed,
            retention=RetentionSettings(
                trash_days=rules.trash_days,
                quota_bytes=rules.quotas[p.project],
                thin=ThinSettings(all_days=rules.all_days, hourly_days=rules.hourly_days),
            ),
        )
        for p in points
    }
    wanted, _ = limits(trees, rules.total, 0, Disk(1, 1))
    spans = [Stretch(content, sizes[content], worktree, begin, end) for content, worktree, begin, end in stretches]
    return plan(found, trees, NOW, wanted, spans)


@settings(max_examples=effort(400), deadline=None)
@given(stores(), RULES)
def test_the_policy_decides_as_the_model_does(drawn, rules):
    points, stretches, sizes, needed = drawn
    # contents that are needed for as long as their worktree is: of something that never goes
    lasting = {(worktree, content) for content, worktree, _, end in stretches if end is None}
    for worktree, content in lasting:
        newest = max((p for p in points if p.worktree == worktree), key=lambda p: p.number)
        newest.holds |= {content}

    found = decided(points, stretches, sizes, needed, rules)
    stay, trash, leave = decide(points, sizes, needed, NOW, rules)

    assert (set(found.keep), set(found.forget), set(found.release)) == (stay, trash, leave)
    if not found.refused and rules.total:
        going = {p.id for p in points if p.id in found.release}
        floor = {id_ for id_, why in found.keep.items() if isinstance(why, Reason)}
        least = used([p for p in points if p.id in floor], sizes, ())
        assert used(points, sizes, going) <= max(rules.total, least)
