"""What happens on a terminal: plans, questions, the choice of actions, progress, Ctrl-C."""

from __future__ import annotations

import subprocess
import threading

import pytest

from openoxide.errors import VersionMismatchError
from tests.cli.answers import NOTED, PROMOTED, checkpoint, planned, rewound, status
from tests.cli.test_commands import PURGED, WATCHED

PLAN = planned(restored=[{"path": "back"}], removed=[{"path": "gone"}], git_note="git checkout 0123456")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Colours are told of elsewhere."""
    monkeypatch.setenv("NO_COLOR", "1")


def sent(daemon, field="dry_run"):
    return [request[field] for _, request in daemon.requests]


@pytest.mark.parametrize(
    ("line", "back"),
    [("rewind 42 --code", "undo"), ("undo", "redo"), ("redo 2", "undo")],
    ids=["rewind", "undo", "redo"],
)
def test_the_plan_is_shown_before_the_question(terminal, daemon, line, back):
    daemon.answers = dict.fromkeys(("rewind", "undo", "redo"), None)
    name = line.split()[0]
    daemon.answers[name] = [{**PLAN, "kind": name}, rewound(kind=name, restored=[{"path": "back"}])]

    screen = terminal(*line.split())
    screen.expect(f"{name}? [y/N]")
    assert sent(daemon) == [True]
    plan = screen.seen.partition("git checkout 0123456")[0]
    assert "  + back\r\n  - gone\r\n" in plan
    assert "1 restored, 1 removed, 204 untouched" in plan
    screen.type("y\n")

    assert screen.ended() == 0
    assert sent(daemon) == [True, False]
    assert f"`oxide-ctl {back}` takes it back" in screen.seen


@pytest.mark.parametrize("typed", ["n\n", "\n", "yess\n", "\x04"])
def test_anything_but_a_yes_changes_nothing(terminal, daemon, typed):
    daemon.answers["rewind"] = PLAN

    screen = terminal("rewind", "42", "--code")
    screen.expect("[y/N]")
    screen.type(typed)

    assert screen.ended() == 8
    assert sent(daemon) == [True]
    assert "not confirmed, nothing was changed" in screen.seen


def test_without_an_action_the_five_are_offered_and_code_is_the_default(terminal, daemon):
    daemon.answers["rewind"] = [PLAN, rewound()]

    screen = terminal("rewind", "42")
    screen.expect("rewind what? [3]")
    for number, words in enumerate(
        ["code and conversation", "conversation", "code", "summarize from here", "summarize up to here"], 1
    ):
        later = "" if words == "code" else "  (not built yet)"
        assert f"  {number}  {words}{later}\r\n" in screen.seen
    assert sent(daemon) == [True]
    screen.type("\n")
    screen.expect("rewind? [y/N]")
    screen.type("yes\n")

    assert screen.ended() == 0
    assert sent(daemon) == [True, False]


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("1", 1, "`rewind --both` is not built yet"),
        ("2", 1, "`rewind --conversation` is not built yet"),
        ("4", 1, "`rewind --summarize-from` is not built yet"),
        ("5", 1, "`rewind --summarize-up-to` is not built yet"),
        ("6", 8, "nothing was changed"),
        ("code", 8, "nothing was changed"),
    ],
)
def test_other_actions_are_refused_honestly(terminal, daemon, typed, code, said):
    daemon.answers["rewind"] = planned()
    screen = terminal("rewind", "42")
    screen.expect("rewind what? [3]")
    screen.type(f"{typed}\n")

    assert screen.ended() == code
    assert said in screen.seen
    assert sent(daemon) == [True]


@pytest.mark.parametrize(("typed", "wanted"), [("y", True), ("n", None)])
def test_whether_the_memory_goes_along_is_asked_where_something_was_noted(terminal, daemon, typed, wanted):
    daemon.answers["rewind"] = [planned(memory=NOTED, plan_seq=7), rewound()]
    screen = terminal("rewind", "42", "--code")
    screen.expect("rewind the memory too? [y/N]")
    screen.type(f"{typed}\n")
    screen.expect("rewind? [y/N]")
    screen.type("y\n")

    assert screen.ended() == 0, screen.seen
    asked = [(request.get("memory"), request.get("memory_seq")) for _, request in daemon.requests]
    assert asked == [(True, None), (wanted, NOTED["plan_seq"] if wanted else None)]


@pytest.mark.parametrize(("typed", "code", "wanted"), [("y", 0, [(None, True), ("7", None)]), ("n", 8, [(None, True)])])
def test_what_a_promotion_would_do_is_shown_and_asked(terminal, daemon, typed, code, wanted):
    daemon.answers["memory_promote"] = [{**PROMOTED, "dry_run": True}, PROMOTED]
    screen = terminal("memory", "promote")
    screen.expect("make these the project's? [y/N]")
    assert "would come from /src/side" in screen.seen
    screen.type(f"{typed}\n")

    assert screen.ended() == code, screen.seen
    assert [(request.get("from"), request.get("dry_run") or None) for _, request in daemon.requests] == wanted


@pytest.mark.parametrize(("option", "wanted"), [("--memory", [True, True]), ("--no-memory", [None, None])])
def test_an_option_about_the_memory_is_the_answer(terminal, daemon, option, wanted):
    part = {"memory": NOTED} if option == "--memory" else {}
    daemon.answers["rewind"] = [planned(plan_seq=7, **part), rewound()]
    screen = terminal("rewind", "42", "--code", option)
    screen.expect("rewind? [y/N]")
    assert "memory too?" not in screen.seen
    screen.type("y\n")

    assert screen.ended() == 0, screen.seen
    assert [request.get("memory") for _, request in daemon.requests] == wanted


def test_what_was_agreed_to_is_what_is_forgotten(terminal, daemon):
    kept = {"id": "p" * 16, "number": 7, "name": None, "reason": "pinned"}
    plan = {"ok": True, "dry_run": True, "forgotten": [checkpoint()], "kept": [kept], "freed_bytes": 0, "notes": []}
    daemon.answers["forget"] = [plan, {**plan, "dry_run": False}]

    screen = terminal("forget", "last~1", "7")
    screen.expect("forget? [y/N]")
    assert "plan: forget 1 checkpoint" in screen.seen
    screen.type("y\n")

    assert screen.ended() == 3
    assert sent(daemon, "checkpoints") == [["last~1", "7"], [checkpoint()["id"], "p" * 16]]
    assert sent(daemon) == [True, False]


def test_what_was_agreed_to_is_what_is_purged(terminal, daemon):
    plan = {
        **PURGED,
        "dry_run": True,
        "paths": [{"path": ".env", "root": "/a", "versions": 2, "named": True, "standing": False}],
    }
    daemon.answers["purge"] = [plan, PURGED]

    screen = terminal("purge", ".env")
    screen.expect("purge, for good? [y/N]")
    assert ".env  2 versions" in screen.seen
    screen.type("y\n")

    assert screen.ended() == 0, screen.seen
    assert [request.get("plan") for _, request in daemon.requests] == [None, "abc"]
    assert sent(daemon) == [True, False]


@pytest.mark.parametrize(
    ("typed", "scope"),
    [("last~1", "all"), ("turn:-1", "session"), ("good", "all"), ("--turn p1 --only", "turn")],
)
def test_what_was_agreed_to_is_what_is_rewound_to(terminal, daemon, typed, scope):
    """A name may mean another checkpoint by then: one that was sealed or renamed while the question stood."""
    kept = {"scope": scope, "kept": [{"path": "newer", "reason": "newer"}] if scope == "all" else []}
    shown = planned(**kept, plan_seq=7)
    exact = planned(scope="all", exact=True, removed=kept["kept"], plan_seq=8)
    daemon.answers["rewind"] = [shown, *([exact] if kept["kept"] else []), rewound(scope=scope)]

    screen = terminal("rewind", *typed.split(), "--code")
    if kept["kept"]:
        screen.expect("remove them too? [y/N]")
        screen.type("y\n")
    screen.expect("rewind? [y/N]")
    screen.type("y\n")

    assert screen.ended() == 0
    first, *others = (request for _, request in daemon.requests)
    assert (first.get("checkpoint"), first.get("turn")) == ((None, "p1") if scope == "turn" else (typed, None))
    for request in others:
        assert (request["checkpoint"], request["scope"], request.get("turn")) == (checkpoint()["id"], scope, None)
    assert others[-1]["plan_seq"] == (8 if kept["kept"] else 7)


@pytest.mark.parametrize("line", ["undo", "redo 2"])
def test_what_was_agreed_to_is_what_is_reversed(terminal, daemon, line):
    name = line.split()[0]
    daemon.answers[name] = [planned(kind=name, reverses="p" * 16, plan_seq=7), rewound(kind=name)]

    screen = terminal(*line.split())
    screen.expect(f"{name}? [y/N]")
    screen.type("y\n")

    assert screen.ended() == 0
    asked, done = (request for _, request in daemon.requests)
    assert not {"reverses", "plan_seq"} & asked.keys()
    assert (done["reverses"], done["plan_seq"], done["count"]) == ("p" * 16, 7, asked["count"])


@pytest.mark.parametrize(("typed", "exact"), [("y", True), ("n", False)])
def test_newer_files_are_asked_about(terminal, daemon, typed, exact):
    kept = planned(kept=[{"path": "newer", "reason": "newer"}])
    daemon.answers["rewind"] = [kept, *([planned(exact=True, removed=[{"path": "newer"}])] if exact else []), rewound()]

    screen = terminal("rewind", "42", "--code")
    screen.expect("1 newer path would stay; remove them too? [y/N]")
    screen.type(f"{typed}\n")
    screen.expect("rewind? [y/N]")
    assert ("  - newer" in screen.seen) is exact
    screen.type("y\n")

    assert screen.ended() == 0
    assert sent(daemon, "exact")[-1] is exact
    assert sent(daemon) == [True] * (1 + exact) + [False]


def test_deleting_history_is_asked_about(terminal, daemon):
    daemon.answers["unwatch"] = {"ok": True, "root": "/src/app", "checkpoints": 3, "memories": []}

    refused = terminal("unwatch", "--delete-history")
    refused.expect("3 checkpoints? this cannot be undone [y/N]")
    refused.type("n\n")
    assert refused.ended() == 8
    assert sent(daemon) == [True]

    agreed = terminal("unwatch", "--delete-history")
    agreed.expect("[y/N]")
    agreed.type("y\n")
    assert agreed.ended() == 0
    assert sent(daemon)[1:] == [True, False]


@pytest.mark.parametrize("line", ["--json rewind 42", "--json undo"])
def test_with_json_nothing_is_asked(terminal, daemon, line):
    daemon.answers |= {"rewind": planned(), "undo": planned()}
    screen = terminal(*line.split())

    assert screen.ended() == 8
    assert '"kind": "refused"' in screen.seen


def test_a_screen_without_a_keyboard_is_not_asked(terminal, daemon):
    daemon.answers["rewind"] = planned()
    screen = terminal("rewind", "42", stdin=subprocess.DEVNULL)

    assert screen.ended() == 8
    assert sent(daemon) == [True]


def test_with_a_yes_nothing_is_asked(terminal, daemon):
    daemon.answers["rewind"] = rewound(conflicts=[{"path": "theirs"}])

    screen = terminal("rewind", "42", "--yes")

    assert screen.ended() == 3
    assert sent(daemon) == [False]


def test_a_daemon_of_another_version_is_restarted_on_request(terminal, daemon):
    daemon.answers["status"] = [VersionMismatchError("the daemon is of version 9", hint="stop it"), status()]
    daemon.answers["stop"] = {"ok": True}

    screen = terminal("status")
    screen.expect("stop that daemon and start one of this version? [y/N]")
    assert "oxide-ctl: the daemon is of version 9" in screen.seen
    screen.type("y\n")

    assert screen.ended() == 0
    assert [name for name, _ in daemon.requests] == ["status", "stop", "status"]
    assert "nothing is watched" in screen.seen


def test_a_restart_that_is_not_wanted_fails(terminal, daemon):
    daemon.answers["status"] = VersionMismatchError("the daemon is of version 9")

    screen = terminal("status")
    screen.expect("[y/N]")
    screen.type("n\n")

    assert screen.ended() == 6
    assert [name for name, _ in daemon.requests] == ["status"]


def test_a_log_on_a_terminal_is_a_screenful(terminal, daemon):
    daemon.answers["log"] = {"ok": True, "items": [checkpoint()]}

    assert terminal("log").ended() == 0
    assert terminal("--json", "log").ended() == 0
    assert [request.get("limit") for _, request in daemon.requests] == [50, None]


def test_progress_is_drawn_and_leaves_nothing_behind(terminal, daemon):
    shown = threading.Event()

    def watch(_request, report):
        report({"stage": "hashing", "done": 3, "total": 10, "bytes": 2048})
        shown.wait(30)
        return WATCHED

    daemon.routes["watch"] = watch
    screen = terminal("watch")
    screen.expect("hashing")
    screen.expect("3/10")
    screen.expect("2.0 KiB")
    shown.set()

    assert screen.ended() == 0
    assert "watching /src/app" in screen.seen


@pytest.mark.parametrize("line", ["-q watch", "--json watch"])
def test_no_progress_for_programs(terminal, daemon, line):
    reported = threading.Event()

    def watch(_request, report):
        report({"stage": "hashing", "done": 3, "total": 10, "bytes": 0})
        reported.set()
        return WATCHED

    daemon.routes["watch"] = watch
    screen = terminal(*line.split())

    assert screen.ended() == 0
    assert reported.is_set()
    assert "hashing" not in screen.seen


def test_no_colours_are_written(terminal, daemon):
    daemon.answers["rewind"] = planned(restored=[{"path": "a"}])

    screen = terminal("rewind", "42", "--dry-run")

    assert screen.ended() == 0
    assert "\x1b" not in screen.seen


def test_an_interrupt_ends_quietly_with_130(terminal, daemon):
    asked = threading.Event()
    ended = threading.Event()

    def wait(_request, _report):
        asked.set()
        ended.wait(30)
        return status()

    daemon.routes["status"] = wait
    screen = terminal("status")
    asked.wait(30)
    screen.interrupt()

    assert screen.ended() == 130
    ended.set()
    assert "Traceback" not in screen.seen
