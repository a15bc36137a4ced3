"""Operations and their steps as rows. Until ``swapping`` is durable no live path has been touched.

Progress is read from the file system (inode numbers of staged entries), not from marks: one commit before the first
exchange and one after the last are enough, and doing the steps again is harmless.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from openoxide.checkpoints.model import BlobHash, FileState, Kind
from openoxide.checkpoints.rows import from_signed, raw, signed
from openoxide.checkpoints.steps import Action, Step
from openoxide.db import Transaction


class OperationKind(str, Enum):
    """What an operation is to the user."""

    REWIND = "rewind"
    UNDO = "undo"
    REDO = "redo"


class Phase(str, Enum):
    """How far an operation is. ``undone``: given up before the first exchange."""

    PREPARED = "prepared"
    SWAPPING = "swapping"
    INTERRUPTED = "interrupted"
    DONE = "done"
    UNDONE = "undone"
    ABORTED = "aborted"


OPEN_PHASES = frozenset({Phase.PREPARED, Phase.SWAPPING, Phase.INTERRUPTED})


class OutcomeKind(str, Enum):
    """What became of a path."""

    RESTORED = "restored"
    REMOVED = "removed"
    KEPT = "kept"
    CONFLICT = "conflict"
    SKIPPED = "skipped"
    CHANGED_SINCE = "changed_since"
    LATE = "late"
    MERGED = "merged"
    MERGING = "merging"  # its bytes are stored and nothing else names them; the operation has not ended


CHANGED = frozenset({OutcomeKind.RESTORED, OutcomeKind.REMOVED, OutcomeKind.MERGED})
"""What became of a path that holds now what the operation put there."""


class Outcome(NamedTuple):
    """What became of one path. ``blob`` holds bytes that no state names: found in staging, or made by a merge."""

    kind: OutcomeKind
    path: bytes
    reason: str = ""
    blob: BlobHash | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A recorded mutation. ``target``, ``before`` and ``after`` are row ids of checkpoints, ``reverses`` one of an
    operation. ``touch``: files came back with the time of then. ``bound``: the operation on the code that this one, on
    the memory, is a part of; the two are in the same phase.
    """

    id: int
    public_id: str
    worktree: int
    kind: OperationKind
    phase: Phase
    at_ms: int
    boot_id: str
    boot_ms: int
    scope: str
    exact: bool
    reverses: int | None = None
    target: int | None = None
    before: int | None = None
    after: int | None = None
    summary: str = ""
    touch: bool = False
    bound: int | None = None

    @property
    def staging_name(self) -> str:
        """The operation's folder inside the staging folder."""
        return self.public_id


_COLUMNS = (
    "id, public_id, worktree, kind, phase, at_ms, boot_id, boot_ms, scope, exact, reverses, target, before, after,"
    " summary, touch, bound"
)


def _operation(row: tuple[Any, ...]) -> Operation:
    return Operation(
        id=row[0],
        public_id=row[1],
        worktree=row[2],
        kind=OperationKind(row[3]),
        phase=Phase(row[4]),
        at_ms=row[5],
        boot_id=row[6],
        boot_ms=row[7],
        scope=row[8],
        exact=bool(row[9]),
        reverses=row[10],
        target=row[11],
        before=row[12],
        after=row[13],
        summary=row[14],
        touch=bool(row[15]),
        bound=row[16],
    )


def begin(db: Transaction, operation: Operation) -> Operation:
    """Record ``operation`` as prepared; the answer carries its row id."""
    o = operation
    values = (o.public_id, o.worktree, o.kind.value, Phase.PREPARED.value, o.at_ms, o.boot_id, o.boot_ms, o.scope,
              int(o.exact), o.reverses, o.target, o.before, o.after, o.summary, int(o.touch), o.bound)  # fmt: skip
    marks = ",".join("?" * len(values))
    columns = _COLUMNS.removeprefix("id, ")
    row = raw(db).execute(f"insert into operation({columns}) values({marks})", values).lastrowid
    assert row is not None
    return replace(operation, id=row, phase=Phase.PREPARED)


def commit_steps(db: Transaction, operation: int, steps: Iterable[Step]) -> None:
    """Everything is staged and durable: from here on the operation is finished or aborted, never silently undone."""
    raw(db).executemany(
        "insert into step(operation, number, action, path, old, new, new_ino) values(?,?,?,?,?,?,?)",
        (
            (operation, s.number, s.action.value, s.path, _encode(s.old), _encode(s.new), _signed(s.new_ino))
            for s in steps
        ),
    )  # fmt: skip
    set_phase(db, operation, Phase.SWAPPING)


def set_phase(db: Transaction, operation: int, phase: Phase) -> None:
    """The operation has come to ``phase``, with what is bound to it, or it to, as long as that is open."""
    raw(db).execute(
        "update operation set phase = ?2 where id = ?1 or (phase in ('prepared', 'swapping', 'interrupted')"
        " and (bound = ?1 or id = (select bound from operation where id = ?1)))",
        (operation, phase.value),
    )


def finish(
    db: Transaction, operation: int, phase: Phase, after: int | None, summary: str, outcomes: Iterable[Outcome]
) -> None:
    """The operation ended in ``phase`` with the checkpoint ``after``; its steps are not needed any more."""
    # these held the merged bytes until a state does; the outcomes that follow name what became of the paths
    raw(db).execute("delete from outcome where operation = ? and kind = ?", (operation, OutcomeKind.MERGING.value))
    raw(db).execute(
        "update operation set phase = ?, after = ?, summary = ? where id = ?", (phase.value, after, summary, operation)
    )
    add_outcomes(db, operation, outcomes)


