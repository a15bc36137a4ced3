"""Packs: what was appended is read back, and nothing is appended behind a write that failed."""

from __future__ import annotations

import io
import os
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import bigfiles
from openoxide.checkpoints.frames import FRAME_BYTES, MAGIC, PLAIN, ZSTD, compressor, make_frame
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.packs import PACK_BYTES, Packs
from openoxide.errors import StoreDamagedError
from tests.kit import effort
from tests.kit.limits import file_size_limit

contents = st.one_of(st.binary(max_size=200), st.builds(bytes.__mul__, st.binary(max_size=3), st.integers(0, 5000)))


def frame_of(*contents: bytes):
    return make_frame([(blob_hash(content), content) for content in contents], compressor())


@pytest.fixture
def packs(tmp_path):
    packs = Packs(tmp_path / "blobs", 1)
    packs.prepare()
    yield packs
    packs.close()


@pytest.mark.parametrize(
    ("content", "codec"),
    [
        pytest.param(b"", PLAIN, id="nothing"),
        pytest.param(b"x", PLAIN, id="one byte"),
        pytest.param(os.urandom(1000), PLAIN, id="noise"),
        pytest.param(b"x" * 1000, ZSTD, id="one letter"),
        pytest.param(bytes(100_000), ZSTD, id="zeros"),
    ],
)
def test_a_frame_is_compressed_where_that_gains_something(packs, content, codec):
    (place,) = packs.append([frame_of(content)])
    assert (place.codec, place.raw) == (codec, len(content))
    assert place.stored <= len(content)
    assert packs.read(place, place.raw) == content


@settings(max_examples=effort(30))
@given(batches=st.lists(st.lists(st.lists(contents, min_size=1, max_size=4), max_size=3), max_size=4))
def test_what_was_appended_is_read_back(tmp_path_factory, batches):
    packs = Packs(tmp_path_factory.mktemp("packs") / "blobs", 7)
    packs.prepare()
    found = []
    for batch in batches:
        found += zip(packs.append([frame_of(*group) for group in batch]), batch, strict=True)
    packs.close()
    for place, group in found:
        assert packs.read(place, place.raw) == b"".join(group)
    assert packs.numbers() == ([7] if batches else [])


def test_frames_lie_behind_each_other_and_tell_what_they_hold(packs):
    """The table of names is there to rebuild an index from the files alone."""
    groups = [(b"one", b"two" * 100), (b"",), (bytes(3000),)]
    places = packs.append([frame_of(*group) for group in groups[:2]]) + packs.append([frame_of(*groups[2])])
    data = (packs.folder / "00000001.pack").read_bytes()
    position = 0
    for place, group in zip(places, groups, strict=True):
        magic, codec, count, stored, raw = struct.unpack_from("<4sBHII", data, position)
        assert (magic, codec, count, stored, raw) == (MAGIC, place.codec, len(group), place.stored, place.raw)
        position += struct.calcsize("<4sBHII")
        for content in group:
            assert struct.unpack_from("<32sI", data, position) == (blob_hash(content), len(content))
            position += struct.calcsize("<32sI")
        assert position == place.offset
        position += place.stored
    assert position == len(data)


def test_the_files_are_the_users_own(packs):
    packs.append([frame_of(b"x")])
    name, _ = packs.add_big(io.BytesIO(b"big"))
    for path in (packs.folder / "00000001.pack", packs.big / name.hex()):
        assert path.stat().st_mode & 0o777 == 0o600
    assert packs.big.stat().st_mode & 0o777 == 0o700


def test_a_full_pack_is_followed_by_another(packs):
    content = os.urandom(PACK_BYTES // 4)
    places = [packs.append([frame_of(content)])[0] for _ in range(5)]
    assert [place.pack for place in places] == [1, 1, 1, 1, 2]
    assert packs.read(places[-1], places[-1].raw) == content


class TestFailures:
    """A write that fails leaves a torn tail: no later frame may be counted from there."""

    def test_a_short_write_closes_the_pack(self, packs):
        (before,) = packs.append([frame_of(b"before")])
        with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
            packs.append([frame_of(os.urandom(5000))])
        # what was written in part would keep a full disk full
        assert (packs.folder / "00000001.pack").stat().st_size == before.offset + before.stored
        (after,) = packs.append([frame_of(b"after")])
        assert (before.pack, after.pack) == (1, 2)
        assert (packs.read(before, before.raw), packs.read(after, after.raw)) == (b"before", b"after")

    @pytest.mark.parametrize("change", [-3, 3])
    def test_what_somebody_made_shorter_or_longer_is_not_appended_to(self, packs, change):
        (before,) = packs.append([frame_of(b"before")])
        path = packs.folder / "00000001.pack"
        os.truncate(path, path.stat().st_size + change)
        (after,) = packs.append([frame_of(b"after")])
        assert (after.pack, packs.read(after, after.raw)) == (2, b"after")
        assert before.pack == 1

    def test_a_failure_at_the_first_frame_of_a_pack_closes_it_too(self, packs):
        with file_size_limit(0), pytest.raises(OSError, match="File too large"):
            packs.append([frame_of(b"x")])
        (place,) = packs.append([frame_of(b"after")])
        assert (place.pack, packs.read(place, place.raw)) == (2, b"after")

    def test_a_pack_that_exists_is_never_appended_to(self, packs):
        (packs.folder / "00000001.pack").write_bytes(b"somebody's")
        with pytest.raises(FileExistsError):
            packs.append([frame_of(b"x")])
        (place,) = packs.append([frame_of(b"x")])
        assert place.pack == 2
        assert (packs.folder / "00000001.pack").read_bytes() == b"somebody's"

    def test_a_new_start_opens_a_new_pack(self, packs):
        packs.append([frame_of(b"old")])
        packs.close()
        again = Packs(packs.folder, 2)
        (place,) = again.append([frame_of(b"new")])
        again.close()
        assert place.pack == 2
        assert again.numbers() == [1, 2]


class TestDamage:
    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(os.urandom(40), id="plain"),
            pytest.param(b"some words, " * 4, id="compressed"),
            pytest.param(
                bytes(1000),
                id="compressed, with a size of several bytes",
            ),
        ],
    )
    def test_every_flipped_bit_of_a_payload_is_found(self, packs, content):
        """Either the frame cannot be read, or its bytes are not what the blob is named after."""
        (place,) = packs.append([frame_of(content)])
        path = packs.folder / "00000001.pack"
        sound = path.read_bytes()
        for position in range(place.offset, place.offset + place.stored):
            for bit in range(8):
                damaged = bytearray(sound)
                damaged[position] ^= 1 << bit
                path.write_bytes(damaged)
                with suppress(StoreDamagedError):
                    got = packs.read(place, place.raw)
                    assert got == content or blob_hash(got) != blob_hash(content)

    @pytest.mark.parametrize("left", [0, 10, -1])
    def test_a_pack_that_ends_early_is_damage(self, packs, left):
        (place,) = packs.append([frame_of(os.urandom(100))])
        path = packs.folder / "00000001.pack"
        os.truncate(path, left if left >= 0 else path.stat().st_size - 1)
        with pytest.raises(StoreDamagedError, match="pack 1"):
            packs.read(place, place.raw)

    def test_a_pack_that_is_gone_is_damage(self, packs):
        (place,) = packs.append([frame_of(b"x")])
        packs.remove(1)
        with pytest.raises(StoreDamagedError, match="pack 1 cannot be read"):
            packs.read(place, place.raw)


