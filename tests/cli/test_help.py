"""The help of every command: an example that can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from openoxide.cli import app
from openoxide.cli.context import Call

EXAMPLE = re.compile(r"^ *Example: (oxide-ctl .+)\n\n", re.MULTILINE)  # on one line, so that it can be pasted


def commands(group: Any, name: str = "") -> Iterator[str]:
    """Every command below ``group`` that does something by itself."""
    for word in group.list_commands(None):
        below, full_name = group.get_command(None, word), f"{name} {word}".strip()
        if hasattr(below, "list_commands"):
            yield from commands(below, full_name)
        if not hasattr(below, "list_commands") or below.invoke_without_command:
            yield full_name


NAMES = list(commands(app.root()))


def examples(text: str) -> list[list[str]]:
    """The words of each example in a help text, without what the shell does with the output."""
    return [shlex.split(line.partition(" > ")[0])[1:] for line in EXAMPLE.findall(text)]


def test_the_walk_finds_groups_and_what_is_in_them():
    assert {"watch", "projects", "projects move", "turn begin", "completion"} <= set(NAMES)
    assert "turn" not in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_help_has_an_example_that_the_parser_takes(run, name):
    found = examples(run(*name.split(), "--help").text)

    assert found
    for words in found:
        call = app.parse(words)
        assert isinstance(call, Call)
        assert call.command == name


def test_an_example_that_does_not_parse_would_be_found():
    (words,) = examples("  Example: oxide-ctl log --lmit 3 > out\n\n")

    with pytest.raises(app.UsageError, match="lmit"):
        app.parse(words)
