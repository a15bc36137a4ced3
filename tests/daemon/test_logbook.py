"""What came too late to be part of an operation: listed by it, and given back by ``cat``."""

from __future__ import annotations

import pytest

from openoxide.checkpoints import journal
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.journal import Outcome, OutcomeKind
from openoxide.errors import AmbiguousError, NotFoundError
from tests.kit.box import Box


@pytest.fixture
def box(tmp_path):
    """A project with one rewind; two writes came late to ``f``, one to ``g``, and a folder is left of ``d``."""
    with Box(tmp_path) as box:
        (box.root / "f").write_bytes(b"1")
        box.watch()
        (box.root / "f").write_bytes(b"2")
        box.rewind("1")
        came_late(box, {b"f": [b"first", b"second"], b"g": [b"other"]})
        yield box


def came_late(box, written):
    """Rows as a sweep makes them."""
    timeline = box.service.timeline
    for path, contents in written.items():
        for content in contents:
            blob = store(box, content)
            with timeline.database.writing() as db:
                late = Outcome(kind=OutcomeKind.LATE, path=path, reason="written while it was displaced", blob=blob)
                journal.add_outcomes(db, journal.operations(db, 1)[-1].id, [late])


def store(box, content):
    """The store holds ``content``, by way of a file that is recorded and gone again."""
    (box.root / "aside").write_bytes(content)
    box.checkpoint()
    (box.root / "aside").unlink()
    box.checkpoint()
    return blob_hash(content)


def test_each_is_listed_with_the_name_that_cat_takes(box):
    operation = box.call("operations")["items"][0]
    short = operation["operation"][:8]
    assert [(e["path"], e["checkpoint"]) for e in operation["late"]] == [
        ("f", f"late:{short}"),
        ("f", f"late:{short}.2"),
        ("g", f"late:{short}"),
    ]
    contents = [box.call("cat", checkpoint=e["checkpoint"], file=e["path"]) for e in operation["late"]]
    assert contents == [b"first", b"second", b"other"]


@pytest.mark.parametrize("name", ["late:", "late:zzzzzzzzz", "late:{op}.3", "late:{op}.0", "late:{op}."])
def test_what_did_not_come_late_is_not_found(box, name):
    operation = box.call("operations")["items"][0]["operation"]
    asked = name.format(op=operation)
    if name.endswith("."):
        assert box.call("cat", checkpoint=asked, file="f") == b"first"
        return
    with pytest.raises(NotFoundError, match="nothing of f came late"):
        box.call("cat", checkpoint=asked, file="f")


def test_a_prefix_of_two_operations_is_ambiguous(box):
    ids = {item["operation"][0] for item in box.call("operations")["items"]}
    while len(ids) == len(box.call("operations")["items"]):
        (box.root / "f").write_bytes(b"again")
        box.rewind("1")
        ids = {item["operation"][0] for item in box.call("operations")["items"]}
    letters = [item["operation"][0] for item in box.call("operations")["items"]]
    twice = next(letter for letter in letters if letters.count(letter) > 1)
    with pytest.raises(AmbiguousError, match="fits 2 operations"):
        box.call("cat", checkpoint=f"late:{twice}", file="f")
