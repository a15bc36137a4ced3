"""What goes with a note that is purged: all of its versions but the one that stands, under the names that it had before too, and
whatever else in its memory holds a secret of those: older versions of other notes, texts in the trash, what a killed writer has
left.

What stands is the user's own. It is never touched: where it still holds such a secret, it is a refusal, or told of.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openoxide.checkpoints import purging, rows
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash, FileState, Kind, Worktree
from openoxide.checkpoints.plan import within_paths
from openoxide.checkpoints.purging import Wanted
from openoxide.checkpoints.tree import Tree, recorded_identity
from openoxide.daemon.operations.remembering import Place, place_of
from openoxide.daemon.operations.reviewing import note_path, recorded_memory, unknown_note
from openoxide.daemon.protocol import path_entry, printable
from openoxide.daemon.requests import Request, texts
from openoxide.errors import NotFoundError, OpenOxideError, RefusedError, RootVanishedError
from openoxide.memory import secrets
from openoxide.memory.directory import MOST_READ_BYTES
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
    """The memory as it is. ``named``: paths of notes and folders; ``sizes``: of every content that it ever had, in bytes;
    ``ours``: those of what is named; ``standing``: what each path holds now, on the disk too.
    """

    place: Place
    worktree: Worktree
    named: tuple[bytes, ...]
    sizes: dict[BlobHash, int]
    ours: frozenset[BlobHash]
    standing: dict[bytes, BlobHash]

    def is_named(self, path: bytes) -> bool:
        return within_paths(path, self.named)


def wanted_notes(service: Service, request: Request) -> tuple[Wanted, Sought]:
    """``purge --memory NAME...``. Raises RefusedError in a pause: what stands there is not recorded then."""
    place = place_of(service, request)
    worktree = recorded_memory(service, place, anew=True)
    asked = tuple(note_path(_name(place, name)) for name in texts(request, "memory"))
    with service.timeline.database.reading() as db:
        named = (*asked, *former_names(asked, purging.held_by(db, worktree.id)))
    # what was refused, or put aside, was never recorded
    beside = {
        blob_hash(s.data): s.data for s in scraps(place.directory) if s.name and s.data and _is_below(s.name, named)
    }
    notes = _looked_up(service, place, worktree, named)
    for path in asked:
        with service.timeline.database.reading() as db:
            if not beside and not rows.ever_recorded(db, worktree.id, path):
                raise unknown_note(os.fsdecode(path))
    kept = {blob for path, blob in notes.standing.items() if notes.is_named(path)}
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


def _is_below(name: str, named: tuple[bytes, ...]) -> bool:
    return within_paths(os.fsencode(name), named)


def _looked_up(service: Service, place: Place, worktree: Worktree, named: tuple[bytes, ...]) -> _Notes:
    with service.timeline.database.reading() as db:
        head = rows.state_at(db, worktree.id, rows.read_head(db, worktree.id).seq)
        return _Notes(
            place=place,
            worktree=worktree,
            named=named,
            sizes=purging.contents_of(db, worktree.id, (b"",)),
            ours=frozenset(purging.contents_of(db, worktree.id, named)),
            standing=_standing(worktree, head),
        )


def _told(service: Service, notes: _Notes, sought: Sought, others: frozenset[BlobHash]) -> Sought:
    """With what is to be said of the notes that stand."""
    live = _texts(service, notes, notes.standing.values())
    standing = {path: live.get(blob, b"") for path, blob in sorted(notes.standing.items())}
    holding = [path for path, text in standing.items() if sought.holds(text)]
    return replace(
        sought,
        others=others,
        left=tuple(_also(path) for path in holding if not notes.is_named(path)),
        refusal=_refusal([path for path in holding if notes.is_named(path)], notes.worktree),
        nothing=_nothing({path: text for path, text in standing.items() if notes.is_named(path)}, notes.place),
    )


def _name(place: Place, typed: str) -> str:
    """A note as answers name its place is that note too."""
    return typed.removeprefix(f"{place.directory.path}/")


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


def _also(path: bytes) -> str:
    name = printable(os.fsdecode(path))
    return (
        f"{name} in the memory holds a secret of what is purged, and stands there: take it out, and purge that note too"
    )


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
