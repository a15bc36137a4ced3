"""``purge``: contents go from everywhere in the home, and ``purged`` stands where they stood."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, purging, store
from openoxide.checkpoints.hashing import HASH_BYTES, blob_hash
from openoxide.checkpoints.model import BlobHash, Worktree
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.purging import Doomed, Wanted
from openoxide.checkpoints.scrub import packs_holding
from openoxide.checkpoints.tree import Tree, recorded_identity
from openoxide.daemon.operations import residue
from openoxide.daemon.operations.hooking import take_up
from openoxide.daemon.operations.looking import require_known
from openoxide.daemon.operations.sweeping import sweep_ended
from openoxide.daemon.operations.watching import shown
from openoxide.daemon.operations.withdrawing import Sought, wanted_notes
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.protocol.purges import PurgeAnswer, PurgedPath
from openoxide.daemon.requests import Request, flag, optional_text, path, paths, texts
from openoxide.db import Transaction
from openoxide.errors import (
    AmbiguousError,
    ConflictError,
    InterruptedOperationError,
    NotFoundError,
    OpenOxideError,
    RefusedError,
    RootVanishedError,
    UsageError,
    error_object,
)
from openoxide.ids import short

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

SAME_SECRET, BESIDE = "the same secret", "put aside"
LEAST_DIGITS, MOST_NAMED, MOST_FREE = 8, 20, 3
OUT_OF_REACH = (
    "backups and snapshots of the home, and other copies of it",
    "blocks of the disk that were freed and not written over yet; flash keeps such for long",
    "the worktrees themselves, objects of git, and whatever else has read the files",
)
_NOT_RECORDED = (NotFoundError, RefusedError, RootVanishedError)


def purge(service: Service, request: Request, report: Reporter) -> PurgeAnswer:
    """``purge PATH... | --memory NAME... | --blob HASH``. ``plan`` is that of the dry run that was agreed to."""
    dry_run, agreed = flag(request, "dry_run"), optional_text(request, "plan")
    with service.purging:
        with service.timeline.database.reading() as db:
            was_pending = purging.pending(db) is not None
        done = service.finish_purge()
        report({"stage": "looking", "done": 0, "total": 0, "bytes": 0})
        take_up(service)  # a hook that nobody listened to has told what a tool wrote
        wanted, sought = _wanted(service, request)
        doomed = _up_to_date(service, wanted)
        packs = doomed.packs | packs_holding(service.home.blobs, doomed.wanted.names)
        beside = residue.look(service, doomed, sought)
        nothing = not (doomed.versions or doomed.late or doomed.steps or packs or beside.holds_any)
        if nothing and not was_pending:
            raise sought.nothing or _nothing(request)
        standing, unwatched = _standing(service, doomed)
        answer = _answer(service, doomed, beside, packs, standing, sought)
        answer["notes"] += [
            f"{shown(root)} is not watched: watching it again records what stands there" for root in unwatched
        ]
        if nothing:  # an earlier purge had everything but its files left
            return {**answer, "dry_run": dry_run, "finished": done}
        refusal = _unsettled(service, doomed) or sought.refusal or _standing_still(answer, doomed, standing)
        if dry_run:
            # before any question: no yes would mend it
            answer["refused"] = error_object(refusal) if refusal else None
            return answer
        if refusal:
            raise refusal
        if agreed is not None and agreed != answer["plan"]:
            raise _changed()
        report({"stage": "rewriting", "done": 0, "total": 0, "bytes": 0})
        residue.remove(service, doomed, beside, sought)
        with service.timeline.database.writing() as db:
            again = purging.find(db, doomed.wanted)
            if _plan_of(again) != _plan_of(doomed):
                raise _changed()
            purging.purge_rows(db, again, packs)
        service.timeline.blobs.forget_frames()
        answer["dry_run"], answer["finished"] = False, _finished(service)
        return answer


def _wanted(service: Service, request: Request) -> tuple[Wanted, Sought]:
    if sum(bool(request.get(kind)) for kind in ("paths", "memory", "blobs")) != 1:
        raise UsageError("one of paths, memory and blobs is needed", hint="`oxide-ctl purge --help` tells them apart")
    database = service.timeline.database
    if request.get("memory"):
        return wanted_notes(service, request)
    if request.get("blobs"):
        with database.reading() as db:
            return Wanted(names=frozenset(_named(db, typed) for typed in texts(request, "blobs"))), Sought()
    worktree = service.known(path(request))
    chosen = paths(request, worktree.root)
    require_known(service.view(worktree), chosen)
    # what is recorded only now belongs to these paths as well
    _bring_up_to_date(service, [worktree.id])
    with database.reading() as db:
        return purging.wanted_of_paths(db, worktree.id, chosen), Sought()


def _named(db: Transaction, typed: str) -> BlobHash:
    digits = typed.lower()
    if not LEAST_DIGITS <= len(digits) <= 2 * HASH_BYTES or set(digits) - set("0123456789abcdef"):
        raise UsageError(
            f"{typed!r} is no name of a content: {LEAST_DIGITS} to {2 * HASH_BYTES} hexadecimal digits",
            hint="`oxide-ctl history PATH --json` has them as `state.hash`",
        )
    found = purging.names_like(db, digits)
    if not found:
        raise NotFoundError(f"no content's name begins with {digits}", hint="it may have been purged already")
    if len(found) > 1:
        raise AmbiguousError(f"{len(found)} contents' names begin with {digits}", hint="give more digits")
    if purging.is_empty(found[0]):
        raise UsageError("that is the name of an empty file, which holds nothing to purge")
    return found[0]


def _nothing(request: Request) -> NotFoundError:
    what = "these paths have no content that is stored" if request.get("paths") else "nothing in this home holds it"
    return NotFoundError(what, hint="it may have been purged already")


def _up_to_date(service: Service, wanted: Wanted) -> Doomed:
    """Every place, after what waits to be recorded or swept there has been."""
    with service.timeline.database.reading() as db:
        concerned = purging.find(db, wanted).worktrees
    _bring_up_to_date(service, concerned)
    with service.timeline.database.reading() as db:
        return purging.find(db, wanted)


def _bring_up_to_date(service: Service, concerned: Collection[int]) -> None:
    """Record what waits in every tree that is attached, and see to it that the ``concerned`` ones are."""
    for watched in service.all_watched():
        is_concerned = watched.worktree.id in concerned
        if not (is_concerned or watched.attached):
            continue
        with suppress(*_NOT_RECORDED), watched.lock:
            service.attach(watched)
            watched.record()
        # not under that lock (sweep_ended): it hashes what lies in staging
        if is_concerned:
            with suppress(OpenOxideError):
                sweep_ended(service, watched)


def _standing(service: Service, doomed: Doomed) -> tuple[set[tuple[int, bytes]], list[bytes]]:
    """Worktree and path of what stands on the disk still and would be recorded once more, and roots that are not watched
    where something stands as well.
    """
    with service.timeline.database.reading() as db:
        known = {worktree.id: worktree for worktree in store.worktrees(db)}
    there = [place for place in purging.live_places(doomed) if _stands(known[place[0]], place[1])]
    # a memory is watched as long as a tree reads it
    watched = {w.id for w in known.values() if w.watching and (not w.is_memory or service.memories.readers(w))}
    unwatched = {known[number].root for number, _ in there if number not in watched}
    return {place for place in there if place[0] in watched}, sorted(unwatched)


def _stands(worktree: Worktree, wanted: bytes) -> bool:
    try:
        with Tree(worktree.root, recorded_identity(worktree)) as tree:
            return tree.lstat(wanted) is not None
    except (OSError, RootVanishedError):
        return False


def _unsettled(service: Service, doomed: Doomed) -> OpenOxideError | None:
    with service.timeline.database.reading() as db:
        begun = [o for worktree in sorted(doomed.worktrees) for o in journal.open_operations(db, worktree)]
    if not begun:
        return None
    return InterruptedOperationError(
        f"operation {short(begun[-1].public_id)} is not settled, and may need what is to be purged",
        hint="run `oxide-ctl rewind --continue` or `oxide-ctl rewind --abort` first",
    )


def _standing_still(answer: PurgeAnswer, doomed: Doomed, standing: set[tuple[int, bytes]]) -> OpenOxideError | None:
    items = [item for item in answer["paths"] if item["standing"]]
    if not items:
        return None
    first = f"{items[0]['root']}/{items[0]['path']}"
    others = f" and {len(items) - 1} more stand" if len(items) > 1 else " stands"
    them = "them" if len(items) > 1 else "it"
    free = [shown(name) for name in _unhindered(doomed, standing)]
    more = f" and {len(free) - MOST_FREE} more" if len(free) > MOST_FREE else ""
    return RefusedError(
        f"{first}{others} there still and would be recorded once more",
        hint=f"{_way_out(items, them)}, and purge again; nothing was changed"
        + (f"; nothing is in the way of a purge of {', '.join(free[:MOST_FREE])}{more} alone" if free else ""),
        details={"paths": [{**item, "reason": "stands there still"} for item in items[:MOST_NAMED]]},
    )


def _way_out(items: Sequence[PurgedPath], them: str) -> str:
    notes = [item["path"] for item in items if item["memory"]]
    if not notes:
        return f"delete or change {them}, or name {them} in .oxideignore"
    note = "a note" if len(notes) < len(items) else "it" if len(notes) == 1 else "each"
    way = f"change {note} by `oxide-ctl memory edit` or delete it by `oxide-ctl memory delete`, in its project"
    return (
        way if len(notes) == len(items) else f"delete or change {them}, or name files of a tree in .oxideignore; {way}"
    )


def _unhindered(doomed: Doomed, standing: set[tuple[int, bytes]]) -> list[bytes]:
    """What was named, is not standing, and never had a content that stands anywhere."""
    here, contents, hindered = doomed.wanted.worktree, defaultdict[bytes, set[BlobHash | None]](set), set()
    for version in doomed.versions:
        name, content = version.gone.path, version.gone.state.blob
        if version.is_last and (version.worktree, name) in standing:
            hindered.add(content)
        if doomed.wanted.paths and version.worktree == here and within_paths(name, doomed.wanted.paths):
            contents[name].add(content)
    # a link has none, and is in nobody's way
    free = (name for name, had in contents.items() if not (had & hindered) - {None})
    return sorted(name for name in free if (here, name) not in standing)


def _changed() -> ConflictError:
    return ConflictError("what is to be purged has changed since it was shown", hint="nothing was purged; look again")


def _finished(service: Service) -> bool:
    try:
        return service.finish_purge()
    except OpenOxideError as error:
        error.hint = (
            f"{error.hint + '; ' if error.hint else ''}no row names it any more, its bytes may be there still: the daemon"
            " goes on with that once a minute and at its next start"
        )
        raise


def _plan_of(doomed: Doomed) -> str:
    """Names what a plan is about: another one has another."""
    parts = [*sorted(doomed.wanted.names), *(b"%d@%d" % (v.path, v.gone.seq) for v in sorted(doomed.versions))]
    return blob_hash(b"\0".join(parts)).hex()[:16]


def _answer(
    service: Service,
    doomed: Doomed,
    beside: residue.Beside,
    packs: frozenset[int],
    standing: set[tuple[int, bytes]],
    sought: Sought,
) -> PurgeAnswer:
    with service.timeline.database.reading() as db:
        known = {worktree.id: worktree for worktree in store.worktrees(db)}
        checkpoints = purging.held_checkpoints(db, doomed.versions)
    places = {
        "versions": len(doomed.versions),
        "checkpoints": checkpoints,
        "operations": len(doomed.late) + len(doomed.steps),
        "staging": beside.staged,
        "packs": len(packs),
        "big": len(doomed.bigs),
        "aside": len(beside.aside),
        "logs": len(beside.logs),
        "trash": sum(len(found) for _, found in beside.scraps),
        "context": beside.generated,
    }
    return {
        "ok": True,
        "dry_run": True,
        "finished": False,
        "plan": _plan_of(doomed),
        "refused": None,
        "contents": len(doomed.wanted.names),
        "freed_bytes": doomed.stored_bytes,
        "paths": [*_paths(doomed, known, standing, sought), *_beside(beside)],
        "places": places,
        "left": [*beside.left, *sought.left],
        "out_of_reach": list(OUT_OF_REACH),
        "notes": [],
    }


def _paths(
    doomed: Doomed, known: Mapping[int, Worktree], standing: set[tuple[int, bytes]], sought: Sought
) -> list[PurgedPath]:
    counts: dict[tuple[int, bytes], int] = {}
    for version in doomed.versions:
        place = (version.worktree, version.gone.path)
        counts[place] = counts.get(place, 0) + 1
    for late in doomed.late:
        counts.setdefault((late.worktree, late.path), 0)
    alike = {(v.worktree, v.gone.path) for v in doomed.versions if v.gone.state.blob in sought.others}
    chosen = doomed.wanted.paths
    return [
        {
            **path_entry(name, SAME_SECRET if (worktree, name) in alike else ""),
            "root": shown(known[worktree].root),
            "versions": number,
            "named": bool(chosen) and worktree == doomed.wanted.worktree and within_paths(name, chosen),
            "standing": (worktree, name) in standing,
            "memory": known[worktree].is_memory,
        }
        for (worktree, name), number in sorted(counts.items())
    ]


def _beside(beside: residue.Beside) -> list[PurgedPath]:
    return [
        {
            **path_entry(os.fsencode(place), BESIDE),
            "root": printable(str(directory.path.parent)),
            "versions": 0,
            "named": False,
            "standing": False,
            "memory": True,
        }
        for directory, places in beside.scraps
        for place in places
    ]
