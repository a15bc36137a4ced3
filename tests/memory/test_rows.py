"""Every public failure of other memories has a test that is there, or is one of few exceptions with its reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.memory.rows import ANSWERED, DAEMON, EXCEPTIONS, TO_COME

TESTS = Path(__file__).resolve().parents[1]
ROWS = {f"M{number}" for number in range(1, 46)}
MOST_EXCEPTIONS = 5


def functions(file: str) -> set[str]:
    module = ast.parse((TESTS / file).read_text("utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


def named_after(row: str) -> list[str]:
    return sorted(name for name in functions(DAEMON) if name.startswith(f"test_{row.lower()}_"))


def test_every_row_has_a_test_or_a_reason():
    assert ANSWERED.keys() | EXCEPTIONS.keys() | TO_COME.keys() == ROWS
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    assert all(ANSWERED.values())
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize("row", sorted(ANSWERED, key=lambda row: int(row[1:])))
def test_what_answers_a_row_is_there_and_is_a_test(row):
    for file, name in ANSWERED[row]:
        assert re.match(r"test_.", name)
        assert name in functions(file), f"{row}: {file} has no {name}"


def test_what_is_named_after_a_row_is_listed_with_it():
    named = {row: named_after(row) for row in ROWS}
    listed = {row: sorted(name for file, name in ANSWERED.get(row, ()) if file == DAEMON) for row in ROWS}

    assert {row: names for row, names in named.items() if names != listed[row]} == {}, "tests/memory/rows.py is behind"
    assert [row for row in TO_COME if named[row]] == [], "they have come: take them out of TO_COME"
