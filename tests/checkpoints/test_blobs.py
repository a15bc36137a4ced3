"""The content store: each content once, found by its name or reported as damaged."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import stored
from openoxide.checkpoints.blobs import Blobs, BlobVanishedError, copy_blob
from openoxide.checkpoints.frames import FRAME_BYTES, Place
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import LOST_FRAME
from openoxide.checkpoints.schema import open_timeline
from openoxide.errors import FailedError, StoreDamagedError
from openoxide.paths import Home
from tests.checkpoints.stores import Store
from tests.kit import effort
from tests.kit.limits import file_size_limit

HOLE = 64 << 10


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    yield store
    store.close()


@settings(max_examples=effort(25))
@given(st.lists(st.lists(st.binary(max_size=300), max_size=6), max_size=4))
def test_every_content_is_found_by_its_name(tmp_path_factory, batches):
    store = Store(tmp_path_factory.mktemp("store"))
    for batch in batches:
        store.keep(*batch)
    for content in {content for batch in batches for content in batch}:
        assert store.blobs.read(blob_hash(content)) == content
    assert store.sql("select count(*) from blob") == [(len({c for batch in batches for c in batch}),)]
    store.close()


def test_small_contents_share_a_frame_and_a_large_one_has_its_own(store):
    small = [b"%d" % number for number in range(100)]
    store.keep(*small, os.urandom(FRAME_BYTES), b"after")
    assert store.sql("select count(*) from blob group by frame order by frame") == [(100,), (1,), (1,)]
    assert all(store.blobs.read(blob_hash(content)) == content for content in small)


def test_what_is_stored_already_is_not_written_again(store):
    store.keep(b"a", b"b")
    size = os.stat(store.home.blobs / store.packs()[0]).st_size
    assert store.blobs.unknown({blob_hash(b"a"): b"a"}) == {}
    store.keep(b"a", b"b")
    assert os.stat(store.home.blobs / store.packs()[0]).st_size == size


def test_what_was_appended_to_a_pack_that_was_dropped_meanwhile_is_stored_again(store):
    """A history is deleted between the bytes and the rows of somebody's recording."""
    payload = {blob_hash(b"x"): b"x"}
    placed = store.blobs.write(payload)
    assert store.blobs.drop_unused() == 0
    assert store.packs() == []
    with pytest.raises(BlobVanishedError), store.database.writing() as db:
        store.blobs.adopt(db, placed, payload)
    store.keep(b"x")
    assert store.blobs.read(blob_hash(b"x")) == b"x"


def test_a_blob_that_two_store_at_once_has_one_row(store):
    """Both looked before either had a row: the second frame is dead weight, never a wrong row."""
    payload = {blob_hash(b"x"): b"x"}
    first, second = store.blobs.write(payload), store.blobs.write(payload)
    with store.database.writing() as db:
        one = store.blobs.adopt(db, first, payload)
    with store.database.writing() as db:
        two = store.blobs.adopt(db, second, payload)
    assert one == two
    assert store.blobs.read(blob_hash(b"x")) == b"x"


def test_nothing_to_store_is_no_frame(store):
    assert store.blobs.write({}) == []
    assert store.blobs.unknown({}) == {}
    assert store.packs() == []


class TestTombstones:
    """A prune marks a blob first and removes it later; in between it can be wanted again."""

    def test_a_marked_blob_seems_unknown_and_is_revived_by_its_next_use(self, store):
        (number,) = store.keep(b"x")
        store.sql("update blob set dead_ms = 5")
        assert store.blobs.unknown({blob_hash(b"x"): b"x"}) == {blob_hash(b"x"): b"x"}
        assert store.keep(b"x") == [number]
        assert store.sql("select dead_ms from blob") == [(None,)]
        assert store.blobs.read(blob_hash(b"x")) == b"x"

    def test_a_blob_that_vanished_after_it_was_looked_up_has_to_be_stored_again(self, store):
        store.keep(b"x")
        payload = {blob_hash(b"x"): b"x"}
        placed = store.blobs.write(store.blobs.unknown(payload))
        store.sql("delete from blob")
        with pytest.raises(BlobVanishedError), store.database.writing() as db:
            store.blobs.adopt(db, placed, payload)
        with store.database.writing() as db:
            store.blobs.adopt(db, store.blobs.write(payload), payload)
        assert store.blobs.read(blob_hash(b"x")) == b"x"


