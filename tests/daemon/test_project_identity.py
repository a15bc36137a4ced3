"""Which project a directory belongs to, and what is recorded where projects, repositories and links lie in one another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.trouble import STAGING
from tests.daemon.workloads import commits, run
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box
from tests.kit.recorded import recorded_tree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")

UNCHANGED = {"added": 0, "modified": 0, "removed": 0}


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        yield box


def watch(box: Box, root: Path) -> Any:
    return box.call("watch", path=str(root))


def checkpoint(box: Box, root: Path) -> Any:
    """A checkpoint of the project at ``root`` that holds every file below it but for the insides of repositories."""
    sealed = box.call("checkpoint", path=str(root))
    assert sealed["complete"], sealed
    on_disk = tree_of(root, skip=(b".git", STAGING.encode()))
    assert diff_trees(on_disk, recorded_tree(box, sealed["seq"], root)) == []
    return sealed


def repository(folder: Path, *, bare_of: Path | None = None) -> Path:
    """A repository with one commit, or a clone."""
    if bare_of is not None:
        run("git", "clone", "-q", bare_of, folder)
        return folder
    run("git", "init", "-q", "-b", "main", folder)
    (folder / "file").write_text("one\n")
    run("git", "add", ".", cwd=folder)
    run("git", "commit", "-q", "-m", "one", cwd=folder)
    return folder


# Worktrees


@pytest.mark.parametrize("linked_first", [False, True])
@pytest.mark.parametrize("place", ["linked", "project/trees/linked"], ids=["beside", "inside"])
def test_the_worktrees_of_a_repository_are_one_project_with_a_history_each(box, tmp_path, place, linked_first):
    main, linked = repository(box.root), tmp_path / place
    run("git", "worktree", "add", "-q", linked, cwd=main)

    roots = [linked, main] if linked_first else [main, linked]
    one, other = (watch(box, root) for root in roots)

    assert one["project"] == other["project"]
    assert one["worktree"] != other["worktree"]
    (linked / "new").write_text("in the linked one")
    assert checkpoint(box, linked)["changed"] == {"added": 1, "modified": 0, "removed": 0}
    inside = linked.is_relative_to(main)
    assert checkpoint(box, main)["changed"] == {"added": int(inside), "modified": 0, "removed": 0}


def test_a_worktree_that_is_added_to_a_watched_repository_joins_its_project(box, tmp_path):
    commits(box.root, 48)
    project = watch(box, box.root)["project"]
    run("git", "worktree", "add", "-q", tmp_path / "linked", "one", cwd=box.root)

    assert watch(box, tmp_path / "linked")["project"] == project
    run("git", "checkout", "-q", "--detach", "two", cwd=tmp_path / "linked")
    checkpoint(box, tmp_path / "linked")
    assert checkpoint(box, box.root)["changed"] == UNCHANGED


def test_a_clone_is_a_project_of_its_own(box, tmp_path):
    project = watch(box, repository(box.root))["project"]

    assert watch(box, repository(tmp_path / "clone", bare_of=box.root))["project"] != project


# Repositories in one another


def test_the_files_of_a_submodule_are_recorded_and_its_repository_is_not(box, tmp_path):
    commits(tmp_path / "library", 48)
    outer = repository(box.root)
    run(
        "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", tmp_path / "library", "sub", cwd=outer
    )
    project = watch(box, outer)["project"]
    assert (outer / "sub" / ".git").is_file()
    checkpoint(box, outer)
    run("git", "checkout", "-q", "origin/one", cwd=outer / "sub")
    assert checkpoint(box, outer)["changed"] != UNCHANGED

    inner = watch(box, outer / "sub")

    assert (inner["project"] == project, inner["root"]) == (False, str(outer / "sub"))


@pytest.mark.parametrize("made", ["before", "after"])
def test_the_files_of_a_nested_repository_are_recorded_and_its_repository_is_not(box, made):
    outer = repository(box.root)
    if made == "before":
        commits(outer / "deep" / "inner", 48)
    watch(box, outer)
    if made == "after":
        commits(outer / "deep" / "inner", 48)
    checkpoint(box, outer)
    run("git", "checkout", "-q", "one", cwd=outer / "deep" / "inner")
    checkpoint(box, outer)
    run("git", "commit", "-q", "--allow-empty", "-m", "nothing", cwd=outer / "deep" / "inner")
    assert checkpoint(box, outer)["changed"] == UNCHANGED


def test_a_directory_that_becomes_a_repository_or_stops_being_one_stays_the_same_project(box):
    (box.root / "file").write_text("one")
    before = watch(box, box.root)
    repository(box.root)
    assert (watch(box, box.root)["worktree"], checkpoint(box, box.root)["changed"]["modified"]) == (
        before["worktree"],
        1,
    )
    shutil.rmtree(box.root / ".git")
    assert watch(box, box.root)["worktree"] == before["worktree"]
    assert checkpoint(box, box.root)["changed"] == UNCHANGED


# Projects in one another


@pytest.mark.parametrize("inner_first", [False, True])
def test_a_change_in_a_project_inside_another_is_in_both(box, inner_first):
    inner = box.root / "packages" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("one")
    roots = [inner, box.root] if inner_first else [box.root, inner]
    one, other = (watch(box, root) for root in roots)
    assert one["project"] != other["project"]
    (inner / "file").write_text("two, longer")

    assert checkpoint(box, inner)["changed"] == {"added": 0, "modified": 1, "removed": 0}
    assert checkpoint(box, box.root)["changed"] == {"added": 0, "modified": 1, "removed": 0}
    assert len(box.call("log", path=str(inner))["items"]) == 2


def test_a_rewind_of_the_inner_project_is_a_change_of_the_outer_one(box):
    inner = box.root / "inner"
    inner.mkdir()
    (inner / "file").write_text("one")
    watch(box, box.root)
    watch(box, inner)
    (inner / "file").write_text("two, longer")
    checkpoint(box, box.root)

    box.call("rewind", path=str(inner), checkpoint="1")

    assert (inner / "file").read_text() == "one"
    assert checkpoint(box, box.root)["changed"] == {"added": 0, "modified": 1, "removed": 0}
    checkpoint(box, inner)


def test_what_an_unwatched_inner_project_was_belongs_to_the_outer_one(box):
    inner = box.root / "inner"
    inner.mkdir()
    watch(box, box.root)
    watch(box, inner)
    box.call("unwatch", path=str(inner))
    (inner / "file").write_text("one")

    assert box.call("checkpoint", path=str(inner))["changed"] == {"added": 1, "modified": 0, "removed": 0}
    checkpoint(box, box.root)


# Other names of one directory


def _itself(tmp_path: Path, root: Path) -> Path:
    link = tmp_path / "link"
    link.symlink_to(root)
    return link


def _a_parent(tmp_path: Path, root: Path) -> Path:
    link = tmp_path / "link"
    link.symlink_to(root.parent)
    return link / root.name


def _a_link_to_a_link(tmp_path: Path, root: Path) -> Path:
    again = tmp_path / "again"
    again.symlink_to(_itself(tmp_path, root).name)
    return again


def _with_dots(tmp_path: Path, root: Path) -> Path:
    (root / "folder").mkdir()
    return root / "folder" / ".." / "." / "folder" / ".."


@pytest.mark.parametrize("linked_first", [False, True])
@pytest.mark.parametrize("other_name", [_itself, _a_parent, _a_link_to_a_link, _with_dots])
def test_other_names_of_a_directory_mean_the_same_project(box, tmp_path, other_name, linked_first):
    other = other_name(tmp_path, box.root)
    names = [other, box.root] if linked_first else [box.root, other]
    first, second = (watch(box, name) for name in names)

    assert (first["root"], first["created"]) == (str(box.root), True)
    assert (second["root"], second["created"], second["worktree"]) == (str(box.root), False, first["worktree"])
    (other / "file").write_text("one")
    assert box.call("checkpoint", path=str(other))["changed"]["added"] == 1
    assert box.call("log", path=str(other)) == box.call("log", path=str(box.root))
    assert len(box.call("projects")["items"]) == 1
    checkpoint(box, box.root)


def test_a_link_in_one_project_to_another_means_the_other(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (box.root / "link").symlink_to(other)
    watch(box, box.root)
    watch(box, other)
    (other / "file").write_text("one")

    assert box.call("checkpoint", path=str(box.root / "link"))["changed"]["added"] == 1
    checkpoint(box, other)
    assert checkpoint(box, box.root)["changed"] == UNCHANGED


def test_names_that_differ_in_case_only_are_two_projects_where_the_disk_says_so(box, tmp_path):
    other = tmp_path / box.root.name.upper()
    try:
        other.mkdir()
    except FileExistsError:
        pytest.skip("one name to this file system")
    assert watch(box, box.root)["project"] != watch(box, other)["project"]
    (other / "file").write_text("one")
    checkpoint(box, other)
    assert checkpoint(box, box.root)["changed"] == UNCHANGED


def test_a_root_that_is_renamed_in_case_only_is_another_path_and_its_history_is_offered(box):
    (box.root / "file").write_text("one")
    watch(box, box.root)
    renamed = box.root.rename(box.root.parent / box.root.name.upper())

    answer = watch(box, renamed)

    assert (answer["created"], answer["root"]) == (True, os.fspath(renamed))
    assert [item["root"] for item in answer["lookalikes"]] == [os.fspath(box.root)]
    checkpoint(box, renamed)
