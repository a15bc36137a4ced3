"""A turn or tool call whose end nobody could record has ended all the same: what the user does afterwards is no session's."""

from __future__ import annotations

import shutil

import pytest

from openoxide.checkpoints.hashing import blob_hash
from openoxide.errors import AmbiguousError, NotFoundError, RefusedError
from tests.daemon.trouble import paths
from tests.kit import FakeClock, diff_trees, tree_of, wait_until
from tests.kit.box import Box

TURN = {"agent": "codex", "session": "s", "prompt": "p"}
TOOL = {**TURN, "tool": "edit"}


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        (box.root / "both").write_text("user 1")
        box.watch()
        box.call("turn_begin", **TURN)
        (box.root / "agents").write_text("made in the turn")
        box.checkpoint()
        yield box


def paused(box):
    box.call("pause")
    yield
    box.call("unpause")


def paused_for_a_while(box):
    box.call("pause", for_ms=1_000)
    yield
    box.clock.advance(1_000)
    box.call("checkpoint")


def unwatched(box):
    box.call("unwatch")
    yield
    box.watch()


def vanished(box):
    away = box.root.rename(box.root.with_name("away"))
    yield
    away.rename(box.root)
    wait_until(lambda: box.checkpoint()["complete"], 30)


def moved(box):
    box.root.rename(box.root.with_name("new"))
    old, box.root = box.root, box.root.with_name("new")
    box.call("projects_move", old=str(old), new=str(box.root))
    yield


def copied(box):
    old, box.root = box.root, box.root.with_name("copy")
    shutil.copytree(old, box.root)
    box.call("projects_move", old=str(old), new=str(box.root), yes=True)
    yield


def restarted(box):
    box.stop()
    box.start()
    yield


WAYS = [paused, paused_for_a_while, unwatched, vanished, moved, copied, restarted]
CAUSES = {"unwatched": "not_watched", "vanished": "root_lost", "copied": "moved", "restarted": "not_watched"}


def certainty_of(box, name):
    return {item["path"]: item["certainty"] for item in box.call("diff", a="1")["items"]}[name]


@pytest.mark.parametrize("ends", [(), ("turn_end",), ("tool_end", "turn_end"), ("turn_end", "turn_end")])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_user_does_afterwards_survives_a_rewind_of_the_session(box, way, ends):
    if "tool_end" in ends:
        box.call("tool_begin", **TOOL)
    lost = way(box)
    next(lost)
    for end in ends:
        box.call(end, **TOOL)
    next(lost, None)
    (box.root / "mine").write_text("precious")
    (box.root / "both").write_text("user 2")
    box.checkpoint()

    assert certainty_of(box, "mine") == certainty_of(box, "both") == "unknown"
    answer = box.rewind("turn:p", scope="session")

    assert paths(answer["removed"]) == [b"agents"]
    assert ((box.root / "mine").read_text(), (box.root / "both").read_text()) == ("precious", "user 2")


@pytest.mark.parametrize("end", ["turn_end", "tool_end"])
@pytest.mark.parametrize("way", WAYS)
def test_its_end_is_answered_and_says_when_it_was(box, way, end):
    box.call("tool_begin", **TOOL)
    at = box.call("show", checkpoint="last")["created_at"]
    lost = way(box)
    next(lost)

    answers = [box.call(end, **TOOL) for _ in range(2)]
    next(lost, None)
    answers.append(box.call(end, **TOOL))

    name = way.__name__.removesuffix("_for_a_while")
    for answer in answers:
        assert (answer["turn"], answer["tool"]) == ("p", None if end == "turn_end" else "edit")
        (note,) = answer["notes"]
        assert at in note
        assert f"({CAUSES.get(name, name)})" in note


def test_what_ended_while_it_was_recorded_has_no_note_and_is_not_ended_twice(box):
    assert box.call("tool_begin", **TOOL)["notes"] == box.call("tool_end", **TOOL)["notes"] == []
    assert box.call("turn_end", **TURN)["notes"] == []
    box.call("pause")
    for end, error in (("turn_end", RefusedError), ("tool_end", RefusedError)):
        with pytest.raises(error):
            box.call(end, **TOOL)
    box.call("unpause")
    with pytest.raises(NotFoundError):
        box.call("turn_end", **TURN)


@pytest.mark.parametrize(
    ("way", "error"), [(paused, RefusedError), (unwatched, NotFoundError), (restarted, NotFoundError)]
)
@pytest.mark.parametrize("request_", [{**TOOL, "session": "other"}, {**TOOL, "prompt": "q", "tool": "other"}])
def test_what_never_began_is_refused_as_ever(box, way, error, request_):
    next(way(box))
    for end in ("turn_end", "tool_end"):
        with pytest.raises(error):
            box.call(end, **request_)


