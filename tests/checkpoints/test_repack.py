"""Packs written anew: every content that a row names is as it was, and what none names is in no file any more."""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import schema
from openoxide.checkpoints.blobs import BlobVanishedError
from openoxide.checkpoints.frames import DELTA, PLAIN, ZSTD, Place, base_of
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.repack import repack
from openoxide.checkpoints.schema import MIGRATIONS
from openoxide.checkpoints.verifying import Check, Reading
from openoxide.errors import FailedError, StoreDamagedError
from tests.checkpoints.stores import Store
from tests.kit import effort
from tests.kit.limits import file_size_limit


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    yield store
    store.close()


def numbers(store):
    return [int(name.removesuffix(".pack")) for name in store.packs()]


def repacked(store, **given):
    return repack(store.database, store.blobs, numbers(store), **given)


def drop(store, *contents):
    for content in contents:
        store.sql("delete from blob where hash = ?", blob_hash(content))


def version(store, path, seq, content):
    """A version of a path that has ``content``, as far as a repack asks."""
    store.sql(
        "insert into version(path, seq, worktree, kind, mode, size, mtime_ns, blob, flags)"
        " select ?, ?, 1, 1, 0, size, 0, id, 0 from blob where hash = ?",
        path,
        seq,
        blob_hash(content),
    )


def content_problems(store):
    """What ``check --read-data`` says of the files."""
    problems = Check(database=store.database, home=store.home, reading=Reading()).run()
    return [problem for problem in problems if problem.object.startswith(("blob", "frame"))]


def text(seed, lines=2_000):
    drawn = random.Random(seed)
    return [b" ".join(b"%x" % drawn.randrange(1 << 16) for _ in range(8)) + b"\n" for _ in range(lines)]


def edits(number, lines=2_000):
    """A text and what ``number`` edits of a line each make of it."""
    drawn, now = random.Random(number), text(number, lines)
    found = [b"".join(now)]
    for _ in range(number):
        now[drawn.randrange(lines)] = b" ".join(b"%x" % drawn.randrange(1 << 16) for _ in range(8)) + b"\n"
        found.append(b"".join(now))
    return found


def test_what_no_row_names_is_in_no_file_any_more(store):
    kept, gone = os.urandom(5_000), os.urandom(5_000)
    store.keep(kept, gone)
    drop(store, gone)
    (old,) = numbers(store)

    done = repacked(store)

    assert (done.moved, done.damaged, done.removed) == (1, [], {old})
    assert store.blobs.read(blob_hash(kept)) == kept
    assert gone[:100] not in b"".join((store.home.blobs / name).read_bytes() for name in store.packs())
    assert content_problems(store) == []


def test_packs_of_which_no_row_names_anything_go(store):
    store.keep(b"x")
    drop(store, b"x")
    repacked(store)
    assert store.packs() == []
    assert store.sql("select count(*) from frame") == [(0,)]


operations = st.lists(
    st.tuples(st.sampled_from(("keep", "drop", "repack", "start")), st.integers(0, 11), st.integers(1, 4)), max_size=14
)


@settings(max_examples=effort(40), deadline=None)
@given(operations)
def test_each_content_that_was_kept_is_given_back(tmp_path_factory, steps):
    """Against a set of contents: what is kept, dropped and written anew in whatever order."""
    store, known, seq = Store(tmp_path_factory.mktemp("store")), {}, 0
    pool = [*edits(5, lines=300), *(os.urandom(9_000) for _ in range(3)), *edits(2, lines=20)]
    for what, which, path in steps:
        content, seq = pool[which], seq + 1
        if what == "keep":
            store.keep(content)
            known[which] = content
            version(store, path, seq, content)
        elif what == "drop" and known.pop(which, None) is not None:
            store.sql("delete from version where blob = (select id from blob where hash = ?)", blob_hash(content))
            drop(store, content)
        elif what == "repack":
            repacked(store)
        elif what == "start":
            folder = store.home.folder
            store.close()
            store = Store(folder)
        for expected in known.values():
            assert store.blobs.read(blob_hash(expected)) == expected
    repacked(store)
    assert content_problems(store) == []
    assert store.sql("select count(*) from blob") == [(len(known),)]
    store.close()


