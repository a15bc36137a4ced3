"""Trees that are hard to record or to bring back: nothing of them is lost, and what cannot be done is named."""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from openoxide.checkpoints.capture import Capture
from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.tree import Tree
from openoxide.settings import CaptureSettings
from tests.daemon.trouble import paths, reasons, settled, unprivileged, write
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as made:
        yield made


def goes_there_and_back(box: Box, change: Callable[[], object]) -> dict[str, Any]:
    """Rewind exactly over ``change`` and undo that: each tree comes back whole. The answer of the rewind."""
    box.watch()
    then = tree_of(box.root)
    change()
    now = tree_of(box.root)
    assert diff_trees(then, now) != []
    answer = box.rewind("1", exact=True)
    assert diff_trees(then, settled(box.root)) == []
    assert (answer["conflicts"], answer["kept"], answer["skipped"]) == ([], [], [])
    box.call("undo")
    assert diff_trees(now, settled(box.root)) == []
    return dict(answer)


# Times


@pytest.mark.parametrize("year", [1902, 2262, 2263, 2400])
def test_a_file_of_any_year_is_recorded_and_brought_back(box, year):
    far_ns = (year - 1970) * 31_556_952 * 10**9
    (box.root / "far").write_text("old")
    os.utime(box.root / "far", ns=(0, far_ns))
    (box.root / "beside").write_text("old")
    assert box.watch()["checkpoint"]["complete"]
    held = box.checkpoint()["number"]
    (box.root / "far").write_text("new")
    os.utime(box.root / "far", ns=(0, far_ns + 10**9))
    (box.root / "beside").write_text("new")
    assert box.checkpoint()["changed"]["modified"] == 2

    answer = box.rewind(held, scope="all")

    assert (sorted(paths(answer["restored"])), answer["conflicts"]) == ([b"beside", b"far"], [])
    assert (box.root / "far").read_text() == "old"
    # as far as a row can tell it
    assert (box.root / "far").stat().st_mtime_ns == min(far_ns, (1 << 63) - 1)
    box.call("undo")
    assert (box.root / "far").read_text() == "new"


# Names

NAMES = [
    b"\xff\xfe", b"line\nend", b" ", b"-rf", b"\x1b[31mred\x1b[0m", "\u202ebidi".encode(), b"\x7f", b"\x01", b"a" * 255,
    b"\xff" * 255, "é".encode() * 127, "e\u0301".encode(), "\u00e9".encode(), b"\\x0a", b"%s{}*?", b"...",
]  # fmt: skip


def named(root: Path, name: bytes) -> Path:
    return root / os.fsdecode(name)


def test_names_of_any_bytes_go_there_and_back(box):
    for name in NAMES:
        write(named(box.root, name), name)
        write(named(box.root / "folders", name) / os.fsdecode(name), b"inner")
        named(box.root, b"links").mkdir(exist_ok=True)
        named(box.root / "links", name).symlink_to(os.fsdecode(name))

    def change() -> None:
        for name in NAMES:
            named(box.root, name).write_bytes(b"changed")
            named(box.root / "folders", name).rename(named(box.root, b"moved" + name[:250]))
            named(box.root / "links", name).unlink()

    answer = goes_there_and_back(box, change)
    assert set(NAMES) <= set(paths(answer["restored"]))


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_path_of_any_bytes_can_be_named(box, name):
    write(named(box.root, name), b"first")
    write(box.root / "other", b"first")
    box.watch()
    write(named(box.root, name), b"second")
    write(box.root / "other", b"second")

    answer = box.rewind("1", paths=[os.fsdecode(name)])

    assert paths(answer["restored"]) == [name]
    assert box.call("cat", checkpoint="1", file=name) == b"first"
    assert named(box.root, name).read_bytes() == b"first"
    assert all(entry["path"].isprintable() for entry in answer["restored"])


def test_a_rename_in_case_only_goes_there_and_back(box):
    write(box.root / "Readme", "text")
    write(box.root / "Folder" / "inner", "text")

    def change() -> None:
        (box.root / "Readme").rename(box.root / "README")
        (box.root / "Folder").rename(box.root / "FOLDER")

    goes_there_and_back(box, change)
    assert {path.name for path in box.root.iterdir()} == {"README", "FOLDER"}


@pytest.mark.parametrize("name", [b"d", b"deep_name"], ids=["short", "longer than any path may be"])
def test_a_tree_of_500_levels_is_recorded_and_rewound(box, tmp_path, name):
    bottom = nested(box.root, name, 500)
    put(bottom, b"leaf", b"first")
    try:
        box.watch()
        then = tree_of(box.root)
        put(bottom, b"leaf", b"second")
        put(bottom, b"new", b"new")
        leaf, new = (b"/".join([name] * 500) + b"/" + end for end in (b"leaf", b"new"))

        answer = box.rewind("1", exact=True)

        assert (paths(answer["restored"]), paths(answer["removed"])) == ([leaf], [new])
        assert answer["pre_rewind_checkpoint"]["complete"]
        assert diff_trees(then, settled(box.root)) == []
    finally:
        os.close(bottom)
        subprocess.run(["rm", "-rf", named(box.root, name)], check=True)


