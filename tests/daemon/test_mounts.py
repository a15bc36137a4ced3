"""What is mounted over a watched directory is watched from the full pass on that finds it, and so is what it hid."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.daemon.trouble import with_own_mounts, write
from tests.kit.box import Box


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def bound(folder: Path, outside: Path) -> None:
    mount("--bind", outside, folder)


def memory(folder: Path, _outside: Path) -> None:
    mount("-t", "tmpfs", "tmpfs", folder)


def now(box: Box, path: str) -> bytes:
    """What a checkpoint that is taken now holds, by what the watcher told alone."""
    sealed = box.checkpoint()
    assert sealed["complete"]
    content: bytes = box.call("cat", checkpoint="last", file=path)
    return content


@pytest.mark.parametrize("over", [bound, memory])
@with_own_mounts
def test_what_is_mounted_over_a_directory_is_watched_once_a_pass_has_found_it(tmp_path, over):
    with Box(tmp_path) as box:
        hidden = write(box.root / "above" / "sub" / "hidden", "one")
        write(tmp_path / "outside" / "deep" / "file", "one")
        box.watch()
        over(hidden.parent, tmp_path / "outside")
        file = write(hidden.parent / "deep" / "file", "two")
        box.rewind("1", exact=True, dry_run=True)  # which begins with a full pass
        assert now(box, "above/sub/deep/file") == b"two"

        file.write_text("three")
        assert now(box, "above/sub/deep/file") == b"three"

        subprocess.run(["umount", hidden.parent], check=True)
        box.rewind("1", exact=True, dry_run=True)
        assert now(box, "above/sub/hidden") == b"one"
        hidden.write_text("two")
        assert now(box, "above/sub/hidden") == b"two"
