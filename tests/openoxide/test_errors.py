"""Each error has an exit code, and travels as an object without losing what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide import errors
from openoxide.errors import BY_KIND, EXIT_CODES, FailedError, OpenOxideError, error_object, exit_code, from_object

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, OpenOxideError) and found is not OpenOxideError
]
texts = st.text(max_size=30)
details = st.dictionaries(st.sampled_from(["paths", "candidates", "conflicts"]), st.lists(texts), max_size=3)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_is_in_the_table_of_exit_codes(cls):
    assert cls in EXIT_CODES
    assert exit_code(cls("it failed")) == EXIT_CODES[cls]


def test_every_kind_means_one_class():
    assert len({cls.kind for cls in CLASSES}) == len(CLASSES) == len(BY_KIND)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("failed", 1),
        ("store_full", 1),
        ("newer_store", 1),
        ("root_vanished", 1),
        ("operation_interrupted", 1),
        ("already_running", 1),
        ("usage", 2),
        ("conflict", 4),
        ("not_found", 5),
        ("ambiguous", 5),
        ("daemon_unreachable", 6),
        ("version_mismatch", 6),
        ("store_read_only", 6),
        ("store_damaged", 7),
        ("refused", 8),
    ],
)
def test_scripts_can_rely_on_the_exit_code_of_a_kind(kind, code):
    assert EXIT_CODES[BY_KIND[kind]] == code


def test_a_class_that_the_table_does_not_name_fails_plainly():
    class NewError(OpenOxideError):
        pass

    assert exit_code(NewError("it failed")) == 1


@given(st.sampled_from(CLASSES), texts, texts, details)
def test_an_error_object_is_read_back_as_the_same_error(cls, message, hint, found):
    again = from_object(error_object(cls(message, hint=hint, details=found)))
    assert (type(again), again.message, again.hint, again.details) == (cls, message, hint, found)
    assert str(again) == message


def test_details_cannot_replace_what_the_error_is():
    found = error_object(
        FailedError("it failed", hint="try again", details={"kind": "usage", "message": "", "hint": ""})
    )
    assert found == {"kind": "failed", "message": "it failed", "hint": "try again"}


@pytest.mark.parametrize("obj", [{}, {"kind": "from the future"}, {"kind": None, "message": None}])
def test_an_object_of_another_version_is_still_an_error(obj):
    error = from_object(obj)
    assert type(error) is FailedError
    assert isinstance(error.message, str)
