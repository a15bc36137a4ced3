"""What Claude Code loads, in its order, as it was measured (shared measurements, section 1.7)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from openoxide.memory.context import Agent, context
from openoxide.memory.gathering import DiskFiles, Level, places_from
from openoxide.memory.hierarchy import AgentsFiles, ClaudeOptions, options_from
from tests.memory.kit import PLACES, Tree, place

CWD = PurePath("/home/u/p/sub")


def load(files, file=None, cwd=CWD, **options):
    return context(
        Agent.CLAUDE,
        cwd,
        files=Tree(**files),
        places=PLACES,
        file=None if file is None else PurePath(file),
        options=ClaudeOptions(**options) if options else None,
    )


def paths(found):
    return [source.path for source in found.sources]


def reasons(found):
    return {one.path: one.reason for one in found.skipped}


EVERYTHING = {
    "/etc/claude-code/CLAUDE.md": "managed @/etc/claude-code/more.md",
    "/etc/claude-code/more.md": "more",
    "/home/u/.claude/CLAUDE.md": "user @own.md",
    "/home/u/.claude/own.md": "own",
    "/home/u/.claude/rules/b/style.md": "style",
    "/home/u/.claude/rules/a.md": "rule a",
    "/home/u/p/CLAUDE.md": "project",
    "/home/u/p/.claude/CLAUDE.md": "hidden project",
    "/home/u/p/.claude/rules/always.md": "always",
    "/home/u/p/.claude/rules/ts.md": "---\npaths: '**/*.ts'\n---\nfor ts",
    "/home/u/p/CLAUDE.local.md": "local",
    "/home/u/p/sub/CLAUDE.md": "sub @doc.md",
    "/home/u/p/sub/doc.md": "doc",
    "/home/u/p/sub/deep/CLAUDE.md": "deep",
    "/home/u/p/sub/deep/x.ts": "code",
    "/home/u/p/AGENTS.md": "agents",
}


def test_the_order_of_loading():
    found = load(EVERYTHING)

    assert paths(found) == [
        "/etc/claude-code/CLAUDE.md",
        "/etc/claude-code/more.md",
        "/home/u/.claude/CLAUDE.md",
        "/home/u/.claude/own.md",
        "/home/u/.claude/rules/a.md",
        "/home/u/.claude/rules/b/style.md",
        "/home/u/p/CLAUDE.md",
        "/home/u/p/.claude/CLAUDE.md",
        "/home/u/p/.claude/rules/always.md",
        "/home/u/p/CLAUDE.local.md",
        "/home/u/p/sub/CLAUDE.md",
        "/home/u/p/sub/doc.md",
    ]
    assert reasons(found) == {"/home/u/p/AGENTS.md": "/home/u/p/CLAUDE.md is there, and is read instead"}
    assert [level.name for level in Level] == ["MANAGED", "PROJECT", "RULES", "USER", "LOCAL", "MEMORY"]
    assert [len(found.of(level)) for level in Level] == [2, 4, 1, 4, 1, 0]


def test_a_file_that_is_read_brings_its_folder_and_its_rules():
    found = load(EVERYTHING, file="deep/x.ts")

    assert [(source.path, source.why) for source in found.sources[12:]] == [
        ("/home/u/p/sub/deep/CLAUDE.md", "/home/u/p/sub/deep/x.ts is read"),
        ("/home/u/p/.claude/rules/ts.md", "/home/u/p/sub/deep/x.ts is read"),
    ]
    assert found.sources[-1].text == "for ts"
    assert "/home/u/p/.claude/rules/ts.md" not in paths(load(EVERYTHING, file="deep/x.py"))


@pytest.mark.parametrize(
    ("files", "agents"),
    [
        ({}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": ""}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": " \n"}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": "<!-- x -->\n"}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": "---\nname: x\n---\n"}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": "text"}, []),
        ({"/home/u/p/sub/CLAUDE.md": "text"}, []),
        ({"/home/u/p/.claude/CLAUDE.md": "text"}, []),
        ({"/home/u/p/CLAUDE.local.md": "text"}, []),
        ({"/home/u/.claude/CLAUDE.md": "user"}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
        ({"/home/u/p/.claude/rules/a.md": "rule"}, ["/home/u/p/AGENTS.md", "/home/u/p/sub/AGENTS.md"]),
    ],
)
def test_agents_md_is_read_where_no_claude_md_holds_anything(files, agents):
    found = load({"/home/u/p/AGENTS.md": "root", "/home/u/p/sub/AGENTS.md": "sub", **files})

    assert [path for path in paths(found) if path.endswith("AGENTS.md")] == agents
    if agents:
        assert paths(found)[-2:] == agents, "behind everything else"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (AgentsFiles.NEVER, ["/home/u/p/CLAUDE.md"]),
        (AgentsFiles.FALLBACK, ["/home/u/p/CLAUDE.md"]),
        (AgentsFiles.ALWAYS, ["/home/u/p/CLAUDE.md", "/home/u/p/AGENTS.md"]),
        (AgentsFiles.MANAGED_ONLY, []),
    ],
)
def test_the_setting_instruction_files(mode, expected):
    files = {"/home/u/p/CLAUDE.md": "a", "/home/u/p/AGENTS.md": "b"}

    assert paths(load(files, agents_files=mode)) == expected


def test_other_names_of_agents_md_are_not_read():
    names = ("/home/u/p/AGENTS.override.md", "/home/u/p/AGENTS.local.md", "/home/u/.claude/AGENTS.md")

    assert paths(load(dict.fromkeys(names, "text"))) == []


def test_an_import_inside_agents_md_is_followed():
    files = {"/home/u/p/sub/AGENTS.md": "@doc.md", "/home/u/p/sub/doc.md": "doc"}

    assert paths(load(files)) == ["/home/u/p/sub/AGENTS.md", "/home/u/p/sub/doc.md"]


@pytest.mark.parametrize(("approved", "loaded"), [(False, False), (True, True)])
def test_an_import_from_outside_needs_an_approval(approved, loaded):
    files = {"/home/u/p/sub/CLAUDE.md": "@../../other.md", "/home/u/other.md": "other"}

    found = load(files, outside_imports=approved)

    assert ("/home/u/other.md" in paths(found)) is loaded
    assert ("/home/u/other.md" in reasons(found)) is not loaded


def test_excludes_take_out_all_but_the_managed_file():
    excludes = ("/home/u/p/CLAUDE.md", "**/AGENTS.md", "**/rules/**", "/etc/**")
    files = EVERYTHING | {"/home/u/p/sub/AGENTS.md": "x"}

    found = load(files, excludes=excludes, agents_files=AgentsFiles.ALWAYS)

    assert "/etc/claude-code/CLAUDE.md" in paths(found)
    assert not [path for path in paths(found) if path.endswith(("/p/CLAUDE.md", "AGENTS.md")) or "/rules/" in path]
    assert reasons(found)["/home/u/p/AGENTS.md"] == "claudeMdExcludes names it"


def test_block_comments_are_not_given_and_the_import_line_stays():
    found = load({"/home/u/p/sub/CLAUDE.md": "<!-- for people\n-->\nsee @doc.md\n", "/home/u/p/sub/doc.md": "doc\n"})

    assert [source.text for source in found.sources] == ["see @doc.md", "doc"]


def test_frontmatter_is_given_of_no_file():
    text = "---\nname: x @gone.md\n---\n{}\n"
    files = {"/home/u/p/sub/CLAUDE.md": text.format("own @doc.md"), "/home/u/p/sub/doc.md": text.format("doc")}

    found = load(files)

    assert [source.text for source in found.sources] == ["own @doc.md", "doc"]
    assert reasons(found) == {}


def test_a_file_that_is_no_text_by_its_name_is_not_imported():
    files = {"/home/u/p/sub/CLAUDE.md": "@a.mdx @b.py", "/home/u/p/sub/a.mdx": "a", "/home/u/p/sub/b.py": "b"}

    found = load(files)

    assert paths(found) == ["/home/u/p/sub/CLAUDE.md", "/home/u/p/sub/b.py"]
    assert reasons(found) == {"/home/u/p/sub/a.mdx": "Claude Code imports no file with such an ending"}


def test_what_a_rule_imports_is_given_at_the_start_and_the_rule_when_it_applies():
    files = {
        "/home/u/p/.claude/rules/a.md": "---\npaths: '*.ts'\n---\n@../../sub/more.md",
        "/home/u/p/sub/more.md": "more",
        "/home/u/p/sub/x.ts": "code",
    }

    assert paths(load(files)) == ["/home/u/p/sub/more.md"]
    assert paths(load(files, file="x.ts")) == ["/home/u/p/sub/more.md", "/home/u/p/.claude/rules/a.md"]


@pytest.mark.parametrize(
    ("rule", "file", "applies"),
    [
        ("/home/u/.claude/rules/a.md", "x.ts", True),  # counts from the working directory
        ("/home/u/p/sub/.claude/rules/a.md", "x.ts", True),
        ("/home/u/p/sub/deep/.claude/rules/a.md", "deep/x.ts", True),
        ("/home/u/p/.claude/rules/a.md", "x.ts", False),
        ("/home/u/p/sub/.claude/rules/a.md", "deep/x.ts", False),
    ],
)
def test_where_the_globs_of_a_rule_count_from(rule, file, applies):
    found = load({rule: "---\npaths: '/x.ts'\n---\ntext", f"/home/u/p/sub/{file}": "code"}, file=file)

    assert (paths(found) == [rule]) is applies


def test_what_is_read_elsewhere_brings_nothing():
    files = {
        "/home/u/p/.claude/rules/a.md": "---\npaths: '*.ts'\n---\ntext",
        "/home/u/p/other/CLAUDE.md": "other",
        "/home/u/p/other/x.ts": "code",
    }

    assert paths(load(files, file="/home/u/p/other/x.ts")) == []
    assert paths(load(files, file="/home/u/p/other/x.ts", cwd=PurePath("/home/u/p"))) != []


@pytest.mark.parametrize(
    ("files", "agents"),
    [
        ({}, ["deep/AGENTS.md", "deep/er/AGENTS.md"]),
        ({"/home/u/p/sub/deep/CLAUDE.md": "c"}, ["deep/er/AGENTS.md"]),
        ({"/home/u/p/sub/deep/CLAUDE.local.md": "c"}, ["deep/er/AGENTS.md"]),
        ({"/home/u/p/sub/deep/.claude/CLAUDE.md": "c"}, ["deep/er/AGENTS.md"]),
        ({"/home/u/p/sub/deep/.claude/rules/a.md": "c"}, ["deep/AGENTS.md", "deep/er/AGENTS.md"]),
        ({"/home/u/p/CLAUDE.md": "c"}, []),
    ],
)
def test_below_the_working_directory_a_claude_md_hides_the_agents_md_beside_it(files, agents):
    nested = {f"/home/u/p/sub/{name}": "a" for name in ("deep/AGENTS.md", "deep/er/AGENTS.md", "deep/er/x.ts")}

    found = load(nested | files, file="deep/er/x.ts")

    assert [path for path in paths(found) if path.endswith("AGENTS.md")] == [f"/home/u/p/sub/{one}" for one in agents]


@pytest.mark.parametrize(("nested", "last"), [(False, "CLAUDE.local.md"), (True, ".claude/rules/a.md")])
def test_the_local_file_comes_behind_the_rules_at_the_start_and_before_them_later(nested, last):
    folder = "/home/u/p/sub/deep" if nested else "/home/u/p/sub"
    files = {f"{folder}/{name}": name for name in ("CLAUDE.md", "CLAUDE.local.md", ".claude/rules/a.md")}

    assert paths(load(files, file="deep/x.ts"))[-1] == f"{folder}/{last}"


def test_hidden_folders_of_rules_are_looked_into():
    assert paths(load({"/home/u/p/.claude/rules/.x/.y.md": "text"})) == ["/home/u/p/.claude/rules/.x/.y.md"]


def test_a_file_of_more_than_four_mib_is_skipped():
    found = load({"/home/u/p/sub/CLAUDE.md": "x" * ((4 << 20) + 1)})

    assert reasons(found) == {"/home/u/p/sub/CLAUDE.md": "it is longer than 4 MiB"}


def test_one_file_under_two_names_is_given_once():
    files = {"/home/u/p/CLAUDE.md": "text", "/home/u/p/sub/CLAUDE.md": PurePath("/home/u/p/CLAUDE.md")}

    assert paths(load(files)) == ["/home/u/p/CLAUDE.md"]


def test_a_linked_working_directory_is_resolved_first():
    files = {"/home/u/p/sub/CLAUDE.md": "text", "/home/u/link": PurePath("/home/u/p/sub")}

    found = load(files, cwd=PurePath("/home/u/link"))

    assert (found.cwd, paths(found)) == ("/home/u/p/sub", ["/home/u/p/sub/CLAUDE.md"])


def test_the_walk_goes_above_the_project():
    assert paths(load({"/home/CLAUDE.md": "above", "/home/u/p/.git/HEAD": "x"})) == ["/home/CLAUDE.md"]


def settings(**values: object) -> str:
    return json.dumps(values)


def test_options_come_from_the_settings_files_in_their_order():
    agents = {"agents-md@builtin": {"options": {"instructionFiles": "claude-md-and-agents-md"}}}
    files = {
        "/home/u/.claude/settings.json": settings(
            claudeMdExcludes=["/a"], autoMemoryDirectory="~/mem", pluginConfigs=agents, autoMemoryEnabled=False
        ),
        "/home/u/p/sub/.claude/settings.json": settings(claudeMdExcludes=["/b", 7], autoMemoryDirectory="/abs"),
        "/home/u/p/sub/.claude/settings.local.json": "not json",
        "/home/u/p/.git/HEAD": "ref",
        "/home/u/p/.claude/settings.json": settings(claudeMdExcludes=["/not this one"]),
        "/home/u/p/.claude/settings.local.json": settings(claudeMdExcludes=["/c"]),
        "/etc/claude-code/managed-settings.json": settings(autoMemoryEnabled=True),
    }

    found = options_from(Tree(**files), PLACES, CWD)

    assert found == ClaudeOptions(
        excludes=("/a", "/b", "/c"), agents_files=AgentsFiles.ALWAYS, memory_directory="/abs", memory_enabled=True
    )


def test_a_project_does_not_say_which_instruction_files_are_read():
    agents = {"agents-md@builtin": {"options": {"instructionFiles": "managed-only"}}}
    files = {f"/home/u/p/sub/.claude/settings{local}.json": settings(pluginConfigs=agents) for local in ("", ".local")}

    assert options_from(Tree(**files), PLACES, CWD).agents_files is AgentsFiles.FALLBACK


def test_a_relative_memory_directory_is_ignored_as_the_client_does():
    files = {"/home/u/.claude/settings.json": settings(autoMemoryDirectory="memory")}

    assert options_from(Tree(**files), PLACES, CWD).memory_directory == ""


def test_real_files_are_read_as_the_tree_is(tmp_path):
    for name, text in EVERYTHING.items():
        place(tmp_path, name[1:], text.replace("/etc/", f"{tmp_path}/etc/"))
    places = replace(places_from({}, tmp_path / "home/u"), managed=tmp_path / "etc/claude-code")
    (tmp_path / "home/u/.claude/rules/loop").symlink_to(tmp_path / "home/u/.claude/rules")
    (tmp_path / "home/u/p/sub/deep/AGENTS.md").symlink_to("/dev/zero")

    found = context(Agent.CLAUDE, tmp_path / "home/u/p/sub", files=DiskFiles(), places=places, file=Path("deep/x.ts"))

    relative = [f"/{Path(path).relative_to(tmp_path)}" for path in paths(found) if path.startswith(str(tmp_path))]
    # which rule comes first is the file system's to say, for the client too
    assert sorted(relative) == sorted(paths(load(EVERYTHING, file="deep/x.ts")))
