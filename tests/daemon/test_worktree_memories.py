"""``memory.worktrees``: each worktree of a project has the memory that the policy gives it, and a change of it loses none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from openoxide.checkpoints import store
from openoxide.checkpoints.hashing import blob_hash
from openoxide.daemon.memories import whose
from openoxide.errors import AmbiguousError, ConflictError, NotFoundError, RefusedError
from openoxide.settings import MemorySettings
from tests.kit import FakeClock, diff_trees, tree_of
from tests.kit.box import Box

AGENT = {"agent": "codex", "session": "s1"}
APART = ("separate", "staged")


def git(folder: Path, *words: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, env=environ, check=True, capture_output=True)


class Pair:
    """A repository (``main``) and a linked worktree of it (``side``), both watched."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.main, self.side = box.root, box.root.with_name("side")
        git(self.main, "init", "-q")
        (self.main / "code.txt").write_text("one\n")
        git(self.main, "add", ".")
        git(self.main, "commit", "-qm", "first")
        git(self.main, "worktree", "add", "-q", str(self.side))
        box.watch()
        box.call("watch", path=str(self.side))

    def policy(self, name: str, **own: str) -> None:
        """Start anew with ``memory.worktrees``, and what main or side have of their own."""
        self.box.stop()
        projects = {str(getattr(self, tree)): {"memory.worktrees": value} for tree, value in own.items()}
        self.box.settings = replace(self.box.settings, memory=MemorySettings(worktrees=name), projects=projects)
        self.box.start()

    def call(self, operation: str, tree: Path, /, **more):
        return self.box.call(operation, path=str(tree), **more)

    def save(self, tree: Path, name: str, text: str, **more):
        return self.call("memory_save", tree, name=name, text=text, **more)

    def folder(self, tree: Path) -> Path:
        return Path(self.call("memory_index", tree)["path"])

    def topics(self, tree: Path) -> list[str]:
        return [item["name"] for item in self.call("memory_topics", tree)["items"]]

    def status(self, tree: Path):
        return next(item for item in self.box.call("status")["worktrees"] if item["root"] == str(tree))

    def given(self, tree: Path, agent: str = "codex") -> str:
        payload = {"session_id": "s", "cwd": str(tree), "source": "startup", "transcript_path": "/t"}
        said = self.box.call("hook", payload=payload, agent=agent, event="SessionStart")["stdout"]
        return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""

    def promote(self, tree: Path, **more):
        answer = self.call("memory_promote", tree, **more)
        return {item["name"]: item["became"] for item in answer["items"]}


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> Iterator[Pair]:
    with Box(tmp_path, clock=FakeClock()) as box:
        yield Pair(box)


def settled(pair: Pair) -> None:
    """Returns when all that waited in the background is done."""
    done = threading.Event()
    pair.box.service.background.submit("behind it", done.set)
    assert done.wait(30)


def prompts(pair: Pair, tree: Path, name: str) -> list[list[str]]:
    return [version["prompts"] for version in pair.call("memory_history", tree, name=name)["items"]]


@pytest.mark.parametrize(
    ("root", "found"),
    [
        (b"/h/projects/kkkk/memory", ("kkkk", "")),
        (b"/h/projects/kkkk/worktrees/12/memory", ("kkkk", "12")),
        (b"/worktrees/projects/h/projects/kkkk/memory", ("kkkk", "")),
    ],
)
def test_whose_a_memory_is_stands_in_its_root(root, found):
    assert whose(root) == found


@pytest.mark.parametrize("policy", ["shared", "separate", "staged"])
def test_m6_two_worktrees_have_one_memory_or_each_its_own(pair, policy):
    pair.policy(policy)
    project = {item["project"] for item in pair.box.call("projects")["items"]}
    assert len(project) == 1
    assert (pair.folder(pair.main) == pair.folder(pair.side)) == (policy == "shared")
    pair.save(pair.main, "main.md", "# Main\n\nmain\n")
    pair.save(pair.side, "side.md", "# Side\n\nside\n")
    both = ["main.md", "side.md"]
    assert pair.topics(pair.main) == (both if policy == "shared" else both[:1])
    assert pair.topics(pair.side) == (both if policy == "shared" else both[1:])
    assert pair.status(pair.side)["memory"]["policy"] == policy


