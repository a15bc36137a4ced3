"""Who vouches for what stands in a memory: sessions that had read what nobody does, and what the user said of a text. SQL alone.

A text is known by the hash of its bytes, so what was said of it holds wherever it stands and whoever writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from openoxide.checkpoints.model import MEMORY, BlobHash, Mark
from openoxide.checkpoints.rows import raw
from openoxide.db import Transaction

LATER = 0
"""Stands for every memory that came to be after a session was tainted: no worktree has this number."""

Session = tuple[str, str]
"""An agent and the name that it gives its session."""


class Taint(NamedTuple):
    """From which position of a memory on a session had something untrusted before it, and the tool that brought it."""

    seq: int
    tool: str


def is_tainted(db: Transaction, session: Session) -> bool:
    """Whether the session had something untrusted before it."""
    query = "select 1 from taint where worktree = ? and agent = ? and session = ?"
    return raw(db).execute(query, (LATER, *session)).fetchone() is not None


def taint(db: Transaction, session: Session, tool: str) -> None:
    """From where each memory stands now on, what the session writes is tainted; the first time holds."""
    raw(db).execute(
        "insert or ignore into taint(worktree, agent, session, tool, seq)"
        " select w.id, ?1, ?2, ?3, coalesce(h.seq, 0) from worktree w left join head h on h.worktree = w.id"
        " where w.kind = ?4 union all select ?5, ?1, ?2, ?3, 0",
        (*session, tool, MEMORY, LATER),
    )


def taints(db: Transaction, worktree: int) -> dict[Session, Taint]:
    """Those of the sessions that worked while this memory was there."""
    rows = raw(db).execute(
        # the memory's own row comes behind the one for those that came later
        "select t.agent, t.session, t.seq, t.tool from taint t where t.worktree in (?, ?) and exists"
        " (select 1 from window w where w.worktree = ? and w.session = t.session and w.agent = t.agent) order by t.worktree",
        (LATER, worktree, worktree),
    )
    return {(agent, session): Taint(seq, tool) for agent, session, seq, tool in rows}


def set_mark(db: Transaction, worktree: int, texts: Iterable[BlobHash], mark: Mark, now_ms: int) -> None:
    """What the user says of ``texts`` from now on."""
    raw(db).executemany(
        "insert or replace into mark(worktree, hash, standing, at_ms) values(?,?,?,?)",
        [(worktree, text, mark.value, now_ms) for text in texts],
    )


def marks(db: Transaction, worktree: int) -> dict[BlobHash, Mark]:
    """All that the user said of texts of this memory."""
    rows = raw(db).execute("select hash, standing from mark where worktree = ?", (worktree,))
    return {BlobHash(text): Mark(standing) for text, standing in rows}


def unseen(db: Transaction, worktree: int) -> list[tuple[int, int | None]]:
    """The stretches of positions, ``(after, upto)``, that nobody saw come; ``upto`` is None while that goes on."""
    query = (
        "select began_seq, case when closed_ms is null then null else ended_seq end from gap"
        " where worktree = ? and began_seq is not null and (closed_ms is null or ended_seq > began_seq)"
    )
    return list(raw(db).execute(query, (worktree,)))


def first_seqs(db: Transaction, worktree: int, after: int = 0) -> dict[BlobHash, int]:
    """Where each content of this memory stood first, under whatever name; of those recorded after ``after``."""
    query = (
        "select b.hash, min(v.seq) from version v join blob b on b.id = v.blob"
        " where v.worktree = ? and v.seq > ? group by v.blob"
    )
    return {BlobHash(text): seq for text, seq in raw(db).execute(query, (worktree, after))}


def contents_of(db: Transaction, worktree: int, path: bytes, after: int = 0) -> list[tuple[int, BlobHash]]:
    """Each content that ``path`` had after ``after``, with its position, oldest first."""
    query = """
      select v.seq, b.hash from path p join version v on v.path = p.id join blob b on b.id = v.blob
      where p.worktree = ? and p.path = ? and v.seq > ? order by v.seq
    """
    return [(seq, BlobHash(text)) for seq, text in raw(db).execute(query, (worktree, path, after))]
