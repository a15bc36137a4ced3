"""What was agreed to is what is done: a path that changes between the plan that was shown and the yes is a conflict."""

from __future__ import annotations

import os

import pytest

from openoxide.errors import ConflictError, NotFoundError
from tests.kit.box import Box


@pytest.fixture(name="box")
def _box(tmp_path):
    with Box(tmp_path) as box:
        for name in ("shown", "saved"):
            (box.root / name).write_text("first")
        box.watch()
        (box.root / "shown").write_text("second")
        yield box


def shown_and_then_changed(box: Box, *, exact: bool) -> int:
    """The plan that is shown, and what the user does before they answer."""
    plan = box.rewind("1", scope="all", exact=exact, dry_run=True)
    (box.root / "saved").write_text("while they were asked")
    (box.root / "new").write_text("also new")
    return plan["plan_seq"]


def test_what_changed_after_the_plan_was_shown_stays(box):
    answer = box.rewind("1", scope="all", plan_seq=shown_and_then_changed(box, exact=False))

    assert [entry["path"] for entry in answer["restored"]] == ["shown"]
    assert [entry["path"] for entry in answer["conflicts"]] == ["saved"]
    assert (box.root / "saved").read_text() == "while they were asked"
    assert (box.root / "new").read_text() == "also new"


def test_an_exact_rewind_is_refused_then(box):
    seen = shown_and_then_changed(box, exact=True)
    with pytest.raises(ConflictError):
        box.rewind("1", exact=True, plan_seq=seen)
    assert (box.root / "shown").read_text() == "second"


@pytest.fixture(name="twice")
def _twice(tmp_path):
    """Two rewinds, of ``a`` and then of ``b``."""
    with Box(tmp_path) as box:
        write(box, a="first", b="first")
        box.watch()
        write(box, a="second", b="second")
        for name in ("a", "b"):
            box.rewind("1", paths=[name])
        yield box


def write(box: Box, **texts: str) -> None:
    for name, text in texts.items():
        (box.root / name).write_text(text)


def read(box: Box) -> str:
    return " ".join((box.root / name).read_text() for name in ("a", "b"))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("others", "left"),
    [
        pytest.param(["undo"], "first second", id="undone"),
        pytest.param(["undo", "undo"], "second second", id="all undone"),
        pytest.param(["undo", "redo"], "first first", id="undone and redone"),
        pytest.param(["rewind"], "second second", id="another rewind"),
    ],
)
def test_an_undo_of_another_operation_is_refused(twice, others, left, count):
    plan = twice.call("undo", dry_run=True)
    for other in others:
        if other == "rewind":
            twice.rewind("2", scope="all")
        else:
            twice.call(other)
    before = len(twice.call("operations")["items"])

    with pytest.raises(ConflictError, match="is not the one to undo any more"):
        twice.call("undo", count=count, reverses=plan["reverses"], plan_seq=plan["plan_seq"])

    assert read(twice) == left
    assert len(twice.call("operations")["items"]) == before


def test_a_redo_of_another_operation_is_refused(twice):
    twice.call("undo", count=2)
    plan = twice.call("redo", dry_run=True)
    twice.call("redo")

    with pytest.raises(ConflictError, match="is not the one to redo any more"):
        twice.call("redo", reverses=plan["reverses"])
    assert read(twice) == "first second"


@pytest.mark.parametrize(("count", "left"), [(1, "first second"), (2, "second second")])
def test_the_undo_that_was_agreed_to_is_done(twice, count, left):
    plan = twice.call("undo", dry_run=True)
    last = twice.call("operations")["items"][0]
    assert plan["reverses"] == last["operation"]

    answer = twice.call("undo", count=count, reverses=plan["reverses"], plan_seq=plan["plan_seq"])

    assert read(twice) == left
    assert answer["operation"] is not None
    assert twice.call("redo", dry_run=True)["reverses"] == answer["operation"]


def test_what_was_shown_as_a_conflict_of_an_undo_stays(twice):
    """It was written to, and is as the rewind left it again when the question is answered."""
    was = (twice.root / "b").stat()
    write(twice, b="by the user")
    plan = twice.call("undo", dry_run=True)
    write(twice, b="first")
    os.utime(twice.root / "b", ns=(was.st_atime_ns, was.st_mtime_ns))

    answer = twice.call("undo", reverses=plan["reverses"], plan_seq=plan["plan_seq"])

    assert [entry["path"] for entry in plan["conflicts"]] == ["b"]
    assert [(entry["path"], entry["reason"]) for entry in answer["conflicts"]] == [("b", "changed_later")]
    assert read(twice) == "first first"


def test_nothing_to_undo_is_not_found_where_nothing_was_agreed_to(box):
    with pytest.raises(NotFoundError):
        box.call("undo")
