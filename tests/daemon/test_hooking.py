"""What agents' hooks tell becomes turns and tool calls, also what they told while no daemon ran."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from openoxide.checkpoints import sight
from openoxide.checkpoints.idle import SILENT_MS
from openoxide.checkpoints.model import STAGING_NAME, WindowKind
from tests.kit import tree_of, wait_until
from tests.kit.box import Box


class Agent:
    """A session of Claude Code in a box: what its hooks would send."""

    def __init__(self, box: Box, session: str = "s", cwd: Path | None = None) -> None:
        self.box = box
        self.common = {"session_id": session, "cwd": str(cwd or box.root), "transcript_path": "/t.jsonl"}
        self.prompt = ""

    def request(self, event, **payload):
        fields = {**self.common, "hook_event_name": event, **payload}
        if self.prompt:
            fields.setdefault("prompt_id", self.prompt)
        return {"payload": fields, "agent": "claude", "event": event, "project_dir": str(self.box.root)}

    def tell(self, event, **payload):
        answer = self.box.call("hook", **self.request(event, **payload))
        assert (answer["ok"], answer["stdout"]) == (True, "")
        return answer["notes"]

    def ask(self, prompt):
        self.prompt = prompt
        return self.tell("UserPromptSubmit", prompt="please")

    def write(self, name, content, call="c1", cwd=None):
        where = str(self.box.root / name)
        tool = {"tool_name": "Write", "tool_use_id": call, "tool_input": {"file_path": where, "content": content}}
        notes = self.tell("PreToolUse", **tool)
        Path(where).write_text(content)
        response = {"type": "create", "filePath": where, "content": content}
        return notes + self.tell("PostToolUse", **tool, tool_response=response)


@pytest.fixture
def agent(box):
    return Agent(box)


def writers(box, checkpoint="last"):
    """Certainty by path of what changed up to the checkpoint."""
    found = box.call("diff", a="1", b=checkpoint)["items"]
    return {item["path"]: item["certainty"] for item in found}


def open_windows(box):
    (watched,) = box.service.all_watched()
    return [(window.kind.value, window.session, window.prompt, window.tool) for window in watched.windows]


def logged(box):
    return [(item["trigger"], item["prompt"], item["late"]) for item in box.call("log")["items"]]


def test_a_rewind_before_the_last_prompt_takes_back_what_the_agent_did_and_nothing_else(box, agent):
    before = tree_of(box.root)
    agent.ask("p1")
    agent.write("made", "by the agent")
    (box.root / "a").write_text("by the agent's shell")
    agent.tell("Stop")
    (box.root / "mine").write_text("by the user")
    agent.tell("SessionEnd", reason="other")

    box.call("rewind", checkpoint="turn:-1")

    after = tree_of(box.root, skip={STAGING_NAME})
    assert after.pop(b"mine")[-1] == b"by the user"
    assert after == before
    assert open_windows(box) == []


def test_the_prompt_has_its_checkpoint_before_it_is_answered(box, agent):
    (box.root / "a").write_text("by the user, just now")

    agent.ask("p1")

    assert logged(box)[0] == ("prompt", "p1", False)
    assert box.call("cat", checkpoint="turn:p1", file="a") == b"by the user, just now"


def test_what_a_tool_call_names_with_its_bytes_is_surely_its_own(box, agent):
    agent.ask("p1")
    agent.write("named", "these bytes")
    (box.root / "unnamed").write_text("by a shell")
    agent.tell("Stop")

    assert writers(box) == {"named": "sure", "unnamed": "likely"}


def test_a_write_outside_the_project_declares_nothing_about_it(box, agent, tmp_path):
    agent.ask("p1")

    assert agent.write(tmp_path / "elsewhere", "x") == []


@pytest.mark.parametrize(
    ("event", "payload", "note"),
    [
        ("Stop", {}, "session 's' has no open turn for prompt 'p'"),
        ("SessionEnd", {}, "session 's' has no open turn"),
        ("PreToolUse", {"tool_name": "Bash", "tool_use_id": "c"}, "session 's' has no open turn"),
        ("PostToolUse", {"tool_name": "Bash", "tool_use_id": "c"}, "session 's' has no open call of tool 'c'"),
        ("SessionStart", {"source": "startup"}, None),
        ("PreToolUse", {"tool_name": "Read", "tool_use_id": "c"}, "Read writes no file"),
        ("Notification", {}, "Notification declares nothing"),
        ("Stop", {"session_id": "\ud800"}, "Stop names no session"),
    ],
)
def test_what_fits_no_turn_is_a_note_and_opens_nothing(box, agent, event, payload, note):
    agent.prompt = "p"

    assert agent.tell(event, **payload) == ([note] if note else [])
    assert open_windows(box) == []


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"payload": None, "agent": "claude", "event": "Stop"},
        {"payload": [], "agent": ["claude"], "event": "Stop"},
        {"payload": {}, "agent": "claude", "event": 7},
        {"payload": {}, "agent": "nobody", "event": "Stop"},
        {"payload": None, "agent": "claude", "event": "Stop", "dropped_bytes": 9_000_000},
        {"payload": {"session_id": "s"}, "agent": "claude", "event": "UserPromptSubmit", "project_dir": "\ud800"},
        {"payload": {"session_id": "s"}, "agent": "claude", "event": "UserPromptSubmit", "due_ms": "soon"},
    ],
)
def test_a_request_that_says_nothing_is_a_note(box, request_):
    answer = box.call("hook", **request_)

    assert answer["ok"]
    assert len(answer["notes"]) == 1


def test_nothing_is_watched_because_an_agent_runs_there(box, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    agent = Agent(box, cwd=other)
    request = agent.request("UserPromptSubmit", prompt_id="p") | {"project_dir": str(other)}

    (note,) = box.call("hook", **request)["notes"]

    assert note == f"{other} is not in a watched project"
    assert len(box.call("projects")["items"]) == 1


def test_a_paused_project_is_a_note(box, agent):
    box.call("pause")

    (note,) = agent.ask("p1")

    assert "is paused" in note


def test_a_hook_that_is_installed_twice_begins_a_turn_once(box, agent):
    agent.ask("p1")
    (box.root / "a").write_text("by the agent")

    assert agent.ask("p1") == ["turn p1 had begun before"]
    assert box.call("cat", checkpoint="turn:p1", file="a") == b"one\n"


def test_a_tool_call_belongs_where_its_turn_began_whatever_its_own_folder(box, agent, tmp_path):
    codex = {"session_id": "c", "turn_id": "t", "transcript_path": "/t.jsonl"}

    def tell(event, cwd, **payload):
        request = {"payload": {**codex, "cwd": str(cwd), **payload}, "agent": "codex", "event": event}
        return box.call("hook", **request)["notes"]

    assert tell("UserPromptSubmit", box.root) == []
    assert tell("PreToolUse", tmp_path, tool_name="Bash", tool_use_id="c1") == []
    assert open_windows(box)[-1] == ("tool", "c", "t", "c1")
    assert tell("PostToolUse", tmp_path, tool_name="Bash", tool_use_id="c1") == []
    assert tell("Stop", tmp_path) == []
    assert open_windows(box) == []


def test_hooks_that_wait_are_carried_out_as_their_agent_ran_them(box, agent):
    agent.ask("p1")
    events = [("PreToolUse", 1), ("PostToolUse", 2), ("PreToolUse", 3), ("PostToolUse", 4), ("Stop", 5)]
    notes = {}

    def tell(event, at_ms):
        request = agent.request(event, tool_name="Bash", tool_use_id=f"c{(at_ms - 1) // 2}") | {"at_ms": at_ms}
        notes[at_ms] = box.call("hook", **request)["notes"]

    threads = [threading.Thread(target=tell, args=each) for each in reversed(events)]
    with box.service.sessions.turn(("claude", "s"), 0):
        for thread in threads:
            thread.start()
        queue = box.service.sessions._queues["claude", "s"]
        wait_until(lambda: len(queue.waiting) == len(events), 30)
    for thread in threads:
        thread.join()

    assert notes == {at_ms: [] for _, at_ms in events}


def test_a_checkpoint_whose_agent_has_gone_on_is_late_and_says_so(box, agent):
    request = agent.request("UserPromptSubmit", prompt_id="p1")
    box.call("hook", **request, due_ms=box.clock.boot_ms() - 1)
    box.call("hook", **Agent(box, "other").request("UserPromptSubmit", prompt_id="p2"), due_ms=box.clock.boot_ms())

    assert logged(box)[:2] == [("prompt", "p2", False), ("prompt", "p1", True)]
    notes = box.call("rewind", checkpoint="turn:p1", dry_run=True, scope="all")["notes"]
    assert "#2 was sealed late: what the agent did first in that turn may be in it" in notes


# the spool


def spool(box, *requests, at_ms=None, number=1):
    """Requests as the hook leaves them, one after the other."""
    box.home.spool.mkdir(mode=0o700, exist_ok=True)
    for count, request in enumerate(requests):
        name = f"{(at_ms or box.clock.now_ms()) * 1_000_000 + count:020d}-{number}.json"
        (box.home.spool / name).write_text(json.dumps(request))


def restarted(box):
    box.stop()
    box.start()
    box.call("hook")  # whatever a hook tells, what others told before comes first


def tool(call):
    return {"tool_name": "Bash", "tool_use_id": call}


def test_a_turn_that_began_unheard_is_open_from_now_on_and_its_checkpoint_is_late(box, agent):
    agent.prompt = "p1"
    spool(
        box,
        agent.request("UserPromptSubmit"),
        agent.request("PreToolUse", **tool("ended")),
        agent.request("PostToolUse", **tool("ended")),
        agent.request("PreToolUse", **tool("open")),
    )
    (box.root / "before").write_text("written while no daemon ran")

    restarted(box)
    (box.root / "after").write_text("by the agent")
    agent.tell("PostToolUse", **tool("open"))
    agent.tell("Stop")

    assert ("prompt", "p1", True) in logged(box)
    assert writers(box) == {"before": "unknown", "after": "likely"}
    assert list(box.home.spool.iterdir()) == []


@pytest.mark.parametrize("end", ["Stop", "SessionEnd"])
def test_a_turn_that_ended_unheard_is_not_declared_at_all(box, agent, end):
    agent.prompt = "p1"
    spool(box, agent.request("UserPromptSubmit"), agent.request("PreToolUse", **tool("c")), agent.request(end))

    restarted(box)

    assert open_windows(box) == []
    assert [prompt for _, prompt, _ in logged(box)] == [None]
    assert list(box.home.spool.iterdir()) == []


@pytest.mark.parametrize("age_ms", [SILENT_MS + 1, 1_000_001])
def test_a_turn_of_long_ago_or_of_another_boot_is_dropped(box, agent, age_ms):
    agent.prompt = "p1"
    box.clock.up = 1_000_000 if age_ms < SILENT_MS else SILENT_MS * 2
    spool(box, agent.request("UserPromptSubmit"), at_ms=box.clock.now_ms() - age_ms)

    restarted(box)

    assert open_windows(box) == []
    assert list(box.home.spool.iterdir()) == []


def test_what_is_not_ours_in_the_spool_stays_and_what_cannot_be_read_goes(box, agent, tmp_path):
    box.home.spool.mkdir()
    (tmp_path / "target").write_text(json.dumps(agent.request("UserPromptSubmit", prompt_id="linked")))
    now_ns = box.clock.now_ms() * 1_000_000
    stays = {
        "notes.txt": lambda path: path.write_text("mine"),
        "0-1.json": lambda path: path.write_text("{}"),
        f"{now_ns:020d}-2.json": lambda path: path.symlink_to(tmp_path / "target"),
        f"{now_ns:020d}-3.json": os.mkfifo,
        f"{now_ns:020d}-4.json": Path.mkdir,
        f"{now_ns:020d}-5.new": lambda path: path.write_text("half"),
    }
    goes = {f"{now_ns:020d}-6.json": "{half", f"{now_ns:020d}-7.json": "[]", f"{now_ns - 10**11:020d}-8.new": "half"}
    for name, make in stays.items():
        make(box.home.spool / name)
    for name, content in goes.items():
        (box.home.spool / name).write_text(content)

    restarted(box)

    assert {path.name for path in box.home.spool.iterdir()} == stays.keys()
    assert open_windows(box) == []


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/tmp"), lambda path: path.write_text("a file")])
def test_a_spool_that_is_no_folder_is_not_used(box, agent, make):
    make(box.home.spool)

    restarted(box)

    assert agent.ask("p1") == []


def test_what_was_taken_up_before_is_not_declared_again(box, agent):
    agent.prompt = "p1"
    spool(box, agent.request("UserPromptSubmit"))
    restarted(box)
    spool(box, agent.request("UserPromptSubmit"))
    restarted(box)

    with box.service.timeline.database.reading() as db:
        turns = sight.session_windows(db, box.service.all_watched()[0].worktree.id, "s")
    assert [window.kind for window in turns] == [WindowKind.TURN]
