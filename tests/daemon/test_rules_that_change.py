"""The watcher reads the rules at another moment than a capture: whatever comes and goes in between, a checkpoint that says
it is complete holds what is recorded by the rules of its own moment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openoxide.checkpoints.model import UNKNOWN_WRITER, Observed, Trigger, Writer
from openoxide.daemon.watched import Label
from tests.kit.box import Box
from tests.kit.recorded import complete, wait_for_full_pass


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path) as box:
        (box.root / "kept").write_text("kept")
        box.watch()
        yield box


def seen(box: Box) -> None:
    """Let the watcher apply what has happened, as it does by itself, and no capture."""
    (watched,) = box.service.all_watched()
    assert watched.watch.barrier().complete


def by_an_ignore_file(box: Box) -> Path:
    """As of a branch that ignores the folder, which git leaves where it is."""
    (box.root / ".oxideignore").write_text("folder/\n")
    (box.root / "folder").mkdir()
    seen(box)
    (box.root / ".oxideignore").unlink()
    return box.root / "folder"


def by_gits_ignore_file(box: Box) -> Path:
    (box.root / "pkg").mkdir()
    (box.root / "pkg" / ".gitignore").write_text("build/\n")
    (box.root / "pkg" / "build").mkdir()
    seen(box)
    (box.root / "pkg" / ".gitignore").unlink()
    return box.root / "pkg" / "build"


def by_a_marker(box: Box) -> Path:
    folder = box.root / "folder"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    seen(box)
    (folder / "pyvenv.cfg").unlink()
    return folder


def by_a_marker_that_was_recorded(box: Box) -> Path:
    folder = box.root / "folder"
    (folder / "bin").mkdir(parents=True)
    (folder / "CACHEDIR.TAG").write_bytes(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    assert box.checkpoint()["skipped"] == 1
    (folder / "CACHEDIR.TAG").write_bytes(b"none\n")
    return folder


def by_a_marker_that_came_with_it(box: Box) -> Path:
    aside = box.root.parent / "aside"
    aside.mkdir()
    (aside / "pyvenv.cfg").touch()
    aside.rename(box.root / "folder")
    seen(box)
    (box.root / "folder" / "pyvenv.cfg").unlink()
    return box.root / "folder"


MOMENTS = [
    by_an_ignore_file,
    by_gits_ignore_file,
    by_a_marker,
    by_a_marker_that_was_recorded,
    by_a_marker_that_came_with_it,
]


@pytest.mark.parametrize("left_out", MOMENTS)
@pytest.mark.parametrize("pass_between", [False, True])
def test_what_was_left_out_for_a_moment_is_watched_again(
    box: Box, left_out: Callable[[Box], Path], pass_between: bool
) -> None:
    folder = left_out(box)
    if pass_between:
        wait_for_full_pass(box)
    complete(box)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "mine").write_text("one")
    complete(box)
    (folder / "bin" / "mine").write_text("two")
    (folder / "new").mkdir()
    (folder / "new" / "f").write_text("deep")
    complete(box)
    (folder / "bin" / "mine").unlink()
    complete(box)


def test_a_folder_that_is_left_out_is_listed_while_it_is_there(box):
    (box.root / "node_modules" / "a").mkdir(parents=True)
    assert box.checkpoint()["skipped"] == 1
    (box.root / "node_modules" / "a").rmdir()
    (box.root / "node_modules").rmdir()
    assert box.checkpoint()["skipped"] == 0


@pytest.mark.parametrize("above", ["", "up/"])
def test_what_is_written_before_the_watches_stand_is_in_the_next_checkpoint(box, above):
    """A rule lets a folder in: it is looked at, something is written into it, and only then it is watched."""
    folder = box.root / above / "folder" / "deep"
    folder.mkdir(parents=True)
    rules = box.root / above / ".oxideignore"
    rules.write_text("folder/\n")
    assert box.checkpoint()["skipped"] == 1
    rules.write_text("# nothing\n")
    (watched,) = box.service.all_watched()

    def write(_seen: Observed) -> Writer:
        (folder / "f").write_text("written when everything was read")
        return UNKNOWN_WRITER

    watched.seal(Label(trigger=Trigger.MANUAL), write)
    complete(box)
