"""What the flags of an FSEvents stream mean; the stream itself runs on macOS only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openoxide.daemon.attachment import Pruned
from openoxide.daemon.fsevents import DROPPED, IS_DIRECTORY, MOUNTS, ROOT_CHANGED, StreamNotes

CREATED, MODIFIED, RENAMED, IS_FILE = 0x100, 0x1000, 0x800, 0x10000
MUST_SCAN, USER_DROPPED, KERNEL_DROPPED = 0x1, 0x2, 0x4


class Told:
    """What was reported."""

    def __init__(self, root: Path) -> None:
        self.dirty: dict[bytes, bool] = {}
        self.gaps: list[str] = []
        self.root = os.fsencode(root)
        self.notes = StreamNotes(self.root, lambda parent, name: Pruned.OUT if name == b"pruned" else Pruned.NO, self)

    def mark(self, path: bytes, *, recursive: bool) -> None:
        self.dirty[path] = recursive

    def gap(self, cause: str) -> None:
        self.gaps.append(cause)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    (tmp_path / "root").mkdir()
    return Told(tmp_path / "root")


@pytest.mark.parametrize(
    ("path", "flags", "dirty", "gaps"),
    [
        (b"/f", CREATED | IS_FILE, {b"f": False}, []),
        (b"/d/\xff", MODIFIED | IS_FILE, {b"d/\xff": False}, []),
        (b"/d", CREATED | IS_DIRECTORY, {b"d": True}, []),
        (b"/d/", RENAMED | IS_DIRECTORY, {b"d": True}, []),
        (b"", MODIFIED | IS_DIRECTORY, {b"": True}, []),
        (b"/d", MUST_SCAN, {b"d": True}, ["overflow"]),
        (b"", MUST_SCAN | USER_DROPPED, {b"": True}, ["overflow"]),
        (b"", MUST_SCAN | KERNEL_DROPPED, {b"": True}, ["overflow"]),
        (b"/d", 0x40, {b"d": True}, ["unmount"]),
        (b"/d", 0x80, {b"d": True}, ["unmount"]),
        (b"/pruned", CREATED | IS_DIRECTORY, {}, []),
        (b"/pruned", CREATED | IS_FILE, {b"pruned": False}, []),
        (b"/d/pruned/f", CREATED | IS_FILE, {}, []),
        (b"/d/.openoxide-staging/f", CREATED | IS_FILE, {}, []),
        (b"-beside/f", CREATED | IS_FILE, {}, []),
        (b"", ROOT_CHANGED, {b"": False}, []),
    ],
)
def test_flags_say_what_is_dirty(told, path, flags, dirty, gaps):
    told.notes.note(told.root + path, flags)
    assert (told.dirty, told.gaps) == (dirty, gaps)


def test_a_lost_root_is_told_once_and_its_return_makes_all_dirty(told):
    os.rmdir(told.root)
    told.notes.note(told.root, ROOT_CHANGED)
    assert not told.notes.check_root()
    assert (told.notes.root_present, told.gaps) == (False, ["root_lost"])
    os.mkdir(told.root)
    assert not told.notes.check_root()
    assert told.notes.check_root()
    assert (told.notes.root_present, told.gaps) == (True, ["root_lost", "root_returned"])
    assert told.dirty[b""] is True


def test_the_flags_are_those_of_the_header():
    assert (DROPPED, MOUNTS) == (MUST_SCAN | USER_DROPPED | KERNEL_DROPPED, 0x40 | 0x80)