def test_a_deep_tree_that_is_gone_comes_back_whole(box):
    os.close(nested(box.root, b"d", 60))
    write(box.root / "/".join("d" * 60) / "leaf", "first")
    goes_there_and_back(box, lambda: shutil.rmtree(box.root / "d"))


class NothingRecorded:
    """The live states before the first recording."""

    def expect(self, paths):
        pass

    def one(self, path: bytes) -> None:
        return None

    def below(self, directory: bytes) -> list[Any]:
        return []

    def twins(self, dev: int, ino: int) -> list[bytes]:
        return []

    def files_below(self, directory: bytes, limit: int) -> int:
        return 0


def no_big_file(source: BinaryIO) -> BlobHash:
    pytest.fail("no big file")


def test_a_new_deep_tree_is_looked_at_once(tmp_path):
    """As the watcher reports it, or a rewind made it: every directory by itself, and with all below it."""
    os.close(nested(tmp_path, b"d", 40))
    with Tree(os.fsencode(tmp_path)) as tree:
        settings = CaptureSettings()
        capture = Capture(Entries(tree, Rules(settings), settings, NothingRecorded(), no_big_file))
        found = list(capture.dirty({b"/".join([b"d"] * level): True for level in range(1, 41)}))
    assert len(found) == 40
    assert capture.seen <= 2 * 40


