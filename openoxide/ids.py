"""Typed ids and their spelling.

Public ids use the letters k to z only (a hex digit d is the letter ``"zyxwvutsrqponmlk"[d]``, the reversed alphabet
that jj uses), so that an id is never mistaken for a checkpoint number.
"""

from __future__ import annotations

from typing import NewType

CheckpointId = NewType("CheckpointId", str)
OperationId = NewType("OperationId", str)
WorktreeId = NewType("WorktreeId", int)
Seq = NewType("Seq", int)

ID_BYTES = 8
SHORT_LETTERS = 8
_LETTERS = "zyxwvutsrqponmlk"


def letters(raw: bytes) -> str:
    """``raw`` spelled with k to z, two letters a byte."""
    return "".join(_LETTERS[byte >> 4] + _LETTERS[byte & 15] for byte in raw)


def is_letters(text: str) -> bool:
    """Whether ``text`` could be an id or the prefix of one."""
    return bool(text) and all(char in _LETTERS for char in text)


def short(public_id: str) -> str:
    """The form shown to people; any unique prefix is accepted back."""
    return public_id[:SHORT_LETTERS]
