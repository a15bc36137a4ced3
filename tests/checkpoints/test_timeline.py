"""The timeline against a model that is a list of dictionaries."""

from __future__ import annotations

import os
import struct
import sys
import threading
from dataclasses import dataclass, field, replace

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import rows, store
from openoxide.checkpoints.capture import Capture
from openoxide.checkpoints.entries import Entries
from openoxide.checkpoints.hashing import blob_hash, sum_from_bytes, sum_to_bytes
from openoxide.checkpoints.ignore import Rules
from openoxide.checkpoints.model import (
    ABSENT,
    RACY_NS,
    BlobHash,
    Certainty,
    Counts,
    FileState,
    Kind,
    Observed,
    StatIdentity,
    Trigger,
    Writer,
)
from openoxide.checkpoints.reading import Found
from openoxide.checkpoints.timeline import CHUNK_PATHS, Seal, Timeline
from openoxide.checkpoints.tree import Tree, wall_ns
from openoxide.db import Database
from openoxide.errors import OpenOxideError
from openoxide.paths import Home
from openoxide.settings import CaptureSettings
from tests.checkpoints.states import (
    DEPENDENCIES,
    LIKELY,
    OPERATION,
    SHARED,
    SURE,
    TOO_LARGE,
    UNKNOWN,
    States,
    at,
    file,
    folder,
    link,
    parents,
    special,
)
from tests.kit import effort, wait_until

CONTENTS = (b"", b"one", b"two two", bytes(300))
STATES = (
    *(file(content) for content in CONTENTS),
    file(b"one", 0o755, -5),
    file(b"one", torn=True),
    file(b"one", sqlite=True),
    folder(),
    folder(0o700),
    link(),
    special(),
    TOO_LARGE,
    DEPENDENCIES,
    ABSENT,
)
DATA = {blob_hash(content): content for content in CONTENTS}
CLAIMING = Writer(certainty=Certainty.SURE, windows=frozenset({3}))
IDENTITY = StatIdentity(dev=2**64 - 1, ino=2**63, size=1, mtime_ns=-1, ctime_ns=2, mode=0o100644, nlink=2, read_at_ns=9)


def found(path: bytes, state: FileState, identity: StatIdentity | None = None) -> Found:
    return Found(observed=Observed(path=path, state=state, identity=identity), data=DATA.get(state.blob or b""))


def seal(number: int, **more: object) -> Seal:
    return Seal(id=f"seal{number}", trigger=Trigger.MANUAL, now_ms=number, expires_at_ms=None, **more)


@pytest.fixture
def timeline(tmp_path):
    timeline = Timeline(Home(tmp_path))
    yield timeline
    timeline.close()


@dataclass
class Model:
    """``states[n]`` is what stood there at position ``n``; ``log[n]`` what the row after it changed, and who."""

    states: list[States] = field(default_factory=lambda: [{}])
    log: list[tuple[bytes, FileState, Writer]] = field(default_factory=list)
    sealed: list[int] = field(default_factory=list)

    def record(self, path: bytes, state: FileState, writer: Writer) -> None:
        if at(self.states[-1], path) != state:
            self.states.append({**self.states[-1], path: state})
            self.log.append((path, state, writer))

    def claim(self, writer: Writer, writes: dict[bytes, BlobHash], after: int) -> None:
        for seq, (path, state, recorded) in enumerate(self.log[after:], start=after):
            if state.blob and state.blob == writes.get(path) and recorded not in (SURE, OPERATION):
                self.log[seq] = (path, state, writer)

    def tree(self, seq: int) -> States:
        return {path: state for path, state in self.states[seq].items() if state != ABSENT}

    def counts(self, after: int, upto: int) -> Counts:
        old = {path for path, state in self.states[after].items() if state.exists}
        new = {path for path, state in self.states[upto].items() if state.exists}
        modified = sum(self.states[after][path] != self.states[upto][path] for path in old & new)
        return Counts(added=len(new - old), removed=len(old - new), modified=modified)

    def manifest(self, seq: int) -> bytes:
        """The sum over everything that is recorded, worked out anew."""
        total = 0
        for path, state in self.states[seq].items():
            if state.kind not in (Kind.ABSENT, Kind.SKIPPED):
                fields = struct.pack("<BHqq", state.kind, state.mode, state.size, state.mtime_ns)
                entry = struct.pack("<I", len(path)) + path + fields + (state.blob or state.target or b"")
                total += int.from_bytes(blake3(entry).digest(), "little")
        return (total % 2**256).to_bytes(32, "little")


