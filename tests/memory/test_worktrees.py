"""One memory for a project, or one for each worktree, and no note in the wrong one."""

from __future__ import annotations

import shutil

import pytest

from openoxide.errors import RefusedError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import ABSENT, Append
from openoxide.memory.worktrees import Policy, Promoted, index_of, kept_apart, layers, orphans, promote
from tests.memory.kit import PROJECT, memory_in, place


@pytest.mark.parametrize(
    ("policy", "same", "reads_below"),
    [(Policy.SHARED, True, False), (Policy.SEPARATE, False, False), (Policy.STAGED, False, True)],
)
def test_what_two_worktrees_have_in_common(tmp_path, policy, same, reads_below):
    one, other = (layers(tmp_path, PROJECT, worktree, policy) for worktree in ("1", "2"))

    assert (one.own.path == other.own.path) is same
    assert (one.below is not None) is reads_below


@pytest.mark.parametrize("policy", list(Policy))
def test_a_directory_of_no_project_has_no_memory(tmp_path, policy):
    with pytest.raises(RefusedError, match="belongs to no project"):
        layers(tmp_path, "", "1", policy)
    assert list(tmp_path.iterdir()) == []


def test_a_fact_of_a_branch_is_not_in_the_project_until_it_is_promoted(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    shared.save("a.md", "# A\n\nold\n", expect=ABSENT)
    staged.save("b.md", "# B\n\nof the branch\n", expect=ABSENT)
    view = layers(tmp_path, PROJECT, "2", Policy.STAGED)

    assert index_of(view) == "- [B](b.md) — of the branch\n- [A](a.md) — old\n".encode()
    assert shared.load_index().text == "- [A](a.md) — old"

    assert promote(staged, shared) == [Promoted(name="b.md", became="added")]
    assert shared.load_index().text == "- [B](b.md) — of the branch\n- [A](a.md) — old"
    assert promote(staged, shared) == [Promoted(name="b.md", became="same")]


def test_what_both_have_is_kept_both(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    shared.save("a.md", "# A\n- one\n- theirs\n", expect=ABSENT)
    staged.save("a.md", "# A\n- one\n- ours\n", expect=ABSENT)
    staged.edit("MEMORY.md", Append(text="- a note without a topic"))

    done = promote(staged, shared)

    assert [(one.name, one.became) for one in done] == [("a.md", "both"), ("MEMORY.md", "both")]
    assert shared.read("a.md").text == "# A\n- one\n- theirs\n- ours\n"
    assert shared.load_index().text.splitlines()[0] == "- a note without a topic"
    assert [one.became for one in promote(staged, shared)] == ["same"]


def test_a_secret_of_a_branch_stays_there(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    place(staged.directory.path, "s.md", "ghp_" + "a1B2" * 9)
    place(staged.directory.path, "t.md", "fine\n")

    assert [(one.name, one.became) for one in promote(staged, shared)] == [("s.md", "refused"), ("t.md", "added")]
    assert [topic.name for topic in shared.topics()] == ["t.md"]


def test_a_memory_outlives_its_worktree(tmp_path):
    tree = place(tmp_path, "work/2/file.txt", "x").parent
    memory_in(tmp_path / "home", worktree="2").save("b.md", "b\n", expect=ABSENT)
    MemoryDirectory(tmp_path / "home", PROJECT, "3")

    shutil.rmtree(tree)

    assert kept_apart(tmp_path / "home", PROJECT) == ["2"]
    assert orphans(tmp_path / "home", PROJECT, {"1"}) == ["2"]
    assert orphans(tmp_path / "home", PROJECT, {"2"}) == []
    assert orphans(tmp_path / "none", PROJECT, ()) == []
