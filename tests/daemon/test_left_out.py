"""What never was recorded is told from what did not exist, with the rule that left it out."""

from __future__ import annotations

import shutil

import pytest

from openoxide.errors import NotFoundError
from tests.kit.box import Box

INSIDE = "node_modules/x/index.js"


@pytest.fixture
def box(tmp_path):
    """A project with dependencies, which are left out as a folder, and a file that a rule leaves out."""
    with Box(tmp_path) as box:
        for name in (INSIDE, "secrets/key", "a"):
            (box.root / name).parent.mkdir(parents=True, exist_ok=True)
            (box.root / name).write_text("x")
        (box.root / ".oxideignore").write_text("secrets/key\n")
        box.watch()
        yield box


ASKED = [
    ("cat", {"checkpoint": "1", "file": INSIDE}),
    ("restore", {"checkpoint": "1", "to": "there", "paths": [INSIDE]}),
    ("history", {"file": INSIDE}),
]


@pytest.mark.parametrize(("name", "request_"), ASKED)
def test_a_file_in_a_folder_that_is_left_out_says_so(box, tmp_path, name, request_):
    if "to" in request_:
        request_ = {**request_, "to": str(tmp_path / "there")}

    with pytest.raises(NotFoundError, match=r"its folder node_modules is left out \(dependencies\)"):
        box.call(name, **request_)


def test_a_rewind_of_such_a_file_says_so(box):
    (note,) = box.rewind("1", paths=[INSIDE])["notes"]

    assert note == f"{INSIDE} was not recorded at checkpoint 1: its folder node_modules is left out (dependencies)"


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("rewind", {"checkpoint": "1", "paths": [INSIDE]}),
        ("diff", {"a": "1", "paths": [INSIDE]}),
        ("history", {"file": INSIDE}),
        ("history", {"deleted": True, "paths": [INSIDE]}),
    ],
)
def test_it_is_said_also_when_the_folder_is_gone(box, name, request_):
    shutil.rmtree(box.root / "node_modules")

    with pytest.raises(NotFoundError, match=r"its folder node_modules is left out \(dependencies\)"):
        box.call(name, **request_)


def test_the_hint_can_be_typed_as_it_stands(box):
    with pytest.raises(NotFoundError, match=r"it is left out \(oxideignore\)") as caught:
        box.call("cat", checkpoint="last", file="secrets/key")

    assert "`oxide-ctl show 1`" in caught.value.hint


def test_what_a_rule_left_out_once_did_exist_where_it_was_recorded(box):
    (box.root / ".oxideignore").write_text("")
    box.checkpoint()

    assert box.call("cat", checkpoint="last", file="secrets/key") == b"x"
    with pytest.raises(NotFoundError, match="did not exist"):
        box.call("cat", checkpoint="last", file="secrets/other")