def test_an_end_in_a_pause_records_nothing(box):
    box.call("pause")
    before, newest = box.service.timeline.head(1), box.call("log")["items"][0]["id"]
    (box.root / "mine").write_text("not to be recorded")

    assert box.call("turn_end", **TURN)["checkpoint"]["id"] == newest
    assert box.service.timeline.head(1) == before


@pytest.mark.parametrize("way", WAYS)
def test_what_changed_in_the_gap_is_nobodys(box, way):
    lost = way(box)
    next(lost)
    if box.root.exists():
        (box.root / "meanwhile").write_text("in the gap")
    next(lost, None)
    (box.root / "meanwhile").write_text("or after it")
    box.checkpoint()

    assert certainty_of(box, "meanwhile") == "unknown"


def test_a_turn_that_was_away_unasked_has_ended_too(box):
    """Nobody asked for anything while the root was elsewhere: the watcher tells of it afterwards."""
    away = box.root.rename(box.root.with_name("away"))
    (away / "mine").write_text("precious")
    away.rename(box.root)

    (note,) = box.call("turn_end", **TURN)["notes"]

    assert "root_lost" in note
    box.rewind("turn:p", scope="session")
    assert (box.root / "mine").read_text() == "precious"


def test_an_agent_that_goes_on_declares_its_tool_calls_within_the_turn(box):
    box.stop()
    box.start()
    (box.root / "mine").write_text("precious")
    box.call("tool_begin", **TOOL)
    (box.root / "more").write_text("made in the call")
    box.call("turn_end", **TURN)
    (box.root / "later").write_text("precious too")

    answer = box.call("rewind", turn="p")

    assert sorted(paths(answer["removed"])) == [b"agents", b"more"]
    assert (box.root / "mine").exists()
    assert (box.root / "later").exists()


def test_calls_of_one_name_end_one_after_the_other(box):
    for _ in range(2):
        box.call("tool_begin", **TOOL)
    assert [box.call("tool_end", **TOOL)["tool"] for _ in range(2)] == ["edit", "edit"]
    with pytest.raises(NotFoundError):
        box.call("tool_end", **TOOL)


def test_a_turn_that_was_lost_long_ago_takes_no_tool_calls_after_the_next_has_ended(box):
    box.call("pause")
    box.call("unpause")
    for boundary in ("turn_begin", "turn_end"):
        box.call(boundary, **{**TURN, "prompt": "q"})
    with pytest.raises(NotFoundError):
        box.call("tool_begin", **TOOL)


def test_a_call_that_ends_first_after_the_root_came_back_wrote_only_what_it_names(box):
    box.call("tool_begin", **TOOL)
    away = box.root.rename(box.root.with_name("away"))
    away.rename(box.root)
    box.service.find(bytes(box.root)).watch.barrier()  # attached again: what follows is told
    for name in ("named", "mine"):
        (box.root / name).write_text(name)
    writes = [{"path": "named", "hash": blob_hash(b"named").hex()}]

    box.call("tool_end", **TOOL, writes=writes)

    assert (certainty_of(box, "named"), certainty_of(box, "mine")) == ("sure", "unknown")


def test_the_end_of_a_lost_turn_leaves_the_next_one_open(box):
    box.call("pause")
    box.call("unpause")
    box.call("turn_begin", **{**TURN, "prompt": "q"})
    box.call("turn_end", **TURN)
    (box.root / "next").write_text("made in the next turn")
    box.checkpoint()

    assert certainty_of(box, "next") == "likely"
    assert box.call("turn_end", agent="codex", session="s")["notes"] == []


@pytest.mark.parametrize("other", ["s", "t"])
@pytest.mark.parametrize("request_", [{"turn": "p"}, {"checkpoint": "turn:p"}])
def test_a_prompt_of_two_turns_names_neither(box, request_, other):
    box.call("turn_end", **TURN)
    second = box.call("turn_begin", **{**TURN, "session": other})["checkpoint"]["number"]
    (box.root / "second").write_text("made in the second")
    box.call("turn_end", **{**TURN, "session": other})
    before = tree_of(box.root)

    with pytest.raises(AmbiguousError) as caught:
        box.call("rewind", **request_)

    assert [candidate["number"] for candidate in caught.value.details["candidates"]] == [second, 2]
    assert not diff_trees(before, tree_of(box.root))
    assert paths(box.rewind(second, scope="turn")["removed"]) == [b"second"]
