"""A rewind of code and memory is one operation: planned, done, undone, redone and settled together."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.apply import Applier
from openoxide.daemon.operations import carrying, rewinding
from openoxide.errors import InterruptedOperationError
from openoxide.settings import MemorySettings
from tests.kit.box import Box

AGENT = {"agent": "codex", "session": "s1"}


def place(box: Box) -> Path:
    project = box.call("projects")["items"][0]["project"]
    folder = box.home.folder / "projects" / project / "memory"
    for part in (folder.parent.parent, folder.parent, folder):
        part.mkdir(mode=0o700, exist_ok=True)
    return folder


def notes(box: Box) -> dict[str, str]:
    return {p.name: p.read_text() for p in place(box).iterdir() if p.is_file()}


def code(box: Box) -> dict[str, str]:
    return {p.name: p.read_text() for p in box.root.iterdir() if p.is_file()}


def turn(box: Box, prompt: str, *, session: str = "s1", agent: str = "codex", **files: str) -> None:
    """A turn that writes a file of the code and ``files`` of the memory."""
    box.call("turn_begin", prompt=prompt, agent=agent, session=session)
    (box.root / "a").write_text(f"{prompt}\n")
    for name, text in files.items():
        (place(box) / f"{name}.md").write_text(text)
    box.call("turn_end", session=session, agent=agent)


def paths(entries) -> list[str]:
    return [entry["path"] for entry in entries]


def operations(box: Box):
    memories = box.service.memories
    memory = memories.of(memories.directory(box.service.trees()[0].worktree.project))
    with box.service.timeline.database.reading() as db:
        return journal.operations(db, 1), journal.operations(db, memory.worktree.id) if memory else []


@pytest.fixture
def written(box):
    """A note of the user's, then two turns that write notes, then the user again."""
    (place(box) / "mine.md").write_text("mine\n")
    turn(box, "p1", first="first\n")
    turn(box, "p2", first="first\nsecond\n", second="second\n")
    (place(box) / "mine.md").write_text("mine, edited since\n")
    return box


def test_without_being_asked_a_rewind_leaves_the_memory_alone(written):
    before = notes(written)
    answer = written.rewind("turn:p2")
    assert (code(written)["a"], notes(written)) == ("p1\n", before)
    assert "memory" not in answer


def test_what_the_session_noted_since_goes_back_and_what_others_did_stays(written):
    answer = written.rewind("turn:p2", memory=True)

    assert code(written)["a"] == "p1\n"
    assert notes(written) == {"mine.md": "mine, edited since\n", "first.md": "first\n"}
    assert paths(answer["memory"]["restored"]) == ["first.md"]
    assert paths(answer["memory"]["removed"]) == ["second.md"]


def test_a_first_note_of_a_session_is_gone_after_a_rewind_to_before_it(box):
    turn(box, "p1")
    turn(box, "p2", first="first\n")
    assert notes(box) == {"first.md": "first\n"}
    box.rewind("turn:p2", memory=True)
    assert notes(box) == {}


def test_one_turn_alone_is_undone_in_the_memory_too(written):
    turn(written, "p3", third="third\n")
    written.call("rewind", turn="p2", memory=True)
    assert notes(written) == {"mine.md": "mine, edited since\n", "first.md": "first\n", "third.md": "third\n"}


def test_a_note_that_somebody_else_went_on_with_is_a_conflict_and_can_be_merged(box):
    turn(box, "p1", first="".join(f"line {n}\n" for n in range(9)))
    turn(box, "p2", first="agent\n" + "".join(f"line {n}\n" for n in range(9)))
    (place(box) / "first.md").write_text(notes(box)["first.md"] + "user\n")

    answer = box.rewind("turn:p2", memory=True)
    assert paths(answer["memory"]["conflicts"]) == ["first.md"]
    assert notes(box)["first.md"].startswith("agent")
    merged = box.rewind("turn:p2", memory=True, conflict="merge")
    assert paths(merged["memory"]["merged"]) == ["first.md"]
    assert notes(box)["first.md"] == "".join(f"line {n}\n" for n in range(9)) + "user\n"


def test_exact_is_about_the_tree(written):
    (written.root / "newer").write_text("newer\n")
    written.rewind("turn:p2", memory=True, exact=True)
    assert set(code(written)) == {"a"}
    assert notes(written) == {"mine.md": "mine, edited since\n", "first.md": "first\n"}


