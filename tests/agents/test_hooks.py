"""What each agent's hooks mean: tables, hostile payloads, and the real payloads where they are at hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.agents import claude, codex, gemini
from openoxide.agents.hooks import MAX_ID, Brought, HookCall, Kind, Write

READERS = {"claude": claude.read, "codex": codex.read, "gemini": gemini.read}
NOW = "2026-11-29T10:00:00.000Z"
CWD = "/home/dev/project"
COMMON = {"session_id": "s1", "cwd": CWD, "transcript_path": "/home/dev/t.jsonl"}
CLAUDE = {**COMMON, "prompt_id": "p1"}
CODEX = {**COMMON, "turn_id": "t1"}
BASH = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "make"}}
FILE = CWD + "/src/a.py"


def edit(name="Edit", where=FILE, **response):
    shown = {"originalFile": "x = 1\nx = 1\n", "oldString": "x = 1", "newString": "x = 2", "replaceAll": False}
    return {
        "tool_name": name,
        "tool_use_id": "c1",
        "tool_input": {"file_path": where},
        "tool_response": {"filePath": where, **shown, **response},
    }


def patch(text):
    return {"tool_name": "apply_patch", "tool_use_id": "c1", "tool_input": {"command": text}}


def shell(command):
    return {"tool_name": "run_shell_command", "tool_input": {"command": command, "description": "x"}}


def shown(**display):
    return {
        "tool_name": "write_file",
        "tool_input": {"file_path": "a", "content": "x\n"},
        "tool_response": {"llmContent": "done", "returnDisplay": display},
    }


def call(kind, **fields):
    return HookCall(kind=kind, session="s1", cwd=CWD, **fields)


@pytest.mark.parametrize(
    ("event", "more", "expected"),
    [
        ("SessionStart", {"source": "startup"}, call(Kind.SESSION_START, prompt="p1")),
        ("UserPromptSubmit", {"prompt": "please"}, call(Kind.TURN_BEGIN, prompt="p1")),
        ("UserPromptSubmit", {"prompt_id": None}, call(Kind.TURN_BEGIN, prompt=NOW)),
        ("Stop", {"stop_hook_active": False}, call(Kind.TURN_END, prompt="p1")),
        ("Stop", {"prompt_id": None}, call(Kind.TURN_END)),
        ("StopFailure", {"error": "overloaded"}, call(Kind.TURN_END, prompt="p1")),
        ("SessionEnd", {"reason": "other"}, call(Kind.SESSION_END, prompt="p1")),
        ("PreToolUse", BASH, call(Kind.TOOL_BEGIN, prompt="p1", tool="c1")),
        (
            "PreToolUse",
            {**BASH, "tool_name": "mcp__db__write"},
            call(Kind.TOOL_BEGIN, prompt="p1", tool="c1", brought=Brought("mcp__db__write")),
        ),
        ("PostToolUse", BASH, call(Kind.TOOL_END, prompt="p1", tool="c1")),
        ("PostToolUse", {**BASH, "agent_id": "sub"}, call(Kind.TOOL_END, prompt="p1", tool="c1")),
        ("PostToolUseFailure", BASH, call(Kind.TOOL_END, prompt="p1", tool="c1")),
        ("PreToolUse", {**edit(), "tool_response": None}, call(Kind.TOOL_BEGIN, prompt="p1", tool="c1")),
    ],
)
def test_claude_declares(event, more, expected):
    assert claude.read(event, {**CLAUDE, **more}, NOW) == expected


@pytest.mark.parametrize(
    ("more", "content"),
    [
        (edit(), b"x = 2\nx = 1\n"),
        (edit(replaceAll=True), b"x = 2\nx = 2\n"),
        (edit("Write", content="\u00e9\r\n"), "\u00e9\r\n".encode()),
        (edit("Write", where="src/a.py", content=""), b""),
        (edit(originalFile=None), None),
        (edit(oldString=""), None),
        (edit("Write", content=None), None),
        (edit("Write", content="\ud800"), None),
        (edit("NotebookEdit", content="x"), None),
        (edit("Write", where="a\0b", content="x"), None),
        (edit("Write", where="/" + "x" * 5_000, content="x"), None),
        ({**edit("Write"), "tool_response": "done"}, None),
        ({**edit("Write", content="x"), "tool_input": None}, None),
    ],
)
def test_what_claude_wrote_is_known_where_its_answer_holds_all_of_it(more, content):
    found = claude.read("PostToolUse", {**CLAUDE, **more}, NOW)

    assert found.kind is Kind.TOOL_END
    assert found.writes == (() if content is None else (Write(FILE, content),))


@pytest.mark.parametrize(
    ("event", "more", "expected"),
    [
        ("SessionStart", {"source": "startup"}, call(Kind.SESSION_START, prompt="t1")),
        ("UserPromptSubmit", {"prompt": "please"}, call(Kind.TURN_BEGIN, prompt="t1")),
        ("Stop", {}, call(Kind.TURN_END, prompt="t1")),
        ("Interrupt", {}, call(Kind.TURN_END, prompt="t1")),
        ("SessionEnd", {"turn_id": None, "reason": "other"}, call(Kind.SESSION_END)),
        ("PreToolUse", BASH, call(Kind.TOOL_BEGIN, prompt="t1", tool="c1")),
        ("PostToolUse", {**BASH, "tool_response": ""}, call(Kind.TOOL_END, prompt="t1", tool="c1")),
    ],
)
def test_codex_declares(event, more, expected):
    assert codex.read(event, {**CODEX, **more}, NOW) == expected


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("*** Begin Patch\n*** Add File: src/a.py\n+one\n+\n+two\n*** End Patch", [Write(FILE, b"one\n\ntwo\n")]),
        ("*** Begin Patch\n*** Add File: src/a.py\n*** End Patch", [Write(FILE, b"")]),
        (
            "*** Begin Patch\n*** Add File: /x\n+1\n*** Update File: b\n@@\n-1\n+2\n*** Add File: src/a.py\n+3\n*** End Patch",
            [Write("/x", b"1\n"), Write(FILE, b"3\n")],
        ),
        ("*** Begin Patch\n*** Update File: src/a.py\n@@\n-1\n+2\n*** End Patch", []),
        ("*** Begin Patch\n*** Add File: src/a.py\n+1\nnot a line of it\n*** End Patch", []),
        ("*** Begin Patch\n*** Add File: \n+1\n*** End Patch", []),
        ("", []),
    ],
)
def test_a_patch_of_codex_holds_all_of_a_file_that_it_makes(text, writes):
    assert list(codex.read("PostToolUse", {**CODEX, **patch(text)}, NOW).writes) == writes


@pytest.mark.parametrize(
    "more", [{"transcript_path": None}, {"cwd": "/home/dev/.codex/memories_v2"}, {"cwd": "/x/.codex/memories/y"}]
)
def test_the_session_in_which_codex_looks_after_its_memories_is_none_of_ours(more):
    assert codex.read("UserPromptSubmit", {**CODEX, **more}, NOW).kind is Kind.NONE


@pytest.mark.parametrize(
    ("event", "more", "expected"),
    [
        ("SessionStart", {}, call(Kind.SESSION_START)),
        ("BeforeAgent", {"timestamp": "2026-11-29T09:59:59.000Z"}, call(Kind.TURN_BEGIN, prompt="2026-11-29T09:59:59.000Z")),
        ("BeforeAgent", {}, call(Kind.TURN_BEGIN, prompt=NOW)),
        ("AfterAgent", {"timestamp": "2026-11-29T10:00:01.000Z"}, call(Kind.TURN_END)),
        ("SessionEnd", {"reason": "exit"}, call(Kind.SESSION_END)),
    ],
)  # fmt: skip
def test_gemini_declares(event, more, expected):
    assert gemini.read(event, {**COMMON, **more}, NOW) == expected


def test_both_hooks_of_a_tool_call_of_gemini_give_it_the_same_name():
    before = gemini.read("BeforeTool", {**COMMON, **shell("make")}, NOW)
    after = gemini.read("AfterTool", {**COMMON, **shell("make"), "tool_response": {"llmContent": "x"}}, NOW)
    other = gemini.read("BeforeTool", {**COMMON, **shell("make test")}, NOW)

    assert (before.kind, after.kind) == (Kind.TOOL_BEGIN, Kind.TOOL_END)
    assert before.tool == after.tool != other.tool


@pytest.mark.parametrize(
    ("display", "writes"),
    [
        ({"filePath": FILE, "newContent": "x\n"}, (Write(FILE, b"x\n"),)),
        ({"filePath": "src/a.py", "newContent": "x\n"}, ()),
        ({"filePath": FILE}, ()),
        ({}, ()),
    ],
)
def test_what_gemini_wrote_is_known_where_it_is_shown(display, writes):
    assert gemini.read("AfterTool", {**COMMON, **shown(**display)}, NOW).writes == writes


@pytest.mark.parametrize(
    ("agent", "event", "payload", "reason"),
    [
        ("claude", "PreCompact", CLAUDE, "PreCompact declares nothing"),
        ("claude", "SubagentStop", CLAUDE, "SubagentStop declares nothing"),
        ("claude", "", CLAUDE, " declares nothing"),
        ("claude", "PreToolUse", {**CLAUDE, **BASH, "tool_name": "Read"}, "Read writes no file"),
        ("claude", "PreToolUse", {**CLAUDE, **BASH, "tool_use_id": None}, "the tool call has no id"),
        ("claude", "Stop", {}, "Stop names no session"),
        ("claude", "Stop", {"session_id": 7}, "Stop names no session"),
        ("claude", "Stop", {"session_id": "x" * (MAX_ID + 1)}, "Stop names no session"),
        ("claude", "Stop", {"session_id": "a\0"}, "Stop names no session"),
        ("claude", "Stop", {"session_id": "\udcff"}, "Stop names no session"),
        ("gemini", "BeforeModel", COMMON, "BeforeModel declares nothing"),
        ("gemini", "BeforeTool", {**COMMON, "tool_name": "read_file"}, "read_file writes no file"),
        ("gemini", "BeforeTool", COMMON, "the tool call has no id"),
        ("codex", "PreCompact", CODEX, "PreCompact declares nothing"),
        ("codex", "PostToolUse", CODEX, "the tool call has no id"),
    ],
)
def test_what_declares_nothing_says_why(agent, event, payload, reason):
    assert READERS[agent](event, payload, NOW) == HookCall(kind=Kind.NONE, reason=reason)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NAMES = st.sampled_from(
    "session_id prompt_id turn_id cwd transcript_path timestamp tool_name tool_use_id tool_input tool_response "
    "file_path path paths mcp_context content originalFile oldString newString command returnDisplay filePath newContent".split()
)
PAYLOADS = st.recursive(
    st.dictionaries(NAMES, VALUES), lambda inner: st.dictionaries(NAMES, inner | VALUES), max_leaves=8
)
EVENTS = st.sampled_from(sorted({*claude.KINDS, *codex.KINDS, *gemini.KINDS}))


@given(agent=st.sampled_from(sorted(READERS)), event=EVENTS, payload=PAYLOADS, whole=st.booleans())
def test_no_payload_raises_and_what_is_declared_can_be_stored(agent, event, payload, whole):
    found = READERS[agent](event, {**COMMON, **payload} if whole else payload, NOW)

    for text in (found.session, found.prompt or "", found.tool, found.cwd, *(write.path for write in found.writes)):
        assert "\0" not in text
        text.encode()
    assert (found.kind is Kind.NONE) == bool(found.reason)
    if found.kind is not Kind.NONE:
        assert found.session
    if found.brought is not None:
        for text in (found.brought.tool, *found.brought.paths):
            assert text
            text.encode()
        assert all(path.startswith("/") for path in found.brought.paths)


@pytest.mark.clients
@pytest.mark.parametrize("agent", sorted(READERS))
def test_the_payloads_of_the_real_agent_are_understood(agent, shared):
    samples = [json.loads(path.read_text()) for path in (shared / "samples/hook-payloads" / agent).glob("*.json")]
    kinds = {
        sample["event"]: READERS[agent](sample["event"].split("/")[0], sample["payload"], NOW) for sample in samples
    }

    found = {event: call.kind for event, call in kinds.items()}
    writes = {
        event: [write.path.rpartition("/")[2] for write in call.writes] for event, call in kinds.items() if call.writes
    }
    assert {*found.values()} >= {Kind.SESSION_START, Kind.TURN_BEGIN, Kind.TOOL_BEGIN, Kind.TOOL_END, Kind.TURN_END}
    expected = {
        "claude": {"PostToolUse/Write": ["new.txt"], "PostToolUse/Edit": ["app.py"]},
        "codex": {},
        "gemini": {"AfterTool/write_file": ["new.txt"], "AfterTool/replace": ["app.py"]},
    }
    assert writes == expected[agent]