def test_a_worktree_without_a_word_of_its_own_goes_by_its_project(pair):
    pair.policy("shared", main="staged")
    assert pair.folder(pair.side).parent.parent.name == "worktrees"
    pair.policy("staged", side="shared")
    assert pair.folder(pair.side).parent.parent.name == "projects"
    assert pair.folder(pair.main).parent.parent.name == "worktrees"
    pair.policy("staged", main="shared", side="staged")
    assert (pair.folder(pair.main).parent.parent.name, pair.folder(pair.side).parent.parent.name) == (
        "projects",
        "worktrees",
    )


def test_m7_what_a_worktree_that_is_gone_noted_is_told_of_with_the_command_that_brings_it_back(pair):
    pair.policy("separate")
    pair.save(pair.side, "side.md", "# Side\n\nside\n")
    assert pair.status(pair.main)["unread_memories"] == []
    git(pair.main, "worktree", "remove", "--force", str(pair.side))

    (told,) = pair.status(pair.main)["unread_memories"]
    assert (told["reason"], told["root"], told["files"]) == ("gone", str(pair.side), 2)
    assert told["command"] == f"oxide-ctl -C {pair.main} memory promote --from {told['worktree']}"
    assert pair.promote(pair.main, **{"from": told["worktree"]}) == {"side.md": "added"}
    assert pair.status(pair.main)["unread_memories"][0]["worktree"] == ""  # nobody reads the project's, either
    pair.policy("shared")
    assert pair.call("memory_read", pair.main, name="side.md")["text"] == "# Side\n\nside\n"
    assert pair.status(pair.main)["unread_memories"] == []


def test_m8_what_is_only_noted_on_a_branch_does_not_reach_the_main_trees_agents_until_it_is_promoted(pair):
    pair.save(pair.main, "old.md", "# Old\n\nof the project\n")
    pair.policy("shared", side="staged")
    pair.save(pair.side, "new.md", "# New\n\nof the branch\n")

    for agent in ("claude", "codex"):
        assert "of the branch" not in pair.given(pair.main, agent)
        assert "of the branch" in pair.given(pair.side, agent)
        assert "of the project" in pair.given(pair.side, agent)
    assert pair.topics(pair.main) == ["old.md"]
    assert [(t["name"], t["layer"]) for t in pair.call("memory_topics", pair.side)["items"]] == [
        ("new.md", "worktree"), ("old.md", "project"),
    ]  # fmt: skip

    assert pair.promote(pair.side) == {"new.md": "added"}
    assert "of the branch" in pair.given(pair.main)
    assert pair.given(pair.side).count("of the branch") == 1
    assert [t["layer"] for t in pair.call("memory_topics", pair.side)["items"]] == ["project", "project"]


def test_m9_a_worktree_that_is_deleted_takes_no_note_along(pair):
    pair.policy("staged")
    pair.save(pair.side, "side.md", "# Side\n\nside\n")
    place = pair.folder(pair.side)
    shutil.rmtree(pair.side)
    assert (place / "side.md").read_text() == "# Side\n\nside\n"


def test_m10_a_worktree_that_was_moved_keeps_the_notes_of_its_own_and_it_is_said(pair):
    pair.policy("separate")
    pair.save(pair.side, "side.md", "# Side\n\nside\n")
    place, moved = pair.folder(pair.side), pair.side.with_name("moved")
    pair.side.rename(moved)
    with pytest.raises(NotFoundError) as told:
        pair.folder(moved)
    assert "projects move" in told.value.hint
    pair.box.call("projects_move", old=str(pair.side), new=str(moved))
    assert (pair.folder(moved), pair.topics(moved)) == (place, ["side.md"])
    assert pair.status(pair.main)["unread_memories"] == []