def add_outcomes(db: Transaction, operation: int, outcomes: Iterable[Outcome]) -> None:
    """Record what became of paths."""
    raw(db).executemany(
        # no blob has the hash NULL, so an outcome without bytes gets NULL
        "insert into outcome(operation, kind, path, reason, blob) values(?,?,?,?,(select id from blob where hash = ?))",
        ((operation, o.kind.value, o.path, o.reason, o.blob) for o in outcomes),
    )


def drop_steps(db: Transaction, operation: int) -> None:
    """The staging folder is gone; nothing can be settled any more."""
    raw(db).execute("delete from step where operation = ?", (operation,))


def rewrite_steps(db: Transaction, steps: Iterable[tuple[FileState, FileState, int, int]]) -> None:
    """Give steps other states: ``(old, new, operation, number)``."""
    raw(db).executemany(
        "update step set old = ?, new = ? where operation = ? and number = ?",
        ((_encode(old), _encode(new), operation, number) for old, new, operation, number in steps),
    )


def steps(db: Transaction, operation: int) -> tuple[Step, ...]:
    """The steps of an operation, in their order."""
    found = raw(db).execute(
        "select number, action, path, old, new, new_ino from step where operation = ? order by number", (operation,)
    )
    return tuple(
        Step(
            number=n,
            action=Action(action),
            path=path,
            old=_decode(old),
            new=_decode(new),
            new_ino=_from_signed(ino),
        )
        for n, action, path, old, new, ino in found
    )


def operations(db: Transaction, worktree: int) -> list[Operation]:
    """All operations of a worktree, oldest first."""
    found = raw(db).execute(f"select {_COLUMNS} from operation where worktree = ? order by id", (worktree,))  # noqa: S608
    return [_operation(row) for row in found]


def bound_to(db: Transaction, operation: int) -> Operation | None:
    """The operation on the memory that is a part of ``operation``."""
    found = raw(db).execute(f"select {_COLUMNS} from operation where bound = ?", (operation,)).fetchone()  # noqa: S608
    return None if found is None else _operation(found)


def by_row(db: Transaction, operation: int) -> Operation | None:
    """The operation with this row id."""
    found = raw(db).execute(f"select {_COLUMNS} from operation where id = ?", (operation,)).fetchone()  # noqa: S608
    return None if found is None else _operation(found)


def open_operations(db: Transaction, worktree: int) -> list[Operation]:
    """Operations that neither ended nor were given up."""
    return [operation for operation in operations(db, worktree) if operation.phase in OPEN_PHASES]


def unswept(db: Transaction, worktree: int) -> list[Operation]:
    """Ended operations whose staging folder may still hold something."""
    # steps outlive the operation until its staging folder is gone
    found = raw(db).execute("select distinct operation from step").fetchall()
    ids = {row[0] for row in found}
    return [o for o in operations(db, worktree) if o.id in ids and o.phase not in OPEN_PHASES]


def outcomes(db: Transaction, operation: int) -> list[Outcome]:
    """What became of each path of an operation."""
    found = raw(db).execute(
        "select o.kind, o.path, o.reason, b.hash from outcome o left join blob b on b.id = o.blob"
        " where o.operation = ? order by o.path",
        (operation,),
    )  # fmt: skip
    return [
        Outcome(kind=OutcomeKind(kind), path=path, reason=reason, blob=BlobHash(blob) if blob is not None else None)
        for kind, path, reason, blob in found
    ]


def undo_stack(done: Iterable[Operation]) -> tuple[list[Operation], list[Operation]]:
    """``(what undo reverses, what redo reverses)``, the last first to go at the end. Pure.

    A rewind can be undone and empties what could be redone; an undo moves the last operation over to redo, a redo
    moves it back.
    """
    undoable: list[Operation] = []
    redoable: list[Operation] = []
    for operation in done:
        if operation.phase is not Phase.DONE:
            continue
        if operation.kind is OperationKind.REWIND:
            undoable.append(operation)
            redoable.clear()
        elif operation.kind is OperationKind.UNDO and undoable:
            undoable.pop()
            redoable.append(operation)
        elif operation.kind is OperationKind.REDO and redoable:
            redoable.pop()
            undoable.append(operation)
    return undoable, redoable


_compact = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would build one for each state


def _encode(state: FileState) -> str:
    kind, mode, size, mtime_ns, blob, target, torn, sqlite = state
    plain = {"mode": mode, "size": size, "mtime_ns": mtime_ns, "torn": torn, "sqlite": sqlite}
    # defaults are left out: a rewind writes two states for each path
    fields: dict[str, Any] = {"kind": int(kind)} | {name: value for name, value in plain.items() if value}
    if blob is not None:
        fields["blob"] = b64encode(blob).decode("ascii")
    if target is not None:
        fields["target"] = b64encode(target).decode("ascii")
    return _compact(fields)


def _decode(text: str) -> FileState:
    fields = json.loads(text)
    for name in ("blob", "target"):
        if name in fields:
            fields[name] = b64decode(fields[name])
    # back to the member itself: kinds are compared by `is`
    return FileState(**{**fields, "kind": Kind(fields["kind"])})


def is_state(text: str) -> bool:
    """Whether a step's text can be read as a state."""
    try:
        _decode(text)
    # what b64decode, Kind and FileState say of fields that are none of theirs
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    return True


def _signed(ino: int | None) -> int | None:
    return signed(ino) if ino is not None else None


def _from_signed(ino: int | None) -> int | None:
    return from_signed(ino) if ino is not None else None
