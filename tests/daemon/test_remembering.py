"""The commands of a memory against a service: what is written, its versions, who wrote them, and how it comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openoxide.daemon.operations.remembering import place_of, recorded
from openoxide.errors import ConflictError, NotFoundError, RefusedError, UsageError
from openoxide.memory.editing import Append
from tests.kit.box import Box

AGENT = {"agent": "codex", "session": "s1"}
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def place(box: Box) -> Path:
    project = box.call("projects")["items"][0]["project"]
    return box.home.folder / "projects" / project / "memory"


def save(box: Box, name: str, text: str, **more):
    return box.call("memory_save", name=name, text=text, **more)


def versions(box: Box, name: str | None = None):
    return box.call("memory_history", **({"name": name} if name else {}))["items"]


def test_what_is_saved_is_on_the_disk_in_the_index_and_in_the_history(box):
    answer = save(box, "api.md", "# API\n\nuse v2\n")

    assert (place(box) / "api.md").read_text() == "# API\n\nuse v2\n"
    assert answer["changed"]
    assert answer["index"] == [{"did": "added", "name": "api.md"}]
    assert "(api.md)" in box.call("memory_index")["text"]
    assert [item["name"] for item in box.call("memory_topics")["items"]] == ["api.md"]
    assert {item["name"] for item in versions(box)} == {"api.md", "MEMORY.md"}
    assert box.call("memory_read", name="api.md")["hash"] == answer["hash"]


def test_modes_are_private(box):
    save(box, "api.md", "x\n")
    assert (place(box).stat().st_mode & 0o777, (place(box) / "api.md").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_write_against_another_state_is_a_conflict_and_changes_nothing(box):
    first = save(box, "api.md", "one\n")
    (place(box) / "api.md").write_text("theirs\n")

    for if_hash in (first["hash"], "", None):
        with pytest.raises(ConflictError):
            save(box, "api.md", "two\n", if_hash=if_hash)
    assert (place(box) / "api.md").read_text() == "theirs\n"
    assert [v["status"] for v in versions(box, "api.md")] == ["M", "A"]


def test_edits(box):
    save(box, "api.md", "one\ntwo\n")
    box.call("memory_edit", name="api.md", append="three")
    box.call("memory_edit", name="api.md", line=0, text="zero")
    box.call("memory_edit", name="api.md", old="two", text="TWO")
    assert (place(box) / "api.md").read_text() == "zero\none\nTWO\nthree\n"
    assert len(versions(box, "api.md")) == 4
    with pytest.raises(UsageError):
        box.call("memory_edit", name="api.md", append="x", old="y", text="z")


def test_a_secret_is_refused_and_one_of_somebody_else_is_not_shown(box):
    with pytest.raises(RefusedError):
        save(box, "keys.md", f"the token is {TOKEN}\n")
    save(box, "keys.md", "none\n")
    (place(box) / "keys.md").write_text(f"the token is {TOKEN}\n")

    shown, raw = box.call("memory_read", name="keys.md"), box.call("memory_read", name="keys.md", raw=True)
    assert (TOKEN in shown["text"], shown["redacted"]) == (False, 1)
    assert TOKEN in raw["text"]
    found = [item for item in box.call("memory_lint")["items"] if item["name"] == "keys.md"]
    assert [item["error"] for item in found if item["kind"] == "secret"] == [True]
    assert TOKEN not in str(box.call("memory_blame", name="keys.md"))
    assert TOKEN not in str(box.call("memory_search", text="token"))


def test_what_an_env_file_of_the_project_holds_is_a_secret_too(box):
    (box.root / ".env").write_text("PASSPHRASE=correct-horse-battery\n")
    with pytest.raises(RefusedError):
        save(box, "keys.md", "it is correct-horse-battery\n")


def test_a_version_says_who_wrote_it_in_which_prompt(box):
    save(box, "api.md", "one\n")
    box.call("turn_begin", prompt="p1", **AGENT)
    (place(box) / "api.md").write_text("one\ntwo\n")
    box.call("turn_end", **AGENT)
    (place(box) / "api.md").write_text("one\ntwo\nthree\n")

    found = versions(box, "api.md")

    assert [(v["certainty"], v["sessions"], v["prompts"]) for v in found] == [
        ("unknown", [], []), ("likely", ["s1"], ["p1"]), ("unknown", [], []),
    ]  # fmt: skip
    blamed = box.call("memory_blame", name="api.md")
    prompts = {v["version"]: v["prompts"] for v in blamed["versions"]}
    assert [(line["text"], prompts[line["version"]]) for line in blamed["lines"]] == [
        ("one", []), ("two", ["p1"]), ("three", []),
    ]  # fmt: skip


def test_an_agent_that_names_its_session_is_surely_the_writer(box):
    box.call("turn_begin", prompt="p1", **AGENT)
    box.call("turn_begin", prompt="q1", agent="claude", session="s2")
    save(box, "api.md", "one\n", session="s1")
    save(box, "other.md", "other one\n")

    assert [(v["certainty"], v["prompts"]) for v in versions(box, "api.md")] == [("sure", ["p1"])]
    assert [v["certainty"] for v in versions(box, "other.md")] == ["shared"]


def test_what_others_did_before_a_write_is_not_the_writers(box):
    save(box, "api.md", "one\n")
    box.call("turn_begin", prompt="p1", **AGENT)
    (place(box) / "mine.md").write_text("mine\n")
    save(box, "other.md", "other\n", session="s1")
    assert [v["certainty"] for v in versions(box, "mine.md")] == ["likely"]


def test_a_file_is_brought_back_to_what_it_was(box):
    save(box, "api.md", "one\n")
    (place(box) / "api.md").write_text("two\n")
    (place(box) / ".api.tmp").write_text("three\n")
    versions(box)
    os.replace(place(box) / ".api.tmp", place(box) / "api.md")
    first = versions(box, "api.md")[-1]["version"]

    box.call("memory_revert", name="api.md")
    assert (place(box) / "api.md").read_text() == "two\n"
    box.call("memory_revert", name="api.md")
    assert (place(box) / "api.md").read_text() == "three\n"
    box.call("memory_revert", name="api.md", version=first)
    assert (place(box) / "api.md").read_text() == "one\n"
    box.call("memory_revert", name="api.md", version=0)
    assert not (place(box) / "api.md").exists()
    box.call("memory_revert", name="api.md")
    assert (place(box) / "api.md").read_text() == "one\n"
    assert box.call("memory_read_version", name="api.md", version=first)["text"] == "one\n"


def test_a_version_that_is_not_there_yet_is_neither_read_nor_brought_back(box):
    save(box, "api.md", "one\n")
    newest = max(v["version"] for v in versions(box))
    assert box.call("memory_read_version", name="api.md", version=newest)["text"] == "one\n"
    for operation in ("memory_read_version", "memory_revert"):
        with pytest.raises(NotFoundError, match=f"no version {newest + 1}"):
            box.call(operation, name="api.md", version=newest + 1)


def test_a_truncated_copy_of_the_index_is_brought_back_byte_for_byte(box):
    whole = "# Memory\r\n\r\n" + "".join(f"- line {n}\r\n" for n in range(50)) + "- no end"
    save(box, "api.md", "x\n")
    (place(box) / "MEMORY.md").write_bytes(whole.encode())
    versions(box)
    (place(box) / "MEMORY.md").write_text("# Memory\n[rest unchanged]\n")

    box.call("memory_revert", name="MEMORY.md")

    assert (place(box) / "MEMORY.md").read_bytes() == whole.encode()


def test_files_that_went_at_once_come_back_together(box):
    for number in range(23):
        save(box, f"t{number}.md", f"# T{number}\n\nabout {number}\n")
    (place(box) / "kept.md").write_text("kept\n")
    box.checkpoint()
    for number in range(23):
        (place(box) / f"t{number}.md").unlink()
    (place(box) / "kept.md").write_text("changed since\n")
    box.checkpoint()

    memory = box.call("status")["worktrees"][0]["memory"]
    assert [len(deletion["files"]) for deletion in memory["deletions"]] == [23]
    answer = box.call("memory_revert", gone=True)

    assert (len(answer["written"]), answer["left"]) == (23, [])
    assert (place(box) / "t7.md").read_text() == "# T7\n\nabout 7\n"
    assert (place(box) / "kept.md").read_text() == "changed since\n"
    assert box.call("status")["worktrees"][0]["memory"]["deletions"] == []


def test_a_memory_whose_folder_is_gone_has_its_history_and_comes_back(box):
    save(box, "api.md", "one\n")
    version = versions(box, "api.md")[0]["version"]
    place(box).rename(place(box).with_name("elsewhere"))

    assert [v["version"] for v in versions(box, "api.md")] == [version]
    box.call("memory_revert", name="api.md", version=version)
    assert (place(box) / "api.md").read_text() == "one\n"


def test_deleting_and_renaming(box):
    save(box, "api.md", "one\n")
    box.call("memory_rename", name="api.md", new="rest/api.md")
    assert (place(box) / "rest/api.md").read_text() == "one\n"
    gone = box.call("memory_delete", name="rest/api.md")
    assert gone["trash"]
    assert "api.md" not in (place(box) / "MEMORY.md").read_text()
    with pytest.raises(NotFoundError):
        box.call("memory_read", name="rest/api.md")
    assert [v["status"] for v in versions(box, "rest/api.md")] == ["D", "A"]


def test_a_search_finds_what_was_written_a_moment_ago(box):
    save(box, "api.md", "# API\n\nthe gateway retries\n")
    (place(box) / "new.md").write_text("the gateway is new\n")
    assert {hit["name"] for hit in box.call("memory_search", text="gateway")["items"]} >= {"api.md", "new.md"}


def test_the_memory_tool_works_and_each_call_is_a_version(box):
    box.call("turn_begin", prompt="p1", **AGENT)

    def tool(**command):
        return box.call("memory_tool", command=command, session="s1")

    assert tool(command="create", path="/memories/n.md", file_text="a\n")["text"] == (
        "File created successfully at: /memories/n.md"
    )
    tool(command="str_replace", path="/memories/n.md", old_str="a", new_str="b")
    assert "b" in tool(command="view", path="/memories/n.md")["text"]
    assert tool(command="create", path="/memories/../x", file_text="")["is_error"]
    assert [(v["status"], v["certainty"], v["prompts"]) for v in versions(box, "n.md")] == [
        ("M", "sure", ["p1"]), ("A", "sure", ["p1"]),
    ]  # fmt: skip
    with pytest.raises(UsageError):
        box.call("memory_tool", command="view")


def test_there_is_no_memory_outside_of_a_project(box, tmp_path):
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(NotFoundError):
        save(box, "api.md", "x\n", path=str(tmp_path / "nowhere"))


def test_a_home_directory_has_no_memory(box, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(box.root))
    with pytest.raises(RefusedError):
        save(box, "api.md", "x\n")
    assert not (box.home.folder / "projects").exists()


def test_reading_makes_nothing(box):
    for name in ("memory_index", "memory_topics", "memory_lint"):
        assert box.call(name)["ok"]
    with pytest.raises(NotFoundError):
        box.call("memory_history")
    assert not (box.home.folder / "projects").exists()


@pytest.mark.parametrize("name", ["../x.md", "/etc/passwd", "a\0.md", ".hidden.md"])
def test_names_that_could_mean_another_file_are_refused(box, name):
    save(box, "api.md", "x\n")
    for operation, more in (
        ("memory_save", {"text": "x"}),
        ("memory_read", {}),
        ("memory_history", {}),
        ("memory_revert", {}),
    ):
        with pytest.raises((RefusedError, UsageError)):
            box.call(operation, name=name, **more)


def test_a_function_that_a_note_names_and_that_is_gone_is_told_of(box):
    (box.root / "app.py").write_text("def parse_args():\n    return 1\n")
    box.checkpoint()
    box.call("memory_save", name="a.md", text="# A\n\n`parse_args()` is slow, and `read_env()` too.\n")

    def stale():
        found = [item for item in box.call("memory_lint")["items"] if item["name"] == "a.md"]
        return [(item["line"], item["message"]) for item in found if item["kind"] == "stale"]

    assert stale() == [(3, "read_env() stands nowhere in the project")]

    (box.root / "app.py").write_text("def parse_arguments():\n    return 1\n")
    box.checkpoint()
    assert [text.split()[0] for _, text in stale()] == ["parse_args()", "read_env()"]


def test_a_revert_keeps_what_it_takes_the_place_of(box):
    save(box, "a.md", "first\n")
    (place(box) / "a.md").write_text("theirs\n")

    (written,) = box.call("memory_revert", name="a.md")["written"]

    assert (place(box) / "a.md").read_text() == "first\n"
    assert (place(box).parent / "trash" / written["trash"] / "a.md").read_text() == "theirs\n"


def test_a_text_that_is_longer_than_a_read_is_reverted(box):
    save(box, "a.md", "first\n")
    (place(box) / "a.md").write_text("long\n" * 1_000_000)

    box.call("memory_revert", name="a.md")

    assert (place(box) / "a.md").read_text() == "first\n"


def test_what_is_cut_of_an_index_is_shown_without_its_secrets(box):
    save(box, "a.md", "first\n")
    (place(box) / "MEMORY.md").write_text("- a line\n" * 200 + f"- the token is {TOKEN}\n" * 3)

    told = [box.call("memory_index"), box.call("memory_edit", name="a.md", append="more"), box.call("status")]

    assert TOKEN[:12] not in str(told)
    assert told[0]["first_cut"] == 201


def test_a_write_that_an_editor_wrote_over_before_anybody_saw_it_is_in_the_trash(box):
    save(box, "a.md", "first\n")
    at = {"path": str(box.root)}

    def act(memory):
        written = memory.edit("a.md", Append(text="ours"))
        (place(box) / "a.md").write_text("first\ntheirs\n")
        return written

    _, _, (note,) = recorded(box.service, place_of(box.service, at), at, act)

    assert note.startswith("somebody wrote over a.md in the same moment")
    assert (place(box) / "a.md").read_text() == "first\ntheirs\n"
    (kept,) = [file.read_text() for file in (place(box).parent / "trash").rglob("a.md")]
    assert kept == "first\nours\n"


def test_a_write_that_is_in_a_version_is_not_kept_twice(box):
    save(box, "a.md", "first\n")
    assert box.call("memory_edit", name="a.md", append="more")["notes"] == []
    assert [*(place(box).parent / "trash").rglob("a.md")] == []


def test_a_search_takes_out_what_the_env_file_holds_by_now(box):
    save(box, "a.md", "the walrus says correct-horse-battery\n")
    assert "correct-horse" in str(box.call("memory_search", text="walrus"))

    (box.root / ".env").write_text("PASSPHRASE=correct-horse-battery\n")

    assert "correct-horse" not in str(box.call("memory_search", text="walrus"))
