"""From facts to problems."""

from __future__ import annotations

import pytest

from openoxide.daemon.diagnosis import (
    SKEW_MS,
    TreeFacts,
    ahead_problems,
    aside_problems,
    clock_problems,
    config_problems,
    copy_problems,
    job_problems,
    limit_problems,
    problems_of_tree,
    quota_command,
    quota_problems,
    reserve_problems,
    retention_problems,
    spent_problems,
)
from openoxide.daemon.reserve import RESERVE_BYTES, ROOM_BYTES

SILENT = {"agent": "codex", "session": "s", "prompt": "p", "heard_at": "2026-11-29T12:00:00.000Z", "command": "end it"}
NOW = 1_800_000_000_000


def kinds(problems):
    return [(problem.kind, problem.severity, problem.fixed) for problem in problems]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"state": "capturing"}, []),
        ({"paused": True, "state": "paused", "gaps": ["paused"]}, [("paused", "note", False)]),
        ({"state": "paused", "reason": "the root is gone"}, [("root_gone", "error", False)]),
        ({"state": "degraded", "reason": "no space"}, [("degraded", "error", False)]),
        ({"state": "degraded", "reason": "watch_limit"}, []),  # told once for all trees
        ({"gaps": ["overflow"]}, [("gap", "warning", False)]),
        ({"interrupted": ["k" * 16]}, [("interrupted", "error", False)]),
        ({"idle_turns": [SILENT]}, [("turn_open", "warning", False)]),
        ({"holds_home": True}, [("home_in_project", "warning", False)]),
        ({"file_system": "nfs4"}, [("tree_not_local", "warning", False)]),
        ({"staging": "left"}, [("staging_left", "warning", False)]),
        ({"staging": "swept"}, [("staging_left", "warning", True)]),
        ({"staging": "busy"}, [("staging_busy", "warning", False)]),
    ],
)
def test_a_tree_has_the_problems_its_facts_say(facts, expected):
    found = problems_of_tree(TreeFacts(root="/p", **facts))

    assert kinds(found) == expected
    assert all(problem.hint and "/p" in problem.message for problem in found if problem.kind != "staging_busy")


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        ({"interrupted": ["k" * 16]}, "oxide-ctl -C '/my p' rewind --continue"),
        ({"paused": True}, "oxide-ctl unpause '/my p'"),
        ({"state": "paused", "reason": "the root is gone"}, "oxide-ctl unwatch '/my p'"),
    ],
)
def test_what_to_do_names_the_tree(facts, command):
    (found,) = problems_of_tree(TreeFacts(root="/my p", **facts))

    assert f"`{command}`" in found.hint


def test_a_tree_that_cannot_be_recorded_says_what_helps():
    (found,) = problems_of_tree(TreeFacts(root="/p", state="degraded", reason="no space", hint="free some"))

    assert found.hint == "free some"


def test_a_pause_says_when_it_ends():
    (found,) = problems_of_tree(TreeFacts(root="/p", paused=True, paused_until="2026-11-29T12:00:00.000Z"))

    assert "2026-11-29" in found.message


@pytest.mark.parametrize(
    ("watches", "limit", "reasons", "expected"),
    [
        (10, 8_192, [""], []),
        (10, 0, [], []),
        (7_000, 8_192, [], [("watch_limit", "warning", False)]),
        (8_192, 8_192, ["watch_limit", ""], [("watch_limit", "error", False)]),
        (1, 8_192, ["instance_limit"], [("instance_limit", "error", False)]),
    ],
)
def test_limits_are_compared_with_what_is_watched(watches, limit, reasons, expected):
    found = limit_problems(watches, limit, reasons)

    assert kinds(found) == expected
    assert all("sudo sysctl fs.inotify.max_user_" in problem.hint for problem in found)


@pytest.mark.parametrize(
    ("now", "newest", "expected"),
    [
        (NOW, 0, []),
        (NOW, NOW + SKEW_MS, []),
        (NOW, NOW + SKEW_MS + 1, [("clock", "warning", False)]),
        (0, 0, [("clock", "error", False)]),
    ],
)
def test_a_clock_that_cannot_be_right_is_told(now, newest, expected):
    assert kinds(clock_problems(now, newest)) == expected


GB = 10**9


def test_what_min_free_bytes_takes_is_told_before_it_goes():
    ahead = {"project": None, "roots": [], "checkpoints": 2, "largest": [], "text": "2 checkpoints leave"}
    coming = [{**ahead, "reason": "min_free"}, {**ahead, "reason": "quota"}]
    assert [(p.kind, p.message) for p in ahead_problems(coming)] == [("limit_ahead", "2 checkpoints leave")]


