"""A project's memory as agents and people use it: topics, read, save, edit, delete, rename, and the index that goes with them.

Reads and writes go to the disk, never through an index of ours, so that a file which was written a moment ago is there. Each
write of a whole text, and each deletion, says what was read before (``expect``, the hash of a reading, ABSENT for none); an
edit may. What is refused was not written; the text of a writer that came too late is in the trash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

from openoxide.clock import Clock
from openoxide.errors import ConflictError, NotFoundError
from openoxide.memory import secrets
from openoxide.memory.directory import EVERYTHING, MOST_READ_BYTES, Listing, MemoryDirectory
from openoxide.memory.editing import (
    ABSENT,
    Append,
    Edit,
    already_in,
    doubts,
    edited,
    keep_both,
    refuse_twice,
    require,
    sha256,
    to_bytes,
    to_text,
)
from openoxide.memory.index import LoadedIndex, load_index, title_from
from openoxide.memory.markdown import decoded, page_of
from openoxide.memory.naming import INDEX, SUFFIX, is_topic, parts_of, topic_of
from openoxide.memory.refusals import refuse_clash, refuse_copy, refuse_secrets
from openoxide.memory.trash import TRASH_MS, Reason, Trashed, trashed
from openoxide.memory.upkeep import (
    Change,
    Move,
    Told,
    maintained,
    renamed_entry,
    suggested,
    told_by,
    with_entry,
    without_entry,
)
from openoxide.memory.writing import Hands, writing

HEAD_BYTES = 4_096  # enough for a frontmatter and the first heading
MOST_TRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A file that is read on demand, as a list shows it."""

    name: str
    title: str
    description: str
    kind: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file as it was read. ``cut`` says in words what is missing of a long one; ``sha256`` is of all of it."""

    name: str
    text: str
    sha256: str
    size: int
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did. ``advice`` is for whoever wrote: the write is done all the same."""

    name: str
    sha256: str
    changed: bool
    index: tuple[Change, ...] = ()
    advice: tuple[str, ...] = ()
    trash: str = ""


