"""A file with holes comes back with holes: it may be larger than the room that is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.box import Box

DATA = b"data" * 1000
SLACK_BLOCKS = 4 * (64 << 10) // 512  # zeros beside the data, up to a hole's smallest size, are written


def plant(path: Path, size: int) -> None:
    """``size`` bytes, of which few are written, at both sides of a hole and before another."""
    with path.open("wb") as file:
        file.write(DATA)
        file.seek(size // 2)
        file.write(DATA)
        file.truncate(size)


@pytest.mark.parametrize("size", [1 << 20, 20 << 20], ids=["in a pack", "a file of its own"])
@pytest.mark.parametrize("way", ["rewind", "restore"])
def test_a_sparse_file_takes_no_more_room_than_it_did(tmp_path, size, way):
    with Box(tmp_path) as box:
        file = box.root / "sparse"
        plant(file, size)
        content, blocks = file.read_bytes(), os.stat(file).st_blocks
        box.watch()
        file.write_bytes(b"replaced")
        if way == "rewind":
            box.rewind("1")
        else:
            box.call("restore", checkpoint="1", to=str(tmp_path / "copy"))
            file = tmp_path / "copy" / "sparse"
        assert file.read_bytes() == content
        assert os.stat(file).st_blocks <= blocks + SLACK_BLOCKS
