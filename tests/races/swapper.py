"""Swaps entries of a project with links that wait outside, and moves directories out and back, without a pause.

``swapper.py PROJECT PARKING SEED NAME...``: for each NAME (relative to the project) PARKING holds a link of that name,
with slashes as ``+``. A line ``go`` on standard input starts it, ``rest`` stops it, each answered by the same word.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

EXCHANGE, NOREPLACE = 2, 1
libc = ctypes.CDLL(None, use_errno=True)

Place = tuple[int, str]  # an open folder and a name in it


def rename(a: Place, b: Place, flag: int) -> None:
    if libc.renameat2(a[0], os.fsencode(a[1]), b[0], os.fsencode(b[1]), flag) < 0:
        raise OSError(ctypes.get_errno(), a[1], b[1])


def is_link(place: Place) -> bool:
    try:
        return stat.S_ISLNK(os.stat(place[1], dir_fd=place[0], follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


class Swapper:
    """Reaches the places through open folders: by their paths it would itself run into the links it has put there."""

    def __init__(self, project: str, parking: str, seed: int, names: list[str]) -> None:
        self._project = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
        self._parking = os.open(parking, os.O_RDONLY | os.O_DIRECTORY)
        self._names = {name: name.replace("/", "+") for name in names}
        self._targets = {parked: os.readlink(parked, dir_fd=self._parking) for parked in self._names.values()}
        self._random = random.Random(seed)
        self._graves = 0

    @contextmanager
    def _place(self, name: str) -> Iterator[Place]:
        *folders, last = name.split("/")
        here = os.dup(self._project)
        try:
            for folder in folders:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = inner
            yield here, last
        finally:
            os.close(here)

    def swap(self) -> None:
        """A link comes in and what stood there goes out, or the other way round; or it only goes out and back."""
        name = self._random.choice(list(self._names))
        parked, away = (self._parking, self._names[name]), (self._parking, self._names[name] + ".away")
        with self._place(name) as place:
            if not is_link(place) and not is_link(parked):
                self._renew(parked)
            if self._random.random() < 0.7:
                rename(place, parked, EXCHANGE)
            else:
                rename(place, away, NOREPLACE)
                rename(away, place, NOREPLACE)

    def _renew(self, parked: Place) -> None:
        """A rewind took the link away: what is parked stays outside for good."""
        with suppress(FileNotFoundError):
            os.rename(parked[1], f"{parked[1]}.{self._graves}", src_dir_fd=parked[0], dst_dir_fd=parked[0])
            self._graves += 1
        os.symlink(self._targets[parked[1]], parked[1], dir_fd=parked[0])

    def rest(self) -> None:
        """What is outside and has a link in its place comes back."""
        for name, parked in self._names.items():
            with suppress(OSError), self._place(name) as place:
                if is_link(place) and not is_link((self._parking, parked)):
                    rename(place, (self._parking, parked), EXCHANGE)


def main(project: str, parking: str, seed: str, *names: str) -> None:
    swapper = Swapper(project, parking, int(seed), list(names))
    print("ready", flush=True)
    while word := sys.stdin.readline().strip():
        if word == "rest":
            swapper.rest()
        print(word, flush=True)
        while word == "go" and not select.select([sys.stdin], [], [], 0)[0]:
            with suppress(OSError):  # what stood there is away
                swapper.swap()


if __name__ == "__main__":
    main(*sys.argv[1:])
