"""What goes with a note that is purged: all of its versions but the one that stands, under the names that it had before too, and
whatever else in the project's memories, that of all and those of worktrees, holds a secret of those: older versions of other
notes, texts in the trash, what a killed writer has left.

What stands is the user's own. It is never touched: where it still holds such a secret, it is a refusal, or told of.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import purging, rows, store
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash, FileState, Kind, Worktree
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.purging import Wanted
from openoxide.checkpoints.tree import Tree, recorded_identity
from openoxide.daemon.memories import whose
from openoxide.daemon.operations.remembering import Place, place_of
from openoxide.daemon.operations.reviewing import note_path, recorded_memory, unknown_note
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.requests import Request, texts
from openoxide.errors import NotFoundError, OpenOxideError, RefusedError, RootVanishedError, UsageError
from openoxide.memory import secrets
from openoxide.memory.directory import MOST_READ_BYTES, MemoryDirectory
from openoxide.memory.editing import to_text
from openoxide.memory.scraps import Scrap, scraps

if TYPE_CHECKING:
    from openoxide.daemon.service import Service

LEAST_TORN = 16  # what is shorter is the beginning of anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What else is to be found than contents by their names. ``words`` and ``whole`` are texts of the user's, and stand in no
    answer and no log: secrets, and contents whose beginning a killed writer may have left. ``others``: contents that go for a
    word alone; ``left``: what the user has to take out; ``nothing``: the error where nothing is to go.
    """

    project: str = ""
    words: frozenset[bytes] = field(default=frozenset(), repr=False)
    whole: tuple[bytes, ...] = field(default=(), repr=False)
    others: frozenset[BlobHash] = frozenset()
    left: tuple[str, ...] = ()
    refusal: OpenOxideError | None = None
    nothing: OpenOxideError | None = None

    def wants(self, project: str, names: Collection[BlobHash], scrap: Scrap) -> bool:
        """Whether a file beside the memory of ``project`` goes, where the contents ``names`` do."""
        if blob_hash(scrap.data) in names:
            return True
        if project != self.project:
            return False
        is_torn = scrap.is_left and len(scrap.data) >= LEAST_TORN
        return self.holds(scrap.data) or (is_torn and any(text.startswith(scrap.data) for text in self.whole))

    def holds(self, data: bytes) -> bool:
        """Whether one of the words stands in it."""
        return any(word in data for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """The memory as it is, and the others of its project. ``named``: paths of notes and folders; ``sizes``: of every content
    that any of them ever had, in bytes; ``ours``: those of what is named; ``standing``: what each path of each memory holds
    now, on the disk too.
    """

    place: Place
    worktree: Worktree
    named: tuple[bytes, ...]
    sizes: dict[BlobHash, int]
    ours: frozenset[BlobHash]
    standing: dict[tuple[Worktree, bytes], BlobHash]

    def is_named(self, memory: Worktree, path: bytes) -> bool:
        return memory.id == self.worktree.id and within_paths(path, self.named)


def wanted_notes(service: Service, request: Request) -> tuple[Wanted, Sought]:
    """``purge --memory NAME...``. Raises RefusedError in a pause: what stands there is not recorded then."""
    place = place_of(service, request)
    directory, asked = _asked(service, place, texts(request, "memory"))
    worktree = recorded_memory(service, directory, anew=True)
    with service.timeline.database.reading() as db:
        named = (*asked, *former_names(asked, purging.held_by(db, worktree.id)))
    # what was refused, or put aside, was never recorded
    beside = {blob_hash(s.data): s.data for s in _put_aside(directory, named) if s.data}
    notes = _looked_up(service, place, worktree, named)
    for path in asked:
        with service.timeline.database.reading() as db:
            if not beside and not rows.ever_recorded(db, worktree.id, path):
                raise unknown_note(os.fsdecode(path))
    kept = {blob for (memory, path), blob in notes.standing.items() if notes.is_named(memory, path)}
    gone = _texts(service, notes, notes.ours - kept) | {name: text for name, text in beside.items() if name not in kept}
    words = frozenset(word for text in gone.values() for word in _words(text, place.known))
    sought = Sought(project=place.project, words=words, whole=tuple(gone.values()))
    rest = notes.sizes.keys() - notes.ours - {*notes.standing.values()}
    others = frozenset(name for name, text in _texts(service, notes, rest).items() if sought.holds(text))
    names = (notes.ours - kept) | gone.keys() | others
    return Wanted(names=frozenset(names), worktree=worktree.id, paths=named), _told(service, notes, sought, others)


def former_names(named: Collection[bytes], held: Mapping[bytes, Sequence[BlobHash | None]]) -> list[bytes]:
    """What the notes at ``named`` were called before: paths that are gone, and last ``held`` what one of them held first."""
    found: list[bytes] = []
    waiting = [path for path in held if within_paths(path, tuple(named))]
    while waiting:
        first = next(filter(None, held[waiting.pop()]), None)
        older = [
            path
            for path, contents in held.items()
            if first is not None
            and contents[-1] is None
            and next(filter(None, reversed(contents)), None) == first
            and not within_paths(path, (*named, *found))
        ]
        found += older
        waiting += older
    return sorted(found)


def _asked(service: Service, place: Place, typed: Collection[str]) -> tuple[MemoryDirectory, tuple[bytes, ...]]:
    """The memory that has the notes, and their paths in it. Raises UsageError where they are of two."""
    found = {name: _found(service, place, name) for name in typed}
    directories = {directory.path: directory for directory, _ in found.values()}
    if len(directories) > 1:
        ours = ", ".join(printable(name) for name, (directory, _) in found.items() if directory is place.directory)
        raise UsageError(
            f"{ours} is the worktree's own, and the others are the project's", hint="purge them one after the other"
        )
    (directory,) = directories.values()
    return directory, tuple(path for _, path in found.values())


def _found(service: Service, place: Place, typed: str) -> tuple[MemoryDirectory, bytes]:
    """A note as answers name its place is that note too. One that was never the worktree's own is the project's."""
    below = place.below
    for directory in (place.directory, *([below] if below else [])):
        if typed.startswith(f"{directory.path}/"):
            return directory, note_path(typed.removeprefix(f"{directory.path}/"))
    path = note_path(typed)
    if below is not None and not _has(service, place.directory, path) and _has(service, below, path):
        return below, path
    return place.directory, path


def _has(service: Service, directory: MemoryDirectory, path: bytes) -> bool:
    """Whether a note was ever there, or was put aside without."""
    with suppress(NotFoundError):
        worktree = recorded_memory(service, directory, anew=True)
        with service.timeline.database.reading() as db:
            if rows.ever_recorded(db, worktree.id, path):
                return True
    return bool(_put_aside(directory, (path,)))


def _put_aside(directory: MemoryDirectory, named: tuple[bytes, ...]) -> list[Scrap]:
    return [scrap for scrap in scraps(directory) if scrap.name and within_paths(os.fsencode(scrap.name), named)]


def _looked_up(service: Service, place: Place, worktree: Worktree, named: tuple[bytes, ...]) -> _Notes:
    memories = _memories(service, place.project)
    with service.timeline.database.reading() as db:
        heads = {memory: rows.state_at(db, memory.id, rows.read_head(db, memory.id).seq) for memory in memories}
        return _Notes(
            place=place,
            worktree=worktree,
            named=named,
            sizes={
                blob: size for memory in memories for blob, size in purging.contents_of(db, memory.id, (b"",)).items()
            },
            ours=frozenset(purging.contents_of(db, worktree.id, named)),
            standing={
                (memory, path): blob for memory, head in heads.items() for path, blob in _standing(memory, head).items()
            },
        )


def _memories(service: Service, project: str) -> list[Worktree]:
    """Those of a project, its worktrees' own among them, read or not; each as far as it can be recorded."""
    with service.timeline.database.reading() as db:
        known = [worktree for worktree in store.worktrees(db) if worktree.is_memory and worktree.project == project]
    found: list[Worktree] = []
    for memory in known:
        try:
            found.append(recorded_memory(service, service.memories.directory(*whose(memory.root))))
        except OpenOxideError:  # it cannot be looked at now: as it was recorded
            found.append(memory)
    service.memories.let_go_unused(project)
    return found


def _told(service: Service, notes: _Notes, sought: Sought, others: frozenset[BlobHash]) -> Sought:
    """With what is to be said of the notes that stand."""
    live = _texts(service, notes, notes.standing.values())
    standing = {place: live.get(notes.standing[place], b"") for place in sorted(notes.standing, key=_order)}
    holding = [place for place, text in standing.items() if sought.holds(text)]
    return replace(
        sought,
        others=others,
        left=tuple(_also(notes, *place) for place in holding if not notes.is_named(*place)),
        refusal=_refusal([path for memory, path in holding if notes.is_named(memory, path)], notes.worktree),
        nothing=_nothing(
            {path: text for (memory, path), text in standing.items() if notes.is_named(memory, path)}, notes.place
        ),
    )


def _order(place: tuple[Worktree, bytes]) -> tuple[int, bytes]:
    memory, path = place
    return memory.id, path


def _standing(worktree: Worktree, head: Mapping[bytes, FileState]) -> dict[bytes, BlobHash]:
    files = {path: state.blob for path, state in head.items() if state.kind is Kind.FILE and state.blob is not None}
    try:
        with Tree(worktree.root, recorded_identity(worktree)) as tree:
            return {path: blob for path, blob in files.items() if tree.lstat(path) is not None}
    except (OSError, RootVanishedError):  # the memory is gone, and nothing of it stands
        return {}


def _texts(service: Service, notes: _Notes, names: Iterable[BlobHash]) -> dict[BlobHash, bytes]:
    found = {}
    for name in names:
        # of what is damaged, or longer than any note, nobody looks what is in it: it goes by its name
        if notes.sizes.get(name, 0) <= MOST_READ_BYTES:
            with suppress(OpenOxideError):
                found[name] = service.timeline.blobs.read(name)
    return found


def _words(text: bytes, known: Collection[str]) -> list[bytes]:
    found = secrets.find(to_text(text), known)
    return [secret.value.encode("utf-8", "surrogateescape") for secret in found]


def _also(notes: _Notes, memory: Worktree, path: bytes) -> str:
    name = printable(os.fsdecode(path))
    where = "the memory" if memory.id == notes.worktree.id else printable(os.fsdecode(memory.root))
    return f"{name} in {where} holds a secret of what is purged, and stands there: take it out, and purge that note too"


def _refusal(holding: list[bytes], worktree: Worktree) -> OpenOxideError | None:
    if not holding:
        return None
    root = printable(os.fsdecode(worktree.root))
    return RefusedError(
        f"{printable(os.fsdecode(holding[0]))} stands there still, with a secret that is to be purged",
        hint=f"{_way_out(holding[0])}, and purge again; nothing was changed",
        details={"paths": [{**path_entry(path, "stands there still"), "root": root} for path in holding]},
    )


def _nothing(standing: Mapping[bytes, bytes], place: Place) -> OpenOxideError:
    for path, text in standing.items():
        name = printable(os.fsdecode(path))
        if _words(text, place.known):
            return RefusedError(
                f"{name} stands there still, with a secret in it, and no other version of it is stored",
                hint=f"{_way_out(path)}, and purge again; nothing was changed",
            )
        return NotFoundError(
            f"of {name} only what stands there is stored",
            hint=f"it may have been purged already; `oxide-ctl memory delete {shlex.quote(name)}` comes before a purge of that",
        )
    return NotFoundError("nothing of these notes is stored", hint="they may have been purged already")


def _way_out(path: bytes) -> str:
    name = shlex.quote(printable(os.fsdecode(path)))
    return f"take it out (`oxide-ctl memory edit {name}`) or delete the note (`oxide-ctl memory delete {name}`)"