def nested(root: Path, name: bytes, levels: int) -> int:
    """A descriptor of the innermost of ``levels`` directories: no path reaches that far."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    return here


def put(folder: int, name: bytes, content: bytes) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=folder)
    os.write(file, content)
    os.close(file)


# Kinds


def nothing(path: Path) -> None:
    pass


def a_file(path: Path) -> None:
    path.write_bytes(b"content")


def a_directory(path: Path) -> None:
    (path / "sub").mkdir(parents=True)
    (path / "inner").write_bytes(b"inner")


def an_empty_directory(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    path.symlink_to("../outside")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def a_fifo(path: Path) -> None:
    os.mkfifo(path, 0o640)


KINDS = [nothing, a_file, a_directory, an_empty_directory, a_link, a_dangling_link, a_fifo]
PAIRS = {f"{a.__name__} to {b.__name__}": (a, b) for a in KINDS for b in KINDS if a is not b}


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def test_every_kind_becomes_every_other_and_comes_back(box, tmp_path):
    outside = write(tmp_path / "outside" / "file", "outside").parent
    for name, (old, _) in PAIRS.items():
        old(box.root / name)

    def change() -> None:
        for name, (_, new) in PAIRS.items():
            clear(box.root / name)
            new(box.root / name)

    goes_there_and_back(box, change)
    assert tree_of(outside)[b"file"][3] == b"outside"


@contextmanager
def bound(path: Path) -> Iterator[None]:
    """A socket at ``path``, which may be longer than an address may be."""
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}" if sys.platform == "linux" else os.path.relpath(path))
        os.close(folder)
        yield


def test_what_cannot_be_made_again_is_left_and_listed(box):
    """A socket without its server is nothing; a rewind neither makes nor removes one."""
    root = box.root
    write(root / "becomes_socket", "a file")
    write(root / "plain", "first")
    with bound(root / "socket"), bound(root / "becomes_file"):
        box.watch()
        then = tree_of(root)
        for name in ("socket", "becomes_file", "becomes_socket"):
            (root / name).unlink()
        write(root / "becomes_file", "new")
        write(root / "plain", "second")
        (root / "folder").mkdir()
        with bound(root / "becomes_socket"), bound(root / "folder" / "new_socket"):
            now = tree_of(root)

            answer = box.rewind("1", exact=True)

            left = {b"socket", b"becomes_file", b"becomes_socket", b"folder/new_socket"}
            assert reasons(answer["skipped"]) == dict.fromkeys(left, "special")
            assert reasons(answer["kept"]) == {b"folder": "not_empty"}
            assert diff_trees({**now, b"plain": then[b"plain"]}, settled(root)) == []
    assert box.call("cat", checkpoint="1", file="becomes_socket") == b"a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_device_nodes_are_neither_opened_nor_made(box):
    for name, kind, device in [
        ("null", stat.S_IFCHR, (1, 3)),
        ("block", stat.S_IFBLK, (7, 250)),
        ("gone", stat.S_IFCHR, (1, 5)),
    ]:
        os.mknod(box.root / name, kind | 0o600, os.makedev(*device))
    write(box.root / "plain", "first")
    box.watch()
    (box.root / "gone").unlink()
    write(box.root / "plain", "second")

    answer = box.rewind("1", exact=True)

    assert (paths(answer["restored"]), reasons(answer["skipped"])) == ([b"plain"], {b"gone": "special"})
    assert {path: what[0] for path, what in settled(box.root).items()} == {
        b"null": "char",
        b"block": "block",
        b"plain": "file",
    }


# Modes

MODES = [0o0000, 0o0444, 0o0555, 0o0600, 0o0755, 0o1777, 0o2755, 0o4755, 0o7777]


def with_modes(root: Path, modes: list[int]) -> None:
    for number, mode in enumerate(modes):
        (root / f"file_{number}").chmod(mode)
        (root / f"folder_{number}").chmod(mode)


@pytest.fixture
def modes(box: Box) -> Box:
    for number in range(len(MODES)):
        write(box.root / f"file_{number}", "content")
        write(box.root / f"folder_{number}" / "inner", "inner")
        write(box.root / f"folder_{number}" / "node_modules" / "module.js", "not recorded")
    with_modes(box.root, MODES)
    return box


def of_files(box: Box) -> None:
    for number, mode in enumerate(MODES):
        (box.root / f"file_{number}").chmod(0o640 if mode != 0o640 else 0o600)


def of_directories(box: Box) -> None:
    for number in range(len(MODES)):
        (box.root / f"folder_{number}").chmod(0o750)


def of_both_and_content(box: Box) -> None:
    of_files(box)
    of_directories(box)
    for number in range(len(MODES)):
        write(box.root / f"file_{number}", "second")
        write(box.root / f"folder_{number}" / "inner", "second")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read what nobody may; see the test of an ordinary owner")
@pytest.mark.parametrize("change", [of_files, of_directories, of_both_and_content])
def test_all_twelve_bits_come_back(modes, change):
    inodes = {path: path.stat().st_ino for path in modes.root.glob("folder_*")}
    goes_there_and_back(modes, lambda: change(modes))
    assert {path: path.stat().st_ino for path in modes.root.glob("folder_*")} == inodes


def test_special_bits_of_a_file_that_belongs_to_another_are_left_out_and_noted(box):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    tool = write(box.root / "tool", "first")
    tool.chmod(0o4755)
    box.watch()
    write(tool, "second")
    os.chown(tool, 65534, 65534)

    answer = box.rewind("1")

    assert (tool.read_text(), stat.S_IMODE(tool.stat().st_mode)) == ("first", 0o755)
    assert [note for note in answer["notes"] if "tool" in note and "setuid" in note]


@unprivileged
def test_special_bits_of_ones_own_file_come_back(tmp_path):
    with Box(tmp_path) as box:
        tool = write(box.root / "tool", "first")
        tool.chmod(0o6755)
        box.watch()
        write(tool, "second")
        tool.chmod(0o755)

        assert box.rewind("1")["notes"] == []

        assert (tool.read_text(), stat.S_IMODE(tool.stat().st_mode)) == ("first", 0o6755)


@pytest.mark.parametrize("then", [0o755, 0o555])
@unprivileged
def test_files_in_a_directory_that_is_read_only_now_come_back(tmp_path, then):
    with Box(tmp_path) as box:
        inner = write(box.root / "folder" / "inner", "first")
        inner.parent.chmod(then)
        box.watch()
        inner.write_text("second")
        inner.parent.chmod(0o555)

        answer = box.rewind("1", exact=True)

        assert (answer["conflicts"], inner.read_text()) == ([], "first")
        assert stat.S_IMODE(inner.parent.stat().st_mode) == then


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A directory that belongs to another, with a file that everybody may write."""
    if os.geteuid() != 0:
        pytest.skip("only root gives directories away")
    inner = write(tmp_path / "project" / "folder" / "inner", "first")
    inner.chmod(0o666)
    os.chown(inner.parent, 65534, 65534)
    return inner


@unprivileged
def test_what_lies_in_the_directory_of_another_is_a_conflict_and_the_rest_comes_back(tmp_path, strangers):
    with Box(tmp_path) as box:
        write(box.root / "plain", "first")
        box.watch()
        strangers.write_text("second")
        write(box.root / "plain", "second")

        answer = box.rewind("1")

        assert reasons(answer["conflicts"]) == {b"folder/inner": "permission"}
        assert (strangers.read_text(), (box.root / "plain").read_text()) == ("second", "first")
        assert box.call("cat", checkpoint=answer["pre_rewind_checkpoint"]["id"], file="folder/inner") == b"second"


# Size


def test_a_file_of_10_mb_comes_back_exactly(box):
    big = write(box.root / "big", random.Random(10).randbytes(10 << 20))
    big.chmod(0o640)
    os.utime(big, ns=(0, 1_234_567_890_123_456_789))
    write(box.root / "bigger", random.Random(11).randbytes(10 << 20))

    def change() -> None:
        with big.open("r+b") as file:
            file.seek(5 << 20)
            file.write(b"one byte more or less")
        (box.root / "bigger").unlink()

    goes_there_and_back(box, change)
    assert len(list((box.home.blobs / "big").iterdir())) == 3
