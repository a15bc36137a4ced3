"""``memory review``, ``verify`` and ``dispute``: the user says which notes hold. What agents get follows; the files stay as they
are, but for those that are rejected, and that is a write like any other.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from openoxide.checkpoints import rows, vouching
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.history import version_seqs
from openoxide.checkpoints.model import BlobHash, Mark, Worktree
from openoxide.daemon.operations.briefing import refresh
from openoxide.daemon.operations.remembering import Place, changing, place_of
from openoxide.daemon.operations.reviewing import brought_back, told
from openoxide.daemon.protocol import Items, printable
from openoxide.daemon.protocol.memories import MarkedAnswer, MemoryWritten, NoteVersion, RevertedAnswer, ReviewItem
from openoxide.daemon.requests import Request, flag, optional_text, text, texts
from openoxide.daemon.standings import text_hash
from openoxide.daemon.vouched import contents_now, recorded_memory, stands_now
from openoxide.errors import ConflictError, NotFoundError, OpenOxideError, UsageError
from openoxide.memory.directory import EVERYTHING
from openoxide.memory.editing import lines_of, sha256, to_text
from openoxide.memory.index import entries
from openoxide.memory.markdown import decoded
from openoxide.memory.naming import INDEX
from openoxide.memory.standing import Standing, Vouched, line_text
from openoxide.memory.topics import Memory, Written

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service


class _Inbox:
    """What waits in one memory: ``files`` with their contents, and ``lines`` of the index by the file that they wait with."""

    def __init__(self, service: Service, place: Place) -> None:
        self.worktree = _memory(service, place)
        raw = place.directory.index().data
        self.known = stands_now(service, self.worktree, raw)
        contents = contents_now(service, self.worktree)
        waiting = sorted(name for name, one in self.known.files.items() if one.standing is Standing.UNVERIFIED)
        self.lines = _lines_by_file(decoded(raw), self.known, waiting)
        self.files = {name: contents[name] for name in [*waiting, INDEX] if name != INDEX or INDEX in self.lines}


def _lines_by_file(index: str, known: Vouched, waiting: Sequence[str]) -> dict[str, list[str]]:
    leads = {entry.line: entry.name for entry in entries(index)}
    found: dict[str, list[str]] = {}
    for at, line in enumerate(index.split("\n"), 1):
        if line.strip() and known.of_line(line, None).standing is Standing.UNVERIFIED:
            name = leads.get(at, INDEX)
            found.setdefault(name if name in waiting else INDEX, []).append(line_text(line))
    return found


def _memory(service: Service, place: Place) -> Worktree:
    worktree = recorded_memory(service, place.directory)
    if worktree is None:
        raise NotFoundError("this project has no memory yet", hint="it is made when something is saved")
    return worktree


def review(service: Service, request: Request, _report: Reporter) -> Items:
    """``memory review``: the files that an agent wrote and nobody has accepted, whatever the policy is."""
    place = place_of(service, request)
    inbox = _Inbox(service, place)
    items = [_item(service, place, inbox, name, content) for name, content in inbox.files.items()]
    return {"ok": True, "items": items}


def _item(service: Service, place: Place, inbox: _Inbox, name: str, content: BlobHash) -> ReviewItem:
    worktree, lines = inbox.worktree, inbox.lines.get(name, [])
    version = _brought_by(service, worktree, name, content, lines)
    raw = _read(place, name)
    before = None if name == INDEX else _vouched_before(service, worktree, name)
    old, new = (Counter(lines_of(to_text(one or b""))) for one in (before, raw))
    # of the index it is not the file that waits, but lines of it
    added, removed = (len(lines), 0) if name == INDEX else ((new - old).total(), (old - new).total())
    tainted = version["tainted"] if name != INDEX else _tainted(inbox.known, lines)
    clean = [place.memory.clean(line) for line in lines]
    return {
        **version, "name": printable(name), "standing": Standing.UNVERIFIED.value, "tainted": tainted,
        "hash": sha256(raw), "added": added, "removed": removed, "lines": clean,
    }  # fmt: skip


def _tainted(known: Vouched, lines: Iterable[str]) -> str:
    return next(filter(None, (known.lines[line].tainted for line in lines if line in known.lines)), "")


def _brought_by(
    service: Service, worktree: Worktree, name: str, content: BlobHash, lines: Sequence[str]
) -> NoteVersion:
    """The version that brought the text, be it under another name; of lines of the index the newest of those."""
    standings = service.memories.standings(worktree)
    first = standings.first_of_lines(lines) if name == INDEX else standings.first_of(content)
    with service.timeline.database.reading() as db:
        newest = version_seqs(db, worktree.id, os.fsencode(name), None, 1)[0]
        found = rows.versions_at(db, worktree.id, {first or newest, newest})
    return told(service, worktree, [found.get(first or newest, found[newest])])[0]


def _vouched_before(service: Service, worktree: Worktree, name: str) -> bytes | None:
    """The last text of a file that somebody vouched for, None where there never was one."""
    with service.timeline.database.reading() as db:
        seqs = version_seqs(db, worktree.id, os.fsencode(name), None, None)
        found = rows.versions_at(db, worktree.id, seqs)
    stands = service.memories.standings(worktree).of_versions(list(found.values()))
    for seq in seqs:
        content = found[seq].state.blob
        if content is not None and stands[seq].standing is Standing.VERIFIED:
            return service.timeline.blobs.read(content)
    return None


def mark(service: Service, request: Request, _report: Reporter) -> MarkedAnswer:
    """``memory verify``, ``memory dispute`` and ``memory review --accept``: what the user says of the files ``names`` as they are
    now (``all``: of all that wait). With ``if_hash`` only if the one that is named is still that.
    """
    place, said = place_of(service, request), Mark(_one_of(request, "standing", Mark))
    worktree = _memory(service, place)
    names = list(_Inbox(service, place).files) if flag(request, "all") else texts(request, "names")
    if said is Mark.DISPUTED and INDEX in names:
        raise UsageError(f"{INDEX} is disputed line by line", hint="dispute the topic, or edit the line")
    expect, found = optional_text(request, "if_hash"), []
    for name in names:
        raw = _read(place, name)
        if raw is None:
            raise NotFoundError(
                f"the memory has no {printable(name)}", hint="`oxide-ctl memory topics` lists what it has"
            )
        if expect not in (None, sha256(raw)):
            raise ConflictError(f"{printable(name)} was changed since it was read", hint="read it again")
        found += _texts(place, name, raw, said)
    with service.timeline.database.writing() as db:
        vouching.set_mark(db, worktree.id, found, said, service.clock.now_ms())
    service.background.submit(f"context {worktree.id}", partial(refresh, service, worktree))
    return {"ok": True, "names": names, "standing": said.value}


def _texts(place: Place, name: str, raw: bytes, said: Mark) -> list[BlobHash]:
    """A file, and what is accepted along with it: its lines, if it is the index, else those of the index that lead to it."""
    if said is Mark.DISPUTED:
        return [blob_hash(raw)]
    index = decoded(raw if name == INDEX else place.directory.index().data)
    leads = {entry.line for entry in entries(index) if entry.name == name}
    lines = [line for at, line in enumerate(index.split("\n"), 1) if name == INDEX or at in leads]
    return [blob_hash(raw), *(text_hash(line_text(line)) for line in lines if line.strip())]


def reject(service: Service, request: Request, _report: Reporter) -> RevertedAnswer:
    """``memory review --reject``: a file becomes the last text of it that somebody vouched for, or goes to the trash; the index
    loses the lines that wait. `memory revert` takes it back.
    """
    place = place_of(service, request)
    waiting = list(_Inbox(service, place).files)
    names = [*waiting, INDEX] if flag(request, "all") else texts(request, "names")
    written: list[MemoryWritten] = []
    left: list[dict[str, str]] = []
    for name in sorted(dict.fromkeys(names), key=lambda name: name == INDEX):
        try:
            if name not in waiting and name != INDEX:
                raise NotFoundError(
                    f"{printable(name)} does not wait", hint="`oxide-ctl memory review` lists what does"
                )
            written.append(_rejected(service, place, request, name))
        except OpenOxideError as error:
            if len(names) == 1:
                raise
            left.append({"name": printable(name), "reason": error.message})
    return {"ok": True, "written": [one for one in written if one["changed"]], "left": left}


def _rejected(service: Service, place: Place, request: Request, name: str) -> MemoryWritten:
    inbox = _Inbox(service, place)
    if name != INDEX:
        return brought_back(service, place, request, name, _vouched_before(service, inbox.worktree, name))
    gone = set(inbox.lines.get(INDEX, ()))

    def act(memory: Memory) -> Written:
        raw = memory.directory.index().data
        kept = [line for line in to_text(raw).split("\n") if line_text(line) not in gone]
        return memory.write(INDEX, "\n".join(kept), expect=sha256(raw))

    return changing(service, place, request, act)


def _read(place: Place, name: str) -> bytes | None:
    found = place.directory.read(name, EVERYTHING)
    return None if found is None else found.data


def _one_of(request: Request, name: str, known: type[Mark]) -> str:
    value = text(request, name)
    if value not in [one.value for one in known]:
        raise UsageError(f"{name} is none of {', '.join(one.value for one in known)}")
    return value
