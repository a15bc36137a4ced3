"""Patches are judged by the tools that will apply them: git and GNU patch."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openoxide.checkpoints.patch import GitFile, git_patch, unified
from tests.kit import effort

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
needs_patch = pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
GIT_APPLY = ("git", "apply", "--whitespace=nowarn", "--unidiff-zero")
STRICT_GIT_APPLY = GIT_APPLY[:-1]
GNU_PATCH = ("patch", "-p1", "--binary", "--silent", "--force", "--fuzz=0")

# few different lines, so that they repeat, move and match; some that look like the patch's own syntax
WORDS = [
    "",
    "a",
    "b",
    "-- a/x",
    "++ b/x",
    "@@ -1 +1 @@",
    "\\ No newline",
    "\r",
    "x\rb\x0c",
    " \t",
    "é\u2028ü",
    "\x1b[31m",
]
LINES = st.lists(st.sampled_from(WORDS), max_size=40)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    text = "\n".join(draw(LINES))
    return (text + draw(st.sampled_from(["", "\n"]))).encode()


def apply(command: tuple[str, ...], patch: str, name: str, old: bytes | None) -> bytes | None:
    """What ``command`` makes of ``old``; None where no file is left."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.fsencode(folder), os.fsencode(name))
        if old is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(old)
        subprocess.run(command, input=os.fsencode(patch), cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
        return Path(os.fsdecode(path)).read_bytes() if os.path.exists(path) else None


def numbered(first: int, last: int, **changed: str) -> bytes:
    return "".join(changed.get(f"n{n}", f"line {n}") + "\n" for n in range(first, last + 1)).encode()


@needs_git
@settings(max_examples=effort(150))
@given(contents(), contents())
@example(b"a", b"a\n")
@example(b"", b"\n")
@example(b"a\n" * 10, b"a\n" * 9)
@example(b"a\n" * 9, b"a\n" * 10)
def test_git_apply_turns_the_old_bytes_into_the_new_ones(old: bytes, new: bytes) -> None:
    patch = unified("x", "x", old, new)
    if old == new:
        assert patch == ""
    elif old and new:
        assert apply(STRICT_GIT_APPLY, patch, "x", old) == new


@needs_git
@settings(max_examples=effort(60))
@given(contents(), st.booleans())
def test_git_apply_creates_and_deletes_files_also_empty_ones(content: bytes, creates: bool) -> None:
    old, new = (None, content) if creates else (content, None)
    assert apply(STRICT_GIT_APPLY, unified("d/x", "d/x", old, new), "d/x", old) == new


@needs_patch
@settings(max_examples=effort(100))
@given(contents().filter(bool), contents().filter(bool))
def test_gnu_patch_turns_the_old_bytes_into_the_new_ones(old: bytes, new: bytes) -> None:
    if old != new:
        assert apply(GNU_PATCH, unified("x", "x", old, new), "x", old) == new


@needs_git
@settings(max_examples=effort(60))
@given(st.integers(0, 30), st.integers(0, 30), LINES, LINES)
def test_cutting_the_common_ends_keeps_line_numbers_right(
    before: int, after: int, old: list[str], new: list[str]
) -> None:
    top, bottom = numbered(1, before), numbered(1000, 1000 + after)
    old_bytes, new_bytes = (top + "\n".join(lines).encode() + b"\n" + bottom for lines in (old, new))
    if old_bytes != new_bytes:
        # git apply would search for a hunk whose numbers are wrong and say so ("offset 3 lines")
        patch = unified("x", "x", old_bytes, new_bytes)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x").write_bytes(old_bytes)
            done = subprocess.run((*STRICT_GIT_APPLY, "-v"), input=patch.encode(), cwd=folder, env=ENVIRONMENT,
                                  check=True, capture_output=True)  # fmt: skip
            assert b"offset" not in done.stderr
            assert Path(folder, "x").read_bytes() == new_bytes


@needs_git
@needs_patch
@pytest.mark.parametrize("command", [STRICT_GIT_APPLY, GNU_PATCH], ids=["git", "patch"])
@pytest.mark.parametrize(
    "name", ["plain", "with space", "tab\there", 'quo"te', "back\\slash", "é", "\udcff\udcfe", "d/é f\x01"]
)
def test_names_that_need_quotes_arrive(command: tuple[str, ...], name: str) -> None:
    patch = unified(name, name, b"old\n", b"new\n")
    assert apply(command, patch, name, b"old\n") == b"new\n"


def test_the_patch_reads_like_git_s() -> None:
    old, new = numbered(1, 12), numbered(1, 12, n6="changed")
    assert unified("x", "y", old, new) == (
        "--- a/x\n+++ b/y\n@@ -3,7 +3,7 @@\n line 3\n line 4\n line 5\n-line 6\n+changed\n line 7\n line 8\n line 9\n"
    )


@needs_git
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\n", b"b\n"),
        (b"a", b"a\n"),
        (b"a\n", b"a"),
        (b"a\nb", b"a\nc"),
        (b"", b"a\n"),
        (b"a\n", b""),
        (numbered(1, 40), numbered(1, 40, n4="x", n30="y")),
        (numbered(1, 40), numbered(1, 40, n10="x", n16="y")),
        (numbered(1, 9), numbered(1, 12)),
    ],
)
def test_headers_and_hunks_equal_git_diff(tmp_path: Path, old: bytes, new: bytes) -> None:
    for side, content in (("a", old), ("b", new)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "x").write_bytes(content)
    command = ("git", "diff", "--no-index", "--no-prefix", "a/x", "b/x")
    by_git = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False).stdout
    ours = [line for line in unified("x", "x", old, new).splitlines() if not line.startswith("@@")]
    assert ours == [line for line in by_git.splitlines() if not line.startswith(("diff ", "index ", "@@"))]
    # git names the enclosing function behind the second @@
    ranges = [line.split(" @@")[0] for line in by_git.splitlines() if line.startswith("@@")]
    assert [
        line.split(" @@")[0] for line in unified("x", "x", old, new).splitlines() if line.startswith("@@")
    ] == ranges


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"a\0b", b"text\n", "Binary files a/x and b/x differ\n"),
        (b"text\n", b"\xff\xfe", "Binary files a/x and b/x differ\n"),
        (None, b"\0", "Binary files /dev/null and b/x differ\n"),
        (b"\xc3", None, "Binary files a/x and /dev/null differ\n"),
        (b"\0", b"\0", ""),
        (None, None, ""),
        (b"same", b"same", ""),
    ],
)
def test_what_has_no_text_patch_is_said_in_one_line(old: bytes | None, new: bytes | None, said: str) -> None:
    assert unified("x", "x", old, new) == said


