"""While a worktree is paused no row of it is added, whoever asks; afterwards the record is whole again."""

from __future__ import annotations

import threading

import pytest

from openoxide.daemon.routes import LOOKING
from openoxide.errors import RefusedError, UsageError
from openoxide.settings import CaptureSettings
from tests.kit import wait_until
from tests.kit.box import Box

HOUR_MS = 3_600_000
TURN = {"agent": "codex", "session": "s", "prompt": "p"}


def worktree(box):
    (found,) = box.call("status")["worktrees"]
    return found


def causes(box):
    return [gap["cause"] for gap in worktree(box)["gaps"]]


def seq(box):
    return box.service.timeline.head(1).seq


def test_a_pause_is_a_gap_that_status_shows(box):
    answer = box.call("pause", for_ms=HOUR_MS)

    assert answer["paused_at"] is not None
    state = worktree(box)
    assert (state["state"], state["reason"], state["complete"]) == ("paused", "asked for", False)
    assert (state["paused_at"], state["paused_until"]) == (answer["paused_at"], answer["paused_until"])
    assert causes(box) == ["paused"]


def test_what_changed_before_is_sealed_first(box):
    (box.root / "a").write_text("two")

    sealed = box.call("pause")["checkpoint"]

    assert (sealed["number"], sealed["changed"]["modified"]) == (2, 1)
    assert box.call("cat", checkpoint="last", file="a") == b"two"


def out_of_reach(box):
    """The daemon starts while the tree is away, so that nothing attaches it."""
    box.stop()
    aside = box.root.rename(box.root.with_name("aside"))
    box.start()
    tried = threading.Event()
    box.service.background.submit("after the others", tried.set)
    assert tried.wait(30)
    aside.rename(box.root)
    assert not box.service.all_watched()[0].attached


@pytest.mark.parametrize("before", [lambda _: None, out_of_reach], ids=["attached", "not attached"])
def test_what_is_sealed_for_a_pause_was_asked_for(box, before):
    before(box)
    (box.root / "a").write_text("two")

    sealed = box.call("pause")["checkpoint"]

    assert (sealed["number"], sealed["trigger"], sealed["changed"]["modified"]) == (2, "manual", 1)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("checkpoint", {}),
        ("rewind", {"checkpoint": "1"}),
        ("rewind", {"checkpoint": "1", "dry_run": True}),
        ("undo", {}),
        ("settle", {"action": "abort"}),
        ("turn_begin", TURN),
        ("tool_begin", {**TURN, "tool": "t"}),
        ("diff", {"a": "1"}),
        ("watch", {}),
    ],
)
def test_what_would_record_is_refused_and_says_how_to_go_on(box, name, request_):
    box.call("pause")
    (box.root / "b").write_text("not to be recorded")
    before = seq(box)

    with pytest.raises(RefusedError) as caught:
        box.call(name, **request_)

    assert "unpause" in caught.value.hint
    assert (seq(box), box.call("log")["items"][0]["number"]) == (before, 1)


READING = [
    ("log", {}),
    ("show", {"checkpoint": "1"}),
    ("diff", {"a": "1", "b": "last"}),
    ("cat", {"checkpoint": "1", "file": "a"}),
    ("restore", {"checkpoint": "1", "to": "there"}),
    ("operations", {}),
    ("history", {"file": "a"}),
    ("history", {"deleted": True}),
    ("history", {"search": "o"}),
]


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        *READING,
        ("status", {}),
        ("projects", {}),
        ("du", {}),
        ("check", {"read_data": True}),
        ("doctor", {}),
        ("survey", {}),
        ("unwatch", {"dry_run": True}),
    ],
)
def test_the_past_can_be_looked_at(box, tmp_path, name, request_):
    box.call("pause")
    (box.root / "b").write_text("not to be recorded")
    before = seq(box)
    request_ = {key: str(tmp_path / value) if key == "to" else value for key, value in request_.items()}

    answer = box.call(name, **request_)

    assert answer == b"one\n" if name == "cat" else answer["ok"]
    assert seq(box) == before


