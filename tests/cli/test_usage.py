"""Whole screens of ``du``."""

from __future__ import annotations

import pytest

from openoxide.cli import usage
from tests.cli.test_commands import PRUNED
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
        "recorded_bytes": 135 * KIB,
        "history_bytes": 90 * KIB,
        "stored_bytes": 30 * KIB,
        "unique_bytes": 20 * KIB,
        "dedup_ratio": 1.5,
        "compression_ratio": 3.0,
        "staging_bytes": 0,
        "growth": [{"day": f"2026-11-{day:02}", "contents": 1, "stored_bytes": KIB} for day in range(20, 30)],
        "largest": [{"path": f"a{n}", "contents": n, "stored_bytes": n * KIB} for n in range(9, 0, -1)],
        "patterns": [
            {"path": folder, "suffix": suffix, "contents": 1, "stored_bytes": stored * KIB}
            for folder, suffix, stored in (("src", ".py", 15), ("", ".md", 9), ("src", "", 5), ("", "", 1))
        ],
        **changes,
    }


def answer(*worktrees, **changes):
    sizes = {"history": 60, "trash": 30, "dead": 10, "database": 2, "logs": 0}
    whole = {"ok": True, "home": "/h", "total_bytes": 102 * KIB, "freeable_bytes": 40 * KIB, "trash_bytes": 30 * KIB}
    return {
        **whole,
        "dedup_ratio": 1.5,
        "compression_ratio": 3.0,
        "kinds": [{"name": name, "what": f"{name} bytes", "size_bytes": n * KIB} for name, n in sizes.items()],
        "parts": [],
        "projects": [],
        "worktrees": [*worktrees],
        **changes,
    }


def test_what_never_repeats_stands_once():
    told = usage.du(answer(worktree(), dedup_ratio=1.0)).splitlines()
    assert "  each content stands once in the history, and takes 1/3 of its size" in told


def test_what_is_stored_where():
    assert usage.du(answer(worktree())) == screen("""
        102.0 KiB in /h
          history   60.0 KiB  59%  history bytes
          trash     30.0 KiB  29%  trash bytes
          dead      10.0 KiB  10%  dead bytes
          database   2.0 KiB   2%  database bytes
          each content stands 1.5 times in the history, and takes 1/3 of its size

        /src/app
          3 files now, 60.0 KiB; 1 checkpoint
          its history: 90.0 KiB, stored in 30.0 KiB, of which 10.0 KiB is shared with others
          each content stands 1.5 times in the history, and takes 1/3 of its size
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
          15.0 KiB  50%  src/**/*.py
           9.0 KiB  30%  *.md
           5.0 KiB  17%  src/**
           1.0 KiB   3%  *

        `oxide-ctl prune` frees about 10.0 KiB that nothing needs any more, or that packs smaller
        about 30.0 KiB is held by trash alone: `oxide-ctl expire --trash` empties it, `oxide-ctl prune` frees that
    """)


def test_people_see_bars():
    quiet = worktree(growth=[], largest=[])
    assert usage.du(answer(quiet, freeable_bytes=0, trash_bytes=0), bar="#") == screen("""
        102.0 KiB in /h
          history   60.0 KiB  59%  ##############  history bytes
          trash     30.0 KiB  29%  #######         trash bytes
          dead      10.0 KiB  10%  ##              dead bytes
          database   2.0 KiB   2%  #               database bytes
          each content stands 1.5 times in the history, and takes 1/3 of its size

        /src/app
          3 files now, 60.0 KiB; 1 checkpoint
          its history: 90.0 KiB, stored in 30.0 KiB, of which 10.0 KiB is shared with others
          each content stands 1.5 times in the history, and takes 1/3 of its size
          15.0 KiB  50%  ############  src/**/*.py
           9.0 KiB  30%  #######       *.md
           5.0 KiB  17%  ####          src/**
           1.0 KiB   3%  #             *

        `oxide-ctl prune` frees nothing now: 40.0 KiB that nothing but trash needs are less than a third of the packs they lie in
    """)


def test_a_quota_and_what_a_rewind_left_are_told():
    quota = {
        "project": "app",
        "roots": ["/src/app", "/src/b"],
        "stored_bytes": 3 * KIB,
        "unique_bytes": 0,
        "used_bytes": None,
    }
    text = usage.du(
        answer(
            worktree(staging_bytes=4 * KIB),
            projects=[
                {**quota, "quota_bytes": 2 * KIB},
                {**quota, "quota_bytes": 4 * KIB, "used_bytes": KIB},
                {**quota, "quota_bytes": 0},
            ],
        )
    )

    assert "quota of /src/app, /src/b: 3.0 KiB of 2.0 KiB (150%)\n" in text
    assert "quota of /src/app, /src/b: 1.0 KiB of 4.0 KiB (25%)\n" in text
    assert text.count("quota") == 2
    assert "in the tree itself: 4.0 KiB in .openoxide-staging" in text


def test_an_empty_store_has_no_ratios():
    none = {"dedup_ratio": None, "compression_ratio": None}
    bare = worktree(growth=[], largest=[], patterns=[], stored_bytes=0, unique_bytes=0, **none)

    assert "times" not in usage.du(answer(bare, total_bytes=0, **none), bar="#")


def test_verbose_shortens_nothing():
    text = usage.du(
        answer(worktree(watching=False, unique_bytes=30 * KIB), freeable_bytes=0, trash_bytes=0, kinds=[]), verbose=True
    )

    assert text.count("2026-11-") == 10
    assert "a1" in text
    assert "/src/app  (not watched)" in text
    assert "shared" not in text
    assert "nothing of it can go" in text


def test_what_others_named_reaches_the_screen_escaped():
    evil = worktree(
        root=EVIL,
        largest=[{"path": EVIL, "contents": 1, "stored_bytes": 1}],
        patterns=[{"path": EVIL, "suffix": EVIL, "contents": 1, "stored_bytes": 1}],
    )
    quota = {"project": EVIL, "roots": [EVIL], "stored_bytes": 1, "unique_bytes": 1, "quota_bytes": 1}

    assert all(
        char.isprintable() or char == "\n" for char in usage.du(answer(evil, home=EVIL, projects=[quota]), bar="#")
    )
    assert all(char.isprintable() or char == "\n" for char in usage.du(answer(evil, home=EVIL)))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dry_run": True}, "plan: free about 5.0 MiB (3 old states, 2 contents, 1 pack)\na note"),
        ({}, "5.0 MiB freed (3 old states, 2 contents, 1 pack)\na note"),
        ({"versions": 0, "contents": 0, "packs": 0, "notes": []}, "nothing to free"),
        ({"freed_bytes": 0, "versions": 0, "contents": 0, "packs": 7, "notes": []}, "nothing to free"),
        ({"versions": 0, "contents": 0, "packs": 0, "notes": [], "dry_run": True}, "plan: nothing to free"),
        (
            {"damaged": 1, "versions": 0, "contents": 0, "notes": []},
            "5.0 MiB freed (1 pack)\n1 content cannot be read: `oxide-ctl check --read-data` tells which",
        ),
    ],
)
def test_a_prune_says_what_went_or_would_go(changes, text):
    assert usage.prune({**PRUNED, **changes}) == text
