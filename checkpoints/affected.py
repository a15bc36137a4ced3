"""Which paths and checkpoints a problem of the store is about. One pass over the versions serves all problems at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from openoxide.checkpoints.check import Problem, holding
from openoxide.checkpoints.integrity import ask
from openoxide.db import Database

_PAGE = 1_000
_UNTIL = "(select min(n.seq) from version n where n.path = v.path and n.seq > v.seq)"
_ONE = f"select v.path, v.seq, v.worktree, {_UNTIL} from version v where v.path = ? and v.seq = ?"  # noqa: S608
_NAMING = f"""
select path, seq, blob from version where (path, seq) > (?, ?) and blob is not null order by path, seq limit {_PAGE}
"""  # noqa: S608
_SEALED = "select seq, number from checkpoint where worktree = ? and failed is null order by seq, number"


class Held(NamedTuple):
    """A version that is in doubt, and until where it holds (None: to the end)."""

    path: int
    seq: int
    worktree: int
    until: int | None


@dataclass(slots=True, kw_only=True)
class Affected:
    """Of one worktree: paths, and numbers of checkpoints that hold something of it."""

    paths: list[bytes] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)


def affected(
    database: Database, problems: Sequence[Problem], breathe: Callable[[], None]
) -> list[Mapping[int, Affected]]:
    """For each problem what of each worktree it is about, by the worktree's row id. Raises StoreDamagedError."""
    held: list[set[Held]] = [set() for _ in problems]
    for index, problem in enumerate(problems):
        for place in problem.rows:
            held[index].update(Held(*row) for row in ask(database, _ONE, place))
    for index, found in _naming(database, _by_blob(problems), breathe):
        held[index].add(found)
    late = _late(database, _by_blob(problems))
    positions: dict[int, list[tuple[int, int]]] = {}
    answer: list[Mapping[int, Affected]] = []
    for index, problem in enumerate(problems):
        of_problem = {worktree: Affected() for worktree, _ in problem.checkpoints}
        for worktree, number in problem.checkpoints:
            of_problem[worktree].checkpoints.append(number)
        by_worktree: defaultdict[int, list[Held]] = defaultdict(list)
        for one in sorted(held[index]):
            by_worktree[one.worktree].append(one)
        for worktree, ones in by_worktree.items():
            if worktree not in positions:
                positions[worktree] = ask(database, _SEALED, (worktree,))
            of_problem.setdefault(worktree, Affected()).paths += _paths(database, ones)
            of_problem[worktree].checkpoints += holding([(o.seq, o.until) for o in ones], positions[worktree])
        for worktree, path in late.get(index, ()):
            of_problem.setdefault(worktree, Affected()).paths.append(path)
        answer.append(of_problem)
    return answer


def _by_blob(problems: Sequence[Problem]) -> dict[int, list[int]]:
    wanted: dict[int, list[int]] = {}
    for index, problem in enumerate(problems):
        for blob in problem.blobs:
            wanted.setdefault(blob, []).append(index)
    return wanted


def _naming(
    database: Database, wanted: Mapping[int, Sequence[int]], breathe: Callable[[], None]
) -> Iterator[tuple[int, Held]]:
    """The versions that name one of these blobs, for each problem that is about it."""
    # version has no index by blob: one that nothing but a check uses would be paid for by every recording
    last = (-(1 << 63), 0)
    while wanted and (page := ask(database, _NAMING, last)):
        for path, seq, blob in page:
            if indexes := wanted.get(blob):
                for row in ask(database, _ONE, (path, seq)):
                    yield from ((index, Held(*row)) for index in indexes)
        last = page[-1][:2]
        breathe()


def _late(database: Database, wanted: Mapping[int, Sequence[int]]) -> dict[int, list[tuple[int, bytes]]]:
    """Bytes that came late or that a merge made, which no version names: worktree and path."""
    query = "select u.blob, o.worktree, u.path from outcome u join operation o on o.id = u.operation where u.blob is not null"
    found: dict[int, list[tuple[int, bytes]]] = {}
    for blob, worktree, path in ask(database, query) if wanted else ():
        for index in wanted.get(blob, ()) if isinstance(path, bytes) else ():
            found.setdefault(index, []).append((worktree, path))
    return found


def _paths(database: Database, ones: Sequence[Held]) -> list[bytes]:
    ids = dict.fromkeys(one.path for one in ones)
    found = (ask(database, "select path from path where id = ?", (number,)) for number in ids)
    # a bit of a record's header makes it a text; check tells of that by itself
    return [path for rows in found for (path,) in rows if isinstance(path, bytes)]
