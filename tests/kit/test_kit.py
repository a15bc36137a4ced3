"""An oracle that cannot see a difference proves nothing: each kind of difference is shown to be seen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openoxide.clock import Clock, rfc3339
from tests.kit import FakeClock, diff_trees, tree_of, wait_until

NS = 1_700_000_000_123_456_789


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "inner").write_bytes(b"inner")
    (root / "file").write_bytes(b"some text")
    (root / "link").symlink_to("file")
    os.utime(root / "file", ns=(NS, NS))
    os.chmod(root / "file", 0o640)
    os.chmod(root / "folder", 0o750)
    return root


def test_each_kind_of_entry_is_described(tree):
    os.mkfifo(tree / "fifo", 0o600)
    (tree / "dangling").symlink_to("/nowhere")
    (tree / "loop").symlink_to(".")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tree / "socket"))
        os.chmod(tree / "socket", 0o700)
        described = tree_of(tree)
    assert described == {
        b"dangling": ("link", b"/nowhere"),
        b"fifo": ("fifo", 0o600),
        b"file": ("file", 0o640, NS, b"some text"),
        b"folder": ("dir", 0o750),
        b"folder/inner": ("file", 0o644, (tree / "folder/inner").stat().st_mtime_ns, b"inner"),
        b"link": ("link", b"file"),
        b"loop": ("link", b"."),
        b"socket": ("socket", 0o700),
    }


def test_set_id_and_sticky_bits_are_part_of_the_mode(tree):
    os.chmod(tree / "file", 0o6755)
    os.chmod(tree / "folder", 0o1777)
    described = tree_of(os.fsencode(tree))
    assert (described[b"file"][1], described[b"folder"][1]) == (0o6755, 0o1777)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"line\nend", b" ", b"-rf", "e\u0301".encode(), "\u00e9".encode()])
def test_names_are_bytes(tree, name):
    Path(os.fsdecode(os.fsencode(tree) + b"/folder/" + name)).mkdir()
    assert tree_of(tree)[b"folder/" + name] == ("dir", 0o755)


def test_skipped_names_are_left_out_wherever_they_are(tree):
    for folder in (tree / ".git", tree / "folder" / ".git"):
        folder.mkdir()
        (folder / "HEAD").write_text("ref")
    assert tree_of(tree, skip={b".git"}) == {
        path: what for path, what in tree_of(tree).items() if b".git" not in path.split(b"/")
    }
    assert len(tree_of(tree)) == 4 + len(tree_of(tree, skip={b".git"}))


def test_a_tree_may_be_deeper_than_a_path_is_long(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir(b"d" * 200, dir_fd=here)
        inner = os.open(b"d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert max(map(len, tree_of(tmp_path))) == 30 * 201 - 1
    subprocess.run(["rm", "-rf", tmp_path / ("d" * 200)], check=True)


def _replace(path: Path, new: Callable[[Path], object]) -> None:
    path.unlink()
    new(path)


CHANGES = [
    pytest.param(lambda r: (r / "new").mkdir(), ["new: new: dir"], id="new"),
    pytest.param(lambda r: (r / "link").unlink(), ["link: gone: link"], id="gone"),
    pytest.param(lambda r: (r / "file").chmod(0o600), ["file: mode 0o640 became 0o600"], id="mode of a file"),
    pytest.param(lambda r: (r / "folder").chmod(0o700), ["folder: mode 0o750 became 0o700"], id="mode of a folder"),
    pytest.param(
        lambda r: os.utime(r / "file", ns=(NS, NS + 1)), [f"file: mtime {NS} became {NS + 1}"], id="one nanosecond"
    ),
    pytest.param(
        lambda r: ((r / "file").write_bytes(b"some tale!"), os.utime(r / "file", ns=(NS, NS))),
        ["file: content differs from byte 6 on (9 bytes, then 10): b'ext' became b'ale!'"],
        id="content",
    ),
    pytest.param(
        lambda r: _replace(r / "link", lambda p: p.symlink_to("folder")),
        ["link: link to b'file' became link to b'folder'"],
        id="a link's target",
    ),
    pytest.param(
        lambda r: _replace(r / "file", lambda p: p.symlink_to("folder")),
        ["file: file became link to b'folder'"],
        id="kind",
    ),
    pytest.param(lambda r: os.mkfifo(os.fsencode(r) + b"/\xff\n"), [r"\xff\n: new: fifo"], id="an odd name"),
    pytest.param(lambda r: os.utime(r / "folder", ns=(1, 1)), [], id="a folder's time is no state"),
]


@pytest.mark.parametrize(("change", "lines"), CHANGES)
def test_a_change_is_told_in_one_line(tree, change, lines):
    before = tree_of(tree)
    change(tree)
    assert diff_trees(before, tree_of(tree)) == lines


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told_apart_from_what_is_empty(tree):
    before = tree_of(tree)
    (tree / "file").chmod(0)
    assert tree_of(tree)[b"file"] == ("file", 0, NS, None)
    assert diff_trees(before, tree_of(tree)) == ["file: mode 0o640 became 0o0, content can no longer be read"]


def test_the_answer_is_handed_back(tmp_path):
    flag = tmp_path / "flag"
    with subprocess.Popen([sys.executable, "-c", f"open({str(flag)!r}, 'w').write('x')"]):
        assert wait_until(lambda: flag.exists() and flag.read_text(), 30) == "x"


def test_a_deadline_that_passes_names_the_condition():
    with pytest.raises(AssertionError, match=r"not within 0 s: .*<lambda>.*test_kit\.py:\d+"):
        wait_until(lambda: False, 0)


def test_the_predicate_is_asked_even_when_the_deadline_has_passed():
    assert wait_until(lambda: "there", -1) == "there"


def test_the_clock_moves_only_when_told():
    clock = FakeClock(now_ms=1_000, boot_ms=10, boot_id="this boot")
    reader: Clock = clock
    assert (reader.now_ms(), reader.boot_ms(), reader.boot_id()) == (1_000, 10, "this boot")
    assert clock.now_ms() == 1_000
    clock.advance(500)
    assert (clock.now_ms(), clock.boot_ms()) == (1_500, 510)
    assert rfc3339(clock.now_ms()) == "1970-01-01T00:00:01.500Z"
