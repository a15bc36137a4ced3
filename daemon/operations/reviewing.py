"""``memory history``, ``blame`` and ``revert``: what a project's notes were, who wrote them, and how they are brought back.

All of it is read from the timeline of the memory; what is brought back is a write like any other, so it can be taken back too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from openoxide.checkpoints import journal, rows, sight, store
from openoxide.checkpoints.diff import status_of
from openoxide.checkpoints.history import newest_seqs, read_positions, version_seqs
from openoxide.checkpoints.model import ABSENT as NOTHING
from openoxide.checkpoints.model import PURGED, FileState, Kind, Version, Worktree
from openoxide.clock import rfc3339
from openoxide.daemon.answers import skip_reason, time_or_none, writer_object
from openoxide.daemon.memories import files_at
from openoxide.daemon.operations.remembering import Place, changing, place_of
from openoxide.daemon.protocol import Items, printable
from openoxide.daemon.protocol.memories import (
    BlameAnswer,
    MassDeletion,
    MemoryFile,
    MemoryWritten,
    NoteVersion,
    RevertedAnswer,
)
from openoxide.daemon.requests import Request, flag, number, optional_text, text
from openoxide.db import Transaction
from openoxide.errors import NotFoundError, OpenOxideError, UsageError
from openoxide.memory import secrets
from openoxide.memory.blame import origins
from openoxide.memory.directory import EVERYTHING, MemoryDirectory
from openoxide.memory.editing import ABSENT, sha256, to_text
from openoxide.memory.naming import parts_of
from openoxide.memory.standing import Stand
from openoxide.memory.topics import Memory, Written

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

DEFAULT_LIMIT = 100


def history(service: Service, request: Request, _report: Reporter) -> Items:
    """``memory history [NAME]``: every version, newest first; of all files where none is named. ``next`` is the cursor of the
    following page.
    """
    place, name = place_of(service, request), optional_text(request, "name")
    worktree = recorded_memory(service, place.directory) if name is None else _of_file(service, place, name)
    limit = number(request, "limit") or DEFAULT_LIMIT
    cursor = optional_text(request, "cursor")
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise UsageError(f"cursor {cursor!r} is not one that a listing gave")
    below = int(cursor) if cursor is not None else None
    with service.timeline.database.reading() as db:
        if name is None:
            seqs = newest_seqs(db, worktree.id, below, limit + 1)
        else:
            seqs = version_seqs(db, worktree.id, note_path(name), below, limit + 1)
            if not seqs and below is None:
                raise unknown_note(name)
        found = rows.versions_at(db, worktree.id, seqs[:limit])
    answer: Items = {"ok": True, "items": told(service, worktree, [found[seq] for seq in seqs[:limit]])}
    if len(seqs) > limit:
        answer["next"] = str(seqs[limit - 1])
    if worktree.paused_ms is not None:
        answer["note"] = f"paused since {rfc3339(worktree.paused_ms)}: what changed since then is not in this"
    return answer


def read_version(service: Service, request: Request, _report: Reporter) -> MemoryFile:
    """``memory read NAME --at VERSION``: as it stood at a position."""
    place = place_of(service, request)
    name, at = text(request, "name"), number(request, "version", least=0)
    worktree = _of_file(service, place, name)
    state = _state(service, worktree, name, at)
    raw = bytes_of(service, name, state)
    if raw is None:
        raise NotFoundError(
            f"there was no {printable(name)} at version {at}", hint="`oxide-ctl memory history` lists its versions"
        )
    whole = to_text(raw)
    shown = whole if flag(request, "raw") else place.memory.clean(whole)
    return {
        "ok": True,
        "name": name,
        "text": shown,
        "hash": sha256(raw),
        "size_bytes": len(raw),
        "cut": "",
        "redacted": 0 if shown == whole else len(secrets.find(whole, place.known)),
        "version": at,
    }


def blame(service: Service, request: Request, _report: Reporter) -> BlameAnswer:
    """``memory blame NAME``: which version each line comes from, and who wrote that."""
    place = place_of(service, request)
    name = text(request, "name")
    worktree = _of_file(service, place, name)
    with service.timeline.database.reading() as db:
        seqs = version_seqs(db, worktree.id, note_path(name), None, None)[::-1]
        found = rows.versions_at(db, worktree.id, seqs)
    if not seqs:
        raise unknown_note(name)
    if found[seqs[-1]].state.kind is not Kind.FILE:
        raise NotFoundError(
            f"{printable(name)} is gone", hint=f"`oxide-ctl memory history {printable(name)}` lists its versions"
        )
    # a line of a version that was purged counts from where it stands next
    left = [seq for seq in seqs if found[seq].state != PURGED]
    lines = origins((seq, to_text(bytes_of(service, name, found[seq].state) or b"")) for seq in left)
    named = sorted({seq for _, seq in lines})
    versions = told(service, worktree, [found[seq] for seq in named])
    clean = place.memory.clean("".join(line for line, _ in lines)).splitlines(keepends=True)
    shown = clean if len(clean) == len(lines) else [place.memory.clean(line) for line, _ in lines]
    return {
        "ok": True,
        "name": name,
        "lines": [
            {"line": at, "text": line.rstrip("\n"), "version": seq}
            for at, (line, (_, seq)) in enumerate(zip(shown, lines, strict=True), 1)
        ],
        "versions": versions,
    }


def revert(service: Service, request: Request, _report: Reporter) -> RevertedAnswer:
    """``memory revert NAME [--to VERSION]``: a file as it was before its last change, or at a version. With ``gone`` every
    file that stood at the version, by default before the last mass deletion, and is gone since.
    """
    place = place_of(service, request)
    worktree = recorded_memory(service, place.directory)
    to = number(request, "version", least=0)
    if flag(request, "gone"):
        at = _before_deletion(service, worktree) if to is None else to
        then, now = _files(service, worktree, at), _files(service, worktree, None)
        names = {os.fsdecode(path): state for path, state in then.items() if path not in now}
    else:
        name = text(request, "name")
        names = {name: _state(service, worktree, name, _before(service, worktree, name) if to is None else to)}
    written: list[MemoryWritten] = []
    left: list[dict[str, str]] = []
    for name, state in sorted(names.items(), key=lambda item: item[0] != "MEMORY.md"):
        try:
            written.append(brought_back(service, place, request, name, bytes_of(service, name, state)))
        except OpenOxideError as error:
            if len(names) == 1:
                raise
            left.append({"name": printable(name), "reason": error.message})
    return {"ok": True, "written": written, "left": left}


def brought_back(service: Service, place: Place, request: Request, name: str, raw: bytes | None) -> MemoryWritten:
    """Let a file hold these bytes again, or (None) be gone."""

    def act(memory: Memory) -> Written:
        own = memory.directory.read(name, EVERYTHING)
        if raw is None:
            expect = sha256(own.data if own else None)
            return memory.delete(name, expect=expect) if own else Written(name=name, sha256=ABSENT, changed=False)
        expect = ABSENT
        with suppress(NotFoundError):  # what a staged worktree reads there may be the project's
            expect = memory.read(name).sha256
        # what an editor saved since it was recorded stands nowhere else
        return memory.write(name, to_text(raw), expect=expect, keep=True)

    return changing(service, place, request, act)


def deletions(service: Service, worktree: Worktree) -> list[MassDeletion]:
    """The mass deletions of a memory whose files are still gone: each is a pinned state."""
    with service.timeline.database.reading() as db:
        pinned = [c for c in store.CheckpointQuery(db, worktree.id).listing() if c.pinned]
        now = files_at(db, worktree.id, rows.read_head(db, worktree.id).seq) if pinned else {}
        found: list[MassDeletion] = []
        for checkpoint in pinned:
            gone = sorted(files_at(db, worktree.id, checkpoint.seq).keys() - now.keys())
            if gone:
                found.append(
                    {
                        "at": time_or_none(checkpoint.created_at_ms) or "",
                        "version": checkpoint.seq,
                        "files": [printable(os.fsdecode(path)) for path in gone],
                    }
                )
        return found


def _before_deletion(service: Service, worktree: Worktree) -> int:
    known = deletions(service, worktree)
    if not known:
        raise NotFoundError(
            "no files went at once", hint="`--to VERSION` names a state; `oxide-ctl memory history` lists them"
        )
    return known[0]["version"]


def _of_file(service: Service, place: Place, name: str) -> Worktree:
    """The memory that has the history of a file, as :func:`recorded_memory`: the project's where it never was the worktree's."""
    if place.below is None:
        return recorded_memory(service, place.directory)
    with suppress(NotFoundError):
        own = recorded_memory(service, place.directory)
        with service.timeline.database.reading() as db:
            if rows.ever_recorded(db, own.id, note_path(name)):
                return own
    return recorded_memory(service, place.below)


def recorded_memory(service: Service, directory: MemoryDirectory, *, anew: bool = False) -> Worktree:
    """The memory with all that was done to it until now, or until a pause began. Raises NotFoundError where there never was
    one, RefusedError in a pause where it has to be recorded ``anew``.
    """
    watched = service.memories.of(directory)
    if watched is not None:
        with watched.lock:
            if anew or not watched.paused:
                service.attach(watched)
                watched.record()
        return watched.worktree
    known = service.memories.known(directory)
    if known is None:
        raise NotFoundError("this project has no memory yet", hint="it is made when something is saved")
    return known


def _before(service: Service, worktree: Worktree, name: str) -> int:
    """The version before the newest one; 0, where nothing was, if there is none before."""
    with service.timeline.database.reading() as db:
        seqs = version_seqs(db, worktree.id, note_path(name), None, 2)
    if not seqs:
        raise unknown_note(name)
    return seqs[1] if len(seqs) > 1 else 0


def _state(service: Service, worktree: Worktree, name: str, at: int | None) -> FileState:
    wanted = note_path(name)
    with service.timeline.database.reading() as db:
        if not rows.ever_recorded(db, worktree.id, wanted):
            raise unknown_note(name)
        head = rows.read_head(db, worktree.id).seq
        if at is not None and at > head:
            raise NotFoundError(
                f"there is no version {at} yet: the newest is {head}",
                hint=f"`oxide-ctl memory history {printable(name)}` lists its versions",
            )
        return rows.states_at(db, worktree.id, head if at is None else at, [wanted])[wanted]


def _files(service: Service, worktree: Worktree, at: int | None) -> dict[bytes, FileState]:
    with service.timeline.database.reading() as db:
        return files_at(db, worktree.id, rows.read_head(db, worktree.id).seq if at is None else at)


def bytes_of(service: Service, name: str, state: FileState) -> bytes | None:
    """What a state of ``name`` holds, None where it is no file. Raises NotFoundError where it was purged."""
    if state == PURGED:
        raise NotFoundError(
            f"that version of {printable(name)} was purged: its content is gone for good",
            hint="`oxide-ctl memory history` lists what is left of it",
        )
    return service.timeline.blobs.read(state.blob) if state.kind is Kind.FILE and state.blob is not None else None


def note_path(name: str) -> bytes:
    """The path of a note in its memory. Raises RefusedError."""
    parts_of(name)
    return os.fsencode(name)


def unknown_note(name: str) -> NotFoundError:
    """The error for a note that was never there."""
    return NotFoundError(f"the memory never had {printable(name)}", hint="`oxide-ctl memory history` lists what it had")


def told(service: Service, worktree: Worktree, versions: Sequence[Version]) -> list[NoteVersion]:
    """Versions of a memory as answers show them."""
    stands = service.memories.standings(worktree).of_versions(versions)
    with service.timeline.database.reading() as db:
        return _told(db, worktree, versions, stands)


def _told(
    db: Transaction, worktree: Worktree, versions: Sequence[Version], stands: Mapping[int, Stand]
) -> list[NoteVersion]:
    positions = read_positions(db, worktree.id)
    operations = {operation.id: operation for operation in journal.operations(db, worktree.id)}
    found: list[NoteVersion] = []
    for version in versions:
        older = rows.states_at(db, worktree.id, version.seq - 1, [version.path])[version.path]
        status = status_of(older if older.exists else NOTHING, version.state)
        operation = operations.get(version.writer.operation or 0)
        by = writer_object(
            version.writer,
            sight.windows_by_id(db, version.writer.windows),
            _named(db, operation.public_id, operation.bound) if operation else None,
            1,
        )
        agent = by["agent"]
        found.append(
            {
                "name": printable(os.fsdecode(version.path)),
                "version": version.seq,
                "at": time_or_none(positions.recorded_by(version.seq)),
                "status": status.value if status else None,
                "size_bytes": version.state.size if version.state.kind is Kind.FILE else None,
                "blob": version.state.blob.hex() if version.state.blob is not None else None,
                "reason": skip_reason(version.state),
                "certainty": by["certainty"],
                "agents": [agent] if agent else [],
                "sessions": by["sessions"],
                "prompts": by["prompts"],
                "operation": by["operation"],
                "standing": stands[version.seq].standing.value,
                "tainted": stands[version.seq].tainted,
            }
        )
    return found


def _named(db: Transaction, public_id: str, bound: int | None) -> str:
    """The id of the rewind as the user knows it: that of the operation on the code."""
    whole = journal.by_row(db, bound) if bound is not None else None
    return whole.public_id if whole is not None else public_id
