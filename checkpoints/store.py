"""The records of the timeline as peewee models: worktrees, checkpoints, windows, gaps.

Models are bound to no database: each query is executed on the reader or writer it is given, so one process can hold
several stores. The tables themselves are made by ``schema.py``; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import peewee

from openoxide.checkpoints import meta
from openoxide.checkpoints.clockmark import drop_counts
from openoxide.checkpoints.model import (
    CODE,
    Checkpoint,
    Counts,
    Coverage,
    GitPosition,
    Trigger,
    Worktree,
)
from openoxide.checkpoints.rows import from_signed, signed
from openoxide.checkpoints.sight import NOT_WATCHED, lose_sight
from openoxide.db import Transaction
from openoxide.errors import NotFoundError, StoreDamagedError
from openoxide.ids import short

PAUSED = "paused"
MOVED = "moved"


class WorktreeRow(peewee.Model):
    """A worktree, watched or not."""

    id = peewee.AutoField()
    project = peewee.TextField()
    root = peewee.BlobField()
    kind = peewee.TextField()
    dev = peewee.BigIntegerField()
    ino = peewee.BigIntegerField()
    birth_ns = peewee.BigIntegerField()
    watching = peewee.IntegerField()
    common_dir = peewee.BlobField(null=True)
    created_ms = peewee.BigIntegerField()
    paused_ms = peewee.BigIntegerField(null=True)
    paused_until_ms = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "worktree"


class CheckpointRow(peewee.Model):
    """A checkpoint, sealed or failed."""

    id = peewee.AutoField()
    public_id = peewee.TextField()
    worktree = peewee.IntegerField()
    number = peewee.IntegerField()
    seq = peewee.BigIntegerField()
    created_ms = peewee.BigIntegerField()
    trigger = peewee.TextField()
    name = peewee.TextField(null=True)
    pinned = peewee.IntegerField()
    expires_ms = peewee.BigIntegerField(null=True)
    turn = peewee.IntegerField(null=True)
    agent = peewee.TextField(null=True)
    session = peewee.TextField(null=True)
    prompt = peewee.TextField(null=True)
    complete = peewee.IntegerField()
    late = peewee.IntegerField()
    gap = peewee.TextField()
    git_head = peewee.TextField()
    git_branch = peewee.TextField()
    git_origin = peewee.TextField()
    added = peewee.IntegerField()
    modified = peewee.IntegerField()
    removed = peewee.IntegerField()
    skipped = peewee.IntegerField()
    manifest_hash = peewee.BlobField()
    failed = peewee.TextField(null=True)
    forgotten_ms = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "checkpoint"


@contextmanager
def _whole(table: str) -> Iterator[None]:
    """A value of another type than its column is damage: no row was ever written like that."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreDamagedError(
            f"timeline.db is damaged: a row of {table} holds what it cannot: {error}",
            hint="`oxide-ctl repair --dry-run` says what can be mended, and what is lost",
        ) from error


def _checkpoint(row: tuple[Any, ...]) -> Checkpoint:
    """``row``: all columns, in the order of the table."""
    # not by peewee's instances: of a log of thousands they take three quarters
    (
        _, public_id, worktree, number, seq, created_ms, trigger, name, pinned, expires_ms, turn, agent, session, prompt,
        complete, late, gap, head, branch, origin, added, modified, removed, skipped, manifest_hash, failed, forgotten_ms,
    ) = row  # fmt: skip
    if not isinstance(manifest_hash, bytes):
        raise TypeError("its sum is no bytes")
    return Checkpoint(
        id=public_id,
        worktree=worktree,
        number=number,
        seq=seq,
        created_at_ms=created_ms,
        trigger=Trigger(trigger),
        manifest_hash=manifest_hash,
        name=name,
        pinned=bool(pinned),
        expires_at_ms=expires_ms,
        turn=turn,
        agent=agent,
        session=session,
        prompt=prompt,
        coverage=Coverage(complete=bool(complete), late=bool(late), cause=gap),
        git=GitPosition(head=head, branch=branch, origin=origin),
        counts=Counts(added=added, modified=modified, removed=removed),
        skipped=skipped,
        failed=failed,
        forgotten_at_ms=forgotten_ms,
    )


