"""Colours on a terminal: put over lines that are laid out already, so that no width and no wording depends on them.

What a name may hold never begins a line, so a pattern that is bound to the beginning colours no more than it is meant to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

Palette = Mapping[str, str]
"""Patterns of what stands at the beginning of a line, each with the colour it gets; the first that fits counts."""

BOLD, RED, GREEN, YELLOW, CYAN = "1", "31", "32", "33", "36"

DIFF: Palette = {"A  ": GREEN, "M  ": YELLOW, "D  ": RED, "T  ": CYAN}
PATCH: Palette = {
    r"diff --git .*|(---|\+\+\+) (\"?[ab]/|/dev/null).*|(new|deleted) file mode .*": BOLD,
    "@@ .*": CYAN,
    r"\+.*": GREEN,
    "-.*": RED,
    **DIFF,
}
CHANGES: Palette = {
    "plan: ": BOLD,
    r"  \+ ": GREEN,
    "  - ": RED,
    r"  \* ": CYAN,
    "  ! ": YELLOW,
    "git: ": CYAN,
}
LOG: Palette = {r" *#\d+  \w+": YELLOW}
SHOW: Palette = {r"checkpoint #\d+ \w+": YELLOW, **{f"  {mark[:1]} ": colour for mark, colour in DIFF.items()}}
STATUS: Palette = {
    "  state +watching, complete": GREEN,
    "  state .*": YELLOW,
    "  pause .*": YELLOW,
    "  gap .*": YELLOW,
    "  interrupted .*": RED,
    "problem .*": RED,
}
DOCTOR: Palette = {"error ": RED, "warning ": YELLOW, "note ": CYAN, "fixed ": GREEN, "nothing is wrong": GREEN}


def wanted(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a terminal in this environment is to get colours."""
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, palette: Palette) -> str:
    """``text`` with the beginnings of its lines in colour."""
    return "\n".join(_painted(line, palette) for line in text.split("\n"))


def _painted(line: str, palette: Palette) -> str:
    for pattern, colour in palette.items():
        if found := re.match(pattern, line):
            return f"\x1b[{colour}m{found[0]}\x1b[0m{line[found.end() :]}"
    return line