def test_a_dry_run_changes_nothing_and_its_plan_is_what_is_done(written):
    before = notes(written), code(written)
    plan = written.rewind("turn:p2", memory=True, dry_run=True)
    assert (notes(written), code(written)) == before
    (place(written) / "second.md").write_text("second, and more\n")  # after the plan was agreed to
    done = written.rewind("turn:p2", memory=True, plan_seq=plan["plan_seq"], memory_seq=plan["memory"]["plan_seq"])
    assert paths(done["memory"]["conflicts"]) == ["second.md"]
    assert notes(written)["second.md"] == "second, and more\n"


def test_undo_and_redo_take_back_both(written):
    before = notes(written), code(written)
    written.rewind("turn:p2", memory=True)
    after = notes(written), code(written)

    undone = written.call("undo")
    assert (notes(written), code(written)) == before
    assert set(paths(undone["memory"]["restored"])) == {"first.md", "second.md"}
    written.call("redo")
    assert (notes(written), code(written)) == after
    written.call("undo")
    assert (notes(written), code(written)) == before


def test_an_operation_on_the_memory_alone_is_undone_by_the_code_it_is_bound_to(box):
    turn(box, "p1")
    box.call("turn_begin", prompt="p2", **AGENT)
    (place(box) / "only.md").write_text("only\n")
    box.call("turn_end", **AGENT)

    answer = box.rewind("turn:p2", memory=True)
    assert (answer["restored"], answer["removed"]) == ([], [])
    assert notes(box) == {}
    box.call("undo")
    assert notes(box) == {"only.md": "only\n"}


def test_what_is_undone_keeps_what_was_noted_since(written):
    written.rewind("turn:p2", memory=True)
    (place(written) / "first.md").write_text("first, and the user\n")
    answer = written.call("undo")
    assert paths(answer["memory"]["conflicts"]) == ["first.md"]
    assert notes(written)["first.md"] == "first, and the user\n"


def test_both_operations_are_one(written):
    written.rewind("turn:p2", memory=True)
    (code_done,), (memory_done,) = operations(written)
    assert memory_done.bound == code_done.id
    assert (code_done.phase, memory_done.phase) == (journal.Phase.DONE, journal.Phase.DONE)
    shown = written.call("memory_history", name="second.md")["items"][0]
    assert (shown["status"], shown["operation"]) == ("D", code_done.public_id)
    assert len(written.call("operations")["items"]) == 1


def test_a_memory_that_is_gone_does_not_stop_an_undo(written):
    written.rewind("turn:p2", memory=True)
    place(written).rename(place(written).with_name("away"))
    answer = written.call("undo")
    assert code(written)["a"] == "p2\n"
    assert "memory" not in answer
    assert any("memory" in note for note in answer["notes"])


def test_a_project_without_a_memory_is_rewound_all_the_same(box):
    turn(box, "p1")
    turn(box, "p2")
    answer = box.rewind("turn:p2", memory=True)
    assert code(box)["a"] == "p1\n"
    assert "memory" not in answer


def test_nothing_of_a_memory_is_rewound_while_an_operation_on_it_is_open(written):
    written.rewind("turn:p2", memory=True)
    _, (done,) = operations(written)
    with written.service.timeline.database.writing() as db:
        db.execute_sql("update operation set phase = 'interrupted', bound = null where id = ?", (done.id,))
    with pytest.raises(InterruptedOperationError):
        written.rewind("turn:p1", memory=True)
    written.rewind("turn:p1")


def test_the_history_of_a_deleted_project_does_not_take_the_memory_along(written):
    written.rewind("turn:p2", memory=True)
    before = notes(written)
    written.call("unwatch", delete_history=True)
    written.watch()
    assert {**before} == {"mine.md": "mine, edited since\n", "first.md": "first\n"}
    assert [problem for problem in written.call("check")["problems"] if problem["kind"] != "mode"] == []


