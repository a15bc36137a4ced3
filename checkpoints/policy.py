"""Which checkpoints stay, which go to trash and which leave it for good: from what there is, the settings and the time to
decisions with reasons. Pure.

The expiry that a checkpoint was sealed with is a promise: what changes later changes it for later ones. Only a quota breaks
it, in the order of docs/design.md, Forgetting, and never the floor. Nothing here decides what is needed for its content:
that follows from which checkpoints there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from openoxide.checkpoints import unheld
from openoxide.checkpoints.maxima import Maxima
from openoxide.checkpoints.model import AUTOMATIC, Trigger
from openoxide.checkpoints.overquota import Heavy, LeftOut, too_heavy
from openoxide.checkpoints.retention import Reason, floor
from openoxide.settings import RetentionSettings, ThinSettings

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MEMORY: Final = "memory"
# later than any place in the queue, beyond any position
_NEVER: Final = 1 << 62


class Why(str, Enum):
    """Why a checkpoint is kept, beside the reasons of the floor."""

    PROMISED = "promised"  # its time has not come
    NO_EXPIRY = "no_expiry"  # it was sealed while nothing expired
    MEMORY = "memory"  # memory never expires
    IN_TRASH = "in_trash"  # it can be taken back


class Cause(str, Enum):
    """Why a checkpoint goes."""

    EXPIRED = "expired"
    THINNED = "thinned"
    TRASH = "trash_days"  # it was in trash for as long as that keeps anything
    QUOTA = "quota"
    TOTAL_QUOTA = "total_quota"
    MIN_FREE = "min_free"
    EMPTIED = "emptied"  # the trash was, by hand


class Candidate(NamedTuple):
    """A sealed checkpoint as the policy sees it. ``counted_ms``: from when its age counts; ``spared``: thinning passes it,
    since somebody took it back or a wrong clock sealed it. Made by the ten thousand, so no dataclass.
    """

    id: str
    worktree: int
    number: int
    seq: int
    trigger: Trigger
    counted_ms: int
    expires_ms: int | None = None
    named: bool = False
    pinned: bool = False
    spared: bool = False
    forgotten_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A worktree: its project, kind and settings. ``needed``: ids of checkpoints that operations go back to. ``fine``: up to
    which position nothing is kept for the fine window now, and up to which a limit may give it up. ``root``: for people.
    """

    project: str
    retention: RetentionSettings
    needed: Collection[str] = ()
    kind: str = "code"
    fine: tuple[int, int] = (_NEVER, 0)
    root: str = ""


class Stretch(NamedTuple):
    """Where a content is needed: by each checkpoint of ``worktree`` at a position in ``[seq, until)``; ``until`` None: for
    as long as the worktree is. ``size_bytes``: what it takes in the store.
    """

    content: int
    size_bytes: int
    worktree: int
    seq: int
    until: int | None


