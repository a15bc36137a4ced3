"""What stands in code or has no end is text; what is a block comment or a frontmatter is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.markdown import code_lines, decoded, outside_code, page_of, without_comments


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\n<!-- b -->\nc", "a\nc"),
        ("<!-- b\nstill\n-->\nc", "c"),
        ("   <!-- three spaces -->\nc", "c"),
        ("    <!-- four are code -->\nc", "    <!-- four are code -->\nc"),
        ("a <!-- in a line -->\nc", "a <!-- in a line -->\nc"),
        ("<!-- b --> kept\nc", " kept\nc"),
        ("<!-- one --><!-- two -->\nc", "c"),
        ("<!-- never ends\nc", "<!-- never ends\nc"),
        ("```\n<!-- code -->\n```\nc", "```\n<!-- code -->\n```\nc"),
        ("~~~~\n```\n<!-- code -->\n~~~\n~~~~\n<!-- gone -->", "~~~~\n```\n<!-- code -->\n~~~\n~~~~"),
        ("- item\n<!-- in a list -->\n- item", "- item\n- item"),
        ("no comment at all", "no comment at all"),
        ("", ""),
    ],
)
def test_block_comments_go_and_all_else_stays(text, left):
    assert without_comments(text) == left


@pytest.mark.parametrize(
    ("text", "fields", "body"),
    [
        ("---\nname: a\n---\nbody", {"name": "a"}, "body"),
        ("---\r\nname: a\r\n---\r\nbody", {"name": "a"}, "body"),
        ("---\nname: 'it''s'\n---\n", {"name": "it"}, ""),
        ('---\npaths:\n  - "a/**"\n  - b\n---\n', {"paths": ("a/**", "b")}, ""),
        ("---\npaths:\n- a\n- b # why\n---\n", {"paths": ("a", "b")}, ""),
        ("---\npaths: [a, 'b, c', \"d{e,f}\"]\n---\n", {"paths": ("a", "b, c", "d{e,f}")}, ""),
        ("---\npaths: [src/*.{ts,tsx}, b]\n---\n", {"paths": ("src/*.{ts,tsx}", "b")}, ""),
        ("---\nmetadata:\n  type: user\n  modified: x\n---\n", {"metadata": {"type": "user", "modified": "x"}}, ""),
        ("---\ntitle: a # comment\n# another\n---\n", {"title": "a"}, ""),
        ("---\nnever closed\nbody", {}, "---\nnever closed\nbody"),
        ("\n---\nname: a\n---\n", {}, "\n---\nname: a\n---\n"),
        ("----\nname: a\n---\n", {}, "----\nname: a\n---\n"),
        ("---\n---\nbody", {}, "body"),
    ],
)
def test_a_frontmatter_stands_between_hyphens_at_the_start(text, fields, body):
    page = page_of(text)

    assert (page.fields, page.body) == (fields, body)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("a `b` c", ["b"]),
        ("a ``b ` c`` d", ["b", "c"]),
        ("a ` b", []),
        ("`b\nc` d", ["b", "c"]),
        ("`b\n\nc` d", []),
        ("```\nb\n```\nc", ["b"]),
        ("```py\nb\n``` c\nd\n```\ne", ["b", "c", "d"]),
        ("`` b ` c", []),
        ("\\`b` ` c", ["b"]),
    ],
)
def test_code_is_blanked_and_nothing_else(text, inside):
    left = outside_code(text)

    assert len(left) == len(text)
    for letter in "abcde":
        assert (letter in left) is (letter in text and letter not in inside), letter


@given(st.text(alphabet="`~ab \n\r<!->", max_size=60))
def test_any_text_keeps_its_length_and_lines(text):
    left = outside_code(text)

    assert [len(line) for line in left.split("\n")] == [len(line) for line in text.split("\n")]
    assert len(code_lines(text.split("\n"))) == text.count("\n") + 1
    without_comments(text)
    page_of(text)


@given(st.binary())
def test_any_bytes_are_a_text(raw):
    text = decoded(raw)

    assert "\0" not in text
    text.encode("utf-8")


@pytest.mark.parametrize(
    "text", ["<!--" * 30_000, "`" * 60_000, "` `` " * 20_000, "<!-- a\n" * 20_000, "---\n" + "a: b\n" * 30_000]
)
def test_a_hostile_text_is_read_in_one_go(text):
    # a pattern that goes back and forth would take minutes; the time limit of the suite is the verdict
    assert outside_code(text) is not None
    assert without_comments(text) is not None
    assert page_of(text) is not None
