"""The memory of a project as a worktree: what is recorded of it, with the code, and who wrote it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from openoxide.checkpoints import rows, sight, store
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import Certainty, Kind
from openoxide.daemon.memories import is_mass
from openoxide.errors import NotFoundError
from tests.kit.box import Box


def folder(box: Box) -> Path:
    """The memory of the box's project, made as an agent would make it."""
    project = box.call("projects")["items"][0]["project"]
    place = box.home.folder / "projects" / project / "memory"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def memory(box: Box):
    found = box.service.memories.own(box.service.trees()[0].worktree)
    assert found is not None
    return found


def recorded(box: Box, seq: int | None = None) -> dict[bytes, bytes]:
    """The files of the memory as they are in the store."""
    found = memory(box)
    at = found.record() if seq is None else seq
    states = box.service.timeline.states(found.worktree.id, at)
    return {
        path: box.service.timeline.blobs.read(state.blob)
        for path, state in states.items()
        if state.kind is Kind.FILE and state.blob
    }


def writers(box: Box, *names: str):
    found = memory(box)
    with box.service.timeline.database.reading() as db:
        last = rows.last_writers(db, found.worktree.id, [os.fsencode(n) for n in names], found.record())
    return [last[os.fsencode(name)] for name in names]


def position(box: Box, sealed) -> int | None:
    with box.service.timeline.database.reading() as db:
        return store.position_of(db, sealed["id"], memory(box).worktree.id)


