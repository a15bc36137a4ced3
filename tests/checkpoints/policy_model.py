"""What becomes of checkpoints by the architecture's words, slowly and plainly: a checkpoint at a time, each content looked
up in each checkpoint. Shares no code with the product; the simulated year keeps its promises by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

HOUR, DAY = 3_600_000, 86_400_000
AUTOMATIC = {"quiet", "tool"}


@dataclass
class Point:
    """A checkpoint of the model: ``holds`` are the contents that it needs."""

    id: str
    project: str
    worktree: int
    number: int
    trigger: str
    counted: int
    expires: int | None = None
    named: bool = False
    pinned: bool = False
    spared: bool = False
    trashed: int | None = None
    holds: frozenset[int] = frozenset()


@dataclass
class Rules:
    """The settings of the model; 0 bytes is no limit."""

    all_days: int = 1
    hourly_days: int = 7
    trash_days: int = 7
    quotas: Mapping[str, int] = field(default_factory=dict)
    total: int = 0


def floor_of(points: Sequence[Point], needed: Iterable[str]) -> set[str]:
    """What never goes."""
    stay = {p.id for p in points if p.id in needed}
    by_tree: dict[int, list[Point]] = {}
    for point in points:
        if point.trashed is None:
            by_tree.setdefault(point.worktree, []).append(point)
    for of_tree in by_tree.values():
        of_tree.sort(key=lambda p: -p.number)
        stay.add(of_tree[0].id)
        stay |= {p.id for p in of_tree if p.pinned}
        stay |= {p.id for p in [p for p in of_tree if p.trigger == "prompt"][:3]}
    return stay


def thinned(point: Point, points: Iterable[Point], now: int, rules: Rules) -> bool:
    """Whether an earlier one stands for it: of its hour once it is a day old, of its day once it is a week old."""

    def thins(p: Point) -> bool:
        return p.trigger in AUTOMATIC and not p.named and not p.pinned and not p.spared and p.trashed is None

    if not thins(point):
        return False
    earlier = [
        p
        for p in points
        if thins(p) and p.worktree == point.worktree and (p.counted, p.number) < (point.counted, point.number)
    ]
    age = now - point.counted
    same_hour = any(p.counted // HOUR == point.counted // HOUR for p in earlier)
    same_day = any(p.counted // DAY == point.counted // DAY for p in earlier)
    return (same_hour and age >= rules.all_days * DAY) or (
        same_day and age >= max(rules.all_days, rules.hourly_days) * DAY
    )


def decide(
    points: Sequence[Point], sizes: Mapping[int, int], needed: Iterable[str], now: int, rules: Rules
) -> tuple[set[str], set[str], set[str]]:
    """Ids that stay (trash included), go to trash, and leave."""
    needed = set(needed)
    stay = floor_of(points, needed)
    leave = {
        p.id for p in points if p.trashed is not None and p.id not in stay and now - p.trashed >= rules.trash_days * DAY
    }
    trash = {
        p.id
        for p in points
        if p.trashed is None
        and p.id not in stay
        and ((p.expires is not None and p.expires <= now) or thinned(p, points, now, rules))
    }
    for project, most in sorted(rules.quotas.items()):
        if most:
            _evict([p for p in points if p.project == project], sizes, stay, trash, leave, most, now)
    if rules.total:
        _evict(points, sizes, stay, trash, leave, rules.total, now)
    return {p.id for p in points} - trash - leave, trash - leave, leave


def used(points: Iterable[Point], sizes: Mapping[int, int], leave: Iterable[str]) -> int:
    """Bytes that those need which do not leave."""
    return sum(sizes[content] for content in frozenset().union(*(p.holds for p in points if p.id not in leave)))


def _evict(
    points: Sequence[Point], sizes: Mapping[int, int], stay: set[str], trash: set[str], leave: set[str], most: int, now: int
) -> None:  # fmt: skip
    held = sorted((p for p in points if p.trashed is None and p.id not in trash), key=lambda p: p.number)
    if used({p.worktree: p for p in held}.values(), sizes, ()) > most:
        return

    def turn(p: Point) -> tuple[int, int, int]:
        if p.trashed is not None or p.id in trash:
            return 0, now if p.trashed is None else p.trashed, p.number
        if now - p.counted > DAY:
            return 1, p.counted, p.number
        return (2 if p.trigger in AUTOMATIC else 3), p.counted, p.number

    going: list[str] = []
    for p in sorted((p for p in points if p.id not in stay and p.id not in leave), key=turn):
        if used(points, sizes, leave | set(going)) <= most:
            break
        going.append(p.id)
    # back to the last one that brought something, in each project
    for project in {p.project for p in points}:
        mine = [id_ for id_ in going if next(p for p in points if p.id == id_).project == project]
        while mine and used(points, sizes, leave | set(going)) == used(
            points, sizes, (leave | set(going)) - {mine[-1]}
        ):
            going.remove(mine.pop())
    leave |= set(going)
