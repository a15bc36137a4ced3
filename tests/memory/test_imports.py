"""Imports: where they are read, where they lead, how far, and what a loop is told as."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from openoxide.memory.gathering import Gathering, Level
from openoxide.memory.imports import IMPORTED_ENDINGS, follow, gemini_imports_in, imports_in, is_text, target_of
from tests.memory.kit import Tree


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@a.md", ["a.md"]),
        ("See @README.md for it and @docs/b.md\n", ["README.md", "docs/b.md"]),
        ("- @./a.md\n- @../b.md\n- @~/c.md\n- @/d.md", ["./a.md", "../b.md", "~/c.md", "/d.md"]),
        ("@a.md and @a.md", ["a.md"]),
        ("mail me@example.org", []),
        ("`@a.md`", []),
        ("``@a.md` ``", []),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~\n@a.md\n~~~", []),
        ("@my\\ file.md", ["my file.md"]),
        ("@a.md#part", ["a.md"]),
        ("@@a", []),
        ("@*/ and @/ and @", []),
        ("(@a.md)", []),
        # emphasis, links, HTML and indented code as the client's reader of Markdown takes them
        ("**@a.md**, *@b.md* and __see @c.md__, _@d_e.md_ ***@f.md***", ["a.md", "b.md", "c.md", "d_e.md", "f.md"]),
        ("- **Note:**@a.md\n- (**@b.md**)\n- **@c.md.**\n- @d.md** x", ["a.md", "b.md", "c.md.", "d.md**"]),
        ("[@a.md](b.md) ![@c.md](d.png) [e](@f.md)", ["a.md"]),
        ("<b>@a.md</b> x <!-- @b.md --> y", ["a.md"]),
        ("<rules>\n@a.md\n</rules>\n\n<rules>\n\n@b.md\n", ["b.md"]),
        ("text\n<rules>\n@a.md\n</rules>", ["a.md"]),
        ("text\n<div>\n@a.md\n\n@b.md", ["b.md"]),
        ("<script>\n\n@a.md\n</script>\n@b.md <pre>x</pre>\n<pre>@c.md</pre>\n@d.md", ["b.md", "d.md"]),
        ("text\n\n    @a.md\n\n    @b.md\ntext\n    @c.md", ["c.md"]),
        ("- x\n\n      @a.md\n\n\t@b.md\n\n1. y\n\n   @c.md\n\nz\n\n    @d.md", ["b.md", "c.md"]),
        ("> @a.md\n# @b.md\n| @c.md | x |", ["a.md", "b.md", "c.md"]),
    ],
)
def test_what_is_an_import(text, found):
    assert imports_in(text) == found


@pytest.mark.parametrize(
    "text", ["<!--" * 50_000, "**a " * 50_000, "[x](" * 50_000, "<a " * 50_000, "_a" * 50_000, "- " * 50_000]
)
def test_marks_without_an_end_take_no_long_time(text):
    assert imports_in(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@a.md and @./b.md, x@c.md (@d.md)", ["a.md", "./b.md,"]),
        ("<!-- @a.md --> `@b.md`\n```\n@c.md\n```", ["a.md"]),
        ("@1.md @_a.md @-b.md @~/c.md @/d.md @.e.md", ["/d.md", ".e.md"]),
        ("@a\\ b.md @c.md#part", ["a\\", "c.md#part"]),
    ],
)
def test_what_gemini_imports(text, found):
    assert gemini_imports_in(text) == found


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("a.md", True),
        ("a.MD", True),
        ("a.py", True),
        ("Makefile", True),
        (".hidden", True),
        ("a.mdx", False),
        ("a.png", False),
    ],
)
def test_which_endings_are_of_text(name, taken):
    assert is_text(PurePath("/p") / name) is taken
    assert all(ending == ending.lower() and ending[0] == "." for ending in IMPORTED_ENDINGS)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("b.md", "/p/docs/b.md"),
        ("./b.md", "/p/docs/b.md"),
        ("../b.md", "/p/b.md"),
        ("../../../../b.md", "/b.md"),
        ("~/b.md", "/home/u/b.md"),
        ("/etc/b.md", "/etc/b.md"),
    ],
)
def test_a_path_counts_from_the_file_that_imports(path, target):
    assert target_of(path, PurePath("/p/docs/a.md"), PurePath("/home/u")) == PurePath(target)


def gathered(files: dict[str, str], first: str = "/p/CLAUDE.md"):
    gathering = Gathering(Tree(**files))
    raw = gathering.take(PurePath(first))
    follow(
        gathering,
        PurePath(first),
        raw.data.decode(),
        Level.PROJECT,
        home=PurePath("/home/u"),
        allowed=lambda _: "",
    )
    return [source.path for source in gathering.sources], {one.path: one.reason for one in gathering.skipped}


def test_the_fourth_file_loads_and_the_fifth_does_not():
    files = {"/p/CLAUDE.md": "@one.md", "/p/one.md": "@two.md", "/p/two.md": "@three.md"}
    files |= {"/p/three.md": "@four.md", "/p/four.md": "@five.md", "/p/five.md": "five"}

    found, skipped = gathered(files)

    assert found == ["/p/one.md", "/p/two.md", "/p/three.md", "/p/four.md"]
    assert skipped == {"/p/five.md": "it is more than 4 imports away from /p/CLAUDE.md"}


@pytest.mark.parametrize(
    ("files", "loop"),
    [
        ({"/p/CLAUDE.md": "@CLAUDE.md"}, "/p/CLAUDE.md → /p/CLAUDE.md"),
        (
            {"/p/CLAUDE.md": "@a.md", "/p/a.md": "@b.md", "/p/b.md": "@a.md"},
            "/p/a.md → /p/b.md → /p/a.md",
        ),
    ],
)
def test_a_loop_is_told_with_its_way(files, loop):
    _, skipped = gathered(files)

    assert list(skipped.values()) == [f"an import loop: {loop}"]


def test_a_loop_through_a_link_is_one():
    files = {"/p/CLAUDE.md": "@link.md", "/p/link.md": PurePath("/p/CLAUDE.md")}

    assert "import loop" in gathered(files)[1]["/p/link.md"]


def test_a_file_that_two_import_is_given_once_and_is_no_loop():
    files = {"/p/CLAUDE.md": "@a.md @b.md", "/p/a.md": "@c.md", "/p/b.md": "@c.md", "/p/c.md": "c"}

    assert gathered(files) == (["/p/a.md", "/p/c.md", "/p/b.md"], {})


def test_what_is_missing_is_told():
    assert gathered({"/p/CLAUDE.md": "@gone.md"}) == ([], {"/p/gone.md": "/p/CLAUDE.md imports it, and it is no file"})


def test_a_comment_imports_nothing():
    files = {"/p/CLAUDE.md": "@a.md", "/p/a.md": "<!-- @b.md -->\ntext", "/p/b.md": "b"}

    assert gathered(files)[0] == ["/p/a.md"]
