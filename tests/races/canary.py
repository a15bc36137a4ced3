"""A project, and beside it a tree that nobody may touch: it has the same names, so that a link can lead there.

After whatever was done the canary must be the same to the byte, with the same modes, times, inode and link numbers; and
nothing of what its files hold may have been stored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from openoxide.checkpoints.rows import raw
from tests.kit import tree_of
from tests.kit.box import Box

FOLDERS = ("src", "src/deep", "conf")
FILES = ("src/a", "src/b", "src/deep/x", "src/deep/y", "conf/k", "top")
SECRET = b"CANARY"
LONG_AGO_NS = 1_000_000_000_123_456_789

Print = dict[str, tuple[object, ...]]
Tree = dict[bytes, tuple[object, ...]]


@dataclass(frozen=True)
class Site:
    """A watched project, the canary tree outside, and a place beside both."""

    box: Box
    canary: Path
    parking: Path
    base: str
    tree: Tree
    moved: dict[Path, Tree] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.box.root

    def edit(self, text: str) -> None:
        """Other content in every file that is where it was; through links nothing is written."""
        for name in FILES:
            with suppress(OSError):
                _write_beneath(self.root, name, text.encode())

    def move_out(self, name: str) -> None:
        """What stands at ``name`` goes outside, where no rewind changes it any more."""
        place = self.parking / os.urandom(4).hex()
        os.rename(self.root / name, place)
        if place.is_dir() and not place.is_symlink():
            self.moved[place] = tree_of(place)

    def replace(self, name: str, target: Path | str) -> None:
        """A link takes the place of what stands there."""
        if os.path.lexists(self.root / name):
            self.move_out(name)
        os.symlink(target, self.root / name)


@contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    """A project with a canary beside it."""
    canary, parking = folder / "canary", folder / "parking"
    parking.mkdir()
    with Box(folder) as box:
        for root, content in ((box.root, b"ours\n"), (canary, SECRET)):
            for name in FOLDERS:
                (root / name).mkdir(parents=True)
            for name in FILES:
                (root / name).write_bytes(content)
        (canary / "empty").touch(mode=0o640)
        for path in canary.rglob("*"):
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        box.watch()
        yield Site(box, canary, parking, box.checkpoint()["id"], tree_of(box.root))


def _write_beneath(root: Path, name: str, content: bytes) -> None:
    *folders, last = name.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        fd = os.open(last, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=here)
        os.write(fd, content)
        os.close(fd)
    finally:
        os.close(here)


def print_of(canary: Path) -> Print:
    """All that a write, a chmod, a rename, a link or an unlink in there would change."""
    found: Print = {}
    for path in sorted([canary, *canary.rglob("*")]):
        i = os.lstat(path)
        content = path.read_bytes() if stat.S_ISREG(i.st_mode) else None
        found[str(path.relative_to(canary))] = (i.st_mode, i.st_nlink, i.st_ino, i.st_size, i.st_mtime_ns, i.st_ctime_ns,
                                                content)  # fmt: skip
    return found


def stored_secrets(box: Box) -> list[str]:
    """Blobs that hold what stands in the canary's files."""
    with box.service.timeline.database.reading() as db:
        names = [row[0] for row in raw(db).execute("select hash from blob")]
    return [name.hex() for name in names if SECRET in box.service.timeline.blobs.read(name)]
