"""What the options of a rewind come to on a real tree: the time of now, paths that others changed, one turn alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applier
from openoxide.checkpoints.steps import steps_of
from openoxide.daemon.operations import carrying, rewinding
from openoxide.daemon.routes import routes
from openoxide.errors import ConflictError, NotFoundError, StoreDamagedError, UsageError
from tests.kit import FakeClock, tree_of
from tests.kit.box import NO_QUIET, Box

STAGING = b".openoxide-staging"
OLD_NS = 1_600_000_000_000_000_001


class Project:
    """A project in which turns of sessions and the user write."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.box = Box(folder, clock=self.clock)
        self.root = self.box.root

    @property
    def now_ns(self) -> int:
        return self.clock.now_ms() * 1_000_000

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> None:
        """The user writes; each time is another one, and none is that of the clock."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        self._ns = getattr(self, "_ns", OLD_NS) + 1_000
        os.utime(path, ns=(self._ns, self._ns))

    def turn(self, prompt: str, session: str = "s", /, **files: str | None) -> None:
        """A turn of an agent that writes ``files`` (None: removes them); a double underscore is a dot."""
        self.box.call("turn_begin", agent="agent", session=session, prompt=prompt)
        for name, content in files.items():
            if content is None:
                (self.root / name.replace("__", ".")).unlink()
            else:
                self.write(name.replace("__", "."), content)
        self.box.call("turn_end", session=session)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def tree(self) -> dict[bytes, tuple[object, ...]]:
        return tree_of(self.root, skip={STAGING})


@pytest.fixture(name="project")
def _project(tmp_path):
    project = Project(tmp_path)
    yield project
    project.box.stop()


def listed(answer, name: str) -> list[tuple[str, str]]:
    return [(entry["path"], entry.get("reason", "")) for entry in answer[name]]


class TestTouch:
    def test_files_come_back_with_the_time_of_now(self, project):
        project.write("changed", "one")
        project.write("gone", "one", 0o600)
        project.write("same", "one")
        project.box.watch()
        same = project.tree()[b"same"]
        project.write("changed", "two")
        (project.root / "gone").unlink()
        project.clock.advance(5_000)

        answer = project.box.rewind("1", touch=True)

        assert listed(answer, "restored") == [("changed", ""), ("gone", "")]
        assert project.tree() == {
            b"changed": ("file", 0o644, project.now_ns, b"one"),
            b"gone": ("file", 0o600, project.now_ns, b"one"),
            b"same": same,
        }
        diff = project.box.call("diff", a="1", b="last", paths=[], patch=False)["items"]
        assert [item["path"] for item in diff] == ["changed", "gone"], "the record has the times that are there"

    def test_undo_and_redo_bring_both_times_back(self, project):
        project.write("f", "one")
        project.box.watch()
        project.write("f", "two")
        before = project.tree()
        project.box.rewind("1", touch=True)
        after = project.tree()

        project.box.call("undo")
        assert project.tree() == before
        project.clock.advance(5_000)
        project.box.call("redo")
        assert project.tree() == after

    def test_a_file_that_differs_by_its_time_alone_is_left(self, project):
        project.write("f", "one")
        project.box.watch()
        project.write("f", "one")
        before = project.tree()

        assert project.box.rewind("1", touch=True)["restored"] == []
        assert project.tree() == before
        assert listed(project.box.rewind("1"), "restored") == [("f", "")]

    def test_a_session_that_goes_on_after_it_is_still_the_sessions(self, project):
        project.write("f", "one")
        project.box.watch()
        project.turn("p1", f="two")
        project.box.rewind("turn:p1", touch=True)
        project.turn("p2", f="three")

        answer = project.box.rewind("turn:p1")

        assert (listed(answer, "conflicts"), project.read("f")) == ([], "one")


def ten(**changed: str) -> str:
    """Ten lines, some of them changed: ``_3="x"`` is the third."""
    return "".join(f"{changed.get(f'_{at}', f'line {at}')}\n" for at in range(1, 11))


class TestConflicts:
    @pytest.fixture(name="project")
    def _contested(self, project):
        """The session changed ``both`` and ``clash``, the user as well; ``made`` is the session's, gone on with."""
        project.write("both", ten())
        project.write("clash", "one\n")
        project.write("user", "one\n")
        project.box.watch()
        project.turn("p1", both=ten(_2="agent"), clash="agent\n", made="agent\n", alone="agent\n")
        project.write("both", ten(_2="agent", _9="user"), 0o755)
        project.write("clash", "user\n")
        project.write("made", "agent\nuser\n")
        project.write("user", "two\n")
        return project

    def test_they_are_kept_unless_something_else_is_typed(self, project):
        before = project.tree()

        answer = project.box.rewind("turn:p1")

        reasons = [(name, "changed_later") for name in ("both", "clash", "made")]
        assert (listed(answer, "conflicts"), answer["merged"]) == (reasons, [])
        assert project.tree() == {path: what for path, what in before.items() if path != b"alone"}

    def test_a_merge_takes_the_sessions_lines_out_and_leaves_the_users(self, project):
        project.clock.advance(5_000)
        before = project.tree()

        planned = project.box.rewind("turn:p1", conflict="merge", dry_run=True)
        assert project.tree() == before
        answer = project.box.rewind("turn:p1", conflict="merge")

        assert listed(answer, "merged") == listed(planned, "merged") == [("both", "")]
        assert listed(answer, "conflicts") == [("clash", "overlap"), ("made", "changed_later")]
        assert project.tree()[b"both"] == ("file", 0o755, project.now_ns, ten(_9="user").encode())
        assert (project.read("clash"), project.read("user")) == ("user\n", "two\n")
        (operation,) = project.box.call("operations")["items"]
        assert (operation["merged"], operation["removed"]) == (1, 1)
        after = project.tree()
        project.box.call("undo")
        assert project.tree() == before
        project.box.call("redo")
        assert project.tree() == after

    def test_its_bytes_are_held_before_anything_is_placed(self, project):
        held = []

        def report(stage: Mapping[str, object]) -> None:
            """Between the row of the operation and the exchange the store forgets what nothing names."""
            project.box.service.timeline.blobs.drop_unused()
            held.append(stage["stage"])

        routes(project.box.service)["rewind"](
            {"path": str(project.root), "checkpoint": "turn:p1", "conflict": "merge"}, report
        )

        assert held == ["checkpoint", "rewind"]
        assert project.read("both") == ten(_9="user")
        assert project.box.call("diff", a="last", paths=[], patch=False)["items"] == []

    def test_one_that_was_interrupted_is_finished_and_listed(self, project):
        service = project.box.service
        (watched,) = service.all_watched()
        request = {"path": str(project.root), "checkpoint": "turn:p1", "conflict": "merge"}
        intent = rewinding._intent(service, watched, request)
        before, now_seq = rewinding._take_before(service, watched, full=False, dry_run=False)
        plan = rewinding._plan(service, watched, intent, (), now_seq, None)
        part = carrying.Part(watched=watched, intent=intent, plan=plan, before=before, now_seq=now_seq)
        (operation,) = carrying.begin(service, [part])
        with watched.open_tree() as tree:
            staged, _ = Applier(service.timeline, tree)._stage(operation, steps_of(plan))
        with service.timeline.database.writing() as db:
            journal.commit_steps(db, operation.id, staged)
        project.box.stop()
        project.box.start()
        project.box.watch()

        (item,) = project.box.call("operations")["items"]
        assert (item["phase"], item["merged"], item["removed"]) == ("done", 1, 1)
        assert project.read("both") == ten(_9="user")
        with project.box.service.timeline.database.reading() as db:
            assert {outcome.kind.value for outcome in journal.outcomes(db, operation.id)} == {"merged", "removed"}

    def test_a_second_merge_finds_nothing_of_the_session(self, project):
        project.box.rewind("turn:p1", conflict="merge")
        answer = project.box.rewind("turn:p1", conflict="merge")
        assert (answer["operation"], answer["merged"]) == (None, [])

    def test_a_merge_leaves_what_the_user_wrote_in_between(self, project):
        project.turn("p2", both=ten(_2="agent", _5="agent again", _9="user"))
        project.write("both", ten(_2="agent", _5="agent again", _9="user", _7="user again"))

        answer = project.box.rewind("turn:p1", conflict="merge", paths=["both"])

        assert listed(answer, "merged") == [("both", "")]
        assert project.read("both") == ten(_9="user", _7="user again")

    def test_overwriting_brings_the_target_back_and_undo_the_rest(self, project):
        before = project.tree()

        answer = project.box.rewind("turn:p1", conflict="overwrite")

        assert listed(answer, "restored") == [(name, "overwrites changed_later") for name in ("both", "clash")]
        assert listed(answer, "removed") == [("alone", "likely"), ("made", "overwrites changed_later")]
        assert (project.read("both"), project.read("clash"), project.read("user")) == (ten(), "one\n", "two\n")
        project.box.call("undo")
        assert project.tree() == before

    @pytest.mark.parametrize("conflict", ["keep", "merge", "overwrite"])
    def test_what_changed_after_the_plan_was_shown_stays(self, project, conflict):
        seen = project.box.rewind("turn:p1", conflict=conflict, dry_run=True)["plan_seq"]
        for name in ("both", "clash", "made"):
            project.write(name, ten(_2="agent", _9="while they were asked"))
        before = project.tree()

        answer = project.box.rewind("turn:p1", conflict=conflict, plan_seq=seen)

        assert [path for path, _ in listed(answer, "conflicts")] == ["both", "clash", "made"]
        assert project.tree() == {path: what for path, what in before.items() if path != b"alone"}

    def test_what_two_sessions_may_have_written_is_overwritten_but_not_merged(self, project):
        project.box.call("turn_begin", agent="agent", session="other", prompt="o1")
        project.turn("p2", user="whose?\n")
        project.box.call("turn_end", session="other")

        answer = project.box.rewind("turn:p2", conflict="merge")
        assert (listed(answer, "conflicts"), project.read("user")) == ([("user", "shared_writer")], "whose?\n")
        answer = project.box.rewind("turn:p2", conflict="overwrite")
        assert (listed(answer, "restored"), project.read("user")) == ([("user", "overwrites shared_writer")], "two\n")

    @pytest.mark.parametrize("conflict", ["merge", "overwrite"])
    def test_what_a_process_holds_open_is_left(self, project, conflict):
        with (project.root / "both").open("a"):
            answer = project.box.rewind("turn:p1", conflict=conflict, paths=["both"])
        assert listed(answer, "conflicts") == [("both", "held_open")]
        assert project.read("both") == ten(_2="agent", _9="user")

    def test_what_is_not_recorded_is_left(self, tmp_path):
        box = Box(tmp_path / "small", capture=replace(NO_QUIET, max_file_bytes=100))
        try:
            (box.root / "f").write_text("one\n")
            box.watch()
            box.call("turn_begin", agent="agent", session="s", prompt="p1")
            (box.root / "f").write_text("two\n")
            box.call("turn_end", session="s")
            (box.root / "f").write_text("too large\n" * 20)

            answer = box.rewind("turn:p1", conflict="overwrite")

            assert listed(answer, "skipped") == [("f", "too_large")]
            assert (box.root / "f").read_text() == "too large\n" * 20
        finally:
            box.stop()

    def test_a_folder_that_something_stays_in_is_not_overwritten(self, project):
        project.turn("p2", clash=None)
        (project.root / "clash").mkdir()
        project.write("clash/inside", "user\n")

        answer = project.box.rewind("turn:p2", conflict="overwrite")

        assert listed(answer, "conflicts") == [("clash", "directory_not_empty")]
        assert project.read("clash/inside") == "user\n"

    def test_scope_all_says_that_there_is_nothing_to_merge(self, project):
        answer = project.box.rewind("1", scope="all", conflict="merge", dry_run=True)
        assert "scope all asks no writer: there is nothing to merge" in answer["notes"]

    def test_damage_is_named_and_nothing_is_touched(self, project):
        before = project.tree()
        (project.box.home.blobs / "00000001.pack").write_bytes(b"")
        project.box.service.timeline.blobs._frames.clear()

        with pytest.raises(StoreDamagedError) as raised:
            project.box.rewind("turn:p1", conflict="merge", paths=["both"])

        assert raised.value.details["paths"] == ["both"]
        assert project.tree() == before


