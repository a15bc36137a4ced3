"""What was agreed to is what is done: a path that changes between the plan that was shown and the yes is a conflict."""

from __future__ import annotations

import pytest

from openoxide.errors import ConflictError
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
