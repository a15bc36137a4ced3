"""What SQL alone can tell of a timeline: SQLite's own structure, the schema, and rows of small tables that name nothing.

Each statement has a snapshot of its own and runs in SQLite, so nobody who records waits for it. ``check`` judges the rest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from typing import Any, NamedTuple

from openoxide.checkpoints import journal
from openoxide.checkpoints.check import MOST_PROBLEMS, Problem, ProblemKind
from openoxide.checkpoints.hashing import HASH_BYTES
from openoxide.checkpoints.journal import OperationKind, OutcomeKind, Phase
from openoxide.checkpoints.model import Certainty, Mark, Trigger, WindowKind
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.schema import MIGRATIONS
from openoxide.checkpoints.steps import Action
from openoxide.db import Database
from openoxide.errors import StoreDamagedError
from openoxide.paths import APPLICATION_ID

_MOST_MESSAGES = 20


class _Rule(NamedTuple):
    """Rows that ``query`` finds are wrong: what they are called, and the path id and the seq of the version in doubt."""

    kind: ProblemKind
    message: str
    query: str


def _names(table: str, column: str, other: str) -> _Rule:
    query = (
        f"select '{table} ' || t.id, null, null from {table} t left join {other} o on o.id = t.{column}"  # noqa: S608
        f" where t.{column} is not null and o.id is null"
    )
    return _Rule(ProblemKind.REFERENCE, f"there is no {other} that its {column} names", query)


def _one_of(table: str, column: str, values: type[Enum]) -> _Rule:
    known = ", ".join(f"'{member.value}'" for member in values)
    query = f"select '{table} ' || rowid, null, null from {table} where {column} not in ({known})"  # noqa: S608
    return _Rule(ProblemKind.VALUE, f"its {column} is none that there is", query)


def _not_so(table: str, message: str, condition: str, name: str = "rowid") -> _Rule:
    query = f"select '{table} ' || {name}, null, null from {table} where not ({condition})"  # noqa: S608
    return _Rule(ProblemKind.VALUE, message, query)


def _elsewhere(column: str) -> _Rule:
    """A damaged number may well name a checkpoint, of another worktree."""
    query = (
        f"select 'operation ' || o.id, null, null from operation o join checkpoint c on c.id = o.{column}"  # noqa: S608
        " where c.worktree <> o.worktree"
    )
    return _Rule(ProblemKind.REFERENCE, f"the checkpoint that its {column} names is of another worktree", query)


_OF_A_WORKTREE = tuple(
    _names(table, "worktree", "worktree") for table in ("path", "checkpoint", "window", "gap", "operation")
)
# what a deleted history leaves behind is a writer that no version and no claim names: of those nothing is asked
_USED_WRITERS = "(select writer from version where writer is not null union select writer from claim)"
_RULES = (
    *_OF_A_WORKTREE,
    _names("checkpoint", "turn", "window"),
    _names("window", "parent", "window"),
    *(_names("operation", column, "checkpoint") for column in ("target", "before", "after")),
    *(_elsewhere(column) for column in ("target", "before", "after")),
    _Rule(
        ProblemKind.VALUE,
        "the checkpoint before it is not older than the one after it",
        "select 'operation ' || o.id, null, null from operation o join checkpoint b on b.id = o.before"
        " join checkpoint a on a.id = o.after where b.worktree = a.worktree and (b.number >= a.number or b.seq > a.seq)",
    ),
    _names("operation", "reverses", "operation"),
    _names("operation", "bound", "operation"),
    _names("outcome", "operation", "operation"),
    _names("outcome", "blob", "blob"),
    _one_of("checkpoint", "trigger", Trigger),
    _one_of("writer", "certainty", Certainty),
    _one_of("window", "kind", WindowKind),
    _one_of("operation", "kind", OperationKind),
    _one_of("operation", "phase", Phase),
    _one_of("outcome", "kind", OutcomeKind),
    _Rule(
        ProblemKind.VALUE,
        "what it says is nothing that can be said, or of no worktree",
        "select 'mark of worktree ' || worktree, null, null from mark where standing not in"  # noqa: S608
        f" ({', '.join(repr(one.value) for one in Mark)}) or length(hash) <> {HASH_BYTES}"
        " or worktree not in (select id from worktree)",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no such worktree",
        "select 'taint of worktree ' || worktree, null, null from taint"
        " where worktree <> 0 and worktree not in (select id from worktree)",
    ),
    _not_so(
        "checkpoint",
        "a number, a mark or its hash cannot be",
        f"number > 0 and seq >= 0 and length(manifest_hash) = {HASH_BYTES} and pinned in (0, 1) and complete in (0, 1)"
        " and late in (0, 1) and min(added, modified, removed, skipped) >= 0",
    ),
    _not_so("worktree", "its root is no absolute path, or a mark cannot be", "substr(root, 1, 1) = x'2f' and watching in (0, 1)"),
    _not_so("window", "it ends before it begins", "began_seq >= 0 and (ended_seq is null or ended_seq >= began_seq)"),
    _not_so("head", "its sum is none", f"length(sum) = {HASH_BYTES}", "worktree"),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no checkpoint, or no worktree, that it names",
        "select 'position ' || p.checkpoint || '/' || p.worktree, null, null from position p"
        " left join checkpoint c on c.id = p.checkpoint left join worktree w on w.id = p.worktree"
        " where c.id is null or w.id is null",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no such worktree",
        "select 'head ' || h.worktree, null, null from head h left join worktree w on w.id = h.worktree where w.id is null"
        " union all select 'versions of worktree ' || worktree, null, null from (select distinct worktree from version)"
        " where worktree not in (select id from worktree)",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no path that it is of",
        "select 'live ' || l.path, null, null from live l left join path p on p.id = l.path where p.id is null",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no version, or no writer, that it names",
        "select 'claim ' || c.path || '@' || c.seq, c.path, c.seq from claim c"
        " left join version v on v.path = c.path and v.seq = c.seq left join writer w on w.id = c.writer"
        " where v.path is null or w.id is null",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no window that it names",
        "select 'writer ' || x.writer, null, null from writer_window x left join window w on w.id = x.window"  # noqa: S608
        f" where w.id is null and x.writer in {_USED_WRITERS}",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no operation that it names",
        "select 'writer ' || w.id, null, null from writer w left join operation o on o.id = w.operation"  # noqa: S608
        f" where w.operation is not null and o.id is null and w.id in {_USED_WRITERS}",
    ),
    _Rule(
        ProblemKind.REFERENCE,
        "there is no operation that it is of",
        "select 'step ' || s.operation || '/' || s.number, null, null from step s"
        " left join operation o on o.id = s.operation where o.id is null",
    ),
    _Rule(
        ProblemKind.VALUE,
        "two versions are at this position",
        "select 'position ' || worktree || '@' || seq, min(path), seq from version group by worktree, seq having count(*) > 1",
    ),
)  # fmt: skip


def guarded(what: str, look: Callable[[], Iterable[Problem]]) -> Iterator[Problem]:
    """What ``look`` finds; a problem too if the rows cannot be read."""
    try:
        yield from look()
    except StoreDamagedError as error:
        yield Problem(kind=ProblemKind.UNREADABLE, object=what, message=error.message)
    # a bit of a record's header makes a number a text, which SQLite checks when it writes and not when it reads
    except (TypeError, ValueError, OverflowError) as error:
        yield Problem(kind=ProblemKind.UNREADABLE, object=what, message=f"a value has another type: {error}")


def ask(database: Database, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of one statement. Raises StoreDamagedError."""
    with database.looking() as db:
        return raw(db).execute(query, values).fetchall()