class TestStart:
    def test_a_pack_that_no_row_names_is_deleted(self, store, tmp_path):
        store.keep(b"kept")
        store.close()
        (store.home.blobs / "00000007.pack").write_bytes(b"written, and then the power went")
        again = Store(tmp_path)
        assert again.packs() == ["00000001.pack"]
        assert again.blobs.read(blob_hash(b"kept")) == b"kept"
        again.keep(b"new")
        assert len(again.packs()) == 2
        assert max(again.packs()) > "00000007.pack", "a number is never given twice"
        again.close()

    def test_the_packs_of_a_database_that_was_lost_are_left_alone(self, store, tmp_path):
        store.keep(b"kept")
        store.close()
        for file in tmp_path.glob("timeline.db*"):
            file.unlink()
        again = Store(tmp_path)
        again.keep(b"new")
        again.close()
        again = Store(tmp_path)
        assert (again.home.blobs / "00000001.pack.aside").exists()
        assert again.blobs.read(blob_hash(b"new")) == b"new"
        again.close()

    def older(self, store, tmp_path, *, moved):
        """A copy of the database takes the place of the one that has moved the contents of a pack since then."""
        store.keep(b"first", b"second")
        copy = tmp_path / "copy"
        store.database.copy_to(copy)
        place = Place(*store.sql("select pack, offset, stored, raw, codec from frame")[0])
        store.blobs.packs.leave([1])
        with store.blobs.packs.beside():  # so that the numbers differ
            pass
        payload = {blob_hash(content): content for content in (b"first", b"second", b"third")}
        ((new, _),) = store.blobs.write(payload)
        assert new.pack != place.pack
        store.close()
        moved(store.home.blobs / "00000001.pack")
        for file in tmp_path.glob("timeline.db*"):
            file.unlink()
        copy.rename(store.home.timeline_db)
        return store.home.blobs / f"{new.pack:08d}.pack"

    @pytest.mark.parametrize(
        "moved",
        [
            pytest.param(lambda pack: pack.unlink(), id="deleted"),
            pytest.param(lambda pack: os.truncate(pack, pack.stat().st_size - 1), id="cut short"),
            pytest.param(lambda pack: pack.write_bytes(bytes(pack.stat().st_size)), id="overwritten"),
            pytest.param(lambda pack: (pack.unlink(), pack.mkdir()), id="replaced"),
        ],
    )
    def test_a_pack_that_may_hold_what_an_older_copy_names_is_set_aside(self, store, tmp_path, moved):
        pack = self.older(store, tmp_path, moved=moved)
        data = pack.read_bytes()

        again = Store(tmp_path)
        again.close()

        assert not pack.exists()
        assert pack.with_name(f"{pack.name}.aside").read_bytes() == data

    def test_a_pack_whose_contents_can_all_be_read_elsewhere_is_deleted(self, store, tmp_path):
        pack = self.older(store, tmp_path, moved=lambda _: None)

        again = Store(tmp_path)

        assert not pack.exists()
        assert not pack.with_name(f"{pack.name}.aside").exists()
        assert again.blobs.read(blob_hash(b"first")) == b"first"
        again.close()

    def test_what_a_repair_has_marked_as_lost_is_not_deleted_where_it_turns_up(self, store, tmp_path):
        pack = self.older(store, tmp_path, moved=lambda _: None)
        again = sqlite3.connect(store.home.timeline_db)
        again.execute("update blob set frame = ? where hash = ?", (LOST_FRAME, blob_hash(b"second")))
        again.commit()
        again.close()

        Store(tmp_path).close()

        assert pack.with_name(f"{pack.name}.aside").exists()

    def test_what_stands_in_the_place_of_a_pack_or_was_set_aside_stays_alone(self, store, tmp_path):
        store.keep(b"kept")
        store.close()
        foreign = [store.home.blobs / name for name in ("00001002.pack", "00001003.pack.aside", f"{'9' * 30}.pack")]
        for folder in foreign:
            folder.mkdir()
        (store.home.blobs / "abc.pack").touch()
        again = Store(tmp_path)
        again.keep(b"new")
        assert again.blobs.read(blob_hash(b"new")) == b"new"
        assert (store.home.blobs / "00001004.pack").is_file()
        assert all(folder.is_dir() for folder in foreign)
        assert (store.home.blobs / "abc.pack").exists()
        again.close()

    def test_a_read_only_start_changes_nothing(self, store):
        store.keep(b"kept")
        stray = store.home.blobs / "00000007.pack"
        stray.touch()
        (store.home.blobs / "big" / "0.tmp").touch()
        reading = Blobs(store.database, store.home, read_only=True)
        assert reading.read(blob_hash(b"kept")) == b"kept"
        assert stray.exists()
        assert (store.home.blobs / "big" / "0.tmp").exists()

    def test_a_read_only_start_without_a_store_is_possible(self, tmp_path):
        database = open_timeline(tmp_path / "timeline.db")
        Blobs(database, Home(tmp_path), read_only=True).close()
        assert not (tmp_path / "blobs").exists()
        database.close()