def test_every_operation_that_only_looks_is_among_those():
    assert {name for name, _ in READING} == set(LOOKING)


@pytest.mark.parametrize("what", [{"file": "a"}, {"deleted": True}, {"search": "o"}])
def test_a_history_says_that_it_ends_where_the_pause_began(box, what):
    assert "note" not in box.call("history", **what)
    began = box.call("pause")["paused_at"]

    assert began in box.call("history", **what)["note"]


def test_a_recording_that_was_under_way_finds_the_door_shut(box):
    (watched,) = box.service.all_watched()
    box.call("pause")

    for record in (watched.record, lambda: watched.full_pass(None)):
        with pytest.raises(RefusedError):
            record()


def test_nothing_is_recorded_by_itself(tmp_path):
    with Box(tmp_path, capture=CaptureSettings(quiet_ms=1, max_interval_ms=1)) as box:
        box.watch()
        box.call("pause")
        (box.root / "b").write_text("x")
        box.service.beat()
        box.service.background.submit("last", box.service.stop_requested.set)

        assert box.service.stop_requested.wait(10)
        assert box.service.timeline.head(1).seq == 0


def test_unpausing_finds_what_changed_and_closes_the_gap(box):
    box.call("pause")
    (box.root / "b").write_text("x")

    answer = box.call("unpause")

    assert (answer["paused_at"], answer["checkpoint"]["changed"]["added"]) == (None, 1)
    assert (causes(box), worktree(box)["complete"]) == ([], True)
    (writer,) = box.call("show", checkpoint="last")["writers"]
    assert writer["certainty"] == "unknown"
    (box.root / "c").write_text("x")
    assert box.checkpoint()["changed"]["added"] == 1


def test_unpausing_what_is_not_paused_changes_nothing(box):
    assert box.call("unpause")["checkpoint"]["number"] == 1


def test_pausing_again_moves_the_end_and_keeps_the_beginning(box, clock):
    first = box.call("pause", for_ms=HOUR_MS)
    clock.advance(1_000)

    again = box.call("pause")

    assert (again["paused_at"], again["paused_until"]) == (first["paused_at"], None)
    assert causes(box) == ["paused"]


@pytest.mark.parametrize("passed_ms", [HOUR_MS - 1, HOUR_MS])
def test_a_pause_outlives_the_daemon_but_not_its_end(box, clock, passed_ms):
    box.call("pause", for_ms=HOUR_MS)
    box.stop()
    (box.root / "b").write_text("x")
    clock.advance(passed_ms)

    box.start()

    if passed_ms < HOUR_MS:
        assert worktree(box)["state"] == "paused"
    else:
        wait_until(lambda: worktree(box)["state"] == "watching", 10)
        assert box.call("log")["items"][0]["changed"]["added"] == 1


def test_the_first_request_after_its_end_finds_it_over(box, clock):
    box.call("pause", for_ms=HOUR_MS)
    (box.root / "b").write_text("x")
    clock.advance(HOUR_MS)

    assert box.checkpoint()["complete"] is True


def test_it_ends_by_itself(tmp_path):
    with Box(tmp_path) as box:
        box.watch()
        (watched,) = box.service.all_watched()
        box.call("pause", for_ms=1)

        wait_until(lambda: watched.attached and not watched.paused, 10)


def test_a_clock_that_was_set_back_prolongs_it(box, clock):
    box.call("pause", for_ms=HOUR_MS)
    clock.wall -= HOUR_MS

    box.service.end_due_pauses()

    assert worktree(box)["state"] == "paused"


def test_watching_anew_is_not_paused(box):
    box.call("pause")
    box.call("unwatch")

    box.watch()

    assert worktree(box)["state"] == "watching"


@pytest.mark.parametrize("for_ms", [0, -1, 366 * 24 * HOUR_MS, "1h"])
def test_a_length_that_is_none_is_refused(box, for_ms):
    with pytest.raises(UsageError):
        box.call("pause", for_ms=for_ms)

    assert worktree(box)["state"] == "watching"
