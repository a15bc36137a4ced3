"""``memory promote``: what a worktree noted for itself becomes the project's; and which notes nobody reads any more.

A promotion first writes to the project's memory, each topic durable, and only then moves what it came from to the trash there:
killed in between, another one finds the rest the same, and goes on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import store
from openoxide.checkpoints.model import Trigger, Worktree
from openoxide.daemon.operations.likeness import is_gone
from openoxide.daemon.operations.remembering import Place, place_of, recorded
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.memories import KeptNotes, PromotedAnswer
from openoxide.daemon.requests import Request, flag, optional_text
from openoxide.errors import AmbiguousError, NotFoundError, OpenOxideError
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.topics import Memory
from openoxide.memory.worktrees import Policy, Promoted, kept_apart, promote, retire

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

GONE, POLICY = "gone", "policy"
"""Why nobody reads a memory: its worktree is gone, or ``memory.worktrees`` says something else by now."""


def promoting(service: Service, request: Request, _report: Reporter) -> PromotedAnswer:
    """The notes of the worktree ``from`` (its id, or its root; by default the one that is asked in) become the project's.
    ``dry_run`` says what would become of them.
    """
    place = place_of(service, request)
    trees = _trees(service, place.project)
    worktree = _chosen(service, place, trees, optional_text(request, "from"))
    directory = service.memories.directory(place.project, worktree)
    source = Memory(directory, service.clock)
    target = Memory(service.memories.directory(place.project), service.clock, place.known)
    notes: list[str] = []
    gone: list[str] = []
    if flag(request, "dry_run"):
        done = promote(source, target, dry_run=True)
    else:
        try:
            project = replace(place, memory=target)
            done, _, notes = recorded(service, project, request, lambda memory: promote(source, memory))
            if not _is_read_alone(service, trees.get(worktree)):
                gone = _retired(service, replace(place, memory=source), request, target, done, notes)
        finally:
            service.memories.let_go_unused(place.project)
    owner = trees.get(worktree)
    return {
        "ok": True,
        "dry_run": flag(request, "dry_run"),
        "worktree": worktree,
        "root": printable(os.fsdecode(owner.root)) if owner else None,
        "path": printable(str(directory.path)),
        "items": [
            {
                "name": printable(one.name),
                "became": one.became,
                "reason": printable(one.reason),
                "retired": one.name in gone,
            }
            for one in done
        ],
        "notes": notes,
    }


def _retired(
    service: Service, place: Place, request: Request, target: Memory, done: list[Promoted], notes: list[str]
) -> list[str]:
    try:
        # an operation's: that many notes go at once is meant
        gone, _, more = recorded(
            service, place, request, lambda source: retire(source, target, done), trigger=Trigger.REWIND
        )
    # the project has it by now: a failure would say that it has not
    except OpenOxideError as error:
        notes.append(f"it is the project's now, and still in {place.directory.path}: {error.message}")
        return []
    notes += [note for note in more if note not in notes]
    return gone


def _is_read_alone(service: Service, owner: Worktree | None) -> bool:
    """Whether the worktree reads these notes and not the project's: then they stay."""
    return owner is not None and not is_gone(owner) and service.memories.policy(owner) is Policy.SEPARATE


def _trees(service: Service, project: str) -> dict[str, Worktree]:
    """The worktrees of a project by their ids, watched or not."""
    with service.timeline.database.reading() as db:
        return {str(w.id): w for w in store.worktrees(db) if w.project == project and not w.is_memory}


def _chosen(service: Service, place: Place, trees: Mapping[str, Worktree], named: str | None) -> str:
    known = kept_apart(service.home.folder, place.project)
    if named is None:
        found = [worktree for worktree in known if worktree == str(place.tree.id)]
    else:
        root = os.path.realpath(os.fsencode(named))
        found = [w for w in known if w == named] or [w for w in known if w in trees and trees[w].root == root]
    if len(found) == 1:
        return found[0]
    choices = ", ".join(f"--from {w} ({_named(trees.get(w))})" for w in (found or known))
    if found:
        raise AmbiguousError(f"{len(found)} worktrees stood at {named}", hint=f"say which one: {choices}")
    who = "this worktree" if named is None else printable(named)
    raise NotFoundError(
        f"{who} has no notes of its own", hint=f"there is {choices}" if known else "no worktree of the project has any"
    )


def _named(owner: Worktree | None) -> str:
    return printable(os.fsdecode(owner.root)) if owner else "its history was deleted"


def unread(service: Service, tree: Worktree) -> list[KeptNotes]:
    """The memories of the project of ``tree`` that nobody reads any more: kept, and offered for promotion."""
    trees = _trees(service, tree.project)
    oxide_ctl = f"oxide-ctl -C {shlex.quote(printable(os.fsdecode(tree.root)))}"
    found: list[KeptNotes] = []
    for worktree in kept_apart(service.home.folder, tree.project):
        owner = trees.get(worktree)
        if owner is not None and not is_gone(owner) and service.memories.policy(owner) is not Policy.SHARED:
            continue
        directory = service.memories.directory(tree.project, worktree)
        reason = POLICY if owner is not None and not is_gone(owner) else GONE
        found.append(_kept(directory, owner, reason, f"{oxide_ctl} memory promote --from {worktree}"))
    project = service.memories.directory(tree.project)
    here = [one for one in trees.values() if not is_gone(one)]
    if here and all(service.memories.policy(one) is Policy.SEPARATE for one in here) and project.listing().files:
        # it is what others are promoted into: that it is read again is a matter of the policy
        found.append(_kept(project, None, POLICY, f"{oxide_ctl} config set memory.worktrees staged --project"))
    return found


def _kept(directory: MemoryDirectory, owner: Worktree | None, reason: str, command: str) -> KeptNotes:
    return {
        "worktree": directory.worktree,
        "root": printable(os.fsdecode(owner.root)) if owner else None,
        "path": printable(str(directory.path)),
        "files": len(directory.listing().files),
        "reason": reason,
        "command": command,
    }
