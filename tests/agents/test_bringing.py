"""Which tool calls bring before a session what nobody here vouches for."""

from __future__ import annotations

import pytest

from openoxide.agents import claude, codex, gemini
from openoxide.agents.bringing import brought
from openoxide.agents.hooks import Brought, Kind

CWD = "/home/dev/project"
COMMON = {"session_id": "s1", "cwd": CWD, "transcript_path": "/t.jsonl", "tool_use_id": "c1"}


def told(name, **arguments):
    return brought({**COMMON, "tool_name": name, "tool_input": arguments})


@pytest.mark.parametrize(
    "name",
    ["WebFetch", "WebSearch", "web_fetch", "google_web_search", "web_search", "mcp__github__get_issue", "mcp_x_y"],
)
def test_what_comes_from_elsewhere_for_sure(name):
    assert told(name, url="https://example.org/secret") == Brought(name)


def test_a_tool_of_a_server_is_known_by_its_context_too():
    payload = {**COMMON, "tool_name": "get_issue", "tool_input": {}, "mcp_context": {"server_name": "x"}}
    assert brought(payload) == Brought("get_issue")


@pytest.mark.parametrize(
    ("name", "arguments", "paths"),
    [
        ("Read", {"file_path": "/etc/motd"}, ("/etc/motd",)),
        ("Read", {"file_path": "src/a.py"}, (CWD + "/src/a.py",)),
        ("Grep", {"pattern": "x", "path": "/usr"}, ("/usr",)),
        ("read_file", {"absolute_path": "/etc/motd"}, ("/etc/motd",)),
        ("read_many_files", {"paths": ["a", "/b", 7, ""]}, (CWD + "/a", "/b")),
        ("NotebookRead", {"notebook_path": "/n.ipynb"}, ("/n.ipynb",)),
    ],
)
def test_of_a_tool_that_reads_the_paths_are_told(name, arguments, paths):
    assert told(name, **arguments) == Brought(name, paths)


@pytest.mark.parametrize(
    ("command", "fetches"),
    [
        ("curl https://example.org", True),
        ("cd x && /usr/bin/wget -q y", True),
        ("echo $(curl -s x)", True),
        ("gh issue view 7", True),
        ("make | curl -T - x", True),
        ("make", False),
        ("echo curly", False),
        ("git commit -m 'see https://example.org'", False),
        ("./curl.sh", False),
        ("cat high", False),
        ("", False),
    ],
)
def test_a_shell_fetches_by_the_programs_that_are_known_for_it(command, fetches):
    for name in ("Bash", "run_shell_command"):
        assert told(name, command=command) == (Brought(name) if fetches else None)


@pytest.mark.parametrize("name", ["Write", "Edit", "TodoWrite", "Task", "apply_patch", "", None, 7, "Web"])
def test_other_tools_bring_nothing(name):
    assert told(name, file_path="/etc/motd", command="curl x") is None


@pytest.mark.parametrize("arguments", [None, [], "x", {"file_path": None}, {"paths": "x"}, {"command": ["curl", "x"]}])
def test_arguments_that_say_nothing_bring_nothing(arguments):
    for name in ("Read", "read_many_files", "Bash"):
        assert brought({**COMMON, "tool_name": name, "tool_input": arguments}) is None


@pytest.mark.parametrize(
    ("reader", "event", "name", "kind"),
    [
        (claude.read, "PreToolUse", "WebFetch", Kind.NONE),
        (claude.read, "PostToolUse", "WebSearch", Kind.NONE),
        (claude.read, "PreToolUse", "mcp__a__b", Kind.TOOL_BEGIN),
        (codex.read, "PreToolUse", "mcp__a__b", Kind.TOOL_BEGIN),
        (gemini.read, "BeforeTool", "web_fetch", Kind.NONE),
        (gemini.read, "BeforeTool", "mcp_a_b", Kind.TOOL_BEGIN),
    ],
)
def test_every_agent_tells_it_with_its_session_whatever_it_declares(reader, event, name, kind):
    found = reader(event, {**COMMON, "tool_name": name, "tool_input": {"url": "https://example.org"}}, "now")
    assert (found.kind, found.session, found.brought) == (kind, "s1", Brought(name))


def test_a_call_without_an_id_brings_all_the_same():
    found = claude.read("PreToolUse", {**COMMON, "tool_use_id": None, "tool_name": "mcp__a__b"}, "now")
    assert (found.kind, found.session, found.brought) == (Kind.NONE, "s1", Brought("mcp__a__b"))
