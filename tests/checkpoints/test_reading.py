"""One entry read as it really was, or marked torn. What changes meanwhile is changed by the reader's own callbacks."""

from __future__ import annotations

import os
import socket
import sqlite3
from pathlib import Path

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import FileState, Kind, SkipReason
from openoxide.checkpoints.packs import BIG_BYTES
from openoxide.checkpoints.reading import SQLITE_MAGIC, read_file, read_simple, read_unit
from openoxide.checkpoints.tree import Tree

BIG = os.urandom(BIG_BYTES + 3)


class Copier:
    """Stores big contents, and does something to the file while it is at it."""

    def __init__(self, *meanwhile) -> None:
        self.copies: list[bytes] = []
        self._meanwhile = list(meanwhile)

    def __call__(self, source):
        content = source.read()
        self.copies.append(content)
        if self._meanwhile:
            self._meanwhile.pop(0)()
        return blob_hash(content)


@pytest.fixture
def root(tmp_path):
    return tmp_path


@pytest.fixture
def tree(root):
    with Tree(os.fsencode(root)) as tree:
        yield tree


def read(tree, path: bytes, copier: Copier | None = None, known: FileState | None = None, seen=None):
    return read_file(tree, path, seen or tree.lstat(path), copier or Copier(), known)


def append(path: Path):
    def act() -> None:
        with path.open("ab") as file:
            file.write(b"more")

    return act


class TestFiles:
    @pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 100], ids=len)
    def test_a_file_is_its_bytes_mode_and_time(self, root, tree, content):
        (root / "f").write_bytes(content)
        (root / "f").chmod(0o4751)
        os.utime(root / "f", ns=(5, 1_234_567_890_123_456_789))
        found = read(tree, b"f")
        assert found.data == content
        assert found.observed.state == FileState(
            kind=Kind.FILE,
            mode=0o4751,
            size=len(content),
            mtime_ns=1_234_567_890_123_456_789,
            blob=blob_hash(content),
        )
        assert found.observed.identity.ino == (root / "f").stat().st_ino

    def test_a_big_file_is_copied_and_not_held_in_memory(self, root, tree):
        (root / "f").write_bytes(BIG)
        copier = Copier()
        found = read(tree, b"f", copier)
        assert (found.data, found.observed.state.blob, found.observed.state.size) == (None, blob_hash(BIG), len(BIG))
        assert copier.copies == [BIG]

    def test_a_big_file_that_was_only_touched_is_not_copied_again(self, root, tree):
        (root / "f").write_bytes(BIG)
        known = read(tree, b"f").observed.state
        os.utime(root / "f", ns=(1, 1))
        copier = Copier()
        again = read(tree, b"f", copier, known)
        assert (again.observed.state.blob, again.observed.state.torn, copier.copies) == (known.blob, False, [])

    def test_a_big_file_of_the_same_size_with_other_bytes_is_copied(self, root, tree):
        (root / "f").write_bytes(BIG)
        known = read(tree, b"f").observed.state
        (root / "f").write_bytes(BIG[::-1])
        copier = Copier()
        assert read(tree, b"f", copier, known).observed.state.blob == blob_hash(BIG[::-1])
        assert copier.copies == [BIG[::-1]]

    @pytest.mark.parametrize("content", [SQLITE_MAGIC + b"pages", SQLITE_MAGIC + BIG], ids=["small", "big"])
    def test_a_database_is_known_by_its_first_bytes(self, root, tree, content):
        (root / "f").write_bytes(content)
        assert read(tree, b"f").observed.state.sqlite


