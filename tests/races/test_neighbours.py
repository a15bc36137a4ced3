"""Others at work in the same tree: a user who saves, a second session, a database, a formatter, a daemon that restarts.

What each of them wrote is either left in place and told, or taken back as what the contract says it is: likely.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import ConflictError
from tests.kit import diff_trees, tree_of
from tests.kit.box import Box
from tests.races.interleaving import after, meanwhile
from tests.races.looking import STAGING, reachable, states_at, wait_until_swept
from tests.races.programs import Program, rounds

LISTS = ("restored", "removed", "merged", "kept", "conflicts", "skipped", "changed_since")
MARK = re.compile(rb"<([0-9]{8})>")
OLD = {"a.ts": "a at first\n", "b.ts": "b at first\n", "c.ts": "c at first\n", "user.ts": "user at first\n"}


class Agent:
    """One session that declares its turns and tool calls."""

    def __init__(self, box: Box, session: str) -> None:
        self._box = box
        self._session = session
        self.before: str = self._declare("turn_begin", prompt=f"prompt of {session}")["checkpoint"]["id"]

    def _declare(self, name: str, **request: Any) -> Any:
        return self._box.call(name, agent="claude", session=self._session, **request)

    def tool_begin(self) -> None:
        self._declare("tool_begin", tool="edit")

    def tool_end(self, *sure: str) -> None:
        """``sure``: the files that the call names with their bytes."""
        writes = [{"path": name, "hash": blob_hash((self._box.root / name).read_bytes()).hex()} for name in sure]
        self._declare("tool_end", tool="edit", writes=writes)

    def edit(self, name: str, text: str) -> None:
        """A tool call that writes one file and says so."""
        self.tool_begin()
        (self._box.root / name).write_text(text)
        self.tool_end(name)

    def end(self) -> None:
        self._declare("turn_end")


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        for name, text in OLD.items():
            (box.root / name).write_text(text)
        box.watch()
        yield box


def listed(answer: Any) -> dict[str, list[tuple[str, str]]]:
    """Each list of an answer that is not empty, as (path, reason)."""
    found = {name: [(e["path"], e.get("reason", "")) for e in answer[name]] for name in LISTS}
    return {name: entries for name, entries in found.items() if entries}


def read(box: Box, *names: str) -> dict[str, str]:
    return {name: (box.root / name).read_text() for name in names or OLD}


# a user who saves


@pytest.mark.parametrize("inside", [False, True], ids=["between tool calls", "inside a tool call"])
@pytest.mark.parametrize("scope", ["turn", "session"])
def test_a_save_of_the_user_inside_a_turn_is_taken_back_as_likely_and_comes_back_with_undo(box, scope, inside):
    agent = Agent(box, "A")
    agent.edit("a.ts", "a by A\n")
    if inside:
        agent.tool_begin()
    (box.root / "user.ts").write_text("by the user\n")
    if inside:
        agent.tool_end()
    agent.edit("b.ts", "b by A\n")
    agent.end()
    then = tree_of(box.root)

    shown = box.rewind(agent.before, scope=scope, dry_run=True)
    answer = box.rewind(agent.before, scope=scope)

    assert listed(shown) == listed(answer) == {"restored": [("a.ts", ""), ("b.ts", ""), ("user.ts", "likely")]}
    assert read(box) == OLD
    box.call("undo")
    assert diff_trees(then, tree_of(box.root, skip={os.fsencode(STAGING)})) == []


def test_a_save_of_the_user_over_the_agents_file_after_the_turn_is_a_conflict(box):
    agent = Agent(box, "A")
    agent.edit("a.ts", "a by A\n")
    agent.edit("b.ts", "b by A\n")
    agent.end()
    (box.root / "a.ts").write_text("by the user\n")

    answer = box.rewind(agent.before, scope="session")

    assert listed(answer) == {"restored": [("b.ts", "")], "conflicts": [("a.ts", "changed_later")]}
    assert read(box, "a.ts", "b.ts") == {"a.ts": "by the user\n", "b.ts": OLD["b.ts"]}


def test_a_save_of_the_user_between_two_turns_stays(box):
    first = Agent(box, "A")
    first.edit("a.ts", "a by A\n")
    first.end()
    (box.root / "user.ts").write_text("by the user\n")
    (box.root / "new.ts").write_text("new by the user\n")
    second = Agent(box, "A")
    second.edit("b.ts", "b by A\n")
    second.end()

    answer = box.rewind(first.before, scope="session")

    assert listed(answer) == {"restored": [("a.ts", ""), ("b.ts", "")]}
    assert read(box) == OLD | {"user.ts": "by the user\n"}
    assert (box.root / "new.ts").read_text() == "new by the user\n"


# two sessions


@pytest.mark.parametrize("whose", ["A", "B"])
@pytest.mark.parametrize("scope", ["turn", "session"])
def test_what_two_silent_turns_may_both_have_written_is_a_conflict_and_stays(box, scope, whose):
    agents = {"A": Agent(box, "A"), "B": Agent(box, "B")}
    (box.root / "a.ts").write_text("a by A\n")
    (box.root / "b.ts").write_text("b by B\n")
    (box.root / "new.ts").write_text("by one of them\n")
    for agent in agents.values():
        agent.end()
    then = tree_of(box.root)

    answer = box.rewind(agents[whose].before, scope=scope)

    assert listed(answer) == {"conflicts": [(name, "shared_writer") for name in ("a.ts", "b.ts", "new.ts")]}
    assert diff_trees(then, tree_of(box.root, skip={os.fsencode(STAGING)})) == []


@pytest.mark.parametrize("sure", [False, True], ids=["likely", "sure"])
@pytest.mark.parametrize("whose", ["A", "B"])
def test_tool_calls_that_do_not_overlap_keep_two_sessions_apart(box, whose, sure):
    """A edits a.ts, B edits b.ts, A and then B append to c.ts: A's part of c.ts lies below B's, B's comes off."""
    agents = {}
    for session, name in (("A", "a.ts"), ("B", "b.ts")):
        agents[session] = Agent(box, session)
        _call(box, agents[session], name, f"{name} by {session}\n", sure=sure)
    left_in_c = {}
    for session, agent in agents.items():
        left_in_c[session] = read(box, "c.ts")["c.ts"] + f"c by {session}\n"
        _call(box, agent, "c.ts", left_in_c[session], sure=sure)
    before = read(box)

    answer = listed(box.rewind(agents[whose].before, scope="session"))

    reason = "" if sure else "likely"
    if whose == "A":
        assert answer == {"restored": [("a.ts", reason)], "conflicts": [("c.ts", "changed_later")]}
        assert read(box) == before | {"a.ts": OLD["a.ts"]}
    else:
        assert answer == {"restored": [("b.ts", reason), ("c.ts", reason)]}
        assert read(box) == before | {"b.ts": OLD["b.ts"], "c.ts": left_in_c["A"]}