class TestExact:
    @pytest.fixture(name="seen")
    def _seen(self, project):
        """The plan that was agreed to; ``held`` changed after it."""
        project.write("held", "one")
        project.write("free", "one")
        project.box.watch()
        project.write("held", "two")
        project.write("free", "two")
        seen = project.box.rewind("1", exact=True, dry_run=True)["plan_seq"]
        project.write("held", "three")
        return seen

    @pytest.mark.parametrize("conflict", ["keep", "merge"])
    def test_a_conflict_refuses_all_of_it(self, project, seen, conflict):
        before = project.tree()

        with pytest.raises(ConflictError) as raised:
            project.box.rewind("1", exact=True, plan_seq=seen, conflict=conflict)

        assert listed(raised.value.details, "conflicts") == [("held", "changed_later")]
        assert project.tree() == before

    def test_overwrite_does_what_can_be_done(self, project, seen):
        answer = project.box.rewind("1", exact=True, plan_seq=seen, conflict="overwrite")

        assert (listed(answer, "restored"), listed(answer, "conflicts")) == (
            [("free", "")],
            [("held", "changed_later")],
        )
        assert (project.read("held"), project.read("free")) == ("three", "one")


class TestOneTurn:
    @pytest.fixture(name="project")
    def _turns(self, project):
        """Three turns: the first changed ``first`` and ``both``, the second ``both`` again and ``second``."""
        project.write("both", ten())
        project.write("first", "one\n")
        project.box.watch()
        project.turn("p1", first="p1\n", both=ten(_2="p1"), made="p1\n")
        project.turn("p2", both=ten(_2="p1", _9="p2"), second="p2\n")
        project.turn("p3", third="p3\n")
        return project

    def test_it_is_undone_and_the_later_ones_are_kept(self, project):
        before = project.tree()

        answer = project.box.call("rewind", turn="p1")

        assert (answer["scope"], answer["checkpoint"]["prompt"]) == ("turn", "p1")
        assert "turn p1 alone is undone; what came after it stays" in answer["notes"]
        assert listed(answer, "restored") == [("first", "likely")]
        assert listed(answer, "removed") == [("made", "likely")]
        assert listed(answer, "conflicts") == [("both", "changed_later")]
        assert (project.read("both"), project.read("second")) == (ten(_2="p1", _9="p2"), "p2\n")
        project.box.call("undo")
        assert project.tree() == before

    def test_a_merge_takes_its_lines_out_of_what_later_ones_changed(self, project):
        answer = project.box.call("rewind", turn="p1", conflict="merge")
        assert (listed(answer, "merged"), listed(answer, "conflicts")) == ([("both", "")], [])
        assert project.read("both") == ten(_9="p2")

    def test_the_last_one_is_minus_one(self, project):
        assert listed(project.box.call("rewind", turn="-1"), "removed") == [("third", "likely")]

    @pytest.mark.parametrize("more", [{"checkpoint": "1"}, {"scope": "turn"}, {"exact": True}])
    def test_it_stands_for_the_checkpoint_and_the_scope(self, project, more):
        with pytest.raises(UsageError):
            project.box.call("rewind", turn="p1", **more)

    def test_a_turn_that_never_was_is_not_found(self, project):
        with pytest.raises(NotFoundError):
            project.box.call("rewind", turn="p4")


@pytest.mark.parametrize("request_", [{"conflict": "force"}, {"conflict": 1}, {"touch": "yes"}, {"turn": ""}, {}])
def test_a_bad_request_is_a_usage_error(project, request_):
    project.box.watch()
    with pytest.raises(UsageError):
        project.box.call("rewind", **{"checkpoint": "1", **request_} if request_ else {})
