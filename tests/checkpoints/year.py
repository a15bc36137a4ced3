"""A machine that somebody works on, day after day: edits of three projects, one of which lies idle, pins, names, bursts
of 20 GB, renames, trash, boots and clocks that are wrong. Sizes are simulated: rows without bytes.

What is promised is known here by the true time and by the words of the architecture; the store is asked only which
checkpoints there are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from openoxide.checkpoints import expiry, store
from openoxide.checkpoints.clockmark import ClockMark, count_from, doubt
from openoxide.checkpoints.model import Checkpoint, Trigger, Worktree
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.schema import open_timeline
from openoxide.settings import RetentionSettings
from tests.kit import FakeClock

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
GB = 10**9
QUOTA, TOTAL = 60 * GB, 90 * GB
AUTOMATIC = ("quiet", "tool")
BUSY, CALM, IDLE = 1, 2, 3  # also the ids of their worktrees


@dataclass
class Sealed:
    """What is known of a checkpoint that was sealed: when by the true time, and what it holds."""

    worktree: int
    number: int
    trigger: str
    true: int
    holds: frozenset[int]
    pinned: bool = False
    named: bool = False
    spared: int = 0  # when somebody took it back, or a wrong clock was set right
    trashed: int = 0


@dataclass
class Tree:
    """A project: its files by path with their contents, and which rows say so."""

    files: dict[int, int] = field(default_factory=dict)
    seq: int = 0
    number: int = 0


class Life:
    """``hour`` lets an hour pass. Raises AssertionError where a promise is broken."""

    def __init__(self, folder: Path, seed: int, retention: RetentionSettings) -> None:
        self.random = random.Random(seed)
        self.retention = replace(retention, quota_bytes=QUOTA, total_quota_bytes=TOTAL)
        self.ttl, self.grace = retention.ttl_days * DAY, retention.trash_days * DAY
        self.clock = FakeClock()
        self.error = 0
        self.database = open_timeline(folder / "timeline.db")
        self.database._writer.execute_sql("pragma synchronous = off")
        self.folder = folder
        self.mark = ClockMark(self.database, self.clock)
        self.trees = {worktree: Tree() for worktree in (BUSY, CALM, IDLE)}
        self.sizes: dict[int, int] = {}
        self.known: dict[str, Sealed] = {}
        self.paths = self.contents = self.hours = self.runs = 0
        self.boots = 1
        self.causes: dict[str, int] = {}
        self.mark.look()
        with self.database.writing() as db:
            for worktree in self.trees:
                fresh = Worktree(
                    id=0, project=f"p{worktree}", root=b"/%d" % worktree, dev=1, ino=worktree, birth_ns=0, watching=True
                )
                store.insert_worktree(db, fresh, 0)
        for worktree in self.trees:
            for _ in range(8):
                self.edit(worktree)
            self.seal(worktree, "manual")

    @property
    def true(self) -> int:
        return self.clock.wall - self.error

    # work

    def edit(self, worktree: int, size: int | None = None, path: int | None = None) -> int:
        """A file gets a content that no other has; the path of it."""
        tree = self.trees[worktree]
        if path is None and tree.files and self.random.random() < 0.8:
            path = self.random.choice(sorted(tree.files))
        if path is None:
            self.paths += 1
            path = self.paths
        self.contents += 1
        self.sizes[self.contents] = size or self.random.choice((2_000, 50_000, 3_000_000, 40_000_000))
        with self.database.writing() as db:
            stored = self.sizes[self.contents]
            raw(db).execute(
                "insert into frame(id, pack, offset, stored, raw, codec) values(?, 1, 0, ?, ?, 0)",
                (self.contents, stored, stored),
            )
            raw(db).execute(
                "insert into blob(id, hash, frame, inner, size) values(?, ?, ?, 0, ?)",
                (self.contents, b"%32d" % self.contents, self.contents, stored),
            )
            self._row(db, worktree, path, self.contents)
        tree.files[path] = self.contents
        return path

    def _row(self, db, worktree: int, path: int, content: int | None) -> None:
        tree = self.trees[worktree]
        tree.seq += 1
        raw(db).execute(
            "insert or ignore into path(id, worktree, path) values(?, ?, ?)", (path, worktree, b"%d" % path)
        )
        raw(db).execute(
            "insert into version(path, seq, worktree, kind, mode, size, mtime_ns, blob, flags) values(?,?,?,?,0,0,0,?,0)",
            (path, tree.seq, worktree, 1 if content else 0, content),
        )

    def remove(self, worktree: int, path: int) -> None:
        with self.database.writing() as db:
            self._row(db, worktree, path, None)
        del self.trees[worktree].files[path]

    def rename(self, worktree: int) -> None:
        tree = self.trees[worktree]
        path = self.random.choice(sorted(tree.files))
        content = tree.files[path]
        self.remove(worktree, path)
        self.paths += 1
        with self.database.writing() as db:
            self._row(db, worktree, self.paths, content)
        tree.files[self.paths] = content

    def burst(self, worktree: int) -> None:
        """20 GB come, are sealed, and go again."""
        made = [self.edit(worktree, 4 * GB, self.paths + 1_000_000 + number) for number in range(5)]
        self.seal(worktree, "quiet")
        for path in made:
            self.remove(worktree, path)
        self.seal(worktree, "quiet")

    def seal(self, worktree: int, trigger: str) -> None:
        tree = self.trees[worktree]
        tree.number += 1
        id_ = f"{worktree}k{tree.number:014d}"
        wall = self.clock.now_ms()
        sealed = Checkpoint(
            id=id_, worktree=worktree, number=tree.number, seq=tree.seq, created_at_ms=wall, trigger=Trigger(trigger),
            manifest_hash=b"", expires_at_ms=wall + self.ttl,
            name=f"n{tree.number}" if trigger == "manual" and self.random.random() < 0.5 else None,
        )  # fmt: skip
        with self.database.writing() as db:
            store.insert_checkpoint(db, sealed)
        self.known[id_] = Sealed(
            worktree, tree.number, trigger, self.true, frozenset(tree.files.values()), named=sealed.name is not None
        )

    def wish(self) -> None:
        """Somebody pins, lets go, forgets or takes back."""
        id_ = self.random.choice(sorted(self.known))
        one = self.known[id_]
        now, trusted = self.clock.now_ms(), self.trusted
        with self.database.writing() as db:
            if one.trashed or one.pinned:
                store.set_forgotten(db, [id_], None)
                store.set_pinned(db, id_, pinned=one.pinned and one.trashed > 0, expires_at_ms=now + self.ttl)
                count_from(db, [id_], now)
                one.pinned, one.trashed, one.spared = one.pinned and one.trashed > 0, 0, self.true
            elif self.random.random() < 0.1:
                store.set_pinned(db, id_, pinned=True, expires_at_ms=None)
                one.pinned = True
                return
            elif id_ not in self.floor():
                store.set_forgotten(db, [id_], now)
                one.trashed = self.true
            else:
                return
            if not trusted:
                doubt(db, [id_], now)

    def work(self, worktree: int) -> None:
        """What one hour brings to a project."""
        for _ in range(self.random.randint(1, 4)):
            self.edit(worktree)
            if self.random.random() < 0.1:
                self.rename(worktree)
            self.pass_time(10 * MINUTE)
            self.seal(worktree, self.random.choice(("quiet", "quiet", "tool", "prompt", "manual")))
        if self.random.random() < 0.01:
            self.burst(worktree)

    # the clock

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.mark.look()

    @property
    def trusted(self) -> bool:
        return self.mark.look().trusted

    def set_clock(self, error: int) -> None:
        self.clock.wall += error - self.error
        self.error = error
        self.mark.look()

    def reboot(self, off: int, error: int) -> None:
        """Off for a while; for a minute after it the clock is wrong."""
        self.boots += 1
        self.clock.boot = f"boot-{self.boots}"
        self.clock.advance(off)
        self.clock.up = 20_000
        # a daemon that starts with a disk that is fresh in its memory
        self.mark = ClockMark(self.database, self.clock)
        self.set_clock(error)
        if error:
            self.seal(BUSY, "quiet")
            self.pass_time(MINUTE)
            self.set_clock(0)

    def trouble(self) -> None:
        match self.random.randrange(4):
            case 0:
                self.set_clock(self.random.choice((-365, 2, 40, 3_650)) * DAY)
            case 1:
                self.reboot(self.random.choice((MINUTE, 9 * HOUR, 12 * DAY)), 0)
            case _:
                self.reboot(HOUR, self.random.choice((-365, -1, 20, 3_650)) * DAY)

    # the promises

    def floor(self) -> set[str]:
        """Pins, the newest of each project, the starts of its last three turns."""
        stay = {id_ for id_, one in self.known.items() if one.pinned and not one.trashed}
        for worktree in self.trees:
            mine = [
                (one.number, id_) for id_, one in self.known.items() if one.worktree == worktree and not one.trashed
            ]
            mine.sort(reverse=True)
            stay |= {id_ for _, id_ in mine[:1]}
            stay |= {id_ for _, id_ in [p for p in mine if self.known[p[1]].trigger == "prompt"][:3]}
        return stay

    def used(self, worktree: int | None = None, only: set[str] | None = None) -> int:
        held = [
            one.holds
            for id_, one in self.known.items()
            if worktree in (None, one.worktree) and (only is None or id_ in only)
        ]
        held += [frozenset(tree.files.values()) for w, tree in self.trees.items() if worktree in (None, w)]
        return sum(self.sizes[content] for content in frozenset().union(*held))

    def hour(self, *, faults: bool = True, expire: bool = True) -> None:
        self.hours += 1
        if self.random.random() < 0.3:
            self.work(BUSY)
        if self.random.random() < 0.06:
            self.work(CALM)
        if self.random.random() < 0.2:
            self.wish()
        if faults and self.error and self.random.random() < 0.1:
            self.set_clock(0)
        elif faults and self.random.random() < 0.01:
            self.trouble()
        self.pass_time(HOUR)
        if expire:
            self.expire()

    def expire(self) -> None:
        """What the job does, and what it may do."""
        if not self.trusted:
            return
        self.runs += 1
        assert self.error == 0, "a wrong clock is believed"
        floor, over = self.floor(), {w: self.used(w) > QUOTA for w in self.trees}
        over_total = self.used() > TOTAL
        decided = expiry.survey(
            self.database, self.folder, self.retention, lambda _: self.retention, self.clock.now_ms()
        )
        expiry.carry_out(self.database, decided, self.clock.now_ms(), lambda _: _Free())
        for cause in (*decided.forget.values(), *decided.release.values()):
            self.causes[cause.value] = self.causes.get(cause.value, 0) + 1
        there = self.there()
        for id_ in sorted(self.known):
            one = self.known[id_]
            gone, trashed = id_ not in there, there.get(id_) is not None
            assert not (gone or (trashed and not one.trashed)) or id_ not in floor, f"{id_} is part of the floor"
            if gone and not (over[one.worktree] or over_total):
                assert one.trashed, f"{id_} was never in trash"
                assert self.true - one.trashed >= self.grace - HOUR, f"{id_} was in trash too short"
            if trashed and not one.trashed:
                self.may_go(id_, one)
                one.trashed = self.true
            if gone:
                del self.known[id_]
        self.is_small(floor)

    def there(self) -> dict[str, int | None]:
        with self.database.reading() as db:
            return dict(raw(db).execute("select public_id, forgotten_ms from checkpoint").fetchall())

    def may_go(self, id_: str, one: Sealed) -> None:
        """Into trash: when its time is over, or when another stands for it and nobody wanted it."""
        age = self.true - max(one.true, one.spared)
        assert not one.pinned, f"{id_} is pinned"
        if age < self.ttl - HOUR:
            wanted = one.named or one.spared or one.trigger not in AUTOMATIC
            assert not wanted, f"{id_} is promised"
            span = HOUR if age < self.retention.thin.hourly_days * DAY - HOUR else DAY
            assert age >= DAY - HOUR, f"{id_} is of the last day"
            twins = [
                other
                for other in self.known.values()
                if other is not one and other.worktree == one.worktree and not other.trashed
                and other.trigger in AUTOMATIC and other.true // span == one.true // span and other.number < one.number
            ]  # fmt: skip
            assert twins, f"nothing stands for {id_}"

    def is_small(self, floor: set[str]) -> None:
        for worktree in self.trees:
            mine = {id_ for id_ in floor if self.known[id_].worktree == worktree}
            assert self.used(worktree) <= max(QUOTA, self.used(worktree, mine)), f"project {worktree} is over its quota"
        assert self.used() <= max(TOTAL, self.used(None, floor)), "the store is over its quota"
        now = self.true
        late = [
            id_
            for id_, one in self.known.items()
            if not one.trashed and id_ not in floor and now - max(one.true, one.spared) > self.ttl + 25 * DAY
        ]
        assert not late, f"{late} should be in trash"


class _Free:
    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass
