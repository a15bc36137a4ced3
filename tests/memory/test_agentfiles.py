"""What Codex, OpenCode, Gemini CLI and Aider load, as it was measured or is documented."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from openoxide.memory.context import Agent, context
from tests.memory.kit import PLACES, Tree

CWD = PurePath("/home/u/p/sub")
GIT = {"/home/u/p/.git/HEAD": "ref"}


def load(agent, files, file=None):
    return context(agent, CWD, files=Tree(**files), places=PLACES, file=None if file is None else PurePath(file))


def paths(found):
    return [source.path for source in found.sources]


def reasons(found):
    return {one.path: one.reason for one in found.skipped}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"/home/u/.codex/AGENTS.md": "u", "/home/u/p/AGENTS.md": "p", "/home/u/p/sub/AGENTS.md": "s"} | GIT,
            ["/home/u/.codex/AGENTS.md", "/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"],
        ),
        (
            {"/home/u/.codex/AGENTS.md": "u", "/home/u/.codex/AGENTS.override.md": "o"},
            ["/home/u/.codex/AGENTS.override.md"],
        ),
        ({"/home/u/p/AGENTS.md": "p", "/home/u/p/AGENTS.override.md": "o"} | GIT, ["/home/u/p/AGENTS.override.md"]),
        # without a root only the working directory counts
        ({"/home/u/p/AGENTS.md": "p", "/home/u/p/sub/AGENTS.md": "s"}, ["/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/AGENTS.md": "above"} | GIT, []),
        ({"/home/u/p/CLAUDE.md": "p", "/home/u/p/sub/GEMINI.md": "s"} | GIT, []),
        ({"/home/u/p/AGENTS.md": "", "/home/u/p/sub/AGENTS.md": "s"} | GIT, ["/home/u/p/sub/AGENTS.md"]),
        (
            {
                "/home/u/.codex/config.toml": 'project_doc_fallback_filenames = ["CLAUDE.md"]',
                "/home/u/p/CLAUDE.md": "c",
                "/home/u/p/sub/AGENTS.md": "s",
                "/home/u/p/sub/CLAUDE.md": "not this one",
            }
            | GIT,
            ["/home/u/p/CLAUDE.md", "/home/u/p/sub/AGENTS.md"],
        ),
        (
            {
                "/home/u/.codex/config.toml": 'project_root_markers = ["go.mod"]',
                "/home/u/go.mod": "x",
                "/home/u/AGENTS.md": "u",
            },
            ["/home/u/AGENTS.md"],
        ),
        (
            {"/home/u/p/AGENTS.md": "p", "/home/u/p/sub/AGENTS.md": PurePath("/home/u/p/AGENTS.md")} | GIT,
            ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"],
        ),
        (
            {
                "/home/u/.codex/config.toml": '[projects."/home/u/p"]\ntrust_level = "trusted"\n',
                "/home/u/p/.codex/config.toml": 'project_doc_fallback_filenames = ["CLAUDE.md"]',
                "/home/u/p/CLAUDE.md": "c",
            }
            | GIT,
            ["/home/u/p/CLAUDE.md"],
        ),
        (
            {
                "/home/u/p/.codex/config.toml": 'project_doc_fallback_filenames = ["CLAUDE.md"]',
                "/home/u/p/CLAUDE.md": "the project is not trusted",
            }
            | GIT,
            [],
        ),
        ({"/home/u/.codex/config.toml": "not = toml =", "/home/u/p/sub/AGENTS.md": "s"}, ["/home/u/p/sub/AGENTS.md"]),
    ],
)
def test_codex(files, expected):
    assert paths(load(Agent.CODEX, files)) == expected


def test_codex_spends_its_budget_on_the_root_and_the_rest_is_told():
    files = {"/home/u/p/AGENTS.md": "x" * 40_000, "/home/u/p/sub/AGENTS.md": "deeper"} | GIT

    found = load(Agent.CODEX, files)

    (source,) = found.sources
    assert (len(source.text), source.size) == (32_768, 40_000)
    assert source.cut == "only the first 32768 of 40000 bytes fit project_doc_max_bytes"
    assert reasons(found) == {"/home/u/p/sub/AGENTS.md": "the budget of project_doc_max_bytes is used up"}


def test_codex_reads_text_as_it_is():
    files = {"/home/u/p/sub/AGENTS.md": "<!-- kept -->\n@other.md\n", "/home/u/p/sub/other.md": "other"}

    (source,) = load(Agent.CODEX, files).sources
    assert source.text == "<!-- kept -->\n@other.md\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "/home/u/p/AGENTS.md": "p",
                "/home/u/p/sub/AGENTS.md": "s",
                "/home/u/p/CLAUDE.md": "never both",
                "/home/u/.config/opencode/AGENTS.md": "u",
                "/home/u/.claude/CLAUDE.md": "not this one",
            },
            ["/home/u/.config/opencode/AGENTS.md", "/home/u/p/sub/AGENTS.md", "/home/u/p/AGENTS.md"],
        ),
        (
            {"/home/u/p/CLAUDE.md": "p", "/home/u/.claude/CLAUDE.md": "u"},
            ["/home/u/.claude/CLAUDE.md", "/home/u/p/CLAUDE.md"],
        ),
        (
            {"/home/u/p/AGENTS.md": "p", "/home/u/p/sub/AGENTS.md": PurePath("/home/u/p/AGENTS.md")},
            ["/home/u/p/sub/AGENTS.md", "/home/u/p/AGENTS.md"],
        ),
        ({"/home/u/p/AGENTS.md": "", "/home/u/p/CLAUDE.md": "not this one"}, []),
        ({"/home/u/p/CONTEXT.md": "c"}, ["/home/u/p/CONTEXT.md"]),
        ({"/home/u/AGENTS.md": "above the root"}, []),
    ],
)
def test_opencode(files, expected):
    assert paths(load(Agent.OPENCODE, files | GIT)) == expected


def test_opencode_takes_what_its_configuration_names():
    config = """{ // a comment
      "instructions": ["/abs/MEMORY.md", "~/x.md", "docs/y.md", "docs/*.md", "https://example.org/z.md", /* and */ 7,],
    }"""
    files = {
        "/home/u/p/opencode.json": config,
        "/abs/MEMORY.md": "memory",
        "/home/u/x.md": "x",
        "/home/u/p/docs/y.md": "y",
        "/home/u/p/docs/z.md": "z",
        "/home/u/p/docs/z.txt": "no",
    }

    found = load(Agent.OPENCODE, files | GIT)

    assert paths(found) == ["/abs/MEMORY.md", "/home/u/x.md", "/home/u/p/docs/y.md", "/home/u/p/docs/z.md"]
    assert reasons(found) == {
        "https:/example.org/z.md": "it is an address, and nothing is asked of the network here",
    }


@pytest.mark.parametrize(
    ("place", "named", "expected"),
    [
        ("/home/u/p/opencode.json", "docs/y.md", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/p/sub/opencode.jsonc", "docs/y.md", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/.config/opencode/opencode.json", "docs/y.md", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/.config/opencode/config.json", "docs/y.md", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/p/.opencode/opencode.json", "docs/y.md", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/p/config.json", "docs/y.md", []),
        ("/home/u/p/opencode.json", "../up.md", ["/home/u/p/up.md", "/home/u/up.md"]),
        ("/home/u/p/opencode.json", "d*/y.??", ["/home/u/p/sub/docs/y.md", "/home/u/p/docs/y.md"]),
        ("/home/u/p/opencode.json", "/home/u/up*", ["/home/u/up.md"]),
        ("/home/u/p/opencode.json", "*/.hidden/*.md", []),
        ("/home/u/p/opencode.json", "docs/", []),
    ],
)
def test_what_opencode_is_told_of_is_looked_for_from_where_it_starts_up_to_the_root(place, named, expected):
    files = {
        "/home/u/p/docs/.hidden/.y.md": "h",
        "/home/u/p/sub/docs/y.md": "s",
        "/home/u/p/docs/y.md": "p",
        "/home/u/p/up.md": "u",
        "/home/u/up.md": "o",
    }

    assert paths(load(Agent.OPENCODE, files | GIT | {place: json.dumps({"instructions": [named]})})) == expected


def test_of_the_users_own_settings_of_opencode_the_last_list_counts():
    files = {f"/home/u/{name}.md": name for name in "abcd"}
    own = {
        f"/home/u/.config/opencode/{name}": json.dumps({"instructions": [f"~/{letter}.md"]})
        for name, letter in (("config.json", "a"), ("opencode.json", "b"))
    }
    projects = {
        f"/home/u/p/sub/{name}": json.dumps({"instructions": [f"~/{letter}.md"]})
        for name, letter in (("opencode.json", "c"), (".opencode/opencode.json", "d"))
    }

    assert paths(load(Agent.OPENCODE, files | own | projects)) == [f"/home/u/{name}.md" for name in "bcd"]


def test_a_pattern_over_many_folders_is_left_to_opencode():
    files = {"/home/u/p/sub/opencode.json": '{"instructions": ["**/y.md"]}', "/home/u/p/sub/opencode.jsonc": "[]"}

    assert list(reasons(load(Agent.OPENCODE, files)).values()) == [
        "it is a pattern of many folders, which only the agent resolves"
    ] * len(CWD.parts)


@pytest.mark.parametrize(
    ("agent", "name", "order"), [(Agent.OPENCODE, "AGENTS.md", ["a/b", "a"]), (Agent.GEMINI, "GEMINI.md", ["a", "a/b"])]
)
def test_a_file_that_is_read_brings_those_of_its_folders(agent, name, order):
    files = {f"/home/u/p/{name}": "p", f"/home/u/p/sub/a/{name}": "a", f"/home/u/p/sub/a/b/{name}": "b"} | GIT

    found = load(agent, files, file="a/b/x.py")

    assert [(source.path, source.why) for source in found.sources[1:]] == [
        (f"/home/u/p/sub/{folder}/{name}", "/home/u/p/sub/a/b/x.py is read") for folder in order
    ]


def test_opencode_takes_one_file_of_each_folder_on_the_way_to_what_it_reads():
    files = {
        "/home/u/p/CLAUDE.md": "p",
        "/home/u/p/sub/a/CLAUDE.md": "a",
        "/home/u/p/sub/a/b/AGENTS.md": "b",
        "/home/u/p/sub/a/b/CLAUDE.md": "not this one",
    }

    found = load(Agent.OPENCODE, files | GIT, file="a/b/x.py")

    assert paths(found) == ["/home/u/p/CLAUDE.md", "/home/u/p/sub/a/b/AGENTS.md", "/home/u/p/sub/a/CLAUDE.md"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, ["/home/u/.gemini/GEMINI.md", "/home/u/p/GEMINI.md", "/home/u/p/sub/GEMINI.md"]),
        (
            {"context": {"fileName": "AGENTS.md"}},
            ["/home/u/.gemini/GEMINI.md", "/home/u/p/AGENTS.md", "/home/u/p/GEMINI.md", "/home/u/p/sub/GEMINI.md"],
        ),
        (
            {"context": {"fileName": ["AGENTS.md", "GEMINI.md"]}},
            ["/home/u/.gemini/GEMINI.md", "/home/u/p/AGENTS.md", "/home/u/p/GEMINI.md", "/home/u/p/sub/GEMINI.md"],
        ),
    ],
)
def test_gemini(settings, expected):
    files = {
        "/home/u/.gemini/GEMINI.md": "u",
        "/home/u/p/GEMINI.md": "p",
        "/home/u/p/sub/GEMINI.md": "s",
        "/home/u/p/AGENTS.md": "a",
        "/home/u/p/CLAUDE.md": "c",
    }
    files |= {"/home/u/p/sub/.gemini/settings.json": json.dumps(settings)} if settings else {}

    assert paths(load(Agent.GEMINI, files | GIT)) == expected


def test_gemini_imports_five_deep_and_from_nowhere_else():
    files = {"/home/u/p/GEMINI.md": "@n1.md @../../../etc/x.md", "/etc/x.md": "x"}
    files |= {f"/home/u/p/n{n}.md": f"@n{n + 1}.md" for n in range(1, 8)}

    found = load(Agent.GEMINI, files | GIT)

    assert paths(found) == ["/home/u/p/GEMINI.md", *(f"/home/u/p/n{n}.md" for n in range(1, 6))]
    assert reasons(found) == {
        "/home/u/p/n6.md": "it is more than 5 imports away from /home/u/p/GEMINI.md",
        "/etc/x.md": "it lies outside /home/u/p",
    }


@pytest.mark.parametrize(
    ("files", "given"),
    [
        ({"/home/u/.gemini/GEMINI.md": "@../o.md"}, False),
        ({"/home/u/.gemini/GEMINI.md": "@../o.md", "/home/u/.git/HEAD": "ref"}, True),
        ({"/home/u/p/sub/GEMINI.md": "@../../o.md"}, False),
        ({"/home/u/p/sub/GEMINI.md": "@../../o.md", "/home/u/.git/HEAD": "ref"}, True),
    ],
)
def test_gemini_imports_from_the_repository_that_a_file_is_in(files, given):
    assert ("/home/u/o.md" in paths(load(Agent.GEMINI, files | {"/home/u/o.md": "o"}))) is given


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/home/u/.aider.conf.yml": "read: CONVENTIONS.md", "/home/u/p/sub/CONVENTIONS.md": "c"}, ["CONVENTIONS.md"]),
        ({"/home/u/p/.aider.conf.yml": "read: [a.md, b.md]", "/home/u/p/sub/b.md": "b"} | GIT, ["b.md"]),
        (
            {
                "/home/u/p/sub/.aider.conf.yml": "model: x\nread:\n  - a.md # why\n",
                "/home/u/p/.aider.conf.yml": "read: b.md",
                "/home/u/p/sub/a.md": "a",
                "/home/u/p/sub/b.md": "b",
            }
            | GIT,
            ["a.md"],
        ),
        ({"/home/u/p/sub/AGENTS.md": "a", "/home/u/p/sub/CLAUDE.md": "c"}, []),
        (
            {
                "/home/u/p/sub/.aider.conf.yml": "read: [docs]",
                "/home/u/p/sub/docs/a/b.md": "b",
                "/home/u/p/sub/docs/c": "c",
            },
            ["docs/a/b.md", "docs/c"],
        ),
    ],
)
def test_aider(files, expected):
    found = load(Agent.AIDER, files)

    assert paths(found) == [f"/home/u/p/sub/{name}" for name in expected]


def test_a_file_that_aider_does_not_find_is_told():
    found = load(Agent.AIDER, {"/home/u/.aider.conf.yml": "read: gone.md"})

    assert reasons(found) == {"/home/u/p/sub/gone.md": "/home/u/.aider.conf.yml names it, and it is no file"}
