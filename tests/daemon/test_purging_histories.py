"""Random histories of two projects that share contents, beside a model of a few dictionaries: what a purge takes, and that it
takes nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints.repack import repack
from openoxide.errors import NotFoundError, RefusedError
from tests.daemon.test_purging import problems
from tests.kit import FakeClock, effort
from tests.kit.box import Box
from tests.kit.rawhome import traces

PROJECTS = ("project", "other")
NAMES = ("a", "b", "d/c", "d/e")
CONTENTS = tuple(
    b"".join(
        b"%d marker %x of a content that has some length\n" % (number, line * line) for line in range(1 + number * 9)
    )
    for number in range(6)
)
PURGED = b"purged"  # stands in the model for what went

_project, _name = st.sampled_from(PROJECTS), st.sampled_from(NAMES)
_content = st.sampled_from(range(len(CONTENTS)))
_removed = st.sampled_from((True, True, True, False))  # whether it is taken off the disk first: else it is refused
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _project, _name, _content),
        st.tuples(st.just("delete"), _project, _name),
        st.tuples(st.just("checkpoint"), _project),
        st.tuples(st.just("rewind"), _project, st.integers(0, 5)),
        st.tuples(st.just("undo"), _project),
        st.tuples(st.just("forget"), _project, st.integers(0, 5)),
        st.tuples(st.just("repack")),
        st.tuples(st.just("purge path"), _project, st.sampled_from((*NAMES, "d")), _removed),
        st.tuples(st.just("purge content"), _content, _removed),
    ),
    min_size=8,
    max_size=24,
)


class World:
    """The product, and beside it what each checkpoint of each project has to hold, by path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.box = Box(folder, clock=FakeClock())
        self.roots = {name: folder / name for name in PROJECTS}
        self.sealed: dict[str, dict[int, dict[str, bytes]]] = {name: {} for name in PROJECTS}
        self.ever: dict[tuple[str, str], set[bytes]] = {}  # whatever stood at a path at any time
        for name, root in self.roots.items():
            (root / "d").mkdir(parents=True)
            (root / "stays").write_bytes(b"stays in %s\n" % name.encode() * 30)
            for at, path in enumerate(NAMES):
                self.write(name, path, at)
            self.call(name, "watch")
            self.sealed[name][1] = self.disk(name)
            self.ever |= {(name, path): {content} for path, content in self.disk(name).items()}

    def call(self, project: str, operation: str, **request: object) -> dict:
        return self.box.call(operation, path=str(self.roots[project]), **request)

    def disk(self, project: str) -> dict[str, bytes]:
        # by name: a staging folder may be swept at the same time
        files = {name: self.roots[project] / name for name in (*NAMES, "stays")}
        return {name: path.read_bytes() for name, path in files.items() if path.exists()}

    def step(self, name: str, *arguments: Any) -> None:
        getattr(self, name.replace(" ", "_"))(*arguments)
        for project in PROJECTS:
            for path, content in self.disk(project).items():
                self.ever.setdefault((project, path), set()).add(content)

    def write(self, project: str, name: str, content: int) -> None:
        path = self.roots[project] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(CONTENTS[content])

    def delete(self, project: str, name: str) -> None:
        (self.roots[project] / name).unlink(missing_ok=True)

    def checkpoint(self, project: str) -> None:
        self.sealed[project][self.call(project, "checkpoint")["number"]] = self.disk(project)

    def rewind(self, project: str, back: int) -> None:
        number = [*self.sealed[project]][-1 - back % len(self.sealed[project])]
        wanted, before = self.sealed[project][number], self.disk(project)
        try:
            answer = self.call(project, "rewind", checkpoint=str(number), exact=True)
        except NotFoundError:  # in trash
            return
        self.seen(project, before, answer["pre_rewind_checkpoint"])
        left = {name for name, content in wanted.items() if content == PURGED}
        expected = {name: content for name, content in wanted.items() if name not in left}
        expected |= {name: content for name, content in before.items() if name in left}
        assert self.disk(project) == expected
        assert {item["path"] for item in answer["skipped"]} <= left
        assert answer["conflicts"] == []
        self.after(project, answer)

    def undo(self, project: str) -> None:
        before = self.disk(project)
        try:
            answer = self.call(project, "undo")
        except NotFoundError:
            return
        self.seen(project, before, answer["pre_rewind_checkpoint"])
        self.after(project, answer)

    def seen(self, project: str, files: dict[str, bytes], checkpoint: dict | None) -> None:
        if checkpoint is not None:
            self.sealed[project].setdefault(checkpoint["number"], files)

    def after(self, project: str, answer: dict) -> None:
        if answer["operation"] is not None:
            newest = self.call(project, "log", limit=1)["items"][0]
            self.sealed[project][newest["number"]] = self.disk(project)

    def forget(self, project: str, back: int) -> None:
        number = [*self.sealed[project]][-1 - back % len(self.sealed[project])]
        try:
            self.call(project, "forget", checkpoints=[str(number)])
        except NotFoundError:
            return

    def repack(self) -> None:
        timeline = self.box.service.timeline
        numbers = [int(path.stem) for path in self.box.home.blobs.glob("*.pack")]
        repack(timeline.database, timeline.blobs, numbers)

    def purge_path(self, project: str, name: str, removed: bool) -> None:
        named = [path for path in NAMES if path == name or path.startswith(f"{name}/")]
        files = [*self.sealed[project].values(), self.disk(project)]
        least = {each[path] for each in files for path in named if path in each} - {PURGED}
        most = set().union(*(self.ever.get((project, path), set()) for path in named))
        self.remove_all(most if removed else set())
        self.purge(least, most, project, paths=[name])

    def purge_content(self, content: int, removed: bool) -> None:
        self.remove_all({CONTENTS[content]} if removed else set())
        self.purge({CONTENTS[content]}, {CONTENTS[content]}, "project", blobs=[blake3(CONTENTS[content]).hexdigest()])

    def remove_all(self, contents: set[bytes]) -> None:
        for project in PROJECTS:
            for path, content in self.disk(project).items():
                if content in contents:
                    self.delete(project, path)

    def purge(self, least: set[bytes], most: set[bytes], project: str, **request: object) -> None:
        """``least``: what checkpoints and the disk tell of; ``most``: states between two checkpoints may have been recorded."""
        standing = {content for name in PROJECTS for content in self.disk(name).values()}
        try:
            answer = self.call(project, "purge", **request)
        except NotFoundError:
            assert not [
                c for c in least if any(c in files.values() for each in self.sealed.values() for files in each.values())
            ]
            return
        except RefusedError:
            assert standing
            return
        assert not least & standing
        assert answer["finished"]
        gone = [content for content in CONTENTS if content in least]
        assert traces(self.box.home.folder, *gone) == []
        purged = least | {content for content in most if not traces(self.box.home.folder, content)}
        for files in (files for each in self.sealed.values() for files in each.values()):
            files.update({name: PURGED for name, content in files.items() if content in purged})
        self.judge()

    def judge(self) -> None:
        assert problems(self.box) == []
        for project, numbers in self.sealed.items():
            kept = {item["number"] for item in self.call(project, "log")["items"]}
            for number in sorted(kept & numbers.keys()):
                assert self.copied(project, number) == {n: c for n, c in numbers[number].items() if c != PURGED}

    def copied(self, project: str, number: int) -> dict[str, bytes]:
        to = self.folder / "copy"
        self.call(project, "restore", checkpoint=str(number), to=str(to))
        try:
            return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
        finally:
            shutil.rmtree(to)


@settings(deadline=None, max_examples=effort(25))
@given(STEPS)
def test_a_purge_takes_what_it_says_and_nothing_else(steps):
    folder = Path(tempfile.mkdtemp())
    try:
        world = World(folder)
        try:
            for name, *arguments in steps:
                world.step(name, *arguments)
            world.judge()
        finally:
            world.box.stop()
    finally:
        shutil.rmtree(folder)