class TestChangesMeanwhile:
    def test_a_file_that_stood_still_at_the_second_try_is_not_torn(self, root, tree):
        (root / "f").write_bytes(BIG)
        found = read(tree, b"f", Copier(append(root / "f")))
        assert (found.observed.state.torn, found.observed.state.blob) == (False, blob_hash(BIG + b"more"))

    def test_a_file_that_never_stands_still_is_torn(self, root, tree):
        (root / "f").write_bytes(BIG)
        found = read(tree, b"f", Copier(*[append(root / "f")] * 5))
        assert found.observed.state.torn

    def test_a_file_that_was_written_after_its_stat_is_read_again(self, root, tree):
        (root / "f").write_bytes(b"old")
        seen = tree.lstat(b"f")
        (root / "f").write_bytes(b"newer")
        found = read(tree, b"f", seen=seen)
        assert (found.data, found.observed.state.torn) == (b"newer", False)
        assert found.observed.identity.size == 5

    @pytest.mark.parametrize(
        "replace",
        [
            pytest.param(lambda path: None, id="nothing"),
            pytest.param(lambda path: path.symlink_to("/etc/passwd"), id="a link"),
            pytest.param(lambda path: path.mkdir(), id="a directory"),
            pytest.param(os.mkfifo, id="a fifo"),
        ],
    )
    def test_what_took_a_files_place_is_not_read_for_it(self, root, tree, replace):
        (root / "f").write_bytes(b"old")
        seen = tree.lstat(b"f")
        (root / "f").unlink()
        replace(root / "f")
        assert read(tree, b"f", seen=seen) is None

    def test_a_file_that_vanishes_while_it_is_read_has_vanished(self, root, tree):
        (root / "f").write_bytes(BIG)

        def act() -> None:
            append(root / "f")()
            (root / "f").unlink()

        assert read(tree, b"f", Copier(act)) is None

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read_is_skipped(self, root, tree):
        (root / "f").write_bytes(b"secret")
        (root / "f").chmod(0)
        state = read(tree, b"f").observed.state
        assert (state.kind, state.target, state.size) == (Kind.SKIPPED, SkipReason.UNREADABLE.value.encode(), 6)


class TestOtherKinds:
    def test_each_is_read_as_what_it_is(self, root, tree, monkeypatch):
        (root / "d").mkdir()
        (root / "d").chmod(0o1770)
        (root / "l").symlink_to(os.fsdecode(b"to\xff"))
        os.mkfifo(root / "p")
        (root / "p").chmod(0o640)
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
            (root / "s").chmod(0o600)
        states = {
            path: read_simple(tree, path, tree.lstat(path), 5).observed.state for path in (b"d", b"l", b"p", b"s")
        }
        assert states == {
            b"d": FileState(kind=Kind.DIRECTORY, mode=0o1770),
            b"l": FileState(kind=Kind.SYMLINK, size=3, target=b"to\xff"),
            b"p": FileState(kind=Kind.SPECIAL, mode=0o640, target=b"fifo"),
            b"s": FileState(kind=Kind.SPECIAL, mode=0o600, target=b"socket"),
        }

    def test_a_device_is_named(self):
        with Tree(b"/dev") as dev:
            assert read_simple(dev, b"null", dev.lstat(b"null"), 5).observed.state.target == b"char"

    def test_a_file_is_not_simple(self, root, tree):
        (root / "f").touch()
        assert read_simple(tree, b"f", tree.lstat(b"f"), 5) is None


class TestDatabases:
    @pytest.fixture
    def database(self, root):
        connection = sqlite3.connect(root / "x.db")
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t(x)")
        connection.commit()
        yield root / "x.db"
        connection.close()

    def unit(self, tree, *meanwhile):
        acts = list(meanwhile)

        def read_one(path: bytes):
            if acts and path == b"x.db-wal":
                acts.pop(0)()
            return read(tree, path)

        return {found.observed.path: found for found in read_unit(tree, b"x.db", read_one)}

    def test_all_files_of_a_database_are_one_state(self, tree, database):
        members = self.unit(tree)
        assert sorted(members) == [b"x.db", b"x.db-shm", b"x.db-wal"]
        assert not any(found.observed.state.torn for found in members.values())

    def test_it_is_read_again_if_one_of_them_changed(self, tree, database, root):
        members = self.unit(tree, append(root / "x.db"))
        assert members[b"x.db"].data.endswith(b"more")
        assert not any(found.observed.state.torn for found in members.values())

    def test_all_of_it_is_torn_if_one_of_them_never_stands_still(self, tree, database, root):
        members = self.unit(tree, *[append(root / "x.db-wal")] * 9)
        assert {found.observed.state.torn for found in members.values()} == {True}
        assert all(found.data for found in members.values()), "what was read is kept all the same"

    def test_a_side_file_that_is_no_file_is_none(self, tree, root):
        (root / "x.db").write_bytes(SQLITE_MAGIC)
        (root / "x.db-shm").mkdir()

        def read_one(path: bytes):
            append(root / "x.db")()
            return read_simple(tree, path, tree.lstat(path), 5) or read(tree, path)

        torn = {found.observed.path: found.observed.state.torn for found in read_unit(tree, b"x.db", read_one)}
        assert torn == {b"x.db": True}
