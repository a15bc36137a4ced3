"""Who vouches for what stood in a memory: its versions, the sessions that were tainted and the user's marks, brought together.

A text stands as where it stood first, under whatever name: who copies, renames or brings back a note does not vouch for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence

from openoxide.checkpoints import rows, sight, vouching
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash, Mark, Version, Window
from openoxide.checkpoints.timeline import Timeline
from openoxide.db import Transaction
from openoxide.errors import OpenOxideError
from openoxide.memory.markdown import decoded
from openoxide.memory.naming import INDEX
from openoxide.memory.standing import Origin, Stand, Standing, line_text, stand

LOST = 0
"""The position of what stood first in a version that nobody can read any more, or right behind it."""
_BATCH = 500  # as in checkpoints/rows.py


class Standings:
    """Those of one memory. What was read of its history is kept: a position never changes."""

    def __init__(self, timeline: Timeline, worktree: int) -> None:
        self._timeline = timeline
        self._worktree = worktree
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._upto = 0
        self._contents: dict[BlobHash, int] = {}
        # by hashes: what is purged must not live on here
        self._lines: dict[BlobHash, int] = {}
        self._newest: frozenset[str] = frozenset()
        self._is_behind_lost = False

    def of(
        self, contents: Collection[BlobHash], lines: Collection[str]
    ) -> tuple[dict[BlobHash, Stand], dict[str, Stand]]:
        """Of whole files by their contents, and of lines of the index by :func:`line_text`."""
        with self._lock, self._timeline.database.reading() as db:
            self._take_in(db)
            files = {content: self._contents.get(content) for content in contents}
            texts = {line: self._lines.get(text_hash(line)) for line in lines}
            origins = self._origins(db, {*files.values(), *texts.values()} - {None})  # type: ignore[arg-type]
            marks = vouching.marks(db, self._worktree)
        return (
            {content: stand(origins.get(seq), _said(marks.get(content))) for content, seq in files.items()},
            {line: stand(origins.get(seq), _said(marks.get(text_hash(line)))) for line, seq in texts.items()},
        )

    def first_of(self, content: BlobHash) -> int | None:
        """Where a content stood first, as far as was asked for before."""
        return self._contents.get(content)

    def first_of_lines(self, lines: Collection[str]) -> int:
        """Where the newest of ``lines`` stood first, as :meth:`first_of`."""
        return max((self._lines.get(text_hash(line), LOST) for line in lines), default=LOST)

    def of_versions(self, versions: Sequence[Version]) -> dict[int, Stand]:
        """Of each version by its position; of a deletion as of whoever did it."""
        contents = {version.state.blob for version in versions if version.state.blob is not None}
        found, _ = self.of(contents, ())
        gone = {version.seq for version in versions if version.state.blob is None}
        with self._timeline.database.reading() as db:
            origins = self._origins(db, gone)
        return {
            version.seq: found[version.state.blob]
            if version.state.blob is not None
            else stand(origins[version.seq], None)
            for version in versions
        }

    def _take_in(self, db: Transaction) -> None:
        head = rows.read_head(db, self._worktree).seq
        if head < self._upto:  # the worktree was deleted, and its number given again
            self._forget()
        if head == self._upto:
            return
        for content, seq in vouching.first_seqs(db, self._worktree, self._upto).items():
            self._contents.setdefault(content, seq)
        for seq, content in vouching.contents_of(db, self._worktree, os.fsencode(INDEX), self._upto):
            self._read_index(seq, content)
        self._upto = head

    def _read_index(self, seq: int, content: BlobHash) -> None:
        try:
            text = decoded(self._timeline.blobs.read(content))
        except OpenOxideError:
            # purged, or damaged: what it held is met in the version behind it, and would be taken for that one's
            self._is_behind_lost = True
            return
        lines = frozenset(map(line_text, text.split("\n")))
        for line in lines - self._newest:
            self._lines.setdefault(text_hash(line), LOST if self._is_behind_lost else seq)
        self._newest, self._is_behind_lost = lines, False

    def _origins(self, db: Transaction, seqs: Collection[int]) -> dict[int | None, Origin]:
        found: dict[int | None, Origin] = {LOST: Origin(declared=False, unseen=True)}
        versions = rows.versions_at(db, self._worktree, seqs)
        windows = _windows(db, {window for version in versions.values() for window in version.writer.windows})
        taints, unseen = vouching.taints(db, self._worktree), vouching.unseen(db, self._worktree)
        for seq, version in versions.items():
            theirs = [windows[id_] for id_ in version.writer.windows if id_ in windows]
            sessions = sorted({(window.agent, window.session) for window in theirs})
            tools = [taints[s].tool for s in sessions if s in taints and taints[s].seq < seq]
            found[seq] = Origin(
                declared=bool(version.writer.windows) or version.writer.operation is not None,
                unseen=any(after < seq and (upto is None or seq <= upto) for after, upto in unseen),
                tainted=tools[0] if tools else "",
            )
        return found


def _windows(db: Transaction, ids: Collection[int]) -> dict[int, Window]:
    ordered = sorted(ids)
    parts = (ordered[at : at + _BATCH] for at in range(0, len(ordered), _BATCH))
    return {window.id: window for part in parts for window in sight.windows_by_id(db, frozenset(part))}


def _said(mark: Mark | None) -> Standing | None:
    return None if mark is None else Standing(mark.value)


def text_hash(text: str) -> BlobHash:
    """What a line of the index is known by in a mark."""
    return blob_hash(text.encode("utf-8", "surrogatepass"))
