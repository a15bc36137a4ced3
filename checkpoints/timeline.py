"""The timeline of a home: records what a capture found, seals checkpoints, answers what was where.

A recording is a row per change; a checkpoint is a position. Both are durable when the call returns. Sealing costs what
changed, never what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from openoxide.checkpoints import rows, store
from openoxide.checkpoints.attribution import claimed
from openoxide.checkpoints.blobs import Blobs, BlobVanishedError, Placed
from openoxide.checkpoints.hashing import manifest_sum, sum_to_bytes
from openoxide.checkpoints.live import (
    Live,
    count_existing,
    identity_values,
    live_states,
    refresh_identities,
    write_live,
)
from openoxide.checkpoints.model import (
    ABSENT,
    UNKNOWN_WRITER,
    BlobHash,
    Checkpoint,
    Counts,
    Coverage,
    FileState,
    GitPosition,
    Kind,
    Observed,
    Trigger,
    Writer,
)
from openoxide.checkpoints.packs import BIG
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.rows import Head
from openoxide.checkpoints.schema import open_timeline
from openoxide.db import Database, Transaction
from openoxide.paths import Home
from openoxide.standing import Standing

# what one transaction takes: nobody else's seal waits for more, and no more than two chunks are in memory
CHUNK_PATHS = 512
CHUNK_BYTES = 8 << 20
DAY_MS = 86_400_000
_FILE, _SKIPPED = Kind.FILE, Kind.SKIPPED  # an enum's members are slow to reach

Attribute = Callable[[Observed], Writer]


def by_nobody(_: Observed) -> Writer:
    """The attribution of changes nobody declared."""
    return UNKNOWN_WRITER


class Beside(NamedTuple):
    """Where another worktree of the project, its memory, stood when a checkpoint was sealed."""

    worktree: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """A checkpoint to be: everything about it that does not follow from the timeline. ``is_late`` is asked when all that
    belongs to it was read.
    """

    id: str
    trigger: Trigger
    now_ms: int
    expires_at_ms: int | None
    name: str | None = None
    pinned: bool = False
    turn: int | None = None
    agent: str | None = None
    session: str | None = None
    prompt: str | None = None
    coverage: Coverage = Coverage()
    git: GitPosition = GitPosition()
    only_if_changed: bool = False
    beside: Beside | None = None
    is_late: Callable[[], bool] = bool  # False


class Timeline:
    """One home's timeline and content store. All methods may be called from any thread. With a ``read_only`` database
    nothing in the home is written.
    """

    def __init__(self, home: Home, *, read_only: Database | None = None) -> None:
        self._path, self._writes = home.timeline_db, read_only is None
        self.database = read_only or open_timeline(home.timeline_db)
        self.blobs = Blobs(self.database, home, read_only=read_only is not None)
        # a WAL that is deleted goes on to take commits, which are gone with us: so nothing is promised in it:
        # see tests/cli/test_end_to_end_trouble.py
        wal = [path for path in self.database.side_files() if path.exists()]
        self.standing = Standing([home.folder, home.timeline_db, *wal, home.blobs, home.blobs / BIG])
        if self._writes:
            self.database.guard = self.standing.require

    def close(self) -> None:
        """Close files and connections."""
        self.blobs.close()
        self.database.close()
        # a database that came in the place of ours would take in what stands in our WAL, and be neither then: SQLite
        # leaves that behind where the file was moved (pager.c, databaseIsUnmoved)
        if self._writes and not self.standing.leads(self._path):
            for path in self.database.side_files():
                if self.standing.leads(path):
                    path.unlink(missing_ok=True)

    @contextmanager
    def live(self, worktree: int) -> Iterator[Live]:
        """What a capture compares with."""
        with self.database.looking() as db:
            yield Live(db, worktree)

    def record(
        self,
        worktree: int,
        found: Iterable[Found],
        attribute: Attribute = by_nobody,
        seal: Seal | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint | None:
        """Append what ``found`` changes; with ``seal`` also the checkpoint, in the transaction of the last chunk.
        ``progress`` gets (paths, bytes) recorded so far.
        """
        with self.blobs.adding():
            return self._record(worktree, found, attribute, seal, progress)

    def _record(
        self,
        worktree: int,
        found: Iterable[Found],
        attribute: Attribute,
        seal: Seal | None,
        progress: Callable[[int, int], None] | None,
    ) -> Checkpoint | None:
        paths = size = 0
        # one chunk is packed while the next one is read: nothing but compressing and waiting for the disk is left to the
        # other thread, since two that both run Python take turns, and each turn costs
        with ThreadPoolExecutor(1, thread_name_prefix="pack") as pool:
            pending: _Packing | None = None
            chunk: list[Found] = []
            try:
                for chunk, last in _chunks(found):
                    # all is one chunk: there is nothing to do beside the packing
                    if last and pending is None:
                        break
                    packing = _Packing(chunk, pool.submit(self._pack, chunk, pending))
                    # at most two are under way, so chunks are in order, and a failure ends the reading too
                    before, pending = pending, None
                    if before is not None:
                        self._commit(worktree, before.chunk, before.placed.result(), attribute, None)
                    pending = packing
                    paths += len(chunk)
                    size += sum(item.observed.state.size for item in chunk)
                    if progress is not None:
                        progress(paths, size)
            except BaseException:
                # what was read whole stays recorded, whatever became of the rest
                if pending is not None:
                    self._commit(worktree, pending.chunk, pending.placed.result(), attribute, None)
                raise
            if pending is not None:
                return self._commit(worktree, pending.chunk, pending.placed.result(), attribute, seal)
        if not chunk and seal is None:
            return None
        return self._commit(worktree, chunk, self._pack(chunk, None), attribute, seal)

    def _pack(self, chunk: list[Found], before: _Packing | None) -> Placed:
        """Make the new contents of ``chunk`` durable; those of ``before`` will be known when it is recorded."""
        payloads = _payloads(chunk)
        if before is not None:
            for name in _payloads(before.chunk):
                payloads.pop(name, None)
        return self.blobs.write(self.blobs.unknown(payloads))

    def _commit(
        self, worktree: int, chunk: list[Found], placed: Placed, attribute: Attribute, seal: Seal | None
    ) -> Checkpoint | None:
        """Rows for ``chunk``, whose bytes are durable: nobody waits for those with the lock."""
        names = {f.observed.state.blob for f in chunk if f.observed.state.blob}
        try:
            with self.database.writing() as db:
                ids = self.blobs.adopt(db, placed, names)
                checkpoint = self._rows(db, worktree, chunk, ids, attribute, seal)
        except BlobVanishedError:
            with self.database.writing() as db:
                # all of them, unasked; and with the lock, though others wait: one prune drops packs several times
                placed = self.blobs.write(_payloads(chunk))
                ids = self.blobs.adopt(db, placed, names)
                checkpoint = self._rows(db, worktree, chunk, ids, attribute, seal)
        # after the commit: until then a sweep has to spare their files
        self.blobs.forget_pending(names)
        return checkpoint

    def _rows(
        self,
        db: Transaction,
        worktree: int,
        chunk: list[Found],
        blob_ids: dict[BlobHash, int],
        attribute: Attribute,
        seal: Seal | None,
    ) -> Checkpoint | None:
        head = rows.read_head(db, worktree)
        if chunk:
            head = _append(db, worktree, head, [f.observed for f in chunk], blob_ids, attribute)
            rows.write_head(db, worktree, head)
        return _seal(db, worktree, head, seal) if seal is not None else None

    def head(self, worktree: int) -> Head:
        """Where the worktree stands."""
        with self.database.reading() as db:
            return rows.read_head(db, worktree)

    def seal_failed(self, worktree: int, seal: Seal, reason: str) -> Checkpoint:
        """Record that a checkpoint could not be taken; never passed off as an older state."""
        with self.database.writing() as db:
            head = rows.read_head(db, worktree)
            checkpoint = replace(_checkpoint(db, worktree, head, seal, head.seq), failed=reason)
            store.insert_checkpoint(db, checkpoint)
        return checkpoint

    def claim(self, worktree: int, writer: Writer, writes: Mapping[bytes, BlobHash], after: int) -> None:
        """``writer`` named these paths and bytes: what was recorded of them since ``after`` is its own. The rows stay as
        they are, the claim stands beside them.
        """
        with self.database.writing() as db:
            recorded = rows.versions_between(db, worktree, writes, after, rows.read_head(db, worktree).seq)
            versions = [version for found in recorded.values() for version in found]
            rows.insert_claims(db, worktree, claimed(versions, writes), writer)

    def states(self, worktree: int, seq: int) -> dict[bytes, FileState]:
        """Everything that existed or was skipped at ``seq``."""
        with self.database.reading() as db:
            return rows.state_at(db, worktree, seq)


class _Packing(NamedTuple):
    """A chunk whose contents are being made durable."""

    chunk: list[Found]
    placed: Future[Placed]


def _payloads(chunk: list[Found]) -> dict[BlobHash, bytes]:
    return {f.observed.state.blob: f.data for f in chunk if f.data is not None and f.observed.state.blob}


def _chunks(found: Iterable[Found]) -> Iterator[tuple[list[Found], bool]]:
    """``(chunk, is the last)``; at least one chunk, possibly empty."""
    chunk: list[Found] = []
    size = 0
    for item in found:
        if len(chunk) >= CHUNK_PATHS or size >= CHUNK_BYTES:
            yield chunk, False
            chunk, size = [], 0
        chunk.append(item)
        size += len(item.data or b"")
    yield chunk, True


def _append(
    db: Transaction,
    worktree: int,
    head: Head,
    chunk: list[Observed],
    blob_ids: dict[BlobHash, int],
    attribute: Attribute,
) -> Head:
    """Rows for ``chunk``; what the live rows say already only renews its stat."""
    path_ids = rows.path_ids(db, worktree, [seen.path for seen in chunk])
    # a timeline without a row has no live states: a first capture asks for none
    old = {} if head.seq == 0 else live_states(db, worktree, [*path_ids])
    writers: dict[Writer, int | None] = {}
    last, number = None, None
    versions, live, fresh, changes, seq = [], [], [], [], head.seq
    for seen in chunk:
        path, state, identity = seen
        before = old.get(path, ABSENT)
        if before == state:
            if identity is not None:
                fresh.append((path_ids[path], identity))
            continue
        seq += 1
        writer = attribute(seen)
        # one row for all that the same windows made, which is mostly the same value: to hash one takes longer than all else
        if writer is not last:
            if writer not in writers:
                writers[writer] = rows.insert_writer(db, writer)
            last, number = writer, writers[writer]
        at, values = path_ids[path], rows.state_values(state, blob_ids)
        versions.append((at, seq, worktree, *values, number))
        live.append((at, seq, *values, *identity_values(identity)))
        changes.append((path, before, state))
        # a path may come twice in a chunk: its second state differs from the first (test_timeline.py)
        old[path] = state
    rows.insert_versions(db, versions)
    write_live(db, live)
    refresh_identities(db, fresh)
    files, size, left_out = _totals(new for _, _, new in changes)
    files_before, size_before, left_out_before = _totals(was for _, was, _ in changes if was is not ABSENT)
    return Head(
        seq=seq,
        sum=manifest_sum(head.sum, changes),
        files=head.files + files - files_before,
        bytes=head.bytes + size - size_before,
        skipped=head.skipped + left_out - left_out_before,
    )


def _totals(states: Iterable[FileState]) -> tuple[int, int, int]:
    """How many of ``states`` are files, their bytes, and how many were not recorded."""
    files = size = left_out = 0
    for state in states:
        if state.kind is _FILE:
            files += 1
            size += state.size
        elif state.kind is _SKIPPED:
            left_out += 1
    return files, size, left_out


def _seal(db: Transaction, worktree: int, head: Head, seal: Seal) -> Checkpoint | None:
    before = store.newest_seq(db, worktree)
    if seal.only_if_changed and before == head.seq:
        return None
    checkpoint = _checkpoint(db, worktree, head, seal, before)
    row = store.insert_checkpoint(db, checkpoint)
    if seal.beside is not None:
        store.insert_position(db, row, *seal.beside)
    return checkpoint


def _checkpoint(db: Transaction, worktree: int, head: Head, seal: Seal, before: int | None) -> Checkpoint:
    return Checkpoint(
        id=seal.id,
        worktree=worktree,
        number=store.next_number(db, worktree),
        seq=head.seq,
        created_at_ms=seal.now_ms,
        trigger=seal.trigger,
        manifest_hash=sum_to_bytes(head.sum),
        name=seal.name,
        pinned=seal.pinned,
        expires_at_ms=None if seal.pinned else seal.expires_at_ms,
        turn=seal.turn,
        agent=seal.agent,
        session=seal.session,
        prompt=seal.prompt,
        coverage=replace(seal.coverage, late=seal.coverage.late or seal.is_late()),
        git=seal.git,
        counts=_counts(db, worktree, before or 0, head.seq),
        skipped=head.skipped,
    )


def _counts(db: Transaction, worktree: int, after: int, upto: int) -> Counts:
    if not after:
        return Counts(added=count_existing(db, worktree))
    paths = rows.changed_paths(db, worktree, after, upto)
    # the states at both ends and not the rows: what changed and changed back is no change
    old = rows.states_at(db, worktree, after, paths)
    added = modified = removed = 0
    for path, new in rows.states_at(db, worktree, upto, paths).items():
        was = old.get(path, ABSENT)
        added += new.exists and not was.exists
        removed += was.exists and not new.exists
        modified += was.exists and new.exists and was != new
    return Counts(added=added, modified=modified, removed=removed)