# What every seal asks and writes is fixed SQL: building it anew took more than half of a seal's time.
_CHECKPOINT_COLUMNS = tuple(field.column_name for field in CheckpointRow._meta.sorted_fields)[1:]  # noqa: SLF001 - peewee documents it
_LAST_ROW = "checkpoint_rows"
# no number is given twice, as SQLite would where the last rows were deleted: the mark of the clock goes by them
_INSERT_CHECKPOINT = (
    f"insert into checkpoint(id, {', '.join(_CHECKPOINT_COLUMNS)}) select 1 + max("  # noqa: S608 nothing in it is given
    f"coalesce((select max(id) from checkpoint), 0), coalesce((select value from meta where key = '{_LAST_ROW}'), 0)), "
    f"{', '.join('?' * len(_CHECKPOINT_COLUMNS))}"
)
_WORKTREES = (
    "select id, project, root, kind, dev, ino, birth_ns, watching, common_dir, created_ms, paused_ms, paused_until_ms"
    " from worktree order by id"
)
# by number and not by time: a clock can be set back
_NEWEST = (
    "select seq from checkpoint where worktree = ? and failed is null and forgotten_ms is null"
    " order by number desc limit 1"
)


def insert_checkpoint(db: Transaction, checkpoint: Checkpoint) -> int:
    """Append ``checkpoint``; its number must be free. The answer is its row."""
    c = checkpoint
    values = (
        c.id, c.worktree, c.number, c.seq, c.created_at_ms, c.trigger.value, c.name, int(c.pinned), c.expires_at_ms,
        c.turn, c.agent, c.session, c.prompt, int(c.coverage.complete), int(c.coverage.late), c.coverage.cause,
        c.git.head, c.git.branch, c.git.origin, c.counts.added, c.counts.modified, c.counts.removed, c.skipped,
        c.manifest_hash, c.failed, c.forgotten_at_ms,
    )  # fmt: skip
    return int(db.execute_sql(_INSERT_CHECKPOINT, values).lastrowid)


def insert_position(db: Transaction, checkpoint: int, worktree: int, seq: int) -> None:
    """Where another worktree stood when a checkpoint (its row) was sealed."""
    db.execute_sql("insert into position(checkpoint, worktree, seq) values(?, ?, ?)", (checkpoint, worktree, seq))


def position_of(db: Transaction, public_id: str, worktree: int) -> int | None:
    """Where ``worktree`` stood when a checkpoint of another one was sealed; None where that was not recorded."""
    found = db.execute_sql(
        "select p.seq from position p join checkpoint c on c.id = p.checkpoint where c.public_id = ? and p.worktree = ?",
        (public_id, worktree),
    ).fetchone()
    return None if found is None else int(found[0])


def next_number(db: Transaction, worktree: int) -> int:
    """The number the worktree's next checkpoint gets; numbers are never given twice."""
    # failed and forgotten ones count too: what was shown once as #7 never means another
    greatest = db.execute_sql("select max(number) from checkpoint where worktree = ?", (worktree,)).fetchone()[0]
    return int(greatest or 0) + 1


def newest_seq(db: Transaction, worktree: int) -> int | None:
    """The position of the newest checkpoint that is sealed and kept."""
    row = db.execute_sql(_NEWEST, (worktree,)).fetchone()
    return row[0] if row is not None else None


def set_pinned(db: Transaction, public_id: str, *, pinned: bool, expires_at_ms: int | None) -> None:
    """Mark a checkpoint as never to be forgotten, or take the mark off; when it expires from then on."""
    query = CheckpointRow.update(pinned=int(pinned), expires_ms=expires_at_ms)
    query.where(CheckpointRow.public_id == public_id).execute(db)


def set_name(db: Transaction, public_id: str, name: str | None) -> None:
    """Name a checkpoint, or take its name off."""
    CheckpointRow.update(name=name).where(CheckpointRow.public_id == public_id).execute(db)


def set_forgotten(db: Transaction, public_ids: Sequence[str], at_ms: int | None) -> None:
    """Move checkpoints to trash, or out of it again (None)."""
    CheckpointRow.update(forgotten_ms=at_ms).where(CheckpointRow.public_id.in_(public_ids)).execute(db)


