"""``memory``: a project's notes are read and written here, by one writer. What others did before a write is recorded first, as
theirs, and the write itself at once, with whoever had a window open as its writer.

A memory belongs to a project that is watched: one that is not known is refused, and never another one taken for it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from openoxide.checkpoints import stored
from openoxide.checkpoints.attribution import surely
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import Trigger, WindowKind, Worktree
from openoxide.checkpoints.timeline import Attribute
from openoxide.clock import rfc3339
from openoxide.daemon.operations.symbols import unnamed
from openoxide.daemon.protocol import Items, printable
from openoxide.daemon.protocol.memories import (
    HitItem,
    LintAnswer,
    MemoryFile,
    MemoryIndexAnswer,
    MemoryWritten,
    ToolAnswer,
    TopicItem,
)
from openoxide.daemon.requests import Request, flag, number, optional_text, path, text
from openoxide.daemon.vouched import known_of, vouched
from openoxide.daemon.watched import Label, Watched, writer_between_windows
from openoxide.errors import NotFoundError, OpenOxideError, RefusedError, UsageError
from openoxide.memory import lint as linting
from openoxide.memory import secrets
from openoxide.memory.directory import MEMORY, MemoryDirectory, Raw
from openoxide.memory.editing import ABSENT, Append, Edit, Insert, Replace
from openoxide.memory.index import body_of, loaded
from openoxide.memory.layered import Staged, memory_of
from openoxide.memory.markdown import decoded
from openoxide.memory.naming import INDEX, refused_root
from openoxide.memory.secrets import values_of_env
from openoxide.memory.standing import NOTHING_KNOWN, UNVERIFIED, Shown, shown
from openoxide.memory.toolapi import MemoryTool
from openoxide.memory.topics import Memory, Written
from openoxide.memory.upkeep import Told, suggested

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

T = TypeVar("T")

MOST_ENV_BYTES = 64 << 10
MOST_LINT_BYTES = 8 << 20
PROJECT, WORKTREE = "project", "worktree"
"""Whose a topic is: the project's, or its worktree's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The memory that a request is about, and the tree that it was asked for in."""

    tree: Worktree
    memory: Memory
    known: frozenset[str] = field(default=frozenset())

    @property
    def project(self) -> str:
        return self.tree.project

    @property
    def directory(self) -> MemoryDirectory:
        """Where what is written goes."""
        return self.memory.directory

    @property
    def below(self) -> MemoryDirectory | None:
        """What is read below it."""
        return self.memory.below.directory if isinstance(self.memory, Staged) else None


def place_of(service: Service, request: Request) -> Place:
    """Raises NotFoundError outside of a project, RefusedError in one that has no memory: everything that is started in a home
    directory would share it.
    """
    return place_in(service, service.known(path(request)))


def place_in(service: Service, tree: Worktree) -> Place:
    """The memory of the project of ``tree``. Raises RefusedError."""
    temporary = {Path(os.path.realpath(folder)) for folder in ("/tmp", "/var/tmp", tempfile.gettempdir())}  # noqa: S108
    home = Path(os.path.realpath(Path.home()))
    reason = refused_root(PurePath(os.fsdecode(tree.root)), home, temporary)
    if reason:
        raise RefusedError(f"{os.fsdecode(tree.root)} has no memory: {reason}", hint="watch a project inside it")
    known = _values(tree.root)
    return Place(tree=tree, memory=memory_of(service.memories.layers(tree), service.clock, known), known=known)


def _values(root: bytes) -> frozenset[str]:
    """What must not stand in a note: the values of the project's .env file."""
    with suppress(OSError):
        fd = os.open(os.path.join(root, b".env"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return frozenset(values_of_env(os.read(fd, MOST_ENV_BYTES).decode("utf-8", "replace")))
        finally:
            os.close(fd)
    return frozenset()


# reading


def index(service: Service, request: Request, _report: Reporter) -> MemoryIndexAnswer:
    """``memory index``: what loads of it, and what should move where not all does."""
    place = place_of(service, request)
    raw = place.memory.index()
    known = vouched(service, place.tree, raw, place.memory.listing().names)
    given = Shown(text=body_of(raw), names=()) if known is None else shown(body_of(raw), (), known)
    found = loaded(given.text)
    # before it is cut: half a secret would not be known for one
    clean = loaded(secrets.redact(given.text, place.known))
    moves = suggested(secrets.redact(decoded(raw), place.known))
    return {
        "ok": True,
        "path": os.fspath(place.directory.path),
        "text": clean.text,
        "warning": clean.warning,
        "lines": found.lines,
        "units": found.units,
        "loaded_lines": found.loaded_lines,
        "first_cut": found.first_cut,
        "near": found.is_near,
        "left_out": given.left_out,
        "moves": [{"line": m.line, "text": m.text, "reason": m.reason} for m in moves],
    }


def topics(service: Service, request: Request, _report: Reporter) -> Items:
    """``memory topics``: by name."""
    place = place_of(service, request)
    own = {file.name for file in place.directory.listing().files} if place.directory.worktree else set()
    known = known_of(service, place.tree, b"")
    items: list[TopicItem] = [
        {
            "name": topic.name,
            "title": place.memory.clean(topic.title),
            "description": place.memory.clean(topic.description),
            "type": topic.kind,
            "size_bytes": topic.size,
            "modified_at": rfc3339(topic.mtime_ns // 1_000_000),
            "layer": WORKTREE if topic.name in own else PROJECT,
            "standing": (stand := known.files.get(topic.name, UNVERIFIED)).standing.value,
            "tainted": stand.tainted,
        }
        for topic in place.memory.topics()
    ]
    return {"ok": True, "items": items}


def read(service: Service, request: Request, _report: Reporter) -> MemoryFile:
    """``memory read NAME``: as it stands on the disk, with ``raw`` the secrets too."""
    place = place_of(service, request)
    reading = place.memory.read(text(request, "name"))
    shown = reading.text if flag(request, "raw") else place.memory.clean(reading.text)
    return {
        "ok": True,
        "name": reading.name,
        "text": shown,
        "hash": reading.sha256,
        "size_bytes": reading.size,
        "cut": reading.cut,
        "redacted": 0 if shown == reading.text else len(secrets.find(reading.text, place.known)),
        "version": None,
    }


def search(service: Service, request: Request, _report: Reporter) -> Items:
    """``memory search TEXT``: the best first."""
    place = place_of(service, request)
    wanted, limit = text(request, "text"), number(request, "limit") or 20
    found = service.memories.searching(place.directory, place.memory.clean, frozenset(place.known)).find(wanted, limit)
    if place.below is not None:
        own = set(place.directory.listing().names)
        below = service.memories.searching(place.below, place.memory.clean, frozenset(place.known)).find(wanted, limit)
        found = [*found, *(hit for hit in below if hit.name not in own)][:limit]
    items: list[HitItem] = [
        {"name": hit.name, "title": hit.title, "snippet": hit.snippet, "line": hit.line} for hit in found
    ]
    return {"ok": True, "items": items}


def lint(service: Service, request: Request, _report: Reporter) -> LintAnswer:
    """``memory lint``: everything that is wrong, errors among it."""
    place = place_of(service, request)
    listing = place.memory.listing()
    texts: dict[str, str] = {}
    room = MOST_LINT_BYTES
    for name in listing.names:
        raw = _raw(place, name, room) if name != INDEX and room > 0 else None
        if raw is not None:
            texts[name] = decoded(raw.data)
            room -= len(raw.data)
    first = decoded(place.memory.index())
    doubtful = vouched(service, place.tree, first.encode("utf-8", "surrogatepass"), texts)
    found = linting.lint(
        first,
        texts,
        exists=lambda name: os.path.lexists(os.path.join(place.tree.root, os.fsencode(name))),
        unnamed=lambda symbols: unnamed(service, place.tree, symbols),
        known=place.known,
        refused={one.name: one.reason for one in listing.refused},
        vouched=doubtful or NOTHING_KNOWN,
    )
    return {
        "ok": True,
        "items": [
            {
                "kind": one.kind.value,
                "name": one.file,
                "line": one.line,
                "message": one.text,
                "hint": one.hint,
                "error": one.is_error,
            }
            for one in found
        ],
        "errors": sum(one.is_error for one in found),
    }


def _raw(place: Place, name: str, most: int) -> Raw | None:
    own = place.directory.read(name, most)
    return place.below.read(name, most) if own is None and place.below is not None else own


# writing


def save(service: Service, request: Request, _report: Reporter) -> MemoryWritten:
    """``memory save NAME``: the whole text of a topic, and its line in the index. ``if_hash``: of what was read before, empty
    for a file that is not there yet; left out, a new file.
    """
    place = place_of(service, request)
    name, wanted = text(request, "name"), _body(request)
    told = Told(optional_text(request, "title") or "", optional_text(request, "description") or "")
    section = optional_text(request, "section") or ""
    expect = _expected(request) or ABSENT
    return changing(
        service,
        place,
        request,
        lambda memory: memory.save(
            name, wanted, expect=expect, told=told if told.title or told.hook else None, section=section
        ),
    )


def edit(service: Service, request: Request, _report: Reporter) -> MemoryWritten:
    """``memory edit NAME``: one of ``old`` (with ``text``), ``line`` (with ``text``) or ``append``."""
    place = place_of(service, request)
    name, change, expect = text(request, "name"), _edit(request), _expected(request)
    return changing(service, place, request, lambda memory: memory.edit(name, change, expect=expect))


def delete(service: Service, request: Request, _report: Reporter) -> MemoryWritten:
    """``memory delete NAME``: into the trash. Without ``if_hash`` it is what stands there when the request comes."""
    place = place_of(service, request)
    name, expect = text(request, "name"), _expected(request)

    def act(memory: Memory) -> Written:
        return memory.delete(name, expect=memory.read(name).sha256 if expect is None else expect)

    return changing(service, place, request, act)


def rename(service: Service, request: Request, _report: Reporter) -> MemoryWritten:
    """``memory rename NAME NEW``."""
    place = place_of(service, request)
    name, new, expect = text(request, "name"), text(request, "new"), _expected(request)
    return changing(service, place, request, lambda memory: memory.rename(name, new, expect=expect))


def tool(service: Service, request: Request, _report: Reporter) -> ToolAnswer:
    """A call of Anthropic's memory tool: ``command`` is its input. What it cannot do is an answer too."""
    place = place_of(service, request)
    command = request.get("command")
    if not isinstance(command, dict):
        raise UsageError("command is not the input of a call of the memory tool")
    if command.get("command") == "view":
        answer = MemoryTool(place.memory).run(command)
    else:
        answer, _, _ = recorded(service, place, request, lambda memory: MemoryTool(memory).run(command))
    return {"ok": True, "text": answer.text, "is_error": answer.is_error}


def _expected(request: Request) -> str | None:
    value = request.get("if_hash")
    if value is not None and not isinstance(value, str):
        raise UsageError("if_hash is no text")
    return value


def _body(request: Request, name: str = "text") -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise UsageError(f"{name} is missing or is not text")
    return value


def _edit(request: Request) -> Edit:
    given = [name for name in ("old", "line", "append") if request.get(name) is not None]
    if len(given) != 1:
        raise UsageError("an edit replaces one text, inserts behind one line, or appends", hint="give one of the three")
    match given[0]:
        case "old":
            return Replace(old=text(request, "old"), new=_body(request))
        case "line":
            return Insert(line=number(request, "line", least=0) or 0, text=_body(request))
        case _:
            return Append(text=_body(request, "append"))


def changing(service: Service, place: Place, request: Request, act: Callable[[Memory], Written]) -> MemoryWritten:
    """What ``act`` wrote, recorded, as the answer."""
    written, version, notes = recorded(service, place, request, act)
    return {
        "ok": True,
        "name": written.name,
        "hash": written.sha256,
        "changed": written.changed,
        "index": [{"did": change.did.value, "name": change.name} for change in written.index],
        "advice": list(written.advice),
        "trash": written.trash,
        "version": version,
        "notes": notes,
    }


def recorded(
    service: Service, place: Place, request: Request, act: Callable[[Memory], T], trigger: Trigger = Trigger.MANUAL
) -> tuple[T, int | None, list[str]]:
    """Let ``act`` write: what it answered, the position that holds what it did (None where that could not be recorded), and
    what is to be said of it. The folder is made first, so that its first file is seen to come.
    """
    with place.directory.opened(MEMORY, create=True):
        service.memories.sync(place.tree)
    watched = service.memories.of(place.directory)
    if watched is None:
        raise NotFoundError(f"{place.directory.path} is gone", hint="try again")
    with watched.lock:
        service.attach(watched)
        watched.record()
        place.memory.put.clear()
        done = act(place.memory)
        try:
            label = Label(trigger=trigger, turn=watched.only_turn, only_if_changed=True)
            seq = watched.seal(label, _writer(watched, request)).seq
            return done, seq, _overtaken(service, place.memory)
        # it is written, and the next recording takes it in: a failure would say that it is not
        except OpenOxideError as error:
            return done, None, [f"it is written, but not recorded yet: {error.message}"]


def _overtaken(service: Service, memory: Memory) -> list[str]:
    """Keep what was written and recorded by nobody: an editor that had read the text before it renamed its own over ours."""
    names = {name: blob_hash(text) for name, text in memory.put.items()}
    with service.timeline.database.looking() as db:
        known = stored.stored_names(db, names.values())
    return [
        f"somebody wrote over {printable(name)} in the same moment; your text is in the trash as"
        f" {memory.put_aside(name, memory.put[name])}"
        for name, content in names.items()
        if content not in known
    ]


def _writer(watched: Watched, request: Request) -> Attribute | None:
    """An agent that says in which session it writes is the writer for sure."""
    session = optional_text(request, "session")
    mine = [window for window in watched.windows if window.session == session]
    mine.sort(key=lambda window: (window.kind is WindowKind.TOOL, window.id))
    if session is None or not mine:
        return writer_between_windows(watched.windows)
    writer = surely(mine[-1].id)
    return lambda _: writer
