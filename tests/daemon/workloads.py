"""What people and their tools do to whole trees, each of which some watcher loses changes of.

Each workload prepares below ``here``, a folder that is going to be watched, and ``away``, one outside; each ``yield``
after that is a moment at which everything has to be known. ``part`` divides the full sizes. Where a program of the system
does it in life, that program does it here: its calls come in its own order, and faster than Python would make them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.daemon.watched_tree import exchange

Workload = Callable[[Path, Path, int], Iterator[None]]

_CREATE = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    with open(f"{folder}/{os.getpid()}-{number}", "w") as file:
        file.write(str(number))
"""
_SAVE = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    name = f"{folder}/f{number % 100}"
    with open(name + ".tmp", "w") as file:
        file.write(str(number))
    os.rename(name + ".tmp", name)
"""
_RENAME = """
import os, sys
for name in os.listdir(sys.argv[1]):
    os.rename(f"{sys.argv[1]}/{name}", f"{sys.argv[2]}/{name}")
"""
_MKDIR = """
import os, sys
for top in range(int(sys.argv[2])):
    folder = f"{sys.argv[1]}/t{top}"
    for level in "abcdef":
        os.makedirs(folder)
        for number in range(4):
            with open(f"{folder}/f{number}", "w") as file:
                file.write(f"{folder}/{number}")
        folder += "/" + level
