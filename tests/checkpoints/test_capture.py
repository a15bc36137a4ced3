"""From what may have changed to what did: each case says what a capture records, and what it does not read again."""

from __future__ import annotations

import mmap
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from openoxide.checkpoints.capture import Capture
from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.model import RACY_NS, STAGING_NAME, FileState, Kind
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.timeline import Timeline
from openoxide.checkpoints.tree import Tree, wall_ns
from openoxide.paths import Home
from openoxide.settings import CaptureSettings
from tests.kit import wait_until

LIMITS = CaptureSettings(max_file_bytes=100_000, ignored_file_bytes=100, ignored_tree_files=3)
TAG = b"Signature: 8a477f597d28d172789f06886806bc55"


class Captured:
    """A tree and its record; ``look`` captures and tells what was found."""

    def __init__(self, folder: Path, limits: CaptureSettings = LIMITS) -> None:
        self.limits = limits
        self.root = folder / "root"
        self.root.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        self.timeline = Timeline(Home(self.home))
        self.rules = Rules(limits)
        self.last: Capture

    def look(self, dirty: Mapping[bytes, bool] | None = None) -> dict[bytes, Found]:
        """What a capture of ``dirty`` (everything without it) recorded."""
        found: dict[bytes, Found] = {}

        def noted(items):
            for item in items:
                found[item.observed.path] = item
                yield item

        with Tree(os.fsencode(self.root)) as tree, self.timeline.live(1) as live:
            self.last = Capture(Entries(tree, self.rules, self.limits, live, self.timeline.blobs.write_big))
            items = self.last.everything() if dirty is None else self.last.dirty(dirty)
            self.timeline.record(1, noted(items))
        return found

    def states(self) -> dict[bytes, FileState]:
        return self.timeline.states(1, self.timeline.head(1).seq)

    def shown(self) -> dict[str, str]:
        """Each recorded path with its kind, skipped ones with the reason."""
        return {
            os.fsdecode(path): (state.target or b"").decode() if state.kind is Kind.SKIPPED else state.kind.name.lower()
            for path, state in self.states().items()
        }

    def write(self, path: str, content: bytes = b"x") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)

    def age(self) -> None:
        """Wait until a stat proves something."""
        newest = max(os.lstat(path).st_ctime_ns for path in self.root.rglob("*"))
        wait_until(lambda: wall_ns() > newest + 2 * RACY_NS, 10)


@pytest.fixture
def captured(tmp_path):
    captured = Captured(tmp_path)
    yield captured
    captured.timeline.close()


class TestEverything:
    def test_each_kind_is_recorded(self, captured):
        captured.write("d/f")
        (captured.root / "empty").mkdir()
        (captured.root / "l").symlink_to("/")
        os.mkfifo(captured.root / "p")
        captured.look()
        assert captured.shown() == {
            "d": "directory",
            "d/f": "file",
            "empty": "directory",
            "l": "symlink",
            "p": "special",
        }

    def test_what_has_not_changed_is_not_read_again(self, captured):
        captured.write("f")
        captured.age()
        captured.look()
        assert captured.look() == {}

    def test_a_stat_that_proves_nothing_is_renewed_without_a_row(self, captured):
        captured.write("f")
        captured.look()
        captured.age()
        again = captured.look()
        assert again[b"f"].data is None
        assert captured.timeline.head(1).seq == 1

    def test_what_is_gone_is_recorded_as_gone(self, captured):
        captured.write("d/f")
        captured.look()
        (captured.root / "d" / "f").unlink()
        (captured.root / "d").rmdir()
        assert {path: item.observed.state.kind for path, item in captured.look().items()} == {
            b"d": Kind.ABSENT,
            b"d/f": Kind.ABSENT,
        }

    def test_the_root_as_dirty_path_means_everything(self, captured):
        captured.write("d/f")
        assert sorted(captured.look({b"": True})) == [b"d", b"d/f"]


