"""Pauses, purges and ``unwatch`` where the worktrees of a project have notes of their own (``memory.worktrees``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openoxide.errors import NotFoundError, RefusedError, UsageError
from tests.daemon.test_purging import problems
from tests.daemon.test_worktree_memories import APART, Pair, git
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box
from tests.kit.rawhome import texts

TOKEN = b"ghp_" + b"q8Zr2Lk9TmB4vN7c" * 2 + b"Xy1a"


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> Iterator[Pair]:
    with Box(tmp_path, clock=FakeClock()) as box:
        yield Pair(box)


def write(pair: Pair, tree: Path, name: str, text: bytes) -> None:
    """As an agent's own tool does, which asks nobody; at once, as the empty file before it may be a version too."""
    folder = pair.folder(tree)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (pair.box.root.parent / "written").write_bytes(text)
    (pair.box.root.parent / "written").replace(folder / name)
    pair.call("memory_history", tree)


def where(pair: Pair, needle: bytes) -> list[str]:
    return [at for at, data in texts(pair.box.home.folder) if needle in data]


def versions(pair: Pair, tree: Path, name: str) -> list[str]:
    return [item["reason"] for item in pair.call("memory_history", tree, name=name)["items"]]


def own_state(pair: Pair, tree: Path) -> str:
    return pair.status(tree)["memory"]["state"]


@pytest.mark.parametrize("policy", APART)
def test_a_worktrees_own_notes_are_paused_with_it_and_the_projects_with_the_last_that_reads_them(pair, policy):
    pair.save(pair.main, "shared.md", "# Shared\n\nfirst\n")
    project = pair.folder(pair.main)
    pair.policy("shared", side=policy)
    pair.save(pair.side, "own.md", "# Own\n\nfirst\n")
    pair.call("pause", pair.side)
    assert (own_state(pair, pair.side), own_state(pair, pair.main)) == ("paused", "watching")
    (pair.folder(pair.side) / "own.md").write_text("# Own\n\nin the pause\n")
    with pytest.raises(RefusedError, match="paused"):
        pair.save(pair.side, "more.md", "# More\n\nmore\n")
    pair.save(
        pair.main,
        "shared.md",
        "# Shared\n\nsecond\n",
        if_hash=pair.call("memory_read", pair.main, name="shared.md")["hash"],
    )

    pair.call("unpause", pair.side)
    pair.call("pause", pair.main)

    assert len(versions(pair, pair.side, "own.md")) == 2
    # a staged worktree reads the project's notes, so they are recorded on
    memories = pair.box.service.memories
    paused = memories.of(memories.directory(pair.status(pair.main)["project"])).paused
    assert paused == (policy == "separate")
    (project / "shared.md").write_text("# Shared\n\nthird\n")
    pair.call("unpause", pair.main)
    assert len(versions(pair, pair.main, "shared.md")) == 3


def test_the_projects_notes_are_paused_when_the_tree_that_was_left_over_goes(pair):
    pair.save(pair.main, "shared.md", "# Shared\n\nfirst\n")
    pair.policy("staged")
    pair.save(pair.side, "own.md", "# Own\n\nfirst\n")
    pair.call("pause", pair.main)
    memories = pair.box.service.memories
    memory = memories.of(memories.directory(pair.status(pair.main)["project"]))
    assert not memory.paused
    pair.call("unwatch", pair.side)
    assert memory.paused
    assert len(versions(pair, pair.main, "shared.md")) == 1


@pytest.mark.parametrize("policy", APART)
def test_a_purge_acts_on_the_notes_of_the_tree_that_it_is_called_in(pair, policy):
    pair.policy(policy)
    for tree, word in ((pair.main, b"main"), (pair.side, b"side")):
        write(pair, tree, "api.md", b"# Api of %s\n\nold\n" % word)
        write(pair, tree, "api.md", b"# Api of %s\n\nnew\n" % word)
    before = tree_of(pair.folder(pair.main))
    answer = pair.call("purge", pair.side, memory=["api.md"])
    assert (answer["finished"], answer["contents"]) == (True, 1)
    assert (versions(pair, pair.side, "api.md"), versions(pair, pair.main, "api.md")) == (["", "purged"], ["", ""])
    assert not diff_trees(tree_of(pair.folder(pair.main)), before)
    assert (where(pair, b"# Api of side\n\nold"), problems(pair.box)) == ([], [])


def test_a_name_that_only_the_project_has_is_the_projects(pair):
    for text in (b"old", b"new"):
        write(pair, pair.main, "api.md", b"# Api\n\n%s\n" % text)
    project = pair.folder(pair.main)
    pair.policy("staged")
    pair.save(pair.side, "own.md", "# Own\n\nown\n")
    with pytest.raises(UsageError, match=r"own\.md is the worktree's own"):
        pair.call("purge", pair.side, memory=["own.md", "api.md"])
    with pytest.raises(NotFoundError, match="never had"):
        pair.call("purge", pair.side, memory=["nothing.md"])
    answer = pair.call("purge", pair.side, memory=["api.md"])
    assert [(item["root"], item["named"]) for item in answer["paths"]] == [(str(project), True)]
    assert where(pair, b"# Api\n\nold") == []


