"""An operation from its plan to its end, stopped after each of its steps, and settled in each way."""

from __future__ import annotations

import os
import shutil

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applier, apply_together
from openoxide.checkpoints.exchange import Exchange
from openoxide.checkpoints.journal import Operation, OperationKind, OutcomeKind, Phase
from openoxide.checkpoints.model import STAGING_NAME, Trigger
from openoxide.checkpoints.rewind import Request, plan_rewind
from openoxide.checkpoints.staging import open_operation_folder, open_staging
from openoxide.checkpoints.steps import steps_of
from openoxide.checkpoints.store import CheckpointQuery
from openoxide.daemon.watched import Label
from openoxide.errors import FailedError, InterruptedOperationError, NotFoundError
from tests.checkpoints.bench import put
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box
from tests.kit.limits import file_size_limit

T = 1_600_000_000_000_000_000
THEN = {
    b"changed": ("file", 0o644, T, b"then"),
    b"gone": ("dir", 0o750),
    b"gone/f": ("file", 0o600, T, b"then"),
    b"kind": ("link", b"then"),
    b"mode": ("dir", 0o700),
}
NOW = {
    b"changed": ("file", 0o755, T + 1, b"now, and longer"),
    b"kind": ("dir", 0o755),
    b"mode": ("dir", 0o755),
    b"new": ("dir", 0o755),
    b"new/f": ("file", 0o644, T + 1, b"new"),
}
STEPS = 9
HOURS_MS = 3_600_000


class Crash:
    """A service that got as far as a number of steps into an exact rewind, and is no more."""

    def __init__(self, folder) -> None:
        self.clock = FakeClock()
        self.box = Box(folder, clock=self.clock)
        self.show(THEN)
        self.box.watch()
        self.show(NOW)

    def show(self, tree) -> None:
        root = self.box.root
        for entry in root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for path, what in tree.items():
            put(root / os.fsdecode(path), what)
            if what[0] == "dir":
                (root / os.fsdecode(path)).chmod(what[1])

    def look(self):
        return tree_of(self.box.root, skip={STAGING_NAME})

    def begin(self):
        """The pre-rewind checkpoint, the plan and the row, as the service makes them."""
        (watched,) = self.box.service.all_watched()
        before = watched.seal(Label(trigger=Trigger.REWIND))
        timeline = self.box.service.timeline
        with timeline.database.reading() as db, watched.open_tree() as tree:
            request = Request(target_seq=CheckpointQuery(db, 1).by_number(1).seq, now_seq=before.seq, exact=True)
            plan = plan_rewind(db, tree, 1, request, timeline.blobs.read)
        with timeline.database.writing() as db:
            operation = Operation(
                id=0,
                public_id="zzzz",
                worktree=1,
                kind=OperationKind.REWIND,
                phase=Phase.PREPARED,
                at_ms=self.clock.now_ms(),
                boot_id=self.clock.boot_id(),
                boot_ms=self.clock.boot_ms(),
                scope="all",
                exact=True,
                before=CheckpointQuery(db, 1).row_id(before.id),
            )
            return watched, plan, journal.begin(db, operation)

    def after(self, steps: int) -> None:
        """The power goes after so many steps of the exchange."""
        watched, plan, operation = self.begin()
        timeline = self.box.service.timeline
        with watched.open_tree() as tree:
            staged, _ = Applier(timeline, tree)._stage(operation, steps_of(plan))
            assert len(staged) == STEPS
            with timeline.database.writing() as db:
                journal.commit_steps(db, operation.id, staged)
            staging = open_staging(tree)
            folder = open_operation_folder(staging, operation.staging_name)
            Exchange(tree, folder).swap(staged[:steps])
            os.close(folder)
            os.close(staging)
        self.box.stop()

    def start(self, after_ms: int) -> None:
        self.clock.advance(after_ms)
        self.box.start()
        self.box.watch()

    @property
    def phases(self) -> list[str]:
        return [item["phase"] for item in self.box.call("operations")["items"]]


