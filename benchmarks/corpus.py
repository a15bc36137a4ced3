"""A source tree out of a number: the same count of files and seed give the same bytes, names, modes and mtimes.

Sizes are log-normal as in real trees (half of the files below 3 KB, one in a hundred above 110 KB). Text is lines of
code over names that a file keeps using, so that it packs about as well as source does; three files in a hundred are
noise, as images are to a packer, and two are copies of another. Folders nest. A quarter as many files again lie in a
``node_modules`` that ``.gitignore`` names. Every mtime is years old: none is too young to prove a file unchanged.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

OLD_NS = 1_600_000_000 * 10**9
MEDIAN_BYTES, SPREAD, LARGEST_BYTES = 3_000, 1.55, 3 << 20
FILES_IN_FOLDER, DEEPEST = 12, 8
NOISE, COPY = 0.03, 0.05  # a draw below the first is noise, below the second a copy
COPIED_BYTES, REMEMBERED = 20_000, 50
NAMES_IN_FILE, LINE_BYTES = 40, 36

SUFFIXES = (".py",) * 5 + (".ts",) * 4 + (".c", ".h", ".rs", ".go", ".json", ".md", ".css")
NOISE_SUFFIXES = (".png", ".woff2", ".ico")
LINES = (
    "    %s = %s.%s\n",
    "    if %s and not %s(%s):\n",
    "        return %s(%s, %s)\n",
    "def %s(%s: str, %s: int) -> None:\n",
    "    for %s in %s.%s():\n",
    "        raise ValueError(%s, %s) from %s\n",
    "# %s is what %s leaves in %s\n",
    "    self.%s[%s] = %s\n",
    "import %s.%s as %s\n",
    '    "%s": {"%s": "%s"},\n',
    "        log.debug('%s of %s: %s')\n",
    "\nclass %s(%s, %s):\n",
)
WORDS = (
    "account address agent answer archive batch block body branch buffer bytes cache call case cell change chunk client "
    "clock column command config count cursor data deadline depth device digest draft edge entry error event field file "
    "filter flag folder frame graph group handle hash header index item job journal key kind label layer limit line link "
    "list lock map mark match message method mode model name node note number object offset option order owner packet "
    "page parent part path plan point policy pool port prefix process query queue range reader record region request "
    "result root route row rule sample schema scope seal section seed segment session shape size slice slot source span "
    "stage state step stream string suffix table tag target task text thread time token trace tree type unit user value "
    "version view watch weight width window worker writer zone"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A tree that was written. ``files``: the regular files that are to be recorded, relative to ``root``."""

    root: Path
    files: tuple[Path, ...]

    def chosen(self, count: int, round_number: int) -> list[Path]:
        """Some files, others in each round."""
        return random.Random(f"chosen {count} {round_number}").sample(self.files, min(count, len(self.files)))


def generate(root: Path, files: int, seed: int = 1) -> Corpus:
    """Write a tree of ``files`` files, and a quarter as many ignored ones, into the new folder ``root``."""
    rng = random.Random(f"corpus {files} {seed}")
    folders = _folders(rng, max(2, files // FILES_IN_FOLDER))
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    content = _Content(rng)
    written = []
    for number in range(files):
        suffix, data = content.draw(_size(rng))
        path = rng.choice(folders) / f"{rng.choice(WORDS)}_{number:x}{suffix}"
        _write(root / path, data, number, 0o755 if rng.random() < 0.01 else 0o644)
        written.append(path)
    for number in range(files // 500):
        (root / rng.choice(folders) / f"link{number:x}").symlink_to(rng.choice(written).name)
    _node_modules(rng, root / "node_modules", files // 4)
    _write(root / ".gitignore", b"node_modules/\n__pycache__/\n", 0, 0o644)
    return Corpus(root=root, files=tuple(written))


def edited(data: bytes, mark: str) -> bytes:
    """``data`` with a line more in its middle, as an agent's edit leaves it."""
    at = data.find(b"\n", len(data) // 2) + 1
    return data[:at] + f"    edited = {mark!r}\n".encode() + data[at:]


class _Content:
    """Draws contents; remembers some for the copies."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._remembered: list[bytes] = []

    def draw(self, size: int) -> tuple[str, bytes]:
        """A suffix and the bytes that go with it."""
        kind = self._rng.random()
        if kind < NOISE:
            return self._rng.choice(NOISE_SUFFIXES), self._rng.randbytes(size)
        if kind < COPY and self._remembered:
            return self._rng.choice(SUFFIXES), self._rng.choice(self._remembered)
        data = self.text(size)
        if size < COPIED_BYTES:
            self._remembered = [*self._remembered[1 - REMEMBERED :], data]
        return self._rng.choice(SUFFIXES), data

    def text(self, size: int) -> bytes:
        """``size`` bytes of lines."""
        count = size // LINE_BYTES + 1
        used = self._rng.choices(self._names(), k=3 * count)
        lines = zip(self._rng.choices(LINES, k=count), used[::3], used[1::3], used[2::3], strict=True)
        return "".join([line % (a, b, c) for line, a, b, c in lines]).encode()[:size]

    def _names(self) -> list[str]:
        """The names of one file, each as often as it is to be used: the n-th most popular one n times more seldom."""
        words = self._rng.choices(WORDS, k=2 * NAMES_IN_FILE)
        names = [f"{one}_{other}" for one, other in zip(words[::2], words[1::2], strict=True)]
        return [name for rank, name in enumerate(names, 1) for _ in range(NAMES_IN_FILE // rank)]


def _size(rng: random.Random) -> int:
    return min(int(MEDIAN_BYTES * rng.lognormvariate(0, SPREAD)), LARGEST_BYTES)


def _folders(rng: random.Random, count: int) -> list[Path]:
    """Relative folders, the root first; each new one lies in one that was there, rather in a late one."""
    folders = [Path()]
    while len(folders) < count:
        parent = folders[int(len(folders) * rng.random() ** 0.5)]
        if len(parent.parts) < DEEPEST:
            folders.append(parent / f"{rng.choice(WORDS)}{len(folders):x}")
    return folders


def _node_modules(rng: random.Random, folder: Path, count: int) -> None:
    """Many small files in packages."""
    contents = [_Content(rng).text(int(900 * rng.lognormvariate(0, 1))) for _ in range(50)]
    for number in range(count):
        package = folder / f"package{number // 40:x}" / ("lib", "dist", "src")[number % 3]
        package.mkdir(parents=True, exist_ok=True)
        _write(package / f"module{number:x}.js", rng.choice(contents), number, 0o644)


def _write(path: Path, data: bytes, number: int, mode: int) -> None:
    path.write_bytes(data)
    path.chmod(mode)
    when = OLD_NS + number * 10**9
    os.utime(path, ns=(when, when))
