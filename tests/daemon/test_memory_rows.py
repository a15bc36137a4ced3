"""The public failures of other memories (M1 to M45) that need a daemon or a history; ``tests/memory/rows.py`` lists all."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openoxide.errors import NotFoundError, RefusedError
from openoxide.memory.directory import MemoryDirectory
from openoxide.settings import CaptureSettings
from tests.kit import diff_trees, tree_of, wait_until
from tests.kit.box import Box

AGENT = {"agent": "codex", "session": "s1"}


def folder(box: Box, path: Path | None = None) -> Path:
    return Path(box.call("memory_index", **({"path": str(path)} if path else {}))["path"])


def save(box: Box, name: str, text: str, **more):
    return box.call("memory_save", name=name, text=text, **more)


def versions(box: Box, name: str):
    return box.call("memory_history", name=name)["items"]


def noted(box: Box):
    return box.call("status")["worktrees"][0]["memory"]


@contextmanager
def told_of(event: str) -> Iterator[threading.Event]:
    """Set once the daemon's log has a line that begins so."""
    logger, said = logging.getLogger("openoxide"), threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: said.set() if record.getMessage().startswith(event) else None
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def test_m2_the_log_tells_of_what_a_shell_appended_before_anything_is_sealed(box):
    save(box, "a.md", "# A\n\na\n")
    index = folder(box) / "MEMORY.md"
    before = box.call("log")["items"]

    with told_of("memory.index_over: no agent gets line 201 of 202") as told:
        subprocess.run(["sh", "-c", 'yes -- "- more" | head -n 201 >> "$0"', index], check=True)
        assert told.wait(60)

    assert box.call("log")["items"] == before
    with told_of("memory.index_over") as again:
        subprocess.run(["sh", "-c", 'echo "- and more" >> "$0"', index], check=True)
        box.checkpoint()  # after its barrier whatever the watcher tells has been told
        looked = threading.Event()
        box.service.background.submit("behind the look", looked.set)
        assert looked.wait(60)
        assert not again.is_set(), "it is told once, not with each line"
    assert "203 lines" in noted(box)["warning"]


def test_m2_an_index_that_is_over_when_the_daemon_starts_is_told_of(box):
    save(box, "a.md", "# A\n\na\n")
    place = folder(box)
    box.stop()
    (place / "MEMORY.md").write_text("- more\n" * 201)
    with told_of("memory.index_over") as told:
        box.start()
        assert told.wait(60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n" * 179, ""),
        ("- a\n" * 180, "180 of 200 lines"),
        ("- a\n" * 200, "200 of 200 lines"),
        ("- a\n" * 201, "WARNING: MEMORY.md is 201 lines (limit: 200)"),
        ("é" * 22_499, ""),
        ("é" * 22_500, "22500 of 25000 characters"),
        ("é" * 25_000, "25000 of 25000 characters"),
        ("é" * 25_001, "WARNING: MEMORY.md is 25001 characters (limit: 25000)"),
    ],
)
def test_m1_status_says_when_an_index_is_nearly_full_and_when_it_is_over(box, text, said):
    save(box, "a.md", "# A\n\na\n")
    (folder(box) / "MEMORY.md").write_text(text)
    warning = noted(box)["warning"]
    assert (said in warning, bool(warning)) == (True, bool(said))


def test_m1_an_index_that_cannot_be_read_keeps_nobody_from_the_status_or_from_a_session(box):
    save(box, "a.md", "# A\n\na\n")
    index = folder(box) / "MEMORY.md"
    index.unlink()
    index.symlink_to("/etc/hostname")
    assert "MEMORY.md is a link" in noted(box)["warning"]
    assert start(box, "claude") == ""


def start(box: Box, agent: str) -> str:
    """What the hook of ``agent`` prints when a session begins."""
    payload = {"session_id": "s", "cwd": str(box.root), "source": "startup", "transcript_path": "/t"}
    return box.call("hook", payload=payload, agent=agent, event="SessionStart")["stdout"]


