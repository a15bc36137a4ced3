"""A worktree's notes on top of the project's: read as one, written above, and nothing below changes."""

from __future__ import annotations

import pytest

from openoxide.errors import ConflictError, NotFoundError, RefusedError
from openoxide.memory.editing import ABSENT, Append, Replace
from openoxide.memory.layered import Staged, memory_of
from openoxide.memory.toolapi import MemoryTool
from openoxide.memory.worktrees import Policy, layers
from tests.kit import FakeClock, diff_trees, tree_of
from tests.memory.kit import PROJECT, memory_in

BELOW = "# A\n\nof the project\n"


@pytest.fixture(name="below")
def _below(tmp_path):
    shared = memory_in(tmp_path)
    shared.save("a.md", BELOW, expect=ABSENT)
    return shared


@pytest.fixture(name="staged")
def _staged(tmp_path, below):
    return memory_of(layers(tmp_path, PROJECT, "2", Policy.STAGED), FakeClock())


@pytest.fixture(autouse=True)
def _nothing_changes_below(below):
    before = tree_of(below.directory.path)
    yield
    assert diff_trees(before, tree_of(below.directory.path)) == []


@pytest.mark.parametrize("policy", list(Policy))
def test_only_a_staged_memory_has_two_layers(tmp_path, policy):
    found = memory_of(layers(tmp_path, PROJECT, "2", policy), FakeClock())
    assert isinstance(found, Staged) == (policy is Policy.STAGED)


def test_both_are_read_as_one(staged, below):
    assert staged.read("a.md") == below.read("a.md")
    staged.save("b.md", "# B\n\nof the branch\n", expect=ABSENT)

    assert [topic.name for topic in staged.topics()] == ["a.md", "b.md"]
    assert staged.listing().names == ["MEMORY.md", "a.md", "b.md"]
    assert staged.read("MEMORY.md").text == "- [B](b.md) — of the branch\n- [A](a.md) — of the project\n"
    assert staged.load_index().lines == 2
    with pytest.raises(NotFoundError):
        staged.read("c.md")


def test_a_topic_of_the_project_is_copied_up_when_it_is_edited(staged):
    staged.edit("a.md", Append(text="- more"))
    staged.edit("a.md", Append(text="- even more"))

    assert staged.read("a.md").text == BELOW + "- more\n- even more\n"
    assert staged.directory.listing().names == ["MEMORY.md", "a.md"]
    assert staged.load_index().text.count("a.md") == 1
    assert [topic.name for topic in staged.topics()] == ["a.md"]

    gone = staged.delete("a.md", expect=staged.read("a.md").sha256)
    assert gone.advice == ("the project's a.md is read again",)
    assert staged.read("a.md").text == BELOW


@pytest.mark.parametrize("edit", [Append(text="of the project"), Replace(old="nowhere", new="x")])
def test_an_edit_that_the_project_would_refuse_is_refused_here_too(staged, edit):
    with pytest.raises((RefusedError, ConflictError)):
        staged.edit("a.md", edit)
    with pytest.raises(ConflictError):
        staged.edit("a.md", Append(text="x"), expect="another")
    assert staged.directory.listing().names == []


def test_a_whole_text_says_what_it_replaces_also_below(staged, below):
    for expect in (ABSENT, "another"):
        with pytest.raises(ConflictError):
            staged.save("a.md", "# A\n\nnew\n", expect=expect)
    assert staged.directory.listing().names == []
    staged.save("a.md", "# A\n\nnew\n", expect=below.read("a.md").sha256)
    assert staged.read("a.md").text == "# A\n\nnew\n"


def test_what_is_the_projects_alone_is_not_deleted_or_renamed_from_here(staged):
    for act in (
        lambda: staged.delete("a.md", expect=staged.read("a.md").sha256),
        lambda: staged.rename("a.md", "b.md"),
    ):
        with pytest.raises(RefusedError, match="is the project's"):
            act()
    staged.save("b.md", "b\n", expect=ABSENT)
    with pytest.raises(ConflictError):
        staged.rename("b.md", "a.md")
    staged.rename("b.md", "c.md")


def test_the_index_is_written_above(staged):
    staged.edit("MEMORY.md", Append(text="- of the branch"))

    assert staged.read("MEMORY.md").text.splitlines() == ["- of the branch", "- [A](a.md) — of the project"]
    assert staged.directory.index().data == b"- of the branch\n"


def test_upkeep_names_only_the_own_topics_and_marks_no_line_that_leads_below(staged):
    assert staged.maintain() == []
    staged.edit("MEMORY.md", Append(text="- [see](a.md)"))
    (staged.directory.path / "b.md").write_text("# B\n")

    assert [change.name for change in staged.maintain()] == ["b.md"]
    assert "a.md) — gone" not in staged.load_index().text


def test_the_memory_tool_works_on_both(staged):
    tool = MemoryTool(staged)

    assert "/memories/a.md" in tool.run({"command": "view", "path": "/memories"}).text
    assert tool.run({"command": "create", "path": "/memories/a.md", "file_text": "x"}).is_error
    assert tool.run({"command": "delete", "path": "/memories/a.md"}).is_error
    edit = {"command": "str_replace", "path": "/memories/a.md", "old_str": "project", "new_str": "branch"}
    assert not tool.run(edit).is_error
    assert staged.read("a.md").text == "# A\n\nof the branch\n"


def test_a_text_that_is_refused_is_in_the_trash(staged):
    with pytest.raises(ConflictError) as refused:
        staged.save("a.md", "# A\n\nmine, and long\n", expect=ABSENT)

    staged.restore(refused.value.details["kept"], "a.md", "mine.md")
    assert staged.read("mine.md").text == "# A\n\nmine, and long\n"