def interrupted(box: Box, how_far: str) -> None:
    """The machine dies in a rewind to before p2: both are journalled by then, and so much of it is done."""
    service = box.service
    watched, memory = sorted(service.all_watched(), key=lambda w: w.worktree.is_memory)
    request = {"path": str(box.root), "checkpoint": "turn:p2", "memory": True}
    with watched.lock, memory.lock:
        intent = rewinding._intent(service, watched, request)
        before, now_seq = rewinding._take_before(service, watched, full=False, dry_run=False)
        plan = rewinding._plan(service, watched, intent, (), now_seq, None)
        code_part = carrying.Part(watched=watched, intent=intent, plan=plan, before=before, now_seq=now_seq)
        parts = [code_part, rewinding._memory_part(service, memory, intent, request, dry_run=False)]
        operations = carrying.begin(service, parts)
        with parts[0].watched.open_tree() as tree, parts[1].watched.open_tree() as notes_tree:
            appliers = [Applier(service.timeline, tree), Applier(service.timeline, notes_tree)]
            if how_far == "begun":
                box.stop()
                return
            staged = [a.prepare(o, p.plan) for a, o, p in zip(appliers, operations, parts, strict=True)]
            if how_far == "staged":
                box.stop()
                return
            with service.timeline.database.writing() as db:
                for operation, one in zip(operations, staged, strict=True):
                    journal.commit_steps(db, operation.id, one.steps)
            for number in range({"journalled": 0, "code": 1, "both": 2}[how_far]):
                appliers[number].exchange(operations[number], staged[number])
    box.stop()


@pytest.mark.parametrize("how_far", ["begun", "staged", "journalled", "code", "both"])
@pytest.mark.parametrize("way", ["at once", "continue", "abort"])
def test_what_died_in_the_middle_is_done_or_taken_back_in_both(written, clock, how_far, way):
    old = {"mine.md": "mine, edited since\n", "first.md": "first\n"}, {"a": "p1\n"}
    new = notes(written), code(written)
    interrupted(written, how_far)
    if way != "at once":
        clock.advance(3_600_000)
    written.start()
    written.checkpoint()

    touched = how_far not in ("begun", "staged")
    if touched and way != "at once":
        found = [operation.phase for done in operations(written) for operation in done]
        assert found == [journal.Phase.INTERRUPTED] * 2
        settled = written.call("settle", action=way)
        assert "memory" in settled
    wanted = new if not touched or way == "abort" else old
    assert (notes(written), code(written)) == wanted
    ended = journal.Phase.UNDONE if not touched else journal.Phase.ABORTED if way == "abort" else journal.Phase.DONE
    assert [operation.phase for done in operations(written) for operation in done] == [ended] * 2
    if wanted == old:
        written.call("undo")
        assert (notes(written), code(written)) == new


@pytest.mark.parametrize("how_far", ["begun", "staged", "journalled", "code", "both"])
def test_what_died_in_the_middle_is_settled_in_the_memory_of_then_though_the_policy_changed(written, how_far):
    old = {"mine.md": "mine, edited since\n", "first.md": "first\n"}, {"a": "p1\n"}
    new = notes(written), code(written)
    interrupted(written, how_far)
    written.settings = replace(written.settings, memory=MemorySettings(worktrees="separate"))
    written.start()
    written.checkpoint()
    settled = threading.Event()
    written.service.background.submit("behind what attaches", settled.set)
    assert settled.wait(30)

    touched = how_far not in ("begun", "staged")
    ended = journal.Phase.DONE if touched else journal.Phase.UNDONE
    assert [operation.phase for done in operations(written) for operation in done] == [ended] * 2
    assert (notes(written), code(written)) == (old if touched else new)


def test_a_memory_that_went_meanwhile_does_not_keep_the_code_from_being_settled(written, clock):
    interrupted(written, "journalled")
    place_ = next((written.home.folder / "projects").iterdir()) / "memory"
    place_.rename(place_.with_name("away"))
    written.start()
    written.checkpoint()
    assert code(written)["a"] == "p1\n"


def test_the_memory_waits_for_the_code_to_be_there(written):
    new = notes(written)
    interrupted(written, "journalled")
    written.root.rename(written.root.with_name("unmounted"))
    written.start()
    done = threading.Event()
    written.service.background.submit("behind what attaches", done.set)
    assert done.wait(30)
    folder = next((written.home.folder / "projects").iterdir()) / "memory"
    assert {p.name: p.read_text() for p in folder.iterdir() if p.is_file()} == new
    written.stop()
    written.root.with_name("unmounted").rename(written.root)
    written.start()
    written.checkpoint()
    assert (code(written)["a"], notes(written)) == ("p1\n", {"mine.md": "mine, edited since\n", "first.md": "first\n"})