class CheckpointQuery:
    """Checkpoints of one worktree, as naming and listing ask for them: sealed and kept ones unless said otherwise, or
    those in ``trash``.
    """

    def __init__(self, db: Transaction, worktree: int, *, trash: bool = False) -> None:
        self._db = db
        self._worktree = worktree
        self._trash = trash

    def _kept(self, *, all_of_them: bool = False) -> Any:
        query = CheckpointRow.select().where(CheckpointRow.worktree == self._worktree)
        if not all_of_them:
            query = query.where(CheckpointRow.failed.is_null(), CheckpointRow.forgotten_ms.is_null(not self._trash))
        return query

    def _all(self, query: Any) -> list[Checkpoint]:
        with _whole("checkpoint"):
            return [_checkpoint(row) for row in self._db.execute(query)]

    def _first(self, query: Any) -> Checkpoint | None:
        found = self._all(query.limit(1))
        return found[0] if found else None

    def by_number(self, number: int) -> Checkpoint | None:
        return self._first(self._kept().where(CheckpointRow.number == number))

    def by_id_prefix(self, prefix: str) -> list[Checkpoint]:
        # as many as an ambiguity shows (naming.CANDIDATE_LIMIT)
        return self._all(self._kept().where(CheckpointRow.public_id.startswith(prefix)).limit(20))

    def by_name(self, name: str) -> list[Checkpoint]:
        return self._all(self._kept().where(CheckpointRow.name == name))

    def newest(self, back: int = 0) -> Checkpoint | None:
        """The newest checkpoint, or the one ``back`` before it."""
        return self._first(self._kept().order_by(CheckpointRow.number.desc()).offset(back))

    def oldest(self) -> Checkpoint | None:
        return self._first(self._kept().order_by(CheckpointRow.number))

    def at_moment(self, ms: int) -> Checkpoint | None:
        """The newest checkpoint that is not younger than ``ms``."""
        return self._first(self._kept().where(CheckpointRow.created_ms <= ms).order_by(CheckpointRow.number.desc()))

    def turn_back(self, back: int) -> Checkpoint | None:
        """The checkpoint before the ``back``-th last prompt (1: the last)."""
        prompts = self._kept().where(CheckpointRow.trigger == Trigger.PROMPT.value)
        return self._first(prompts.order_by(CheckpointRow.number.desc()).offset(back - 1))

    def turn_prompt(self, prompt: str) -> list[Checkpoint]:
        """The checkpoints before the turns with this prompt: sessions choose their ids each for itself."""
        return self._all(
            self._kept().where(CheckpointRow.trigger == Trigger.PROMPT.value, CheckpointRow.prompt == prompt)
        )

    def by_row(self, row_id: int) -> Checkpoint | None:
        return self._first(self._kept(all_of_them=True).where(CheckpointRow.id == row_id))

    def row_id(self, public_id: str) -> int:
        """The row behind an id. Raises NotFoundError where the checkpoint left the store since it was named."""
        found = self._kept(all_of_them=True).where(CheckpointRow.public_id == public_id).limit(1).execute(self._db)
        if not found:
            raise NotFoundError(
                f"checkpoint {short(public_id)} has expired meanwhile", hint="`oxide-ctl log` lists what is kept"
            )
        return int(found[0].id)

    def before(self, number: int) -> Checkpoint | None:
        """The sealed checkpoint just before ``number``."""
        return self._first(self._kept().where(CheckpointRow.number < number).order_by(CheckpointRow.number.desc()))

    def listing(
        self,
        *,
        limit: int | None = None,
        below: int | None = None,
        session: str | None = None,
        since_ms: int | None = None,
        all_of_them: bool = False,
        only_named: bool = False,
    ) -> list[Checkpoint]:
        """Newest first; ``below`` continues a listing under a number."""
        query = self._kept(all_of_them=all_of_them)
        if below is not None:
            query = query.where(CheckpointRow.number < below)
        if only_named:
            query = query.where(CheckpointRow.name.is_null(False))
        if session is not None:
            query = query.where(CheckpointRow.session == session)
        if since_ms is not None:
            query = query.where(CheckpointRow.created_ms >= since_ms)
        query = query.order_by(CheckpointRow.number.desc())
        return self._all(query.limit(limit) if limit is not None else query)

    def count(self) -> int:
        return int(self._kept().select(peewee.fn.COUNT(CheckpointRow.id)).tuples().execute(self._db)[0][0])

    def next_expiry(self) -> int | None:
        """When the first unpinned checkpoint may be forgotten."""
        # min() passes over NULL: what never expires does not count
        query = self._kept().where(CheckpointRow.pinned == 0).select(peewee.fn.MIN(CheckpointRow.expires_ms))
        earliest: int | None = query.tuples().execute(self._db)[0][0]
        return earliest


def _worktree(row: tuple[Any, ...]) -> Worktree:
    """``row``: all columns, in the order of the table."""
    (id_, project, root, kind, dev, ino, birth_ns, watching, common_dir, _, paused_ms, paused_until_ms) = row
    if not isinstance(root, bytes):
        raise TypeError("its root is no bytes")
    return Worktree(
        id=id_,
        project=project,
        root=root,
        dev=from_signed(dev),
        ino=from_signed(ino),
        birth_ns=birth_ns,
        watching=bool(watching),
        common_dir=common_dir,
        kind=kind,
        paused_ms=paused_ms,
        paused_until_ms=paused_until_ms,
    )


def worktrees(db: Transaction) -> list[Worktree]:
    """Every worktree ever watched, oldest first."""
    with _whole("worktree"):
        return [_worktree(row) for row in db.execute_sql(_WORKTREES)]


