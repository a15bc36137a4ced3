"""Answers of the daemon for the tests that render them; each is complete, as the protocol has it."""

from __future__ import annotations

from typing import Any

from openoxide.daemon.protocol.checkpoints import CheckpointObject, DiffItem, ShowAnswer, StateObject
from openoxide.daemon.protocol.health import StatusAnswer
from openoxide.daemon.protocol.rewinds import RewindAnswer

NOON = "2026-11-29T12:00:00.000Z"
ID = "kmqzvwxyklmnopqr"


def checkpoint(**changes: Any) -> CheckpointObject:
    answer: CheckpointObject = {
        "id": ID,
        "number": 42,
        "seq": 7,
        "created_at": "2026-11-29T11:57:00.000Z",
        "expires_at": "2026-12-29T11:57:00.000Z",
        "thins_at": None,
        "trigger": "manual",
        "name": None,
        "pinned": False,
        "complete": True,
        "late": False,
        "gap": "",
        "agent": None,
        "session": None,
        "prompt": None,
        "changed": {"added": 3, "modified": 1, "removed": 0},
        "skipped": 2,
        "manifest_hash": "b3:00ff",
        "failed": None,
        "forgotten_at": None,
    }
    return {**answer, **changes}  # type: ignore[typeddict-item]


def state(**changes: Any) -> StateObject:
    answer: StateObject = {"kind": "file", "mode": "0644", "size_bytes": 10, "hash": "b3:aa"}
    return {**answer, **changes}  # type: ignore[typeddict-item]


def difference(path: str, status: str = "M", **changes: Any) -> DiffItem:
    answer: DiffItem = {
        "path": path,
        "status": status,
        "old": None if status == "A" else state(),
        "new": None if status == "D" else state(size_bytes=2048),
        "writer": None,
        "certainty": "unknown",
    }
    return {**answer, **changes}  # type: ignore[typeddict-item]


def shown(**changes: Any) -> ShowAnswer:
    answer: ShowAnswer = {
        **checkpoint(),
        "ok": True,
        "git": {"head": "", "branch": "", "origin": ""},
        "writers": [],
        "pruned_changes": 0,
        "changes": [],
        "skipped_paths": [],
    }
    return {**answer, **changes}  # type: ignore[typeddict-item]


def rewound(**changes: Any) -> RewindAnswer:
    answer: RewindAnswer = {
        "ok": True,
        "dry_run": False,
        "operation": "lnopqrstuvwxyzkl",
        "kind": "rewind",
        "scope": "all",
        "exact": False,
        "checkpoint": checkpoint(),
        "pre_rewind_checkpoint": checkpoint(number=43, id="ppppqqqqrrrrssss", trigger="rewind"),
        "restored": [],
        "removed": [],
        "merged": [],
        "kept": [],
        "conflicts": [],
        "skipped": [],
        "changed_since": [],
        "notes": [],
        "untouched": 204,
        "insertions_bytes": 1229,
        "deletions_bytes": 340,
        "undoable_until": "2026-12-29T12:00:00.000Z",
        "git_note": "",
    }
    return {**answer, **changes}  # type: ignore[typeddict-item]


def planned(**changes: Any) -> RewindAnswer:
    return rewound(dry_run=True, operation=None, pre_rewind_checkpoint=None, undoable_until=None, **changes)


def status(worktrees: list[dict[str, Any]] | None = None, **daemon: Any) -> StatusAnswer:
    answer: StatusAnswer = {
        "ok": True,
        "daemon": {
            "pid": 123,
            "version": "0.1.0",
            "uptime_ms": 11_520_000,
            "rss_bytes": 50 << 20,
            "home": "/home/u/.openoxide",
            "store_bytes": 67 << 20,
            "store_writable": True,
            "reserve_bytes": 64 << 20,
            "store_trouble": "",
            "problems": [],
        },
        "worktrees": [{**WORKTREE, **worktree} for worktree in worktrees or []],  # type: ignore[list-item]
    }
    answer["daemon"].update(daemon)  # type: ignore[typeddict-item]
    return answer