def test_a_note_of_both_is_the_worktrees_own_and_by_its_place_the_projects(pair):
    for text in (b"old", b"new"):
        write(pair, pair.main, "api.md", b"# Api\n\n%s\n" % text)
    project = pair.folder(pair.main)
    pair.policy("staged")
    for text in (b"own", b"other"):
        write(pair, pair.side, "api.md", b"# Api\n\n%s\n" % text)
    pair.call("purge", pair.side, memory=["api.md"])
    assert (where(pair, b"# Api\n\nown"), bool(where(pair, b"# Api\n\nold"))) == ([], True)
    pair.call("purge", pair.side, memory=[f"{project}/api.md"])
    assert where(pair, b"# Api\n\nold") == []


def test_a_secret_goes_from_all_notes_of_the_project_and_the_files_of_all_that_read_them(pair):
    pair.policy("staged")
    for tree in (pair.main, pair.side):
        pair.save(tree, "kept.md", "# Kept\n\nkept\n")
    write(pair, pair.side, "other.md", b"# Other\n\n%s\n" % TOKEN)
    write(pair, pair.side, "other.md", b"# Other\n\nclean\n")
    pair.box.call("pause", path=str(pair.side))  # what an own layer holds is found there, paused or not
    generated = [
        Path(pair.call("memory_context", tree, agent="aider", write=True)["written"]) for tree in (pair.main, pair.side)
    ]
    write(pair, pair.main, "api.md", b"# Api\n\n%s\n" % TOKEN)
    write(pair, pair.main, "api.md", b"# Api\n\nclean\n")
    left_over = pair.box.home.folder / "projects" / pair.status(pair.main)["project"] / "context" / "aider.md"
    left_over.parent.mkdir(parents=True, mode=0o700)
    for file in (*generated, left_over):
        file.write_bytes(b"as it was, with %s\n" % TOKEN)

    answer = pair.call("purge", pair.main, memory=["api.md"])

    assert [(item["path"], item.get("reason", "")) for item in answer["paths"]] == [
        ("api.md", ""), ("other.md", "the same secret")
    ]  # fmt: skip
    assert (where(pair, TOKEN), problems(pair.box)) == ([], [])
    # nobody's notes are those of the project itself, so nobody would keep its file up to date
    assert ([file.exists() for file in generated], left_over.exists()) == ([True, True], False)


def test_a_note_of_another_worktree_that_stands_with_the_secret_is_told_of_and_left(pair):
    pair.policy("separate")
    write(pair, pair.main, "api.md", b"# Api\n\n%s\n" % TOKEN)
    write(pair, pair.main, "api.md", b"# Api\n\nclean\n")
    write(pair, pair.side, "notes.md", b"# Notes\n\n%s too\n" % TOKEN)
    answer = pair.call("purge", pair.main, memory=["api.md"])
    assert [f"notes.md in {pair.folder(pair.side)} holds a secret" in left for left in answer["left"]] == [True]
    assert (pair.folder(pair.side) / "notes.md").read_bytes() == b"# Notes\n\n%s too\n" % TOKEN
    assert versions(pair, pair.main, "api.md") == ["", "purged"]


@pytest.mark.parametrize("policy", APART)
def test_the_history_of_a_worktrees_own_notes_goes_with_it_and_they_stay(pair, policy):
    pair.policy(policy)
    write(pair, pair.side, "own.md", b"# Own\n\nmarker of an older version\n")
    write(pair, pair.side, "own.md", b"# Own\n\nnow\n")
    place, before, had = (
        pair.folder(pair.side),
        tree_of(pair.folder(pair.side)),
        len(versions(pair, pair.side, "own.md")),
    )
    would = pair.call("unwatch", pair.side, delete_history=True, dry_run=True)
    answer = pair.call("unwatch", pair.side, delete_history=True)
    (notes,) = answer["memories"]
    assert [notes] == would["memories"]
    assert (notes["path"], notes["files"], notes["versions"], notes["history_deleted"]) == (str(place), 1, had, True)
    assert not diff_trees(tree_of(place), before)
    assert (where(pair, b"marker of an older version"), problems(pair.box)) == ([], [])

    # its number is nobody else's, so no tree reads them by accident
    git(pair.main, "worktree", "add", "-q", str(pair.main.with_name("third")))
    third = pair.main.with_name("third")
    pair.call("watch", third)
    assert (pair.folder(third) != place, pair.topics(third)) == (True, [])

    assert notes["command"] == f"oxide-ctl -C {pair.main} memory promote --from {notes['worktree']}"
    assert pair.call("memory_promote", pair.main, **{"from": notes["worktree"]})["items"][0]["became"] == "added"


def test_with_the_last_worktree_the_histories_of_all_notes_of_the_project_go(pair):
    pair.save(pair.main, "shared.md", "# Shared\n\nshared\n")
    pair.policy("staged")
    write(pair, pair.main, "own.md", b"# Own\n\nof main\n")
    write(pair, pair.side, "own.md", b"# Own\n\nof side\n")
    first = pair.call("unwatch", pair.side, delete_history=True)["memories"]
    assert [(bool(one["worktree"]), one["history_deleted"]) for one in first] == [(True, True), (False, False)]
    last = pair.call("unwatch", pair.main, delete_history=True)["memories"]
    assert [(bool(one["worktree"]), one["files"], one["history_deleted"], one["command"]) for one in last] == [
        (True, 1, True, None), (False, 2, True, None), (True, 1, True, None)
    ]  # fmt: skip
    with pair.box.service.timeline.database.reading() as db:
        assert db.execute_sql("select count(*) from worktree").fetchone()[0] == 0
