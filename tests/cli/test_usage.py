"""Whole screens of ``du``."""

from __future__ import annotations

from openoxide.cli import usage
from tests.cli.test_render import EVIL, screen

KIB = 1 << 10


def worktree(**changes):
    return {
        "root": "/src/app",
        "project": "app",
        "watching": True,
        "checkpoints": 1,
        "files": 3,
        "logical_bytes": 60 * KIB,
        "history_bytes": 90 * KIB,
        "stored_bytes": 30 * KIB,
        "unique_bytes": 20 * KIB,
        "growth": [{"day": f"2026-11-{day:02}", "contents": 1, "stored_bytes": KIB} for day in range(20, 30)],
        "largest": [{"path": f"a{n}", "contents": n, "stored_bytes": n * KIB} for n in range(9, 0, -1)],
        **changes,
    }


def answer(*worktrees, **changes):
    parts = [
        {"name": "timeline", "what": "rows", "size_bytes": 2 * KIB, "files": 1},
        {"name": "contents", "what": "bytes", "size_bytes": 100 * KIB, "files": 12},
        {"name": "logs", "what": "logs", "size_bytes": 0, "files": 0},
    ]
    whole = {"ok": True, "home": "/h", "total_bytes": 102 * KIB, "freeable_bytes": 5 * KIB}
    return {**whole, "parts": parts, "worktrees": [*worktrees], **changes}


def test_what_is_stored_where():
    assert usage.du(answer(worktree())) == screen("""
        102.0 KiB in /h
          timeline    2.0 KiB    1 file  rows
          contents  100.0 KiB  12 files  bytes

        /src/app
          3 files now, 60.0 KiB; 1 checkpoint
          its history: 90.0 KiB, stored in 30.0 KiB, of which 10.0 KiB is shared with others
          2026-11-23  +1.0 KiB, 1 content
          2026-11-24  +1.0 KiB, 1 content
          2026-11-25  +1.0 KiB, 1 content
          2026-11-26  +1.0 KiB, 1 content
          2026-11-27  +1.0 KiB, 1 content
          2026-11-28  +1.0 KiB, 1 content
          2026-11-29  +1.0 KiB, 1 content
          9.0 KiB  9 contents  a9
          8.0 KiB  8 contents  a8
          7.0 KiB  7 contents  a7
          6.0 KiB  6 contents  a6
          5.0 KiB  5 contents  a5

        about 5.0 KiB is needed by nothing any more; `prune`, which will free it, is not built yet
    """)


def test_verbose_shortens_nothing():
    text = usage.du(answer(worktree(watching=False, unique_bytes=30 * KIB), freeable_bytes=0), verbose=True)

    assert text.count("2026-11-") == 10
    assert "a1" in text
    assert "/src/app  (not watched)" in text
    assert "shared" not in text
    assert "nothing of it can go" in text


def test_what_others_named_reaches_the_screen_escaped():
    evil = worktree(root=EVIL, largest=[{"path": EVIL, "contents": 1, "stored_bytes": 1}])

    assert all(char.isprintable() or char == "\n" for char in usage.du(answer(evil, home=EVIL)))