def _call(box: Box, agent: Agent, name: str, text: str, *, sure: bool) -> None:
    agent.tool_begin()
    (box.root / name).write_text(text)
    agent.tool_end(*([name] if sure else []))


def test_tool_calls_that_overlap_share_what_is_written_meanwhile(box):
    agents = [Agent(box, "A"), Agent(box, "B")]
    for agent in agents:
        agent.tool_begin()
    (box.root / "a.ts").write_text("by one of them\n")
    for agent in agents:
        agent.tool_end()

    for agent in agents:
        answer = box.rewind(agent.before, scope="session")
        assert listed(answer) == {"conflicts": [("a.ts", "shared_writer")]}
    assert read(box) == OLD | {"a.ts": "by one of them\n"}


# processes that have files open


def test_a_conflict_names_the_process_that_holds_the_file(box):
    base = box.checkpoint()["id"]
    with Program("neighbour", "file", box.root / "a.ts") as logger:
        logger.ask("write by the logger")
        answer = box.rewind(base, scope="all")
        assert listed(answer) == {"conflicts": [("a.ts", f"held_open by pid {logger.pid}")]}
        logger.ask("write and more")
    assert read(box, "a.ts") == {"a.ts": OLD["a.ts"] + "by the logger\nand more\n"}


def test_an_exact_rewind_is_refused_as_a_whole_while_a_process_writes_to_one_of_its_files(box):
    base = box.checkpoint()["id"]
    with Program("neighbour", "file", box.root / "a.ts") as logger:
        logger.ask("write by the logger")
        (box.root / "newer").touch()
        with pytest.raises(ConflictError) as refused:
            box.rewind(base, exact=True)
        assert f"held_open by pid {logger.pid}" in str(refused.value.details)
        assert (box.root / "newer").exists()