class TestDirtyPaths:
    @pytest.fixture(autouse=True)
    def tree(self, captured):
        captured.write("d/f", b"one")
        captured.write("d/e/g", b"two")
        captured.age()
        captured.look()

    def test_only_they_are_looked_at(self, captured):
        captured.write("d/f", b"new")
        captured.write("d/e/g", b"unseen")
        assert [*captured.look({b"d/f": False})] == [b"d/f"]

    @pytest.mark.parametrize("told", [{b"f": False}, {b"f": False, b"": True}], ids=["by itself", "in a full pass"])
    def test_what_is_told_of_is_read_though_its_stat_is_the_one_it_was_read_with(self, captured, told):
        captured.write("f", b"before")
        with (captured.root / "f").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[:5] = b"first"
            captured.age()
            captured.look()
            memory[:5] = b"again"
        assert captured.look(told)[b"f"].data == b"againe"
        assert captured.look(told)[b"f"].data is None, "the same bytes are no change"

    def test_a_new_directory_is_taken_in_with_all_below(self, captured):
        captured.write("n/m/h")
        assert [*captured.look({b"n": False})] == [b"n", b"n/m", b"n/m/h"]

    def test_parents_that_are_not_recorded_yet_come_along(self, captured):
        captured.write("n/m/h")
        assert sorted(captured.look({b"n/m/h": False})) == [b"n", b"n/m", b"n/m/h"]

    def test_a_directory_that_vanished_takes_all_below_with_it(self, captured):
        (captured.root / "d").rename(captured.root.parent / "elsewhere")
        assert sorted(captured.look({b"d": False})) == [b"d", b"d/e", b"d/e/g", b"d/f"]
        assert captured.shown() == {}

    def test_a_directory_that_was_renamed_is_not_read_again(self, captured):
        (captured.root / "d").rename(captured.root / "r")
        found = captured.look({b"d": True, b"r": True})
        assert found[b"r/f"].data is None
        assert captured.states()[b"r/f"].blob is not None
        assert sorted(captured.shown()) == ["r", "r/e", "r/e/g", "r/f"]

    def test_a_directory_that_became_a_file_is_one(self, captured):
        (captured.root / "d").rename(captured.root.parent / "elsewhere")
        captured.write("d")
        captured.look({b"d": False})
        assert captured.shown() == {"d": "file"}

    def test_a_file_that_became_a_directory_is_one(self, captured):
        (captured.root / "d" / "f").unlink()
        captured.write("d/f/inner")
        captured.look({b"d/f": False})
        assert captured.shown()["d/f"] == "directory"
        assert captured.shown()["d/f/inner"] == "file"

    def test_what_lies_below_a_link_is_gone(self, captured):
        (captured.root / "d").rename(captured.root.parent / "elsewhere")
        (captured.root / "d").symlink_to(captured.root.parent / "elsewhere")
        captured.look({b"d": False, b"d/f": False})
        assert captured.shown() == {"d": "symlink"}

    def test_our_own_staging_is_never_looked_at(self, captured):
        name = os.fsdecode(STAGING_NAME)
        captured.write(f"{name}/f")
        assert captured.look({STAGING_NAME: True, STAGING_NAME + b"/f": False}) == {}
        captured.look()
        assert STAGING_NAME not in captured.states()

    def test_a_path_that_never_was_is_nothing(self, captured):
        assert captured.look({b"never": False, b"never/was": True}) == {}

    def test_a_mode_alone_is_a_change(self, captured):
        (captured.root / "d").chmod(0o700)
        (captured.root / "d" / "f").chmod(0o600)
        found = captured.look({b"d": False, b"d/f": False})
        assert {path: item.observed.state.mode for path, item in found.items()} == {b"d": 0o700, b"d/f": 0o600}
        assert found[b"d/f"].data is None, "its bytes are in the store"

    def test_a_change_through_another_name_of_the_file_is_found(self, captured):
        os.link(captured.root / "d" / "f", captured.root / "twin")
        captured.look()
        captured.write("twin", b"changed")
        assert sorted(captured.look({b"twin": False})) == [b"d/f", b"twin"]


