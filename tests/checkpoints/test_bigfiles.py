"""Files of big contents: what shares its blocks with the tree, what is packed, and how either is read."""

from __future__ import annotations

import io
import os
import random
import subprocess
from pathlib import Path

import pytest

from openoxide.checkpoints import packs as packs_
from openoxide.checkpoints.bigfiles import CLONE_BYTES
from openoxide.checkpoints.blobs import copy_blob
from openoxide.checkpoints.frames import PLAIN, ZSTD
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.packs import Packs
from openoxide.errors import StoreDamagedError
from tests.daemon.trouble import paths, with_own_mounts, write
from tests.kit.box import Box

MIB = 1 << 20
MAGIC = b"\x28\xb5\x2f\xfd"
MAKE = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"]}


def noise(seed: int, size: int = CLONE_BYTES) -> bytes:
    return random.Random(seed).randbytes(size)


def sharing_disk(folder: Path, kind: str) -> Path:
    """A file system that shares blocks, gone with the process; the test is skipped by name where none can be made."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(400 * MIB)
    disk = folder / "disk"
    disk.mkdir()
    try:
        subprocess.run([*MAKE[kind], image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, disk], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no {kind} on a loop device here")
    return disk


def taken(disk: Path) -> int:
    os.sync()
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def prepared(folder: Path) -> Packs:
    packs = Packs(folder / "blobs", 1)
    packs.prepare()
    return packs


def held(packs: Packs, name: BlobHash) -> bytes:
    with packs.open_big(name) as source:
        return source.read()


def test_where_no_blocks_can_be_shared_it_is_packed(tmp_path):
    packs = prepared(tmp_path)
    content = b"text " * MIB
    with open(write(tmp_path / "file", content), "rb") as source:
        name, place = packs.add_big(source)
        assert source.tell() == len(content)
    if place.codec == PLAIN:
        pytest.skip("blocks can be shared here")
    assert (name, place.codec, place.raw) == (blob_hash(content), ZSTD, len(content))
    assert place.stored < len(content) // 10
    assert held(packs, name) == content


@pytest.mark.parametrize("there", [PLAIN, ZSTD])
@pytest.mark.parametrize("comes", [PLAIN, ZSTD])
def test_the_same_content_stays_in_the_form_that_it_has(tmp_path, there, comes):
    packs = prepared(tmp_path)
    content = noise(1)
    temporary, (name, place) = packs._write_big(io.BytesIO(content), there)
    assert packs._put_big(temporary, name, place) is None
    temporary, (_, other) = packs._write_big(io.BytesIO(content), comes)
    assert packs._put_big(temporary, name, other) == (None if there == comes else there)
    for _ in range(2):
        assert packs.add_big(io.BytesIO(content)) == (name, place)
    assert packs.codec_of_big(name) == there
    assert held(packs, name) == content


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\0 damaged"])
def test_what_is_damaged_is_replaced_by_what_comes(tmp_path, damage):
    packs = prepared(tmp_path)
    content = noise(1)
    name, place = packs.add_big(io.BytesIO(content))
    (packs.big / name.hex()).write_bytes(damage)
    assert packs.add_big(io.BytesIO(content)) == (name, place)
    assert held(packs, name) == content


@pytest.mark.parametrize("kind", MAKE)
@with_own_mounts
def test_a_big_file_shares_its_blocks_with_the_store_and_comes_back_so(tmp_path, kind):
    disk = sharing_disk(tmp_path, kind)
    size = 64 * MIB
    contents = {number: noise(number, size) for number in (1, 2)}
    with Box(disk) as box:
        write(box.root / "small", "x")
        box.watch()
        before = taken(disk)
        write(box.root / "big", contents[1])
        with_file = taken(disk)
        box.checkpoint("first")
        assert taken(disk) - with_file < 8 * MIB < with_file - before
        (file,) = (box.home.blobs / "big").iterdir()
        assert file.stat().st_size == size

        # the store's bytes are its own: a write to the file in its place changes no byte of them
        with open(box.root / "big", "r+b") as changed:
            changed.write(contents[2])
        box.checkpoint("second")
        assert box.call("cat", checkpoint="first", file="big") == contents[1]
        full = taken(disk)
        assert paths(box.rewind("first")["restored"]) == [b"big"]
        assert (box.root / "big").read_bytes() == contents[1]
        assert taken(disk) - full < 8 * MIB
        box.call("restore", checkpoint="second", to=str(disk / "copy"))
        assert (disk / "copy" / "big").read_bytes() == contents[2]
        assert taken(disk) - full < 8 * MIB
        box.call("undo")
        assert (box.root / "big").read_bytes() == contents[2]
        with open(box.root / "big", "r+b") as changed:
            changed.write(b"written to after it came back")
        assert box.call("cat", checkpoint="second", file="big") == contents[2]
        assert [p for p in box.call("check", read_data=True)["problems"] if p["severity"] == "error"] == []
        box.stop()
        box.start()
        assert box.call("cat", checkpoint="first", file="big") == contents[1]


@pytest.mark.parametrize("kind", MAKE)
@with_own_mounts
def test_what_begins_as_zstd_does_is_packed(tmp_path, kind):
    disk = sharing_disk(tmp_path, kind)
    packs = prepared(disk)
    for content, codec in ((MAGIC + noise(1), ZSTD), (noise(2), PLAIN), (noise(3, CLONE_BYTES - 1), ZSTD)):
        with open(write(disk / "file", content), "rb") as source:
            name, place = packs.add_big(source)
            assert source.tell() == len(content)
        assert (name, place.codec, place.raw) == (blob_hash(content), codec, len(content))
        assert held(packs, name) == content
    # a holder of another form: the same content by another way stays as it is
    with open(write(disk / "file", noise(5)), "rb") as source:
        name, place = packs.add_big(source)
    assert (packs.add_big(io.BytesIO(noise(5))), place.codec) == ((name, place), PLAIN)


@pytest.mark.parametrize("kind", MAKE)
@with_own_mounts
def test_a_damaged_clone_is_never_given_back(tmp_path, kind):
    disk = sharing_disk(tmp_path, kind)
    packs = prepared(disk)
    with open(write(disk / "file", noise(1)), "rb") as source:
        name, _ = packs.add_big(source)
    with open(packs.big / name.hex(), "r+b") as file:
        file.seek(MIB)
        file.write(b"damage")
    assert (disk / "file").read_bytes() == noise(1)
    with open(disk / "out", "xb") as out, packs.open_big(name) as stored, pytest.raises(StoreDamagedError):
        copy_blob(stored, out.fileno(), name)
    assert packs_.BIG_BYTES == CLONE_BYTES
