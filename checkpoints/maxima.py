"""Which of the checkpoints that need a content goes last. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Maxima:
    """The greatest rank of the positions in a range: a table of the ranges of each power of two. ``held``: position and rank
    of each, by position.
    """

    def __init__(self, held: Sequence[tuple[int, int]]) -> None:
        self._seqs = [seq for seq, _ in held]
        self._table = [[rank for _, rank in held]]
        while (width := 1 << len(self._table)) <= len(held):
            last = self._table[-1]
            self._table.append([*map(max, last, last[width // 2 :])])

    def between(self, seq: int, until: int) -> int:
        """The greatest rank at a position in ``[seq, until)``, -1 where there is none."""
        low, high = bisect_left(self._seqs, seq), bisect_left(self._seqs, until)
        if low == high:
            return -1
        power = (high - low).bit_length() - 1
        return max(self._table[power][low], self._table[power][high - (1 << power)])