@pytest.mark.parametrize(
    ("stored", "quota", "expected"),
    [
        (0, 0, []),
        (9 * GB, 0, []),
        (89 * GB, 100 * GB, []),
        (90 * GB, 100 * GB, [("quota_near", "note", False)]),
        (100 * GB, 100 * GB, [("quota_near", "note", False)]),
        (100 * GB + 1, 100 * GB, [("quota_exceeded", "warning", False)]),
    ],
)
def test_a_quota_is_told_before_it_is_full(stored, quota, expected):
    found = quota_problems("/src/app", quota_command("retention.quota_bytes"), stored, quota, "what then")

    assert kinds(found) == expected
    assert [problem.message.endswith(": what then") for problem in found] == [stored > quota] * len(found)
    for problem in found:
        assert "/src/app" in problem.message
        assert "`oxide-ctl config set retention.quota_bytes SIZE` raises it" in problem.hint


@pytest.mark.parametrize(
    ("free", "least", "expected"),
    [
        (0, 0, []),
        (11 * GB, 10 * GB, []),
        (11 * GB - 1, 10 * GB, [("reserve_near", "note", False)]),
        (10 * GB, 10 * GB, [("reserve_near", "note", False)]),
        (10 * GB - 1, 10 * GB, [("reserve", "warning", False)]),
        (0, 1, [("reserve", "warning", False)]),
    ],
)
def test_a_disk_that_has_less_than_was_asked_to_stay_free_is_told(free, least, expected):
    assert kinds(reserve_problems(free, least)) == expected


@pytest.mark.parametrize(
    ("kept", "free", "expected"),
    [
        (RESERVE_BYTES, 0, []),
        (0, ROOM_BYTES, []),  # it comes with the next heartbeat
        (0, ROOM_BYTES - 1, [("reserve_spent", "warning", False)]),
        (0, 0, [("reserve_spent", "warning", False)]),
    ],
)
def test_a_disk_on_which_nothing_is_kept_for_a_rewind_is_told(kept, free, expected):
    assert kinds(spent_problems(kept, free)) == expected


def test_copies_of_the_store_are_told_with_what_deletes_them():
    assert copy_problems("/h", {}) == []
    (found,) = copy_problems("/my home", {"repair-2": 5 << 20, "repair-1": 1_000_000})
    assert (found.kind, found.severity) == ("copies_left", "note")
    assert "6 MiB: repair-1, repair-2" in found.message
    assert "`rm -r '/my home/repair-1' '/my home/repair-2'`" in found.hint
    assert "put repair-2/timeline.db in the place" in found.hint


@pytest.mark.parametrize(
    ("left", "foreign", "expected"),
    [
        ([], [], []),
        (["blobs/1"], [], [("packs_left", "note", False)]),
        ([], ["blobs/2"], [("packs_aside", "warning", False)]),
        (["blobs/1"], ["blobs/2"], [("packs_left", "note", False), ("packs_aside", "warning", False)]),
    ],
)
def test_packs_that_were_set_aside_are_told_by_whose_they_are(left, foreign, expected):
    assert kinds(aside_problems("/h", left, foreign)) == expected


@pytest.mark.parametrize(
    ("trouble", "waits", "strangers", "expected"),
    [
        ("", False, [], []),
        ("wrong", False, [], [("config", "error", False)]),
        ("wrong", True, [], [("config", "error", False)]),
        ("", True, ["/p"], [("config_waits", "note", False), ("config_stranger", "warning", False)]),
    ],
)
def test_settings_that_do_not_count_are_told(trouble, waits, strangers, expected):
    assert kinds(config_problems(trouble, waits=waits, strangers=strangers)) == expected


HELD = {"paused": False, "reason": "", "why": "", "hint": "", "refused": []}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"paused": True, "reason": "clock", "why": "it jumped"}, [("retention_paused", "warning", False)]),
        ({"paused": True, "reason": "config", "why": "wrong"}, []),
        ({"refused": ["a quota", "another"]}, 2 * [("limit_refused", "warning", False)]),
    ],
)
def test_a_retention_that_is_not_held_is_told(changes, expected):
    assert kinds(retention_problems({**HELD, **changes})) == expected


def test_a_job_that_fails_is_told():
    job = {"every_ms": 1, "running": False, "last_run_at": None, "next_run_at": None}
    well = {**job, "name": "expire", "failures": 0, "error": ""}
    ill = {**job, "name": "fold_wal", "failures": 3, "error": "the disk is full"}

    (found,) = job_problems([well, ill])

    assert (found.kind, found.severity) == ("job_failed", "warning")
    assert "fold_wal failed 3 times since it last did not: the disk is full" in found.message