@pytest.fixture
def crash(tmp_path):
    crash = Crash(tmp_path)
    yield crash
    crash.box.stop()


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_fresh_one_is_finished_at_the_start(crash, steps):
    crash.after(steps)
    crash.start(after_ms=1000)
    assert not diff_trees(THEN, crash.look())
    assert crash.phases == ["done"]
    changes = crash.box.call("diff", a="2")["items"]
    assert {item["writer"] for item in changes} == {"operation"}, "nobody else is taken for the writer"
    crash.box.call("undo")
    assert not diff_trees(NOW, crash.look())


@pytest.mark.parametrize("steps", range(STEPS + 1))
@pytest.mark.parametrize(("action", "tree", "phase"), [("continue", THEN, "done"), ("abort", NOW, "aborted")])
def test_an_old_one_is_left_for_the_user(crash, steps, action, tree, phase):
    crash.after(steps)
    crash.start(after_ms=HOURS_MS)
    assert crash.phases == ["interrupted"]
    with pytest.raises(InterruptedOperationError):
        crash.box.rewind("1")
    crash.box.call("settle", action=action)
    assert not diff_trees(tree, crash.look())
    assert crash.phases == [phase]
    with pytest.raises(NotFoundError):
        crash.box.call("settle", action=action)


def test_one_of_an_earlier_boot_is_left_for_the_user(crash):
    crash.after(3)
    crash.clock.boot = "boot-2"
    crash.start(after_ms=1000)
    assert crash.phases == ["interrupted"]


def test_one_that_had_not_begun_is_given_up(crash):
    crash.begin()
    crash.box.stop()
    crash.start(after_ms=1000)
    assert crash.phases == ["undone"]
    assert not diff_trees(NOW, crash.look())
    assert not (crash.box.root / os.fsdecode(STAGING_NAME)).exists()


def test_what_the_user_did_after_the_crash_is_a_conflict_and_stays(crash):
    crash.after(STEPS)
    (crash.box.root / "changed").write_text("the user's")
    crash.start(after_ms=HOURS_MS)
    answer = crash.box.call("settle", action="abort")
    assert [(entry["path"], entry["reason"]) for entry in answer["conflicts"]] == [("changed", "changing")]
    assert (crash.box.root / "changed").read_text() == "the user's"


@pytest.mark.parametrize(("action", "phase"), [("continue", "done"), ("abort", "aborted")])
def test_without_its_staging_folder_an_old_one_leaves_every_path_as_it_is(crash, action, phase):
    crash.after(3)
    shutil.rmtree(crash.box.root / os.fsdecode(STAGING_NAME))
    crash.start(after_ms=HOURS_MS)
    before = crash.look()
    answer = crash.box.call("settle", action=action)
    assert {entry["reason"] for entry in answer["conflicts"]} == {"staging_gone"}
    assert crash.phases == [phase]
    assert not diff_trees(before, crash.look())
    crash.box.rewind("1", exact=True)
    assert not diff_trees(THEN, crash.look())


def test_a_disk_that_takes_no_more_ends_it_before_anything_is_touched(crash):
    (crash.box.root / "new" / "f").write_bytes(os.urandom(3 << 20))
    crash.box.checkpoint()
    (crash.box.root / "new" / "f").unlink()
    crash.box.checkpoint()
    before = crash.look()
    with file_size_limit(5 << 19), pytest.raises(FailedError, match="the staging folder"):
        crash.box.rewind("2", exact=True)
    assert not diff_trees(before, crash.look())
    assert crash.phases == ["undone"]
    crash.box.rewind("2", exact=True)