@pytest.mark.parametrize("policy", ["shared", "separate", "staged"])
def test_m11_a_copy_of_a_repository_writes_nothing_to_the_first_until_somebody_says_that_both_are_one(pair, policy):
    pair.policy(policy)
    pair.save(pair.main, "a.md", "# A\n\na\n")
    copy = pair.main.with_name("copy")
    subprocess.run(["cp", "-a", str(pair.main), str(copy)], check=True)
    with pytest.raises(NotFoundError) as asked:
        pair.save(copy, "b.md", "b\n")
    assert f"oxide-ctl watch {copy}" in asked.value.hint
    before = tree_of(pair.folder(pair.main))

    assert pair.call("watch", copy)["project"] != pair.status(pair.main)["project"]
    pair.save(copy, "copy.md", "# Copy\n\nof the copy\n")
    assert pair.topics(copy) == ["copy.md"]
    assert diff_trees(before, tree_of(pair.folder(pair.main))) == []

    pair.box.call("projects_join", a=str(pair.main), b=str(copy))
    assert pair.topics(copy) == (["a.md", "copy.md"] if policy == "shared" else ["copy.md"])
    assert pair.topics(pair.main) == (["a.md", "copy.md"] if policy == "shared" else ["a.md"])


@pytest.mark.parametrize("policy", ["shared", *APART])
def test_a_move_brings_along_what_was_noted_at_the_new_place(tmp_path, policy):
    with Box(tmp_path, clock=FakeClock(), worktrees=policy) as box:
        new = box.root.with_name("new")
        (box.root / "code.txt").write_text("one\n")
        box.watch()
        box.call("memory_save", name="old.md", text="# Old\n\nof before\n")
        box.root.rename(new)
        box.call("watch", path=str(new))
        box.call("memory_save", path=str(new), name="moved.md", text="# Moved\n\nof the new place\n")
        left = Path(box.call("memory_index", path=str(new))["path"])

        answer = box.call("projects_move", old=str(box.root), new=str(new))

        assert answer["dropped_checkpoints"] == 1
        assert len(answer["notes"]) == 1
        assert "1 notes of its memory were brought along" in answer["notes"][0]
        assert (left / "moved.md").exists()
        if policy != "shared":  # as those of any worktree that is gone
            (told,) = [one for one in box.call("status")["worktrees"][0]["unread_memories"] if one["worktree"]]
            assert told["reason"] == "gone"
            box.call("memory_promote", path=str(new), **{"from": told["worktree"]})
            box.stop()
            box.settings = replace(box.settings, memory=MemorySettings(worktrees="staged"))
            box.start()
        assert [one["name"] for one in box.call("memory_topics", path=str(new))["items"]] == ["moved.md", "old.md"]
        assert box.call("memory_search", path=str(new), text="place")["items"][0]["name"] == "moved.md"
        assert box.call("memory_history", path=str(new), name="old.md")["items"]


@pytest.mark.parametrize("policy", APART)
def test_a_memory_of_a_worktree_has_its_own_versions_and_writers(pair, policy):
    pair.policy(policy)
    pair.save(pair.side, "a.md", "one\n")
    pair.call("turn_begin", pair.main, prompt="m", agent="claude", session="s2")
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    (pair.folder(pair.side) / "a.md").write_text("one\ntwo\n")
    pair.call("turn_end", pair.side, **AGENT)
    (pair.folder(pair.side) / "a.md").write_text("one\ntwo\nthree\n")

    assert prompts(pair, pair.side, "a.md") == [[], ["p1"], []]
    pair.call("memory_revert", pair.side, name="a.md")
    assert (pair.folder(pair.side) / "a.md").read_text() == "one\ntwo\n"
    with pytest.raises(NotFoundError):
        pair.call("memory_history", pair.main, name="a.md")