def structure_problems(database: Database, breathe: Callable[[], None]) -> Iterator[Problem]:
    """What SQLite finds in its own tables and indexes, one after the other, and how the schema differs from ours."""
    yield from guarded("schema", lambda: _schema(database))
    for table in _tables():
        # one at a time: a look at all of them would hold one snapshot for as long as it takes
        yield from guarded(table, lambda table=table: _table(database, table))  # type: ignore[misc]
        breathe()


def _table(database: Database, table: str) -> Iterator[Problem]:
    found = ask(database, f"pragma integrity_check('{table}')")
    # all that is wrong with pages is one message of a hundred lines, below a title
    lines = [line for (message,) in found for line in message.splitlines() if not line.startswith("***")]
    for message in lines[:_MOST_MESSAGES]:
        if message != "ok":
            yield Problem(
                kind=ProblemKind.SQLITE, object=f"table {table}: {message}", message="SQLite finds it damaged"
            )


_SCHEMA = "select type, name, tbl_name, sql from sqlite_master"


def _schema(database: Database) -> Iterator[Problem]:
    theirs, ours = set(ask(database, _SCHEMA)), _our_schema()
    for kind, name, *_ in sorted(theirs ^ ours, key=str):
        yield Problem(kind=ProblemKind.SQLITE, object=f"{kind} {name}", message="it is not as this version makes it")
    if ask(database, "pragma application_id") != [(APPLICATION_ID,)]:
        yield Problem(kind=ProblemKind.SQLITE, object="timeline.db", message="it does not say that it is ours")


def _our_schema() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for script in MIGRATIONS:
            fresh.executescript(script)
        return set(fresh.execute(_SCHEMA))


def _tables() -> list[str]:
    return sorted(name for kind, name, *_ in _our_schema() if kind == "table")


def rule_problems(database: Database, breathe: Callable[[], None]) -> Iterator[Problem]:
    """Rows of small tables that hold what cannot be or name what is not there."""
    for rule in _RULES:
        yield from guarded(rule.message, lambda rule=rule: _broken(database, rule))  # type: ignore[misc]
        breathe()
    yield from guarded("step", lambda: _steps(database))


def _broken(database: Database, rule: _Rule) -> Iterator[Problem]:
    for name, path, seq in ask(database, f"{rule.query} limit {MOST_PROBLEMS}"):
        rows = ((path, seq),) if path is not None else ()
        yield Problem(kind=rule.kind, object=str(name), message=rule.message, rows=rows)


def _steps(database: Database) -> Iterator[Problem]:
    for operation, number, action, old, new in ask(database, "select operation, number, action, old, new from step"):
        known = action in {member.value for member in Action}
        if not (known and journal.is_state(old) and journal.is_state(new)):
            text = "its action is none that there is, or its states cannot be read"
            yield Problem(kind=ProblemKind.VALUE, object=f"step {operation}/{number}", message=text)
