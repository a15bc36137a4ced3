"""Whole screens of ``history``."""

from __future__ import annotations

from datetime import UTC

from openoxide.cli import past
from tests.cli.answers import NOON, state
from tests.cli.test_render import EVIL, screen

HELD = {"id": "kmqzvwxyklmnopqr", "number": 3, "name": None, "created_at": NOON}


def moment(**changes):
    return {"seq": 7, "at": NOON, "checkpoint": HELD, "writer": None, "certainty": "unknown", **changes}


def version(**changes):
    return {**moment(), "path": "src/a.py", "status": "M", "state": state(), **changes}


def test_versions_are_a_table():
    items = [
        version(at=None, checkpoint=None, status="D", state=None, certainty="likely", writer="codex/s1"),
        version(state=state(size_bytes=2048)),
        version(status="A", state=state(kind="directory")),
        version(status=None, state=None, reason="too_large"),
    ]

    assert past.versions(items, UTC, paths=False) == screen("""
        not sealed yet       D  in no checkpoint       gone  likely codex/s1
        2026-11-29 12:00:00  M  #3 (kmqzvwxy)       2.0 KiB  unknown
        2026-11-29 12:00:00  A  #3 (kmqzvwxy)     directory  unknown
        2026-11-29 12:00:00  ?  #3 (kmqzvwxy)     too_large  unknown
    """).replace("\n        ", "\n")
    assert "src/a.py  unknown" in past.versions(items[1:2], UTC, paths=True)
    assert past.versions([], UTC, paths=True) == "nothing vanished"


def test_what_vanished_unsealed_names_the_checkpoint_with_an_older_version():
    items = [version(checkpoint=None, status="D", last_sealed=HELD), version(status="D", last_sealed=HELD)]

    assert past.versions(items, UTC, paths=True) == screen("""
        2026-11-29 12:00:00  D  in no checkpoint, an older one in #3  10 B  src/a.py  unknown
        2026-11-29 12:00:00  D  #3 (kmqzvwxy)                         10 B  src/a.py  unknown
    """).replace("\n        ", "\n")


def test_one_long_path_does_not_widen_every_line():
    short, long = past.versions([version(), version(path="x" * 400)], UTC, paths=True).splitlines()

    assert len(short) < 120
    assert long.endswith("x  unknown")


def test_a_search_tells_from_when_to_when():
    stretch = {
        "path": "src/a.py",
        "first": moment(),
        "last": moment(checkpoint=None),
        "vanished": moment(certainty="likely", writer="codex/s1"),
        "versions": 2,
    }
    answer = {
        "ok": True,
        "items": [
            stretch,
            {**stretch, "vanished": None, "versions": 1},
            {**stretch, "vanished": None, "reason": "not_searched"},
            {**stretch, "reason": "too_large"},
        ],
        "searched": 1,
        "searched_bytes": 2048,
        "binary": 2,
        "damaged": 0,
    }

    assert past.search(answer, UTC) == screen("""
        src/a.py  2 versions, vanished 2026-11-29 12:00:00  likely codex/s1
          first 2026-11-29 12:00:00  #3 (kmqzvwxy)  unknown
          last  2026-11-29 12:00:00  in no checkpoint  unknown
        src/a.py  1 version, still there
          first 2026-11-29 12:00:00  #3 (kmqzvwxy)  unknown
          last  2026-11-29 12:00:00  in no checkpoint  unknown
        src/a.py  2 versions, then not_searched
          first 2026-11-29 12:00:00  #3 (kmqzvwxy)  unknown
          last  2026-11-29 12:00:00  in no checkpoint  unknown
        src/a.py  2 versions, not recorded (too_large) since 2026-11-29 12:00:00  likely codex/s1
          first 2026-11-29 12:00:00  #3 (kmqzvwxy)  unknown
          last  2026-11-29 12:00:00  in no checkpoint  unknown
        1 content searched, 2.0 KiB, 2 binary left out
    """).replace("\n        ", "\n")
    assert past.search({**answer, "items": [], "binary": 0}, UTC) == "found nowhere\n1 content searched, 2.0 KiB"


def test_what_others_named_reaches_the_screen_escaped():
    items = [version(path=EVIL, writer=EVIL, reason=EVIL, state=None)]

    assert all(char.isprintable() for char in past.versions(items, UTC, paths=True))
