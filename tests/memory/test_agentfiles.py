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
            ["/home/u/p/sub/AGENTS.md", "/home/u/p/AGENTS.md", "/home/u/.config/opencode/AGENTS.md"],
        ),
        (
            {"/home/u/p/CLAUDE.md": "p", "/home/u/.claude/CLAUDE.md": "u"},
            ["/home/u/p/CLAUDE.md", "/home/u/.claude/CLAUDE.md"],
        ),
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
    }

    found = load(Agent.OPENCODE, files | GIT)

    assert paths(found) == ["/abs/MEMORY.md", "/home/u/x.md", "/home/u/p/docs/y.md"]
    assert reasons(found) == {
        "/home/u/p/docs/*.md": "it is a pattern, which only the agent resolves",
        "https:/example.org/z.md": "it is an address, and nothing is asked of the network here",
    }


@pytest.mark.parametrize(("agent", "name"), [(Agent.OPENCODE, "AGENTS.md"), (Agent.GEMINI, "GEMINI.md")])
def test_a_file_that_is_read_brings_those_of_its_folders(agent, name):
    files = {f"/home/u/p/{name}": "p", f"/home/u/p/sub/a/{name}": "a", f"/home/u/p/sub/a/b/{name}": "b"} | GIT

    found = load(agent, files, file="a/b/x.py")

    assert [(source.path, source.why) for source in found.sources[1:]] == [
        (f"/home/u/p/sub/a/{name}", "/home/u/p/sub/a/b/x.py is read"),
        (f"/home/u/p/sub/a/b/{name}", "/home/u/p/sub/a/b/x.py is read"),
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, ["/home/u/.gemini/GEMINI.md", "/home/u/p/GEMINI.md", "/home/u/p/sub/GEMINI.md"]),
        ({"context": {"fileName": "AGENTS.md"}}, ["/home/u/p/AGENTS.md"]),
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
    files = {"/home/u/p/GEMINI.md": "@1.md @../../../etc/x.md", "/etc/x.md": "x"}
    files |= {f"/home/u/p/{n}.md": f"@{n + 1}.md" for n in range(1, 8)}

    found = load(Agent.GEMINI, files | GIT)

    assert paths(found) == ["/home/u/p/GEMINI.md", *(f"/home/u/p/{n}.md" for n in range(1, 6))]
    assert reasons(found) == {
        "/home/u/p/6.md": "it is more than 5 imports away from /home/u/p/GEMINI.md",
        "/etc/x.md": "it lies outside the project",
    }


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
    ],
)
def test_aider(files, expected):
    found = load(Agent.AIDER, files)

    assert paths(found) == [f"/home/u/p/sub/{name}" for name in expected]


def test_a_file_that_aider_does_not_find_is_told():
    found = load(Agent.AIDER, {"/home/u/.aider.conf.yml": "read: gone.md"})

    assert reasons(found) == {"/home/u/p/sub/gone.md": "/home/u/.aider.conf.yml names it, and it is no file"}
