"""Which version each line of a text comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from openoxide.memory.editing import MOST_COMPARED_LINES, lines_of


def origins(versions: Iterable[tuple[int, str]]) -> list[tuple[str, int]]:
    """The lines of the newest of ``versions`` (``(number, text)``, oldest first), each with the number of the one that brought
    it. A text that was brought back has its lines from where it stood before.
    """
    lines: list[tuple[str, int]] = []
    stood: dict[str, list[tuple[str, int]]] = {}
    for number, text in versions:
        lines = stood[text] if text in stood else _next(lines, lines_of(text), number)
        stood[text] = lines
    return lines


def _next(old: list[tuple[str, int]], new: list[str], number: int) -> list[tuple[str, int]]:
    if max(len(old), len(new)) > MOST_COMPARED_LINES:
        # by equal lines alone: comparing takes the square of the lines
        known = dict(old)
        return [(line, known.get(line, number)) for line in new]
    found: list[tuple[str, int]] = []
    matcher = SequenceMatcher(None, [line for line, _ in old], new, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            found += old[old_from:old_to]
        else:
            found += [(line, number) for line in new[new_from:new_to]]
    return found
