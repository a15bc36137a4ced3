"""The answers of Anthropic's memory tool, to the letter."""

from __future__ import annotations

import pytest

from openoxide.memory.editing import ABSENT
from openoxide.memory.toolapi import MemoryTool
from tests.memory.kit import memory_in, place

HEAD = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:\n"
NUMBERS = "with line numbers:\n"


@pytest.fixture
def memory(tmp_path):
    return memory_in(tmp_path)


@pytest.fixture
def run(memory):
    tool = MemoryTool(memory)

    def run(command, **arguments):
        answer = tool.run({"command": command, **arguments})
        return ("error" if answer.is_error else "ok", answer.text)

    return run


@pytest.fixture
def filled(memory):
    memory.save("a.md", "one\ntwo\nthree\nfour\nfive\nsix\n", expect=ABSENT)
    place(memory.directory.path, "docs/b.txt", "x" * 1_536)
    place(memory.directory.path, "docs/deep/c.md", "c")
    place(memory.directory.path, "docs/deep/deeper/d.md", "d")
    place(memory.directory.path, ".hidden/e.md", "e")
    place(memory.directory.path, "node_modules/f.md", "f")
    (memory.directory.path / "MEMORY.md").unlink()
    return memory


def test_an_empty_memory_is_no_error(run):
    assert run("view", path="/memories") == ("ok", HEAD.format("/memories") + "0B\t/memories")


def test_a_view_of_the_folder(run, filled):
    assert run("view", path="/memories") == (
        "ok",
        HEAD.format("/memories")
        + "1.5K\t/memories\n28B\t/memories/a.md\n1.5K\t/memories/docs/\n1.5K\t/memories/docs/b.txt\n2B\t/memories/docs/deep/",
    )
    assert run("view", path="/memories/docs/deep/")[1].splitlines()[1:] == [
        "2B\t/memories/docs/deep",
        "1B\t/memories/docs/deep/c.md",
        "1B\t/memories/docs/deep/deeper/",
        "1B\t/memories/docs/deep/deeper/d.md",
    ]


@pytest.mark.parametrize(
    ("view_range", "text"),
    [
        (None, "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n     5\tfive\n     6\tsix\n     7\t"),
        ([2, 3], "     2\ttwo\n     3\tthree"),
        ([6, -1], "     6\tsix\n     7\t"),
        ([6, 99], "     6\tsix\n     7\t"),
    ],
)
def test_a_view_of_a_file(run, filled, view_range, text):
    given = {} if view_range is None else {"view_range": view_range}

    assert run("view", path="/memories/a.md", **given) == (
        "ok",
        f"Here's the content of /memories/a.md {NUMBERS}{text}",
    )


@pytest.mark.parametrize("view_range", [[0, 1], [3, 2], [8, 9], [1], "1-2", [True, 2], [1.0, 2]])
def test_a_range_that_is_none(run, filled, view_range):
    assert run("view", path="/memories/a.md", view_range=view_range) == (
        "error",
        f"Error: Invalid `view_range` parameter: {view_range}. It should be within the range of lines of the file: [1, 7]",
    )


def test_a_long_view_is_cut_and_told(run, memory):
    place(memory.directory.path, "long.md", "x" * 20_000)

    text = run("view", path="/memories/long.md")[1]

    assert text.endswith("\n... cut at 16000 characters; use `view_range` to see the rest")
    assert len(text) < 16_200


def test_a_file_of_a_million_lines_is_refused(run, memory):
    place(memory.directory.path, "lines.md", "\n" * 999_999)

    assert run("view", path="/memories/lines.md") == (
        "error",
        "File /memories/lines.md exceeds maximum line limit of 999,999 lines.",
    )


def test_create(run, memory):
    assert run("create", path="/memories/new/n.md", file_text="text\n") == (
        "ok",
        "File created successfully at: /memories/new/n.md",
    )
    assert memory.read("new/n.md").text == "text\n"
    assert memory.load_index().text == "- [N](new/n.md) — text"
    assert run("create", path="/memories/new/n.md", file_text="other") == (
        "error",
        "Error: File /memories/new/n.md already exists",
    )
    assert run("create", path="/memories/notes.xml", file_text="<a/>")[0] == "ok"


def test_str_replace(run, filled):
    assert run("str_replace", path="/memories/a.md", old_str="three", new_str="3\nIII") == (
        "ok",
        f"The memory file has been edited. Here is the snippet showing the change ({NUMBERS}".replace(":\n", "):\n")
        + "     1\tone\n     2\ttwo\n     3\t3\n     4\tIII\n     5\tfour\n     6\tfive",
    )
    assert run("str_replace", path="/memories/a.md", old_str="one\n")[0] == "ok"
    assert filled.read("a.md").text == "two\n3\nIII\nfour\nfive\nsix\n"


@pytest.mark.parametrize(
    ("old", "text"),
    [
        ("seven", "No replacement was performed, old_str `seven` did not appear verbatim in /memories/a.md."),
        ("", "No replacement was performed, old_str `` did not appear verbatim in /memories/a.md."),
        (
            "o",
            "No replacement was performed. Multiple occurrences of old_str `o` in lines: 1, 2, 4. Please ensure it is unique",
        ),
    ],
)
def test_str_replace_that_fits_nowhere(run, filled, old, text):
    assert run("str_replace", path="/memories/a.md", old_str=old, new_str="x") == ("error", text)


