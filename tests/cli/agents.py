"""Real agents, run offline against a scripted model, with the settings that the documents tell."""

from __future__ import annotations

import gc
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import ROOT

PLACES = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
# no shell for what a tool does
ARGUMENTS = {"codex": ["-m", "gpt-5.5"]}
HOOK = f"{sys.executable} -I -S {ROOT / 'cli' / 'hook.py'}"


def documented(name: str, title: str, language: str) -> list[str]:
    """The code of one language in a section of a document."""
    section = (ROOT / "docs" / name).read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def settings(text: str, program: str = HOOK) -> dict[str, Any]:
    """Documented settings, with the fast command in them."""
    found = json.loads(text.replace("/path/to/oxide-hook", program))
    assert isinstance(found, dict)
    return found


def configure(agent: str, home: Path, wanted: dict[str, Any]) -> None:
    """Write settings beside what the client's configuration holds already."""
    place = home / PLACES[agent]
    place.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(place.read_text()) if place.exists() else {}
    place.write_text(json.dumps(before | wanted))


def trust_hooks(clients: Any, client: Any) -> None:
    """As a person does once. What the package leaves to the collector is collected here, where it is no failure."""
    with clients.CodexApp(client) as app:
        app.trust_hooks()
    del app
    gc.collect()


def need(clients: Any, agent: str) -> None:
    """Skips by name where the agent is not installed."""
    if not clients.installed(agent):
        pytest.skip(f"{agent} is not installed in the folder that CLIENTS_WORK names")


def scripted(clients: Any, scenario: str | dict[str, Any], project: Path, folder: Path) -> Any:
    """The model; what is sent to it is logged in a folder of the test, since it holds what vendors tell their agents."""
    return clients.FakeModel(scenario, project, log=folder / "requests.jsonl")


def read(row: dict[str, Any]) -> str:
    """What a model reads of a request: all of its texts, the system's first."""
    body = row["body"]
    first = {"system", "instructions", "systemInstruction"}
    return "\n".join(_texts([body[key] for key in sorted(body, key=lambda key: key not in first)]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _texts(one)]