def test_a_revert_that_gave_a_topic_back_to_the_project_is_taken_back(pair):
    pair.save(pair.main, "a.md", "# A\n\nof the project\n")
    pair.policy("staged")
    pair.call("memory_edit", pair.side, name="a.md", append="of the branch")
    edited = pair.call("memory_history", pair.side, name="a.md")["items"][0]["version"]

    def read() -> str:
        return pair.call("memory_read", pair.side, name="a.md")["text"]

    for again in ({}, {"version": edited}):
        pair.call("memory_revert", pair.side, name="a.md", version=0)
        assert read() == "# A\n\nof the project\n"
        pair.call("memory_revert", pair.side, name="a.md", **again)
        assert read() == "# A\n\nof the project\nof the branch\n"
    assert pair.call("memory_read", pair.main, name="a.md")["text"] == "# A\n\nof the project\n"


@pytest.mark.parametrize("policy", APART)
def test_what_a_tool_says_it_wrote_into_the_notes_of_its_worktree_is_surely_its(pair, policy):
    pair.policy(policy)
    pair.save(pair.side, "a.md", "one\n")
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    pair.call("tool_begin", pair.side, tool="t", **AGENT)
    file = pair.folder(pair.side) / "a.md"
    file.write_text("two\n")
    writes = [{"path": str(file), "hash": blob_hash(b"two\n").hex()}]
    pair.call("tool_end", pair.side, tool="t", writes=writes, **AGENT)
    assert pair.call("memory_history", pair.side, name="a.md")["items"][0]["certainty"] == "sure"


def test_an_agent_on_a_branch_that_writes_to_the_projects_notes_is_known_for_it(pair):
    pair.save(pair.main, "a.md", "one\n")
    place = pair.folder(pair.main)
    pair.policy("shared", side="staged")
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    (place / "a.md").write_text("two\n")
    pair.call("turn_end", pair.side, **AGENT)
    assert prompts(pair, pair.main, "a.md")[0] == ["p1"]


@pytest.mark.parametrize("policy", APART)
def test_a_checkpoint_of_a_worktree_knows_where_its_own_notes_stood_and_a_rewind_takes_those_back(pair, policy):
    pair.save(pair.main, "main.md", "main\n")
    pair.policy(policy, main="shared", side=policy)
    pair.save(pair.side, "a.md", "before\n")
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    (pair.side / "code.txt").write_text("two\n")
    (pair.folder(pair.side) / "a.md").write_text("after\n")
    (pair.folder(pair.main) / "main.md").write_text("main, too\n")
    pair.call("turn_end", pair.side, **AGENT)

    pair.call("rewind", pair.side, checkpoint="turn:p1", memory=True)

    assert (pair.side / "code.txt").read_text() == "one\n"
    assert (pair.folder(pair.side) / "a.md").read_text() == "before\n"
    assert (pair.folder(pair.main) / "main.md").read_text() == "main, too\n"
    pair.call("undo", pair.side)
    assert (pair.folder(pair.side) / "a.md").read_text() == "after\n"


def test_an_undo_takes_back_what_was_done_to_the_memory_of_then_though_the_policy_changed(pair):
    pair.save(pair.side, "a.md", "before\n")
    place = pair.folder(pair.side)
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    (pair.side / "code.txt").write_text("two\n")
    (place / "a.md").write_text("after\n")
    pair.call("turn_end", pair.side, **AGENT)
    pair.call("rewind", pair.side, checkpoint="turn:p1", memory=True)
    pair.policy("separate")
    pair.save(pair.side, "a.md", "of its own\n")

    pair.call("undo", pair.side)

    assert (place / "a.md").read_text() == "after\n"
    assert (pair.folder(pair.side) / "a.md").read_text() == "of its own\n"


