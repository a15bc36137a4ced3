"""Imports: where they are read, where they lead, how far, and what a loop is told as."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from openoxide.memory.gathering import Gathering, Level
from openoxide.memory.imports import follow, imports_in, target_of
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
    ],
)
def test_what_is_an_import(text, found):
    assert imports_in(text) == found


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


def gathered(files: dict[str, str], first: str = "/p/CLAUDE.md", **options):
    gathering = Gathering(Tree(**files))
    raw = gathering.take(PurePath(first))
    follow(
        gathering,
        PurePath(first),
        raw.data.decode(),
        Level.PROJECT,
        home=PurePath("/home/u"),
        allowed=lambda _: "",
        **options,
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