class TestDeltas:
    """Versions of one path are stored as what they differ in."""

    def keep_versions(self, store, contents):
        store.sql("delete from version")
        for seq, content in enumerate(contents, 1):
            store.keep(content)
            version(store, 1, seq, content)

    def size(self, store):
        return sum((store.home.blobs / name).stat().st_size for name in store.packs())

    def test_each_edit_takes_little_more_than_its_line(self, store):
        contents = edits(40)
        self.keep_versions(store, contents[:1])
        one = self.size(store)
        self.keep_versions(store, contents)
        repacked(store)
        assert self.size(store) - one < 40 * 400
        assert content_problems(store) == []
        assert all(store.blobs.read(blob_hash(content)) == content for content in contents)

    def test_so_does_one_of_a_text_that_has_become_a_stub(self, store):
        contents = edits(40)
        self.keep_versions(store, contents[:1])
        one = self.size(store)
        self.keep_versions(store, [b"before\n", *contents, b"a stub\n"])
        repacked(store)
        assert self.size(store) - one < 42 * 400
        assert all(store.blobs.read(blob_hash(content)) == content for content in contents)

    def test_what_has_nothing_in_common_is_stored_raw(self, store):
        contents = [os.urandom(20_000) for _ in range(4)]
        self.keep_versions(store, contents)
        repacked(store)
        assert store.sql("select codec, count(*) from frame group by codec") == [(PLAIN, 4)]
        assert all(store.blobs.read(blob_hash(content)) == content for content in contents)

    def test_the_older_ones_outlive_the_newest_that_they_rest_on(self, store):
        contents = edits(6)
        self.keep_versions(store, contents)
        repacked(store)
        store.sql("delete from version where seq = 7")
        drop(store, contents[-1])
        repacked(store)
        assert content_problems(store) == []
        assert all(store.blobs.read(blob_hash(content)) == content for content in contents[:-1])
        assert store.sql("select sum(codec = ?), sum(codec = ?) from frame", ZSTD, DELTA)[0][0] == 1

    def test_a_bit_of_the_newest_that_is_turned_over_is_found_in_all(self, store):
        contents = edits(3)
        self.keep_versions(store, contents)
        repacked(store)
        ((offset, stored),) = store.sql("select offset, stored from frame where codec = ?", ZSTD)
        pack = store.home.blobs / store.packs()[0]
        data = bytearray(pack.read_bytes())
        data[offset + stored // 2] ^= 1
        pack.write_bytes(data)
        assert len(content_problems(store)) == 4

    def test_a_bit_of_what_the_others_differ_in_is_found_too(self, store):
        contents = edits(3)
        self.keep_versions(store, contents)
        repacked(store)
        ((offset, stored),) = store.sql("select offset, stored from frame where codec = ?", DELTA)
        pack = store.home.blobs / store.packs()[0]
        data = pack.read_bytes()
        for place in {*range(30), *random.Random(1).sample(range(stored), 100)}:
            flipped = bytearray(data)
            flipped[offset + place] ^= 1 << place % 8
            pack.write_bytes(flipped)
            with pytest.raises(StoreDamagedError):
                store.blobs.read(blob_hash(contents[0]))
            store.blobs.damaged([])  # forgets what it has unpacked

    def test_a_payload_that_is_too_short_names_none(self):
        with pytest.raises(ValueError, match="not what was written"):
            base_of(b"\0" * 16, Place(1, 100, 16, 100, DELTA))


class TestBesideOthers:
    """Recordings and reads go on meanwhile."""

    def test_a_reader_that_had_looked_up_a_place_finds_the_new_one(self, store):
        store.keep(b"a" * 100, b"b" * 100)
        open_one = store.blobs.opener([blob_hash(b"b" * 100)])
        repacked(store)
        assert open_one(blob_hash(b"b" * 100)).read() == b"b" * 100

    def test_a_pack_that_a_reader_may_need_stays_until_he_has_ended(self, store):
        store.keep(b"a")
        old = store.packs()
        done = repacked(store, drained=lambda: False)
        assert done.removed == set()
        assert set(old) < set(store.packs())
        assert store.blobs.drop_packs() == {int(old[0].removesuffix(".pack"))}
        assert store.blobs.read(blob_hash(b"a")) == b"a"

    def test_two_that_find_the_same_pack_unused_both_delete_it(self, store):
        """As a prune beside a purge: each looks first, and waits then for whoever reads."""
        store.blobs.write({blob_hash(b"x"): b"x"})
        (old,) = store.blobs.packs.numbers()
        other = []

        def drained() -> bool:
            other.append(store.blobs.drop_packs())
            return True

        assert store.blobs.drop_packs(drained) == other[0] == {old}
        assert store.packs() == []

    def test_what_was_appended_before_and_is_adopted_after_is_stored_again(self, store):
        store.keep(b"a")
        payload = {blob_hash(b"x"): b"x"}
        placed = store.blobs.write(payload)
        repacked(store)
        with pytest.raises(BlobVanishedError), store.database.writing() as db:
            store.blobs.adopt(db, placed, payload)
        store.keep(b"x")
        assert store.blobs.read(blob_hash(b"x")) == b"x"

    def test_what_is_adopted_in_the_middle_keeps_its_pack(self, store):
        store.keep(b"a" * 9_000)
        payload = {blob_hash(b"x"): b"x"}
        placed = store.blobs.write(payload)
        adopted = []

        def adopt():
            if not adopted:
                with store.database.writing() as db:
                    adopted.append(store.blobs.adopt(db, placed, payload))

        done = repacked(store, breathe=adopt)
        assert adopted
        assert done.removed == set()
        assert store.blobs.read(blob_hash(b"x")) == b"x"
        assert store.blobs.read(blob_hash(b"a" * 9_000)) == b"a" * 9_000

    def test_a_row_that_went_and_whose_number_another_got_is_left_alone(self, store):
        first, second = os.urandom(9_000), os.urandom(9_000)
        store.keep(first)
        swapped = []

        def swap():
            if not swapped:
                swapped.append(1)
                store.sql("delete from blob")
                store.sql("delete from frame")
                store.keep(second)

        repacked(store, breathe=swap)
        assert swapped
        assert store.blobs.read(blob_hash(second)) == second

    def test_contents_that_are_damaged_stay_where_they_are(self, store):
        store.keep(b"a" * 9_000)
        store.keep(os.urandom(300_000))
        (name,) = store.packs()
        data = bytearray((store.home.blobs / name).read_bytes())
        data[-5] ^= 1
        (store.home.blobs / name).write_bytes(data)
        done = repacked(store)
        assert (done.moved, done.damaged, done.removed) == (1, [2], set())
        assert name in store.packs()
        assert store.blobs.read(blob_hash(b"a" * 9_000)) == b"a" * 9_000


def test_a_full_disk_changes_nothing(store):
    contents = [os.urandom(40_000) for _ in range(3)]
    store.keep(*contents)
    before = store.packs()
    with file_size_limit(50_000), suppress(FailedError):
        repacked(store)
    # what no row names has gone at once: it would keep the disk full
    assert store.packs() == before
    assert all(store.blobs.read(blob_hash(content)) == content for content in contents)
    assert content_problems(store) == []


def test_a_store_of_the_first_schema_is_written_anew(tmp_path, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(schema, "MIGRATIONS", MIGRATIONS[:1])
        store = Store(tmp_path)
        store.keep(b"a" * 9_000, b"b")
        drop(store, b"b")
        store.close()
    store = Store(tmp_path)
    assert repacked(store).moved == 1
    assert store.blobs.read(blob_hash(b"a" * 9_000)) == b"a" * 9_000
    assert store.sql("select settled from frame") == [(1,)]
    store.close()
