"""A foreign write that comes between the look and the exchange is never lost, wherever it comes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from openoxide.errors import ConflictError, RefusedError
from openoxide.memory import writing as room
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import ABSENT, Append
from openoxide.memory.trash import Reason, trashed
from openoxide.memory.writing import Put, writing
from tests.memory.kit import PROJECT, memory_in, place

NOW = 1_800_000_000_000


@pytest.fixture
def directory(tmp_path):
    memory_in(tmp_path).save("a.md", "first\n", expect=ABSENT)
    return MemoryDirectory(tmp_path, PROJECT)


def put(directory, expected, new):
    with writing(directory, NOW) as hands:
        return hands.put("a.md", expected, new)


def live(directory):
    return (directory.path / "a.md").read_bytes()


def staging(directory):
    return os.listdir(directory.path.parent / "staging")


def as_an_editor(directory, text: bytes, name: str = "a.md") -> None:
    """Write a temporary file and rename it over the old one, as editors do."""
    temporary = directory.path / f".{name}.swp"
    temporary.write_bytes(text)
    temporary.replace(directory.path / name)


def test_what_was_read_is_replaced(directory):
    assert put(directory, b"first\n", b"second\n") == Put(done=True)
    assert live(directory) == b"second\n"
    assert (staging(directory), trashed(directory)) == ([], [])


@pytest.mark.parametrize("expected", [b"other\n", None])
def test_what_was_not_read_stays(directory, expected):
    seen = (directory.path / "a.md").stat().st_ino

    assert put(directory, expected, b"second\n") == Put(done=False)

    assert live(directory) == b"first\n"
    assert (directory.path / "a.md").stat().st_ino == seen, "the file itself, not a copy"
    assert (staging(directory), trashed(directory)) == ([], [])


def test_what_was_deleted_is_not_made_again(directory):
    (directory.path / "a.md").unlink()

    assert put(directory, b"first\n", b"second\n") == Put(done=False)
    assert not (directory.path / "a.md").exists()


def test_a_file_that_somebody_writes_to_is_left_alone(directory, monkeypatch):
    monkeypatch.setattr(room, "BUSY_SECONDS", 0.02)
    with (directory.path / "a.md").open("r+b", buffering=0) as file:
        with pytest.raises(ConflictError, match="held open by a program that writes to it"):
            put(directory, b"first\n", b"second\n")
        file.seek(0)
        file.write(b"FIRST\n")

    assert live(directory) == b"FIRST\n"
    assert (staging(directory), trashed(directory)) == ([], [])


def test_a_writer_in_place_that_ends_is_waited_for(directory):
    file = (directory.path / "a.md").open("ab", buffering=0)
    asked = []

    def is_written_to(fd: int) -> bool:
        # the second time it is asked, the other program is done
        if len(asked) == 1:
            file.write(b"more\n")
            file.close()
        asked.append(fd)
        return real(fd)

    real, room.is_written_to = room.is_written_to, is_written_to
    try:
        outcome = put(directory, b"first\n", b"second\n")
    finally:
        room.is_written_to = real

    assert outcome == Put(done=False)
    assert live(directory) == b"first\nmore\n"


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/etc/hostname"), lambda p: p.mkdir()])
def test_what_is_no_file_goes_back(directory, make):
    path = directory.path / "a.md"
    path.unlink()
    make(path)

    with pytest.raises(RefusedError):
        put(directory, b"first\n", b"second\n")

    assert path.is_symlink() or path.is_dir()
    assert staging(directory) == []


class Between:
    """Runs ``act`` once, before or after the n-th system call of a kind that our writer makes."""

    def __init__(self, monkeypatch, call: str, n: int, when: str, act: Callable[[], None]) -> None:
        self.done = 0
        real = getattr(room, call)

        def stepped(*args):
            self.done += 1
            if self.done == n and when == "before":
                act()
            real(*args)
            if self.done == n and when == "after":
                act()

        monkeypatch.setattr(room, call, stepped)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("first", [True, False])
def test_an_editor_at_each_step_loses_nothing(directory, monkeypatch, n, when, first):
    """``first``: somebody has written already between our look and the exchange."""
    memory = memory_in(directory.home)

    def add_line() -> None:
        as_an_editor(directory, live(directory) + b"theirs\n")

    if first:
        earlier = Between(
            monkeypatch, "exchange", 1, "before", lambda: as_an_editor(directory, live(directory) + b"earlier\n")
        )
    step = Between(monkeypatch, "exchange", n, when, add_line)

    memory.edit("a.md", Append(text="ours"))

    text = live(directory).decode()
    kept = [(one.reason, one.name) for one in memory.trash()]
    assert text.splitlines()[0] == "first"
    if step.done >= n:
        assert text.count("theirs\n") == 1
    if first:
        assert earlier.done
        assert text.count("earlier\n") == 1
    # one that came after the last look is the other program's to decide: it wrote over ours
    assert text.count("ours\n") == 1
    assert all(reason is Reason.OVERTAKEN for reason, _ in kept)
    assert staging(directory) == []


def test_a_text_that_is_written_blindly_over_ours_is_kept_with_what_was_there(directory, monkeypatch):
    memory = memory_in(directory.home)
    Between(monkeypatch, "exchange", 1, "after", lambda: as_an_editor(directory, b"blind\n"))
    Between(monkeypatch, "exchange", 1, "before", lambda: as_an_editor(directory, b"first\nearlier\n"))

    memory.edit("a.md", Append(text="ours"))

    assert sorted(live(directory).decode().split()) == ["blind", "earlier", "first", "ours"]
    texts = [read_trash(directory, one) for one in memory.trash()]
    assert sorted(texts) == [b"blind\n", b"first\nearlier\n"], "and each of theirs by itself"


def read_trash(directory, one) -> bytes:
    return (directory.path.parent / "trash" / one.id / one.name).read_bytes()


def test_an_editor_that_read_ours_in_the_wrong_moment_cannot_lose_what_it_did_not_see(directory, monkeypatch):
    """It writes later, when our writer is done: what it had not seen is not in its text, and has to be found."""
    memory = memory_in(directory.home)
    read: list[bytes] = []
    Between(monkeypatch, "exchange", 1, "after", lambda: read.append(live(directory)))
    Between(monkeypatch, "exchange", 1, "before", lambda: as_an_editor(directory, b"first\nearlier\n"))

    memory.edit("a.md", Append(text="ours"))
    as_an_editor(directory, read[0] + b"later\n")

    assert live(directory) == b"first\nours\nlater\n"
    assert [read_trash(directory, one) for one in memory.trash()] == [b"first\nearlier\n"]


def test_a_whole_text_that_comes_too_late_is_refused_and_kept(directory, monkeypatch):
    memory = memory_in(directory.home)
    expect = memory.read("a.md").sha256
    Between(monkeypatch, "exchange", 1, "before", lambda: as_an_editor(directory, b"theirs\n"))

    with pytest.raises(ConflictError, match="was changed since it was read"):
        memory.save("a.md", "ours\n", expect=expect)

    assert live(directory) == b"theirs\n"
    assert {(one.reason, one.size) for one in memory.trash()} == {(Reason.REFUSED, 5), (Reason.OVERTAKEN, 7)}


def test_a_file_that_appears_where_none_was_is_kept(directory, monkeypatch):
    memory = memory_in(directory.home)
    Between(monkeypatch, "rename_exclusive", 1, "before", lambda: as_an_editor(directory, b"theirs\n", "b.md"))

    memory.edit("b.md", Append(text="ours"))

    assert (directory.path / "b.md").read_bytes() == b"theirs\nours\n"


def test_a_file_that_changes_while_it_is_deleted_stays(directory, monkeypatch):
    memory = memory_in(directory.home)
    expect = memory.read("a.md").sha256
    Between(monkeypatch, "rename_exclusive", 1, "before", lambda: as_an_editor(directory, b"theirs\n"))

    with pytest.raises(ConflictError):
        memory.delete("a.md", expect=expect)

    assert live(directory) == b"theirs\n"
    assert memory.trash() == []


def test_a_file_that_is_made_anew_while_it_is_deleted_leaves_both(directory, monkeypatch):
    memory = memory_in(directory.home)
    expect = memory.read("a.md").sha256
    Between(monkeypatch, "rename_exclusive", 1, "before", lambda: as_an_editor(directory, b"theirs\n"))
    Between(monkeypatch, "rename_exclusive", 1, "after", lambda: as_an_editor(directory, b"newest\n"))

    memory.delete("a.md", expect=expect)

    assert live(directory) == b"newest\n"
    assert [one.size for one in memory.trash()] == [7], "theirs is in the trash"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_an_exchange_works_too(directory, monkeypatch, code):
    def refused(*_args):
        # what such a kernel or file system answers
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(room, "exchange", refused)

    assert put(directory, b"first\n", b"second\n") == Put(done=True)
    assert put(directory, b"first\n", b"third\n") == Put(done=False)
    assert live(directory) == b"second\n"
    assert staging(directory) == []


def test_what_a_killed_writer_left_is_kept(directory):
    place(directory.path.parent / "staging", "4711-1", "the only copy\n")

    put(directory, b"first\n", b"second\n")

    assert [(one.reason, one.name, one.size) for one in trashed(directory)] == [(Reason.LEFT, "4711-1.md", 14)]


def test_a_writer_that_does_not_end_is_not_waited_for_without_end(directory, monkeypatch):
    monkeypatch.setattr(room, "LOCK_SECONDS", 0.02)
    with writing(directory, NOW), pytest.raises(ConflictError, match="another writer holds"), writing(directory, NOW):
        pass


def test_emptying_the_trash_goes_through_no_link(directory, tmp_path):
    memory = memory_in(directory.home)
    outside = place(tmp_path, "outside/kept.txt", "kept")
    memory.delete("a.md", expect=memory.read("a.md").sha256)
    (entry,) = (directory.path.parent / "trash").iterdir()
    (entry / "link").symlink_to(outside.parent)

    memory.empty_trash(keep_ms=-1)

    assert outside.read_text() == "kept"
    assert os.listdir(directory.path.parent / "trash") == []
