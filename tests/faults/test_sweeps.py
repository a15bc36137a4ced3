"""A fault at every mutating call of capture, seal, rewind, undo, recovery and settling.

Judged from outside: every acknowledged checkpoint gives back its bytes, the tree is old or new or an interrupted
operation that can be settled either way, and the store works on afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from openoxide.checkpoints.hashing import manifest_sum, sum_to_bytes
from openoxide.checkpoints.model import ABSENT
from openoxide.errors import NotFoundError
from tests.faults import box_worker
from tests.faults.lab import Lab, Outcome, points, sample_size, shim
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box

pytestmark = pytest.mark.faults

MODES = ("kill", "torn", "enospc", "eio", "sticky")
SCENARIOS = ("first", "seal", "rewind", "undo", "merge")
STAGING = b".openoxide-staging"
SAMPLE = 6
LATER = 40  # calls of a settling that a second fault is put at
Tree = dict[bytes, tuple[object, ...]]


@dataclass(frozen=True)
class Site:
    """One run's folder."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "project"

    def argv(self, scenario: str, *, late: bool = False) -> list[str]:
        return [
            sys.executable,
            "-m",
            "tests.faults.box_worker",
            str(self.folder),
            scenario,
            *(["late"] if late else []),
        ]

    def tree(self) -> dict[bytes, tuple[object, ...]]:
        return tree_of(self.root, skip={STAGING})


def new_site(tmp_path: Path, name: object) -> Site:
    site = Site(tmp_path / str(name))
    site.root.mkdir(parents=True)
    (site.folder / "home").mkdir(mode=0o700)
    return site


@dataclass(frozen=True)
class Trees:
    """The trees as they must be, made without the product: before the operation, after it, and at each checkpoint."""

    old: Tree
    new: Tree
    sealed: dict[str, Tree]


@pytest.fixture(name="trees_of", scope="module")
def _trees_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trees]:
    root, merged = tmp_path_factory.mktemp("trees"), tmp_path_factory.mktemp("merged")
    box_worker.make_first(root)
    first = tree_of(root)
    box_worker.make_second(root)
    second = tree_of(root)
    box_worker.make_users(root)
    users = tree_of(root)
    box_worker.make_merged(merged)
    plain = Trees(old=first, new=second, sealed={"1": first, "2": second})
    merging = Trees(old=tree_of(merged), new=users, sealed={"1": first})
    return lambda scenario: merging if scenario == "merge" else plain


@pytest.fixture(name="so", scope="module")
def _so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.getbasetemp())


def lab_for(so: Path, site: Site) -> Lab:
    return Lab(so, [site.root, site.folder / "home"], site.folder, armed=False)


def judge(site: Site, trees: Trees, acked: list[str], choice: str) -> str:
    """What state the run left; AssertionError if it lost anything."""
    box = Box(site.folder, clock=FakeClock(boot_ms=9_000_000))
    try:
        before = site.tree()
        box.watch()
        interrupted = [w for w in box.call("status")["worktrees"] if w["interrupted"]]
        if interrupted:
            box.call("settle", action=choice)
        else:
            with pytest.raises(NotFoundError):
                box.call("settle", action=choice)
        now = site.tree()
        if choice == "abort" or not interrupted:
            assert before == now or interrupted
        which = [name for name in ("old", "new") if not diff_trees(now, getattr(trees, name))]
        assert which, (diff_trees(now, trees.new), diff_trees(now, trees.old))
        before_rewinds = {
            o["pre_rewind_checkpoint"]: trees.new for o in box.call("operations")["items"] if o["kind"] == "rewind"
        }
        sealed = {number: tree for number, tree in trees.sealed.items() if number in acked}
        for name, tree in (sealed | before_rewinds).items():
            given = site.folder / f"given-{name}"
            box.call("restore", checkpoint=name, to=str(given), paths=[])
            assert not diff_trees(tree_of(given), tree)
        works_on(box, site)
        return which[0]
    finally:
        box.stop()


