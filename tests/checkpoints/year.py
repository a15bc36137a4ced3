"""A machine that somebody works on, day after day: edits of three projects, one of which lies idle, pins, names, bursts
of 20 GB, renames, trash, boots and clocks that are wrong. Sizes are simulated: rows without bytes. What expires and what
a prune takes away is the product's own, called as the daemon's jobs call it.

What is promised is known here by the true time and by the words of the architecture; the store is asked only which
checkpoints there are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from openoxide.checkpoints import expiry, store
from openoxide.checkpoints.blobs import Blobs
from openoxide.checkpoints.clockmark import ClockMark, count_from, doubt
from openoxide.checkpoints.gauge import Gauge
from openoxide.checkpoints.model import Checkpoint, Trigger, Worktree
from openoxide.checkpoints.prune import Prune
from openoxide.checkpoints.rows import raw
from openoxide.checkpoints.schema import open_timeline
from openoxide.paths import Home
from openoxide.settings import RetentionSettings
from tests.kit import FakeClock

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
GB = 10**9
QUOTA, TOTAL = 60 * GB, 90 * GB
AUTOMATIC = ("quiet", "tool")
PRUNE_HOURS, DAY_HOURS = 6, 24
# the fine window, and what passed since a prune before
FINE = DAY + (PRUNE_HOURS + 1) * HOUR
BUSY, CALM, IDLE = 1, 2, 3  # also the ids of their worktrees


@dataclass
class Sealed:
    """What is known of a checkpoint that was sealed: when by the true time, and what it holds."""

    worktree: int
    number: int
    seq: int
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


class Held:
    """Which contents anything holds, and how many bytes they are, each content once."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.bytes = 0
        self._sizes = sizes
        self._holders: Counter[int] = Counter()

    def take(self, contents: Iterable[int]) -> None:
        for content in contents:
            self.bytes += 0 if self._holders[content] else self._sizes[content]
            self._holders[content] += 1

    def leave(self, contents: Iterable[int]) -> None:
        for content in contents:
            self._holders[content] -= 1
            self.bytes -= 0 if self._holders[content] else self._sizes[content]

    def __contains__(self, content: int) -> bool:
        return self._holders[content] > 0


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
        self.blobs = Blobs(self.database, Home(folder), read_only=False)
        self.gauge = Gauge()
        self.mark = ClockMark(self.database, self.clock)
        self.trees = {worktree: Tree() for worktree in (BUSY, CALM, IDLE)}
        self.sizes: dict[int, int] = {}
        self.held = {worktree: Held(self.sizes) for worktree in (None, *self.trees)}
        self.last_live: dict[int, int] = {}  # by content that is there: when a file had it for the last time
        self.known: dict[str, Sealed] = {}
        self.paths = self.contents = self.hours = self.runs = self.prunes = 0
        self.boots = 1
        self.causes: Counter[str] = Counter()
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

    def edit(self, worktree: int, size: int | None = None) -> int:
        """A file gets a content that no other has; the path of it. With ``size`` it is a file that was not there."""
        tree = self.trees[worktree]
        if size is None and tree.files and self.random.random() < 0.8:
            path = self.random.choice(sorted(tree.files))
        else:
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
        return path

    def copy(self, worktree: int, other: int) -> None:
        """A new file with what a file of another project holds."""
        self.paths += 1
        content = self.random.choice(sorted(self.trees[other].files.values()))
        with self.database.writing() as db:
            self._row(db, worktree, self.paths, content)

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
        raw(db).execute(
            "insert or replace into live(path, seq, kind, mode, size, mtime_ns, blob, flags) values(?,?,?,0,0,0,?,0)",
            (path, tree.seq, 1 if content else 0, content),
        )
        old = tree.files.pop(path, None)
        if content is not None:
            raw(db).execute("update blob set dead_ms = null where id = ?", (content,))
            tree.files[path] = content
        for held in (self.held[None], self.held[worktree]):
            held.take(() if content is None else (content,))
            held.leave(() if old is None else (old,))
        for each in {old, content} - {None}:
            self.last_live[each] = self.true

    def remove(self, worktree: int, path: int) -> None:
        with self.database.writing() as db:
            self._row(db, worktree, path, None)

    def rename(self, worktree: int) -> None:
        tree = self.trees[worktree]
        path = self.random.choice(sorted(tree.files))
        content = tree.files[path]
        self.remove(worktree, path)
        self.paths += 1
        with self.database.writing() as db:
            self._row(db, worktree, self.paths, content)

    def burst(self, worktree: int) -> None:
        """20 GB come, are sealed, and go again."""
        made = [self.edit(worktree, 4 * GB) for _ in range(5)]
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
        holds = frozenset(tree.files.values())
        self.held[None].take(holds)
        self.held[worktree].take(holds)
        self.known[id_] = Sealed(
            worktree, tree.number, tree.seq, trigger, self.true, holds, named=sealed.name is not None
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
            if self.random.random() < 0.05:
                self.copy(worktree, self.random.choice((BUSY, CALM, IDLE)))
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
            mine = [one for one in self.known.items() if one[1].worktree == worktree and not one[1].trashed]
            mine.sort(key=lambda one: -one[1].number)
            stay |= {id_ for id_, _ in mine[:1]}
            stay |= {id_ for id_, _ in [one for one in mine if one[1].trigger == "prompt"][:3]}
        return stay

    def used(self, worktree: int | None = None) -> int:
        return self.held[worktree].bytes

    def least(self, stay: set[str], worktree: int | None = None) -> int:
        """The bytes of what may never go."""
        held = [self.known[id_].holds for id_ in stay if worktree in (None, self.known[id_].worktree)]
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
        if self.hours % PRUNE_HOURS == 0:
            self.prune()

    def expire(self) -> None:
        """What the job does, and what it may do."""
        if not self.trusted:
            return
        self.runs += 1
        assert self.error == 0, "a wrong clock is believed"
        over, over_total = {w: self.used(w) > QUOTA for w in self.trees}, self.used() > TOTAL
        decided, self.gauge = expiry.survey(
            self.database, self.folder, self.retention, lambda _: self.retention, self.clock.now_ms(), self.gauge
        )
        expiry.carry_out(self.database, decided, self.clock.now_ms(), lambda _: _Free())
        self.causes.update(cause.value for cause in (*decided.forget.values(), *decided.release.values()))
        floor, there = self.floor(), self.there()
        changed = decided.forget or decided.release or self.hours % DAY_HOURS == 0
        for id_ in sorted(self.known) if changed else ():
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
                self.held[None].leave(one.holds)
                self.held[one.worktree].leave(one.holds)
                del self.known[id_]
        self.is_small(floor)

    def prune(self) -> None:
        """What the job does, and what has to be there after it, and what has not."""
        trusted = self.trusted
        with self.database.reading() as db:
            given_up = expiry.fine_given_up(db)
        Prune(
            database=self.database,
            blobs=self.blobs,
            now_ms=self.clock.now_ms(),
            clock_trusted=trusted,
            given_up=given_up,
        ).run()
        self.prunes += 1
        with self.database.reading() as db:
            query = "select b.id, f.stored from blob b join frame f on f.id = b.frame"
            stored = dict(raw(db).execute(query).fetchall())
            for id_ in self.random.sample(sorted(self.known), min(5, len(self.known))):
                self.is_whole(db, id_)
        lost = [content for content in self.sizes if content in self.held[None] and content not in stored]
        assert not lost, f"{lost} are needed and gone"
        assert all(stored[content] == self.sizes[content] for content in stored)
        self.last_live = {content: self.last_live[content] for content in stored}
        self.sizes_known(stored)
        if trusted:
            over = [
                content
                for content in stored
                if content not in self.held[None] and self.true - self.last_live[content] > FINE
            ]
            assert not over, f"{over} are needed by nothing"

    def sizes_known(self, stored: dict[int, int]) -> None:
        """What is gone from the store is of no interest any more."""
        for content in self.sizes.keys() - stored.keys():
            del self.sizes[content]

    def is_whole(self, db, id_: str) -> None:
        """The rows say of a checkpoint what it held when it was sealed."""
        one = self.known[id_]
        rows = raw(db).execute(
            "select blob, max(seq) from version where worktree = ? and seq <= ? group by path", (one.worktree, one.seq)
        )
        assert {blob for blob, _ in rows} - {None} == one.holds, f"{id_} is not what it was"

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
            is_small = self.used(worktree) <= QUOTA or self.used(worktree) <= self.least(mine, worktree)
            assert is_small, f"project {worktree} is over its quota"
        assert self.used() <= TOTAL or self.used() <= self.least(floor), "the store is over its quota"
        if self.hours % DAY_HOURS:
            return
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