def test_what_was_written_late_is_stored_before_staging_is_emptied(crash):
    """A process that had the file open for reading gets it open for writing after the exchange, by /proc/self/fd."""
    watched, plan, operation = crash.begin()
    timeline = crash.box.service.timeline
    with watched.open_tree() as tree:
        applier = Applier(timeline, tree)
        applied = apply_together(applier._timeline, [(applier, operation, plan)])[0]
        (step,) = [step for step in applied.steps if step.path == b"changed"]
        (crash.box.root / os.fsdecode(STAGING_NAME) / "zzzz" / step.staged_name).write_bytes(b"late")
        with timeline.database.writing() as db:
            journal.finish(db, operation.id, Phase.DONE, None, "", [])
        applier.sweep(operation)
        applier.tidy()
    with timeline.database.reading() as db:
        late = [o for o in journal.outcomes(db, operation.id) if o.kind is OutcomeKind.LATE]
        assert journal.steps(db, operation.id) == ()
    assert [(o.path, timeline.blobs.read(o.blob)) for o in late] == [(b"changed", b"late")]
    (listed,) = crash.box.call("operations")["items"][0]["late"]
    assert (listed["path"], listed["reason"]) == ("changed", "written while it was displaced")
    assert crash.box.call("cat", checkpoint=listed["checkpoint"], file="changed") == b"late"
    assert not (crash.box.root / os.fsdecode(STAGING_NAME)).exists()


def test_what_was_written_late_is_named_by_a_row_before_it_is_deleted_and_once(crash):
    watched, plan, operation = crash.begin()
    timeline = crash.box.service.timeline
    with watched.open_tree() as tree:
        applier = Applier(timeline, tree)
        applied = apply_together(applier._timeline, [(applier, operation, plan)])[0]
        (step,) = [step for step in applied.steps if step.path == b"changed"]
        folder = crash.box.root / os.fsdecode(STAGING_NAME) / "zzzz"
        with timeline.database.writing() as db:
            journal.finish(db, operation.id, Phase.DONE, None, "", [])
        for _ in range(2):
            (folder / step.staged_name).write_bytes(b"late")
            applier._record_strays(operation, applier._strays(operation, applied.steps))  # the crash comes here
            timeline.blobs.drop_unused()
            assert late_bytes(timeline, operation) == [b"late"]
        applier.sweep(operation)
    assert late_bytes(timeline, operation) == [b"late"]
    assert not folder.exists()


def late_bytes(timeline, operation):
    with timeline.database.reading() as db:
        return [
            timeline.blobs.read(o.blob)
            for o in journal.outcomes(db, operation.id)
            if o.kind is OutcomeKind.LATE and o.blob is not None
        ]


@pytest.mark.parametrize(("action", "phase"), [("continue", "done"), ("abort", "aborted")])
@pytest.mark.parametrize("after_ms", [1000, HOURS_MS], ids=["fresh", "old"])
def test_one_whose_steps_stand_though_it_was_given_up_is_settled(crash, after_ms, action, phase):
    """A commit may fail for the one who asked for it, and be found in the write-ahead log at the next start."""
    crash.after(0)
    shutil.rmtree(crash.box.root / os.fsdecode(STAGING_NAME) / "zzzz")
    crash.start(after_ms)
    if after_ms == HOURS_MS:
        crash.box.call("settle", action=action)
        assert crash.phases == [phase]
    assert crash.phases[0] in ("done", "aborted")
    assert not diff_trees(NOW, crash.look())
    crash.box.rewind("1", exact=True)
    assert not diff_trees(THEN, crash.look())


def test_what_is_written_to_a_displaced_file_before_it_is_settled_goes_back(crash):
    crash.after(STEPS)
    for staged in (crash.box.root / os.fsdecode(STAGING_NAME)).glob("zzzz/place-*"):
        staged.write_bytes(b"late")
    crash.start(after_ms=1000)
    assert (crash.box.root / "changed").read_bytes() == b"late"


class TestVerify:
    def test_what_was_written_after_it_was_placed_is_named(self, crash):
        watched, plan, operation = crash.begin()
        with watched.open_tree() as tree:
            applier = Applier(crash.box.service.timeline, tree)
            applied = apply_together(applier._timeline, [(applier, operation, plan)])[0]
            assert applied.left == ()
            assert applier.verify(applied) == []
            (crash.box.root / "changed").write_text("later")
            (crash.box.root / "gone" / "f").unlink()
            os.replace(crash.box.root / "kind", crash.box.root / "elsewhere")
            assert sorted(left.path for left in applier.verify(applied)) == [b"changed", b"gone/f", b"kind"]