def test_m2_an_index_that_a_shell_wrote_over_its_limit_is_told_of_at_once(box):
    save(box, "a.md", "# A\n\na\n")
    assert noted(box)["warning"] == ""
    with (folder(box) / "MEMORY.md").open("a") as index:
        index.write("- more\n" * 185)
    assert "lines and" in noted(box)["warning"]
    with (folder(box) / "MEMORY.md").open("a") as index:
        index.write("- more\n" * 30)
    over = noted(box)["warning"]
    assert ("200" in over, "are used" in over) == (True, False)


def test_m4_a_truncated_rewrite_and_the_text_before_are_both_kept(box):
    whole = "# Rules\n\n" + "".join(f"{number}. a rule\n" for number in range(80))
    save(box, "rules.md", whole)
    (folder(box) / "rules.md").write_text("# Rules\n\n[rest unchanged]\n")
    assert [version["status"] for version in versions(box, "rules.md")] == ["M", "A"]
    box.call("memory_revert", name="rules.md")
    assert (folder(box) / "rules.md").read_text() == whole


def test_m10_a_project_that_was_moved_keeps_its_memory(box):
    save(box, "a.md", "# A\n\na\n")
    place, moved = folder(box), box.root.with_name("moved")
    box.root.rename(moved)
    with pytest.raises(NotFoundError) as told:
        box.call("memory_index", path=str(moved))
    assert "projects move" in told.value.hint
    box.call("projects_move", old=str(box.root), new=str(moved))
    assert folder(box, moved) == place
    assert box.call("memory_read", name="a.md", path=str(moved))["text"] == "# A\n\na\n"


def test_m11_a_copy_is_another_project_and_writes_nothing_to_the_first(box):
    save(box, "a.md", "# A\n\na\n")
    copy = box.root.with_name("copy")
    shutil.copytree(box.root, copy)
    box.call("watch", path=str(copy))
    save(box, "copy.md", "# Copy\n\nof the copy\n", path=str(copy))
    assert folder(box, copy) != folder(box)
    assert not (folder(box) / "copy.md").exists()