class Disk(NamedTuple):
    """The disk that holds the store: all of it, and what is free, counting what a prune gives back anyway."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done. ``keep``: id to reason; ``forget``: into trash; ``release``: out of the store, with or without
    having been in trash. ``fine``: by worktree, up to which position a limit takes the states of the last day too, so that
    nothing is to be kept for the fine window there. In words: ``refused``, limits that cannot be held and take nothing, and
    ``unheld``, those that take all they may and are exceeded still; ``heavy``: what makes the floor alone exceed a quota.
    ``helpless``: of ``refused`` those that are of a project, or (None) of all. ``needed``: the bytes that a project, or all of
    them (None), needed before a limit took anything; empty where nothing had to be measured.
    """

    keep: Mapping[str, Reason | Why] = field(default_factory=dict)
    forget: Mapping[str, Cause] = field(default_factory=dict)
    release: Mapping[str, Cause] = field(default_factory=dict)
    fine: Mapping[int, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    heavy: Heavy = field(default_factory=Heavy)
    needed: Mapping[str | None, int] = field(default_factory=dict)
    unheld: tuple[str, ...] = ()
    helpless: frozenset[tuple[Cause, str | None]] = frozenset()

    def refusing(self, more: Sequence[str]) -> Plan:
        """The same, where ``more`` limits cannot be held."""
        return replace(self, refused=(*self.refused, *more))


def plan(
    candidates: Sequence[Candidate],
    trees: Mapping[int, Tree],
    now_ms: int,
    limits: Sequence[Limit] = (),
    stretches: Iterable[Stretch] = (),
    left_out: Sequence[LeftOut] = (),
) -> Plan:
    """What becomes of ``candidates``, all sealed checkpoints of all ``trees``. ``stretches``: all of the store, where there
    are ``limits``; ``left_out``: what is not recorded already, for a quota.
    """
    keep, forget = _by_time(candidates, trees, now_ms)
    release = {
        c.id: Cause.TRASH
        for c in candidates
        if keep.get(c.id) is Why.IN_TRASH
        and c.forgotten_ms is not None
        and now_ms - c.forgotten_ms >= trees[c.worktree].retention.trash_days * DAY_MS
    }
    found = Plan(keep={id_: why for id_, why in keep.items() if id_ not in release}, forget=forget, release=release)
    if not limits:
        return found
    # the order is fixed before anything is measured: each content then has one moment at which it is free
    queue = _Queue(found, candidates, trees, now_ms)
    usage = _Usage(queue, trees)
    for stretch in stretches:
        usage.add(stretch)
    before = usage.needed()
    refused = {limit: text for limit in limits if (text := usage.hold(limit, left_out))}
    heavy = Heavy()
    for limit in limits:
        heavy = heavy.and_also(usage.heavy(limit, left_out))
    return replace(
        _without(found, queue, usage, trees),
        refused=tuple(refused.values()),
        helpless=frozenset((limit.cause, limit.project) for limit in refused),
        heavy=heavy,
        needed=before,
        unheld=tuple(usage.unheld),
    )


def needed_bytes(
    candidates: Sequence[Candidate], trees: Mapping[int, Tree], now_ms: int, stretches: Iterable[Stretch]
) -> dict[str | None, int]:
    """What the quotas count: the bytes that a project, or all of them (None), needs now."""
    usage = _Usage(_Queue(Plan(), candidates, trees, now_ms), trees)
    for stretch in stretches:
        usage.add(stretch)
    return usage.needed()


def _by_time(
    candidates: Sequence[Candidate], trees: Mapping[int, Tree], now_ms: int
) -> tuple[dict[str, Reason | Why], dict[str, Cause]]:
    # an operation may have come to need what was put into trash before
    keep: dict[str, Reason | Why] = {
        c.id: Reason.UNDO if c.id in trees[c.worktree].needed else Why.IN_TRASH
        for c in candidates
        if c.forgotten_ms is not None
    }
    forget: dict[str, Cause] = {}
    held: defaultdict[int, list[Candidate]] = defaultdict(list)
    for c in candidates:
        if c.forgotten_ms is None:
            held[c.worktree].append(c)
    for worktree, of_tree in held.items():
        tree = trees[worktree]
        if tree.kind == MEMORY:
            keep |= dict.fromkeys((c.id for c in of_tree), Why.MEMORY)
            continue
        stay, thinned = floor(of_tree, tree.needed), thinned_at(of_tree, tree.retention.thin)
        for c in of_tree:
            if c.id in stay:
                keep[c.id] = stay[c.id]
            elif c.expires_ms is not None and c.expires_ms <= now_ms:
                forget[c.id] = Cause.EXPIRED
            elif thinned.get(c.id, now_ms + 1) <= now_ms:
                forget[c.id] = Cause.THINNED
            else:
                keep[c.id] = Why.NO_EXPIRY if c.expires_ms is None else Why.PROMISED
    return keep, forget


def thinned_at(held: Iterable[Candidate], thin: ThinSettings) -> dict[str, int]:
    """When thinning takes each of ``held``, the kept ones of a worktree, by id and without those that it passes: it may be
    later than their expiry. Of each hour, and later of each day, the first automatic one stays.
    """
    automatic = [c for c in held if c.trigger in AUTOMATIC and not (c.named or c.pinned or c.spared)]
    hours: set[int] = set()
    days: set[int] = set()
    found: dict[str, int] = {}
    for c in sorted(automatic, key=lambda c: (c.counted_ms, c.number)):
        if c.counted_ms // HOUR_MS in hours:
            found[c.id] = c.counted_ms + thin.all_days * DAY_MS
        elif c.counted_ms // DAY_MS in days:
            # the first of an hour goes no sooner than the others, whatever the settings are
            found[c.id] = c.counted_ms + max(thin.all_days, thin.hourly_days) * DAY_MS
        hours.add(c.counted_ms // HOUR_MS)
        days.add(c.counted_ms // DAY_MS)
    return found


# limits


class Limit(NamedTuple):
    """``cause`` wants no more than ``most_bytes`` in the worktrees of ``project``, or (None) in all. For ``MIN_FREE`` it is
    how many bytes have to go.
    """

    cause: Cause
    most_bytes: int
    project: str | None = None


# between what is older than a day and the checkpoints of the last one
_FINE_WINDOW: Final = 2


class _Queue:
    """The order in which checkpoints go where a limit is exceeded: trash, then what is older than a day, then the states of
    the last day that none holds, a worktree at a time, then automatic ones, then the others, each the oldest first.
    ``order`` lacks those that never go; a number in it is the worktree whose fine window ends there.
    """

    def __init__(self, found: Plan, candidates: Sequence[Candidate], trees: Mapping[int, Tree], now_ms: int) -> None:
        staying = {id_ for id_, why in found.keep.items() if isinstance(why, Reason) or why is Why.MEMORY}

        def place(c: Candidate) -> tuple[int, int, int]:
            if c.forgotten_ms is not None or c.id in found.forget:
                return 0, now_ms if c.forgotten_ms is None else c.forgotten_ms, c.number
            if now_ms - c.counted_ms > DAY_MS:
                return 1, c.counted_ms, c.number
            return (3 if c.trigger in AUTOMATIC else 4), c.counted_ms, c.number

        self._trees = trees
        there = [c for c in candidates if c.id not in found.release]
        going = sorted((c for c in there if c.id not in staying), key=place)
        before = sum(place(c)[0] < _FINE_WINDOW for c in going)
        fine = [worktree for worktree, tree in sorted(trees.items()) if tree.fine[0] < tree.fine[1]]
        self.order: list[Candidate | int] = [*going[:before], *fine, *going[before:]]
        self._fine = {worktree: before + at for at, worktree in enumerate(fine)}
        rank = {c.id: at for at, c in enumerate(self.order) if isinstance(c, Candidate)}
        held: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.newest: dict[int, int] = {}
        for c in there:
            # trash holds its contents too, until it leaves
            held[c.worktree].append((c.seq, rank.get(c.id, _NEVER)))
            if c.forgotten_ms is None and c.id not in found.forget:
                self.newest[c.worktree] = max(c.seq, self.newest.get(c.worktree, 0))
        self._held = {worktree: Maxima(sorted(each)) for worktree, each in held.items()}

    def last_of(self, stretch: Stretch) -> int:
        """When the last checkpoint goes that needs the stretch: its place in the order, -1 if there is none any more."""
        if stretch.until is None:
            return _NEVER
        held = self._held.get(stretch.worktree)
        return max(
            held.between(stretch.seq, stretch.until) if held else -1, self._fine_of(stretch.worktree, stretch.until)
        )

    def _fine_of(self, worktree: int, until: int) -> int:
        now, most = self._trees[worktree].fine
        return -1 if until <= now else self._fine[worktree] if until <= most else _NEVER


class _Usage:
    """What is needed of the store, and how far along the queue each project has to go."""

    def __init__(self, queue: _Queue, trees: Mapping[int, Tree]) -> None:
        self._queue = queue
        self._project = {worktree: tree.project for worktree, tree in trees.items()}
        self._roots = {tree.project: tree.root for tree in trees.values()}
        self.unheld: list[str] = []
        self._size: dict[int, int] = {}
        self._last: dict[
            tuple[str, int], int
        ] = {}  # by project and content: the rank after which it is not needed there
        self._newest: dict[tuple[str, int], None] = {}
        self._files: set[int] = set()  # of those: what some path of a project's tree holds or held
        self._kinds = {worktree: tree.kind for worktree, tree in trees.items()}
        self.cuts: dict[str, list[tuple[int, Cause]]] = {project: [] for project in self._project.values()}

    def add(self, stretch: Stretch) -> None:
        key = (self._project[stretch.worktree], stretch.content)
        self._size[stretch.content] = stretch.size_bytes
        self._last[key] = max(self._last.get(key, -1), self._queue.last_of(stretch))
        if self._kinds[stretch.worktree] != MEMORY:
            self._files.add(stretch.content)
        newest = self._queue.newest.get(stretch.worktree, 0)
        if stretch.seq <= newest and (stretch.until is None or newest < stretch.until):
            self._newest[key] = None

    def needed(self) -> dict[str | None, int]:
        """The bytes of what is needed, by project and (None) in all: each content once."""
        found = Counter[str | None](dict.fromkeys((None, *self.cuts), 0))
        every: set[int] = set()
        for (project, content), rank in self._last.items():
            if rank >= 0:
                found[project] += self._size[content]
                every.add(content)
        found[None] = sum(self._size[content] for content in every)
        return dict(found)

    def hold(self, limit: Limit, left_out: Sequence[LeftOut]) -> str:
        """Go along the queue until ``limit`` is held; why that is refused, empty if it is not. ``left_out``: what has to fit
        too where it is said what would do.
        """
        ranks = self._ranks(limit.project)
        after = Counter[int]()  # bytes by the rank after which they are not needed
        for content, rank in ranks.items():
            after[rank] += self._size[content]
        # what nothing needs already is a prune's, and frees space without anybody's loss
        unneeded = after.pop(-1, 0)
        used, may_go = sum(after.values()), sum(size for rank, size in after.items() if rank < _NEVER)
        if limit.cause is Cause.MIN_FREE:
            excess = limit.most_bytes - unneeded
            if excess > may_go:
                return unheld.min_free(excess, may_go)
        else:
            excess = used - limit.most_bytes
            least = self._newest_bytes(limit.project)
            root = self._roots.get(limit.project or "", "")
            # beside what is held of them: they come back with other contents
            would_do = used - may_go + sum(out.size_bytes for out in self._its(limit, left_out))
            if least > limit.most_bytes:
                return unheld.quota(root, limit.most_bytes, "the newest checkpoints alone take", least, would_do)
            if excess > may_go:
                why = "with pins, what an undo or the last turns need and open turns all that stays takes"
                self.unheld.append(unheld.quota(root, limit.most_bytes, why, used - may_go, would_do))
        self._go_on(limit, ranks, after, excess)
        return ""

    def heavy(self, limit: Limit, left_out: Sequence[LeftOut]) -> Heavy:
        """What would have to go for the floor alone to hold a quota."""
        if limit.cause is Cause.MIN_FREE:
            return Heavy()
        held = {content: self._size[content] for content, rank in self._ranks(limit.project).items() if rank == _NEVER}
        return too_heavy(held, held.keys() & self._files, self._its(limit, left_out), limit.most_bytes)

    def _its(self, limit: Limit, left_out: Sequence[LeftOut]) -> list[LeftOut]:
        return [out for out in left_out if limit.project in (None, self._project.get(out.worktree))]

    def _go_on(self, limit: Limit, ranks: Mapping[int, int], after: Mapping[int, int], excess: int) -> None:
        cut = -1
        for rank in sorted(after):
            if excess <= 0 or rank == _NEVER:
                break
            excess -= after[rank]
            cut = rank
        # in each project no further than brings something: one that is idle does not pay for another's growth
        for (project, content), rank in self._last.items():
            # another project may have the same content, and is not asked
            if limit.project not in (None, project):
                continue
            if ranks.get(content, _NEVER) <= cut and self.cut(project) < rank <= cut:
                self.cuts[project].append((rank, limit.cause))

    def cut(self, project: str) -> int:
        """The last place in the queue that this project has gone to."""
        return self.cuts[project][-1][0] if self.cuts[project] else -1

    def _ranks(self, project: str | None) -> dict[int, int]:
        """By content: the rank after which no project (or not this one) needs it, with what was cut so far."""
        found: dict[int, int] = {}
        for (name, content), rank in self._last.items():
            if project in (None, name):
                found[content] = max(found.get(content, -1), rank if rank > self.cut(name) else -1)
        return found

    def _newest_bytes(self, project: str | None) -> int:
        return sum(self._size[content] for content in {c for name, c in self._newest if project in (None, name)})


def _without(found: Plan, queue: _Queue, usage: _Usage, trees: Mapping[int, Tree]) -> Plan:
    """``found`` without what the limits take."""
    gone: dict[str, Cause] = {}
    fine: dict[int, int] = {}
    for rank, c in enumerate(queue.order):
        worktree = c if isinstance(c, int) else c.worktree
        cause = next((cause for cut, cause in usage.cuts[trees[worktree].project] if rank <= cut), None)
        if cause is not None and isinstance(c, Candidate):
            gone[c.id] = cause
        elif cause is not None:
            fine[worktree] = trees[worktree].fine[1]
    return Plan(
        keep={id_: why for id_, why in found.keep.items() if id_ not in gone},
        forget={id_: cause for id_, cause in found.forget.items() if id_ not in gone},
        release={**found.release, **gone},
        fine=fine,
    )
