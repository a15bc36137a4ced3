"""A process writes into a project without a pause while it is rewound: no record of it may be lost.

The writer logs outside the project what it wrote and what it destroyed itself. Everything else must stand in the tree,
in a version of the timeline, or in what was found in a staging folder and stored.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from openoxide.checkpoints.model import ABSENT
from openoxide.daemon.protocol import entry_path
from openoxide.errors import ConflictError, NotFoundError
from tests.kit import tree_of
from tests.kit.box import Box
from tests.races.looking import reachable, states_at, wait_until_swept
from tests.races.programs import Program, rounds

FILES = 20
HELD = (b"work/f00", b"work/f01", b"work/f02")
LISTS = ("restored", "removed", "merged", "kept", "conflicts", "skipped", "changed_since")
RECORD = re.compile(rb"<([0-9]{8})>")
MOVES = ("rewind", "rewind", "exact", "undo")
AFTER_UNDO = ("redo", *MOVES)


@dataclass
class Tally:
    """What the rewinds came to."""

    moves: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, move: str, answer: Any) -> None:
        self.moves[move] += 1
        self.paths += Counter({name: len(answer[name]) for name in LISTS})
        self.reasons += Counter(re.sub(r" by pid \d+", "", entry["reason"]) for entry in answer["conflicts"])


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        (box.root / "work").mkdir()
        for number in range(FILES):
            (box.root / "work" / f"f{number:02}").write_bytes(b"first\n")
        yield box


@rounds(few=60, full=1_000)
def test_no_record_is_lost_while_rewinds_go_back_and_forth(box, tmp_path, rounds):
    box.watch()
    kept, tally = [box.checkpoint()["id"]], Tally()
    log = tmp_path / "log"
    with Program("writer", box.root / "work", log, 1) as writer:
        _go_back_and_forth(box, kept, tally, rounds)
        last = {path: os.stat(os.fsencode(box.root) + b"/" + path).st_ino for path in HELD}
        assert last == {path: _inode_held(writer.pid, box.root, path) for path in HELD}, "a held file was displaced"
    assert wait_until_swept(box)

    written, destroyed = _logged(log)
    found = set(_records_of_tree(box.root)) | {number for data in reachable(box) for number in RECORD.findall(data)}
    lost = {number: how for number, how in written.items() if number not in found and number not in destroyed}
    print(f"\n{rounds} rewinds: {len(written)} records, {len(destroyed & written.keys() - found)} destroyed by the writer"
          f" unseen, {dict(tally.moves)} {dict(tally.paths)} conflicts: {dict(tally.reasons)}")  # fmt: skip
    assert lost == {}
    assert min(tally.paths["restored"], tally.paths["conflicts"], len(written) - len(destroyed)) > rounds, "no race"


def _go_back_and_forth(box: Box, kept: list[str], tally: Tally, count: int) -> None:
    chosen, move = random.Random(count), ""
    while tally.moves.total() < count:
        move = chosen.choice(AFTER_UNDO if move == "undo" else MOVES)
        target = chosen.choice(kept)
        try:
            answer = _move(box, move, target)
        except (ConflictError, NotFoundError):  # torn by the writer at this moment; nothing to undo
            continue
        tally.add(move, answer)
        if move in ("rewind", "exact"):
            _check_listed(box, answer)
        if chosen.random() < 0.5:
            kept.append(box.checkpoint()["id"])


def _move(box: Box, move: str, target: str) -> Any:
    if move in ("undo", "redo"):
        return box.call(move)
    return box.rewind(target, scope="all", exact=move == "exact")


def _check_listed(box: Box, answer: Any) -> None:
    """Every path that was not as at the target is in exactly one list; one that is held open is a conflict."""
    then = states_at(box, answer["checkpoint"]["seq"])
    now = states_at(box, answer["pre_rewind_checkpoint"]["seq"])
    differing = {path for path in then | now if then.get(path, ABSENT) != now.get(path, ABSENT)}
    listed = Counter(entry_path(entry) for name in LISTS for entry in answer[name])
    assert (differing - listed.keys(), listed - Counter(listed.keys())) == (set(), Counter())
    conflicts = {entry_path(entry) for entry in answer["conflicts"]}
    assert differing & set(HELD) <= conflicts


def _inode_held(pid: int, root: Path, path: bytes) -> int | None:
    """The inode behind the writer's own descriptor; its link names the place where the file is now."""
    wanted = os.fsencode(root) + b"/" + path
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if os.fsencode(os.readlink(descriptor)) == wanted:
                return descriptor.stat().st_ino
    return None


def _logged(log: Path) -> tuple[dict[bytes, str], set[bytes]]:
    written: dict[bytes, str] = {}
    destroyed: set[bytes] = set()
    for line in log.read_bytes().splitlines():
        match line.split():
            case [b"w", number, *how]:
                written[number] = b" ".join(how).decode()
            case [b"d", *numbers]:
                destroyed.update(numbers)
    return written, destroyed


def _records_of_tree(root: Path) -> Iterator[bytes]:
    for what in tree_of(root).values():
        if what[0] == "file" and isinstance(what[3], bytes):
            yield from RECORD.findall(what[3])