@pytest.fixture(name="database")
def _database(box: Box) -> Iterator[Program]:
    with Program("neighbour", "database", box.root / "dev.db") as database:
        assert database.ask("add old") == "added"
        yield database


def test_a_database_that_a_process_has_open_is_a_conflict_that_names_it(box, database):
    base = box.checkpoint()["id"]
    for word in ("new", "newer"):
        assert database.ask(f"add {word}") == "added"
        (box.root / "a.ts").write_text(word)
        answer = box.rewind(base, scope="all")

        conflicts = dict(listed(answer)["conflicts"])
        assert conflicts.keys() <= {"dev.db", "dev.db-wal", "dev.db-shm"}
        assert f"held_open by pid {database.pid}" in conflicts.values()
        assert set(conflicts.values()) <= {f"held_open by pid {database.pid}", "database"}
        assert listed(answer)["restored"] == [("a.ts", "")]
    assert database.ask("words") == "ok: old new newer"


def test_an_exact_rewind_is_refused_while_a_process_has_a_database_open(box, database):
    base = box.checkpoint()["id"]
    database.ask("add new")
    (box.root / "a.ts").write_text("edited")
    with pytest.raises(ConflictError) as refused:
        box.rewind(base, exact=True)
    assert any(f"pid {database.pid}" in conflict["reason"] for conflict in refused.value.details["conflicts"])
    assert (read(box, "a.ts"), database.ask("words")) == ({"a.ts": "edited"}, "ok: old new")


@pytest.mark.parametrize("open_then", [True, False], ids=["checkpoint of the open one", "checkpoint of the closed one"])
@pytest.mark.parametrize("exact", [False, True], ids=["all", "exact"])
def test_a_database_rewinds_as_a_unit_once_it_is_closed(box, database, exact, open_then):
    if not open_then:
        database.ask("close")
    base = box.checkpoint()["id"]
    if not open_then:
        database.ask("open")
    database.ask("add new")
    later = box.checkpoint()["id"]
    database.ask("close")

    box.rewind(base, scope="all", exact=exact)
    assert (database.ask("open"), database.ask("words"), database.ask("close")) == ("open", "ok: old", "closed")
    box.rewind(later, scope="all", exact=exact)
    assert (database.ask("open"), database.ask("words"), database.ask("close")) == ("open", "ok: old new", "closed")


@rounds(few=20, full=300)
def test_a_formatter_that_answers_every_change_ends_with_the_rewind_and_loses_nothing(box, tmp_path, rounds):
    """It rewrites what is placed while the rewind is going on: told as conflict or changed_since, never tried again."""
    (box.root / "src").mkdir()
    names = [f"src/f{number}" for number in range(12)]
    for name in names:
        (box.root / name).write_text("at first\n")
    base, log, told, overwritten = box.checkpoint()["id"], tmp_path / "log", 0, set[bytes]()
    log.touch()
    with Program("language_server", box.root / "src", log) as formatter:
        for number in range(rounds):
            assert formatter.ask("all done?") == "idle"
            for name in names:
                overwritten.update(MARK.findall((box.root / name).read_bytes()))
                (box.root / name).write_text(f"edit {number}\n")
            answer = box.rewind(base, scope="all")
            told += len(answer["conflicts"]) + len(answer["changed_since"])
    assert wait_until_swept(box)
    box.checkpoint()
    written, destroyed = _formatted(log)
    found = {mark for data in reachable(box) for mark in MARK.findall(data)}
    print(f"\n{rounds} rewinds, {len(written)} answers of the formatter, {told} paths told")
    assert written - destroyed - overwritten - found == set()
    assert told > rounds, "no race"


def _formatted(log: Path) -> tuple[set[bytes], set[bytes]]:
    lines = [line.split() for line in log.read_bytes().splitlines()]
    return {line[1] for line in lines}, {mark for line in lines for mark in line[2:]}


