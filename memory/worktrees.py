"""Which memory a worktree has, by policy, and how one that was kept apart becomes part of the project's.

``shared`` (the default): all worktrees of a project have one. ``separate``: each its own. ``staged``: each its own on top of
the project's, until it is promoted, so that what is only true on a branch stays there. A memory never lies in the tree: one
that is deleted takes nothing along.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import assert_never

from openoxide.errors import ConflictError, NotFoundError, OpenOxideError, RefusedError
from openoxide.memory.directory import WORKTREES, MemoryDirectory, Refused
from openoxide.memory.editing import ABSENT, keep_both, sha256, to_bytes, to_text
from openoxide.memory.index import entries
from openoxide.memory.markdown import page_of
from openoxide.memory.naming import INDEX, SUFFIX, is_topic
from openoxide.memory.topics import Memory, Reading, Topic
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

    @property
    def both(self) -> list[MemoryDirectory]:
        """All that a worktree reads, its own first."""
        return [self.own, self.below] if self.below else [self.own]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """What became of a topic: ``added``, ``same``, ``both`` where the project had another text and keeps every line of
    both, or ``refused``. ``sha256`` is of what was promoted.
    """

    name: str
    became: str
    reason: str = ""
    sha256: str = field(default="", compare=False)


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
    return [name for name in names if _holds_notes(home, project, name)]


def _holds_notes(home: Path, project: str, name: str) -> bool:
    try:
        return bool(MemoryDirectory(home, project, name).listing().files)
    except OpenOxideError:  # what somebody put there is nobody's memory
        return False


def orphans(home: Path, project: str, live: Collection[str]) -> list[str]:
    """Those whose worktree is gone: kept, and offered for promotion."""
    return [worktree for worktree in kept_apart(home, project) if worktree not in live]


def index_of(found: Layers) -> bytes:
    """The index that an agent is given: the worktree's own lines first, then those of the project, but for topics that are
    the worktree's own by now.
    """
    own = found.own.index().data
    below = to_text(found.below.index().data) if found.below else ""
    if not below:
        return own
    names = set(found.own.listing().names)
    hidden = {entry.line for entry in entries(below) if entry.name in names}
    start = page_of(below).body_at
    lines = [line for at, line in enumerate(below.split("\n"), 1) if at > start and at not in hidden]
    return own + (b"\n" if own and not own.endswith(b"\n") else b"") + to_bytes("\n".join(lines))


def promote(source: Memory, target: Memory, *, dry_run: bool = False) -> list[Promoted]:
    """Bring every topic of a worktree's memory into the project's; nothing that either holds is lost, and the source stays.
    What the project's memory would refuse, such as a secret, is told and left where it is. With ``dry_run`` nothing is
    written.
    """
    listing = source.directory.listing()
    left = [Refused(name, f"a topic ends in {SUFFIX}") for name in listing.names if not _is_note(name)]
    done = [_promote_topic(topic, source, target, dry_run=dry_run) for topic in source.topics()]
    done += _promote_notes(source, target, dry_run=dry_run)
    return done + [Promoted(name=one.name, became="refused", reason=one.reason) for one in (*left, *listing.refused)]


def _is_note(name: str) -> bool:
    return name == INDEX or is_topic(name)


def _promote_topic(topic: Topic, source: Memory, target: Memory, *, dry_run: bool) -> Promoted:
    reading = source.read(topic.name)
    try:
        there = target.read(topic.name)
    except NotFoundError:
        there = None
    # a part would take the place of the whole
    if cut := reading.cut or (there.cut if there else ""):
        return Promoted(name=topic.name, became="refused", reason=cut)
    if there is None:
        told = Told(topic.title, topic.description)
        return _saved(target, reading, ABSENT, "added", told=told, dry_run=dry_run)
    # the project's lines first where both have some in one place
    both = keep_both(reading.text, there.text)
    # the project holds every line of it already
    if there.text in {both, reading.text}:
        return Promoted(name=topic.name, became="same", sha256=reading.sha256)
    return _saved(target, replace(reading, text=both), there.sha256, "both", before=there.text, dry_run=dry_run)


def _saved(
    target: Memory,
    wanted: Reading,
    expect: str,
    became: str,
    *,
    told: Told | None = None,
    before: str = "",
    dry_run: bool,
) -> Promoted:
    try:
        if dry_run:
            target.refuse(wanted.name, wanted.text, expect, before)
        else:
            target.write(wanted.name, wanted.text, expect=expect, told=told)
    # a conflict: somebody wrote there meanwhile, and a second promotion takes that in
    except (RefusedError, ConflictError) as error:
        became = "same" if "same_as" in error.details else "refused"
        return Promoted(name=wanted.name, became=became, reason=error.message, sha256=wanted.sha256)
    return Promoted(name=wanted.name, became=became, sha256=wanted.sha256)


def _promote_notes(source: Memory, target: Memory, *, dry_run: bool) -> list[Promoted]:
    """Notes that stand in the index itself, and lead to no topic."""
    there = to_text(target.directory.index().data)
    new = [line for line in _notes(source) if line not in there.split("\n")]
    if not new:
        return []
    expect = sha256(to_bytes(there)) if there else ABSENT
    text = "\n".join(new) + "\n" + there
    wanted = Reading(name=INDEX, text=text, sha256=sha256(source.directory.index().data), size=len(text))
    return [_saved(target, wanted, expect, "both", before=there, dry_run=dry_run)]


def _notes(source: Memory) -> list[str]:
    text = to_text(source.directory.index().data)
    linked = {entry.line for entry in entries(text)}
    return [line for at, line in enumerate(text.split("\n"), 1) if line.strip() and at not in linked and line[0] != "#"]


def retire(source: Memory, target: Memory, done: Iterable[Promoted]) -> list[str]:
    """Move what was promoted, and is as it was then, to the trash of the memory that it came from: a copy that stays would
    hide what becomes of it in the project. The names that went.
    """
    gone: list[str] = []
    for one in done:
        if one.became == "refused" or one.name == INDEX:
            continue
        with suppress(ConflictError, NotFoundError):
            source.delete(one.name, expect=one.sha256)
            gone.append(one.name)
    index = source.directory.read(INDEX)
    if index and _is_spent(index.data, source, target):
        with suppress(ConflictError, NotFoundError):
            source.delete(INDEX, expect=sha256(index.data))
            gone.append(INDEX)
    return gone


def _is_spent(index: bytes, source: Memory, target: Memory) -> bool:
    """Whether nothing stands in the index but headings, notes that the project has, and lines of topics that went there:
    those that a retirement which was killed has left.
    """
    there = to_text(target.directory.index().data).split("\n")
    went = set(target.directory.listing().names) - set(source.directory.listing().names)
    named = {entry.name for entry in entries(to_text(index))}
    return named <= went and all(line in there for line in _notes(source))