class TestBigBlobs:
    @pytest.mark.parametrize("size", [0, 1, bigfiles.CHUNK, bigfiles.CHUNK * 2 + 1])
    def test_they_are_files_of_their_own(self, packs, size):
        content = os.urandom(size)
        name, place = packs.add_big(io.BytesIO(content))
        assert name == blob_hash(content)
        assert (place.pack, place.raw, place.codec) == (None, size, ZSTD)
        assert place.stored == (packs.big / name.hex()).stat().st_size
        with packs.open_big(name) as source:
            assert source.read() == content

    def test_the_same_bytes_again_are_the_same_file(self, packs):
        assert packs.add_big(io.BytesIO(b"x" * 99)) == packs.add_big(io.BytesIO(b"x" * 99))
        assert len(list(packs.big.iterdir())) == 1

    def test_a_copy_that_fails_leaves_nothing(self, packs):
        with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
            packs.add_big(io.BytesIO(os.urandom(50_000)))
        assert list(packs.big.iterdir()) == []

    def test_a_copy_that_was_interrupted_is_removed_at_the_start(self, packs):
        name, _ = packs.add_big(io.BytesIO(b"whole"))
        (packs.big / "0123456789abcdef.tmp").write_bytes(b"half")
        packs.prepare()
        assert [path.name for path in packs.big.iterdir()] == [name.hex()]

    def test_one_that_is_gone_is_damage(self, packs):
        with pytest.raises(StoreDamagedError, match="cannot be opened"):
            packs.open_big(blob_hash(b"never stored"))


def test_only_packs_are_counted(packs):
    packs.append([frame_of(b"x")])
    (packs.folder / "notes.txt").touch()
    assert packs.numbers() == [1]
    assert FRAME_BYTES < PACK_BYTES


def test_a_folder_that_is_moved_is_followed_and_one_in_its_place_is_left_alone(packs, tmp_path):
    moved = packs.folder.rename(tmp_path / "moved")
    other = Packs(packs.folder, 2)
    other.prepare()
    other.append([frame_of(b"another's")])
    other.add_big(io.BytesIO(b"big"))
    other.close()

    (place,) = packs.append([frame_of(b"ours")])
    name, _ = packs.add_big(io.BytesIO(b"big"))

    assert packs.read(place, place.raw) == b"ours"
    assert packs.open_big(name).read() == b"big"
    assert sorted(path.name for path in moved.rglob("*")) == sorted(["00000001.pack", "big", name.hex()])
    packs.remove_aside(packs.set_bigs_aside([name])[0])
    assert packs.unused(()) == {1}
    packs.remove(1)
    assert [path.name for path in moved.rglob("*")] == ["big"]
    assert sorted(path.name for path in packs.folder.rglob("*")) == sorted(["00000002.pack", "big", name.hex()])


def test_what_is_none_of_ours_is_not_counted_and_stays(tmp_path):
    foreign = ["abc.pack", "1.pack", "0000000000001.pack", "note", "00000001.pack.gz", "big/notes.tmp"]
    (tmp_path / "blobs" / "big" / "0123456789abcdef.tmp").mkdir(parents=True)
    (tmp_path / "blobs" / "00000002.pack").mkdir()
    (tmp_path / "blobs" / "00000003.pack").symlink_to("note")
    for name in foreign:
        (tmp_path / "blobs" / name).write_text("theirs")
    before = sorted(path.name for path in (tmp_path / "blobs").rglob("*"))
    packs = Packs(tmp_path / "blobs", 4)

    packs.prepare()

    assert packs.numbers() == []
    assert packs.unused(()) == set()
    assert sorted(path.name for path in packs.folder.rglob("*")) == before
    packs.close()
