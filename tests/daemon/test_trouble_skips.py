"""What is not recorded is shown with its reason, and no rewind changes or removes it, whatever became of the rules."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.trouble import paths, reasons, refused, settled, skips, write
from tests.kit import Description, diff_trees, tree_of
from tests.kit.box import NO_QUIET, Box

CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"

Tree = dict[bytes, Description]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as made:
        yield made


def only(tree: Tree, *tops: bytes) -> Tree:
    return {
        path: what for path, what in tree.items() if any(path == top or path.startswith(top + b"/") for top in tops)
    }


def inodes(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: ((seen := path.lstat()).st_ino, seen.st_mtime_ns) for path in root.rglob("*") if not path.is_dir()}


# Skipped directories

SKIPPED = {
    "node_modules": "dependencies",
    "packages/one/node_modules": "dependencies",
    "venv": "virtual_environment",
    "tagged": "cache",
    "__pycache__": "cache",
    "build": "build_output",
    ".git": "vcs",
    ".hg": "vcs",
    "own_rule": "oxideignore",
}


def populate(root: Path) -> None:
    for name in SKIPPED:
        write(root / name / "inner" / "file", "not recorded")
    write(root / "venv" / "pyvenv.cfg", "home = /usr/bin\n")
    write(root / "tagged" / "CACHEDIR.TAG", CACHE_TAG)
    write(root / ".gitignore", "build/\n")
    write(root / ".oxideignore", "own_rule/\n")
    write(root / "target" / "file", "a name of build output, but not ignored")
    write(root / "plain", "first")


def test_each_skipped_directory_is_shown_with_its_reason(box):
    populate(box.root)
    answer = box.watch()
    assert skips(box) == {name.encode(): reason for name, reason in SKIPPED.items()}
    assert answer["skipped"] == answer["checkpoint"]["skipped"] == len(SKIPPED)
    assert box.call("cat", checkpoint="1", file="target/file") == b"a name of build output, but not ignored"
    with refused(box, "not_found", "node_modules/inner/file"):
        box.call("cat", checkpoint="1", file="node_modules/inner/file")


@pytest.mark.parametrize("exact", [False, True])
def test_a_rewind_touches_nothing_in_skipped_directories(box, exact):
    populate(box.root)
    box.watch()
    for name in SKIPPED:
        write(box.root / name / "inner" / "file", "changed since")
        write(box.root / name / "inner" / "new", "new since")
    write(box.root / "plain", "second")
    tops = [name.encode() for name in SKIPPED]
    then, there = only(tree_of(box.root), *tops), {name: inodes(box.root / name) for name in SKIPPED}

    answer = box.rewind("1", exact=exact)

    assert paths(answer["restored"]) == [b"plain"]
    assert (answer["removed"], answer["conflicts"]) == ([], [])
    assert diff_trees(then, only(settled(box.root), *tops)) == []
    assert {name: inodes(box.root / name) for name in SKIPPED} == there


def test_a_new_directory_that_holds_skipped_content_is_kept(box):
    write(box.root / "plain", "first")
    box.watch()
    module = write(box.root / "package" / "node_modules" / "module.js", "not recorded")
    write(box.root / "package" / "index.js", "new")

    answer = box.rewind("1", exact=True)

    assert paths(answer["removed"]) == [b"package/index.js"]
    assert reasons(answer["kept"]) == {b"package": "not_empty"}
    assert reasons(answer["skipped"]) == {b"package/node_modules": "dependencies"}
    assert module.read_text() == "not recorded"


def test_a_directory_that_holds_skipped_content_is_not_exchanged_for_a_file(box):
    write(box.root / "thing", "once a file")
    write(box.root / "plain", "first")
    box.watch()
    (box.root / "thing").unlink()
    module = write(box.root / "thing" / "node_modules" / "module.js", "not recorded")
    write(box.root / "plain", "second")

    with refused(box, "conflict", "thing") as caught:
        box.rewind("1", exact=True)
    assert caught.value.details["conflicts"] == [{"path": "thing", "reason": "directory_not_empty"}]

    answer = box.rewind("1")
    assert (paths(answer["restored"]), reasons(answer["conflicts"])) == ([b"plain"], {b"thing": "directory_not_empty"})
    assert module.read_text() == "not recorded"


def test_the_mode_of_a_directory_that_holds_skipped_content_comes_back_around_it(box):
    module = write(box.root / "package" / "node_modules" / "module.js", "not recorded")
    box.watch()
    (box.root / "package").chmod(0o700)
    inode = module.stat().st_ino

    box.rewind("1", exact=True)

    settled(box.root)
    assert ((box.root / "package").stat().st_mode & 0o777, module.stat().st_ino) == (0o755, inode)


def test_skipped_content_that_is_gone_is_listed_as_not_brought_back(box):
    write(box.root / "package" / "node_modules" / "module.js", "not recorded")
    write(box.root / "package" / "index.js", "first")
    box.watch()
    shutil.rmtree(box.root / "package")

    answer = box.rewind("1", exact=True)

    assert (box.root / "package" / "index.js").read_text() == "first"
    assert reasons(answer["skipped"]) == {b"package/node_modules": "dependencies, and it is gone"}


# Limits of ignored files


def test_an_ignored_tree_is_recorded_up_to_2000_files_and_the_rest_is_left_alone(box):
    write(box.root / ".gitignore", "data/\n")
    for number in range(2_003):
        write(box.root / "data" / f"{number:04}", f"{number}")
    box.watch()
    assert skips(box) == {b"data/": "ignored_tree_full"}
    recorded = set(paths(box.call("show", checkpoint="1")["changes"]))
    assert recorded == {b".gitignore", b"data", *(b"data/%04d" % number for number in range(2_000))}
    left = [box.root / "data" / f"{number:04}" for number in (2_000, 2_001)]
    for path in left:
        write(path, "changed since")
    (box.root / "data" / "0000").unlink()
    write(box.root / "data" / "0001", "changed since")

    answer = box.rewind("1", exact=True)

    assert paths(answer["restored"]) == [b"data/0000", b"data/0001"]
    assert [path.read_text() for path in left] == ["changed since"] * 2
    assert (box.root / "data" / "2002").read_text() == "2002"


def test_a_file_over_a_limit_is_shown_with_its_size_and_left_alone(tmp_path):
    with Box(tmp_path, capture=replace(NO_QUIET, max_file_bytes=3 << 20)) as box:
        write(box.root / ".gitignore", "*.log\n")
        sizes = {"small.log": 1 << 20, "large.log": (1 << 20) + 1, "plain": 3 << 20, "huge": (3 << 20) + 1}
        for name, size in sizes.items():
            write(box.root / name, bytes(size))
        box.watch()
        shown = box.call("show", checkpoint="1")["skipped_paths"]
        assert {(entry["path"], entry["reason"], entry["size_bytes"]) for entry in shown} == {
            ("huge", "too_large", (3 << 20) + 1),
            ("large.log", "ignored_large", (1 << 20) + 1),
        }
        for name in sizes:
            write(box.root / name, "changed since")
        write(box.root / "huge", bytes((3 << 20) + 2))

        answer = box.rewind("1", exact=True)

        assert paths(answer["restored"]) == [b"plain", b"small.log"]
        assert reasons(answer["skipped"]) == {b"huge": "too_large", b"large.log": "ignored_large"}
        assert (box.root / "huge").stat().st_size == (3 << 20) + 2
        assert (box.root / "large.log").read_text() == "changed since"


# Rules that change between two checkpoints


def by_oxideignore(root: Path) -> None:
    write(root / ".oxideignore", "data/\n")


def by_a_cache_tag(root: Path) -> None:
    write(root / "data" / "CACHEDIR.TAG", CACHE_TAG)


def by_a_virtual_environment(root: Path) -> None:
    write(root / "data" / "pyvenv.cfg", "")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("hide", [by_oxideignore, by_a_cache_tag, by_a_virtual_environment])
def test_what_a_new_rule_hides_is_left_alone_and_listed(box, hide: Callable[[Path], None], exact):
    write(box.root / "data" / "file", "first")
    write(box.root / "plain", "first")
    box.watch()
    hide(box.root)
    box.checkpoint()
    write(box.root / "data" / "file", "second")
    write(box.root / "data" / "new", "new")
    write(box.root / "plain", "second")
    then = only(tree_of(box.root), b"data")

    answer = box.rewind("1", exact=exact)

    assert {b"data", b"data/file"} <= reasons(answer["skipped"]).keys()
    assert ("the tree does not equal the checkpoint" in " ".join(answer["notes"])) is exact
    assert paths(answer["restored"]) == [b"plain"]
    assert diff_trees(then, only(settled(box.root), b"data")) == []
    assert box.call("cat", checkpoint="1", file="data/file") == b"first"


@pytest.mark.parametrize("name", [".oxideignore", ".gitignore"])
def test_a_rewind_says_when_it_brings_older_rules_back(box, name):
    """The secret that the newer rule left out is recorded then."""
    write(box.root / name, "*.tmp\n")
    write(box.root / "plain", "first")
    box.watch()
    write(box.root / "plain", "second")
    box.checkpoint()
    assert not [note for note in box.rewind("1", dry_run=True)["notes"] if "recorded" in note]
    write(box.root / name, "*.tmp\nsecret\n")
    (said,) = [note for note in box.rewind("1", dry_run=True)["notes"] if "recorded" in note]
    assert said.startswith(f"{name} changes too")


def test_what_was_never_recorded_and_is_gone_is_named(box):
    write(box.root / ".oxideignore", "left\n")
    write(box.root / "left", "never recorded")
    box.watch()
    (box.root / "left").unlink()

    (item,) = box.rewind("1")["skipped"]
    assert (item["path"], item["reason"]) == ("left", "oxideignore, and it is gone")
    answer = box.call("history", deleted=True)
    (gone,) = answer["items"]
    assert (gone["path"], gone["reason"], gone["checkpoint"]) == ("left", "oxideignore", None)
    assert "hint" not in answer


def test_what_a_new_rule_hides_is_not_told_as_deleted(box):
    write(box.root / "data" / "file", "first")
    write(box.root / "gone", "first")
    box.watch()
    by_oxideignore(box.root)
    (box.root / "gone").unlink()
    box.checkpoint()
    (box.root / ".oxideignore").unlink()
    box.checkpoint()

    hidden = {item["path"]: item for item in box.call("diff", a="1", b="2", patch=True)["items"]}
    assert (hidden["data/file"]["status"], hidden["data/file"]["reason"]) == ("D", "oxideignore")
    assert (hidden["data/file"]["patch"], "reason" in hidden["gone"]) == ("", False)
    assert "deleted file" in hidden["gone"]["patch"]
    shown = {item["path"]: item.get("reason") for item in box.call("show", checkpoint="3")["changes"]}
    assert shown["data/file"] == "oxideignore"
    assert shown[".oxideignore"] is None


def a_rule_lifted(root: Path) -> None:
    (root / ".oxideignore").unlink()


def a_marker_removed(root: Path) -> None:
    (root / "data" / "CACHEDIR.TAG").unlink()


def a_default_lifted(root: Path) -> None:
    write(root / ".oxideignore", "!node_modules/\n")


LIFTED: dict[Callable[[Path], None], tuple[str, dict[str, str]]] = {
    a_rule_lifted: ("data", {".oxideignore": "data/\n"}),
    a_marker_removed: ("data", {"data/CACHEDIR.TAG": CACHE_TAG}),
    a_default_lifted: ("node_modules", {}),
}


@pytest.mark.parametrize("mode", ["all", "exact", "session"])
@pytest.mark.parametrize("lift", LIFTED)
def test_what_a_lifted_rule_shows_is_not_taken_for_new(box, lift: Callable[[Path], None], mode):
    """It was there at the checkpoint, only not recorded."""
    folder, rules = LIFTED[lift]
    for name, content in {f"{folder}/file": "precious", "plain": "first", **rules}.items():
        write(box.root / name, content)
    box.watch()
    box.call("turn_begin", agent="claude", session="S", prompt="P")
    lift(box.root)
    write(box.root / folder / "file", "precious, and edited")
    write(box.root / "plain", "second")
    box.call("turn_end", session="S")

    options: dict[str, Any] = {"scope": "session"} if mode == "session" else {"scope": "all", "exact": mode == "exact"}
    box.rewind("turn:-1", **options)

    assert (box.root / "plain").read_text() == "first"
    assert (box.root / folder / "file").read_text() == "precious, and edited"


def test_what_finds_room_in_an_ignored_tree_later_is_not_taken_for_new(tmp_path):
    with Box(tmp_path, capture=replace(NO_QUIET, ignored_tree_files=2)) as box:
        write(box.root / ".gitignore", "data/\n")
        for name in "abc":
            write(box.root / "data" / name, name)
        box.watch()
        (box.root / "data" / "a").unlink()
        box.checkpoint()
        write(box.root / "data" / "c", "precious, and edited")
        box.checkpoint()

        box.rewind("1", exact=True)

        assert (box.root / "data" / "c").read_text() == "precious, and edited"
