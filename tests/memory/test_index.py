"""MEMORY.md loads as Claude Code loads it: 200 lines or 25,000 UTF-16 units of what is left without frontmatter and comments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.index import MOST_LINES, MOST_UNITS, entries, entry_line, load_index, title_from, units


def lines(count: int, text: str = "line {}") -> str:
    return "".join(text.format(n) + "\n" for n in range(1, count + 1))


# measured on the real client: 61 lines of 408 letters, however many bytes a letter takes
@pytest.mark.parametrize(("letter", "count"), [("a", 408), ("é", 408), ("日", 408), ("😀", 204)])
def test_it_counts_what_javascript_counts(letter, count):
    loaded = load_index((f"{letter * count}\n" * 80).encode())

    assert loaded.loaded_lines == 61
    assert units(loaded.text) == 61 * 409 - 1
    assert "32720 characters (limit: 25000)" not in loaded.warning
    assert loaded.warning.startswith(f"WARNING: MEMORY.md is {80 * 409 - 1} characters (limit: 25000).")


def test_the_warning_names_what_was_cut():
    loaded = load_index(lines(300).encode())

    assert loaded.loaded_lines == 200
    assert loaded.text.endswith("\nline 200")
    assert loaded.warning == (
        "WARNING: MEMORY.md is 300 lines (limit: 200). Only part of it was loaded: 100 of 300 lines were cut off, "
        "starting at line 201 (line 201)"
    )
    assert (loaded.first_cut, loaded.first_cut_text) == (201, "line 201")


@pytest.mark.parametrize(
    ("count", "loaded", "near"),
    [(0, 0, False), (179, 179, False), (180, 180, True), (200, 200, True), (201, 200, True)],
)
def test_two_hundred_lines_load(count, loaded, near):
    found = load_index(lines(count).encode())

    assert (found.lines, found.loaded_lines, found.is_near) == (count, loaded, near)
    assert bool(found.warning) is (count > 200)


@pytest.mark.parametrize(("size", "whole"), [(24_999, True), (25_000, True), (25_001, False)])
def test_the_last_line_may_end_at_the_limit(size, whole):
    found = load_index(b"a" * 10 + b"\n" + b"b" * (size - 11))

    assert (found.loaded_lines == 2) is whole
    assert (found.warning == "") is whole


def test_a_first_line_that_is_too_long_is_not_lost_whole():
    found = load_index(("😀" * 20_000).encode())

    assert units(found.text) == MOST_UNITS
    assert found.text == "😀" * 12_500
    assert found.first_cut == 1


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"---\nname: a\n---\n# Memory\n", "# Memory"),
        (b"\xef\xbb\xbf---\nname: a\n---\n# Memory\n", "# Memory"),
        (b"# Memory\n<!-- for people -->\n- a\n", "# Memory\n- a"),
        (b"a\0b\xffc\n", "a\ufffdb\ufffdc"),
        (b"a\r\nb\r\n", "a\r\nb\r"),
        (b"", ""),
        (b"\n\n", ""),
    ],
)
def test_what_is_not_for_the_model_goes_first(raw, text):
    assert load_index(raw).text == text


def test_stripped_lines_leave_room_for_others():
    raw = "---\n" + lines(50, "key{}: x") + "---\n" + lines(50, "<!-- {} -->") + lines(200)

    found = load_index(raw.encode())

    assert (found.lines, found.warning) == (200, "")


@given(st.binary(max_size=2_000), st.integers(1, 20), st.integers(1, 300))
def test_any_bytes_load_within_the_limits(raw, most_lines, most_units):
    found = load_index(raw, most_lines, most_units)

    assert units(found.text) <= most_units
    assert found.text.count("\n") + 1 <= most_lines or not found.text
    assert bool(found.warning) is (found.loaded_lines < found.lines)
    whole = load_index(raw, 10**6, 10**9)
    assert whole.text.startswith(found.text)


def test_a_huge_index_loads():
    found = load_index(b"- [a](a.md) - text\n" * 60_000)

    assert (found.loaded_lines, found.lines) == (MOST_LINES, 60_000)


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("- [A](a.md) — hook", ("A", "a.md", "hook")),
        ("- [A](a.md) - hook", ("A", "a.md", "hook")),
        ("* [A](./a.md): hook", ("A", "a.md", "hook")),
        ("  - [A](b/a.md)", ("A", "b/a.md", "")),
        ("- [A](<my file.md>) — h", ("A", "my file.md", "h")),
        ("- [A](my%20file.md) — h", ("A", "my file.md", "h")),
        ("- [A](a.md#part) — h", ("A", "a.md", "h")),
        ("- [A](a.md) — hook (file gone)", ("A", "a.md", "hook")),
        ("- [A](https://example.org/a.md)", None),
        ("- [A](#part)", None),
        ("- [A](/etc/passwd)", None),
        ("- A without a link", None),
        ("[A](a.md) in prose", None),
    ],
)
def test_an_entry_is_an_item_that_leads_to_a_file(line, entry):
    found = [(one.title, one.name, one.hook) for one in entries(f"# Memory\n{line}\n")]

    assert found == ([entry] if entry else [])


def test_code_and_frontmatter_hold_no_entries():
    text = "---\n- [F](f.md)\n---\n```\n- [C](c.md)\n```\n- [A](a.md)\n"

    assert [(one.name, one.line) for one in entries(text)] == [("a.md", 7)]


@pytest.mark.parametrize("name", ["a.md", "b/a b.md", "a(1).md"])
def test_a_line_of_ours_is_read_back(name):
    line = entry_line(name, "Title [x]", "what\nit is")

    assert [(one.title, one.name, one.hook) for one in entries(line)] == [("Title (x)", name, "what it is")]


@pytest.mark.parametrize(("name", "title"), [("api/http-errors.md", "Http errors"), ("a_b.md", "A b"), (".md", ".md")])
def test_a_file_without_a_title_has_one_from_its_name(name, title):
    assert title_from(name) == title
