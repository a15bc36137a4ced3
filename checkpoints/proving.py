"""States that a damaged row has lost and a live row still has: where a manifest sum proves that one, it comes back.

A sum is additive, so what one path adds to it is known apart from all others. That a sum of 256 bits becomes right by a state
that was not there is no accident.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openoxide.checkpoints.check import Replay, Sealed, StateRow, file_state, row_problem
from openoxide.checkpoints.hashing import manifest_sum, sum_from_bytes
from openoxide.checkpoints.model import ABSENT, FileState

_MODULUS = 1 << 256
_MOST = 200  # tried one by one, each against every checkpoint
_COLUMNS = "{0}.kind, {0}.mode, {0}.size, {0}.mtime_ns, {0}.blob, {1}.hash, {1}.size, {0}.target, {0}.flags"
_PAIRS = f"""
select p.id, l.seq, p.path, {_COLUMNS.format("l", "b")}, v.path, v.seq, p.path, {_COLUMNS.format("v", "c")}
from path p join live l on l.path = p.id left join blob b on b.id = l.blob
left join version v on v.path = p.id and v.seq = (select max(seq) from version n where n.path = p.id)
left join blob c on c.id = v.blob
where p.worktree = ? and l.seq >= coalesce(v.seq, 0)
  and (l.seq, l.kind, l.mode, l.size, l.mtime_ns, l.blob, l.target, l.flags)
  is not (v.seq, v.kind, v.mode, v.size, v.mtime_ns, v.blob, v.target, v.flags)
"""  # noqa: S608
_BACK = "select kind, mode, size, mtime_ns, blob, target, flags from live where path = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A path whose newest state may be the one of its live row: from ``seq`` on, which ``adds`` so much to a sum."""

    path: int
    seq: int
    adds: int


def candidates(pairs: Iterable[Sequence[object]]) -> list[Candidate]:
    """What live rows say beside the newest versions (rows of ``_PAIRS``). Pure."""
    found = []
    for pair in pairs:
        live, newest = StateRow(*pair[:12]), StateRow(*pair[12:])
        if row_problem(live) is None:
            adds = manifest_sum(0, [(live.path, _state(newest), file_state(live))])
            found.append(Candidate(path=live.path_id, seq=live.seq, adds=adds))
    return found


def _state(row: StateRow) -> FileState:
    # one that says nothing adds nothing to the sum that it is compared with (Replay)
    return ABSENT if row.path_id is None or row_problem(row) else file_state(row)


def proven(missing: Mapping[int, int], found: Sequence[Candidate]) -> list[Candidate]:
    """Those of ``found`` that sums prove, all together or one by one. ``missing``: for each position of a checkpoint, what its
    sum has more than its states (0: it is right). Pure.
    """
    # what no sum is about is not proven by any
    useful = [one for one in found if one.adds and any(one.seq <= seq for seq in missing)]
    if useful and any(missing.values()):
        after = _after(missing, useful)
        if not any(left for seq, left in after.items() if seq >= min(one.seq for one in useful)):
            return useful
    taken: list[Candidate] = []
    for one in useful[:_MOST]:
        if _mends(_after(missing, taken), one):
            taken.append(one)
    return taken


def _after(missing: Mapping[int, int], taken: Iterable[Candidate]) -> dict[int, int]:
    taken = [*taken]
    return {seq: (left - sum(one.adds for one in taken if one.seq <= seq)) % _MODULUS for seq, left in missing.items()}


def _mends(missing: Mapping[int, int], one: Candidate) -> bool:
    """Whether a sum is right with ``one`` that was wrong, and none is wrong that was right."""
    after = _after(missing, [one])
    worse = any(after[seq] and not left for seq, left in missing.items())
    return not worse and any(left and not after[seq] for seq, left in missing.items())


def bring_back(db: sqlite3.Connection, worktree: int, replay: Replay, sealed: Sequence[Sealed]) -> int:
    """Write the states that are proven; how many. ``replay`` has passed the worktree's versions."""
    missing = {
        one.seq: (sum_from_bytes(one.manifest_hash) - sum_from_bytes(replay.passed[one.number][0])) % _MODULUS
        for one in sealed
        if one.number in replay.passed and isinstance(one.manifest_hash, bytes)
    }
    if not any(missing.values()):
        return 0
    taken = proven(missing, candidates(db.execute(_PAIRS, (worktree,))))
    for one in taken:
        state = db.execute(_BACK, (one.path,)).fetchone()
        db.execute("delete from version where (worktree = ?1 or path = ?2) and seq = ?3", (worktree, one.path, one.seq))
        db.execute(
            "insert into version(path, seq, worktree, kind, mode, size, mtime_ns, blob, target, flags)"
            " values(?,?,?,?,?,?,?,?,?,?)",
            (one.path, one.seq, worktree, *state),
        )
    return len(taken)
