"""Who was seen to work: declared windows, and the gaps in which nobody was seen. Fixed SQL: each prompt asks for most of it,
and building a query anew takes longer than answering it.
"""

from __future__ import annotations

from typing import Any

from openoxide.checkpoints.model import Window, WindowKind
from openoxide.checkpoints.rows import read_head
from openoxide.db import Transaction

NOT_WATCHED = "not_watched"

_WINDOW = """
select id, kind, agent, session, prompt, tool, began_seq, ended_seq, ended_ms, lost, parent, declares_tools from window
"""


def _windows(db: Transaction, condition: str, values: tuple[Any, ...]) -> list[Window]:
    return [
        Window(
            id=number,
            kind=WindowKind(kind),
            agent=agent,
            session=session,
            prompt=prompt,
            tool=tool,
            began_seq=began_seq,
            ended_seq=ended_seq,
            ended_at_ms=ended_ms,
            lost=lost,
            parent=parent,
            declares_tools=bool(declares_tools),
        )
        for (
            number, kind, agent, session, prompt, tool, began_seq, ended_seq, ended_ms, lost, parent, declares_tools,
        ) in db.execute_sql(f"{_WINDOW} where {condition}", values)
    ]  # fmt: skip


def open_windows(db: Transaction, worktree: int) -> list[Window]:
    """Turns and tool calls that have begun and not ended."""
    return _windows(db, "worktree = ? and ended_seq is null order by id", (worktree,))


def session_windows(db: Transaction, worktree: int, session: str) -> list[Window]:
    """Every window a session declared."""
    return _windows(db, "worktree = ? and session = ? order by id", (worktree, session))


def undeclared_end(
    db: Transaction,
    worktree: int,
    session: str,
    kind: WindowKind,
    *,
    prompt: str | None = None,
    tool: str | None = None,
) -> Window | None:
    """The session's newest such window that is open, else the newest if it was lost: whose end may still be declared."""
    condition = (
        "worktree = ? and session = ? and kind = ? and prompt = coalesce(?, prompt) and (? is null or tool = ?)"
        " order by ended_seq is not null, id desc limit 1"
    )
    # an end that was declared stays; one that a gap made may still be declared
    for window in _windows(db, condition, (worktree, session, kind.value, prompt, tool, tool)):
        return window if window.ended_seq is None or window.lost else None
    return None


def windows_by_id(db: Transaction, ids: frozenset[int]) -> list[Window]:
    """The windows with these ids."""
    return _windows(db, f"id in ({','.join('?' * len(ids))})", tuple(sorted(ids)))


def begin_window(db: Transaction, worktree: int, window: Window, now_ms: int) -> Window:
    """Open ``window`` (its id is not used); a tool call marks its turn as one that declares its tools."""
    number = db.execute_sql(
        "insert into window(worktree, kind, agent, session, prompt, tool, parent, began_ms, began_seq)"
        " values(?,?,?,?,?,?,?,?,?)",
        (
            worktree, window.kind.value, window.agent, window.session, window.prompt, window.tool, window.parent,
            now_ms, window.began_seq,
        ),
    ).lastrowid  # fmt: skip
    if window.parent is not None:
        db.execute_sql("update window set declares_tools = 1 where id = ?", (window.parent,))
    return windows_by_id(db, frozenset({number}))[0]


def end_windows(db: Transaction, ids: frozenset[int], seq: int, now_ms: int) -> None:
    """Close windows at ``seq``; what has ended before keeps its end."""
    marks = ",".join("?" * len(ids))
    query = f"update window set ended_seq = ?, ended_ms = ? where ended_seq is null and id in ({marks})"  # noqa: S608
    db.execute_sql(query, (seq, now_ms, *sorted(ids)))


def lose_sight(db: Transaction, worktree: int, cause: str, now_ms: int) -> None:
    """From now on the timeline may miss something, the ends of windows too: those that are open end where the record
    does, so that nothing after it is taken for theirs.
    """
    open_gap(db, worktree, cause, now_ms)
    db.execute_sql(
        "update window set ended_seq = ?, ended_ms = ?, lost = ? where worktree = ? and ended_seq is null",
        (read_head(db, worktree).seq, now_ms, cause, worktree),
    )


def heard_ms(db: Transaction, worktree: int, session: str) -> int:
    """When the session last began or ended a turn or a tool call; it has declared one."""
    query = "select max(max(began_ms), coalesce(max(ended_ms), 0)) from window where worktree = ? and session = ?"
    return int(db.execute_sql(query, (worktree, session)).fetchone()[0])


def open_gap(db: Transaction, worktree: int, cause: str, now_ms: int) -> None:
    """From now on the timeline may miss something; a gap with this cause that is open already stays one."""
    db.execute_sql(
        "insert into gap(worktree, cause, opened_ms, began_seq) select ?1, ?2, ?3, ?4"
        " where not exists (select 1 from gap where worktree = ?1 and cause = ?2 and closed_ms is null)",
        (worktree, cause, now_ms, read_head(db, worktree).seq),
    )


def open_gaps(db: Transaction, worktree: int) -> list[tuple[str, int]]:
    """``(cause, opened_ms)`` of each open gap, oldest first."""
    query = "select cause, opened_ms from gap where worktree = ? and closed_ms is null order by id"
    return list(db.execute_sql(query, (worktree,)).fetchall())


def close_gaps(db: Transaction, worktree: int, opened_before_ms: int, now_ms: int) -> None:
    """A full pass that began at ``opened_before_ms`` saw everything: gaps older than it end."""
    # one that opened while the pass ran may hide what the pass had gone by
    db.execute_sql(
        "update gap set closed_ms = ?, ended_seq = ? where worktree = ? and closed_ms is null and opened_ms <= ?",
        (now_ms, read_head(db, worktree).seq, worktree, opened_before_ms),
    )
