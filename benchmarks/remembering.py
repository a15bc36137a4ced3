"""What it costs to look at a project's notes and to write them: the index, what agents are given, search, saves."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from checkpointing import fdatasync_s
from measuring import Spent, UnmeasuredError, in_turn, p99, run
from noted import Noted, index_of, name_of, noted, text_of
from product import Daemon
from report import Measured
from workshop import Workshop

from openoxide.cli import hook
from openoxide.clock import SystemClock
from openoxide.memory.context import WAYS, Way
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.index import MOST_LINES
from openoxide.memory.topics import Memory

FEW, MANY, SAVES = 50, 2_000, 50
LARGE_BYTES = 1 << 20
PROJECT = "k" * 16
AGENTS = tuple(agent.value for agent in WAYS)
HOOKED = tuple(agent.value for agent, way in WAYS.items() if way is Way.HOOK)
TIMES_IN_ROUND, COMMANDS_IN_ROUND = 20, 5


def index(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, ...]:
    """MEMORY.md at the most lines that load, and of a megabyte, in the library; and the command."""
    folder = Path(tempfile.mkdtemp(dir=workshop.scratch))
    memory = Memory(MemoryDirectory(folder, PROJECT), SystemClock())
    memory.directory.path.mkdir(parents=True)
    lines = index_of(LARGE_BYTES // 40)
    texts = index_of(MOST_LINES), lines[: lines.rindex("\n", 0, LARGE_BYTES) + 1]
    loads = tuple(_load(memory, text, rounds * TIMES_IN_ROUND) for text in texts)
    with noted(workshop, files, FEW) as stage:
        return (*loads, _command(stage, rounds * COMMANDS_IN_ROUND))


def _load(memory: Memory, text: str, times: int) -> Measured:
    (memory.directory.path / "MEMORY.md").write_text(text, "utf-8")
    took, used = [], []
    for _ in range(times):
        before_s = time.thread_time()
        took.append(_ms(memory.load_index))
        used.append(1000 * (time.thread_time() - before_s))
    found = memory.load_index()
    if found.loaded_lines != min(text.count("\n"), MOST_LINES):
        raise UnmeasuredError(f"{found.loaded_lines} lines were loaded")
    return Measured(
        summary=f"{_both(took)}; CPU {median(used):.2f} ms",
        made_of=f"{len(text.encode()):,} bytes, {found.lines:,} lines, of which {found.loaded_lines} load; read from the disk "
        f"each time; {times} times",
        values=_values(took) | {"cpu_ms_median": median(used)},
        details={"samples_ms": took},
    )


def _command(stage: Noted, times: int) -> Measured:
    spent = [stage.daemon.ctl(stage.case.tree, "memory", "index") for _ in range(times)]
    values = {
        "cpu_ms_median": 1000 * median(one.cpu_s for one in spent),
        "wall_ms_median": 1000 * median(one.wall_s for one in spent),
    }
    return Measured(
        summary="CPU {cpu_ms_median:.0f} ms, wall {wall_ms_median:.0f}".format(**values),
        made_of=f"the whole process, from its start; medians of {times}, without the daemon's CPU",
        values=values,
    )


def context(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, ...]:
    """For each of AGENTS what `memory context` takes; then for each of HOOKED what its hook takes when a session starts, with
    and without a memory.
    """
    with noted(workshop, files, FEW) as stage, workshop.case(stage.corpus.root) as bare:
        stage.daemon.ctl(bare.tree, "-q", "watch")
        stage.daemon.settle()
        told = tuple(_told(stage, agent, rounds * TIMES_IN_ROUND) for agent in AGENTS)
        trees = {"with": stage.case.tree, "without": bare.tree}
        return (*told, *(_at_start(stage, trees, agent, rounds * TIMES_IN_ROUND) for agent in HOOKED))


def _told(stage: Noted, agent: str, times: int) -> Measured:
    client, took, pings = stage.daemon.client, [], []
    for _ in range(times):
        pings.append(_ms(stage.daemon.ping))
        took.append(_ms(lambda: client.memory_context(stage.tree, agent)))
    answer = client.memory_context(stage.tree, agent)
    given = answer["memory"]
    if given is None or name_of(0) not in given["text"]:
        raise UnmeasuredError(f"{agent} is given nothing of the memory")
    return Measured(
        summary=_both(took),
        made_of=f"the round trip, of which a ping takes {median(pings):.2f} ms; {len(answer['sources'])} sources, "
        f"{given['size']:,} {given['measure']} of the memory; {times} times",
        values=_values(took) | {"ping_ms_median": median(pings)},
        details={"samples_ms": took},
    )


def _at_start(stage: Noted, trees: Mapping[str, Path], agent: str, times: int) -> Measured:
    spent: dict[str, list[Spent]] = {name: [] for name in trees}
    for number in range(times):
        for name in in_turn(list(trees), number):
            spent[name].append(_start(stage.daemon, trees[name], agent))
    unanswered = sum(name_of(0) not in one.output for one in spent["with"])
    if any(one.output for one in spent["without"]):
        raise UnmeasuredError("a project without a memory was given one")
    wall = {name: [1000 * one.wall_s for one in each] for name, each in spent.items()}
    cpu = {name: 1000 * median(one.cpu_s for one in each) for name, each in spent.items()}
    middle = {name: median(each) for name, each in wall.items()}
    return Measured(
        summary=f"{middle['with'] - middle['without']:+.1f} ms wall; {middle['with']:.1f} with a memory, p99 "
        f"{p99(wall['with']):.1f}; {times - unanswered} of {times} were answered",
        made_of=f"the hook's process from its start to its end; without a memory {middle['without']:.1f} ms wall; CPU "
        f"{cpu['with']:.1f} and {cpu['without']:.1f} ms, without the daemon's; medians of {times}",
        values={
            "unanswered": unanswered,
            "added_wall_ms": middle["with"] - middle["without"],
            "wall_ms_p99": p99(wall["with"]),
            **{f"{name}_memory_wall_ms_median": value for name, value in middle.items()},
            **{f"{name}_memory_cpu_ms_median": value for name, value in cpu.items()},
        },
        details={"samples_ms": wall},
    )


def _start(daemon: Daemon, tree: Path, agent: str) -> Spent:
    payload = {"session_id": "s", "cwd": str(tree), "source": "startup", "hook_event_name": "SessionStart"}
    payload |= {"transcript_path": str(tree / "t.jsonl")}  # without one it is no session of Codex
    command = [sys.executable, "-I", "-S", os.path.realpath(hook.__file__), agent, "SessionStart"]
    return run(command, daemon.environ, tree, typed=json.dumps(payload))


def search(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, Measured]:
    """The first search after a start of the daemon, in each round; then searches that each come after a change of one topic."""
    with noted(workshop, files, MANY) as stage:
        first = []
        for _ in range(rounds):
            stage.daemon.restart()
            stage.daemon.settle()
            first.append(_ms(lambda: _searched(stage, "segment window")))
        changed, again = [], []
        for number in range(rounds * TIMES_IN_ROUND):
            name = name_of(number % MANY)
            with (stage.memory / name).open("a") as note:
                note.write(f"- changed{number}\n")
            changed.append(_ms(lambda: _found(stage, f"changed{number}", name)))  # noqa: B023 called at once
            again.append(_ms(lambda: _searched(stage, "segment window")))
    return (
        Measured(
            summary=f"{_both(first)}, the slowest of {rounds}",
            made_of="the round trip; every topic is read and put into the index, which is kept in memory",
            values=_values(first),
            details={"samples_ms": first},
        ),
        Measured(
            summary=_both(changed),
            made_of=f"the round trip, {len(changed)} times; the same with nothing changed {_both(again)}",
            values=_values(changed) | {f"unchanged_{name}": value for name, value in _values(again).items()},
            details={"samples_ms": changed},
        ),
    )


def _searched(stage: Noted, text: str) -> Sequence[Mapping[str, Any]]:
    items: Sequence[Mapping[str, Any]] = stage.daemon.client.memory_search(stage.tree, text)["items"]
    if not items:
        raise UnmeasuredError(f"{text!r} was not found")
    return items


def _found(stage: Noted, text: str, name: str) -> None:
    names = [item["name"] for item in _searched(stage, text)]
    if names[0] != name:
        raise UnmeasuredError(f"{text!r} of {name} was found in {', '.join(names)}")


def saves(workshop: Workshop, files: int, rounds: int) -> tuple[Measured]:
    """SAVES new topics in a row into a memory that is empty, in each round another one."""
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder) as daemon:
        took, pings, syncs = [], [], []
        for number in range(rounds):
            tree = case.folder / f"project-{number}"
            tree.mkdir()
            daemon.client.watch(str(tree))
            daemon.settle()
            for topic in range(SAVES):
                pings.append(_ms(daemon.ping))
                took.append(_ms(lambda: daemon.client.memory_save(str(tree), name_of(topic), text_of(topic))))  # noqa: B023
            syncs.append(1000 * fdatasync_s(case.folder / "probe"))
            kept = daemon.client.memory_index(str(tree))["lines"]
            if kept != SAVES:
                raise UnmeasuredError(f"the index has {kept} instead of {SAVES} lines")
    return (
        Measured(
            summary=f"{_both(took)}; {len(took)} saves",
            made_of="the round trip: the topic and its line in the index are durable, and both are a version with its writer; "
            f"a ping {median(pings):.2f} ms, one fdatasync of 4 KB {median(syncs):.2f}",
            values=_values(took) | {"ping_ms_median": median(pings), "fdatasync_ms_median": median(syncs)},
            details={"samples_ms": took},
        ),
    )


def _ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return round(1000 * (time.perf_counter() - began), 3)


def _values(took: Sequence[float]) -> dict[str, float]:
    return {"ms_median": median(took), "ms_p99": p99(took)}


def _both(took: Sequence[float]) -> str:
    return f"{median(took):.2f} ms median, {p99(took):.2f} p99"
