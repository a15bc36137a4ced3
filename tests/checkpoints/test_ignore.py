"""What is recorded and what not: each default and its reason, both ignore files, and git itself as the oracle."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from openoxide.checkpoints.ignore import GIT_EXCLUDE, IGNORE_FILES, MARKER_NAMES, RESERVED_NAMES, Rules
from openoxide.checkpoints.model import STAGING_NAME, SkipReason
from openoxide.settings import CaptureSettings
from tests.kit import effort

HOME = (b"oxided.lock", b"timeline.db")
Files = Mapping[bytes, bytes]


def rules(files: Files | None = None, *extra_skip: str) -> Rules:
    """Rules with ``files`` loaded: path of the ignore file to its content."""
    made = Rules(CaptureSettings(extra_skip=extra_skip))
    for path, content in (files or {}).items():
        made.load(*place(path), content)
    return made


def place(path: bytes) -> tuple[bytes, bytes]:
    if path == GIT_EXCLUDE:
        return b"", path
    directory, _, name = path.rpartition(b"/")
    return directory, name


@pytest.mark.parametrize("below", [b"", b"packages/app/"])
@pytest.mark.parametrize(
    ("name", "markers", "reason"),
    [
        *((name, (), SkipReason.VCS) for name in b".git .hg .svn .bzr .jj .sl CVS _darcs .pijul".split()),
        (b"node_modules", (), SkipReason.DEPENDENCIES),
        (b"__pycache__", (), SkipReason.CACHE),
        (b"anything", (b"CACHEDIR.TAG",), SkipReason.CACHE),
        (b"anything", (b"pyvenv.cfg",), SkipReason.VIRTUAL_ENVIRONMENT),
        (b"anything", (b"pyvenv.cfg", b"CACHEDIR.TAG"), SkipReason.VIRTUAL_ENVIRONMENT),
        (b"anything", HOME, SkipReason.OPENOXIDE),
        (b"node_modules", HOME, SkipReason.OPENOXIDE),
        (STAGING_NAME, (), SkipReason.OPENOXIDE),
    ],
)
def test_a_directory_is_skipped_whatever_gitignore_says(
    below: bytes, name: bytes, markers: Collection[bytes], reason: SkipReason
) -> None:
    assert rules().skip_directory(below + name, markers) is reason
    assert rules({b".gitignore": b"!*\n"}).skip_directory(below + name, frozenset(markers)) is reason


@pytest.mark.parametrize("markers", [(), HOME[:1], HOME[1:]])
@pytest.mark.parametrize("path", b"src node_modules2 Node_modules cvs venv .openoxide node_modules/left-pad".split())
def test_a_directory_that_only_looks_like_one_is_recorded(path: bytes, markers: Collection[bytes]) -> None:
    assert rules().skip_directory(path, markers) is None


def test_the_root_is_never_skipped() -> None:
    everything = rules({b".oxideignore": b"*\n", b".gitignore": b"*\n"}, "*")
    assert everything.skip_directory(b"", MARKER_NAMES) is None


def test_marker_names_are_all_that_a_directory_is_judged_by() -> None:
    assert frozenset({*HOME, b"pyvenv.cfg", b"CACHEDIR.TAG"}) == MARKER_NAMES


@pytest.mark.parametrize(
    "name",
    [
        *b".GIT .Git .giT git~1 GIT~1 .git. .git... .git::$INDEX_ALLOCATION .git\\hooks".split(),
        b".git . .",
        ".g\u200cit".encode(),
        "\ufeff.git".encode(),
        ".GI\u206aT\u202e".encode(),
    ],
)
def test_a_directory_that_some_file_system_takes_for_dot_git_is_protected_for_good(name: bytes) -> None:
    assert rules({b".oxideignore": b"!*\n"}).skip_directory(b"sub/" + name, ()) is SkipReason.VCS
    assert rules().skip_entry(b"sub/" + name) is None


@pytest.mark.parametrize(
    "name",
    [
        *b".github .gitlab git .git.bak .git2 git~2 git~10 x.git project.git .g\xffit .g\xe2\x80it".split(),
        b" .git",
        "g\u200cit".encode(),
        ".g\u00ect".encode(),
    ],
)
def test_a_directory_that_no_file_system_takes_for_dot_git_is_recorded(name: bytes) -> None:
    assert rules().skip_directory(name, ()) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *((path, SkipReason.VCS) for path in b".git vendor/lib/.git .fslckout _FOSSIL_".split()),
        (STAGING_NAME, SkipReason.OPENOXIDE),
        *((path, None) for path in b".gitignore .gitmodules .hg node_modules __pycache__ build".split()),
    ],
)
def test_an_entry_that_is_no_directory_is_skipped_by_its_name_only_if_it_leads_to_a_repository(
    path: bytes, reason: SkipReason | None
) -> None:
    assert rules({b".gitignore": b"*\n"}).skip_entry(path) is reason


@pytest.mark.parametrize(
    "name",
    b"build dist out target vendor .next .nuxt .svelte-kit .turbo .parcel-cache .gradle bower_components Pods "
    b"DerivedData .tox .nox .mypy_cache .pytest_cache .ruff_cache .terraform .cache coverage htmlcov .eggs "
    b"oxide.egg-info cmake-build-debug".split(),
)
def test_a_build_output_is_skipped_only_if_gitignore_matches_it(name: bytes) -> None:
    assert rules({b".gitignore": name + b"/\n"}).skip_directory(b"a/" + name, ()) is SkipReason.BUILD_OUTPUT
    assert rules().skip_directory(b"a/" + name, ()) is None
    assert rules({b".gitignore": b"*.o\n"}).skip_directory(b"a/" + name, ()) is None


@pytest.mark.parametrize("name", b"bin obj lib data tmp logs .env .idea .yarn .egg-info cmake-build- Build src".split())
def test_an_ignored_directory_that_may_hold_work_is_recorded(name: bytes) -> None:
    assert rules({b".gitignore": b"*\n"}).skip_directory(name, ()) is None


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({b".gitignore": b"build\n"}, SkipReason.BUILD_OUTPUT),
        ({b".gitignore": b"/app/build/\n"}, SkipReason.BUILD_OUTPUT),
        ({b".gitignore": b"app/*\n"}, SkipReason.BUILD_OUTPUT),
        ({b"app/.gitignore": b"/build\n"}, SkipReason.BUILD_OUTPUT),
        ({GIT_EXCLUDE: b"build\n"}, SkipReason.BUILD_OUTPUT),
        ({b".gitignore": b"app/\nbuild/\n"}, SkipReason.BUILD_OUTPUT),
        ({b".gitignore": b"build\n!app/build\n"}, None),
        ({b".gitignore": b"build\n", b"app/.gitignore": b"!build\n"}, None),
        ({b"app/build/.gitignore": b"*\n"}, None),
        ({b".gitignore": b"/*\n"}, None),
        ({b".gitignore": b"app/\n"}, None),
        ({b"other/.gitignore": b"build\n"}, None),
    ],
)
def test_a_build_output_needs_a_rule_that_matches_the_directory_itself(files: Files, reason: SkipReason | None) -> None:
    assert rules(files).skip_directory(b"app/build", ()) is reason


@pytest.mark.parametrize(
    ("content", "path", "skipped"),
    [
        (b"secret\n", b"secret", True),
        (b"secret\n", b"a/secret", True),
        (b"/secret\n", b"a/secret", False),
        (b"*.iso\n", b"a/b.iso", True),
        (b"*.iso\n!b.iso\n", b"a/b.iso", False),
        (b"a/**/x\n", b"a/b/c/x", True),
        (b"dir/\n", b"dir", False),
        (b"a/\n!a/x\n", b"a/x", True),
        (b"a/*\n!a/x\n", b"a/x", False),
        (b"a/*\n!a/b/\n!a/b/x\n", b"a/b/x", False),
        (b"*\n!*/\n!*.py\n", b"a/b.py", False),
        (b"*\n!*/\n!*.py\n", b"a/b.bin", True),
    ],
)
def test_oxideignore_skips_entries_in_gitignore_syntax(content: bytes, path: bytes, skipped: bool) -> None:
    assert rules({b".oxideignore": content}).skip_entry(path) is (SkipReason.OXIDEIGNORE if skipped else None)


def test_oxideignore_skips_whole_directories_and_a_deeper_file_overrides() -> None:
    made = rules({b".oxideignore": b"big/\n", b"kept/.oxideignore": b"!big/\n"})
    assert made.skip_directory(b"big", ()) is SkipReason.OXIDEIGNORE
    assert made.skip_directory(b"kept/big", ()) is None
    assert made.skip_directory(b"other/big", ()) is SkipReason.OXIDEIGNORE


@pytest.mark.parametrize(
    ("pattern", "path", "markers"),
    [
        (b"!node_modules\n", b"a/node_modules", ()),
        (b"!/node_modules/\n", b"node_modules", ()),
        (b"!/node_modules/\n", b"node_modules/a/node_modules", ()),
        (b"!__pycache__/\n", b"__pycache__", ()),
        (b"!venv/\n", b"venv", (b"pyvenv.cfg",)),
        (b"!cache/\n", b"cache", (b"CACHEDIR.TAG",)),
        (b"!.svn/\n", b".svn", ()),
        (b"!build/\n", b"build", ()),
        (b"!fixtures/\n", b"fixtures/a/build", ()),
        (b"!extra\n", b"extra", ()),
    ],
)
def test_a_negation_in_oxideignore_lifts_a_default_skip_there_and_below(
    pattern: bytes, path: bytes, markers: Collection[bytes]
) -> None:
    git = {b".gitignore": b"build/\n"}
    skipped = rules(git, "extra").skip_directory(path, markers)
    assert skipped is not None
    assert rules({**git, b".oxideignore": pattern}, "extra").skip_directory(path, markers) is None


@pytest.mark.parametrize(
    ("name", "markers", "reason"),
    [(b".git", (), SkipReason.VCS), (STAGING_NAME, (), SkipReason.OPENOXIDE), (b"home", HOME, SkipReason.OPENOXIDE)],
)
@pytest.mark.parametrize("content", [b"!*\n", b"!.git/\n!.openoxide-staging/\n!home/\n", b"!**\n", b"*\n"])
def test_nothing_brings_back_git_a_home_or_the_staging_folder(
    name: bytes, markers: Collection[bytes], reason: SkipReason, content: bytes
) -> None:
    made = rules({b".oxideignore": content, b"a/.oxideignore": content})
    assert made.skip_directory(name, markers) is reason
    assert made.skip_directory(b"a/" + name, markers) is reason


def test_nothing_brings_back_the_git_file_of_a_submodule() -> None:
    assert rules({b".oxideignore": b"!.git\n"}).skip_entry(b"sub/.git") is SkipReason.VCS


@pytest.mark.parametrize(
    ("extra", "directory", "file"),
    [
        (("data",), SkipReason.EXTRA_SKIP, SkipReason.EXTRA_SKIP),
        (("data/",), SkipReason.EXTRA_SKIP, None),
        (("/data",), None, None),
        (("/a/data",), SkipReason.EXTRA_SKIP, SkipReason.EXTRA_SKIP),
        (("d*a", "!data"), None, None),
        (("other", "data"), SkipReason.EXTRA_SKIP, SkipReason.EXTRA_SKIP),
        (("#data", "[", ""), None, None),
        ((), None, None),
    ],
)
def test_extra_skip_holds_names_and_patterns_at_the_root(
    extra: tuple[str, ...], directory: SkipReason | None, file: SkipReason | None
) -> None:
    assert rules(None, *extra).skip_directory(b"a/data", ()) is directory
    assert rules(None, *extra).skip_entry(b"a/data") is file


def test_oxideignore_overrides_extra_skip() -> None:
    made = rules({b".oxideignore": b"!keep.iso\n!kept/\n"}, "*.iso")
    assert made.skip_entry(b"a.iso") is SkipReason.EXTRA_SKIP
    assert made.skip_entry(b"keep.iso") is None
    assert made.skip_entry(b"kept/a.iso") is None


@pytest.mark.parametrize(
    ("files", "path", "top"),
    [
        ({}, b"a/b", None),
        ({b".gitignore": b"*.log\n"}, b"a/b.log", b"a/b.log"),
        ({b".gitignore": b"a/\n"}, b"a/b/c", b"a"),
        ({b".gitignore": b"b\n"}, b"a/b/c/d", b"a/b"),
        ({b".gitignore": b"a/b\na\n"}, b"a/b/c", b"a"),
        ({b".gitignore": b"a/\n!a/b\n"}, b"a/b", b"a"),
        ({b".gitignore": b"a/\n", b"a/.gitignore": b"!b\n"}, b"a/b", b"a"),
        ({b".gitignore": b"*\n", b"a/.gitignore": b"!b\n"}, b"a/b", b"a"),
        ({b".gitignore": b"/a/*\n", b"a/.gitignore": b"!b\n"}, b"a/b", None),
        ({b".gitignore": b"b\n", b"a/.gitignore": b"!b\n", b"a/x/.gitignore": b"b\n"}, b"a/x/b", b"a/x/b"),
        ({GIT_EXCLUDE: b"*.o\n"}, b"a/b.o", b"a/b.o"),
        ({GIT_EXCLUDE: b"*.o\n", b".gitignore": b"!b.o\n"}, b"a/b.o", None),
        ({GIT_EXCLUDE: b"!b.o\n", b".gitignore": b"*.o\n"}, b"a/b.o", b"a/b.o"),
        ({b".gitignore": b"*.log\n", b".oxideignore": b"!b.log\n"}, b"b.log", None),
        ({b".gitignore": b"out/\n", b".oxideignore": b"!out/\n"}, b"out/a/b", None),
        ({b".gitignore": b"out/\n", b".oxideignore": b"!keep/\n"}, b"out/keep/b", None),
        ({b".gitignore": b"out/\n", b".oxideignore": b"!keep/\n"}, b"out/other/b", b"out"),
        ({b".gitignore": b"/data/*\n*.log\n", b".oxideignore": b"!/data/\n"}, b"data/a.log", None),
        ({b".gitignore": b"!x\n", b".oxideignore": b"x\n"}, b"x", None),
        ({b".oxideignore": b"x\n"}, b"x", None),
    ],
)
def test_the_topmost_ignored_directory_stands_for_what_is_below(files: Files, path: bytes, top: bytes | None) -> None:
    assert rules(files).ignored_top(path, False) == top


def test_a_directory_pattern_does_not_match_a_file_or_a_link() -> None:
    made = rules({b".gitignore": b"a/\n"})
    assert made.ignored_top(b"a", True) == b"a"
    assert made.ignored_top(b"a", False) is None


@pytest.mark.parametrize(
    ("content", "path", "other"),
    [
        (b"\xff\xfe\n", b"d/\xff\xfe", b"d/\xff"),
        (b"*\xff\n", b"d/x\xff", b"d/x\xfe"),
        (b"x\xff/\xe9*\n", b"x\xff/\xe9t\xe9", b"x\xff/\xe8t"),
        (b"[\x80-\xff]\n", b"\xe9", b"e"),
        (b"caf\xc3\xa9\n", "caf\u00e9".encode(), "cafe\u0301".encode()),
        (b"\xc3\xa0\n", b"\xc3\xa0", b"\xc3"),
        (b"caf??\n", "caf\u00e9".encode(), b"caf\xe9"),
        (b"x\n", b"new\nline/x", b"x\n"),
        (b"**/x*y\n", b"new\nline/x\ny", b"new\nline/x\ny\n"),
        (b"x\r\n", b"x", b"x\r"),
        (b"\xef\xbb\xbfx\n", b"x", b"\xef\xbb\xbfx"),
        (b"x\0y\n", b"x", b"xy"),
        (b"x\t\n", b"x\t", b"x"),
    ],
)
def test_names_and_patterns_are_bytes(content: bytes, path: bytes, other: bytes) -> None:
    assert rules({b".gitignore": content}).ignored_top(path, False) == path
    assert rules({b".oxideignore": content}).skip_entry(path) is SkipReason.OXIDEIGNORE
    assert rules({b".gitignore": content}).ignored_top(other, False) is None


def test_a_tree_deeper_than_the_stack_is_answered() -> None:
    deep = b"d/" * 5_000
    made = rules({b".gitignore": b"*.o\n", deep + b".gitignore": b"!*.o\n"})
    assert made.ignored_top(deep + b"x.o", False) is None
    assert made.ignored_top(deep[:-2] + b"x.o", False) == deep[:-2] + b"x.o"


@pytest.mark.parametrize(
    "line",
    [*b"[ [a [] [!] a[ \\ a\\ [[:nope:]] [[:digit:] [a-\\ ! / // !/ a//b [/] (?P<n> { \0".split(b" "), b" ", b""],
)
def test_a_broken_line_matches_nothing_and_leaves_the_others_alone(line: bytes) -> None:
    made = rules({b".gitignore": b"*.o\n" + line + b"\n!keep.o\n", b".oxideignore": line}, os.fsdecode(line))
    for path in (b"a", b"a[", b"a/b", b"keep.o", b"[", b"x/z", b"\\"):
        assert made.ignored_top(path, False) is None
        assert made.skip_entry(path) is None
        assert made.skip_directory(path, ()) is None
    assert made.ignored_top(b"x.o", False) == b"x.o"


@pytest.mark.parametrize(
    "line", [b"*a" * 40 + b"b", b"**/a/" * 40 + b"b", b"x/" + b"*a" * 40 + b"b", b"[a-z]*" * 40 + b"Z"]
)
def test_a_pattern_made_to_run_forever_is_answered(line: bytes) -> None:
    made = rules({b".gitignore": line})
    assert made.ignored_top(b"x/" + b"a" * 250, False) is None
    assert made.ignored_top(b"a/" * 300 + b"c", False) is None


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (None, b"a\n", True),
        (b"a\n", b"a\n", False),
        (b"a\n", b"b\n", True),
        (b"a\n", b"!a\n", True),
        (b"a\n", b"a/\n", True),
        (b"a\n", b"/a\n", True),
        (b"a\nb\n", b"b\na\n", True),
        (b"a\n", None, True),
        (None, None, False),
        (b"a\n", b"# why\n\na  \r\n", False),
        (None, b"# nothing\n", False),
        (b"# nothing\n", None, False),
    ],
)
@pytest.mark.parametrize("name", IGNORE_FILES)
def test_load_tells_whether_the_rules_changed(
    name: bytes, before: bytes | None, after: bytes | None, changed: bool
) -> None:
    made = rules()
    made.load(b"d", name, before)
    assert made.load(b"d", name, after) is changed


def test_loaded_names_what_lies_in_the_directory_and_is_loaded() -> None:
    made = rules({b"a/.gitignore": b"x\n", b"a/.oxideignore": b"", GIT_EXCLUDE: b"x\n"})
    assert made.loaded(b"a") == frozenset(IGNORE_FILES)
    assert made.loaded(b"") == frozenset()
    assert made.loaded(b"b") == frozenset()
    made.load(b"a", b".gitignore", None)
    assert made.loaded(b"a") == {b".oxideignore"}


def test_a_reloaded_file_changes_answers_below_it_that_were_given_before() -> None:
    made = rules({b".gitignore": b"x\n"})
    assert made.ignored_top(b"a/b/x", False) == b"a/b/x"
    assert made.load(b"a", b".gitignore", b"!x\nb/\n")
    assert made.ignored_top(b"a/b/x", False) == b"a/b"
    assert made.load(b"a", b".gitignore", None)
    assert made.load(b"", b".gitignore", None)
    assert made.ignored_top(b"a/b/x", False) is None


def test_a_vanished_directory_takes_its_ignore_files_and_those_below_along() -> None:
    made = rules({name + b".gitignore": b"x\n" for name in (b"a/", b"a/b/", b"ab/", b"a/b/c/")})
    assert made.ignored_top(b"a/b/c/x", False) == b"a/b/c/x"
    made.drop_below(b"a/b")
    assert [bool(made.loaded(name)) for name in (b"a", b"a/b", b"a/b/c", b"ab")] == [True, False, False, True]
    made.drop_below(b"a")
    assert made.ignored_top(b"a/b/c/x", False) is None
    assert made.ignored_top(b"ab/x", False) == b"ab/x"
    made.drop_below(b"")
    assert made.ignored_top(b"ab/x", False) is None


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def build(root: Path, files: Files, paths: Collection[bytes]) -> None:
    """An ignore file at each of ``files`` and, for each of ``paths``, a directory (trailing slash) or an empty file."""
    subprocess.run(["git", "init", "--quiet", "--template=", root], check=True)
    for path in (*paths, *files):
        place = os.path.join(os.fsencode(root), path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not path.endswith(b"/"):
            with open(place, "wb") as file:
                file.write(files.get(path, b""))


def entries(root: Path) -> Iterator[tuple[bytes, bool]]:
    """Everything in the tree but ``.git``: path and whether it is a directory."""
    top = os.fsencode(root)
    for folder, names, others in os.walk(top):
        names[:] = [name for name in names if name != b".git"]
        for name in (*names, *others):
            yield os.path.relpath(os.path.join(folder, name), top), name in names


def ignored_by_git(root: Path, paths: Collection[bytes]) -> set[bytes]:
    command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z"]
    names = b"".join(b"./%b\0" % path for path in paths)  # git reads pathspecs: a leading colon would be magic
    done = subprocess.run(command, cwd=root, input=names, capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return {name.removeprefix(b"./") for name in done.stdout.split(b"\0")[:-1]}


def ignored_by_us(files: Files, found: Mapping[bytes, bool]) -> set[bytes]:
    made = rules(files)
    return {path for path, is_directory in found.items() if made.ignored_top(path, is_directory) is not None}


# fmt: off
SCENARIOS: dict[str, tuple[Files, list[bytes]]] = {
    "names at any depth": ({b".gitignore": b"foo\n*.o\nba?\n"}, b"foo a/foo/x a/b.o x/bar x/bars .o".split()),
    "anchored": ({b".gitignore": b"/foo\na/b\n/c/\n"}, b"foo x/foo a/b x/a/b c/d x/c/d cc/d".split()),
    "directories only": ({b".gitignore": b"foo/\nbar/*\n"}, b"foo a/foo/x bar/x/y a/bar/x".split()),
    "whitelist": ({b".gitignore": b"*\n!*/\n!*.go\n!.gitignore\n"}, b"x.go d/x.go d/x.bin d/e/f.go Makefile".split()),
    "whitelist of a directory": ({b".gitignore": b"/*\n!/foo\n/foo/*\n!/foo/bar\n"}, b"a foo/bar/x foo/b b/c".split()),
    "no way back below an ignored directory": ({b".gitignore": b"d/\n!d/e\n!e\n"}, b"d/e d/f/e e".split()),
    "a way back if only its contents are": ({b".gitignore": b"d/*\n!d/e\n"}, b"d/e/x d/f a/d/f".split()),
    "a negated ancestor does not cover": ({b".gitignore": b"y/\n!x/\n"}, b"x/y/z y/x/z x/z".split()),
    "the last match wins": ({b".gitignore": b"a*\n!ab*\nabc\n"}, b"a ab abc abd ax/abc".split()),
    "nested, deeper wins": (
        {b".gitignore": b"*.log\n/a/x\n", b"a/.gitignore": b"!k.log\nx\n", b"a/b/.gitignore": b"*.log\n!/x\n"},
        b"k.log a/k.log a/b/k.log a/b/x a/x x a/other.log a/c/k.log".split()),
    "nested, anchored there": ({b"a/.gitignore": b"/x\nb/y\n"}, b"a/x a/b/x a/b/y b/y a/c/b/y x".split()),
    "nested in an ignored directory": ({b".gitignore": b"a\n", b"a/.gitignore": b"!*\n"}, b"a/x b/a/x".split()),
    "nested by a longer name": ({b"ab/.gitignore": b"/c\n", b"a/.gitignore": b"/b\n"}, b"ab/c a/b abc a/bc".split()),
    "excludes come last": ({GIT_EXCLUDE: b"*.o\nx\n!y\n", b".gitignore": b"!x\ny\n"}, b"a.o x y d/x d/a.o".split()),
    "double star in front": ({b".gitignore": b"**/foo\n**/a/b\n"}, b"foo x/foo a/b x/y/a/b x/a/c/b".split()),
    "double star behind": ({b".gitignore": b"a/**\nx/**/\n"}, b"a/b/c b/a/c x/f x/d/f x/d/e/f".split()),
    "double star between": (
        {b".gitignore": b"a/**/b\nc/**/d/**/e\n"},
        b"a/b a/x/b a/x/y/b b/a/b a/x/bb c/d/e c/1/d/2/3/e c/e c/d/x/d/e x/c/d/e".split()),
    "double star alone": ({b"a/.gitignore": b"**\n!/b/\n", b"c/.gitignore": b"/**\n"}, b"a/b/c a/x c/d/e d".split()),
    "three stars": ({b".gitignore": b"a/***/b\n***.o\n"}, b"a/b a/x/y/b x.o y/x.o".split()),
    "stars in a name": ({b".gitignore": b"a*b*c\n*x*\n/d*/e\n"}, b"abc aXbYc abcb oxo d/e d1/e d/f/e".split()),
    "stars stop at slashes": ({b".gitignore": b"a/*/c\na?c\n*/z\n"}, b"a/b/c a/b/b/c a/c abc y/z x/y/z".split()),
    "sets": (
        {b".gitignore": b"[abc]1\n[!abc]2\n[^a]3\n[a-c]4\n[]-]5\n[a-]6\n"},
        b"a1 d1 a2 d2 a3 b3 b4 d4 ]5 -5 a5 -6 a6 b6".split()),
    "odd sets": (
        {b".gitignore": b"[\\]]1\n[a\\-c]2\n[z-a]3\n[!z-a]4\n[--0]5\n[]-a]6\n[a-c-e]7\n[!]]8\n[[]9\n"},
        b"]1 b2 -2 m3 z3 a3 m4 .5 -5 ]6 _6 -7 d7 ]8 a8 [9".split()),
    "named sets": (
        {b".gitignore": b"[[:digit:]]a\n[[:alpha:]_]b\n[![:upper:]]c\n[[:punct:]]d\n[[:x:]]e\n[[:]f\n[[:digit:]-z]g\n"},
        b"1a xa _b 1b Ac ac !d -d :e xe :f [f -g 5g qg".split()),
    "sets and slashes": (
        {b".gitignore": b"a[b/c]d\nx[!y]z\nx/[!y]/z\np/x[!y]z\n"}, b"abd acd a/d x/z xaz x/a/z x/y/z p/x/z".split()),
    "broken": ({b".gitignore": b"foo[\n[]\nbar\\\n[a\n*[!\n"}, b"foo[ [] bar\\ bar a [a x[!".split()),
    "escapes": (
        {b".gitignore": b"\\#a\n\\!b\n\\*c\n\\?d\n\\[e]\n\\f\ng\\/h\n\\\\i\n"},
        b"#a !b *c xc ?d xd [e] f g/h x/g/h \\i".split()),
    "comments": ({b".gitignore": b"#a\n b#c\n#\n!#d\n #e\n"}, [b"#a", b" b#c", b"#", b"#d", b" #e", b"e"]),
    "trailing spaces": (
        {b".gitignore": b"a  \nb\\ \nc\\  \nd\\\\ \ne \\ \nf/ \n   \ng\t\n"},
        [b"a", b"a  ", b"b ", b"b", b"c ", b"c  ", b"d\\", b"d\\ ", b"e  ", b"e", b"f/x", b"g\t", b"g"]),
    "leading spaces": ({b".gitignore": b" a\n\tb\n"}, [b" a", b"a", b"\tb", b"b"]),
    "CRLF": ({b".gitignore": b"a\r\nb/\r\n!c\r\nd\r\r\ne"}, [b"a", b"a\r", b"b/x", b"c", b"d\r", b"d", b"e"]),
    "CRLF at the end": ({b".gitignore": b"*.o\r\n!a.o\r"}, [b"a.o", b"b.o"]),
    "BOM": (
        {b".gitignore": b"\xef\xbb\xbfa\nb\n", b"d/.gitignore": b"\xef\xbb\xbf#x\nc\n"}, b"a b d/c d/#x".split()),
    "slashes too many": ({b".gitignore": b"/\n//\n!/\n!\n/.\na//b\n./c\nd//\n**//\n"}, b"a/b c d/x".split()),
    "bytes": (
        {b".gitignore": b"\xff*\nd\xe9/\n[\x80-\xff]\n\xc3\xa0\n?\xa9\n"},
        [b"\xffx", b"d\xe9/x", b"\xe9", b"\xc3\xa0", b"\xc3\xa9", b"\xc3x", b"x"]),
    "newlines in names": (
        {b".gitignore": b"x\n*.o\nn/**/y\nm/**\n"},
        [b"a\nb/x", b"x\n", b"a\n.o", b"n/a\nb/y", b"x.o\n", b"m/a\nb/c"]),
    "names like options and pathspecs": ({b".gitignore": b"-x\n:y\n"}, [b"-x", b"--/x", b":y", b":/y"]),
    "case matters": ({b".gitignore": b"Foo\n*.O\n"}, [b"foo", b"Foo", b"a.o", b"a.O"]),
    "ignore files themselves": ({b".gitignore": b".*\n!.gitignore\n", b"a/.gitignore": b".git*\n"}, [b".env", b"a/.x"]),
}
# fmt: on


@needs_git
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_are_those_of_git(tmp_path: Path, scenario: str) -> None:
    files, paths = SCENARIOS[scenario]
    build(tmp_path, files, paths)
    found = dict(entries(tmp_path))
    assert found.keys() >= {path.rstrip(b"/") for path in paths}
    assert ignored_by_us(files, found) == ignored_by_git(tmp_path, found)


def test_stars_beside_a_literal_are_ordinary_ones_as_the_manual_says() -> None:
    made = rules({b".gitignore": b"a**/b\n/c**\n"})
    assert made.ignored_top(b"ax/b", False) == b"ax/b"
    assert made.ignored_top(b"ax/y/b", False) is None
    assert made.ignored_top(b"c", False) == b"c"


ORDINARY = b"a b ab a.b * ** ? *a b* *.b a*b [ab] [!a] ?b*".split()
ODD = st.text("ab.*?[]!-\\", min_size=1, max_size=5).filter(lambda text: "**" not in text).map(str.encode)
SEGMENT = st.sampled_from(ORDINARY) | ODD
PATTERN = st.builds(
    lambda sign, front, segments, back: sign + front + b"/".join(segments) + back,
    st.sampled_from([b"", b"", b"!"]),
    st.sampled_from([b"", b"", b"/"]),
    st.lists(SEGMENT, min_size=1, max_size=3),
    st.sampled_from([b"", b"", b"/"]),
)
CONTENT = st.lists(PATTERN, min_size=1, max_size=5).map(b"\n".join)
TREE = [b"a/a/b", b"a/ab", b"a/b/a/b", b"a/b/a.b", b"ab/b/", b"b/a", b"b/ab/a.b", b"b/b.b/b", b"a.b", b"aab", b".b/a"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    build(root, {}, TREE)
    return root


@needs_git
@hypothesis_settings(max_examples=effort(300))
@given(files=st.dictionaries(st.sampled_from([b".gitignore", b"a/.gitignore", b"a/b/.gitignore"]), CONTENT, min_size=1))
def test_answers_to_made_up_patterns_are_those_of_git(repository: Path, files: Files) -> None:
    for path in (b".gitignore", b"a/.gitignore", b"a/b/.gitignore"):
        (repository / os.fsdecode(path)).write_bytes(files.get(path, b""))
    found = dict(entries(repository))
    assert ignored_by_us(files, found) == ignored_by_git(repository, found)


DIRECTORIES = [b"", b"a", b"a/b", b"a/b/build", b"ab"]
PLACES = [(directory, name) for directory in DIRECTORIES for name in IGNORE_FILES] + [(b"", GIT_EXCLUDE)]
LINE = st.sampled_from(b"a b/ build /a x *.o a/** !x !b !build !*.o !a #x".split())
LINES = st.lists(LINE, max_size=3).map(b"\n".join)
LOAD = st.tuples(st.sampled_from(PLACES), st.none() | LINES)
STEP = st.one_of(LOAD, st.sampled_from(DIRECTORIES), st.none())


def answers(made: Rules) -> list[object]:
    below = [*DIRECTORIES, b"a/b/build/c", b"node_modules"]
    paths = [directory + b"/" + name if directory else name for directory in below for name in (b"x", b"y.o", b"b")]
    return [
        [made.skip_directory(path, ()) for path in (*below, *paths)],
        [made.skip_entry(path) for path in paths],
        [made.ignored_top(path, is_directory) for path in paths for is_directory in (True, False)],
        [made.loaded(directory) for directory in DIRECTORIES],
    ]


@given(files=st.dictionaries(st.sampled_from(PLACES), LINES), extra=st.sampled_from([(), ("x",)]))
@hypothesis_settings(max_examples=effort(300))
def test_where_no_rule_has_a_say_each_entry_would_be_let_through(
    files: dict[tuple[bytes, bytes], bytes], extra: tuple[str, ...]
) -> None:
    made = Rules(CaptureSettings(extra_skip=extra))
    for (directory, name), content in files.items():
        made.load(directory, name, content)
    for directory in filter(made.has_no_say, DIRECTORIES):
        for path in (directory + b"/" + name if directory else name for name in (b"x", b"y.o", b"b")):
            assert made.skip_entry(path) is None
            assert made.ignored_top(path, False) in (None, path)


def test_a_rule_that_says_nothing_about_entries_has_no_say() -> None:
    made = rules({b".gitignore": b"a/\n*.o\n", b"b/.oxideignore": b"x\n"})
    assert [made.has_no_say(directory) for directory in (b"", b"a", b"a/c", b"b", b"b/c", b"c")] == [
        True, False, False, False, False, True]  # fmt: skip
    assert not rules(None, "x").has_no_say(b"")
    assert {name for name in (b".git", b"_FOSSIL_", b".fslckout", STAGING_NAME) if rules().skip_entry(name)} == (
        RESERVED_NAMES
    )


@given(steps=st.lists(STEP, max_size=12), order=st.permutations(PLACES))
@hypothesis_settings(max_examples=effort(300))
def test_rules_kept_up_to_date_answer_as_rules_loaded_afresh_in_any_order(
    steps: list[tuple[tuple[bytes, bytes], bytes | None] | bytes | None], order: list[tuple[bytes, bytes]]
) -> None:
    kept, files = rules(), dict[tuple[bytes, bytes], bytes]()
    for step in steps:
        if step is None:
            answers(kept)
        elif isinstance(step, bytes):
            kept.drop_below(step)
            files = {
                at: content for at, content in files.items() if not (at[0] + b"/").startswith(step and step + b"/")
            }
        else:
            (directory, name), content = step
            before = answers(kept)
            changed = kept.load(directory, name, content)
            assert changed or answers(kept)[:-1] == before[:-1]
            files = {at: held for at, held in files.items() if at != step[0]}
            if content is not None:
                files[step[0]] = content
    fresh = rules()
    for directory, name in order:
        fresh.load(directory, name, files.get((directory, name)))
    assert answers(kept) == answers(fresh)