"""


def run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def python(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)])


def ended(*programs: subprocess.Popen[bytes]) -> None:
    for program in programs:
        assert program.wait() == 0


def tree(folder: Path, directories: int, files: int = 4) -> Path:
    """Six levels deep, with ``files`` in each directory."""
    for number in range(max(1, directories // 6)):
        here = folder / f"t{number}"
        for level in "abcdef":
            here.mkdir(parents=True)
            for file in range(files):
                (here / f"f{file}").write_text(f"{number} {level} {file}, made before\n")
            here /= level
    return folder


def rewrite(folder: Path, count: int) -> None:
    """Other bytes in up to ``count`` files below."""
    paths = sorted(path for path in folder.rglob("f*") if path.is_file())
    for path in paths[:: max(1, len(paths) // count)]:
        path.write_text(f"{path.name}, written after\n")


def mkdir_p(here: Path, away: Path, part: int) -> Iterator[None]:
    yield
    ended(python(_MKDIR, here, 400 // part))
    yield


def cp_r(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(away / "n", 2_400 // part)
    yield
    run("cp", "-r", away / "n", here)
    yield
    rewrite(here / "n", 50)
    yield


def untar(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(away / "n", 2_500 // part, 20)
    run("tar", "-cf", away / "n.tar", "-C", away, "n")
    yield
    run("tar", "-xf", away / "n.tar", "-C", here)
    yield
    rewrite(here / "n", 50)
    yield


def git_checkout(here: Path, away: Path, part: int) -> Iterator[None]:
    commits(here, 5_500 // part)
    yield
    for branch in ("one", "two", "one"):
        run("git", "checkout", "-q", branch, cwd=here)
        yield


def commits(repository: Path, files: int) -> None:
    """Branches one and two of a new repository, which differ in each of ``files``: changed, added, gone, and moved."""
    run("git", "init", "-q", "-b", "one", repository)
    tree(repository / "kept", files // 8)
    tree(repository / "gone", files // 8)
    run("git", "add", ".", cwd=repository)
    run("git", "commit", "-q", "-m", "one", cwd=repository)
    run("git", "checkout", "-q", "-b", "two", cwd=repository)
    rewrite(repository / "kept", files)
    run("git", "mv", "gone", "came", cwd=repository)
    tree(repository / "added", files // 24)
    run("git", "add", ".", cwd=repository)
    run("git", "commit", "-q", "-m", "two", cwd=repository)


def rm_rf(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(here / "n", 2_000 // part, 10)
    yield
    run("rm", "-rf", here / "n")
    yield


def rename_each(here: Path, away: Path, part: int) -> Iterator[None]:
    (here / "a").mkdir()
    (here / "b").mkdir()
    ended(python(_CREATE, here / "a", 20_000 // part))
    yield
    ended(python(_RENAME, here / "a", here / "b"))
    yield


def two_create(here: Path, away: Path, part: int) -> Iterator[None]:
    (here / "a").mkdir()
    yield
    ended(*(python(_CREATE, here / "a", 30_000 // part) for _ in range(2)))
    yield


def save_atomically(here: Path, away: Path, part: int) -> Iterator[None]:
    yield
    ended(python(_SAVE, here, 20_000 // part))
    yield


def move_in(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(away / "n", 1_200 // part)
    yield
    (away / "n").rename(here / "n")
    rewrite(here / "n", 500 // part)
    yield
    rewrite(here / "n", 500)
    yield


def out_and_back(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(here / "n", 1_200 // part)
    yield
    (here / "n").rename(away / "n")
    rewrite(away / "n", 100 // part)
    (away / "n").rename(here / "m")
    rewrite(here / "m", 500 // part)
    yield
    rewrite(here / "m", 500)
    yield


def out_seen_and_back(here: Path, away: Path, part: int) -> Iterator[None]:
    """As above, but it was known to be gone; what was written outside came back with it."""
    tree(here / "n", 1_200 // part)
    yield
    (here / "n").rename(away / "n")
    yield
    rewrite(away / "n", 500 // part)
    (away / "n").rename(here / "m")
    yield
    rewrite(here / "m", 500)
    yield


def move_within(here: Path, away: Path, part: int) -> Iterator[None]:
    tree(here / "n", 1_200 // part)
    (here / "deep" / "er").mkdir(parents=True)
    yield
    (here / "n").rename(here / "deep" / "er" / "m")
    rewrite(here / "deep", 500 // part)
    yield
    rewrite(here / "deep", 500)
    yield


def take_the_place(here: Path, away: Path, part: int) -> Iterator[None]:
    """Of a directory of the same name: what comes was filled outside, so that no event names anything below."""
    for folder in (here / "n", here / "m", away / "n", away / "m"):
        tree(folder, 1_200 // part)
    rewrite(away, 500)
    yield
    (here / "n").rename(away / "old")
    (away / "n").rename(here / "n")
    yield
    exchange(bytes(here / "m"), bytes(away / "m"))
    yield
    exchange(bytes(here / "m"), bytes(here / "n"))
    yield
    rewrite(here, 500)
    yield


def change_case_only(here: Path, away: Path, part: int) -> Iterator[None]:
    """Also with both spellings there at once, each a file of its own."""
    tree(here / "folder", 60)
    (here / "readme").write_text("one")
    yield
    (here / "folder").rename(here / "Folder")
    (here / "readme").rename(here / "README")
    yield
    rewrite(here / "Folder", 20)
    (here / "readme").write_text("two")
    shutil.copytree(here / "Folder", here / "folder")
    yield
    (here / "README").rename(here / "readme")
    shutil.rmtree(here / "Folder")
    yield


def link_to_outside(here: Path, away: Path, part: int) -> Iterator[None]:
    """A linked directory is a link and nothing else, whatever becomes of its target."""
    tree(away / "n", 60)
    (here / "old").symlink_to(away / "n")
    yield
    (here / "new").symlink_to(away / "n")
    rewrite(away / "n", 50)
    yield
    (here / "old").unlink()
    (away / "n").rename(here / "old")
    yield


def write_through_another_name(here: Path, away: Path, part: int) -> Iterator[None]:
    for number in range(200 // part):
        (here / f"f{number}").write_text("before")
        os.link(here / f"f{number}", here / f"twin{number}")
    yield
    for number in range(200 // part):
        (here / f"twin{number}").write_text("after")
    yield
    for number in range(200 // part):
        (here / f"twin{number}").write_text("after that")
        (here / f"twin{number}").unlink()  # the only name that is told of
    yield


WORKLOADS: tuple[Workload, ...] = (
    mkdir_p, cp_r, untar, git_checkout, rm_rf, rename_each, two_create, save_atomically, move_in, out_and_back,
    out_seen_and_back, move_within, take_the_place, change_case_only, link_to_outside, write_through_another_name,
)  # fmt: skip
