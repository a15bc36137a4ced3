"""A full pass walks the tree and its rows side by side, in the order of whole paths: whatever the names are, what it
records is the tree, and what has not changed it does not tell.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openoxide.checkpoints import live as live_rows
from openoxide.checkpoints.model import Kind, SkipReason
from tests.checkpoints.test_capture import Captured
from tests.kit import effort

# a slash sorts between them: '!' '-' '.' are before it, '0' and letters after; git orders a folder as if one ended its name
NAMES = ["a", "a!", "a-", "a.b", "a0", "a\xff", "b"]
FILE, FOLDER, EMPTY = "file", "folder", "empty"
Shape = dict[str, object]

shapes: st.SearchStrategy[Shape] = st.recursive(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([FILE, EMPTY]), max_size=5),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner | st.just(FILE), max_size=5),
    max_leaves=8,
)


def build(folder: Path, shape: Shape) -> set[tuple[str, Kind]]:
    """Make ``shape`` in ``folder``; what is there then, by the shape alone."""
    there: set[tuple[str, Kind]] = set()
    folder.mkdir(exist_ok=True)
    for name, what in shape.items():
        if what == FILE:
            (folder / name).write_text(name)
            there.add((name, Kind.FILE))
        else:
            below = build(folder / name, what if isinstance(what, dict) else {})
            there |= {(name, Kind.DIRECTORY), *((f"{name}/{path}", kind) for path, kind in below)}
    return there


def recorded(captured: Captured) -> set[tuple[str, Kind]]:
    return {(path.decode(), state.kind) for path, state in captured.states().items()}


@settings(max_examples=effort(60), deadline=None)
@given(st.lists(shapes, min_size=2, max_size=4), st.sampled_from([1, 2, 3, 2048]))
def test_each_pass_records_the_tree_as_it_is(trees, page):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_rows, "_PAGE", page)
        captured = Captured(Path(folder))
        try:
            for shape in trees:
                shutil.rmtree(captured.root)
                there = build(captured.root, shape)
                captured.look()
                assert recorded(captured) == there
        finally:
            captured.timeline.close()


@pytest.fixture
def captured(tmp_path):
    captured = Captured(tmp_path)
    yield captured
    captured.timeline.close()


def test_a_folder_that_is_skipped_from_now_on_takes_its_rows_with_it(captured):
    build(captured.root, {"a": {"a-": FILE, "b": {"a": FILE}}, "a!": FILE, "a-": FILE})
    captured.look()
    (captured.root / ".oxideignore").write_text("/a/\n")
    captured.look()
    skipped = {path for path, kind in recorded(captured) if kind is Kind.SKIPPED}
    assert skipped == {"a", "a/a-", "a/b", "a/b/a"}
    assert {state.target for path, state in captured.states().items() if path.startswith(b"a/")} == {
        SkipReason.OXIDEIGNORE.value.encode()
    }


def test_what_is_as_it_was_is_not_told_again(captured):
    build(captured.root, {"a": {"a-": FILE, "b": EMPTY}, "a-": FILE})
    captured.age()
    captured.look()
    assert captured.look() == {}
