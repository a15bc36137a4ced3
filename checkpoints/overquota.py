"""Which contents are too large for a quota that what must stay exceeds by itself: their paths are not recorded any more
until they fit. Pure.

Nothing that is held is given up by this. The floor moves on by itself, and what is not recorded does not come into it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

# what is smaller causes no quota to be exceeded, and is what somebody most wants back: a quota that was mistyped ends no
# recording of what is written by hand
LEAST_BYTES: Final = 256 << 10


class LeftOut(NamedTuple):
    """A path, by its row, that is not recorded for its size: that of ``content``, the last one that was."""

    path: int
    worktree: int
    content: int
    size_bytes: int


class Heavy(NamedTuple):
    """What is too large: ``contents`` that are held, and ``paths`` that go on to be left out."""

    contents: frozenset[int] = frozenset()
    paths: frozenset[int] = frozenset()

    def and_also(self, other: Heavy) -> Heavy:
        """Both."""
        return Heavy(self.contents | other.contents, self.paths | other.paths)


def too_heavy(
    held: Mapping[int, int], eligible: Collection[int], left_out: Sequence[LeftOut], most_bytes: int
) -> Heavy:
    """The largest first, until what is ``held`` (size by content) and what was left out would fit into ``most_bytes`` without
    them; ``eligible`` are the contents that a path of today could bring again. So a path comes back as soon as it fits, and
    not before.
    """
    absent = {out.content: out.size_bytes for out in left_out if out.content not in held}
    weights = {content: held[content] for content in eligible if held[content] >= LEAST_BYTES} | absent
    excess = sum(held.values()) + sum(absent.values()) - most_bytes
    heavy = set()
    for content in sorted(weights, key=lambda content: (-weights[content], content)):
        if excess <= 0:
            break
        excess -= weights[content]
        heavy.add(content)
    return Heavy(frozenset(heavy & held.keys()), frozenset(out.path for out in left_out if out.content in heavy))