def insert_worktree(db: Transaction, worktree: Worktree, now_ms: int) -> Worktree:
    """Register ``worktree`` (its id is not used); the answer carries the new id."""
    row = WorktreeRow.insert(
        project=worktree.project,
        root=worktree.root,
        kind=worktree.kind,
        dev=signed(worktree.dev),
        ino=signed(worktree.ino),
        birth_ns=worktree.birth_ns,
        watching=int(worktree.watching),
        common_dir=worktree.common_dir,
        created_ms=now_ms,
    ).execute(db)
    return next(found for found in worktrees(db) if found.id == row)


def set_watching(db: Transaction, worktree: int, now_ms: int, *, watching: bool) -> None:
    """Whether the daemon watches it from now on; a pause ends either way."""
    # a window never outlasts the sight of its tree (docs/design.md, 6)
    if not watching:
        lose_sight(db, worktree, NOT_WATCHED, now_ms)
    changes = {"watching": int(watching), "paused_ms": None, "paused_until_ms": None}
    WorktreeRow.update(changes).where(WorktreeRow.id == worktree).execute(db)


def set_pause(db: Transaction, worktree: int, since_ms: int | None, until_ms: int | None) -> None:
    """From ``since_ms`` on nothing is recorded, which is a gap; None: recording may go on, and a full pass closes it."""
    changes = {"paused_ms": since_ms, "paused_until_ms": until_ms}
    WorktreeRow.update(changes).where(WorktreeRow.id == worktree).execute(db)
    # in the same transaction: a window that stayed open would claim what the user does in the pause
    if since_ms is not None:
        lose_sight(db, worktree, PAUSED, since_ms)


def adopt_root(db: Transaction, worktree: Worktree, now_ms: int) -> None:
    """The history with this id belongs to the directory that ``worktree`` names, which is watched from now on; what
    differs there is unknown until a full pass.
    """
    changes = {
        "root": worktree.root,
        "dev": signed(worktree.dev),
        "ino": signed(worktree.ino),
        "birth_ns": worktree.birth_ns,
        "common_dir": worktree.common_dir,
    }
    WorktreeRow.update(changes).where(WorktreeRow.id == worktree.id).execute(db)
    set_watching(db, worktree.id, now_ms, watching=True)
    lose_sight(db, worktree.id, MOVED, now_ms)


def join_projects(db: Transaction, project: str, other: str) -> None:
    """Every worktree of ``other`` is one of ``project``. The memory of each stays where it is: a project has one."""
    mine = (WorktreeRow.project == other, WorktreeRow.kind == CODE)
    WorktreeRow.update(project=project).where(*mine).execute(db)


# rows that are found by way of path: they go before it, as step and outcome go before operation
_TABLES_OF_A_WORKTREE = ("live", "claim", "version")


def delete_history(db: Transaction, worktree: int) -> None:
    """Forget a worktree with all its rows. Its blobs stay until a prune finds them unreferenced."""
    # its own, and what checkpoints of others say of it
    sealed = "checkpoint in (select id from checkpoint where worktree = ?)"
    db.execute_sql(f"delete from position where worktree = ? or {sealed}", (worktree, worktree))  # noqa: S608
    for table in _TABLES_OF_A_WORKTREE:
        db.execute_sql(f"delete from {table} where path in (select id from path where worktree = ?)", (worktree,))  # noqa: S608
    operations = "(select id from operation where worktree = ?)"
    # what was done to the memory along with it stays that memory's own
    db.execute_sql(f"update operation set bound = null where bound in {operations}", (worktree,))  # noqa: S608
    for table in ("step", "outcome"):
        db.execute_sql(f"delete from {table} where operation in {operations}", (worktree,))  # noqa: S608
    ids = [id_ for (id_,) in db.execute_sql("select public_id from checkpoint where worktree = ?", (worktree,))]
    drop_counts(db, ids)
    # both numbers may be given again, and what was said of this worktree would hold for another
    db.execute_sql(
        f"insert or replace into meta(key, value) select '{_LAST_ROW}', max(coalesce(max(id), 0), "  # noqa: S608
        f"coalesce((select value from meta where key = '{_LAST_ROW}'), 0)) from checkpoint"
    )
    meta.delete(db, meta.FINE, [str(worktree)])
    # a number of a path may be given again
    db.execute_sql("delete from meta where key in (select 'over.' || id from path where worktree = ?)", (worktree,))
    for table in ("path", "head", "checkpoint", "window", "gap", "operation", "taint", "mark"):
        db.execute_sql(f"delete from {table} where worktree = ?", (worktree,))  # noqa: S608
    WorktreeRow.delete().where(WorktreeRow.id == worktree).execute(db)


def stored_bytes(db: Transaction, worktree: int) -> int:
    """Raw bytes of the distinct blobs that a worktree's timeline names."""
    found = db.execute_sql(
        "select coalesce(sum(size), 0) from blob where id in (select distinct blob from version where worktree = ?)",
        (worktree,),
    ).fetchone()
    return int(found[0])