@pytest.mark.parametrize(("before", "after"), [("shared", "separate"), ("separate", "shared"), ("staged", "shared")])
def test_a_change_of_the_policy_loses_nothing_and_says_what_is_not_read_any_more(pair, before, after):
    pair.policy(before)
    pair.save(pair.side, "a.md", "# A\n\na\n")
    first = pair.folder(pair.side)
    pair.policy(after)
    assert pair.topics(pair.side) == []
    (told,) = pair.status(pair.main)["unread_memories"]
    assert (told["path"], told["reason"], told["files"]) == (str(first), "policy", 2)
    if after == "shared":
        assert pair.promote(pair.side) == {"a.md": "added"}
        assert pair.topics(pair.main) == ["a.md"]
        assert pair.status(pair.main)["unread_memories"] == []
    pair.policy(before)
    versions = pair.call("memory_history", pair.side, name="a.md")["items"]
    assert [version["status"] for version in versions] == (["A"] if after == "separate" else ["D", "A"])


def test_a_separate_memory_stays_with_its_worktree_when_it_is_promoted(pair):
    pair.policy("separate")
    pair.save(pair.side, "a.md", "# A\n\na\n")
    answer = pair.call("memory_promote", pair.side)
    assert [(item["became"], item["retired"]) for item in answer["items"]] == [("added", False)]
    assert pair.topics(pair.side) == ["a.md"]
    assert pair.promote(pair.side) == {"a.md": "same"}


def test_a_promotion_says_what_becomes_of_each_topic_before_and_after(pair):
    pair.save(pair.main, "both.md", "# Both\n- theirs\n")
    pair.policy("shared", side="staged")
    pair.call("memory_edit", pair.side, name="both.md", append="- ours")
    pair.save(pair.side, "new.md", "# New\n\nnew\n")
    (pair.folder(pair.side) / "secret.md").write_text("ghp_" + "a1B2" * 9)
    before = tree_of(pair.box.home.folder / "projects")

    planned = pair.promote(pair.side, dry_run=True)

    assert planned == {"both.md": "both", "new.md": "added", "secret.md": "refused"}
    assert diff_trees(before, tree_of(pair.box.home.folder / "projects")) == []
    assert pair.promote(pair.side) == planned
    assert pair.call("memory_read", pair.main, name="both.md")["text"] == "# Both\n- theirs\n- ours\n"
    assert [t["name"] for t in pair.call("memory_topics", pair.side)["items"] if t["layer"] == "worktree"] == [
        "secret.md"
    ]
    assert prompts(pair, pair.main, "both.md") == [[], []]


def test_notes_that_go_at_once_by_a_promotion_are_no_accident(pair):
    pair.policy("staged")
    for number in range(5):
        pair.save(pair.side, f"{number}.md", f"# {number}\n")
    pair.promote(pair.side)
    assert pair.status(pair.side)["memory"]["deletions"] == []
    assert len(pair.topics(pair.main)) == 5


def test_an_agent_that_promotes_is_the_writer(pair):
    pair.policy("shared", side="staged")
    pair.save(pair.side, "a.md", "# A\n\na\n")
    pair.call("turn_begin", pair.side, prompt="p1", **AGENT)
    pair.promote(pair.side, session="s1")
    assert prompts(pair, pair.main, "a.md") == [["p1"]]


def test_only_what_is_there_is_promoted(pair):
    for named in ({}, {"from": "7"}, {"from": str(pair.side)}):
        with pytest.raises(NotFoundError, match="no notes of its own"):
            pair.promote(pair.main, **named)
    pair.policy("separate")
    pair.save(pair.side, "a.md", "# A\n\na\n")
    with pytest.raises(NotFoundError) as told:
        pair.promote(pair.main)
    assert str(pair.side) in told.value.hint
    assert pair.promote(pair.main, dry_run=True, **{"from": str(pair.side)}) == {"a.md": "added"}


def test_two_that_stood_at_one_place_are_told_apart_by_their_numbers(pair):
    pair.policy("separate")
    pair.save(pair.side, "a.md", "# A\n\nof the first\n")
    shutil.rmtree(pair.side)
    git(pair.main, "worktree", "prune")
    git(pair.main, "worktree", "add", "-q", "-f", str(pair.side), "side")
    pair.call("watch", pair.side)
    assert pair.topics(pair.side) == []
    pair.save(pair.side, "b.md", "# B\n\nof the second\n")
    with pytest.raises(AmbiguousError) as told:
        pair.promote(pair.main, **{"from": str(pair.side)})
    assert told.value.hint.count("--from") == 2