class TestWhatIsNoFile:
    """Nobody ever writes into the FIFO: to open it as a file would wait for good."""

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_in_the_place_of_a_pack_is_damage(self, store, make):
        store.keep(b"x")
        pack = store.home.blobs / "00000001.pack"
        pack.unlink()
        make(pack)
        place = Place(*store.sql("select pack, offset, stored, raw, codec from frame")[0])

        with alarm(20):
            assert store.blobs.damaged([blob_hash(b"x")]) == [blob_hash(b"x")]
            with pytest.raises(OSError, match="no regular file"):
                store.blobs.packs.header(place, 0)

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_in_the_place_of_a_big_content_is_damage(self, store, make):
        name = store.keep_big(b"x")
        file = store.home.blobs / "big" / name.hex()
        file.unlink()
        make(file)

        with alarm(20), pytest.raises(StoreDamagedError, match="cannot be opened"):
            store.blobs.open(name)


@contextmanager
def alarm(seconds):
    """What hangs fails."""

    def ring(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class TestBigBlobs:
    CONTENT = os.urandom(3 << 20)

    def test_one_is_read_whole_and_as_a_stream(self, store):
        name = store.keep_big(self.CONTENT)
        assert name == blob_hash(self.CONTENT)
        assert store.blobs.read(name) == self.CONTENT
        with store.blobs.open(name) as source:
            assert source.read(100) == self.CONTENT[:100]

    def test_one_that_has_no_row_yet_waits_for_it(self, store):
        name = store.blobs.write_big(io.BytesIO(self.CONTENT))
        with pytest.raises(StoreDamagedError, match="is missing from the store"):
            store.blobs.read(name)
        with suppress(ZeroDivisionError), store.database.writing() as db:
            store.blobs.adopt(db, [], [name])
            raise ZeroDivisionError  # rolled back
        with store.database.writing() as db:
            store.blobs.adopt(db, [], [name])
        assert store.blobs.read(name) == self.CONTENT

    def test_one_whose_row_is_durable_waits_no_more(self, store):
        name = store.keep_big(self.CONTENT)
        store.sql("delete from blob")
        with pytest.raises(BlobVanishedError), store.database.writing() as db:
            store.blobs.adopt(db, [], [name])

    def test_the_same_big_content_twice_has_one_row(self, store):
        assert store.keep_big(self.CONTENT) == store.keep_big(self.CONTENT)
        assert store.sql("select count(*) from blob") == [(1,)]


class TestDamage:
    def test_a_name_that_was_never_stored_is_missing(self, store):
        with pytest.raises(StoreDamagedError, match="is missing from the store"):
            store.blobs.read(blob_hash(b"never"))

    def test_bytes_that_are_not_what_they_are_named_after_are_not_given_out(self, store):
        content = os.urandom(26)  # stored as it is, so that other bytes can take its place
        store.keep(content, b"second")
        ((offset,),) = store.sql("select offset from frame")
        with (store.home.blobs / store.packs()[0]).open("r+b") as pack:
            pack.seek(offset)
            pack.write(b"other bytes of this length")
        with pytest.raises(StoreDamagedError, match="does not hold the bytes it is named after"):
            store.blobs.read(blob_hash(content))
        assert store.blobs.read(blob_hash(b"second")) == b"second"

    def test_what_was_read_before_does_not_hide_damage(self, store):
        content = os.urandom(26)
        store.keep(content, b"second")
        assert store.blobs.read(blob_hash(content)) == content
        ((offset,),) = store.sql("select offset from frame")
        with (store.home.blobs / store.packs()[0]).open("r+b") as pack:
            pack.seek(offset)
            pack.write(b"other bytes of this length")

        assert store.blobs.damaged([blob_hash(content), blob_hash(b"second")]) == [blob_hash(content)]

    @pytest.mark.parametrize(
        "content", [os.urandom(200_000), os.urandom(100_000).hex().encode()], ids=["plain", "packed"]
    )
    @pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
    def test_damage_of_a_big_one_is_told_as_such_wherever_it_is_met(self, store, content, at):
        name = store.keep_big(content)
        path = store.home.blobs / "big" / name.hex()
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 0xFF
        path.write_bytes(data)

        with pytest.raises(StoreDamagedError):
            store.blobs.read(name)
        assert store.blobs.damaged([name]) == [name]

    def test_a_big_one_that_was_damaged_is_found(self, store):
        name = store.keep_big(os.urandom(100_000))
        path = store.home.blobs / "big" / name.hex()
        damaged = bytearray(path.read_bytes())
        damaged[50_000] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(StoreDamagedError):
            store.blobs.read(name)

    def test_a_copy_is_checked_against_the_name(self, tmp_path):
        fd = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT)
        copy_blob(io.BytesIO(b"content"), fd, blob_hash(b"content"))
        with pytest.raises(StoreDamagedError):
            copy_blob(io.BytesIO(b"content"), fd, blob_hash(b"other"))
        os.close(fd)
        assert (tmp_path / "copy").read_bytes() == b"contentcontent"


