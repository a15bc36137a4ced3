"""While a tree is changed faster than anybody can look: each question is answered, nothing grows, nothing is lost.

A storm goes on until it is told to stop, so that an answer which comes before that has come in the middle of it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openoxide.checkpoints.model import UNKNOWN_WRITER, Observed, Trigger, Writer
from openoxide.checkpoints.timeline import CHUNK_PATHS
from openoxide.daemon.watched import Label, Watched
from tests.daemon.workloads import commits, run, tree
from tests.kit import Description
from tests.kit.box import Box
from tests.kit.recorded import complete, recorded_tree, wait_for_full_pass
from tests.races.programs import Program, rounds
from tests.races.storm import STORMS

ANSWERS_WITHIN_S = 60
OVERFLOW = "overflow (reported by the kernel)"


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        yield box


class Storm:
    """A project in which one kind of storm can rage: what may ever stand at a path is known before."""

    def __init__(self, kind: str, root: Path, archive: Path, files: int) -> None:
        self._arguments = kind, root, archive
        self.contents: dict[bytes, list[bytes]] = {}
        self.paths = {b"app.db", b"app.db-journal", b"hot"}
        if kind == "checkout":
            commits(root, files)
            self._learn(root)
            run("git", "checkout", "-q", "one", cwd=root)
        elif kind in ("untar", "remove"):
            tree(root, files // 4)
            self._learn(root)
            run("tar", "-cf", archive, "-C", root, *os.listdir(root))
            run("rm", "-rf", *(root / name for name in os.listdir(root)))
        self._learn(root)

    def _learn(self, root: Path) -> None:
        for folder, folders, files in os.walk(bytes(root)):
            below = os.path.relpath(folder, bytes(root))
            folders[:] = [name for name in folders if name != b".git"]
            self.paths |= {os.path.normpath(os.path.join(below, name)) for name in folders + files}
            for name in files:
                path = os.path.normpath(os.path.join(below, name))
                self.contents.setdefault(path, []).append(Path(os.fsdecode(os.path.join(folder, name))).read_bytes())

    def begin(self) -> Program:
        return Program("storm", *self._arguments)

    def was_never(self, path: bytes, content: object) -> bool:
        """A file that is being written holds the first part of what it will hold."""
        assert isinstance(content, bytes)
        known = self.contents.get(path)
        return known is not None and not any(one.startswith(content) for one in known)


@pytest.fixture(name="storm")
def _storm(box: Box, tmp_path: Path, request: pytest.FixtureRequest) -> Storm:
    return Storm(request.param, box.root, tmp_path / "archive.tar", 480)


EACH = pytest.mark.parametrize("storm", STORMS, indirect=True)


@EACH
@rounds(few=4, full=200)
def test_a_checkpoint_in_the_middle_says_that_it_is_complete_or_why_not(box, storm, caplog, rounds):
    box.watch()
    with storm.begin() as raging, ThreadPoolExecutor(1) as pool:
        assert raging.hear() == "."
        sealing = pool.submit(lambda: [box.checkpoint() for _ in range(rounds)])
        looked = [(box.call("status"), box.call("log", limit=3))]
        while not sealing.done():
            looked.append((box.call("status"), box.call("log", limit=3)))
        assert raging.process.poll() is None, "all of that was answered while it went on"
    for sealed in sealing.result():
        assert sealed["complete"] or (sealed["gap"] == "overflow" and OVERFLOW in caplog.text), sealed
        found = recorded_tree(box, sealed["seq"])
        assert [p for p, what in found.items() if what[0] == "file" and storm.was_never(p, what[3])] == []
    _verify_the_end(box, caplog)


def _verify_the_end(box: Box, caplog: pytest.LogCaptureFixture) -> None:
    sealed = box.checkpoint()
    assert sealed["complete"] or (sealed["gap"] == "overflow" and OVERFLOW in caplog.text), sealed
    wait_for_full_pass(box)
    complete(box)
    assert box.call("status")["worktrees"][0]["gaps"] == []


@EACH
@rounds(few=3, full=50)
def test_what_waits_to_be_looked_at_grows_with_the_tree_and_not_with_the_storm(box, storm, caplog, rounds):
    box.watch()
    waiting = []
    with storm.begin() as raging:
        for _ in range(rounds):
            assert raging.hear() == "."
            waiting.append(box.call("status")["worktrees"][0]["pending"])
    assert max(waiting) <= len(storm.paths | {b""})
    _verify_the_end(box, caplog)


@pytest.mark.parametrize("journal", ["delete", "wal"])
@rounds(few=10, full=1_000)
def test_each_checkpoint_of_a_database_that_is_written_all_the_time_is_one_that_opens(box, tmp_path, journal, rounds):
    with closing(sqlite3.connect(box.root / "app.db")) as db:
        db.execute(f"pragma journal_mode = {journal}")
        db.execute("create table t(number)")
    box.watch()
    with Program("storm", "database", box.root, "none") as raging:
        assert raging.hear() == "."
        seals = [box.checkpoint() for _ in range(rounds)]
    for sealed in seals:
        assert sealed["complete"]
        states = box.service.timeline.states(box.service.find(bytes(box.root)).worktree.id, sealed["seq"])
        if not any(state.torn for state in states.values()):  # it says so itself
            _open_as_it_was(recorded_tree(box, sealed["seq"]), tmp_path / sealed["id"])
    complete(box)


def _open_as_it_was(recorded: dict[bytes, Description], folder: Path) -> None:
    folder.mkdir()
    for path, what in recorded.items():
        assert isinstance(what[3], bytes)
        (folder / os.fsdecode(path)).write_bytes(what[3])
    with closing(sqlite3.connect(folder / "app.db")) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        numbers = [number for (number,) in db.execute("select number from t")]
    assert numbers == sorted(set(numbers)), "rows came one after the other"


def _in_a_pass(watched: Watched, ask: Any) -> None:
    watched.full_pass(Label(trigger=Trigger.MANUAL), progress=lambda *_: ask())


def _in_a_seal(watched: Watched, ask: Any) -> None:

    def writer_of(seen: Observed) -> Writer:
        if seen.path == b"f1":
            ask()
        return UNKNOWN_WRITER

    watched.seal(Label(trigger=Trigger.MANUAL), writer_of)


@pytest.mark.parametrize("work", [_in_a_pass, _in_a_seal])
def test_whoever_only_looks_does_not_wait_for_whoever_records(box, work):
    (box.root / "file").write_text("one")
    box.watch()
    (watched,) = box.service.all_watched()
    for number in range(CHUNK_PATHS + 10):
        (box.root / f"f{number}").write_text("new")
    answered: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def ask() -> None:
            names = ("status", "log", "projects", "operations")
            answered.append([pool.submit(box.call, name).result(ANSWERS_WITHIN_S)["ok"] for name in names])

        work(watched, ask)
    assert answered[0] == [True] * 4
    complete(box)
