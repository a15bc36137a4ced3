"""A memory on top of the project's: what is written stays above, what is not there is read below.

A topic of the project that is edited here is first copied up; from then on the copy hides it. What is the project's alone
cannot be deleted or renamed from here: whoever shares it would miss it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from openoxide.clock import Clock
from openoxide.errors import ConflictError, RefusedError
from openoxide.memory.directory import EVERYTHING, MOST_READ_BYTES, Listing, MemoryDirectory
from openoxide.memory.editing import ABSENT, Append, Edit, edited, refuse_twice, require, sha256, to_text
from openoxide.memory.naming import INDEX
from openoxide.memory.topics import Memory, Reading, Topic, Written
from openoxide.memory.upkeep import Told
from openoxide.memory.worktrees import Layers, index_of
from openoxide.memory.writing import writing


def memory_of(found: Layers, clock: Clock, known: Collection[str] = ()) -> Memory:
    """The memory that a worktree with these layers reads and writes."""
    if found.below is None:
        return Memory(found.own, clock, known)
    return Staged(found.own, found.below, clock, known)


class Staged(Memory):
    """A worktree's own memory in ``directory``, with the project's ``below`` it. ``MEMORY.md`` is read as that of both, with
    the own lines first, and written as the own one.
    """

    def __init__(
        self, directory: MemoryDirectory, below: MemoryDirectory, clock: Clock, known: Collection[str] = ()
    ) -> None:
        super().__init__(directory, clock, known)
        self.below = Memory(below, clock, known)

    def index(self) -> bytes:
        return index_of(Layers(own=self.directory, below=self.below.directory))

    def listing(self) -> Listing:
        own, below = self.directory.listing(), self.below.directory.listing()
        files = {file.name: file for file in (*below.files, *own.files)}
        return Listing(
            files=tuple(files[name] for name in sorted(files)),
            folders=tuple(sorted({*own.folders, *below.folders})),
            refused=own.refused + below.refused,
        )

    def topics(self) -> list[Topic]:
        found = {topic.name: topic for topic in (*self.below.topics(), *self._own_topics())}
        return [found[name] for name in sorted(found)]

    def read(self, name: str, most: int = MOST_READ_BYTES) -> Reading:
        if name == INDEX:
            own = self.directory.read(INDEX, EVERYTHING)
            data = self.index()
            if own is None and not data:
                raise self._not_found(name)
            text = to_text(data)
            return Reading(name=name, text=text, sha256=sha256(own.data if own else None), size=len(data))
        return self.below.read(name, most) if self._is_below(name) else super().read(name, most)

    def write(
        self, name: str, text: str, *, expect: str, told: Told | None = None, section: str = "", keep: bool = False
    ) -> Written:
        if self._is_below(name):
            with writing(self.directory, self._clock.now_ms()) as hands:
                self._require(hands, name, self._below(name), expect, text)
            expect = ABSENT
        return super().write(name, text, expect=expect, told=told, section=section, keep=keep)

    def edit(self, name: str, edit: Edit, *, expect: str | None = None) -> Written:
        if not self._is_below(name):
            return super().edit(name, edit, expect=expect)
        found = self._below(name)
        if expect is not None:
            require(name, found, expect)
        text = to_text(found or b"")
        if isinstance(edit, Append):
            refuse_twice(name, text, edit.text)
        return super().write(name, edited(text, edit, name), expect=ABSENT)

    def delete(self, name: str, *, expect: str) -> Written:
        self._require_own(name, self.directory.listing())
        gone = super().delete(name, expect=expect)
        if name != INDEX and self._is_below(name):
            return replace(gone, advice=(*gone.advice, f"the project's {name} is read again"))
        return gone

    def delete_folder(self, name: str) -> Written:
        self._require_own(name, self.directory.listing())
        return super().delete_folder(name)

    def rename(self, name: str, new: str, *, expect: str | None = None) -> Written:
        self._require_own(name, self.directory.listing())
        if new in self.below.directory.listing().names:
            raise ConflictError(f"{new} is there already, in the project's memory", hint="choose another name")
        return super().rename(name, new, expect=expect)

    def _below(self, name: str) -> bytes | None:
        found = self.below.directory.read(name, EVERYTHING)
        return None if found is None else found.data

    def _is_below(self, name: str) -> bool:
        """Whether a topic is the project's alone. The index is each memory's own."""
        return name != INDEX and self.directory.read(name, 0) is None and self._below(name) is not None

    def _require_own(self, name: str, own: Listing) -> None:
        below = self.below.directory.listing()
        if name not in (*own.names, *own.folders) and name in (*below.names, *below.folders):
            raise RefusedError(
                f"{name} is the project's, and others read it",
                hint="edit it here, or change it where memory.worktrees is shared",
            )
