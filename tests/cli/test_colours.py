"""Colours: where there are any, and that nothing but the beginning of a line gets one."""

from __future__ import annotations

import re

import pytest

from openoxide.cli import colours
from tests.cli.answers import difference

PALETTES = [value for value in vars(colours).values() if isinstance(value, dict)]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_a_terminal_gets_colours_unless_none_are_wanted(environ, wanted):
    assert colours.wanted(environ) is wanted


@pytest.mark.parametrize(
    ("line", "painted"),
    [
        ("A  A  b", "\x1b[32mA  \x1b[0mA  b"),
        ("B  A  b", "B  A  b"),
        ("", ""),
        (" A  b", " A  b"),
    ],
)
def test_only_the_beginning_of_a_line_is_painted(line, painted):
    assert colours.paint(line, colours.DIFF) == painted


@pytest.mark.parametrize(
    ("line", "colour"),
    [
        ("-- a comment", "31"),
        ("--- a/f", "1"),
        ("--- /dev/null", "1"),
        ('+++ "b/f"', "1"),
        ("++++", "32"),
        (" -", None),
    ],
)
def test_a_removed_line_is_told_from_the_head_of_a_patch(line, colour):
    assert colours.paint(line, colours.PATCH) == (f"\x1b[{colour}m{line}\x1b[0m" if colour else line)


@pytest.mark.parametrize("palette", PALETTES)
def test_without_its_colours_a_text_is_as_it_was(palette):
    text = "plan: x\n  + a\n#1  abcd  x\nerror    x\n--- a/x\n\nD  x\n  state       watching, complete"

    assert re.sub(r"\x1b\[\d+m", "", colours.paint(text, palette)) == text


@pytest.mark.parametrize(("no_color", "seen"), [("", "\x1b[33mM  \x1b[0ma\r\n"), ("1", "M  a\r\n")])
def test_a_command_on_a_terminal_has_colours_unless_none_are_wanted(terminal, daemon, monkeypatch, no_color, seen):
    monkeypatch.setenv("NO_COLOR", no_color)
    daemon.answers["diff"] = {"ok": True, "items": [difference("a")]}

    screen = terminal("diff", "1")

    assert screen.ended() == 0
    assert screen.seen == seen


def test_a_pipe_gets_none(run, daemon):
    daemon.answers["diff"] = {"ok": True, "items": [difference("a")]}

    assert run("diff", "1").text == "M  a\n"
