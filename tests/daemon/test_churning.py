"""A file that changes all the time does not fill the store by itself, and is in everything that somebody asks for."""

from __future__ import annotations

import pytest

from openoxide.checkpoints.churn import APART_MS, LEFT_ALONE_MS, VERSIONS
from openoxide.checkpoints.model import Trigger
from openoxide.daemon.service import RECORD_PATHS
from openoxide.daemon.watched import Label
from openoxide.settings import CaptureSettings
from tests.kit import FakeClock, wait_until
from tests.kit.box import Box

SECONDS = 60
LONG_AGO_MS = 1_700_000_000_000
QUIETLY = Label(trigger=Trigger.QUIET, only_if_changed=True)


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path, clock=FakeClock(now_ms=LONG_AGO_MS)) as box:
        (box.root / "hot").write_text("0")
        (box.root / "cold").write_text("0")
        box.watch()
        yield box


def by_itself(box):
    """What the quiet sealer does, without its waits. The clock of the file system is that of the box."""
    (watched,) = box.service.all_watched()
    return watched.seal(QUIETLY)


def heat(box) -> None:
    """Changes of one file until it is to wait; the fake clock runs behind the times of files, which are never old to it."""
    for number in range(VERSIONS + 2):
        (box.root / "hot").write_text(f"version {number}")
        box.clock.advance(1_000)
        by_itself(box)


def hot_at(box, checkpoint: str) -> bytes:
    return bytes(box.call("cat", checkpoint=checkpoint, file="hot"))


def skips(box) -> dict[str, str]:
    return {item["path"]: item["reason"] for item in box.call("show", checkpoint="last")["skipped_paths"]}


def versions(box) -> int:
    items = box.call("history", file="hot")["items"]
    return sum(item["state"]["kind"] == "file" for item in items if item["state"])


def test_beyond_its_budget_a_file_is_left_out_of_what_happens_by_itself_and_said_to_be(box):
    heat(box)

    assert skips(box) == {"hot": "churning"}
    # the first, those of the budget, and what stands there now, which a history records
    assert versions(box) == 1 + VERSIONS + 1
    (box.root / "cold").write_text("1")
    by_itself(box)
    assert box.call("cat", checkpoint="last", file="cold") == b"1"


@pytest.mark.parametrize(
    "ask",
    [
        lambda box: box.checkpoint(),
        lambda box: box.call("turn_begin", agent="codex", session="s", prompt="p"),
        lambda box: box.rewind("last", scope="all"),
    ],
    ids=["checkpoint", "prompt", "rewind"],
)
def test_what_is_asked_for_holds_it(box, ask):
    heat(box)
    ask(box)

    (before,) = [c for c in box.call("log", include_all=True)["items"] if c["trigger"] != "quiet"][:1]
    assert hot_at(box, before["id"]) == (box.root / "hot").read_bytes()


def test_a_rewind_leaves_a_file_alone_that_its_checkpoint_does_not_hold(box):
    heat(box)
    held = box.call("log")["items"][0]["id"]
    (box.root / "hot").write_text("the last")

    answer = box.rewind(held, scope="all")

    assert [(item["path"], item["reason"]) for item in answer["skipped"]] == [(b"hot", "churning")] or [
        (item["path"], item["reason"]) for item in answer["skipped"]
    ] == [("hot", "churning")]
    assert (box.root / "hot").read_text() == "the last"


@pytest.mark.parametrize("wait_ms", [LEFT_ALONE_MS, APART_MS])
def test_its_last_state_is_taken_once_it_was_left_alone(box, wait_ms):
    heat(box)
    last = (box.root / "hot").read_bytes()
    # to the box the file is of the moment that the file system says
    box.clock.wall = (box.root / "hot").stat().st_mtime_ns // 1_000_000 + wait_ms
    (watched,) = box.service.all_watched()
    assert watched.held == {b"hot"}

    by_itself(box)

    assert hot_at(box, "last") == last
    assert (skips(box), watched.held) == ({}, frozenset())


def test_a_file_that_waits_is_looked_at_again_although_nothing_tells_of_it(tmp_path):
    with Box(tmp_path, clock=FakeClock(), capture=CaptureSettings(quiet_ms=1, max_interval_ms=1)) as box:
        (box.root / "hot").write_text("0")
        box.watch()
        (watched,) = box.service.all_watched()
        watched.held = frozenset({b"hot"})
        box.service.beat()
        wait_until(lambda: not watched.held, SECONDS)


def test_a_storm_is_recorded_while_it_goes_on(box):
    """Without a checkpoint, and before anybody asks: what is left for whoever asks is no more than came last."""
    (watched,) = box.service.all_watched()
    before = box.service.timeline.head(watched.worktree.id).seq
    for number in range(3 * RECORD_PATHS):
        (box.root / f"f{number}").touch()

    wait_until(lambda: watched.watch.pending <= RECORD_PATHS, SECONDS)
    wait_until(lambda: box.service.timeline.head(watched.worktree.id).seq > before, SECONDS)
    assert len(box.call("log", include_all=True)["items"]) == 1
    assert box.checkpoint()["changed"]["added"] == 3 * RECORD_PATHS