def test_m15_a_note_is_filed_where_it_was_written_whatever_the_session_began_with(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    box.call("watch", path=str(other))
    box.call("turn_begin", prompt="p1", **AGENT)
    save(box, "here.md", "# Here\n\nhere\n", session="s1")
    save(box, "there.md", "# There\n\nthere\n", session="s1", path=str(other))
    assert [t["name"] for t in box.call("memory_topics", path=str(other))["items"]] == ["there.md"]
    assert versions(box, "here.md")[0]["prompts"] == ["p1"]


@pytest.mark.parametrize("name", ["memory_save", "memory_index", "memory_topics", "memory_context"])
def test_m16_no_other_project_is_taken_for_one_that_is_not_known(box, tmp_path, name):
    save(box, "a.md", "# A\n\na\n")
    (tmp_path / "unknown").mkdir()
    with pytest.raises((NotFoundError, RefusedError)):
        box.call(name, path=str(tmp_path / "unknown"), name="b.md", text="b", agent="claude")


def test_m19_of_two_writers_the_later_one_is_refused_and_both_texts_are_kept(box):
    first = save(box, "a.md", "one\n" * 100)
    with (folder(box) / "a.md").open("a") as theirs:
        theirs.write("appended by a shell\n")
    with pytest.raises(Exception, match="was changed since it was read"):
        save(box, "a.md", "short\n", if_hash=first["hash"])
    assert (folder(box) / "a.md").read_text().endswith("appended by a shell\n")
    kept = [path.read_text() for path in (folder(box).parent / "trash").rglob("a.md")]
    assert kept == ["short\n"]


def test_m23_files_that_somebody_deletes_come_back_and_are_told_of(box):
    for number in range(23):
        save(box, f"t{number}.md", f"# T{number}\n\nnumber {number}\n")
    box.checkpoint()
    before = tree_of(folder(box))
    for number in range(23):
        (folder(box) / f"t{number}.md").unlink()
    box.checkpoint()
    (told,) = noted(box)["deletions"]
    assert len(told["files"]) == 23
    assert len(box.call("memory_revert", gone=True)["written"]) == 23
    assert [path for path in diff_trees(before, tree_of(folder(box))) if "mtime" not in path] == []


def test_m24_a_line_is_traced_to_the_prompt_that_wrote_it(box):
    save(box, "rules.md", "the user prefers tabs\n")
    box.call("turn_begin", prompt="p7", **AGENT)
    with (folder(box) / "rules.md").open("a") as agents:
        agents.write("the user never wants tests\n")
    box.call("turn_end", **AGENT)
    blamed = box.call("memory_blame", name="rules.md")
    prompts = {version["version"]: version["prompts"] for version in blamed["versions"]}
    assert [prompts[line["version"]] for line in blamed["lines"]] == [[], ["p7"]]


def test_m34_what_was_written_while_nobody_watched_is_found_by_a_scan(box):
    save(box, "a.md", "one\n")
    place = folder(box)
    box.stop()
    (place / "a.md").write_text("two\n")
    (place / "new.md").write_text("new\n")
    box.start()
    assert [version["status"] for version in versions(box, "a.md")] == ["M", "A"]
    assert [version["certainty"] for version in versions(box, "new.md")] == ["unknown"]


def test_m34_what_no_event_tells_is_found_by_the_pass_that_comes_by_itself(box, clock, tmp_path):
    save(box, "a.md", "one\n")
    # inotify(7) tells nothing of a write through a name outside of the folder
    os.link(folder(box) / "a.md", tmp_path / "elsewhere")
    box.checkpoint()
    (tmp_path / "elsewhere").write_text("two, written unheard\n")
    box.checkpoint()
    before = versions(box, "a.md")

    clock.advance(CaptureSettings().full_pass_ms + 1)
    box.service.beat()

    assert wait_until(lambda: len(versions(box, "a.md")) > len(before), 60)
    assert versions(box, "a.md")[0]["certainty"] == "unknown"
    assert box.call("memory_read", name="a.md")["text"] == "two, written unheard\n"


def test_m35_every_way_in_means_the_same_memory(box):
    save(box, "a.md", "# A\n\na\n")
    project = box.call("projects")["items"][0]["project"]
    said = json.loads(start(box, "claude"))
    places = {
        str(folder(box)),
        str(MemoryDirectory(box.home.folder, project).path),
        noted(box)["path"],
    }
    assert len(places) == 1
    assert places.pop() in said["hookSpecificOutput"]["additionalContext"]


def test_m36_nothing_is_written_into_the_tree(box):
    before = tree_of(box.root)
    save(box, "a.md", "# A\n\na\n")
    for agent in ("claude", "codex", "opencode", "gemini", "aider"):
        box.call("memory_context", agent=agent, write=agent in ("opencode", "aider"))
    box.call("memory_revert", name="a.md")
    assert diff_trees(before, tree_of(box.root)) == []


def test_m39_a_plain_folder_has_its_memory_in_the_home(box):
    assert not (box.root / ".git").exists()
    save(box, "a.md", "# A\n\na\n")
    assert os.path.commonpath([folder(box), box.home.folder]) == str(box.home.folder)


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode", "aider"])
def test_m42_what_memory_context_shows_is_what_the_agent_is_given(box, agent):
    save(box, "a.md", "# A topic\n\na\n")
    (folder(box) / "MEMORY.md").write_text("- note of some length\n" * 600)
    shown = box.call("memory_context", agent=agent)["memory"]
    if shown["way"] == "file":
        given = Path(box.call("memory_context", agent=agent, write=True)["written"]).read_text()
    else:
        given = json.loads(start(box, agent))["hookSpecificOutput"]["additionalContext"]
    assert shown["text"] == given
    assert (shown["warning"] in given, "note of some length" in given) == (True, True)


def test_m44_a_rewind_takes_the_notes_of_work_that_is_undone_and_keeps_the_users(box):
    save(box, "mine.md", "mine\n")
    for prompt in ("p1", "p2", "p3"):
        box.call("turn_begin", prompt=prompt, **AGENT)
        (box.root / "a").write_text(f"{prompt}\n")
        if prompt == "p3":
            (folder(box) / "done.md").write_text("feature x is done\n")
        box.call("turn_end", **AGENT)
    (folder(box) / "mine.md").write_text("mine, edited later\n")

    box.rewind("turn:p3", memory=True)

    assert not (folder(box) / "done.md").exists()
    assert (folder(box) / "mine.md").read_text() == "mine, edited later\n"