def test_a_save_between_the_last_look_and_the_record_is_told_and_stays_with_undo(box):
    """The operation must not take for its own what a user wrote before the checkpoint after it was sealed."""
    base = box.checkpoint()["id"]
    (box.root / "a.ts").write_text("by the agent\n")
    with meanwhile(lambda: _save(box.root / "a.ts"), after("verify")):
        answer = box.rewind(base, scope="all")
    sealed_after = box.call("log", limit=1)["items"][0]["seq"]
    assert states_at(box, sealed_after)[b"a.ts"].blob == blob_hash(b"by the user\n")

    undone = box.call("undo")

    assert (read(box, "a.ts"), "restored" in listed(undone)) == ({"a.ts": "by the user\n"}, False)
    assert [path for path, _ in listed(answer)["changed_since"]] == ["a.ts"]


def _save(path: Path) -> None:
    path.with_suffix(".aside").write_text("by the user\n")
    path.with_suffix(".aside").rename(path)


# a daemon that restarts


def test_an_agent_whose_daemon_restarts_in_the_middle_of_its_turn_is_rewound(box):
    agent = Agent(box, "A")
    agent.edit("a.ts", "a by A\n")
    box.stop()
    box.start()
    agent.edit("b.ts", "b by A\n")
    agent.end()

    answer = box.rewind(agent.before, scope="turn")

    assert listed(answer) == {"restored": [("a.ts", ""), ("b.ts", "")]}
    assert read(box) == OLD


def test_what_was_written_while_no_daemon_ran_is_nobodys_and_stays(box):
    agent = Agent(box, "A")
    agent.edit("a.ts", "a by A\n")
    agent.edit("c.ts", "c by A\n")
    box.stop()
    (box.root / "b.ts").write_text("b by somebody\n")
    (box.root / "c.ts").write_text("c by somebody\n")
    box.start()
    agent.end()

    answer = box.rewind(agent.before, scope="session")

    assert listed(answer) == {"restored": [("a.ts", "")], "conflicts": [("c.ts", "changed_later")]}
    assert read(box) == OLD | {"b.ts": "b by somebody\n", "c.ts": "c by somebody\n"}


def test_a_tool_call_that_names_its_bytes_owns_them_although_the_daemon_restarted_meanwhile(box):
    agent = Agent(box, "A")
    agent.tool_begin()
    (box.root / "a.ts").write_text("a by A\n")
    box.stop()
    box.start()
    agent.tool_end("a.ts")
    agent.end()

    answer = box.rewind(agent.before, scope="session")

    assert listed(answer) == {"restored": [("a.ts", "")]}
    assert read(box) == OLD


def test_a_tool_call_that_names_its_bytes_owns_them_although_a_checkpoint_was_sealed_meanwhile(box):
    agents = [Agent(box, "A"), Agent(box, "B")]
    for agent in agents:
        agent.tool_begin()
    (box.root / "a.ts").write_text("a by A\n")
    box.checkpoint()
    agents[0].tool_end("a.ts")

    answer = box.rewind(agents[0].before, scope="session")

    assert listed(answer) == {"restored": [("a.ts", "")]}


def test_a_tool_call_that_names_its_bytes_owns_nothing_that_was_there_before_it_or_came_after(box):
    """The user had written the same bytes, and writes others over them before the call ends."""
    agent = Agent(box, "A")
    (box.root / "b.ts").write_text("the same\n")
    named = blob_hash(b"the same\n").hex()
    agent.tool_begin()
    (box.root / "a.ts").write_text("the same\n")
    sealed = box.checkpoint()["id"]
    (box.root / "a.ts").write_text("by the user\n")
    box.call(
        "tool_end",
        agent="claude",
        session="A",
        tool="edit",
        writes=[{"path": name, "hash": named} for name in ("a.ts", "b.ts", "c.ts")],
    )

    def said(first: str) -> dict[str, str]:
        return {item["path"]: item["certainty"] for item in box.call("diff", a="1", b=first)["items"]}

    assert said(sealed) == {"a.ts": "sure", "b.ts": "likely"}
    assert said("last") == {"a.ts": "likely", "b.ts": "likely"}
