"""The memory of a project is paused with the last of its trees, and what changed meanwhile is recorded afterwards."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openoxide.checkpoints.model import MEMORY, Worktree
from openoxide.daemon.pauses import Pause, pause_of
from openoxide.errors import RefusedError
from tests.kit import wait_until
from tests.kit.box import Box

HOUR_MS = 3_600_000
AGENT = {"agent": "codex", "session": "s1", "prompt": "p1"}
WAIT_S = 30


def folder(box: Box) -> Path:
    return Path(box.call("memory_index")["path"])


def versions(box: Box, name: str):
    return box.call("memory_history", name=name)["items"]


def noted(box: Box, root: Path | None = None):
    return next(tree["memory"] for tree in box.call("status")["worktrees"] if tree["root"] == str(root or box.root))


@pytest.fixture(name="box")
def _noted(box):
    """With a note, ``a.md``, in its memory."""
    box.call("memory_save", name="a.md", text="# A\n\none\n")
    return box


def tree(paused_ms: int | None = None, until_ms: int | None = None) -> Worktree:
    return Worktree(
        id=1, project="p", root=b"/p", dev=1, ino=1, birth_ns=None, watching=True, paused_ms=paused_ms,
        paused_until_ms=until_ms,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ([], None),
        ([tree()], None),
        ([tree(1)], Pause(None)),
        ([tree(1), tree()], None),
        ([tree(1), None], None),
        ([tree(1, 9), tree(2)], Pause(9)),
        ([tree(1, 9), tree(2, 5)], Pause(5)),
    ],
)
def test_a_memory_is_paused_while_all_trees_that_read_it_are(trees, expected):
    assert pause_of(trees) == expected


def test_nothing_of_it_is_recorded_and_afterwards_all_is(box):
    (folder(box) / "a.md").write_text("# A\n\ntwo\n")  # recorded by the pause
    box.call("pause")
    assert (noted(box)["state"], noted(box)["reason"]) == ("paused", "asked for")
    (folder(box) / "a.md").write_text("# A\n\nthree\n")
    (folder(box) / "b.md").write_text("# B\n\nin the pause\n")
    before = noted(box)["version"]
    assert [len(versions(box, "a.md")), noted(box)["version"]] == [2, before]
    assert "paused since" in box.call("memory_history")["note"]

    box.call("unpause")

    assert noted(box)["state"] == "watching"
    assert (len(versions(box, "a.md")), len(versions(box, "b.md")), "note" in box.call("memory_history")) == (
        3,
        1,
        False,
    )
    raw = [box.call("memory_read_version", name="a.md", version=v["version"])["text"] for v in versions(box, "a.md")]
    assert raw == ["# A\n\nthree\n", "# A\n\ntwo\n", "# A\n\none\n"]


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("memory_save", {"name": "c.md", "text": "c"}),
        ("memory_edit", {"name": "a.md", "append": "c"}),
        ("memory_delete", {"name": "a.md"}),
        ("memory_rename", {"name": "a.md", "new": "c.md"}),
        ("memory_revert", {"name": "a.md"}),
        ("memory_tool", {"command": {"command": "create", "path": "/memories/c.md", "file_text": "c"}}),
        ("rewind", {"checkpoint": "1", "memory": True}),
        ("purge", {"memory": ["a.md"]}),
    ],
)
def test_what_would_record_is_refused_and_says_how_to_go_on(box, name, request_):
    box.call("pause")
    before = sorted(path.read_bytes() for path in folder(box).iterdir())
    with pytest.raises(RefusedError) as told:
        box.call(name, **request_)
    assert "unpause" in told.value.hint
    assert sorted(path.read_bytes() for path in folder(box).iterdir()) == before


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("memory_index", {}),
        ("memory_topics", {}),
        ("memory_read", {"name": "a.md"}),
        ("memory_search", {"text": "one"}),
        ("memory_lint", {}),
        ("memory_context", {"agent": "codex"}),
        ("doctor", {}),
        ("check", {"read_data": True}),
        ("du", {}),
        ("memory_blame", {"name": "a.md"}),
        ("memory_tool", {"command": {"command": "view", "path": "/memories/a.md"}}),
    ],
)
def test_notes_can_be_read_all_the_time(box, name, request_):
    box.call("pause")
    before = noted(box)["version"]
    assert box.call(name, **request_)["ok"]
    assert noted(box)["version"] == before


def test_what_was_done_in_a_pause_is_nobodys(box):
    box.call("turn_begin", **AGENT)
    box.call("pause")
    (folder(box) / "a.md").write_text("# A\n\nby whoever it was\n")
    box.call("unpause")
    assert versions(box, "a.md")[0]["sessions"] == []
    box.call("turn_begin", **{**AGENT, "prompt": "p2"})
    box.call("memory_save", name="later.md", text="# Later\n\nx\n", session="s1")
    assert versions(box, "later.md")[0]["prompts"] == ["p2"]


def test_a_pause_with_an_end_ends_for_the_memory_too(box, clock):
    box.call("pause", for_ms=HOUR_MS)
    (folder(box) / "a.md").write_text("# A\n\ntwo\n")
    clock.advance(2 * HOUR_MS)
    box.call("status")
    wait_until(lambda: noted(box)["state"] == "watching", WAIT_S)
    assert len(versions(box, "a.md")) == 2


def test_a_restart_ends_no_pause(box):
    box.call("pause")
    box.stop()
    (folder_of(box) / "a.md").write_text("# A\n\ntwo\n")
    box.start()
    assert noted(box)["state"] == "paused"
    assert len(versions(box, "a.md")) == 1
    box.call("unpause")
    assert len(versions(box, "a.md")) == 2


def folder_of(box: Box) -> Path:
    (place,) = (box.home.folder / "projects").glob("*/memory")
    return place


@pytest.mark.parametrize("paused", [True, False])
def test_a_daemon_that_was_killed_between_the_two_has_both_alike(box, paused):
    """The tree's row is written first."""
    (project,) = {item["project"] for item in box.call("projects")["items"]}
    watched = box.service.find(str(box.root).encode())
    memory = box.service.memories.of(box.service.memories.directory(project))
    if not paused:
        box.call("pause")
    with watched.lock:
        watched.set_pause(*((box.clock.now_ms(), box.clock.now_ms() + HOUR_MS) if paused else (None, None)))
    assert memory.paused is not paused
    box.stop()
    box.start()
    assert box.service.memories.of(box.service.memories.directory(project)).paused is paused


