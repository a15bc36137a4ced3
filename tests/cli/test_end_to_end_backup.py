"""Backups of a real daemon at work, and the homes that are made of them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from openoxide.checkpoints.backing_up import back_up
from tests.checkpoints.stores import Store
from tests.cli.contract import TIME
from tests.kit import tree_of

FILES = 12


def files(folder):
    """What the files in ``folder`` hold, by name."""
    return {found.name: found.read_bytes() for found in folder.iterdir() if found.is_file() and not found.is_symlink()}


class Worker:
    """Changes the project and seals a named checkpoint after each change, over and over. ``sealed``: by the names of those
    that were acknowledged, what the project held.
    """

    def __init__(self, machine):
        self._machine = machine
        self._changed = threading.Condition()
        self._ending = False
        self.sealed = {}

    def _run(self):
        number = 0
        while not self._ending:
            number += 1
            for file in range(FILES):
                (self._machine.project / f"f{file}.txt").write_text(f"state {number} of {file}\n" * (number % 7 + 1))
            held = files(self._machine.project)
            self._machine.json("checkpoint", "-m", f"state-{number}")
            with self._changed:
                self.sealed[f"state-{number}"] = held
                self._changed.notify_all()

    def await_sealed(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sealed) >= count, 60)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ending = True
            thread.join()


@pytest.fixture(name="stopping")
def _stopping() -> Iterator[Callable]:
    """Machines whose daemons are stopped at the end."""
    machines = []

    def keep(machine):
        machines.append(machine)
        return machine

    yield keep
    for machine in machines:
        machine.run("stop")


def test_each_backup_of_a_daemon_at_work_becomes_a_home(machine, project, tmp_path, stopping):
    target, promised = tmp_path / "disk", []
    worker = Worker(machine)
    with worker.at_work():
        for number in range(3):
            worker.await_sealed(2 * number + 2)
            before = dict(worker.sealed)
            answer = machine.json("backup", str(target))
            assert answer["updated"] is (number > 0)
            shutil.copytree(target, tmp_path / f"copy {number}")
            promised.append(before)
        worker.await_sealed(len(worker.sealed) + 1)
    assert len(promised[0]) < len(promised[2])

    for number, before in enumerate(promised):
        home = tmp_path / f"home {number}"
        made = machine.json("restore-home", str(tmp_path / f"copy {number}"), "--home", str(home), "--yes")
        assert made["home"] == str(home)
        other = stopping(replace(machine, home=home))
        assert other.json("check", "--read-data")["problems"] == []
        named = {item["name"] for item in other.json("log", "--named")["items"]}
        assert before.keys() <= named <= worker.sealed.keys()  # what was acknowledged before is in it
        # all of the last one; of the others the newest that was promised
        for name in named if number == len(promised) - 1 else [list(before)[-1]]:
            given = tmp_path / f"given {number} {name}"
            other.json("restore", name, "--to", str(given))
            assert files(given) == worker.sealed[name]


def test_a_home_is_moved_to_another_place_and_goes_on(machine, project, tmp_path, stopping):
    machine.json("checkpoint", "-m", "before")
    machine.json("config", "set", "retention.ttl_days", "50d")
    planned = machine.json("backup", str(tmp_path / "disk"), "--dry-run")
    assert (planned["dry_run"], planned["copied_files"]) == (True, planned["files"])
    assert not (tmp_path / "disk").exists()
    machine.json("backup", str(tmp_path / "disk"))
    machine.json("stop")
    (project / "src" / "a.py").write_text("after the backup\n")

    answer = machine.json("restore-home", str(tmp_path / "disk"), "--home", str(tmp_path / "home"), "--yes")
    other = stopping(replace(machine, home=tmp_path / "home"))

    assert TIME.fullmatch(answer["made_at"])
    assert [(w["root"], w["state"], w["checkpoints"]) for w in answer["worktrees"]] == [(str(project), "as_it_was", 2)]
    assert other.json("config", "get", "retention.ttl_days")["value"] == 50
    assert other.json("diff", "before")["items"][0]["path"] == "src/a.py"
    other.json("rewind", "before", "--yes")
    assert (project / "src" / "a.py").read_text() == "one\n"
    assert other.json("check", "--read-data")["problems"] == []


def test_restore_home_asks_and_stays_out_of_a_home_that_is_there(machine, project, tmp_path):
    machine.json("backup", str(tmp_path / "disk"))
    before = tree_of(tmp_path)

    tried = machine.run("restore-home", str(tmp_path / "disk"), "--dry-run")
    refused = machine.failure("restore-home", str(tmp_path / "disk"), code=8)
    unasked = machine.failure("restore-home", str(tmp_path / "disk"), "--home", str(tmp_path / "home"), code=8)

    assert (tried.code, b"every file is what it was" in tried.out, b"moves it aside" in tried.err) == (0, True, True)
    assert "moves it aside" in refused["hint"]
    assert unasked["message"] == "this needs a yes, and there is no terminal to ask on"
    assert machine.failure("restore-home", str(tmp_path / "nothing"), code=5)["kind"] == "not_found"
    assert tree_of(tmp_path) == before
    assert machine.json("status")["ok"] is True


def test_a_place_in_a_watched_project_is_refused(machine, project):
    error = machine.failure("backup", str(project / "backup"), code=8)
    assert "which would record the backup" in error["message"]
    assert not (project / "backup").exists()


def test_a_damaged_backup_is_told_with_seven(machine, project, tmp_path):
    machine.json("backup", str(tmp_path / "disk"))
    (pack,) = (tmp_path / "disk" / "blobs").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    error = machine.failure(
        "restore-home", str(tmp_path / "disk"), "--home", str(tmp_path / "home"), "--dry-run", code=7
    )
    assert pack.name in error["message"]
    assert not (tmp_path / "home").exists()


def test_a_damaged_home_is_backed_up_with_three(machine, project, tmp_path):
    (pack,) = (machine.home / "blobs").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    ended = machine.run("backup", str(tmp_path / "disk"))
    assert ended.code == 3
    assert b"DAMAGED 1 content" in ended.out
    assert b"check --read-data" in ended.err


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 8)])
def test_on_a_terminal_it_asks_after_the_plan(terminal, openoxide_home, tmp_path, typed, code):
    store_folder = tmp_path / "old home"
    store_folder.mkdir()
    store = Store(store_folder)
    back_up(store.database, store.home, tmp_path / "disk", program="1.2", now_ms=0)
    store.close()

    screen = terminal("restore-home", str(tmp_path / "disk"))
    screen.expect("put it there? [y/N]")
    assert "old home" in screen.seen
    assert "by version 1.2" in screen.seen
    assert not openoxide_home.exists()
    screen.type(f"{typed}\n")

    assert screen.ended() == code
    assert (openoxide_home / "timeline.db").exists() is (typed == "y")