def test_a_store_that_cannot_be_written_says_so(store):
    with file_size_limit(100), pytest.raises(FailedError, match="the content store cannot be written"):
        store.keep(os.urandom(1000))
    with file_size_limit(100), pytest.raises(FailedError, match="the content store cannot be written"):
        store.blobs.write_big(io.BytesIO(os.urandom(1000)))
    store.keep(b"afterwards")
    assert store.blobs.read(blob_hash(b"afterwards")) == b"afterwards"


def test_frames_that_were_read_lately_are_not_read_again(store):
    contents = [b"%d" % number for number in range(8)]
    for content in contents:
        store.keep(content)
    for content in contents:
        store.blobs.read(blob_hash(content))
    for pack in store.home.blobs.glob("*.pack"):
        pack.unlink()
    assert [store.blobs.read(blob_hash(content)) for content in contents[-4:]] == contents[-4:]
    with pytest.raises(StoreDamagedError):
        store.blobs.read(blob_hash(contents[0]))


def test_the_places_of_many_are_looked_up_at_once(store):
    contents = [b"%d" % number for number in range(1200)]
    store.keep(*contents)
    open_one = store.blobs.opener(blob_hash(content) for content in contents)
    assert [open_one(blob_hash(content)).read() for content in contents] == contents
    with store.database.reading() as db:
        assert len(stored.blob_places(db, [blob_hash(content) for content in contents])) == 1200
    with pytest.raises(StoreDamagedError, match="is missing"):
        open_one(blob_hash(b"not among them"))

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            bytes(1),
            bytes(HOLE),
            bytes(3 * HOLE + 1),
            b"x" + bytes(5 * HOLE),
            bytes(2 * HOLE) + b"x",
            bytes(HOLE) + b"x" * HOLE + bytes(HOLE),
            b"x" * HOLE + bytes(20 * HOLE) + b"y" + bytes(20 * HOLE),
            bytes(40 * HOLE),
        ],
        ids=len,
    )
    def test_a_copy_with_holes_reads_as_its_source(self, tmp_path, content):
        fd = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT)
        copy_blob(io.BytesIO(content), fd, blob_hash(content))
        os.close(fd)
        assert (tmp_path / "copy").read_bytes() == content