class Memory:
    """The memory in ``directory``. ``known`` are values that must never stand in it, such as those of an .env file."""

    def __init__(self, directory: MemoryDirectory, clock: Clock, known: Collection[str] = ()) -> None:
        self.directory = directory
        self._clock = clock
        self._known = known
        self.put: dict[str, bytes] = {}  # what was written since somebody emptied it, by name

    # reading

    def load_index(self) -> LoadedIndex:
        """What an agent gets of MEMORY.md at the start of a session."""
        return load_index(self.index())

    def index(self) -> bytes:
        """The bytes of MEMORY.md, none where there is none."""
        return self.directory.index().data

    def listing(self) -> Listing:
        """Every file that is read."""
        return self.directory.listing()

    def topics(self) -> list[Topic]:
        """Every topic by name, the index not among them."""
        return self._own_topics()

    def _own_topics(self) -> list[Topic]:
        return [
            self._topic(file.name, file.size, file.mtime_ns)
            for file in self.directory.listing().files
            if is_topic(file.name)
        ]

    def _topic(self, name: str, size: int, mtime_ns: int) -> Topic:
        head = self.directory.read(name, HEAD_BYTES)
        page = page_of(decoded(head.data if head else b""))
        metadata = page.fields.get("metadata")
        kind = metadata.get("type", "") if isinstance(metadata, dict) else page.text("type")
        told = told_by(page.body, page.text("description"))
        title = told.title or title_from(name)
        return Topic(name=name, title=title, description=told.hook, kind=kind, size=size, mtime_ns=mtime_ns)

    def read(self, name: str, most: int = MOST_READ_BYTES) -> Reading:
        """A file of the memory, cut where it is longer than ``most`` bytes. Raises NotFoundError that names what is like it."""
        raw = self.directory.read(name)
        if raw is None:
            raise self._not_found(name)
        # a precondition is about the whole file, however little of it was read
        whole = raw if not raw.cut else self.directory.read(name, EVERYTHING) or raw
        text = raw.data[:most].decode("utf-8", "ignore" if len(raw.data) > most else "surrogateescape")
        cut = raw.cut or (f"only the first {most} of {raw.size} bytes were read" if raw.size > most else "")
        return Reading(name=name, text=text, sha256=sha256(whole.data), size=raw.size, cut=cut)

    def clean(self, text: str) -> str:
        """A text without the secrets in it: what is shown to agents, exported, or shared."""
        return secrets.redact(text, self._known)

    def refuse(self, name: str, text: str, expect: str, before: str = "") -> None:
        """Raises RefusedError where :meth:`write` would."""
        self.refuse_place(name, text, expect)
        refuse_secrets(name, text, before, self._known)

    def refuse_place(self, name: str, text: str, expect: str) -> None:
        """Raises RefusedError for a name that is like another, and for a new file that says what another one says."""
        listing = self.directory.listing()
        refuse_clash(name, listing)
        if not expect:
            refuse_copy(self.directory, name, text, listing)

    def _not_found(self, name: str) -> NotFoundError:
        names = self.listing().names
        like = [other for other in names if name.removesuffix(SUFFIX).casefold() in other.casefold()]
        hint = (
            f"there is {', '.join(like[:3])}" if like else f"there are {len(names)} files" if names else "it is empty"
        )
        return NotFoundError(f"the memory has no {name}", hint=hint)

    # writing

    def save(self, name: str, text: str, *, expect: str, told: Told | None = None, section: str = "") -> Written:
        """Let a topic hold ``text``, and the index a line that leads to it. Raises as :meth:`write`, and RefusedError for a
        name that is no topic's.
        """
        topic_of(name)
        return self.write(name, text, expect=expect, told=told, section=section)

    def write(
        self, name: str, text: str, *, expect: str, told: Told | None = None, section: str = "", keep: bool = False
    ) -> Written:
        """Let any file of the memory hold ``text``; a topic gets its line in the index. Raises ConflictError where the file
        is not what ``expect`` says, RefusedError for a new secret or for a text that another file has already. ``keep``: what was
        there before goes to the trash.
        """
        self.refuse_place(name, text, expect)
        with writing(self.directory, self._clock.now_ms()) as hands:
            written = self._write(hands, name, lambda _: text, expect=expect, whole=True, keep=keep)
            if not is_topic(name):
                return self._advised(written, hands, [])
            known = told or told_by(page_of(text).body, page_of(text).text("description"))
            changes = self._keep_index(hands, lambda index: with_entry(index, name, known, section))
            return self._advised(written, hands, changes)

    def edit(self, name: str, edit: Edit, *, expect: str | None = None) -> Written:
        """Change a part of a file, the index included. An edit says itself what has to be there; ``expect`` is only for
        those who want the rest to be as they read it too. Raises as :meth:`save`; RefusedError where an appended text is
        there already.
        """
        parts_of(name)

        tries = count()

        def change(text: str) -> str:
            if isinstance(edit, Append):
                # another program has read our line in a moment in which it stood there, and brings it along
                if next(tries) and already_in(text, edit.text):
                    return text
                refuse_twice(name, text, edit.text)
            return edited(text, edit, name)

        with writing(self.directory, self._clock.now_ms()) as hands:
            if hands.read(name) is None and not isinstance(edit, Append):
                raise self._not_found(name)
            refuse_clash(name, self.directory.listing())
            written = self._write(hands, name, change, expect=expect)
            return self._advised(written, hands, self._add_entry(hands, name))

    def delete(self, name: str, *, expect: str) -> Written:
        """Move a file to the trash, and take its line out of the index. Raises NotFoundError, ConflictError."""
        with writing(self.directory, self._clock.now_ms()) as hands:
            found = self._found(hands, name)
            require(name, found, expect)
            gone = hands.discard(name, found)
            if gone is None:
                raise ConflictError(f"{name} was changed since it was read", hint="read it again, then delete it")
            if is_topic(name):
                self._keep_index(hands, lambda index: (without_entry(index, name), []))
            return Written(name=name, sha256=ABSENT, changed=True, trash=gone)

    def delete_folder(self, name: str) -> Written:
        """Move a folder with all that is in it to the trash. Raises NotFoundError."""
        with writing(self.directory, self._clock.now_ms()) as hands:
            inside = self._inside(name)
            gone = hands.discard(name, None) or ""
            self._keep_index(hands, lambda index: (reduce(without_entry, inside, index), []))
            return Written(name=name, sha256=ABSENT, changed=True, trash=gone)

    def rename(self, name: str, new: str, *, expect: str | None = None) -> Written:
        """Give a file or folder another name, in the index too. Raises NotFoundError, ConflictError where the new name is
        taken.
        """
        parts_of(new)
        refuse_clash(new, self.directory.listing(), besides=name)
        with writing(self.directory, self._clock.now_ms()) as hands:
            is_folder = name in self.directory.listing().folders
            names = {one: new + one.removeprefix(name) for one in (self._inside(name) if is_folder else [name])}
            for one in names.values():
                parts_of(one)  # a file that came to lie too deep would not be read any more
            found = None if is_folder else self._found(hands, name)
            if expect is not None:
                require(name, found, expect)
            if not hands.move(name, new):
                raise ConflictError(f"{new} is there already", hint="choose another name")
            self._keep_index(hands, lambda index: (reduce(_renamed, names.items(), index), []))
            return Written(name=new, sha256=sha256(found), changed=True)

    def _found(self, hands: Hands, name: str) -> bytes:
        found = hands.read(name)
        if found is None:
            raise self._not_found(name)
        return found

    def _inside(self, folder: str) -> list[str]:
        listing = self.directory.listing()
        if folder not in listing.folders:
            raise self._not_found(folder)
        return [name for name in listing.names if name.startswith(f"{folder}/")]

    def maintain(self) -> list[Change]:
        """Give each topic a line in the index, and each dead line its mark; what was done. Nothing is taken out."""
        topics = {topic.name: Told(topic.title, topic.description) for topic in self._own_topics()}
        if not self.directory.index().data and not topics:
            return []
        files = set(self.listing().names)
        with writing(self.directory, self._clock.now_ms()) as hands:
            return self._keep_index(hands, lambda index: maintained(index, topics, files))

    def suggestions(self) -> list[Move]:
        """Which lines of the index had better move for all of it to load."""
        return suggested(decoded(self.directory.index().data))

    # trash

    def trash(self) -> list[Trashed]:
        """What was deleted or displaced in the last 30 days, newest first."""
        return trashed(self.directory)

    def restore(self, trash_id: str, name: str, to: str = "") -> Written:
        """Bring a file back out of the trash. Raises ConflictError where its name is taken."""
        target = to or name
        with writing(self.directory, self._clock.now_ms()) as hands:
            if not hands.restore(trash_id, name, target):
                raise ConflictError(f"{target} is there already", hint="name another place for it")
            changes = self._add_entry(hands, target)
            return Written(name=target, sha256=sha256(hands.read(target)), changed=True, index=tuple(changes))

    def put_aside(self, name: str, text: bytes) -> str:
        """Keep a text that somebody wrote over in the trash; its id."""
        with writing(self.directory, self._clock.now_ms()) as hands:
            return hands.keep(name, text, Reason.OVERTAKEN)

    def empty_trash(self, keep_ms: int = TRASH_MS) -> int:
        """Delete for good what is in the trash for longer; how many deletions that were."""
        with writing(self.directory, self._clock.now_ms()) as hands:
            return hands.empty_trash(self._clock.now_ms() - keep_ms)

    # how a write is done

    def _write(
        self,
        hands: Hands,
        name: str,
        change: Callable[[str], str],
        *,
        expect: str | None = None,
        whole: bool = False,
        keep: bool = False,
    ) -> Written:
        """Write what ``change`` makes of the file, anew for as long as somebody else writes at the same time. ``whole``:
        whatever was there.
        """
        for _ in range(MOST_TRIES):
            found = hands.read(name)
            before = to_text(found or b"")
            # as hosted memories answer: what is there already needs no precondition
            if expect is not None and not (whole and found == to_bytes(change(before))):
                self._require(hands, name, found, expect, change("") if whole else None)
            new = to_bytes(change(before))
            refuse_secrets(name, to_text(new), before, self._known)
            if found == new:
                return Written(name=name, sha256=sha256(new), changed=False)
            suspect = doubts(before, to_text(new)) if whole and found is not None else []
            kept = hands.keep(name, found, Reason.REPLACED) if (suspect or keep) and found is not None else ""
            put = hands.put(name, found, new)
            if put.done:
                self.put[name] = new
                advice = tuple(f"{name}: {doubt}; what was there before is in the trash as {kept}" for doubt in suspect)
                return Written(name=name, sha256=sha256(new), changed=True, advice=advice, trash=kept)
            if put.orphan is not None:
                self._take_in(hands, name, put.orphan)
        raise self._busy(name)

    def _take_in(self, hands: Hands, name: str, orphan: bytes) -> None:
        """Let a foreign text that stands nowhere any more stand beside what does: before anything of ours is tried again."""
        for _ in range(MOST_TRIES):
            found = hands.read(name)
            put = hands.put(name, found, to_bytes(keep_both(to_text(found or b""), to_text(orphan))))
            if put.done:
                return
            orphan = orphan if put.orphan is None else to_bytes(keep_both(to_text(orphan), to_text(put.orphan)))
        raise self._busy(name)

    def _busy(self, name: str) -> ConflictError:
        return ConflictError(f"{name} is written to all the time", hint="try again when the other program has ended")

    def _require(self, hands: Hands, name: str, found: bytes | None, expect: str, wanted: str | None) -> None:
        """Raises ConflictError where the file is not as expected; the text that was to be written is in the trash then."""
        try:
            require(name, found, expect)
        except ConflictError as error:
            if wanted is None:
                raise
            kept = hands.keep(name, to_bytes(wanted), Reason.REFUSED)
            hint = f"read it again, then write; your text is in the trash as {kept}"
            raise ConflictError(error.message, hint=hint, details={**error.details, "kept": kept}) from error

    def _keep_index(self, hands: Hands, change: Callable[[str], tuple[str, list[Change]]]) -> list[Change]:
        changes: list[Change] = []

        def once(text: str) -> str:
            new, done = change(text)
            changes[:] = done
            return new

        # else a deletion alone would leave an empty file behind
        if hands.read(INDEX) is None and not once(""):
            return []
        self._write(hands, INDEX, once)
        return changes

    def _add_entry(self, hands: Hands, name: str) -> list[Change]:
        if not is_topic(name):
            return []
        page = page_of(decoded(hands.read(name) or b""))
        told = told_by(page.body, page.text("description"))

        def change(index: str) -> tuple[str, list[Change]]:
            # a line that somebody worded is theirs: an edit of the topic does not word it anew
            known, did = with_entry(index, name, Told())
            return with_entry(index, name, told) if did else (known, did)

        return self._keep_index(hands, change)

    def _advised(self, written: Written, hands: Hands, changes: Iterable[Change]) -> Written:
        index = hands.read(INDEX) or b""
        loaded = load_index(index)
        advice = list(written.advice)
        if loaded.warning:
            lines = ", ".join(str(move.line) for move in suggested(decoded(index)))
            # not the words of a line: whoever writes may not be given all that others noted
            advice.append(
                f"{INDEX} is over its limit: agents get nothing from line {loaded.first_cut} of {loaded.lines} on. Move what"
                f" stands in lines {lines} into topics"
            )
        elif loaded.is_near:
            advice.append(f"{INDEX} is nearly full: {loaded.lines} of 200 lines, {loaded.units} of 25000 characters")
        return replace(written, index=tuple(changes), advice=tuple(advice))


def _renamed(index: str, names: tuple[str, str]) -> str:
    return renamed_entry(index, *names)