def test_the_number_of_a_worktree_that_has_notes_is_not_given_again(pair):
    pair.policy("separate")
    place = pair.folder(pair.side)
    settled(pair)
    place.mkdir(parents=True, mode=0o700)
    (place / "a.md").write_text("# A\n\na\n")  # nobody has looked at it yet
    pair.call("unwatch", pair.side, delete_history=True)
    pair.call("watch", pair.side)

    assert pair.topics(pair.side) == []
    with pair.box.service.timeline.database.reading() as db:
        assert len({w.id for w in store.worktrees(db)}) == 3
    (told,) = pair.status(pair.main)["unread_memories"]
    assert (told["path"], told["root"], told["reason"]) == (str(place), None, "gone")


def test_what_a_worktree_has_of_its_own_goes_along_when_its_project_is_joined(pair, tmp_path):
    pair.policy("separate")
    other = tmp_path / "other"
    other.mkdir()
    pair.call("watch", other)
    pair.save(other, "theirs.md", "# Theirs\n\ntheirs\n")

    answer = pair.box.call("projects_join", a=str(pair.main), b=str(other))

    assert len(answer["notes"]) == 1
    assert pair.topics(other) == ["theirs.md"]
    assert pair.topics(pair.main) == []
    assert pair.status(pair.main)["unread_memories"] == []


def test_a_staged_memory_is_read_and_written_by_every_command(pair):
    pair.save(pair.main, "a.md", "# A\n\nof the project\n")
    pair.policy("shared", side="staged")
    side = pair.side
    with pytest.raises(ConflictError):
        pair.save(side, "a.md", "# A\n\nnew\n")
    read = pair.call("memory_read", side, name="a.md")
    assert pair.call("memory_history", side, name="a.md")["items"][0]["status"] == "A"
    assert pair.call("memory_blame", side, name="a.md")["lines"][0]["text"] == "# A"
    assert "a.md" in [hit["name"] for hit in pair.call("memory_search", side, text="project")["items"]]
    assert [item["kind"] for item in pair.call("memory_lint", side)["items"] if item["error"]] == []
    with pytest.raises(RefusedError):
        pair.call("memory_delete", side, name="a.md")
    view = pair.call("memory_tool", side, command={"command": "view", "path": "/memories/a.md"})
    assert "of the project" in view["text"]
    edit = {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "of the branch"}
    assert not pair.call("memory_tool", side, command=edit)["is_error"]
    pair.save(side, "a.md", "# A\n\nnew\n", if_hash=pair.call("memory_read", side, name="a.md")["hash"])

    assert pair.call("memory_read", pair.main, name="a.md") == read
    assert [v["status"] for v in pair.call("memory_history", side, name="a.md")["items"]] == ["M", "A"]
    assert pair.call("memory_search", side, text="project")["items"] == []
    gone = pair.call("memory_delete", side, name="a.md")
    assert gone["advice"] == ["the project's a.md is read again"]
    assert pair.call("memory_read", side, name="a.md") == read


def test_a_generated_file_holds_what_the_worktree_reads_and_follows_both(pair):
    pair.save(pair.main, "a.md", "# A\n\nof the project\n")
    pair.policy("shared", side="staged")
    pair.save(pair.side, "b.md", "# B\n\nof the branch\n")
    written = {
        tree: Path(pair.call("memory_context", tree, agent="aider", write=True)["written"])
        for tree in (pair.main, pair.side)
    }
    assert "of the branch" not in written[pair.main].read_text()
    assert "of the branch" in written[pair.side].read_text()
    assert str(pair.folder(pair.main)) in written[pair.side].read_text()  # where the project's topics are

    pair.call("memory_edit", pair.main, name="MEMORY.md", append="- of both from now on")
    settled(pair)
    for file in written.values():
        assert "of both from now on" in file.read_text()
