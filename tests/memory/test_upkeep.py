"""An index is added to and marked; nothing that somebody wrote is taken out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.index import MOST_LINES, entries, load_index
from openoxide.memory.upkeep import Did, Told, maintained, renamed_entry, suggested, with_entry, without_entry


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "- [A](a.md) — new\n"),
        ("# Memory\n", "# Memory\n\n- [A](a.md) — new\n"),
        ("# Memory\n\n- [B](b.md)\n", "# Memory\n\n- [A](a.md) — new\n- [B](b.md)\n"),
        ("# Memory\ntext\n", "# Memory\n\n- [A](a.md) — new\n\ntext\n"),
        ("---\nname: x\n---\n- [B](b.md)\n", "---\nname: x\n---\n- [A](a.md) — new\n- [B](b.md)\n"),
        ("- [B](b.md)\r\n", "- [A](a.md) — new\r\n- [B](b.md)\r\n"),
        ("- [Old](a.md) — old\n", "- [A](a.md) — new\n"),
        ("- [A](a.md) — new\n", "- [A](a.md) — new\n"),
    ],
)
def test_a_new_line_comes_first_in_its_list(before, after):
    assert with_entry(before, "a.md", Told("A", "new"))[0] == after


def test_a_section_takes_its_own_lines():
    text = "# Memory\n\n## Build\n- [B](b.md)\n\n## Test\n- [T](t.md)\n"

    assert with_entry(text, "a.md", Told("A"), "test")[0] == text.replace("- [T]", "- [A](a.md)\n- [T]")
    assert with_entry(text, "a.md", Told("A"), "New")[0] == text + "\n## New\n\n- [A](a.md)\n"


def test_what_was_added_last_is_loaded_of_two_hundred_and_five():
    text = "# Memory\n"
    for n in range(205):
        text = with_entry(text, f"t{n}.md", Told(f"T{n}"))[0]

    assert "(t204.md)" in load_index(text.encode()).text
    assert "(t0.md)" not in load_index(text.encode()).text


def test_a_dead_line_is_marked_and_unmarked_when_its_file_is_back():
    text = "# Memory\n- [A](a.md) — one\n- [B](b.md)\n"

    marked, changes = maintained(text, {"a.md": Told()}, {"a.md"})
    assert marked == "# Memory\n- [A](a.md) — one\n- [B](b.md) (file gone)\n"
    assert [(change.did, change.name) for change in changes] == [(Did.MARKED, "b.md")]
    assert maintained(marked, {"a.md": Told()}, {"a.md"}) == (marked, [])

    back, changes = maintained(marked, {"a.md": Told(), "c.md": Told("C", "three")}, {"a.md", "b.md", "c.md"})
    assert back == "# Memory\n- [C](c.md) — three\n- [A](a.md) — one\n- [B](b.md)\n"
    assert [change.did for change in changes] == [Did.UNMARKED, Did.ADDED]


names = st.sampled_from(["a.md", "b.md", "c/d.md"])
some_line = st.one_of(
    st.builds("- [T]({}) — hook".format, names),
    st.sampled_from(["# Memory", "## Part", "", "prose", "```", "- plain", "---"]),
)


@given(st.lists(some_line, max_size=12).map("\n".join), st.sets(names))
def test_upkeep_loses_no_line_and_is_done_after_one_go(text, topics):
    kept, _ = maintained(text, dict.fromkeys(topics, Told("T", "h")), topics)

    before = [line for line in text.split("\n") if line]
    after = iter([line.removesuffix(" (file gone)") for line in kept.split("\n")])
    assert all(line in after for line in before), "in their order"
    assert maintained(kept, dict.fromkeys(topics, Told("T", "h")), topics) == (kept, [])
    # a list that code swallowed cannot be read back: an open fence runs to the end of the text
    if "```" not in text:
        assert topics <= {entry.name for entry in entries(kept)}


def test_a_deleted_and_a_renamed_topic_change_their_own_line_only():
    text = "# M\r\n- [A](a.md) — one\r\nprose a.md\r\n- [B](b.md)\r\n"

    assert without_entry(text, "a.md") == "# M\r\nprose a.md\r\n- [B](b.md)\r\n"
    assert renamed_entry(text, "a.md", "z.md") == text.replace("(a.md)", "(z.md)")


def test_nothing_is_suggested_for_an_index_that_loads():
    assert suggested("- [A](a.md)\n" * 200) == []


def test_what_moves_first_is_dead_then_double_then_detail_then_what_was_not_used():
    body = [f"- [T{n}](t{n}.md) — hook" for n in range(198)]
    text = "\n".join(["# Memory", *body, "- [D](d.md) (file gone)", "- [T0](t0.md)", "some prose", "# End", ""])

    moves = suggested(text, {f"t{n}.md": 1_000 for n in range(197)})

    assert [(move.reason, move.text) for move in moves] == [
        ("dead", "- [D](d.md) (file gone)"),
        ("twice", "- [T0](t0.md)"),
        ("detail", "some prose"),
    ]
    more = suggested(text + "\n".join(f"- [X{n}](x{n}.md)" for n in range(3)), {f"t{n}.md": 1_000 for n in range(198)})
    assert [move.reason for move in more] == ["dead", "twice", "detail", "unused", "unused", "unused"]
    assert more[3].text == "- [X2](x2.md)", "of those never used the lowest"


def test_long_lines_move_where_characters_are_too_many():
    text = "\n".join([f"- [S{n}](s{n}.md)" for n in range(50)] + ["x" * 13_000, "y" * 13_000, "z" * 500])

    moves = suggested(text)

    left = [line for at, line in enumerate(text.split("\n"), 1) if at not in {move.line for move in moves}]
    assert not load_index("\n".join(left).encode()).warning
    assert len(moves) == 1


@pytest.mark.parametrize(
    "text",
    ["- [A](a.md) " + "x" * 150 + "\n", "# heading\n", "a\n\n", "prose " * 30 + "\n"],
    ids=["entries", "headings", "gaps", "prose"],
)
def test_an_index_of_anything_can_be_made_to_load(text):
    assert_what_is_left_loads(text * 250)


@given(st.lists(st.integers(0, 900), min_size=1, max_size=260))
def test_without_what_is_suggested_all_loads(lengths):
    assert_what_is_left_loads("\n".join(f"- [T{n}](t{n}.md) {'x' * length}" for n, length in enumerate(lengths)))


def assert_what_is_left_loads(text):

    moves = suggested(text)

    left = [line for at, line in enumerate(text.split("\n"), 1) if at not in {move.line for move in moves}]
    assert not load_index("\n".join(left).encode()).warning
    assert bool(moves) is bool(load_index(text.encode()).warning)
    assert len({move.line for move in moves}) == len(moves)
    assert MOST_LINES == 200
