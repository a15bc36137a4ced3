"""Which memory a worktree has, by policy, and how one that was kept apart becomes part of the project's.

``shared`` (the default): all worktrees of a project have one. ``separate``: each its own. ``staged``: each its own on top of
the project's, until it is promoted, so that what is only true on a branch stays there. A memory never lies in the tree: one
that is deleted takes nothing along.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import assert_never

from openoxide.errors import NotFoundError, RefusedError
from openoxide.memory.directory import WORKTREES, MemoryDirectory
from openoxide.memory.editing import ABSENT, keep_both, sha256, to_bytes, to_text
from openoxide.memory.index import entries
from openoxide.memory.markdown import page_of
from openoxide.memory.naming import INDEX
from openoxide.memory.topics import Memory, Topic
from openoxide.memory.upkeep import Told


class Policy(str, Enum):
    """``memory.worktrees`` of config.toml."""

    SHARED = "shared"
    SEPARATE = "separate"
    STAGED = "staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """``own`` is where a worktree's writes go; what ``below`` holds is read too, under it."""

    own: MemoryDirectory
    below: MemoryDirectory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """What became of a topic: ``added``, ``same``, ``both`` where the project had another text and keeps every line of
    both, or ``refused``.
    """

    name: str
    became: str
    reason: str = ""


def layers(home: Path, project: str, worktree: str, policy: Policy) -> Layers:
    """The memory of a worktree of a project; ids as the store has them. Raises RefusedError for a worktree of no project."""
    if not project:
        # never the one that was used last: that is how notes end in another project (M16)
        raise RefusedError("this directory belongs to no project", hint="run `oxide-ctl watch` in it first")
    match policy:
        case Policy.SHARED:
            return Layers(own=MemoryDirectory(home, project))
        case Policy.SEPARATE:
            return Layers(own=MemoryDirectory(home, project, worktree))
        case Policy.STAGED:
            return Layers(own=MemoryDirectory(home, project, worktree), below=MemoryDirectory(home, project))
        case _:
            assert_never(policy)


def kept_apart(home: Path, project: str) -> list[str]:
    """The worktrees that have, or had, a memory of their own with something in it."""
    try:
        with MemoryDirectory(home, project).opened(WORKTREES) as folder:
            names = sorted(os.listdir(folder))
    except NotFoundError:
        return []
    return [name for name in names if MemoryDirectory(home, project, name).listing().files]


def orphans(home: Path, project: str, live: Collection[str]) -> list[str]:
    """Those whose worktree is gone: kept, and offered for promotion."""
    return [worktree for worktree in kept_apart(home, project) if worktree not in live]


def index_of(found: Layers) -> bytes:
    """The index that an agent is given: the worktree's own lines first, then those of the project."""
    own = found.own.index().data
    below = to_bytes(page_of(to_text(found.below.index().data)).body) if found.below else b""
    return own + (b"\n" if own and not own.endswith(b"\n") else b"") + below if below else own


def promote(source: Memory, target: Memory) -> list[Promoted]:
    """Bring every topic of a worktree's memory into the project's; nothing that either holds is lost, and the source stays.
    What the project's memory would refuse, such as a secret, is told and left where it is.
    """
    done = [_promote_topic(topic, source, target) for topic in source.topics()]
    return done + _promote_notes(source, target)


def _promote_topic(topic: Topic, source: Memory, target: Memory) -> Promoted:
    text = source.read(topic.name).text
    try:
        there = target.read(topic.name)
    except NotFoundError:
        return _saved(target, topic.name, text, ABSENT, "added", Told(topic.title, topic.description))
    # the project's lines first where both have some in one place
    both = keep_both(text, there.text)
    # the project holds every line of it already
    if there.text in {both, text}:
        return Promoted(name=topic.name, became="same")
    return _saved(target, topic.name, both, there.sha256, "both")


def _saved(target: Memory, name: str, text: str, expect: str, became: str, told: Told | None = None) -> Promoted:
    try:
        target.write(name, text, expect=expect, told=told)
    except RefusedError as error:
        return Promoted(name=name, became="same" if "same_as" in error.details else "refused", reason=error.message)
    return Promoted(name=name, became=became)


def _promote_notes(source: Memory, target: Memory) -> list[Promoted]:
    """Notes that stand in the index itself, and lead to no topic."""
    own = to_text(source.directory.index().data)
    linked = {entry.line for entry in entries(own)}
    notes = [line for at, line in enumerate(own.split("\n"), 1) if line.strip() and at not in linked and line[0] != "#"]
    there = to_text(target.directory.index().data)
    new = [line for line in notes if line not in there.split("\n")]
    if not new:
        return []
    expect = sha256(to_bytes(there)) if there else ABSENT
    return [_saved(target, INDEX, "\n".join(new) + "\n" + there, expect, "both")]