@pytest.mark.parametrize(("line", "text"), [(0, "new\none\n"), (1, "one\nnew\n")])
def test_insert(run, memory, line, text):
    place(memory.directory.path, "b.md", "one\n")

    assert run("insert", path="/memories/b.md", insert_line=line, insert_text="new\n") == (
        "ok",
        "The file /memories/b.md has been edited.",
    )
    assert memory.read("b.md").text == text


@pytest.mark.parametrize("line", [-1, 7, "1", True, None])
def test_insert_at_a_line_that_is_none(run, filled, line):
    assert run("insert", path="/memories/a.md", insert_line=line, insert_text="x") == (
        "error",
        f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, 6]",
    )


def test_delete(run, filled):
    assert run("delete", path="/memories/a.md") == ("ok", "Successfully deleted /memories/a.md")
    assert run("delete", path="/memories/docs") == ("ok", "Successfully deleted /memories/docs")
    assert run("delete", path="/memories/docs") == ("error", "Error: The path /memories/docs does not exist")
    assert run("delete", path="/memories")[0] == "error"
    assert sorted(one.name for one in filled.trash()) == [
        "a.md",
        "docs/b.txt",
        "docs/deep/c.md",
        "docs/deep/deeper/d.md",
    ]


def test_rename(run, filled):
    assert run("rename", old_path="/memories/a.md", new_path="/memories/x/a.md") == (
        "ok",
        "Successfully renamed /memories/a.md to /memories/x/a.md",
    )
    assert run("rename", old_path="/memories/docs", new_path="/memories/papers")[0] == "ok"
    assert run("rename", old_path="/memories/x/a.md", new_path="/memories/papers/b.txt") == (
        "error",
        "Error: The destination /memories/papers/b.txt already exists",
    )
    assert run("rename", old_path="/memories/a.md", new_path="/memories/b.md") == (
        "error",
        "Error: The path /memories/a.md does not exist",
    )
    assert run("rename", old_path="/memories", new_path="/memories/b")[0] == "error"


@pytest.mark.parametrize(
    ("command", "arguments", "text"),
    [
        ("view", {}, "The path /memories/no.md does not exist. Please provide a valid path."),
        ("str_replace", {"old_str": "a"}, "The path /memories/no.md does not exist. Please provide a valid path."),
        ("insert", {"insert_line": 0, "insert_text": "a"}, "Error: The path /memories/no.md does not exist"),
        ("delete", {}, "Error: The path /memories/no.md does not exist"),
    ],
)
def test_a_path_that_is_not_there(run, filled, command, arguments, text):
    assert run(command, path="/memories/no.md", **arguments) == ("error", text)


ATTACKS = [
    "/etc/passwd",
    "memories/a.md",
    "/memoriesx/a.md",
    "/memories/../a.md",
    "/memories/..",
    "/memories/..\\a.md",
    "/memories/%2e%2e%2fa.md",
    "/memories/%2E%2E/a.md",
    "/memories/a\0.md",
    "/memories//etc/passwd",
    "/memories/./a.md",
    "",
]


@pytest.mark.parametrize("path", ATTACKS)
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("view", {}),
        ("create", {"file_text": "x"}),
        ("str_replace", {"old_str": "a", "new_str": "b"}),
        ("insert", {"insert_line": 0, "insert_text": "x"}),
        ("delete", {}),
        ("rename", {}),
    ],
)
def test_a_path_that_leads_out_is_refused(run, filled, command, arguments, path):
    names = {"old_path": path, "new_path": "/memories/z.md"} if command == "rename" else {"path": path}

    kind, text = run(command, **names, **arguments)

    assert kind == "error"
    assert text.startswith("Error: ")
    assert filled.directory.listing().names == [
        "a.md",
        "docs/b.txt",
        "docs/deep/c.md",
        "docs/deep/deeper/d.md",
        "node_modules/f.md",
    ]


@pytest.mark.parametrize(
    "command", [{}, {"command": "run"}, {"command": None}, {"command": "view"}, {"command": "create", "path": 7}]
)
def test_what_is_no_command_is_answered(memory, command):
    assert MemoryTool(memory).run(command).is_error


def test_a_secret_is_refused_in_the_same_form(run, filled):
    kind, text = run("create", path="/memories/s.md", file_text="ghp_" + "a1B2" * 9)

    assert (kind, text.startswith("Error: s.md would hold a GitHub token in line 1")) == ("error", True)


def test_a_view_repeats_no_secret_and_keeps_the_numbers_of_the_lines(run, memory):
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"
    place(memory.directory.path, "s.md", f"one\n{key}\nghp_{'a1B2' * 9}\nlast \xff\n".encode("latin-1"))

    text = run("view", path="/memories/s.md")[1]

    assert text.splitlines()[1:] == [
        "     1\tone",
        "     2\t[redacted]",
        "     3\t",
        "     4\t",
        "     5\t[redacted]",
        "     6\tlast \ufffd",
        "     7\t",
    ]
