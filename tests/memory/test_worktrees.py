"""One memory for a project, or one for each worktree, and no note in the wrong one."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.errors import RefusedError
from openoxide.memory.directory import MOST_READ_BYTES, MemoryDirectory
from openoxide.memory.editing import ABSENT, Append
from openoxide.memory.worktrees import Layers, Policy, Promoted, index_of, kept_apart, layers, orphans, promote, retire
from tests.kit import diff_trees, tree_of
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


def test_a_last_line_without_its_end_is_not_promoted_twice(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    shared.save("a.md", "# A\n\nmine", expect=ABSENT)
    staged.save("a.md", "# A\n\nmine\nfeature addition\n", expect=ABSENT)

    assert promote(staged, shared) == [Promoted(name="a.md", became="both")]
    assert shared.read("a.md").text == "# A\n\nmine\nfeature addition\n"


def test_a_dry_run_of_a_promotion_says_the_same_and_writes_nothing(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    shared.save("both.md", "# Both\n- theirs\n", expect=ABSENT)
    shared.save("same.md", "# Same\n\nthe same\n", expect=ABSENT)
    for name, text in {
        "both.md": "# Both\n- ours\n",
        "copy.md": "# Same\n\nthe same\n",
        "new.md": "# New\n",
        "same.md": "# Same\n\nthe same\n",
        "secret.md": "ghp_" + "a1B2" * 9,
        "table.csv": "a,b\n",
    }.items():
        place(staged.directory.path, name, text)
    staged.edit("MEMORY.md", Append(text="- a note without a topic"))
    before = tree_of(shared.directory.path)

    planned = promote(staged, shared, dry_run=True)

    assert diff_trees(before, tree_of(shared.directory.path)) == []
    assert {one.name: one.became for one in planned} == {
        "MEMORY.md": "both", "both.md": "both", "copy.md": "same", "new.md": "added", "same.md": "same",
        "secret.md": "refused", "table.csv": "refused",
    }  # fmt: skip
    assert promote(staged, shared) == planned


def test_what_was_promoted_goes_to_the_trash_of_where_it_came_from(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    for name in ("a.md", "b.md"):
        staged.save(name, f"# {name}\n", expect=ABSENT)
    staged.edit("MEMORY.md", Append(text="- a note without a topic"))
    done = promote(staged, shared)
    place(staged.directory.path, "b.md", "# b.md\n\nwritten since\n")

    assert retire(staged, shared, done) == ["a.md"]
    assert staged.directory.listing().names == ["MEMORY.md", "b.md"]

    assert retire(staged, shared, promote(staged, shared)) == ["b.md", "MEMORY.md"]
    assert kept_apart(tmp_path, PROJECT) == []
    assert shared.read("b.md").text.endswith("written since\n")
    assert "- a note without a topic" in shared.load_index().text
    assert {one.name for one in staged.trash()} == {"a.md", "b.md", "MEMORY.md"}


def test_nothing_is_left_where_all_was_promoted(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    staged.save("a.md", "# A\n", expect=ABSENT)

    assert retire(staged, shared, promote(staged, shared)) == ["a.md", "MEMORY.md"]
    assert kept_apart(tmp_path, PROJECT) == []


def test_a_line_that_a_killed_retirement_left_does_not_keep_the_index(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    for name in ("a.md", "b.md"):
        staged.save(name, f"# {name}\n", expect=ABSENT)
    promote(staged, shared)
    (staged.directory.path / "a.md").unlink()

    assert retire(staged, shared, promote(staged, shared)) == ["b.md", "MEMORY.md"]

    place(staged.directory.path, "MEMORY.md", "- [Elsewhere](nowhere.md)\n")
    assert retire(staged, shared, promote(staged, shared)) == []


def test_a_note_that_came_since_keeps_the_index_where_it_is(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    staged.edit("MEMORY.md", Append(text="- a note"))
    done = promote(staged, shared)
    staged.edit("MEMORY.md", Append(text="- a later one"))

    assert retire(staged, shared, done) == []


def test_a_topic_that_is_cut_is_not_promoted(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    place(staged.directory.path, "long.md", b"x" * (MOST_READ_BYTES + 1))

    (one,) = promote(staged, shared)

    assert one.became == "refused"
    assert shared.topics() == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5), min_size=2, max_size=2),
)
def test_no_line_of_either_is_lost_by_a_promotion(tmp_path_factory, texts):
    home = tmp_path_factory.mktemp("home")
    shared, staged = memory_in(home), memory_in(home, worktree="2")
    for memory, lines in zip((shared, staged), texts, strict=True):
        memory.save("a.md", "".join(f"- {line}\n" for line in lines), expect=ABSENT)

    promote(staged, shared)

    assert set(shared.read("a.md").text.splitlines()) == {f"- {line}" for lines in texts for line in lines}


def test_the_index_names_a_topic_that_is_in_both_once_and_as_the_worktree_does(tmp_path):
    shared, staged = memory_in(tmp_path), memory_in(tmp_path, worktree="2")
    shared.save("a.md", "# A\n\nof the project\n", expect=ABSENT)
    staged.save("a.md", "# A\n\nof the branch\n", expect=ABSENT)

    assert index_of(Layers(own=staged.directory, below=shared.directory)).decode().splitlines() == [
        "- [A](a.md) — of the branch"
    ]


@pytest.mark.parametrize("name", [".DS_Store", "a b", "x.y"])
def test_what_is_no_memory_lies_beside_those_that_are(tmp_path, name):
    memory_in(tmp_path, worktree="2").save("a.md", "# A\n", expect=ABSENT)
    (tmp_path / "projects" / PROJECT / "worktrees" / name).mkdir()
    (tmp_path / "projects" / PROJECT / "worktrees" / "3").mkdir()
    (tmp_path / "projects" / PROJECT / "worktrees" / "3" / "memory").touch()

    assert kept_apart(tmp_path, PROJECT) == ["2"]
