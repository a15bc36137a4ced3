"""``memory context``, and what a session is given at its start: the project's memory in each agent's own form, under its cap.

Agents without a hook read a file that is generated beside the memory, never in the tree; it is written anew whenever the
memory has changed, once somebody asked for it.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from openoxide.checkpoints import store
from openoxide.checkpoints.model import Worktree
from openoxide.daemon.operations.remembering import Place, place_in, place_of
from openoxide.daemon.protocol import printable
from openoxide.daemon.protocol.memories import ContextAnswer
from openoxide.daemon.requests import Request, flag, optional_text, path, text
from openoxide.daemon.vouched import vouched
from openoxide.errors import NotFoundError, OpenOxideError, RefusedError, UsageError
from openoxide.fileio import fsync_folder, replace_file, write_errors
from openoxide.memory.context import WAYS, Agent, Context, Notes, Way, context
from openoxide.memory.directory import MemoryDirectory
from openoxide.memory.gathering import DiskFiles, Places, places_from
from openoxide.memory.hierarchy import options_from
from openoxide.memory.layered import Staged
from openoxide.memory.scraps import memories_in
from openoxide.memory.standing import VERIFIED

if TYPE_CHECKING:
    from openoxide.daemon.server import Reporter
    from openoxide.daemon.service import Service

GENERATED = "context"
HEADING = b"# Memory\n"
VARIABLES = ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")

log = logging.getLogger(__name__)


def briefing(service: Service, request: Request, _report: Reporter) -> ContextAnswer:
    """``memory context``: all that ``agent`` gets where it starts, with ``file`` also what it gets when it reads that one.
    ``write``: generate the file for an agent that has no hook.
    """
    place = place_of(service, request)
    agent = _agent(text(request, "agent"))
    named = optional_text(request, "file")
    found = context(
        agent,
        PurePath(os.fsdecode(_folder(path(request)))),
        files=DiskFiles(),
        places=_places(request),
        file=PurePath(named) if named else None,
        notes=replace(_notes(service, place), file=str(_generated(place.directory, agent))),
    )
    answer = _answer(found)
    if flag(request, "write"):
        if WAYS[agent] is not Way.FILE:
            raise UsageError(
                f"{agent.value} needs no file: its hook gives it the memory",
                hint="see docs/memory.md for the hook; opencode and aider read a file",
            )
        answer["written"] = printable(str(_generate(service, place, agent)))
    return answer


def at_start(service: Service, agent: str, folder: bytes) -> str:
    """What the hook prints when a session of ``agent`` starts in ``folder``: nothing where there is no memory, or where the
    agent loads it by itself.
    """
    known = _agent(agent)
    try:
        place = place_in(service, service.known(folder))
        notes = _notes(service, place)
    except (NotFoundError, RefusedError):
        return ""
    if not notes.index.strip() and not notes.names:
        return ""
    service.background.submit(f"maintain {place.directory.path}", lambda: _maintain(service, place))
    places = places_from(os.environ, Path.home())
    cwd = PurePath(os.fsdecode(folder))
    options = options_from(DiskFiles(), places, cwd) if known is Agent.CLAUDE else None
    found = context(known, cwd, files=_NoFiles(), places=places, notes=notes, options=options)
    if found.memory is None or found.memory.way is not Way.HOOK:
        return ""
    # of UTF-8 only: half a surrogate pair is no JSON to clients that are strict
    said = found.memory.text.encode("utf-8", "replace").decode()
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": said}}) + "\n"


class _NoFiles(DiskFiles):
    """The agent reads its instruction files by itself: only the memory's part is asked for."""

    def read(self, path: PurePath) -> None:
        return None

    def names(self, folder: PurePath) -> list[str]:
        return []


def _maintain(service: Service, place: Place) -> None:
    """Give each new topic its line, when no prompt waits for it, and let go of what was deleted a month ago. It is nobody's
    writing.
    """
    # the project's too: where all its worktrees have notes of their own nobody else does it
    for memory in (place.memory, *([place.memory.below] if isinstance(place.memory, Staged) else [])):
        watched = service.memories.of(memory.directory)
        if watched is None or watched.paused:
            continue
        with watched.lock:
            service.attach(watched)
            watched.record()
            memory.maintain()
            # a clock that was set would make all of it old
            if service.clock_mark.look().trusted:
                memory.empty_trash()


def refresh(service: Service, memory: Worktree) -> None:
    """Write the generated files that hold notes of a memory anew, those that somebody asked for."""
    trees = [tree.worktree for tree in service.memories.readers(memory)]
    # one of those that share a memory
    for tree in {service.memories.layers(tree).own.path: tree for tree in reversed(trees)}.values():
        for agent in _asked_for(service.memories.layers(tree).own):
            try:
                _generate(service, place_in(service, tree), agent)
            except OpenOxideError as error:
                log.warning("what %s gets of a memory is not up to date: %s", agent.value, error)


