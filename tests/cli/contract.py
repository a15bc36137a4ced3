"""What the contract promises of answers, in one place for the tests that hold the real daemon to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.cli.harness import Machine

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
IDENT = re.compile(r"[k-z]{16}")
CHECKPOINT = {
    "id", "number", "seq", "created_at", "expires_at", "trigger", "name", "pinned", "complete", "late", "changed", "skipped",
    "manifest_hash",
}  # fmt: skip
REWIND = {
    "operation", "checkpoint", "pre_rewind_checkpoint", "restored", "removed", "merged", "kept", "conflicts", "skipped",
    "changed_since", "untouched",
}  # fmt: skip
TURN = ("--agent", "codex", "--session", "s1", "--prompt", "p1")
TOOL = ("--agent", "codex", "--session", "s1", "--tool", "t1")


def paths(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [entry["path"] for entry in entries]


def sealed(machine: Machine, name: str = "") -> dict[str, Any]:
    """A checkpoint sealed now."""
    return machine.json("checkpoint", *(("-m", name) if name else ()))
