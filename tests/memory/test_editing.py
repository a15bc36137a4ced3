"""An edit changes what it names and nothing else; two texts are kept both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.errors import ConflictError, RefusedError, UsageError
from openoxide.memory import editing
from openoxide.memory.editing import (
    Append,
    Insert,
    Replace,
    already_in,
    doubts,
    edited,
    keep_both,
    refuse_twice,
    require,
    sha256,
    to_bytes,
    to_text,
)


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ("a b c", Replace(old="b", new="x"), "a x c"),
        ("a b c", Replace(old=" b", new=""), "a c"),
        ("a\\1", Replace(old="a", new="\\1\\g<0>"), "\\1\\g<0>\\1"),
        ("a\nb\n", Insert(line=0, text="x"), "x\na\nb\n"),
        ("a\nb\n", Insert(line=1, text="x\n"), "a\nx\nb\n"),
        ("a\nb", Insert(line=2, text="x"), "a\nb\nx\n"),
        ("", Insert(line=0, text="x"), "x\n"),
        ("a\r\nb\r\n", Insert(line=1, text="x\ny"), "a\r\nx\r\ny\r\nb\r\n"),
        ("", Append(text="x"), "x\n"),
        ("a", Append(text="x"), "a\nx\n"),
        ("a\r\n", Append(text="x\r\ny"), "a\r\nx\r\ny\r\n"),
        ("a\x0bb\u2028c\n", Insert(line=1, text="x"), "a\x0bb\u2028c\nx\n"),
    ],
)
def test_an_edit(text, edit, after):
    assert edited(text, edit, "a.md") == after


@pytest.mark.parametrize(
    ("text", "edit", "error", "says"),
    [
        ("a", Replace(old="b", new="x"), ConflictError, "does not hold"),
        ("a", Replace(old="", new="x"), ConflictError, "does not hold"),
        ("a\na", Replace(old="a", new="x"), ConflictError, "2 times, in lines 1, 2"),
        ("aaa", Replace(old="aa", new="x"), ConflictError, "2 times"),
        ("a\n", Insert(line=2, text="x"), UsageError, "it has 1"),
        ("a\n", Insert(line=-1, text="x"), UsageError, "no line -1"),
    ],
)
def test_an_edit_that_fits_nowhere_is_refused(text, edit, error, says):
    with pytest.raises(error, match=says):
        edited(text, edit, "a.md")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_text_come_back(raw):
    assert to_bytes(to_text(raw)) == raw


def test_half_a_pair_is_written_as_something():
    assert to_bytes("a\ud800b").startswith(b"a")


@pytest.mark.parametrize(
    ("text", "new", "line"),
    [
        ("- one\n- two\n", "* Two", 2),
        ("# A\n\n- use   GDB\n", "Use gdb", 3),
        ("one\ntwo\nthree\n", "two\n\nthree", 2),
        ("one two\n", "one", 0),
        ("---\n", "---", 0),
        ("- a fact\n", "- a similar fact", 0),
        ("", "x", 0),
    ],
)
def test_what_is_said_already_is_found(text, new, line):
    assert already_in(text, new) == line
    if line:
        with pytest.raises(RefusedError, match=f"in line {line}"):
            refuse_twice("a.md", text, new)


texts = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=8).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)


@given(texts, texts)
def test_both_keep_all_their_lines_in_order(ours, theirs):
    both = keep_both(ours, theirs)

    for side in (ours, theirs):
        rest = iter(both.splitlines())
        assert all(line in rest for line in side.splitlines())
    assert len(both.splitlines()) <= len(ours.splitlines()) + len(theirs.splitlines())


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ("a\nx\n", "a\ny\n", "a\ny\nx\n"),
        ("a\nb\nx\n", "a\nb\n", "a\nb\nx\n"),
        ("x", "y", "y\nx"),
        ("", "y\n", "y\n"),
        ("same\n", "same\n", "same\n"),
        ("one\nmine", "one\nmine\nmore\n", "one\nmine\nmore\n"),
        ("mine\nmore\n", "mine", "mine\nmore\n"),
        ("a\r\nmine\r\nmore", "a\r\nmine", "a\r\nmine\r\nmore"),
        ("mine\n", "mine", "mine"),
        ("mine", "mine\n", "mine\n"),
    ],
)
def test_kept_both(ours, theirs, both):
    assert keep_both(ours, theirs) == both


def test_texts_that_are_too_long_to_compare_follow_each_other(monkeypatch):
    monkeypatch.setattr(editing, "MOST_COMPARED_LINES", 2)

    assert keep_both("a\nb\nc\n", "a\nd") == "a\nd\na\nb\nc\n"


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("x" * 1_000, "x" * 499, 1),
        ("x" * 1_000, "x" * 500, 0),
        ("x" * 100, "", 0),
        ("long text\n" * 100, "# A\n[rest unchanged]\n", 2),
        ("a", "a\n... rest of the file stays the same ...\n", 1),
        ("a", "[previous content unchanged]", 1),
        ("a", "<!-- remaining sections omitted -->", 1),
        ("[rest unchanged]", "[rest unchanged]\nb", 0),
        ("a", "the rest of the API is documented in the wiki", 0),
        ("a", "- keep existing tests green", 0),
    ],
)
def test_a_text_that_looks_like_an_accident_is_doubted(before, after, count):
    assert len(doubts(before, after)) == count


@pytest.mark.parametrize(
    ("found", "expected", "says"),
    [
        (b"a", "", "is there already"),
        (None, sha256(b"a"), "is gone"),
        (b"b", sha256(b"a"), "was changed since it was read"),
    ],
)
def test_a_precondition_says_what_is_wrong(found, expected, says):
    with pytest.raises(ConflictError, match=says) as caught:
        require("a.md", found, expected)
    assert caught.value.details == {"expected": expected, "found": sha256(found)}
