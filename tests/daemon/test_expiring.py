"""``expire``: by hand and by the clock, with real checkpoints, operations and clocks that jump."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from openoxide.checkpoints import expiry, meta
from openoxide.checkpoints.expiry import carry_out, fine_given_up
from openoxide.checkpoints.model import Trigger
from openoxide.checkpoints.policy import Cause, Plan
from openoxide.daemon.operations.expiring import expire_by_time
from openoxide.daemon.watched import Label
from openoxide.errors import ConflictError, NotFoundError, RefusedError
from openoxide.knobs import size
from openoxide.settings import RetentionSettings
from openoxide.taken import CAUTIOUS, Taken
from tests.daemon.aged import record, write

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


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


def expire(box, **options):
    return box.call("expire", **options)


def retain(box, **values):
    box.service.settings = replace(box.settings, retention=RetentionSettings(**values))


def edit(box, text):
    (box.root / "a").write_text(text)
    return box.checkpoint()


def is_sound(box):
    return [problem for problem in box.call("check")["problems"] if problem["kind"] != "mode"] == []


def quiet(box, text):
    (box.root / "a").write_text(text)
    (watched,) = box.service.all_watched()
    return watched.seal(Label(trigger=Trigger.QUIET)).number


def reasons(answer, what="kept"):
    return {item["number"]: item["reason"] for item in answer[what]}


def test_what_is_promised_stays_and_then_goes_to_trash(box, clock):
    box.call("pin", checkpoint="2")
    clock.advance(30 * DAY_MS - 1)
    assert expire(box)["forgotten"] == []
    clock.advance(1)

    plan = expire(box, dry_run=True)
    assert listed(box) == [5, 4, 3, 2, 1]
    answer = expire(box)

    assert {**answer, "dry_run": True} == plan
    assert numbers(answer["forgotten"]) == [1, 3, 4]
    assert {item["root"] for item in answer["forgotten"]} == {str(box.root)}
    assert reasons(answer) == {2: "pinned", 5: "newest"}
    assert listed(box) == [5, 2]
    assert listed(box, all=True) == [5, 4, 3, 2, 1]


def test_trash_leaves_the_store_after_its_grace(box, clock):
    clock.advance(30 * DAY_MS)
    expire(box)
    clock.advance(7 * DAY_MS - 1)
    assert expire(box)["released"] == []
    assert box.call("unforget", checkpoints=["4"])
    clock.advance(1)

    answer = expire(box)

    assert reasons(answer, "released") == {1: "trash_days", 2: "trash_days", 3: "trash_days"}
    assert listed(box, all=True) == [5, 4]
    with pytest.raises(NotFoundError):
        box.call("unforget", checkpoints=["1"])
    assert is_sound(box)
    assert edit(box, "6\n")["number"] == 6


def test_a_longer_or_shorter_ttl_is_for_later_ones(box, clock):
    retain(box, ttl_days=1)
    clock.advance(29 * DAY_MS)
    assert expire(box)["forgotten"] == []
    retain(box, ttl_days=400)
    clock.advance(DAY_MS)
    assert numbers(expire(box)["forgotten"]) == [1, 2, 3, 4]


def test_automatic_ones_are_thinned_and_lists_say_when(box, clock):
    clock.wall = clock.wall // DAY_MS * DAY_MS
    box.service.clock_mark.accept()
    sealed = [quiet(box, f"quiet {number}\n") for number in range(3)]
    edit(box, "last\n")
    log = {item["number"]: item for item in box.call("log")["items"]}
    assert [log[number]["thins_at"] is None for number in sealed] == [True, False, False]
    assert log[sealed[1]]["thins_at"] < log[sealed[1]]["expires_at"]
    assert box.call("show", checkpoint=str(sealed[1]))["thins_at"] == log[sealed[1]]["thins_at"]
    assert box.call("status")["worktrees"][0]["next_expiry"] == log[sealed[1]]["thins_at"]

    clock.advance(DAY_MS - 1)
    assert expire(box)["forgotten"] == []
    clock.advance(1)
    assert reasons(expire(box), "forgotten") == dict.fromkeys(sealed[1:], "thinned")


@pytest.mark.parametrize("back", ["unforget", "unpin"])
def test_what_somebody_took_back_is_not_thinned_by_the_next_run(box, clock, back):
    _, second = (quiet(box, f"quiet {number}\n") for number in range(2))
    edit(box, "last\n")
    if back == "unpin":
        box.call("pin", checkpoint=str(second))
        box.call("unpin", checkpoint=str(second))
        clock.advance(2 * DAY_MS)
    else:
        clock.advance(2 * DAY_MS)
        assert reasons(expire(box), "forgotten") == {second: "thinned"}
        box.call("unforget", checkpoints=[str(second)])

    clock.advance(DAY_MS)
    assert expire(box)["forgotten"] == []
    assert next(i for i in box.call("log")["items"] if i["number"] == second)["thins_at"] is None
    clock.advance(30 * DAY_MS)
    assert reasons(expire(box), "forgotten")[second] == "expired"


class TestOperations:
    def test_what_the_last_ten_need_is_kept_and_they_can_be_undone(self, box, clock):
        box.rewind("1")
        edit(box, "after\n")
        for _ in range(4):
            clock.advance(40 * DAY_MS)
            answer = expire(box)
        assert set(reasons(answer).values()) == {"needed_by_undo", "newest"}
        assert box.call("undo")["ok"]
        assert is_sound(box)

    def test_an_older_one_says_that_it_has_expired(self, box, clock):
        for number in range(12):
            box.rewind("5" if number % 2 else "1")
        for _ in range(3):
            clock.advance(40 * DAY_MS)
            expire(box)
        assert is_sound(box)
        assert len(box.call("operations")["items"]) == 12
        assert len({box.call("undo")["reverses"] for _ in range(10)}) == 10
        before = (box.root / "a").read_text()
        with pytest.raises(NotFoundError, match="cannot be reversed any more") as raised:
            box.call("undo")
        assert "rewind" in raised.value.hint
        assert (box.root / "a").read_text() == before

    def test_a_row_that_is_given_again_is_nobody_elses(self, box, clock):
        """SQLite gives the number of the last row again when that has gone; an operation must not name the new one."""
        other = box.root.parent / "other"
        other.mkdir()
        box.rewind("3")
        edit(box, "after\n")
        box.call("watch", path=str(other))
        for _ in range(3):
            clock.advance(40 * DAY_MS)
            expire(box)
            edit(box, f"{clock.now_ms()}\n")
        item = box.call("operations")["items"][0]
        assert item["checkpoint"] is None
        assert item["pre_rewind_checkpoint"] is not None
        assert is_sound(box)

    def test_a_rewind_holds_what_it_has_named(self, box, clock):
        """Nothing of its worktree leaves the store while it is at work; with no grace at all that is at once."""
        retain(box, trash_days=0)
        (watched,) = box.service.all_watched()
        clock.advance(40 * DAY_MS)
        expire(box)
        answers = []
        with watched.lock:
            other = threading.Thread(target=lambda: answers.append(expire(box)))
            other.start()
            other.join()
        assert answers[0]["released"] == []
        assert "in use" in answers[0]["notes"][0]
        assert numbers(expire(box)["released"]) == [1, 2, 3, 4]


class TestAClockThatJumps:
    @pytest.mark.parametrize("jump", [40 * DAY_MS, 3_650 * DAY_MS, -365 * DAY_MS])
    def test_nothing_expires_until_somebody_says_so(self, box, clock, jump):
        clock.advance(29 * DAY_MS)
        box.service.beat()
        clock.wall += jump
        with pytest.raises(RefusedError, match="nothing expires: the clock was set") as raised:
            expire(box)
        assert "--force" in raised.value.hint
        assert expire(box, dry_run=True)["retention"]["reason"] == "clock"
        assert expire(box, dry_run=True)["forgotten"] == []
        box.stop()
        box.start()
        clock.advance(DAY_MS)
        expire_by_time(box.service)
        assert listed(box) == [5, 4, 3, 2, 1]
        paused = box.call("status")["retention"]
        assert (paused["paused"], paused["reason"]) == (True, "clock")

        shown = expire(box, dry_run=True, force=True)
        gone = expire(box, force=True)

        assert numbers(shown["forgotten"]) == numbers(gone["forgotten"]) == ([1, 2, 3, 4] if jump > 0 else [])
        assert not box.call("status")["retention"]["paused"]

    def test_a_machine_that_was_off_for_longer_than_everything_lives_gets_its_hour(self, box, clock):
        box.stop()
        clock.advance(45 * DAY_MS)
        clock.boot, clock.up = "boot-2", 30_000
        box.start()
        expire_by_time(box.service)
        assert listed(box) == [5, 4, 3, 2, 1]
        clock.advance(HOUR_MS)
        expire_by_time(box.service)
        assert listed(box) == [5]

    def test_what_a_wrong_clock_sealed_at_boot_lives_as_long_as_any(self, box, clock):
        box.stop()
        clock.boot, clock.up = "boot-2", 30_000
        clock.wall -= 400 * DAY_MS
        box.start()
        wrong = edit(box, "sealed in the past\n")["number"]
        clock.wall += 400 * DAY_MS
        box.service.beat()
        edit(box, "sealed now\n")
        clock.advance(HOUR_MS)
        box.service.beat()
        clock.advance(29 * DAY_MS)
        assert wrong not in numbers(expire(box)["forgotten"])
        clock.advance(2 * DAY_MS)
        assert wrong in numbers(expire(box)["forgotten"])

    def test_so_does_what_it_sealed_after_a_history_was_deleted(self, box, clock, tmp_path):
        other = tmp_path / "other"
        other.mkdir()
        box.call("watch", path=str(other))
        box.service.clock_mark.look()
        clock.wall -= 400 * DAY_MS
        box.service.clock_mark.look()
        # the newest rows of all
        box.call("unwatch", path=str(other), delete_history=True)
        sealed = edit(box, "sealed by a wrong clock\n")["number"]
        clock.advance(HOUR_MS)
        edit(box, "and replaced\n")
        clock.wall += 400 * DAY_MS
        box.service.clock_mark.look()

        assert sealed not in numbers(expire(box)["forgotten"])


def test_what_a_limit_took_of_a_history_is_not_taken_of_the_next(box):
    (watched,) = box.service.all_watched()
    with box.service.timeline.database.writing() as db:
        expiry.give_up_fine(db, watched.worktree.id, 7)
    box.call("unwatch", delete_history=True)

    with box.service.timeline.database.reading() as db:
        assert fine_given_up(db) == {}


def test_settings_that_cannot_be_read_let_nothing_expire(box, clock):
    box.service.taken = Taken(settings=CAUTIOUS, problem="config.toml is not valid TOML")
    clock.advance(40 * DAY_MS)
    for force in (False, True):
        with pytest.raises(RefusedError, match=r"config\.toml"):
            expire(box, force=force)
    expire_by_time(box.service)
    assert listed(box) == [5, 4, 3, 2, 1]
    assert box.call("status")["retention"]["reason"] == "config"


class TestAQuota:
    @pytest.fixture
    def box(self, box):
        """Five more with 100,000 bytes each that no other has, and cannot be compressed."""
        for number in range(5):
            (box.root / "big").write_bytes(_noise(number))
            box.checkpoint()
        (box.root / "big").unlink()
        box.checkpoint()
        return box

    def test_the_oldest_go_out_of_the_store_until_it_is_held(self, box, clock):
        clock.advance(2 * DAY_MS)
        retain(box, quota_bytes=350_000)
        answer = expire(box)
        assert reasons(answer, "released") == dict.fromkeys(range(1, 8), "quota")
        assert listed(box, all=True) == [11, 10, 9, 8]
        assert is_sound(box)

    def test_within_a_day_the_fine_window_goes_too(self, box, clock):
        clock.advance(HOUR_MS)
        retain(box, total_quota_bytes=350_000)
        last = numbers(expire(box)["released"])[-1]
        with box.service.timeline.database.reading() as db:
            (given_up,) = fine_given_up(db).values()
        assert last == 7
        assert given_up > 0

    def test_what_goes_past_trash_is_told_before_it_goes(self, box, clock):
        clock.advance(2 * DAY_MS)
        box.call("forget", checkpoints=["1"])
        assert box.call("status")["retention"]["ahead"] == []
        retain(box, quota_bytes=350_000)

        (ahead,) = box.call("status")["retention"]["ahead"]
        told = next(p for p in box.call("doctor")["problems"] if p["kind"] == "quota_exceeded")

        assert (ahead["reason"], ahead["checkpoints"], ahead["roots"]) == ("quota", 6, [str(box.root)])
        assert ahead["largest"] == box.call("du")["worktrees"][0]["largest"][:3]
        assert "6 checkpoints of" in ahead["text"]
        assert f"most is taken by big ({size(ahead['largest'][0]['stored_bytes'])} in " in ahead["text"]
        assert ahead["text"] in told["message"]
        assert numbers(expire(box)["released"]) == [1, 2, 3, 4, 5, 6, 7]  # with the one in trash
        assert box.call("status")["retention"]["ahead"] == []

    def test_a_limit_that_takes_nothing_threatens_with_nothing(self, box, clock):
        clock.advance(2 * DAY_MS)
        retain(box, quota_bytes=1)
        told = next(p for p in box.call("doctor")["problems"] if p["kind"] == "quota_exceeded")
        assert "nothing is forgotten for that" in told["message"]
        assert box.call("status")["retention"]["ahead"] == []
        with pytest.raises(RefusedError):
            expire(box)

    def test_one_that_nothing_fits_into_is_refused(self, box, clock):
        retain(box, quota_bytes=1)
        clock.advance(2 * DAY_MS)
        with pytest.raises(RefusedError, match=r"quota_bytes of .* is 1 B, and the newest checkpoints alone take 2 B"):
            expire(box)
        # at once, not when the job has run
        (told,) = box.call("status")["retention"]["refused"]
        assert "config set --project retention.quota_bytes 1MiB" in told
        assert told in expire(box, dry_run=True)["notes"][0]
        expire_by_time(box.service)
        assert len(listed(box)) == 11
        assert "quota_bytes" in box.call("status")["retention"]["refused"][0]

    def test_what_is_kept_for_the_last_day_alone_goes_too_and_then_it_is_held(self, box):
        """No checkpoint of the last day has to go for that; expire, prune and du go by one sum."""
        for number in range(10, 14):
            write(box, "big", _noise(number))
            record(box)
        (box.root / "big").unlink()
        box.checkpoint()
        retain(box, quota_bytes=600_000)
        assert [p["kind"] for p in box.call("doctor")["problems"] if "quota" in p["kind"]] == ["quota_exceeded"]

        answer = expire(box)
        box.call("prune")

        assert answer["released"] == []
        assert ["`oxide-ctl prune` frees" in note for note in answer["notes"]] == [True]
        (project,) = box.call("du")["projects"]
        assert 500_000 < project["used_bytes"] == project["stored_bytes"] < 520_000
        assert [p["kind"] for p in box.call("doctor")["problems"] if "quota" in p["kind"]] == []
        assert is_sound(box)

    def test_room_is_made_by_hand_out_of_the_trash_and_the_last_day(self, box):
        """Whatever else: a limit that cannot be held does not stand in the way."""
        write(box, "big", _noise(10))
        record(box)
        (box.root / "big").unlink()
        box.checkpoint()
        box.call("forget", checkpoints=[str(number) for number in (6, 7, 8)])
        retain(box, quota_bytes=1)
        before, plan = box.call("du"), expire(box, dry_run=True, trash=True)
        assert box.call("du") == before

        answer = expire(box, trash=True)
        box.call("prune")

        assert {**answer, "dry_run": True} == plan
        assert reasons(answer, "released") == dict.fromkeys((6, 7, 8), "emptied")
        assert answer["forgotten"] == []
        assert "prune" in answer["notes"][-1]
        assert listed(box, all=True) == [12, 11, 10, 9, 5, 4, 3, 2, 1]
        # 9 and 10 hold one content of 100,000 bytes each, and nothing else is left of the six
        assert 200_000 < box.call("du")["projects"][0]["used_bytes"] < 220_000
        assert box.call("du")["projects"][0]["stored_bytes"] < 220_000
        assert is_sound(box)

    def test_one_that_pins_exceed_is_said_everywhere(self, box, clock):
        for number in (6, 7, 8):
            box.call("pin", checkpoint=str(number))
        clock.advance(2 * DAY_MS)
        retain(box, quota_bytes=150_000)

        answer = expire(box)

        assert set(numbers(answer["released"])) == {1, 2, 3, 4, 5, 9, 10}
        note, _ = answer["notes"]
        assert "is 146.5 KiB, and with pins" in note
        assert "takes 293.0 KiB: `oxide-ctl -C" in note
        (told,) = box.call("status")["retention"]["refused"]
        assert told in note
        found = {p["kind"]: p["message"] for p in box.call("doctor")["problems"]}
        assert "takes 293.0 KiB of its quota of 146.5 KiB" in found["quota_exceeded"]
        assert told in found["limit_refused"]

    def test_more_free_space_than_the_disk_has_takes_nothing(self, box, clock):
        clock.advance(2 * DAY_MS)
        retain(box, min_free_bytes=expiry.disk_of(box.home.folder).size_bytes * 2)
        expire_by_time(box.service)
        assert len(listed(box)) == 11


def _noise(number):
    import random  # noqa: PLC0415

    return random.Random(number).randbytes(100_000)


class TestWhatChangesMeanwhile:
    """Between the decision and the deed."""

    @pytest.mark.parametrize(
        ("what", "request_"),
        [
            ("pin", {"checkpoint": "2"}),
            ("name", {"checkpoint": "2", "name": "mine"}),
            ("rewind", {"checkpoint": "2"}),
            ("forget", {"checkpoints": ["2"]}),
        ],
    )
    def test_what_somebody_touched_is_looked_at_again(self, box, clock, what, request_):
        clock.advance(40 * DAY_MS)
        ids = {item["number"]: item["id"] for item in box.call("log")["items"]}
        decided = Plan(release={ids[1]: Cause.TRASH, ids[2]: Cause.TRASH})
        seen = []

        def hold(worktree):
            seen.append(box.call(what, **request_))
            return box.service.holding(worktree)

        done = carry_out(box.service.timeline.database, decided, clock.now_ms(), hold)
        # a rewind names its target for as long as that is there: what ended may lose it
        assert set(done.released) == ({ids[1], ids[2]} if what == "rewind" else {ids[1]})
        assert is_sound(box)

    def test_the_newest_never_goes_whatever_was_decided(self, box, clock):
        (newest,) = [item["id"] for item in box.call("log", limit=1)["items"]]
        done = carry_out(
            box.service.timeline.database,
            Plan(forget={newest: Cause.EXPIRED}, release={newest: Cause.QUOTA}),
            clock.now_ms(),
            box.service.holding,
        )
        assert (done.forgotten, done.released) == ({}, {})

    def test_it_ends_soon_when_the_daemon_does(self, box, clock):
        clock.advance(40 * DAY_MS)
        box.service.stop_requested.set()
        expire_by_time(box.service)
        assert listed(box) == [5, 4, 3, 2, 1]

    def test_two_at_a_time_are_one_too_many(self, box):
        with box.service.expiring, pytest.raises(ConflictError):
            expire(box, dry_run=True)


def test_failed_ones_go_when_their_time_is_over_and_no_number_is_given_twice(box, clock):
    with box.service.timeline.database.writing() as db:
        db.execute_sql("update checkpoint set failed = 'disk full' where number in (2, 5)")
    clock.advance(40 * DAY_MS)
    expire(box)
    assert listed(box, all=True) == [5, 4, 3, 1]
    assert edit(box, "6\n")["number"] == 6
    expire(box)
    assert 5 not in listed(box, all=True)


def test_the_job_tells_when_it_was_done(box):
    states = {state["name"]: state for state in box.call("status")["jobs"]}
    assert states["expire"]["every_ms"] == HOUR_MS
    assert states["expire"]["next_run_at"] is not None
    with box.service.timeline.database.reading() as db:
        assert meta.read(db, "job.") == {}
