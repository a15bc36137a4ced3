"""A memory is made on demand, for its owner alone, and nothing in it or on the way to it is followed."""

from __future__ import annotations

import os
import stat

import pytest

from openoxide.errors import NotFoundError, RefusedError
from openoxide.memory import directory as places
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import ABSENT, Append
from tests.memory.kit import PROJECT, memory_in, place


def modes(home):
    return {str(path.relative_to(home)): stat.S_IMODE(path.lstat().st_mode) for path in home.rglob("*")}


def test_reading_makes_nothing(tmp_path):
    memory = memory_in(tmp_path / "home")

    assert memory.load_index().text == ""
    assert memory.topics() == []
    assert memory.trash() == []
    with pytest.raises(NotFoundError):
        memory.read("a.md")
    assert not (tmp_path / "home").exists()


def test_the_first_write_makes_it_private(tmp_path):
    os.umask(0)
    memory = memory_in(tmp_path / "home")

    memory.save("api/errors.md", "text\n", expect=ABSENT)

    found = modes(tmp_path / "home")
    assert memory.directory.path == tmp_path / "home/projects" / PROJECT / "memory"
    assert {mode for name, mode in found.items() if name.endswith((".md", ".lock"))} == {0o600}
    assert {mode for name, mode in found.items() if not name.endswith((".md", ".lock"))} == {0o700}
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_a_worktree_of_its_own_lies_below_the_project(tmp_path):
    directory = MemoryDirectory(tmp_path, PROJECT, "7")

    assert directory.path == tmp_path / "projects" / PROJECT / "worktrees/7/memory"


@pytest.mark.parametrize("part", ["projects", f"projects/{PROJECT}", f"projects/{PROJECT}/memory"])
def test_a_link_on_the_way_is_refused(tmp_path, part):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "home" / part
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    memory = memory_in(tmp_path / "home")

    with pytest.raises(RefusedError):
        memory.save("a.md", "text\n", expect=ABSENT)
    with pytest.raises(RefusedError):
        memory.directory.listing()
    assert list(outside.iterdir()) == []


@pytest.fixture
def trap(tmp_path):
    """A memory with a link to a file, a link to a folder and a FIFO in it, and what they lead to."""
    memory = memory_in(tmp_path / "home")
    memory.save("real.md", "real\n", expect=ABSENT)
    folder = memory.directory.path
    place(tmp_path, "outside/secret.md", "secret\n")
    (folder / "link.md").symlink_to(tmp_path / "outside/secret.md")
    (folder / "up").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "fifo.md")
    (folder / "folder.md").mkdir()
    return memory


@pytest.mark.parametrize("name", ["link.md", "up/secret.md", "up/new.md", "fifo.md", "folder.md"])
def test_what_is_no_plain_file_is_neither_read_nor_written(trap, tmp_path, name):
    with pytest.raises(RefusedError):
        trap.read(name)
    with pytest.raises(RefusedError):
        trap.write(name, "mine\n", expect=ABSENT)
    assert (tmp_path / "outside/secret.md").read_text() == "secret\n"
    assert os.listdir(tmp_path / "outside") == ["secret.md"]


def test_a_listing_says_what_it_does_not_read(trap):
    (trap.directory.path / "bad\x1b.md").write_text("x")
    place(trap.directory.path, ".hidden.md", "x")

    listing = trap.directory.listing()

    assert listing.names == ["MEMORY.md", "real.md"]
    assert dict(listing.refused) == {
        "link.md": "it is a link",
        "up": "it is a link",
        "fifo.md": "it is no regular file",
        "“bad<U+001B>.md”": "it holds a character that cannot be seen",
    }


def test_a_file_that_is_too_long_is_cut_and_told(tmp_path):
    memory = memory_in(tmp_path)
    memory.save("long.md", "ä" * 80, expect=ABSENT)

    raw = memory.directory.read("long.md", 100)
    reading = memory.read("long.md", most=11)

    assert (len(raw.data), raw.size, raw.cut) == (100, 160, "only the first 100 of 160 bytes were read")
    assert (reading.text, reading.cut) == ("ä" * 5, "only the first 11 of 160 bytes were read")
    assert memory.edit("long.md", Append(text="more"), expect=reading.sha256).changed, "the hash is of all of it"


def test_more_files_than_are_listed_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "MOST_FILES", 3)
    memory = memory_in(tmp_path)
    memory.save("a.md", "a one\n", expect=ABSENT)
    for name in "bcde":
        place(memory.directory.path, f"{name}.md", name)

    listing = memory.directory.listing()

    assert len(listing.files) == 3
    assert listing.refused[-1].reason == "there are more than 3 files"


def test_no_descriptor_is_left_open(trap):
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(5):
        for name in ("link.md", "up/x.md", "none.md", "folder.md", "fifo.md"):
            with pytest.raises((RefusedError, NotFoundError)):
                trap.read(name)
        trap.directory.listing()
        trap.load_index()

    assert count() == before


def test_a_folder_of_somebody_else_gets_no_memory(tmp_path):
    place(tmp_path, "home/notes.txt", "theirs")

    with pytest.raises(RefusedError, match="is no OpenOxide home"):
        memory_in(tmp_path / "home").save("a.md", "one\n", expect=ABSENT)

    assert os.listdir(tmp_path / "home") == ["notes.txt"]


def test_a_home_that_has_a_memory_only_takes_another(tmp_path):
    memory_in(tmp_path / "home").save("a.md", "one\n", expect=ABSENT)
    memory_in(tmp_path / "home", "l" * 16).save("a.md", "one\n", expect=ABSENT)

    assert len(os.listdir(tmp_path / "home/projects")) == 2
