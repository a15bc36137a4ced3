"""Whole screens: what people read of an answer."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent

import pytest

from openoxide.cli import changes, notes, render
from openoxide.daemon.protocol.health import WorktreeStatus
from tests.cli import answers
from tests.cli.answers import NOON, PROMOTED, checkpoint, difference, planned, rewound, shown, state, status

NOW = datetime.fromisoformat(NOON)
EVIL = "a\x1b[2Jb\n\u202ec\udcff"
TENS = {"added": 10, "modified": 10, "removed": 10}


def screen(text: str) -> str:
    return dedent(text).strip("\n")


def test_log_has_a_line_for_each_checkpoint():
    items = [
        checkpoint(number=100, name="before the agent", pinned=True, expires_at=None),
        checkpoint(number=99, trigger="prompt", agent="codex", prompt="p1", late=True),
        checkpoint(
            number=8,
            trigger="quiet",
            complete=False,
            gap="overflow",
            changed=TENS,
        ),
        checkpoint(number=7, failed="disk full", expires_at=None),
        checkpoint(number=6, forgotten_at="2026-11-29T11:00:00.000Z"),
    ]

    assert render.log(items, NOW, UTC) == screen("""
        #100  kmqzvwxy  2026-11-29 11:57:00  manual  +3 ~1 -0     before the agent  pinned
         #99  kmqzvwxy  2026-11-29 11:57:00  prompt  +3 ~1 -0     codex p1  late  expires in 30d
          #8  kmqzvwxy  2026-11-29 11:57:00  quiet   +10 ~10 -10  incomplete: overflow  expires in 30d
          #7  kmqzvwxy  2026-11-29 11:57:00  manual  +3 ~1 -0     failed: disk full
          #6  kmqzvwxy  2026-11-29 11:57:00  manual  +3 ~1 -0     in trash, forgotten 1h ago
    """).replace("\n        ", "\n")


def test_forgetting_says_what_stays_and_that_no_space_is_freed():
    kept = {"id": "p" * 16, "number": 7, "name": EVIL, "reason": "needed_by_undo"}
    answer = {
        "ok": True,
        "dry_run": True,
        "forgotten": [checkpoint()],
        "kept": [kept],
        "freed_bytes": 0,
        "notes": ["@2h: taken is #7"],
    }

    assert render.forget(answer, NOW) == screen("""
          - checkpoint #42 (kmqzvwxy)  +3 ~1 -0  expires in 30d
          = checkpoint #7 (pppppppp)  kept: needed_by_undo
        plan: forget 1 checkpoint
        @2h: taken is #7
        no space is freed by this: they are in trash, `oxide-ctl unforget` takes them back
    """).replace("\n        ", "\n")
    nothing = render.forget({**answer, "forgotten": [], "dry_run": False, "notes": []}, NOW)
    assert nothing == "  = checkpoint #7 (pppppppp)  kept: needed_by_undo\n0 checkpoints forgotten"


def test_show_tells_everything_once():
    answer = shown(
        name="n",
        agent="codex",
        session="s1",
        prompt="p1",
        git={"head": "0123456789abcdef", "branch": "main", "origin": ""},
        changes=[difference("src/a.py"), difference("new", "A")],
        writers=[
            {
                "certainty": "likely",
                "agent": "codex",
                "sessions": ["s1"],
                "prompts": ["p1"],
                "operation": None,
                "paths": 1,
            },
            {
                "certainty": "operation",
                "agent": None,
                "sessions": [],
                "prompts": [],
                "operation": "oooopppp",
                "paths": 2,
            },
        ],
        skipped_paths=[{"path": "node_modules", "reason": "dependencies"}, {"path": "big", "reason": "too_large"}],
    )

    assert render.show(answer, NOW, zone=UTC) == screen("""
        checkpoint #42 kmqzvwxyklmnopqr
        sealed      2026-11-29 11:57:00 (3m ago), manual
        name        n
        kept        expires in 30d
        coverage    complete
        agent       codex
        session     s1
        prompt      p1
        git         main 0123456789ab
        changes     +3 ~1 -0
          M src/a.py
          A new
        writer      likely codex session s1, 1 path
        writer      operation oooopppp, 2 paths
        skipped     2 paths
          node_modules  (dependencies)
          big  (too_large)
    """)


@pytest.mark.parametrize(
    ("trouble", "word"),
    [("store_full", "DISK FULL"), ("store_read_only", "READ-ONLY"), ("failed", "NOT WRITTEN")],
)
def test_a_store_that_is_not_written_says_why(trouble, word):
    screen_text = render.status(status(store_writable=False, store_trouble=trouble), NOW)
    assert f"3.0 MiB, {word}\n" in screen_text


def test_status_tells_what_is_wrong():
    worktrees = [
        {},
        {
            "root": "/src/an other",
            "state": "paused",
            "reason": "root_vanished",
            "complete": False,
            "pending": 1,
            "last_checkpoint_at": None,
            "next_expiry": None,
            "checkpoints": 0,
            "gaps": [{"cause": "overflow", "opened_at": "2026-11-29T11:59:30.000Z"}],
            "interrupted": ["oooppppqqqqrrrr"],
            "open_turns": [{"agent": "claude", "session": "s", "prompt": "p"}],
            "idle_turns": [
                {
                    "agent": "a",
                    "session": "s",
                    "prompt": "p",
                    "heard_at": "2026-11-29T04:00:00.000Z",
                    "command": "end it",
                }
            ],
        },
    ]

    assert render.status(
        status(worktrees, problems=["a job failed"], store_writable=False, store_trouble="store_read_only"), NOW
    ) == screen("""
        daemon      0.1.0, pid 123, up 3h 12m
        memory      50.0 MiB
        home        /home/u/.openoxide
        store       3.0 MiB, READ-ONLY
        problem     a job failed

        /src/app
          state       watching, complete
          pending     0 changes; 214 watch handles, seq 12
          tree        1204 files, 9.0 MiB; 3 not recorded, `oxide-ctl show last` says why
          kept        42 checkpoints, last 3m ago
          expiry      next one in 30d

        /src/an other
          state       paused (root_vanished), INCOMPLETE
          pending     1 change; 214 watch handles, seq 12
          tree        1204 files, 9.0 MiB; 3 not recorded, `oxide-ctl show last` says why
          kept        0 checkpoints
          gap         the kernel reported more than it keeps, since 30s ago; closed by the full pass, 8m 0s from now at the latest
          interrupted operation oooppppq; settle it with `oxide-ctl -C '/src/an other' rewind --continue` or `--abort`
          open turn   claude, session s, prompt p
          turn        session s is open and silent since 8h ago; if its agent is gone: `end it`
    """)


@pytest.mark.parametrize(
    ("worktree", "line"),
    [
        ({"scanned": 250_000, "entries": 1_000_000}, "scan        250,000 of about 1,000,000 entries looked at"),
        ({"scanned": 250_000, "entries": 0}, "scan        250,000 entries looked at"),
        (
            {"polled": "network_fs", "full_pass_every_ms": 20_000},
            "polled      every 20s, because what is written on the other side of this file system is not reported",
        ),
        (
            {"polled": "watch_limit", "full_pass_every_ms": 0},
            (
                "polled      from time to time, because there are more directories than the kernel lets this user watch "
                "(`oxide-ctl doctor`)"
            ),
        ),
    ],
)
def test_status_explains_how_the_tree_is_looked_at(worktree, line):
    assert f"\n  {line}\n" in render.status(status([worktree]), NOW)


def test_nothing_watched_is_said():
    assert render.status(status(), NOW).endswith("\n\nnothing is watched")


def test_a_plan_marks_each_path_by_what_happens_to_it():
    answer = planned(
        restored=[{"path": "back"}, {"path": "maybe", "reason": "likely"}],
        removed=[{"path": "gone"}],
        merged=[{"path": "both"}],
        conflicts=[{"path": "theirs", "reason": "changed_later"}],
        kept=[{"path": "newer", "reason": "newer"}],
        skipped=[{"path": "big", "reason": "too_large"}],
        notes=["a note"],
        git_note="HEAD moved since\ngit checkout 0123456",
    )

    assert changes.plan(answer) == screen("""
        plan: rewind to #42 (kmqzvwxy), scope all
          + back
          + maybe  (likely)
          - gone
          * both
          ! theirs  (changed_later)
          = newer  (newer)
          ? big  (too_large)
        2 restored, 1 removed, 1 merged, 1 in conflict, 1 kept, 1 not recorded, 204 untouched; +1.2 KiB -340 B
        a note
        git: HEAD moved since
        git: git checkout 0123456
    """)


def test_what_was_done_ends_with_the_way_back():
    answer = rewound(exact=True, removed=[{"path": "x"}], changed_since=[{"path": "y"}])

    assert changes.done(answer, "rewound", zone=UTC) == screen("""
        rewound: rewind to #42 (kmqzvwxy), scope all, exact
          - x
          ~ y
        1 removed, 1 changed since, 204 untouched; +1.2 KiB -340 B
        the state before is checkpoint #43 (ppppqqqq)
        `oxide-ctl undo` takes it back; undoable until 2026-12-29 12:00:00
    """)


DIFFERENCES = [
    difference("src/a.py", patch="--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-old\n+\tnew\r\n"),
    difference("added", "A"),
    difference("tool", new=state(mode="0755"), writer="codex", certainty="likely"),
    difference("turned", "T", new={"kind": "symlink", "mode": "0777", "size_bytes": 3, "target": "x"}),
]


def test_a_difference_is_a_letter_and_a_path():
    assert changes.diff(DIFFERENCES, "name-status") == screen("""
        M  src/a.py
        A  added
        M  tool  (mode 0644 -> 0755)
        T  turned  (file -> symlink)
    """)


@pytest.mark.parametrize(
    ("certainty", "writer", "text"),
    [
        ("likely", "codex/s1", "likely codex/s1"),
        ("unknown", None, "unknown"),
        ("operation", "operation", "operation"),
    ],
)
def test_who_made_a_change_is_said_once(certainty, writer, text):
    assert render.author(certainty, writer) == text


HIDDEN = [difference("k", "D", reason="oxideignore"), difference("n", "A", reason="too_large")]


@pytest.mark.parametrize("style", ["name-status", "patch"])
def test_what_is_only_not_recorded_is_told_from_what_is_gone(style):
    assert changes.diff(HIDDEN, style) == screen("""
        D  k  (not recorded any more: oxideignore)
        A  n  (not recorded before: too_large)
    """)


def test_the_size_of_what_is_not_recorded_is_not_known():
    assert "D  k  10 B -> not recorded\nA  n  not recorded -> 2.0 KiB\n" in changes.diff(HIDDEN, "stat")
    assert "\n  D k  (not recorded any more: oxideignore)\n" in render.show(shown(changes=HIDDEN), NOW)


def test_verbose_adds_who_wrote_it():
    assert "M  tool  (mode 0644 -> 0755; likely codex)" in changes.diff(DIFFERENCES, "name-status", verbose=True)


def test_stat_shows_sizes_and_a_total():
    assert changes.diff(DIFFERENCES, "stat") == screen("""
        M  src/a.py  10 B -> 2.0 KiB
        A  added     none -> 2.0 KiB
        M  tool      10 B -> 10 B
        T  turned    10 B -> symlink
        4 differences: 1 added, 2 modified, 1 of another type
    """)


def test_a_patch_keeps_tabs_and_shows_other_control_characters():
    assert changes.diff(DIFFERENCES[:2], "patch") == (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-old\n+\tnew\\x0d\nA  added"
    )


def test_long_lists_are_cut_unless_asked_for():
    answer = planned(restored=[{"path": f"f{number:02}"} for number in range(render.MOST_PATHS + 3)])

    assert "  + f19\n  ... and 3 more (-v lists all)\n" in changes.plan(answer)
    assert "  + f22\n" in changes.plan(answer, verbose=True)


def test_a_list_without_items_says_so():
    assert (render.log([], NOW), render.projects([], NOW), render.operations([])) == (
        "no checkpoints",
        "no projects",
        "no operations",
    )


OPERATION = {
    "operation": "oooopppprrrrssss",
    "kind": "rewind",
    "at": NOON,
    "phase": "done",
    "reverses": None,
    "undone": False,
    "undoable": True,
    "undoable_until": "2026-12-29T12:00:00.000Z",
    "checkpoint": None,
    "pre_rewind_checkpoint": None,
    "restored": 2,
    "removed": 1,
    "conflicts": 0,
    "late": [],
    "summary": "to #42",
}
PROJECT = {
    "project": "app",
    "root": "/src/app",
    "watching": True,
    "checkpoints": 1,
    "store_bytes": 2048,
    "last_change_at": "2026-11-29T11:00:00.000Z",
}


def test_operations_and_projects_are_tables():
    undone = {**OPERATION, "undone": True, "undoable": False, "kind": "undo"}
    stopped = {**PROJECT, "watching": False, "last_change_at": None}

    assert render.operations([OPERATION, undone], UTC) == screen("""
        oooopppp  2026-11-29 12:00:00  rewind  done    +2 -1 !0  to #42  undoable until 2026-12-29 12:00:00
        oooopppp  2026-11-29 12:00:00  undo    undone  +2 -1 !0  to #42
    """)
    assert render.projects([PROJECT, stopped], NOW) == screen("""
        watching  1 checkpoint  2.0 KiB  changed 1h ago  /src/app
        stopped   1 checkpoint  2.0 KiB  no changes      /src/app
    """)


@pytest.mark.parametrize(
    ("verb", "tool", "begins"),
    [
        ("began", None, "checkpoint #3"),
        ("ended", None, "newest checkpoint #3"),
        ("began", "t1", "newest checkpoint #3"),
        ("ended", "t1", "newest checkpoint #3"),
    ],
)
def test_a_checkpoint_that_a_turn_did_not_have_to_seal_is_only_the_newest(verb, tool, begins):
    answer = {"turn": "p1", "tool": tool, "checkpoint": checkpoint(number=3, agent="codex", prompt="p0"), "notes": []}

    assert render.window(answer, verb, NOW).splitlines()[1].startswith(begins)


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("/old", "the history of /old goes on in /p"),
        ("/p", "the history of the directory that was there before goes on in /p"),
    ],
)
def test_a_move_to_the_same_path_is_told_as_one_to_another_directory(old, told):
    answer = {"old_root": old, "root": "/p", "checkpoint": checkpoint()}

    assert render.moved(answer, NOW).splitlines()[0] == told


def test_an_operation_is_followed_by_what_came_too_late():
    late = [
        {"path": "my notes", "reason": "written while it was displaced", "checkpoint": "late:oooopppp"},
        {"path": "d", "reason": "left in .openoxide-staging/oooopppprrrrssss/place-3", "checkpoint": None},
    ]

    assert render.operations([{**OPERATION, "late": late}], UTC) == screen("""
        oooopppp  2026-11-29 12:00:00  rewind  done  +2 -1 !0  to #42  undoable until 2026-12-29 12:00:00
          my notes  written while it was displaced: oxide-ctl cat late:oooopppp 'my notes'
          d  left in .openoxide-staging/oooopppprrrrssss/place-3
    """)


PATHS = [{"path": EVIL, "reason": EVIL}]


@pytest.mark.parametrize(
    "text",
    [
        render.log([checkpoint(name=EVIL), checkpoint(agent=EVIL, prompt=EVIL), checkpoint(complete=False, gap=EVIL)], NOW),
        render.show(shown(name=EVIL, session=EVIL, changes=[difference(EVIL)], skipped_paths=PATHS,
                          git={"head": EVIL, "branch": EVIL, "origin": ""}), NOW),
        render.status(status([{"root": EVIL, "reason": EVIL, "gaps": [{"cause": EVIL, "opened_at": NOON}]}], home=EVIL), NOW),
        render.projects([{**PROJECT, "root": EVIL}], NOW),
        render.operations([{**OPERATION, "summary": EVIL, "late": [{"path": EVIL, "reason": EVIL, "checkpoint": None}]}]),
        render.restore({"ok": True, "to": EVIL, "written": PATHS, "skipped": PATHS, "notes": [EVIL]}, verbose=True),
        render.window(
            {"ok": True, "turn": EVIL, "tool": EVIL, "checkpoint": checkpoint(name=EVIL), "notes": [EVIL]}, "ended", NOW
        ),
        changes.plan(planned(restored=PATHS, conflicts=PATHS, notes=[EVIL], git_note=EVIL)),
        changes.diff([difference(EVIL, writer=EVIL, certainty="likely")], "name-status", verbose=True),
        changes.diff([difference(EVIL)], "stat"),
        changes.diff([difference("x", patch=f"+{EVIL}\n")], "patch"),
    ],
)  # fmt: skip
def test_what_others_named_reaches_the_screen_escaped(text):
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert r"\x1b[2Jb" in text
    assert r"\u202ec\xff" in text


def test_the_answers_used_here_are_complete():
    assert answers.checkpoint().keys() == answers.CheckpointObject.__annotations__.keys()
    # of a dry run; where there is a way on; of undo and redo; with the memory
    sometimes = {"plan_seq", "hint", "reverses", "memory"}
    assert answers.rewound().keys() == answers.RewindAnswer.__annotations__.keys() - sometimes
    assert answers.WORKTREE.keys() == WorktreeStatus.__annotations__.keys()


KEPT_NOTES = {
    "worktree": "7",
    "root": "/src/side",
    "path": "/h/projects/k/worktrees/7/memory",
    "files": 2,
    "reason": "gone",
    "command": "oxide-ctl -C /src/app memory promote --from 7",
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "2 files, /src/side is gone; `oxide-ctl -C /src/app memory promote --from 7`"),
        ({"root": None}, "2 files, worktree 7 is gone; "),
        ({"reason": "policy"}, "2 files, /src/side has others by memory.worktrees; "),
        ({"worktree": "", "root": None, "reason": "policy"}, "2 files, the project's, which no worktree reads; "),
    ],
)
def test_status_names_the_notes_that_nobody_reads(changes, said):
    found = render.status(status([{"memory": None, "unread_memories": [{**KEPT_NOTES, **changes}]}]), NOW)
    assert f"unread notes {said}" in " ".join(found.split())


def test_a_promotion_says_what_became_of_each_topic():
    items = [
        {"name": "a.md", "became": "added", "reason": "", "retired": True},
        {"name": "b.md", "became": "same", "reason": "c.md says that already", "retired": False},
        {"name": "MEMORY.md", "became": "both", "reason": "", "retired": False},
        {"name": "d.md", "became": "refused", "reason": "d.md would hold a token", "retired": False},
    ]
    assert notes.promoted({**PROMOTED, "items": items, "notes": ["not recorded yet"]}) == screen("""
        from /src/side
        new            a.md       (in the trash there)
        there already  b.md
        lines of both  MEMORY.md
        left           d.md       (d.md would hold a token)
        not recorded yet
    """)
    assert notes.promoted({**PROMOTED, "root": None, "dry_run": True, "items": []}) == screen(f"""
        would come from {PROMOTED["path"]}
          nothing
    """)


@pytest.mark.parametrize(
    ("layers", "said"),
    [(["worktree", "project"], True), (["worktree", "worktree"], False), (["project", "project"], False)],
)
def test_topics_of_a_worktree_are_told_from_those_of_the_project(layers, said):
    topic = {"title": "T", "description": "", "type": "", "size_bytes": 1, "modified_at": "2026-11-29T12:00:00.000Z"}
    items = [{**topic, "name": f"{at}.md", "layer": layer} for at, layer in enumerate(layers)]
    assert ("of this worktree" in notes.topics(items)) is said
