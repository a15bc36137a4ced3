"""Eight processes append to one note at once, through the library or through the daemon: how fast, and that all is kept.
One of them is this file as a program: ``notetakers.py HOME|SOCKET TREE|"" WHO COUNT``; it begins when a line comes in.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from measuring import LIMIT_SECONDS, UnmeasuredError
from product import Daemon
from remembering import PROJECT
from report import Measured
from workshop import Workshop

from openoxide.clock import SystemClock
from openoxide.daemon.client import Client
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import Append
from openoxide.memory.topics import Memory
from openoxide.paths import Home

WRITERS, ENTRIES = 8, 200
NOTE = "log.md"


def appends(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, Measured]:
    """WRITERS processes with ENTRIES appends each, once by the library and once by the socket in each round."""
    library, socket = [], []
    with workshop.case(workshop.corpus(files).root) as case, Daemon(case.folder) as daemon:
        for number in range(rounds):
            home = case.folder / f"library-{number}"
            library.append(_taken([str(home), ""], MemoryDirectory(home, PROJECT).path / NOTE))
            tree = case.folder / f"project-{number}"
            tree.mkdir()
            daemon.client.watch(str(tree))
            note = Path(daemon.client.memory_index(str(tree))["path"]) / NOTE
            socket.append(_taken([str(Home(daemon.home).socket), str(tree)], note))
    return (
        summed_up(library, "each append is durable when it returns"),
        summed_up(socket, "each append is durable and a version of its own when it is answered"),
    )


def _taken(place: Sequence[str], note: Path) -> tuple[float, int]:
    """Seconds from the start of all to the end of the last, and how many entries are wrong."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, __file__, *place, f"w{number}", str(ENTRIES)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(WRITERS)
        ]
        stack.callback(lambda: [process.kill() for process in started])
        for process in started:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise UnmeasuredError("a process that writes notes did not start")
        began = time.perf_counter()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.wait(LIMIT_SECONDS) for process in started]
        took = time.perf_counter() - began
    if any(ended):
        raise UnmeasuredError(f"processes that write notes ended with {ended}")
    return took, wrong(note)


def wrong(note: Path) -> int:
    """How many lines are missing, there more than once, or nobody's."""
    there = Counter(note.read_text("utf-8").splitlines())
    wanted = Counter(f"- w{number} {entry}" for number in range(WRITERS) for entry in range(ENTRIES))
    return ((there - wanted) + (wanted - there)).total()


def summed_up(found: Sequence[tuple[float, int]], made_of: str) -> Measured:
    """The rate of all writers together, and what became of their entries; ``found``: seconds and wrong lines of each round."""
    total = WRITERS * ENTRIES
    rates = [total / took for took, _ in found]
    lost = sum(count for _, count in found)
    return Measured(
        summary=f"{median(rates):.0f} entries a second; {total * len(found) - lost:,} of {total * len(found):,} kept",
        made_of=f"{made_of}; {WRITERS} processes with {ENTRIES} appends each to one file, from the start of all to the end of "
        "the last; median",
        values={"wrong": lost, "entries_per_s_median": median(rates)},
        details={"seconds": [took for took, _ in found]},
    )


def _writer(home: str, tree: str) -> Callable[[str], object]:
    if tree:
        client = Client(home, autostart=False)
        return lambda entry: client.memory_edit(tree, NOTE, {"append": entry})
    memory = Memory(MemoryDirectory(Path(home), PROJECT), SystemClock())
    return lambda entry: memory.edit(NOTE, Append(text=entry))


def main(home: str, tree: str, who: str, count: str) -> None:
    """Append ``count`` entries of ``who``: with a ``tree`` by the socket ``home``, else to the home itself."""
    write = _writer(home, tree)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        write(f"- {who} {number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
