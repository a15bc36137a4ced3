"""docs/memory.md as it is: with its settings the real agents put the notes into their requests, once, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openoxide.memory.context import BEGIN, END
from openoxide.memory.secrets import REDACTED
from tests.cli.agents import ARGUMENTS, HOOK, PLACES, configure, documented, need, read, scripted, settings, trust_hooks

pytestmark = [
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(600),
]

AGENTS = ("claude", "codex", "gemini", "opencode", "aider")
SCENARIO = {"side": "side", "no_tools_ok": True, "turns": {"m": [[{"op": "text", "text": "done"}]]}}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FEW = "- [Debugging](debugging.md) — firstword\n- the token is {secret} secondword\n"
# each line of other lengths in bytes, code points and UTF-16 units
MANY = "".join(f"- note {number} ééé 😀😀 {'x' * 40} endofnote{number}\n" for number in range(400))
MOST_TRIES = 5
LATE_SECONDS = 400


@pytest.fixture
def notes(clients, machine):
    """A watched project with a memory, which holds a topic; its directory."""
    clients.make_project(machine.project)
    machine.json("watch")
    machine.json("memory", "save", "debugging.md", "--text", "# Debugging\n\ntopicword\n")
    return Path(machine.json("memory", "index")["path"])


def documented_settings(agent):
    (found,) = [
        text for text in documented("memory.md", "Let agents have it", "json") if f" {agent} SessionStart" in text
    ]
    return settings(found, HOOK)


def prepare(agent, clients, client, machine):
    """As docs/memory.md tells."""
    if agent in PLACES:
        configure(agent, client.home, documented_settings(agent))
        if agent == "codex":
            trust_hooks(clients, client)
        return
    written = machine.json("memory", "context", "--agent", agent, "--write")["written"]
    if agent == "opencode":
        (machine.project / "opencode.json").write_text(json.dumps({"instructions": [written]}))
    else:
        (machine.project / ".aider.conf.yml").write_text(f"read: [{written}]\n")


def request_with_notes(model, client, arrived):
    """What the model read in a new session. A hook that gets no processor within its deadline says nothing; it is asked again."""
    for _ in range(MOST_TRIES):
        before = len(model.requests("m"))
        client.start("[[m]] go")
        text = read(model.requests("m")[before])
        if arrived in text:
            break
    return text


@pytest.mark.parametrize("index", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("agent", AGENTS)
def test_the_notes_arrive_whole_and_once(agent, index, clients, machine, notes, tmp_path):
    need(clients, agent)
    (notes / "MEMORY.md").write_text(index.format(secret=SECRET))
    environ = {"OPENOXIDE_HOME": str(machine.home)}
    with scripted(clients, SCENARIO, machine.project, tmp_path) as model:
        client = clients.Client(
            agent, model, Path.home(), env=environ, args=ARGUMENTS.get(agent, []), timeout=LATE_SECONDS
        )
        prepare(agent, clients, client, machine)
        answer = machine.json("memory", "context", "--agent", agent)
        sent = request_with_notes(model, client, BEGIN)

    given = answer["memory"]
    assert given["text"].strip() in sent, "to the last letter"
    assert (sent.count(BEGIN), sent.count(END), sent.count(index.splitlines()[0])) == (1, 1, 1)
    inside = sent.split(BEGIN)[1].split(END)[0]
    assert "topicword" not in sent
    assert SECRET not in sent
    assert [source["path"] for source in answer["sources"]] == [str(notes / "MEMORY.md")]
    lines = [line for line in inside.splitlines() if line]
    if index is FEW:
        assert ("firstword" in inside, "secondword" in inside, given["warning"]) == (True, True, "")
    else:
        *noted, warning, unlisted = lines
        assert noted == MANY.splitlines()[: len(noted)]
        assert warning == given["warning"].rstrip()
        assert unlisted.startswith("Files that the index does not name: ")
        # as near to the cap as a line allows
        assert given["cap"] == 0 or given["cap"] - 100 < given["size"] <= given["cap"]


def test_claude_code_loads_the_memory_by_itself_where_its_setting_leads_to_it(clients, machine, notes, tmp_path):
    need(clients, "claude")
    (notes / "MEMORY.md").write_text(f"{SECRET}\n{MANY}")
    with scripted(clients, SCENARIO, machine.project, tmp_path) as model:
        client = clients.Client("claude", model, Path.home(), env={"OPENOXIDE_HOME": str(machine.home)})
        configure("claude", client.home, documented_settings("claude") | {"autoMemoryDirectory": str(notes)})
        given = machine.json("memory", "context", "--agent", "claude")["memory"]
        client.start("[[m]] go")
        sent = read(model.requests("m")[0])

    assert given["way"] == "native"
    assert BEGIN not in sent
    # it reads the file as it is
    assert SECRET not in given["text"]
    assert sent.count(given["text"].replace(REDACTED, SECRET).strip()) == 1
    assert given["text"].splitlines()[-1] + "\n\n> WARNING: MEMORY.md is" in sent
    assert given["warning"].split(" (")[0] in sent
