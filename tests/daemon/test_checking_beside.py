"""``check`` beside a daemon at work: whatever was done to a store it is clean, and who seals is not held up."""

from __future__ import annotations

import os
import random
import shutil
import threading

import pytest

from openoxide.errors import FailedError, OpenOxideError
from openoxide.fileio import make_private
from tests.kit import FakeClock
from tests.kit.box import Box


@pytest.fixture(autouse=True, scope="module")
def _as_the_daemon_has_it():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def box(tmp_path):
    with Box(tmp_path, clock=FakeClock()) as box:
        yield box


def problems(box, **request):
    return box.call("check", read_data=True, **request)["problems"]


class _Life:
    """A project that somebody works in, and takes back."""

    def __init__(self, box: Box, drawn: random.Random) -> None:
        self.box, self.drawn = box, drawn
        self.acts = [
            self.write,
            self.write,
            self.write,
            self.remove,
            self.link,
            self.turn,
            self.seal,
            self.rewind,
            self.undo,
        ]
        self.acts += [self.redo, self.forget, self.unforget, self.other, self.pause]

    def name(self) -> str:
        return f"d{self.drawn.randrange(3)}/f{self.drawn.randrange(6)}"

    def write(self) -> None:
        path = self.box.root / self.name()
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(self.drawn.randbytes(self.drawn.choice([0, 10, 10_000, 400_000])))
        path.chmod(self.drawn.choice([0o600, 0o644, 0o755]))

    def remove(self) -> None:
        shutil.rmtree(self.box.root / f"d{self.drawn.randrange(3)}", ignore_errors=True)

    def link(self) -> None:
        path = self.box.root / self.name()
        if path.parent.is_dir() and not os.path.lexists(path):
            path.symlink_to("nowhere")

    def turn(self) -> None:
        declared = {"agent": "codex", "session": "s", "prompt": str(self.drawn.random())}
        self.box.call("turn_begin", **declared)
        self.write()
        self.box.call("turn_end", **declared)

    def seal(self) -> None:
        self.box.checkpoint()

    def number(self) -> str:
        return str(self.drawn.choice(self.box.call("log")["items"])["number"])

    def rewind(self) -> None:
        self.box.rewind(self.number(), exact=self.drawn.random() < 0.5, conflict=self.drawn.choice(["keep", "merge"]))

    def undo(self) -> None:
        self.box.call("undo")

    def redo(self) -> None:
        self.box.call("redo")

    def forget(self) -> None:
        self.box.call("forget", checkpoints=[self.number()])

    def unforget(self) -> None:
        self.box.call("unforget", checkpoints=[self.number()])

    def other(self) -> None:
        """Another project, whose history goes with it."""
        folder = self.box.root.parent / f"other{self.drawn.randrange(10**6)}"
        folder.mkdir()
        (folder / "own").write_bytes(self.drawn.randbytes(20_000))
        self.box.call("watch", path=str(folder))
        declared = {"agent": "codex", "session": "t", "prompt": "p", "path": str(folder)}
        self.box.call("turn_begin", **declared)
        (folder / "own").write_bytes(self.drawn.randbytes(20_000))
        self.box.call("turn_end", **declared)
        self.box.call("unwatch", path=str(folder), delete_history=self.drawn.random() < 0.7)

    def pause(self) -> None:
        self.box.call("pause")
        self.write()
        self.box.call("unpause")


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))])
def test_a_store_is_clean_whatever_was_done(box, seed):
    box.watch()
    life, done = _Life(box, random.Random(seed)), 0
    for _ in range(40):
        # what cannot be done now (nothing to undo, not in trash) is refused, and that is all
        try:
            life.drawn.choice(life.acts)()
        except OpenOxideError:
            continue
        done += 1
        box.clock.advance(60_000)
    make_private(box.home.folder)
    assert done > 20

    assert problems(box) == []


def test_a_stopped_daemon_ends_its_check(box):
    box.watch()
    box.service.stop_requested.set()
    (box.root / "a").write_bytes(os.urandom(30_000_000))
    box.checkpoint()

    with pytest.raises(FailedError, match="the daemon ends"):
        problems(box)


def test_while_others_record_nothing_is_found(box):
    for number in range(300):
        (box.root / f"f{number}").write_text(f"{number}\n" * 50)
    box.watch()
    make_private(box.home.folder)
    ended, sealed, failures = threading.Event(), [], []

    def work():
        try:
            while not ended.is_set():
                for number in range(len(sealed) % 7 + 1):
                    (box.root / f"f{number}").write_text(f"{len(sealed)}\n")
                sealed.append(box.checkpoint()["number"])
        except OpenOxideError as error:
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    found = [problems(box) for _ in range(5)]
    ended.set()
    worker.join()

    assert found == [[]] * 5
    assert failures == []
    assert len(sealed) > 5
