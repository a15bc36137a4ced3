"""A process that writes to a memory: through us, or as a plain editor does.

``python -m tests.memory.note_taker HOME append|edit|shell WHO COUNT``. An editor reads the file, writes a temporary one
beside it and renames; editors wait for each other, as those of one person do, and for nobody else.
A shell's ``>>`` opens, writes and closes.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from openoxide.clock import SystemClock
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.editing import Append
from openoxide.memory.topics import Memory
from tests.memory.kit import PROJECT


def append(memory: Memory, who: str, count: int) -> None:
    for n in range(count):
        memory.edit("log.md", Append(text=f"- {who} {n}"))


def edit(memory: Memory, who: str, count: int) -> None:
    path = memory.directory.path / "log.md"
    with (memory.directory.home / "editors.lock").open("w") as lock:
        for n in range(count):
            fcntl.flock(lock, fcntl.LOCK_EX)
            temporary = path.with_name(f".log.md.{who}")
            temporary.write_bytes(path.read_bytes() + f"- {who} {n}\n".encode())
            temporary.replace(path)
            fcntl.flock(lock, fcntl.LOCK_UN)


def shell(memory: Memory, who: str, count: int) -> None:
    for n in range(count):
        with (memory.directory.path / "log.md").open("ab", buffering=0) as file:
            file.write(f"- {who} {n}\n".encode())
            # only to take as long as our own writers, so that they meet
            os.fsync(file.fileno())


def main(home: str, what: str, who: str, count: str) -> None:
    memory = Memory(MemoryDirectory(Path(home), PROJECT), SystemClock())
    {"append": append, "edit": edit, "shell": shell}[what](memory, who, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
