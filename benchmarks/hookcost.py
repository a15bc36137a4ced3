"""What a hook costs the agent that calls it, beside the start of the interpreter that runs it. Nothing can be less."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from measuring import Spent, UnmeasuredError, in_turn, run
from product import Daemon, installed
from report import Measured
from workshop import Case, Workshop

from openoxide.cli import hook

TIMES_IN_ROUND = 20
AGENT, SESSION = "claude", "s"
BARE, FILE, SCRIPT = "bare", "file", "script"
EVENTS = {"end of a tool call, not waited for": "PostToolUse", "begin of a tool call, answered": "PreToolUse"}


def hooks(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, ...]:
    """Each of EVENTS in an open turn of a watched tree, as a file and as a console script; `python -c pass` in turn."""
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder) as daemon:
        daemon.ctl(case.tree, "-q", "watch")
        daemon.settle()
        tell(daemon, case, "UserPromptSubmit")
        return tuple(_cost(daemon, case, event, rounds * TIMES_IN_ROUND) for event in EVENTS.values())


def _commands(event: str) -> Mapping[str, Sequence[str]]:
    bare = [sys.executable, "-I", "-S"]
    place = os.path.realpath(hook.__file__)
    return {
        BARE: [*bare, "-c", "pass"],
        FILE: [*bare, place, AGENT, event],
        SCRIPT: [installed("oxide-hook"), AGENT, event],
    }


def tell(daemon: Daemon, case: Case, event: str, candidate: str = FILE, prompt: str = "p") -> Spent:
    """One hook of Claude Code in its session SESSION, from the start of its process to its end."""
    payload = {
        "session_id": SESSION,
        "prompt_id": prompt,
        "transcript_path": str(case.folder / "t.jsonl"),
        "cwd": str(case.tree),
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": "make test", "description": "Run the tests"},
        "tool_use_id": "toolu_1",
    }
    spent = run(_commands(event)[candidate], daemon.environ, case.folder, typed=json.dumps(payload))
    if Path(daemon.home / "spool").exists():
        raise UnmeasuredError("the daemon did not take a hook: what was measured is a spooled one")
    return spent


def _cost(daemon: Daemon, case: Case, event: str, times: int) -> Measured:
    spent: dict[str, list[Spent]] = {candidate: [] for candidate in (BARE, FILE, SCRIPT)}
    for number in range(times):
        for candidate in in_turn(list(spent), number):
            spent[candidate].append(tell(daemon, case, event, candidate))
    cpu = {name: 1000 * median(one.cpu_s for one in each) for name, each in spent.items()}
    wall = {name: 1000 * median(one.wall_s for one in each) for name, each in spent.items()}
    return Measured(
        summary=f"CPU {cpu[FILE] / cpu[BARE]:.2f} x, wall {wall[FILE] / wall[BARE]:.2f} x the bare interpreter; "
        f"{cpu[FILE]:.1f} ms CPU, {wall[FILE]:.1f} ms wall",
        made_of=f"`python -I -S -c pass` {cpu[BARE]:.1f} ms CPU, {wall[BARE]:.1f} wall; the console script "
        f"{cpu[SCRIPT]:.1f} CPU, {wall[SCRIPT]:.1f} wall; medians of {times}, without the daemon's CPU",
        values={
            "cpu_ratio": cpu[FILE] / cpu[BARE],
            "wall_ratio": wall[FILE] / wall[BARE],
            "script_cpu_ratio": cpu[SCRIPT] / cpu[BARE],
            **{f"{name}_cpu_ms_median": value for name, value in cpu.items()},
            **{f"{name}_wall_ms_median": value for name, value in wall.items()},
        },
    )