def test_all_of_a_memory_is_recorded_whatever_its_files_are_called(box):
    place = folder(box)
    for name in ("MEMORY.md", ".hidden", "CVS/a.md", "node_modules/b.md", ".gitignore", "build/c.md", "_FOSSIL_"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("*\n")
    (place / ".oxideignore").write_text("*\n")

    box.checkpoint()

    assert set(recorded(box)) == {os.fsencode(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def test_a_checkpoint_knows_where_the_memory_stood(box):
    assert store_positions(box) == 0
    place = folder(box)
    (place / "MEMORY.md").write_text("one\n")
    first = box.checkpoint()
    (place / "MEMORY.md").write_text("two\n")
    second = box.checkpoint()
    third = box.checkpoint()

    assert recorded(box, position(box, first)) == {b"MEMORY.md": b"one\n"}
    assert recorded(box, position(box, second)) == {b"MEMORY.md": b"two\n"}
    assert position(box, third) == position(box, second)


def store_positions(box: Box) -> int:
    with box.service.timeline.database.reading() as db:
        return db.execute_sql("select count(*) from position").fetchone()[0]


def test_a_temporary_file_that_is_renamed_is_a_version_of_its_target(box):
    place = folder(box)
    (place / "t.md").write_text("one\n")
    first = box.checkpoint()
    (place / ".t.md.swp").write_text("two\n")
    os.replace(place / ".t.md.swp", place / "t.md")
    second = box.checkpoint()

    assert recorded(box, position(box, first))[b"t.md"] == b"one\n"
    assert recorded(box, position(box, second)) == {b"t.md": b"two\n"}


def test_no_command_for_code_finds_a_memory(box):
    place = folder(box)
    box.checkpoint()

    with pytest.raises(NotFoundError):
        box.call("log", path=str(place))
    assert [item["root"] for item in box.call("projects")["items"]] == [str(box.root)]
    assert [item["root"] for item in box.call("status")["worktrees"]] == [str(box.root)]


def test_a_memory_is_taken_up_again_and_what_changed_meanwhile_is_recorded(box):
    place = folder(box)
    (place / "MEMORY.md").write_text("one\n")
    box.checkpoint()
    number = memory(box).worktree.id
    box.stop()
    (place / "MEMORY.md").write_text("two\n")
    box.start()

    sealed = box.checkpoint()

    assert memory(box).worktree.id == number
    assert recorded(box, position(box, sealed)) == {b"MEMORY.md": b"two\n"}


def test_a_memory_that_was_deleted_and_made_anew_goes_on(box):
    place = folder(box)
    (place / "MEMORY.md").write_text("one\n")
    first = box.checkpoint()
    number = memory(box).worktree.id
    place.rename(place.with_name("gone"))
    assert box.checkpoint()["complete"]
    folder(box)
    (place / "MEMORY.md").write_text("two\n")
    second = box.checkpoint()

    assert memory(box).worktree.id == number
    assert recorded(box, position(box, first)) == {b"MEMORY.md": b"one\n"}
    assert recorded(box, position(box, second)) == {b"MEMORY.md": b"two\n"}


def test_a_link_in_the_place_of_a_memory_is_none(box, tmp_path):
    place = folder(box)
    place.rmdir()
    (tmp_path / "elsewhere").mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    box.checkpoint()
    assert store_positions(box) == 0


def test_nothing_of_a_memory_expires(box):
    (folder(box) / "MEMORY.md").write_text("one\n")
    box.checkpoint()
    newest = memory(box).newest()
    assert newest is not None
    assert newest.expires_at_ms is None


AGENT = {"agent": "codex", "session": "s1"}


def test_what_is_written_in_a_turn_has_its_writer(box):
    place = folder(box)
    (place / "before.md").write_text("before\n")
    box.call("turn_begin", prompt="p1", **AGENT)
    (place / "turn.md").write_text("turn\n")
    box.call("tool_begin", tool="t1", **AGENT)
    (place / "tool.md").write_text("tool\n")
    box.call("tool_end", tool="t1", **AGENT)
    box.call("turn_end", **AGENT)
    (place / "after.md").write_text("after\n")

    found = writers(box, "before.md", "turn.md", "tool.md", "after.md")

    assert [writer.certainty for writer in found] == [
        Certainty.UNKNOWN, Certainty.LIKELY, Certainty.LIKELY, Certainty.UNKNOWN,
    ]  # fmt: skip
    assert prompts(box, *found) == [set(), {"p1"}, {"p1"}, set()]
    assert memory(box).windows == ()


def prompts(box: Box, *found) -> list[set[str]]:
    with box.service.timeline.database.reading() as db:
        return [{window.prompt for window in sight.windows_by_id(db, w.windows)} for w in found]


def test_a_memory_that_is_made_in_a_turn_gets_its_window(box):
    box.call("turn_begin", prompt="p1", **AGENT)
    place = folder(box)
    box.call("tool_begin", tool="t1", **AGENT)
    (place / "MEMORY.md").write_text("first\n")
    box.call("turn_end", **AGENT)

    (writer,) = writers(box, "MEMORY.md")
    assert (writer.certainty, prompts(box, writer)) == (Certainty.LIKELY, [{"p1"}])


def test_a_tool_that_names_what_it_wrote_into_the_memory_surely_did(box):
    place = folder(box)
    box.call("turn_begin", prompt="p1", **AGENT)
    box.call("turn_begin", prompt="q1", agent="claude", session="s2")
    box.call("tool_begin", tool="t1", **AGENT)
    (place / "named.md").write_text("named\n")
    (place / "other.md").write_text("other\n")
    writes = [{"path": str(place / "named.md"), "hash": blob_hash(b"named\n").hex()}]
    box.call("tool_end", tool="t1", writes=writes, **AGENT)

    named, other = writers(box, "named.md", "other.md")

    assert (named.certainty, prompts(box, named)) == (Certainty.SURE, [{"p1"}])
    assert other.certainty is not Certainty.SURE


def test_two_trees_of_a_project_have_one_memory_and_each_its_windows(box, tmp_path):
    place = folder(box)
    other = tmp_path / "other"
    other.mkdir()
    box.call("watch", path=str(other))
    box.call("projects_join", a=str(box.root), b=str(other))
    box.call("turn_begin", prompt="p1", **AGENT)
    box.call("turn_begin", path=str(other), prompt="q1", agent="claude", session="s2")
    (place / "both.md").write_text("both\n")
    box.call("turn_end", **AGENT)
    (place / "second.md").write_text("second\n")

    both, second = writers(box, "both.md", "second.md")

    assert (both.certainty, prompts(box, both)) == (Certainty.SHARED, [{"p1", "q1"}])
    assert (second.certainty, prompts(box, second)) == (Certainty.LIKELY, [{"q1"}])


def test_a_pause_ends_what_the_memory_takes_for_the_agents(box):
    place = folder(box)
    box.call("turn_begin", prompt="p1", **AGENT)
    box.call("pause")
    box.call("turn_end", **AGENT)
    (place / "later.md").write_text("later\n")
    box.call("unpause")
    assert [writer.certainty for writer in writers(box, "later.md")] == [Certainty.UNKNOWN]


@pytest.mark.parametrize(
    ("gone", "before", "mass"),
    [(0, 0, False), (1, 1, False), (1, 2, False), (2, 5, True), (2, 10, False), (3, 100, False), (4, 1000, True)],
)
def test_when_a_deletion_is_told_of(gone, before, mass):
    assert is_mass(gone, before) is mass


def test_the_state_before_a_mass_deletion_is_pinned(box):
    place = folder(box)
    for number in range(6):
        (place / f"{number}.md").write_text(f"{number}\n")
    box.checkpoint()
    before = memory(box).newest()
    for number in range(5):
        (place / f"{number}.md").unlink()
    box.checkpoint()

    with box.service.timeline.database.reading() as db:
        pinned = [c for c in store.CheckpointQuery(db, memory(box).worktree.id).listing() if c.pinned]
    assert [c.id for c in pinned] == [before.id]


def test_a_memory_that_was_there_before_is_nobodys(box):
    place = folder(box)
    (place / "MEMORY.md").write_text("old\n")
    box.stop()
    box.start()
    box.call("turn_begin", prompt="p1", **AGENT)
    assert [writer.certainty for writer in writers(box, "MEMORY.md")] == [Certainty.UNKNOWN]


def test_the_notes_of_a_project_that_is_joined_are_brought_along(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    box.call("watch", path=str(other))
    box.call("memory_save", name="mine.md", text="# Mine\n\nmine\n")
    box.call("memory_save", path=str(other), name="theirs.md", text="# Theirs\n\ntheirs\n")
    box.call("memory_save", path=str(other), name="mine.md", text="# Mine\n\nanother\n")

    answer = box.call("projects_join", a=str(box.root), b=str(other))

    assert len(answer["notes"]) == 1
    for place in (box.root, other):
        assert [t["name"] for t in box.call("memory_topics", path=str(place))["items"]] == ["mine.md", "theirs.md"]
    both = box.call("memory_read", name="mine.md")["text"]
    assert ("mine" in both, "another" in both) == (True, True)


def test_what_was_deleted_a_month_ago_leaves_the_trash(box, clock):
    box.call("memory_save", name="a.md", text="# A\n\na\n")
    box.call("memory_save", name="b.md", text="# B\n\nb\n")
    box.call("memory_delete", name="a.md")
    notes = box.service.memories.notes(box.service.trees()[0].worktree)
    payload = {"session_id": "s", "cwd": str(box.root), "source": "startup", "transcript_path": "/t"}

    def start():
        box.call("hook", payload=payload, agent="claude", event="SessionStart")
        done = threading.Event()
        box.service.background.submit("behind it", done.set)
        assert done.wait(30)

    start()
    assert [gone.name for gone in notes.trash()] == ["a.md"]
    clock.advance(31 * 86_400_000)
    box.service.clock_mark.accept()
    start()
    assert notes.trash() == []


def test_a_prune_keeps_every_version_of_a_note(box, clock):
    place = folder(box)
    box.checkpoint()
    for number in range(6):
        (place / "a.md").write_text(f"{number}\n")
        memory(box).record()
    box.checkpoint()
    for _ in range(3):  # to trash, then out of the store
        clock.advance(40 * 86_400_000)
        box.service.clock_mark.accept()
        box.checkpoint()
        box.call("expire")
    assert box.call("log", all=True)["items"][-1]["number"] > 1
    box.call("prune")

    assert len(box.call("memory_history", name="a.md")["items"]) == 6
    assert [p for p in box.call("check")["problems"] if p["kind"] != "mode"] == []