def stale(service: Service, project: str) -> int:
    """How many generated files of a project hold another text than its memories say now, or a part of one."""
    return sum(
        place is None
        or _beside(target).exists()
        or not target.exists()
        or target.read_bytes() != _text(service, place, agent)
        for place, agent, target in _asked_for_in(service, project)
    )


def generate_anew(service: Service, project: str) -> None:
    """Let the generated files of a project, and of what its worktrees have of their own, hold nothing that the memories do
    not. Raises OpenOxideError where one cannot be written; those of a memory that no tree has for its own by now go, as nobody
    keeps them up to date.
    """
    for place, agent, target in _asked_for_in(service, project):
        if place is not None:
            _generate(service, place, agent)
            continue
        with write_errors(str(target)):
            for file in (_beside(target), target):
                file.unlink(missing_ok=True)
            fsync_folder(target.parent)


def _asked_for_in(service: Service, project: str) -> list[tuple[Place | None, Agent, Path]]:
    """The generated files of a project, each with the memory that it is made of."""
    return [
        (place, agent, _generated(directory, agent))
        for directory in memories_in(service.home.folder)
        if directory.project == project and (agents := _asked_for(directory))
        for place in (_any_place(service, directory),)
        for agent in agents
    ]


def _asked_for(directory: MemoryDirectory) -> list[Agent]:
    found = ((agent, _generated(directory, agent)) for agent, way in WAYS.items() if way is Way.FILE)
    return [agent for agent, target in found if target.exists() or _beside(target).exists()]


def _any_place(service: Service, directory: MemoryDirectory) -> Place | None:
    """The memory by way of a tree that writes to it, a watched one if there is any."""
    with service.timeline.database.reading() as db:
        trees = [tree for tree in store.worktrees(db) if tree.project == directory.project and not tree.is_memory]
    ours = [tree for tree in trees if service.memories.layers(tree).own.path == directory.path]
    tree = min(ours, key=lambda tree: (not tree.watching, tree.id), default=None)
    try:
        return None if tree is None else place_in(service, tree)
    except RefusedError:
        return None


def _text(service: Service, place: Place, agent: Agent) -> bytes:
    found = context(
        agent, PurePath("/"), files=_NoFiles(), places=places_from({}, Path("/")), notes=_notes(service, place)
    )
    return (found.memory.text if found.memory else "").encode("utf-8", "replace")


def _generate(service: Service, place: Place, agent: Agent) -> Path:
    target, data = _generated(place.directory, agent), _text(service, place, agent)
    with service.memories.generating, write_errors(str(target)), place.directory.opened(GENERATED, create=True):
        # of a run that was killed, with what the notes said then
        _beside(target).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            if target.read_bytes() == data:
                return target
        replace_file(target, data)
    return target


def _beside(target: Path) -> Path:
    """Where it is written before it takes its place (fileio.replace_file)."""
    return target.with_name(target.name + ".new")


def _generated(directory: MemoryDirectory, agent: Agent) -> Path:
    return directory.path.parent / GENERATED / f"{agent.value}.md"


def _notes(service: Service, place: Place) -> Notes:
    raw = place.memory.index()
    names = tuple(place.memory.listing().names)
    known = vouched(service, place.tree, raw, names)
    index = raw
    if names and not raw.strip():
        # a memory of topics alone has something to say too
        index, known = HEADING, known and replace(known, lines={HEADING.decode().strip(): VERIFIED})
    return Notes(
        path=os.fspath(place.directory.path),
        project=_shown(place.tree),
        index=index,
        names=names,
        known=place.known,
        below=os.fspath(place.below.path) if place.below else "",
        vouched=known,
    )


def _shown(tree: Worktree) -> str:
    return printable(os.fsdecode(tree.root))


def _agent(name: str) -> Agent:
    try:
        return Agent(name)
    except ValueError as error:
        known = ", ".join(agent.value for agent in Agent)
        raise UsageError(f"agent {name!r} is none that is known", hint=f"one of {known}") from error


def _folder(named: bytes) -> bytes:
    return named if os.path.isdir(named) else os.path.dirname(named)


def _places(request: Request) -> Places:
    """Where the agents of the user who asks look: their variables, not those that the daemon was started with."""
    given = request.get("environ") or {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise UsageError("environ is not an object of texts")
    home = Path(given.get("HOME") or Path.home())
    return places_from({name: given[name] for name in VARIABLES if given.get(name)}, home)


def _answer(found: Context) -> ContextAnswer:
    memory = found.memory
    return {
        "ok": True,
        "agent": found.agent.value,
        "cwd": printable(found.cwd),
        "size_bytes": found.size,
        "sources": [
            {
                "path": printable(source.path),
                "level": source.level.value,
                "size_bytes": source.size,
                "why": source.why,
                "cut": source.cut,
            }
            for source in found.sources
        ],
        "skipped": [{"path": printable(one.path), "reason": one.reason} for one in found.skipped],
        "memory": None
        if memory is None
        else {
            "way": memory.way.value,
            "text": memory.text,
            "size": memory.size,
            "cap": memory.cap,
            "measure": memory.measure,
            "warning": memory.loaded.warning,
        },
    }