def works_on(box: Box, site: Site) -> None:
    """The store takes another change and gives it back, and its sums agree with its rows."""
    before = site.tree()
    taken = box.checkpoint()
    (site.root / "later.txt").write_bytes(b"later")
    box.checkpoint()
    box.rewind(taken["number"], exact=True)
    assert not diff_trees(site.tree(), before)
    newest = box.call("log", limit=1)["items"][0]
    states = box.service.timeline.states(1, newest["seq"])
    total = manifest_sum(0, [(path, ABSENT, state) for path, state in states.items()])
    assert newest["manifest_hash"] == sum_to_bytes(total).hex()


def answered(outcome: Outcome) -> None:
    """A run ends well, by the fault's signal, or with one of our errors: never with a traceback."""
    assert outcome.status in (0, 9, -9), outcome.stderr.decode()
    assert b"Traceback" not in outcome.stderr or outcome.status == 0, outcome.stderr.decode()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_fault_loses_an_acknowledged_checkpoint_or_a_byte(scenario, mode, tmp_path, trees_of, so):
    counting = new_site(tmp_path, "count")
    total = lab_for(so, counting).count(counting.argv(scenario), mode=mode).calls
    assert total > 5
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        site = new_site(tmp_path, at)
        outcome = lab_for(so, site).run(site.argv(scenario), mode=mode, at=at)
        answered(outcome)
        acked = outcome.acknowledged
        state = judge(site, trees_of(scenario), acked, "continue" if at % 2 else "abort")
        if scenario == "first" or {"rewound", "merged"} & {*acked}:
            assert state == "old"
        if scenario == "seal" or "undone" in acked:
            assert state == "new"


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_in_a_claim_leaves_it_whole_or_to_be_made_again(mode, tmp_path, trees_of, so):
    counting = new_site(tmp_path, "count")
    total = lab_for(so, counting).count(counting.argv("claim"), mode=mode).calls
    assert total > 5
    for at in points(total, sample=sample_size(SAMPLE), seed=mode):
        site = new_site(tmp_path, at)
        outcome = lab_for(so, site).run(site.argv("claim"), mode=mode, at=at)
        answered(outcome)
        with Box(site.folder, clock=FakeClock(boot_ms=9_000_000)) as box:
            said = certainty_of(box, "edited.txt")
            assert said == "sure" or (said == "likely" and "named" not in outcome.acknowledged)
            with suppress(NotFoundError):  # it had ended
                box_worker.name_edits(box)
            assert certainty_of(box, "edited.txt") == "sure"
        assert judge(site, trees_of("claim"), outcome.acknowledged, "abort") == "new"


def certainty_of(box: Box, name: str) -> str:
    (said,) = [item["certainty"] for item in box.call("diff", a="1")["items"] if item["path"] == name]
    return str(said)


@pytest.mark.parametrize("scenario", ["recover", "continue", "abort"])
@pytest.mark.parametrize("mode", ["kill", "enospc", "eio"])
@pytest.mark.parametrize("operation", ["rewind", "merge"])
def test_a_fault_while_settling_can_be_settled_again(operation, scenario, mode, tmp_path, trees_of, so):
    """Every first kill with two of the later faults, in turn, so that each of these comes after many a first: the whole
    product of both would take days.
    """
    late = scenario != "recover"
    counting = new_site(tmp_path, operation)
    total = lab_for(so, counting).count(counting.argv(operation), mode="kill").calls
    for killed_at in points(total, sample=sample_size(3), seed=mode)[1:]:
        for again in (1 + killed_at % LATER, 1 + (killed_at + LATER // 2) % LATER):
            site = new_site(tmp_path, f"{killed_at}-{again}")
            first = lab_for(so, site).run(site.argv(operation), mode="kill", at=killed_at)
            second = lab_for(so, site).run(site.argv(scenario, late=late), mode=mode, at=again)
            answered(second)
            judge(site, trees_of(operation), first.acknowledged, "continue" if again % 2 else "abort")
