"""``unwatch --delete-history`` and the notes of a project: they stay, and their history goes with the last worktree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openoxide.checkpoints.model import MEMORY
from openoxide.errors import NotFoundError, RefusedError
from tests.daemon.test_purging import problems
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box
from tests.kit.rawhome import texts

GONE = b"marker-of-an-older-version"


def folder(box: Box, path: Path | None = None) -> Path:
    return Path(box.call("memory_index", **({"path": str(path)} if path else {}))["path"])


def histories(box: Box) -> int:
    with box.service.timeline.database.reading() as db:
        return db.execute_sql("select count(*) from worktree where kind = ?", (MEMORY,)).fetchone()[0]


def stored(box: Box) -> bytes:
    return b"".join(data for where, data in texts(box.home.blobs))


@pytest.fixture(name="box")
def _noted(box):
    """A note with two versions."""
    for text in (GONE, b"now\n"):
        folder(box).mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder(box) / "a.md").write_bytes(text)
        box.checkpoint()
    return box


def test_the_notes_stay_and_their_history_goes_with_the_last_worktree(box):
    place = folder(box)
    before = tree_of(place)
    would = box.call("unwatch", delete_history=True, dry_run=True)
    left = {"worktree": "", "path": str(place), "files": 1, "versions": 2, "history_deleted": True, "command": None}
    assert (would["memories"], GONE in stored(box)) == ([left], True)
    answer = box.call("unwatch", delete_history=True)
    assert answer["memories"] == would["memories"]
    assert not diff_trees(tree_of(place), before)
    assert (histories(box), GONE in stored(box), problems(box)) == (0, False, [])


def test_a_tree_that_is_watched_again_is_another_project_with_a_memory_of_its_own(box):
    place = folder(box)
    box.call("unwatch", delete_history=True)
    box.watch()
    assert folder(box) != place
    box.call("memory_save", name="b.md", text="# B\n\nb\n")
    assert {item["name"] for item in box.call("memory_history")["items"]} == {"MEMORY.md", "b.md"}


def test_unwatch_alone_keeps_all_of_it(box):
    assert box.call("unwatch")["memories"] == []
    assert [item["reason"] for item in box.call("memory_history", name="a.md")["items"]] == ["", ""]
    box.watch()
    assert len(box.call("memory_history", name="a.md")["items"]) == 2


def test_while_another_worktree_has_the_project_nothing_of_it_goes(box, tmp_path):
    repo, second = tmp_path / "repo", tmp_path / "second"
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "m"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(second)], check=True)
    for root in (repo, second):
        box.call("watch", path=str(root))
    box.call("memory_save", path=str(repo), name="n.md", text="# N\n\nn\n")
    box.call("unwatch", path=str(second))

    answer = box.call("unwatch", path=str(repo), delete_history=True)

    left = {"path": str(folder(box, second)), "files": 2, "versions": 0, "history_deleted": False}
    assert answer["memories"] == [{"worktree": "", **left, "command": None}]
    assert len(box.call("memory_history", path=str(second), name="n.md")["items"]) == 1
    (last,) = box.call("unwatch", path=str(second), delete_history=True)["memories"]
    assert (last["files"], last["history_deleted"], histories(box)) == (2, True, 1)


def test_a_project_without_notes_has_nothing_to_tell(box, tmp_path):
    (tmp_path / "other").mkdir()
    box.call("watch", path=str(tmp_path / "other"))
    assert box.call("unwatch", path=str(tmp_path / "other"), delete_history=True)["memories"] == []


def test_an_operation_on_the_notes_that_is_open_is_in_the_way(box):
    box.call("rewind", checkpoint="2", memory=True, scope="all")
    with box.service.timeline.database.writing() as db:
        db.execute_sql("update operation set phase = 'interrupted', bound = null where bound is not null")
    with pytest.raises(RefusedError, match="interrupted"):
        box.call("unwatch", delete_history=True)
    assert histories(box) == 1


def test_what_still_works_in_the_background_makes_no_history_of_a_forgotten_project(box):
    (project,) = {item["project"] for item in box.call("projects")["items"]}
    box.call("unwatch", delete_history=True)
    with pytest.raises(NotFoundError):
        box.service.memories.of(box.service.memories.directory(project))
    assert histories(box) == 0