names = st.sampled_from([b"a", b"a/b", b"a/b/c", b"a.b", b"a0", b"\xff", b"\xff/\n", b"z"])
changes = st.dictionaries(names, st.sampled_from(STATES), max_size=5)
batches = st.lists(
    st.tuples(changes, st.sampled_from([UNKNOWN, LIKELY, SURE, SHARED, OPERATION]), st.booleans()), max_size=7
)


named = st.dictionaries(names, st.sampled_from([*DATA]))


@settings(max_examples=effort(60))
@given(batches, named, st.integers(0, 9))
def test_every_past_state_is_as_it_was(tmp_path_factory, history, writes, claimed_after):
    timeline, model = Timeline(Home(tmp_path_factory.mktemp("timeline"))), Model()
    for number, (batch, writer, sealing) in enumerate(history):
        checkpoint = timeline.record(
            1,
            [found(path, state) for path, state in batch.items()],
            lambda _, w=writer: w,
            seal(number) if sealing else None,
        )
        for path, state in batch.items():
            model.record(path, state, writer)
        head = timeline.head(1)
        assert head.seq == len(model.log)
        files = [state for state in model.states[-1].values() if state.kind is Kind.FILE]
        skips = [state for state in model.states[-1].values() if state.kind is Kind.SKIPPED]
        assert (head.files, head.bytes, head.skipped) == (len(files), sum(f.size for f in files), len(skips))
        assert sum_to_bytes(head.sum) == model.manifest(head.seq)
        if sealing:
            assert (checkpoint.seq, checkpoint.skipped) == (head.seq, len(skips))
            assert checkpoint.manifest_hash == model.manifest(head.seq)
            assert checkpoint.counts == model.counts(model.sealed[-1] if model.sealed else 0, head.seq)
            model.sealed.append(head.seq)
    for writer in (CLAIMING, replace(CLAIMING, windows=frozenset({4}))):  # the second one comes too late
        timeline.claim(1, writer, writes, claimed_after)
    model.claim(CLAIMING, writes, claimed_after)
    check_positions(timeline, model)
    check_stretches(timeline, model)
    timeline.close()


def check_positions(timeline: Timeline, model: Model) -> None:
    with timeline.database.reading() as db:
        for seq in range(len(model.states)):
            tree = model.tree(seq)
            assert timeline.states(1, seq) == tree
            wanted = [*model.states[-1], b"never"]
            assert rows.states_at(db, 1, seq, wanted) == {path: at(model.states[seq], path) for path in wanted}
            for directory in (b"", b"a", b"a/b", b"\xff", b"never"):
                below = {p: s for p, s in tree.items() if not directory or p.startswith(directory + b"/")}
                assert rows.states_below(db, 1, seq, directory) == below
            skipped = {path: state for path, state in tree.items() if state.kind is Kind.SKIPPED}
            assert rows.skipped_at(db, 1, seq) == skipped
        for path in model.states[-1]:
            assert all(rows.ever_recorded(db, 1, above) for above in (path, *parents(path)))
        assert not rows.ever_recorded(db, 1, b"never")


