"""``forget`` and ``unforget``: into trash and back, and what cannot go there."""

from __future__ import annotations

import pytest

from openoxide.clock import rfc3339
from openoxide.errors import NotFoundError, UsageError
from openoxide.settings import RetentionSettings, Settings
from tests.kit import FakeClock
from tests.kit.box import NO_QUIET, Box

DAY_MS = 86_400_000


@pytest.fixture
def box(box):
    """With the checkpoints 1 to 5; the third is named."""
    for number in range(2, 6):
        (box.root / "a").write_text(f"{number}\n")
        box.checkpoint("third" if number == 3 else None)
    return box


def numbers(items):
    return [item["number"] for item in items]


def listed(box, **options):
    return numbers(box.call("log", **options)["items"])


def forget(box, *names, **options):
    return box.call("forget", checkpoints=[*map(str, names)], **options)


def test_what_is_forgotten_is_in_trash_and_frees_nothing(box, clock):
    before = sum(path.stat().st_size for path in box.home.blobs.rglob("*.pack"))

    answer = forget(box, 2, "third", 2)

    assert (numbers(answer["forgotten"]), answer["kept"], answer["freed_bytes"]) == ([2, 3], [], 0)
    assert listed(box) == [5, 4, 1]
    everything = box.call("log", all=True)["items"]
    assert numbers(everything) == [5, 4, 3, 2, 1]
    assert [item["number"] for item in everything if item["forgotten_at"]] == [3, 2]
    assert sum(path.stat().st_size for path in box.home.blobs.rglob("*.pack")) == before
    with pytest.raises(NotFoundError):
        box.call("show", checkpoint="2")
    with pytest.raises(NotFoundError):
        forget(box, 2)


def test_a_dry_run_tells_the_same_and_changes_nothing(box):
    plan = forget(box, 2, 5, dry_run=True)

    assert listed(box) == [5, 4, 3, 2, 1]
    answer = forget(box, 2, 5)
    # only what was done has a time
    (planned,), (done,) = plan["forgotten"], answer["forgotten"]
    assert (planned["forgotten_at"], done["forgotten_at"]) == (None, rfc3339(box.clock.now_ms()))
    assert {**answer, "dry_run": True, "forgotten": [{**done, "forgotten_at": None}]} == plan


def test_a_name_that_names_nothing_stops_the_whole(box):
    with pytest.raises(NotFoundError):
        forget(box, 2, 99)
    assert listed(box) == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("names", [None, [], "2", [""], [2]])
def test_names_are_a_list_of_texts(box, names):
    with pytest.raises(UsageError, match="checkpoints"):
        box.call("forget", checkpoints=names)


def test_pins_and_the_newest_stay(box):
    pinned = box.call("pin", checkpoint="2")

    answer = forget(box, 2, 4, 5)

    assert numbers(answer["forgotten"]) == [4]
    assert answer["kept"][0] == {"id": pinned["id"], "number": 2, "name": None, "reason": "pinned"}
    assert (answer["kept"][1]["number"], answer["kept"][1]["reason"]) == (5, "newest")


def test_what_undo_and_redo_need_stays_and_they_work(box):
    before = box.rewind("1")["pre_rewind_checkpoint"]["number"]
    box.checkpoint()
    assert forget(box, 1, before)["kept"][0]["reason"] == "needed_by_undo"

    box.call("undo")
    assert (box.root / "a").read_text() == "5\n"
    undone = box.call("operations")["items"][0]["pre_rewind_checkpoint"]
    box.checkpoint()
    assert forget(box, undone)["kept"][0]["reason"] == "needed_by_undo"
    box.call("redo")
    assert (box.root / "a").read_text() == "one\n"


def test_only_the_last_ten_operations_hold_their_states(box):
    befores = []
    for turn in range(12):
        (box.root / "a").write_text(f"turn {turn}\n")
        befores.append(box.rewind("1")["pre_rewind_checkpoint"]["number"])
    box.checkpoint()

    answer = forget(box, *befores)

    assert numbers(answer["forgotten"]) == befores[:2]
    assert numbers(answer["kept"]) == befores[2:]


def test_the_starts_of_the_last_turns_stay(box):
    starts = []
    for turn in range(4):
        window = {"agent": "codex", "session": "s", "prompt": f"p{turn}"}
        starts.append(box.call("turn_begin", **window)["checkpoint"]["number"])
        box.call("turn_end", **window)
    box.checkpoint()

    answer = forget(box, *starts)

    assert numbers(answer["forgotten"]) == starts[:1]
    assert {item["reason"] for item in answer["kept"]} == {"recent_turn"}


def test_what_was_forgotten_comes_back_as_it_was(box):
    before = box.call("show", checkpoint="3")
    forget(box, 2, 3)

    answer = box.call("unforget", checkpoints=["third", "2"])

    assert numbers(answer["items"]) == [3, 2]
    assert "note" not in answer
    assert box.call("show", checkpoint="third") == before
    assert box.call("cat", checkpoint="2", file=str(box.root / "a")) == b"2\n"


def test_what_comes_back_late_does_not_expire_at_once(box, clock):
    forget(box, 2)
    clock.advance(90 * DAY_MS)
    fresh = box.checkpoint()

    (item,) = box.call("unforget", checkpoints=["2"])["items"]

    assert item["expires_at"] == fresh["expires_at"]


def test_what_never_expires_still_does_not_when_it_comes_back(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        box.settings = Settings(capture=NO_QUIET, retention=RetentionSettings(ttl_days=0))
        box.stop()
        box.start()
        box.watch()
        box.checkpoint()
        box.settings = Settings(capture=NO_QUIET)
        box.stop()
        box.start()
        forget(box, 1)
        assert box.call("unforget", checkpoints=["1"])["items"][0]["expires_at"] is None


def test_a_name_that_was_given_away_stays_where_it_is(box):
    forget(box, "third")
    box.call("name", checkpoint="4", name="third")

    answer = box.call("unforget", checkpoints=["3"])

    assert answer["items"][0]["name"] is None
    assert "'third' is checkpoint 4 now" in answer["note"]
    assert box.call("show", checkpoint="third")["number"] == 4


@pytest.mark.parametrize("name", ["4", "99", "third"])
def test_what_is_not_in_trash_cannot_come_back(box, name):
    with pytest.raises(NotFoundError, match="in trash") as raised:
        box.call("unforget", checkpoints=[name])
    assert "log --all" in raised.value.hint


def test_a_number_is_never_given_again(box):
    forget(box, 2, 3, 4)

    assert box.checkpoint()["number"] == 6
