"""A user's change at each step of a rewind, once and from that step on: what the user made last is never lost.

The writer test finds such races by chance; here each of them is met, and met again when the test runs again.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.journal import OutcomeKind
from openoxide.daemon.protocol import entry_path
from tests.kit.box import Box
from tests.races.interleaving import Chosen, after, at, meanwhile, never, since, since_after
from tests.races.looking import STAGING, states_at, wait_until_swept, worktree_of
from tests.races.programs import SOAK_TIMEOUT_S, soak

PATH = b"folder/file"
LISTS = ("restored", "removed", "kept", "conflicts", "skipped", "changed_since")
TURNING_POINTS = (
    "_expect", "exchange", "rename_exclusive", "_staged_stat", "is_written_to", "holders", "_mismatch", "_give_back", "swap",
)  # fmt: skip


@dataclass
class User:
    """Changes one path in one style. ``last`` is what must not be lost, ``made`` counts the changes.

    What it removes stays open, so that nothing new gets its inode number: that is a race of its own, see below.
    """

    path: Path
    made: int = 0
    last: bytes = b""
    removed: list[int] = field(default_factory=list)

    def _next(self) -> bytes:
        self.made += 1
        return b"user %d of %s" % (self.made, os.urandom(4).hex().encode())

    def append(self) -> None:
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        self.last = self._next()
        os.write(fd, self.last)
        os.close(fd)

    def rewrite(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        self.last = self._next()
        os.pwrite(fd, self.last, 0)
        os.ftruncate(fd, len(self.last))
        os.close(fd)

    def save(self) -> None:
        self.last = self._next()
        aside = self.path.with_name("file.aside")
        aside.write_bytes(self.last)
        aside.rename(self.path)

    def recreate(self) -> None:
        self._remove()
        self.last = self._next()
        self.path.write_bytes(self.last)

    def folder(self) -> None:
        self._remove()
        self.last = self._next()
        self.path.mkdir()
        (self.path / "inner").write_bytes(self.last)

    def link(self) -> None:
        self._remove()
        self.last = self._next()
        self.path.symlink_to(self.last.decode())

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            self.removed.append(os.open(self.path, os.O_PATH | os.O_NOFOLLOW))
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        while self.removed:
            os.close(self.removed.pop())


STYLES: dict[str, Callable[[User], None]] = {
    name: getattr(User, name) for name in ("append", "rewrite", "save", "recreate", "folder", "link")
}


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Box]:
    with Box(tmp_path) as box:
        (box.root / "folder").mkdir()
        box.watch()
        yield box


@contextmanager
def nobody(_path: Path) -> Iterator[None]:
    """Nobody else has the file open."""
    yield


@contextmanager
def logger(path: Path) -> Iterator[None]:
    """Somebody else keeps the file open for appending."""
    if not path.exists():
        yield
        return
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        yield
    finally:
        os.close(fd)


def changed(path: Path) -> None:
    path.write_bytes(b"by the agent")


def deleted(path: Path) -> None:
    path.unlink()


Others = Callable[[Path], AbstractContextManager[None]]
Shape = Callable[[Path], None]


def _cases() -> Iterator[Any]:
    for case in itertools.product((nobody, logger), (changed, deleted), (False, True), STYLES):
        others, shape, again, style = case
        name = f"{style} {'from there on' if again else 'once'}, {shape.__name__}, {others.__name__}"
        yield pytest.param(*case, id=name)


each_case = pytest.mark.parametrize(("others", "shape", "again", "style"), [*_cases()])


@each_case
def test_what_the_user_makes_at_the_turning_points_of_a_rewind_stays(box, style, again, shape, others):
    points = {name: (since_after if again else after)(name) for name in TURNING_POINTS}
    assert _lost(box, style, shape, others, points) == []


@pytest.mark.slow
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@soak
@each_case
def test_what_the_user_makes_at_any_step_of_a_rewind_stays(box, style, again, shape, others):
    path = box.root / "folder" / "file"
    total = _one_rewind(box, path, shape, others, User(path), style, never)
    points = {str(number): (since if again else at)(number) for number in range(1, total + 1)}
    assert _lost(box, style, shape, others, points) == []


def _lost(box: Box, style: str, shape: Shape, others: Others, points: Mapping[str, Chosen]) -> list[str]:
    """At which points the user's last change was lost."""
    path, lost = box.root / "folder" / "file", []
    for name, chosen in points.items():
        user = User(path)
        _one_rewind(box, path, shape, others, user, style, chosen)
        swept, held = wait_until_swept(box), _left_in_staging(box)
        if not swept and not held:
            lost.append(f"{name}: left in the staging folder")
        if user.made and user.last not in _in_place(path) + held + _stored(box):
            lost.append(name)
        if not swept:
            shutil.rmtree(box.root / STAGING)
    return lost