WORKTREE = {
    "root": "/src/app",
    "project": "app",
    "state": "watching",
    "reason": "",
    "complete": True,
    "pending": 0,
    "watches": 214,
    "seq": 12,
    "files": 1_204,
    "bytes": 9 << 20,
    "skipped": 3,
    "over_quota": [],
    "scanned": None,
    "entries": 1_400,
    "full_pass_every_ms": 600_000,
    "polled": "",
    "checkpoints": 42,
    "last_checkpoint_at": "2026-11-29T11:57:00.000Z",
    "next_expiry": "2026-12-29T11:57:00.000Z",
    "gaps": [],
    "interrupted": [],
    "paused_at": None,
    "paused_until": None,
    "next_full_pass_in_ms": 480_000,
    "open_turns": [],
    "idle_turns": [],
    "memory": None,
    "unread_memories": [],
}


VERSION = {
    "name": "a.md",
    "version": 3,
    "at": NOON,
    "status": "M",
    "size_bytes": 10,
    "certainty": "likely",
    "agents": ["codex"],
    "sessions": ["s1"],
    "prompts": ["p1"],
    "operation": None,
    "standing": "unverified",
    "tainted": "WebFetch",
    "blob": None,
    "reason": "",
}
REVIEW = {"ok": True, "items": [{**VERSION, "hash": "ab", "added": 2, "removed": 1, "lines": ["- [A](a.md)"]}]}
MARKED = {"ok": True, "names": ["a.md"], "standing": "verified"}
INDEX = {
    "ok": True,
    "path": "/home/u/.openoxide/projects/app/memory",
    "text": "- [A](a.md)",
    "warning": "",
    "lines": 1,
    "units": 11,
    "loaded_lines": 1,
    "first_cut": 0,
    "near": False,
    "left_out": "1 note that the user has not accepted is left out.",
    "moves": [{"line": 3, "text": "- [B](b.md) (file gone)", "reason": "dead"}],
}
CONTEXT = {
    "ok": True,
    "agent": "codex",
    "cwd": "/src/app",
    "size_bytes": 20,
    "sources": [
        {"path": "/src/app/AGENTS.md", "level": "project", "size_bytes": 9, "why": "", "cut": "all but 9 bytes"}
    ],
    "skipped": [{"path": "/src/app/CLAUDE.md", "reason": "codex does not read it"}],
    "memory": {"way": "hook", "text": "notes\n", "size": 6, "cap": 9500, "measure": "bytes", "warning": ""},
}
TOPICS = {
    "ok": True,
    "items": [
        {
            "name": "a.md",
            "title": "A",
            "description": "about a",
            "type": "",
            "size_bytes": 10,
            "modified_at": NOON,
            "standing": "unverified",
            "tainted": "WebFetch",
        }
    ],
}
NOTE = {
    "ok": True, "name": "a.md", "text": "text\n", "hash": "ab", "size_bytes": 5, "cut": "", "redacted": 0, "version": None,
}  # fmt: skip
WRITTEN = {
    "ok": True,
    "name": "a.md",
    "hash": "ab",
    "changed": True,
    "index": [{"did": "added", "name": "a.md"}],
    "advice": [],
    "trash": "",
    "version": 4,
    "notes": [],
}
HITS = {"ok": True, "items": [{"name": "a.md", "title": "A", "snippet": "the [word]", "line": 2}]}
NOTES = {"ok": True, "items": [VERSION]}
BLAMED = {"ok": True, "name": "a.md", "lines": [{"line": 1, "text": "text", "version": 3}], "versions": [VERSION]}
REVERTED = {"ok": True, "written": [WRITTEN], "left": []}
PROMOTED = {
    "ok": True,
    "dry_run": False,
    "worktree": "7",
    "root": "/src/side",
    "path": "/home/u/.openoxide/projects/kkkk/worktrees/7/memory",
    "items": [{"name": "a.md", "became": "added", "reason": "", "retired": True}],
    "notes": [],
}
LINTED = {
    "ok": True,
    "items": [
        {
            "kind": "unlisted",
            "name": "a.md",
            "line": 0,
            "message": "no line leads to it",
            "hint": "add one",
            "error": False,
        }
    ],
    "errors": 0,
}
NOTED = {
    "version": 3,
    "scope": "session",
    "restored": [{"path": "a.md"}],
    "removed": [],
    "merged": [],
    "kept": [],
    "conflicts": [],
    "skipped": [],
    "changed_since": [],
    "notes": [],
    "plan_seq": 5,
}
