"""What the options of a rewind come to on a real tree: the time of now, paths that others changed, one turn alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit import FakeClock, tree_of
from tests.kit.box import Box

STAGING = b".openoxide-staging"
OLD_NS = 1_600_000_000_000_000_001


class Project:
    """A project in which turns of sessions and the user write."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.box = Box(folder, clock=self.clock)
        self.root = self.box.root

    @property
    def now_ns(self) -> int:
        return self.clock.now_ms() * 1_000_000

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> None:
        """The user writes; each time is another one, and none is that of the clock."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        self._ns = getattr(self, "_ns", OLD_NS) + 1_000
        os.utime(path, ns=(self._ns, self._ns))

    def turn(self, prompt: str, session: str = "s", /, **files: str | None) -> None:
        """A turn of an agent that writes ``files`` (None: removes them); a double underscore is a dot."""
        self.box.call("turn_begin", agent="agent", session=session, prompt=prompt)
        for name, content in files.items():
            if content is None:
                (self.root / name.replace("__", ".")).unlink()
            else:
                self.write(name.replace("__", "."), content)
        self.box.call("turn_end", session=session)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def tree(self) -> dict[bytes, tuple[object, ...]]:
        return tree_of(self.root, skip={STAGING})


@pytest.fixture(name="project")
def _project(tmp_path):
    project = Project(tmp_path)
    yield project
    project.box.stop()


def listed(answer, name: str) -> list[tuple[str, str]]:
    return [(entry["path"], entry.get("reason", "")) for entry in answer[name]]


class TestTouch:
    def test_files_come_back_with_the_time_of_now(self, project):
        project.write("changed", "one")
        project.write("gone", "one", 0o600)
        project.write("same", "one")
        project.box.watch()
        same = project.tree()[b"same"]
        project.write("changed", "two")
        (project.root / "gone").unlink()
        project.clock.advance(5_000)

        answer = project.box.rewind("1", touch=True)

        assert listed(answer, "restored") == [("changed", ""), ("gone", "")]
        assert project.tree() == {
            b"changed": ("file", 0o644, project.now_ns, b"one"),
            b"gone": ("file", 0o600, project.now_ns, b"one"),
            b"same": same,
        }
        diff = project.box.call("diff", a="1", b="last", paths=[], patch=False)["items"]
        assert [item["path"] for item in diff] == ["changed", "gone"], "the record has the times that are there"

    def test_undo_and_redo_bring_both_times_back(self, project):
        project.write("f", "one")
        project.box.watch()
        project.write("f", "two")
        before = project.tree()
        project.box.rewind("1", touch=True)
        after = project.tree()

        project.box.call("undo")
        assert project.tree() == before
        project.clock.advance(5_000)
        project.box.call("redo")
        assert project.tree() == after

    def test_a_file_that_differs_by_its_time_alone_is_left(self, project):
        project.write("f", "one")
        project.box.watch()
        project.write("f", "one")
        before = project.tree()

        assert project.box.rewind("1", touch=True)["restored"] == []
        assert project.tree() == before
        assert listed(project.box.rewind("1"), "restored") == [("f", "")]

    def test_a_session_that_goes_on_after_it_is_still_the_sessions(self, project):
        project.write("f", "one")
        project.box.watch()
        project.turn("p1", f="two")
        project.box.rewind("turn:p1", touch=True)
        project.turn("p2", f="three")

        answer = project.box.rewind("turn:p1")

        assert (listed(answer, "conflicts"), project.read("f")) == ([], "one")