def test_what_has_no_text_patch_is_passed_over_by_git_apply(tmp_path: Path) -> None:
    """After a change of a mode alone git would take the line for the binary part of that one."""
    (tmp_path / "run").write_bytes(b"x\n")
    patch = git_patch("run", GitFile(mode="100644", content=b"x\n"), GitFile(mode="100755", content=b"x\n"))
    patch += git_patch("bin", None, GitFile(mode="100644", content=b"\0"))
    command = ("git", "apply", "-")
    subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, input=patch, text=True, check=True)
    assert (tmp_path / "run").stat().st_mode & 0o111


def test_a_nul_after_the_first_8000_bytes_is_text_as_in_git() -> None:
    old = b"a" * 7_999 + b"\n\0\n"
    assert unified("x", "x", old, old + b"b\n").startswith("--- a/x")
    assert unified("x", "x", b"a" * 7_999 + b"\0\n", b"b\n").startswith("Binary")


def test_more_changed_lines_than_the_limit_are_counted_instead_of_compared() -> None:
    old, new = numbered(1, 60), numbered(101, 150)
    assert unified("x", "x", old, new, limit_lines=110).startswith("--- a/x")
    assert unified("x", "x", old, new, limit_lines=109) == (
        "Files a/x and b/x differ: 60 old and 50 new lines, too many to compare (limit 109)\n"
    )


def test_the_limit_counts_what_differs_not_the_size_of_the_file() -> None:
    old = numbered(1, 200_000)
    new = numbered(1, 200_000, n150000="changed")
    assert "@@ -149997,7 +149997,7 @@" in unified("x", "x", old, new, limit_lines=20)
