"""A past state copied out: all of it, nothing beside it, and nothing through a link."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given, settings

from openoxide.checkpoints.materialise import materialise, prepare_target
from openoxide.checkpoints.model import FileState
from openoxide.checkpoints.plan import Left
from openoxide.errors import ConflictError, FailedError, UsageError
from tests.checkpoints.bench import put
from tests.checkpoints.states import DEPENDENCIES, TOO_LARGE, file, folder, special, trees
from tests.checkpoints.stores import Store
from tests.kit import effort, tree_of
from tests.kit.limits import file_size_limit

SPECIAL_BITS = 0o7000
CONTENTS = (b"1", b"22", b"content", b"")


@pytest.fixture
def store(tmp_path):
    (tmp_path / "home").mkdir()
    store = Store(tmp_path / "home")
    store.keep(*CONTENTS)
    yield store
    store.close()


@pytest.fixture
def target(tmp_path):
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


def copied(store, target, states):
    return materialise(store.blobs, os.fsencode(target), states)


def described(state: FileState, content: bytes = b"") -> tuple[object, ...]:
    """The state as the kit describes what stands on a disk."""
    match state.kind.name:
        case "FILE":
            return "file", state.mode & ~SPECIAL_BITS, state.mtime_ns, content
        case "DIRECTORY":
            return "dir", state.mode
        case "SYMLINK":
            return "link", state.target
    return "fifo", 0o600


@settings(max_examples=effort(40))
@given(states=trees())
def test_a_tree_is_copied_whole(tmp_path_factory, states):
    folder_ = tmp_path_factory.mktemp("copied")
    store = Store(folder_)
    store.keep(b"1", b"22")
    (folder_ / "to").mkdir()
    found = copied(store, folder_ / "to", states)
    contents = {1: b"1", 2: b"22"}
    expected = {
        path: described(state, contents.get(state.size, b""))
        for path, state in states.items()
        if state.exists and path not in {left.path for left in found.skipped}
    }
    assert tree_of(folder_ / "to") == expected
    assert sorted(found.written) == sorted(expected)
    assert {left.path for left in found.skipped} == {path for path, state in states.items() if state == TOO_LARGE}
    store.close()


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TOO_LARGE, "too_large"),
        (DEPENDENCIES, "dependencies"),
        (special(b"socket"), "special"),
        (special(b"char"), "special"),
        (file(b"1", torn=True), "torn"),
    ],
)
def test_what_is_not_in_the_store_is_listed_with_its_reason(store, target, state, reason):
    found = copied(store, target, {b"p": state, b"q": file(b"1")})
    assert found.skipped == (Left(path=b"p", reason=reason),)
    assert found.written == (b"q",)


def test_a_fifo_keeps_its_mode(store, target):
    copied(store, target, {b"p": special(b"fifo", 0o640)})
    assert tree_of(target) == {b"p": ("fifo", 0o640)}


def test_parents_that_were_not_asked_for_are_plain_directories(store, target):
    found = copied(store, target, {b"a/b/f": file(b"1"), b"a/g": file(b"22")})
    assert found.written == (b"a", b"a/b", b"a/b/f", b"a/g")
    assert tree_of(target)[b"a/b"] == ("dir", 0o700)


def test_a_closed_directory_is_closed_when_everything_is_in_it(store, target):
    copied(store, target, {b"d": folder(0o500), b"d/e": folder(0o555), b"d/e/f": file(b"1", 0o400)})
    assert {path: what[1] for path, what in tree_of(target).items()} == {b"d": 0o500, b"d/e": 0o555, b"d/e/f": 0o400}


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1644])
def test_set_id_and_sticky_bits_are_not_for_copies(store, target, mode):
    copied(store, target, {b"f": file(b"1", mode)})
    assert tree_of(target)[b"f"][1] == mode & 0o777


class TestWhatIsThere:
    @pytest.mark.parametrize(
        "there", [("file", 0o600, 5, b"old"), ("link", b"elsewhere"), ("fifo", 0o600)], ids=lambda what: what[0]
    )
    def test_what_is_no_directory_is_replaced(self, store, target, there):
        put(target / "f", there)
        copied(store, target, {b"f": file(b"content")})
        assert tree_of(target) == {b"f": ("file", 0o644, 1, b"content")}

    def test_a_directory_is_used_and_what_is_in_it_stays(self, store, target):
        (target / "d").mkdir()
        (target / "d" / "own").write_text("x")
        copied(store, target, {b"d": folder(0o750), b"d/f": file(b"1")})
        assert sorted(tree_of(target)) == [b"d", b"d/f", b"d/own"]
        assert tree_of(target)[b"d"] == ("dir", 0o750)

    def test_a_directory_in_the_place_of_a_file_is_in_the_way(self, store, target):
        (target / "f").mkdir()
        found = copied(store, target, {b"f": file(b"1"), b"g": file(b"1")})
        assert found.skipped == (Left(path=b"f", reason="in_the_way"),)
        assert sorted(tree_of(target)) == [b"f", b"g"], "no temporary file is left"

    def test_a_file_in_the_place_of_a_directory_is_in_the_way_of_all_below(self, store, target):
        (target / "d").write_text("own")
        found = copied(store, target, {b"d": folder(), b"d/f": file(b"1"), b"g": file(b"1")})
        assert [left.path for left in found.skipped] == [b"d", b"d/f"]
        assert (target / "d").read_text() == "own"

    @pytest.mark.parametrize(
        "below",
        [
            b"d/f",
            b"d/e/f",
        ],
    )
    def test_a_link_in_the_place_of_a_directory_is_in_the_way_of_all_below(self, store, target, tmp_path, below):
        outside = tmp_path / "outside"
        outside.mkdir()
        (target / "d").symlink_to(outside)
        found = copied(store, target, {b"d": folder(), below: file(b"1"), b"g": file(b"1")})
        assert {left.path for left in found.skipped} >= {b"d", below}
        assert found.written == (b"g",)
        assert list(outside.iterdir()) == []

    def test_nothing_is_written_through_a_link(self, store, target, tmp_path):
        outside = tmp_path / "outside"
        (outside / "e").mkdir(parents=True)
        (target / "d").symlink_to(outside)
        with suppress(FailedError):
            copied(store, target, {b"d/f": file(b"1"), b"d/e/f": file(b"1")})
        assert sorted(tree_of(outside)) == [b"e"]


class TestFailures:
    def test_damage_is_told_and_leaves_no_half_file(self, store, target):
        missing = file(b"never stored")
        found = copied(store, target, {b"a": file(b"1"), b"f": missing, b"g": file(b"1")})
        assert (found.written, found.damaged) == ((b"a", b"g"), (b"f",))
        assert sorted(tree_of(target)) == [b"a", b"g"]

    def test_a_disk_that_takes_no_more_is_told_and_leaves_no_half_file(self, store, target):
        store.keep(bytes(5000))
        with file_size_limit(1000), pytest.raises(FailedError, match="cannot be written"):
            copied(store, target, {b"f": file(bytes(5000))})
        assert tree_of(target) == {}


class TestTarget:
    def test_it_is_made_with_its_parents(self, tmp_path):
        prepare_target(os.fsencode(tmp_path / "a" / "b"), force=False)
        assert (tmp_path / "a" / "b").is_dir()

    def test_an_empty_one_is_taken(self, tmp_path):
        prepare_target(os.fsencode(tmp_path), force=False)

    def test_one_that_is_not_empty_only_by_force(self, tmp_path):
        (tmp_path / "own").touch()
        with pytest.raises(ConflictError, match="is not empty"):
            prepare_target(os.fsencode(tmp_path), force=False)
        prepare_target(os.fsencode(tmp_path), force=True)

    @pytest.mark.parametrize("name", ["file", "file/below"])
    def test_a_file_is_no_target(self, tmp_path, name):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="is not a directory"):
            prepare_target(os.fsencode(tmp_path / name), force=True)

    def test_a_name_that_is_too_long_is_no_target(self, tmp_path):
        with pytest.raises(UsageError, match="cannot be used: File name too long"):
            prepare_target(os.fsencode(tmp_path / ("x" * 300)), force=True)
