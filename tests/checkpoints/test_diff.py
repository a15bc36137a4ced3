"""What differs between two states of a tree."""

from __future__ import annotations

import pytest
from hypothesis import given

from openoxide.checkpoints.diff import Difference, Status, differences, status_of
from openoxide.checkpoints.model import ABSENT
from tests.checkpoints.states import DEPENDENCIES, TOO_LARGE, at, file, folder, link, special, trees

A, B = file(b"a"), file(b"b")


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (ABSENT, A, Status.ADDED),
        (A, ABSENT, Status.DELETED),
        (A, B, Status.MODIFIED),
        (A, file(b"a", 0o755), Status.MODIFIED),
        (A, file(b"a", mtime_ns=2), Status.MODIFIED),
        (folder(), folder(0o700), Status.MODIFIED),
        (A, link(), Status.TYPE),
        (folder(), A, Status.TYPE),
        (A, special(), Status.TYPE),
        (A, A, None),
        (ABSENT, ABSENT, None),
        (TOO_LARGE, DEPENDENCIES, None),
        (TOO_LARGE, A, Status.ADDED),
        (A, TOO_LARGE, Status.DELETED),
        (ABSENT, TOO_LARGE, None),
    ],
)
def test_how_one_path_differs(old, new, status):
    assert status_of(old, new) is status
    expected = [Difference(path=b"p", status=status, old=old, new=new)] if status else []
    assert differences({b"p": old}, {b"p": new}) == expected


@given(trees(), trees())
def test_two_trees_differ_in_what_is_listed_and_nothing_else(old, new):
    found = differences(old, new)
    assert [difference.path for difference in found] == sorted({difference.path for difference in found})
    again = {path: state for path, state in old.items() if state.exists}
    for difference in found:
        assert (difference.old, difference.new) == (at(old, difference.path), at(new, difference.path))
        again.pop(difference.path, None)
        if difference.new.exists:
            again[difference.path] = difference.new
    assert again == {path: state for path, state in new.items() if state.exists}
