"""What a purge makes of versions and sums. Pure.

A version whose content goes stays as a row: something stood there from its position on, and it is not in the store any more
(``PURGED``). Like everything that is not recorded it adds nothing to a manifest, so every sum that held it is taken down by
its term, and stays one that ``check`` can compute again from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from openoxide.checkpoints.hashing import manifest_sum
from openoxide.checkpoints.model import PURGED, FileState


class Gone(NamedTuple):
    """A version that loses its content: it holds from ``seq`` until ``until``, the path's next row (None: to the end)."""

    path: bytes
    seq: int
    until: int | None
    state: FileState


class Sealed(NamedTuple):
    """A checkpoint of one worktree by its row's id: its position, the sum over its states, how many are not recorded."""

    id: int
    seq: int
    sum: int
    skipped: int


def resealed(sealed: Iterable[Sealed], gone: Iterable[Gone]) -> list[Sealed]:
    """Those of ``sealed`` that hold something of ``gone``, with the sum and the count of what is left."""
    changes: list[tuple[int, int, int]] = []
    for one in gone:
        changes.append((one.seq, without(0, [one]), 1))
        if one.until is not None:
            changes.append((one.until, manifest_sum(0, [(one.path, PURGED, one.state)]), -1))
    # the last first, as they are taken off
    changes.sort(reverse=True)
    found, total, count = [], 0, 0
    for checkpoint in sorted(sealed, key=lambda one: one.seq):
        while changes and changes[-1][0] <= checkpoint.seq:
            _, change, step = changes.pop()
            total, count = manifest_sum(total + change, ()), count + step
        if count:
            left = manifest_sum(checkpoint.sum + total, ())
            found.append(checkpoint._replace(sum=left, skipped=checkpoint.skipped + count))
    return found


def without(total: int, gone: Iterable[Gone]) -> int:
    """A sum that held all of ``gone``, after it."""
    return manifest_sum(total, [(one.path, one.state, PURGED) for one in gone])