def _left_in_staging(box: Box) -> bytes:
    """What the folders hold that the last operation says it left there: a folder that somebody puts in the place again and
    again, at the very moment of each exchange, cannot be put back, and none is ever deleted.
    """
    reasons = [entry["reason"] for entry in box.call("operations", limit=1)["items"][0]["late"]]
    folders = [box.root / reason.removeprefix("left in ") for reason in reasons if reason.startswith("left in ")]
    return b"".join(inner.read_bytes() for folder in folders for inner in folder.iterdir())


@pytest.mark.parametrize("style", ["append", "rewrite"])
def test_a_file_that_somebody_holds_open_stays_in_its_place(box, style):
    """Else a logger would write on into a file that nobody sees."""
    path, displaced = box.root / "folder" / "file", []
    for point in TURNING_POINTS:
        user = User(path)
        user._remove()
        path.write_bytes(b"at the checkpoint")
        base = box.checkpoint()["id"]
        changed(path)
        held = path.stat().st_ino
        with logger(path), meanwhile(partial(STYLES[style], user), after(point)):
            box.rewind(base, scope="all")
        displaced += [point] if path.stat().st_ino != held else []
        user.close()
    assert displaced == []


@pytest.mark.parametrize(
    "make",
    [lambda path: path.write_bytes(b"the user's"), lambda path: path.symlink_to("the user's")],
    ids=["file", "link"],
)
def test_a_newcomer_with_the_inode_number_of_what_was_placed_is_not_taken_for_it(box, make):
    """ext4 gives the number of what the user removes to what the user makes next."""
    path = box.root / "folder" / "file"
    path.write_bytes(b"at the checkpoint")
    base = box.checkpoint()["id"]
    changed(path)
    numbers: list[bool] = []
    with logger(path), meanwhile(lambda: numbers.append(_replaced_under_its_number(path, make)), after("exchange")):
        box.rewind(base, scope="all")
    wait_until_swept(box)
    if numbers != [True]:
        pytest.skip("the file system did not give the number again")
    assert _in_place(path) == b"the user's"


def _replaced_under_its_number(path: Path, make: Callable[[Path], object]) -> bool:
    """Removes ``path``, and makes entries near by until one has the same number, which is moved there."""
    number = path.lstat().st_ino
    path.unlink()
    (operation,) = [entry for entry in (path.parents[1] / STAGING).iterdir() if entry.is_dir()]
    tried = [folder / f"try-{count}" for count in range(100) for folder in (path.parent, operation)]
    for attempt in tried:
        make(attempt)
        if attempt.lstat().st_ino == number:
            attempt.rename(path)
            break
    for attempt in tried:
        attempt.unlink(missing_ok=True)
    return os.path.lexists(path)


def _one_rewind(
    box: Box,
    path: Path,
    shape: Shape,
    others: Others,
    user: User,
    style: str,
    chosen: Chosen,
) -> int:
    """How many steps it had."""
    user._remove()
    user.close()
    path.write_bytes(b"at the checkpoint")
    base = box.checkpoint()["id"]
    shape(path)
    with others(path), meanwhile(lambda: STYLES[style](user), chosen) as steps:
        answer = box.rewind(base, scope="all")
    user.close()
    assert PATH in {entry_path(entry) for name in LISTS for entry in answer[name]}
    return steps.count


def _in_place(path: Path) -> bytes:
    if path.is_symlink():
        return os.fsencode(os.readlink(path))
    if path.is_dir():
        return b"".join(inner.read_bytes() for inner in path.iterdir())
    return path.read_bytes() if path.exists() else b""


def _stored(box: Box) -> bytes:
    """Everything that the last checkpoints and the last operation hold of the path."""
    timeline = box.service.timeline
    newest = box.call("log", limit=3)["items"]
    states = [s for item in newest for p, s in states_at(box, item["seq"]).items() if p.startswith(PATH)]
    with timeline.database.reading() as db:
        outcomes = journal.outcomes(db, journal.operations(db, worktree_of(box))[-1].id)
    late = {outcome.blob for outcome in outcomes if outcome.kind is OutcomeKind.LATE}
    blobs = {state.blob for state in states} | late
    return b"".join([timeline.blobs.read(b) for b in blobs if b] + [state.target or b"" for state in states])