def test_a_memory_that_comes_to_be_in_a_pause_is_recorded_after_it(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    box.call("watch", path=str(other))
    box.call("pause", path=str(other))
    place = Path(box.call("memory_index", path=str(other))["path"])
    place.mkdir(mode=0o700, parents=True)
    (place / "n.md").write_text("# N\n\nnew\n")
    assert noted(box, other)["state"] == "paused"
    assert noted(box, other)["files"] == 0
    box.call("unpause", path=str(other))
    assert noted(box, other)["files"] == 1


@pytest.fixture(name="second")
def _second(box, tmp_path):
    """Another worktree of the box's project."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    git = ["git", "-C", str(tmp_path / "repo"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "m"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "second")], check=True)
    box.call("watch", path=str(tmp_path / "repo"))
    box.call("watch", path=str(tmp_path / "second"))
    box.root = tmp_path / "repo"
    box.call("memory_save", name="a.md", text="# A\n\none\n")
    return tmp_path / "second"


def test_while_one_tree_of_the_project_is_recorded_its_memory_is_too(box, second):
    box.call("pause")
    assert noted(box)["state"] == "watching"
    box.call("memory_save", name="b.md", text="# B\n\nb\n")
    assert len(versions(box, "b.md")) == 1
    box.call("pause", path=str(second))
    assert noted(box)["state"] == "paused"
    box.call("unpause", path=str(second))
    assert noted(box)["state"] == "watching"


def test_a_tree_that_goes_or_comes_counts(box, second):
    box.call("pause")
    box.call("unwatch", path=str(second))
    assert noted(box)["state"] == "paused"
    box.call("watch", path=str(second))
    assert noted(box)["state"] == "watching"


def test_a_tree_that_is_moved_is_not_paused_any_more_nor_is_its_memory(box):
    box.call("pause")
    moved = box.root.with_name("moved")
    shutil.move(box.root, moved)
    box.call("projects_move", old=str(box.root), new=str(moved))
    assert noted(box, moved)["state"] == "watching"


def test_a_checkpoint_after_a_pause_tells_where_the_memory_stands(box):
    box.call("pause")
    (folder(box) / "a.md").write_text("# A\n\ntwo\n")
    box.call("unpause")
    sealed = box.checkpoint()
    (folder(box) / "a.md").write_text("# A\n\nthree\n")
    box.call("rewind", checkpoint=sealed["id"], memory=True, scope="all")
    assert (folder(box) / "a.md").read_text() == "# A\n\ntwo\n"
    with box.service.timeline.database.reading() as db:
        kinds = db.execute_sql("select count(*) from worktree where kind = ?", (MEMORY,)).fetchone()
    assert kinds == (1,)
