"""Paths that are not recorded since a quota has no room for them (``overquota``): a number in ``meta`` for each, the bytes
that its last content takes.
"""

from __future__ import annotations

from collections.abc import Collection

from openoxide.checkpoints import meta
from openoxide.checkpoints.model import Kind
from openoxide.checkpoints.overquota import Heavy, LeftOut
from openoxide.checkpoints.policy import MEMORY
from openoxide.checkpoints.rows import batched, raw
from openoxide.db import Transaction

_PREFIX = "over."
_NAMES = "select worktree, path from path where id in ({})"
# what is not there any more does not wait for room, nor what has become small and is recorded again
_WAITING = "select p.id, p.worktree from path p join live l on l.path = p.id where l.kind = ? and p.id in ({})"
_LAST = "select blob from version where path = ? and blob is not null order by seq desc limit 1"
_CARRIERS = """
select l.path, coalesce(cast(f.stored as real) * b.size / nullif(f.raw, 0), 0)
from live l join path p on p.id = l.path join worktree w on w.id = p.worktree and w.kind <> ?
join blob b on b.id = l.blob join frame f on f.id = b.frame where l.blob in ({})
"""


def left_out(db: Transaction) -> list[LeftOut]:
    """Every path that is left out now, of all worktrees."""
    sizes = {int(path): size for path, size in meta.read(db, _PREFIX).items()}
    found = []
    for path, worktree in batched(db, _WAITING, (Kind.SKIPPED.value,), [*sizes]):
        last = raw(db).execute(_LAST, (path,)).fetchone()
        # one that no row names any more is nobody's: no number that a content has
        found.append(LeftOut(path, worktree, last[0] if last else -path, sizes[path]))
    return found


def paths_left_out(db: Transaction, worktree: int) -> frozenset[bytes]:
    """The paths of one worktree."""
    known = [int(path) for path in meta.read(db, _PREFIX)]
    return frozenset(name for of_tree, name in batched(db, _NAMES, (), known) if of_tree == worktree)


def leave_out(db: Transaction, heavy: Heavy) -> bool:
    """Leave out what is ``heavy`` and nothing else; whether that changes anything."""
    before = meta.read(db, _PREFIX)
    after = {path: size for path, size in before.items() if int(path) in heavy.paths}
    after |= _carriers(db, heavy.contents)
    if before.keys() == after.keys():
        return False
    meta.delete(db, _PREFIX, before.keys() - after.keys())
    meta.write(db, _PREFIX, {path: size for path, size in after.items() if path not in before})
    return True


def _carriers(db: Transaction, contents: Collection[int]) -> dict[str, int]:
    """The paths that hold these contents now."""
    return {str(path): round(size) for path, size in batched(db, _CARRIERS, (MEMORY,), [*contents])}