def check_stretches(timeline: Timeline, model: Model) -> None:
    """What happened between two positions, and who did it."""
    last = len(model.log)
    with timeline.database.reading() as db:
        for after, upto in {(0, last), (0, last // 2), (last // 2, last), (last, last)}:
            stretch = model.log[after:upto]
            paths = {path for path, _, _ in stretch}
            assert sorted(rows.changed_paths(db, 1, after, upto)) == sorted(paths)
            versions = rows.versions_between(db, 1, [*paths, b"never"], after, upto)
            expected: dict[bytes, list[tuple[int, FileState, Writer]]] = {}
            for seq, (path, state, writer) in enumerate(stretch, start=after + 1):
                expected.setdefault(path, []).append((seq, state, writer))
            assert {path: [(v.seq, v.state, v.writer) for v in rows_] for path, rows_ in versions.items()} == expected
            counts = [(writer, sum(w == writer for _, _, w in stretch)) for writer in {w for _, _, w in stretch}]
            assert total_by_writer(rows.writer_counts(db, 1, after, upto)) == dict(counts)
            last_writers = rows.last_writers(db, 1, paths, upto)
            assert last_writers == {path: rows_[-1][2] for path, rows_ in expected.items()}


def total_by_writer(counts: list[tuple[Writer, int]]) -> dict[Writer, int]:
    """Each recording has writer rows of its own; equal writers are one."""
    totals: dict[Writer, int] = {}
    for writer, count in counts:
        totals[writer] = totals.get(writer, 0) + count
    return totals


def test_worktrees_do_not_see_each_other(timeline):
    timeline.record(1, [found(b"a", file(b"one"))], seal=seal(1))
    timeline.record(2, [found(b"a", link()), found(b"b", folder())], seal=seal(2))
    assert timeline.states(1, 1) == {b"a": file(b"one")}
    assert timeline.states(2, 2) == {b"a": link(), b"b": folder()}
    with timeline.database.reading() as db:
        assert [store.CheckpointQuery(db, number).newest().number for number in (1, 2)] == [1, 1]


def test_the_live_row_of_a_path_carries_the_stat_it_rests_on(timeline):
    seen = found(b"a", file(b"one"), IDENTITY)
    timeline.record(1, [seen])
    with timeline.live(1) as live:
        row = live.one(b"a")
        assert (row.path, row.state, row.identity) == seen.observed
        assert live.one(b"b") is None
        assert live.twins(IDENTITY.dev, IDENTITY.ino) == [b"a"]
        assert [(row.path, row.state, row.identity) for row in live.below(b"")] == [seen.observed]
        assert live.files_below(b"a", 9) == 0


def test_an_unchanged_path_only_renews_its_stat(timeline):
    timeline.record(1, [found(b"a", file(b"one"), IDENTITY)])
    fresh = StatIdentity(dev=1, ino=2, size=3, mtime_ns=4, ctime_ns=5, mode=6, nlink=1, read_at_ns=8)
    timeline.record(1, [found(b"a", file(b"one"), fresh)])
    assert timeline.head(1).seq == 1
    with timeline.live(1) as live:
        assert live.one(b"a").identity == fresh


def test_a_path_that_is_found_twice_at_once_has_both_its_states(timeline):
    """As the side file of a database that is met again in the scan."""
    timeline.record(1, [found(b"a", file(b"one")), found(b"a", file(b"one")), found(b"a", link())])
    assert [timeline.states(1, seq) for seq in (1, 2)] == [{b"a": file(b"one")}, {b"a": link()}]
    assert timeline.head(1).seq == 2


class TestSealing:
    def test_a_seal_is_made_also_if_nothing_changed(self, timeline):
        first = timeline.record(1, [], seal=seal(1))
        second = timeline.record(1, [], seal=seal(2))
        assert (first.number, second.number) == (1, 2)
        assert first.seq == second.seq == 0

    def test_unless_it_asks_for_changes(self, timeline):
        assert timeline.record(1, [], seal=seal(1, only_if_changed=True)).number == 1
        assert timeline.record(1, [], seal=seal(2, only_if_changed=True)) is None
        timeline.record(1, [found(b"a", folder())])
        assert timeline.record(1, [], seal=seal(3, only_if_changed=True)).number == 2
        assert timeline.record(1, [found(b"a", folder())], seal=seal(4, only_if_changed=True)) is None

    def test_a_pinned_one_never_expires(self, timeline):
        wish = Seal(id="s", trigger=Trigger.MANUAL, now_ms=1, expires_at_ms=99, pinned=True)
        assert timeline.record(1, [], seal=wish).expires_at_ms is None

    def test_a_failed_one_takes_a_number_and_is_never_the_newest(self, timeline):
        sealed = timeline.record(1, [found(b"a", folder())], seal=seal(1))
        failed = timeline.seal_failed(1, seal(2), "the disk is full")
        assert (failed.number, failed.failed) == (2, "the disk is full")
        with timeline.database.reading() as db:
            assert store.CheckpointQuery(db, 1).newest() == sealed
        assert timeline.record(1, [], seal=seal(3)).number == 3


@pytest.mark.parametrize("order", [(b"new", b"a", b"b"), (b"a", b"new", b"b"), (b"new", b"newer", b"a")])
def test_paths_that_are_known_and_new_ones_are_recorded_together(timeline, order):
    timeline.record(1, [found(b"a", file(b"one")), found(b"b", file(b"one"))])
    timeline.record(2, [found(b"a", folder())])
    timeline.record(1, [found(path, folder()) for path in order])
    assert timeline.states(1, 5) == {b"a": file(b"one"), b"b": file(b"one")} | dict.fromkeys(order, folder())
    assert timeline.states(2, 1) == {b"a": folder()}
    with timeline.database.reading() as db:
        assert db.execute_sql("select count(*) from path where worktree = 1").fetchone() == (len({*order, b"a", b"b"}),)


class TestChunks:
    MANY = 2 * CHUNK_PATHS + 300

    def test_a_large_recording_is_sealed_once_at_its_end(self, timeline):
        told: list[tuple[int, int]] = []
        items = [found(b"%06d" % number, file(b"one")) for number in range(self.MANY)]
        checkpoint = timeline.record(1, items, seal=seal(1), progress=lambda *done: told.append(done))
        assert (checkpoint.number, checkpoint.seq, checkpoint.counts) == (1, self.MANY, Counts(added=self.MANY))
        assert told == [(CHUNK_PATHS, CHUNK_PATHS * 3), (2 * CHUNK_PATHS, CHUNK_PATHS * 6), (self.MANY, self.MANY * 3)]
        assert len(timeline.states(1, self.MANY)) == self.MANY

    def test_large_contents_make_smaller_chunks(self, timeline):
        contents = [bytes([number]) * (3 << 20) for number in range(7)]
        told: list[tuple[int, int]] = []
        items = [
            Found(observed=Observed(path=b"%d" % number, state=file(content)), data=content)
            for number, content in enumerate(contents)
        ]
        timeline.record(1, iter(items), progress=lambda *done: told.append(done))
        assert [paths for paths, _ in told] == [3, 6, 7]
        assert [timeline.blobs.read(blob_hash(content)) == content for content in contents] == [True] * 7

    def test_what_was_recorded_before_a_failure_stays_and_is_not_sealed(self, timeline):
        def broken():
            for number in range(CHUNK_PATHS + 10):
                yield found(b"%06d" % number, file(b"one"))
            raise OSError(5, "Input/output error")

        with pytest.raises(OSError, match="Input/output error"):
            timeline.record(1, broken(), seal=seal(1))
        assert timeline.head(1).seq == CHUNK_PATHS
        with timeline.database.reading() as db:
            assert store.CheckpointQuery(db, 1).newest() is None

    def test_a_chunk_stays_recorded_where_the_contents_of_the_next_one_cannot_be_stored(self, timeline):
        packs = timeline.blobs.packs.folder

        def refused():
            for number in range(CHUNK_PATHS + 1):
                yield found(b"%06d" % number, file(b"one"))
            wait_until(lambda: packs.joinpath("00000001.pack").stat().st_size > 0, 30)
            with packs.joinpath("00000001.pack").open("ab") as pack:
                pack.write(b"somebody's, so the next contents need another pack")
            packs.joinpath("00000002.pack").write_bytes(b"and its name is taken")
            yield found(b"last", file(b"two two"))

        with pytest.raises((OSError, OpenOxideError)):
            timeline.record(1, refused(), seal=seal(1))
        assert timeline.head(1).seq == CHUNK_PATHS
        assert timeline.blobs.read(blob_hash(b"one")) == b"one"
        with timeline.database.reading() as db:
            assert store.CheckpointQuery(db, 1).newest() is None

    def test_a_content_of_two_chunks_is_stored_once(self, timeline):
        alike = {b"%06d" % number: b"content %d" % (number % CHUNK_PATHS) for number in range(2 * CHUNK_PATHS)}
        items = [Found(Observed(path, file(content)), content) for path, content in alike.items()]
        timeline.record(1, items)
        with timeline.database.reading() as db:
            stored = db.execute_sql("select count(*), sum(raw) from frame").fetchone()
        # what was packed twice would lie in a frame that the rows of the second chunk name
        assert stored == (1, sum(map(len, {*alike.values()})))
        assert {
            path: timeline.blobs.read(state.blob) for path, state in timeline.states(1, len(alike)).items()
        } == alike

    def test_a_chunk_that_cannot_be_attributed_leaves_no_row(self, timeline):
        def attribute(seen: Observed) -> Writer:
            if seen.path == b"b":
                raise ZeroDivisionError
            return UNKNOWN

        with pytest.raises(ZeroDivisionError):
            timeline.record(1, [found(b"a", file(b"one")), found(b"b", folder())], attribute, seal(1))
        assert timeline.head(1).seq == 0
        assert timeline.record(1, [found(b"a", file(b"one"))], seal=seal(2)).seq == 1
        assert timeline.blobs.read(blob_hash(b"one")) == b"one"


def test_a_first_capture_that_was_killed_is_taken_up_where_it_was(timeline, tmp_path):
    """The second one reads only what the first had not recorded."""
    root = tmp_path / "root"
    root.mkdir()
    for number in range(700):
        (root / f"{number:04d}").write_bytes(b"%d" % number)
    wait_until(lambda: wall_ns() > (root / "0699").stat().st_ctime_ns + 2 * RACY_NS, 10)

    def capture(limit: int | None) -> list[Found]:
        taken: list[Found] = []

        def some(items):
            for item in items:
                if limit is not None and len(taken) == limit:
                    raise KeyboardInterrupt
                taken.append(item)
                yield item

        with Tree(os.fsencode(root)) as tree, timeline.live(1) as live:
            whole = Capture(Entries(tree, Rules(CaptureSettings()), CaptureSettings(), live, timeline.blobs.write_big))
            timeline.record(1, some(whole.everything()))
        return taken

    with pytest.raises(KeyboardInterrupt):
        capture(CHUNK_PATHS + 100)
    assert timeline.head(1).seq == CHUNK_PATHS
    assert [item.observed.path for item in capture(None)] == [b"%04d" % number for number in range(CHUNK_PATHS, 700)]
    assert timeline.head(1).files == 700
    assert capture(None) == []


class TestConcurrency:
    def test_a_blob_that_vanishes_between_look_and_record_is_stored_again(self, timeline):
        timeline.record(1, [found(b"a", file(b"one"))])
        recorder = threading.Thread(target=timeline.record, args=(1, [found(b"b", file(b"one"))]))
        with timeline.database.writing() as db:
            recorder.start()
            wait_until(lambda: "writing" in stack_of(recorder), 30)
            db.execute_sql("delete from blob")
        recorder.join(30)
        assert timeline.states(1, 2)[b"b"] == file(b"one")
        assert timeline.blobs.read(blob_hash(b"one")) == b"one"

    def test_packs_that_are_dropped_again_and_again_cost_no_recording(self, timeline):
        """As beside a prune: each time that the recording gets the lock, somebody has just dropped what has no row."""
        dropped = []

        def drop() -> None:
            timeline.database.guard = lambda: None
            dropped.append(timeline.blobs.drop_packs())
            # the third one is that before the commit
            if len(dropped) < 2:
                timeline.database.guard = drop

        timeline.database.guard = drop
        timeline.record(1, [found(b"a", file(b"one"))])
        assert len(dropped) == 2
        assert dropped[0]
        assert timeline.blobs.read(blob_hash(b"one")) == b"one"

    def test_a_pack_that_is_shut_takes_nothing_more(self, timeline):
        """A purge shuts packs, and then waits for whoever writes others anew."""
        timeline.record(1, [found(b"a", file(b"one"))])
        timeline.blobs.shut(timeline.blobs.packs.numbers())
        timeline.record(1, [found(b"b", file(b"two two"))])
        assert timeline.blobs.read(blob_hash(b"two two")) == b"two two"
        assert len(timeline.blobs.packs.numbers()) == 2

    def test_a_content_that_is_gone_is_told_of_to_the_user(self, timeline):
        with pytest.raises(OpenOxideError, match="was deleted while it was being recorded") as caught:
            timeline.record(1, [found(b"a", file(b"given by no one"))])
        assert caught.value.hint

    def test_many_threads_record_without_losing_a_row(self, timeline):
        def record(worktree: int) -> None:
            for number in range(20):
                timeline.record(worktree, [found(b"%d" % number, file(b"one"))], seal=seal(worktree * 100 + number))

        threads = [threading.Thread(target=record, args=(worktree,)) for worktree in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [timeline.head(worktree).seq for worktree in (1, 2, 3)] == [20, 20, 20]


def stack_of(thread: threading.Thread) -> set[str]:
    """The functions that a thread is in."""
    frame, names = sys._current_frames().get(thread.ident or 0), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


@given(st.integers(0, 2**256 - 1))
def test_a_sum_is_read_back_from_its_bytes(total):
    assert sum_from_bytes(sum_to_bytes(total)) == total


def test_a_store_is_read_without_writing_to_it(tmp_path):
    timeline = Timeline(Home(tmp_path))
    timeline.record(1, [found(b"a", file(b"one"))])
    timeline.close()
    reading = Timeline(Home(tmp_path), read_only=Database(tmp_path / "timeline.db", read_only=True))
    assert reading.states(1, 1) == {b"a": file(b"one")}
    assert reading.blobs.read(blob_hash(b"one")) == b"one"
    reading.close()