class TestRules:
    def test_a_skipped_directory_is_one_row(self, captured):
        captured.write("node_modules/a/b")
        captured.look()
        assert captured.shown() == {"node_modules": "dependencies"}
        captured.write("node_modules/a/c")
        assert captured.look({b"node_modules/a/c": False, b"node_modules/a": False}) == {}

    def test_a_rule_that_comes_takes_what_it_matches_out_of_sight(self, captured):
        captured.write("big/f", b"content")
        captured.write("keep")
        captured.look()
        captured.write(".oxideignore", b"big/\n")
        captured.look({b".oxideignore": False})
        assert captured.shown() == {
            ".oxideignore": "file",
            "big": "oxideignore",
            "big/f": "oxideignore",
            "keep": "file",
        }
        assert captured.last.rescanned == {b""}

    @pytest.mark.parametrize("whole", [False, True])
    def test_a_rule_that_goes_brings_it_back(self, captured, whole):
        captured.write("big/f")
        captured.write(".oxideignore", b"big/\n")
        captured.look()
        (captured.root / ".oxideignore").unlink()
        captured.look(None if whole else {b".oxideignore": False})
        assert captured.shown() == {"big": "directory", "big/f": "file"}

    @pytest.mark.parametrize(
        ("path", "size", "reason"),
        [("f", 100_001, "too_large"), ("i.log", 101, "ignored_large"), ("i.log", 100, "file"), ("f", 100_000, "file")],
    )
    def test_what_is_too_large_is_skipped_with_its_size(self, captured, path, size, reason):
        captured.write(".gitignore", b"*.log\n")
        captured.write(path, bytes(size))
        captured.look()
        assert captured.shown()[path] == reason
        assert captured.states()[os.fsencode(path)].size == size

    def test_the_limit_for_all_files_holds_where_the_one_for_ignored_ones_is_higher(self, tmp_path):
        captured = Captured(tmp_path, CaptureSettings(max_file_bytes=10, ignored_file_bytes=100))
        captured.write("f", bytes(11))
        captured.look()
        assert captured.shown() == {"f": "too_large"}
        captured.timeline.close()

    def test_a_file_that_grows_too_large_is_skipped_from_then_on(self, captured):
        captured.write("f", bytes(10))
        captured.look()
        captured.write("f", bytes(200_000))
        captured.look({b"f": False})
        assert captured.shown() == {"f": "too_large"}

    def test_an_ignored_tree_has_room_for_so_many_files(self, captured):
        captured.write(".gitignore", b"logs/\n")
        for number in range(5):
            captured.write(f"logs/{number}")
        captured.look()
        shown = captured.shown()
        assert [path for path in shown if shown[path] == "file"] == [".gitignore", "logs/0", "logs/1", "logs/2"]
        assert shown["logs/"] == "ignored_tree_full"
        captured.write("logs/0", b"changed")
        assert [*captured.look({b"logs/0": False})] == [b"logs/0"], "what is recorded stays recorded"

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("CACHEDIR.TAG", TAG, "cache"),
            ("CACHEDIR.TAG", b"just a file of that name", "directory"),
            ("pyvenv.cfg", b"", "virtual_environment"),
        ],
    )
    def test_a_directory_is_known_by_what_lies_in_it(self, captured, name, content, reason):
        captured.write(f"d/{name}", content)
        captured.write("d/f")
        captured.look()
        assert captured.shown()["d"] == reason
        assert ("d/f" in captured.shown()) == (reason == "directory")

    def test_a_marker_that_comes_later_takes_the_directory_out_of_sight(self, captured):
        captured.write("d/f")
        captured.look()
        captured.write("d/pyvenv.cfg", b"")
        captured.look({b"d/pyvenv.cfg": False})
        assert captured.shown()["d"] == "virtual_environment"


class TestDatabases:
    def test_a_change_of_a_side_file_looks_at_the_whole_database(self, captured):
        connection = sqlite3.connect(captured.root / "x.db")
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t(x)")
        connection.commit()
        captured.look()
        connection.execute("insert into t values(1)")
        connection.commit()
        assert b"x.db-wal" in captured.look({b"x.db-wal": False})
        assert not captured.last.torn
        connection.close()
        captured.look({b"x.db-wal": False})
        assert captured.shown() == {"x.db": "file"}, "its side files went with the last connection"

    @pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
    def test_a_folder_named_like_a_side_file_is_a_folder(self, captured, suffix):
        connection = sqlite3.connect(captured.root / "x.db")
        connection.execute("create table t(x)")
        connection.close()
        captured.write(f"x.db{suffix}/f")
        for dirty in (None, {b"x.db": False}, {f"x.db{suffix}".encode(): True}):
            captured.look(dirty)
            assert captured.shown() == {"x.db": "file", f"x.db{suffix}": "directory", f"x.db{suffix}/f": "file"}

    @pytest.mark.parametrize(("rules", "reason"), [(b"*.db-wal\n", "oxideignore"), (b"", "too_large")])
    def test_a_side_file_that_a_rule_leaves_out_is_left_out_with_the_database_too(self, captured, rules, reason):
        captured.write(".oxideignore", rules)
        connection = sqlite3.connect(captured.root / "x.db")
        connection.execute("pragma page_size = 512")
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t(x)")
        for _ in range(300):
            connection.execute("insert into t values(1)")
            connection.commit()
        assert (captured.root / "x.db-wal").stat().st_size > captured.limits.max_file_bytes
        for dirty in (None, {b"x.db": False}, {b"x.db-wal": False}):
            captured.look(dirty)
            assert captured.shown() | {"x.db": "file", "x.db-wal": reason} == captured.shown()
        connection.close()
