"""A text names at most one checkpoint, or it is refused: a rewind never acts on a guess.

``parse`` turns text into a reference without looking anything up; ``resolve`` asks for what the reference names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Protocol, assert_never

from openoxide.checkpoints.model import Checkpoint
from openoxide.clock import rfc3339
from openoxide.errors import AmbiguousError, NotFoundError, UsageError
from openoxide.ids import ID_BYTES, is_letters
from openoxide.moments import UNIT_MS, moment

_TIME_WITHOUT_AT = re.compile(r"\d{1,6}[smhdw]|\d{1,2}:\d\d(:\d\d)?|\d{4}-\d\d-\d\d.{0,20}")
NAME_LIMIT = 200
CANDIDATE_LIMIT = 20
FORMS = (
    "accepted: 42 or #42, an id or the start of one (letters k to z), a name, last, last~3, @45s @10m @2h @3d, "
    "@14:05[:30], @2026-11-29, @2026-11-29T14:05[:30[.250]][Z|+02:00], turn:-1, turn:PROMPT-ID"
)
LIST_HINT = "`oxide-ctl log` lists the checkpoints"


@dataclass(frozen=True, slots=True)
class Number:
    """``42`` or ``#42``: the number in the worktree."""

    value: int


@dataclass(frozen=True, slots=True)
class IdPrefix:
    """``kxyz``: the start of an id, or a name that is spelled like one."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name that cannot be an id."""

    text: str


@dataclass(frozen=True, slots=True)
class Last:
    """``last~3``: so many checkpoints before the newest."""

    back: int


@dataclass(frozen=True, slots=True)
class Moment:
    """``@...``: the state at that time, in milliseconds since the epoch."""

    ms: int


@dataclass(frozen=True, slots=True)
class TurnBack:
    """``turn:-1``: before the last prompt, ``turn:-2`` before the one before it."""

    back: int


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """``turn:PROMPT-ID``: before that prompt."""

    prompt: str


Reference = Number | IdPrefix | Name | Last | Moment | TurnBack | TurnPrompt


class Lookup(Protocol):
    """The checkpoints of one worktree, as far as a reference asks for them."""

    def by_number(self, number: int) -> Checkpoint | None: ...

    def by_id_prefix(self, prefix: str) -> Sequence[Checkpoint]: ...

    def by_name(self, name: str) -> Sequence[Checkpoint]: ...

    def newest(self, back: int) -> Checkpoint | None:
        """The newest checkpoint for 0, the one before it for 1, and so on."""

    def at_moment(self, ms: int) -> Checkpoint | None:
        """The state at that time, or the nearest one that is still kept."""

    def turn_back(self, back: int) -> Checkpoint | None:
        """The start of the last turn for 1, of the one before it for 2, and so on."""

    def turn_prompt(self, prompt: str) -> Sequence[Checkpoint]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The checkpoint that was meant; ``note`` says what the text alone does not (empty: nothing)."""

    checkpoint: Checkpoint
    note: str = ""


# 15 digits keep every number inside SQLite's integers and far from int()'s own limit
_NUMBER = re.compile(r"#?([0-9]{1,15})")
_LAST = re.compile(r"last(?:~([0-9]{1,15}))?")
_TURN_BACK = re.compile(r"turn:-([1-9][0-9]{0,14})")


def parse(text: str, now_ms: int, tz: tzinfo | None = None) -> Reference:
    """What ``text`` names; times without a zone are in ``tz``, or else in this process's. Raises UsageError for what can
    name nothing.
    """
    if match := _NUMBER.fullmatch(text):
        return Number(int(match[1]))
    if match := _LAST.fullmatch(text):
        return Last(int(match[1] or 0))
    if text.startswith("@"):
        return Moment(_moment(text, now_ms, tz))
    if text.startswith("turn:"):
        return _turn(text)
    if trouble := _trouble(text):
        raise UsageError(f"{_quoted(text)} is not the name of a checkpoint: {trouble}", hint=FORMS)
    return IdPrefix(text) if may_be_id(text) else Name(text)


def may_be_id(text: str) -> bool:
    """Whether ``text`` is spelled like an id or the start of one."""
    return is_letters(text) and len(text) <= 2 * ID_BYTES


def valid_name(text: str) -> None:
    """Raises UsageError where ``text`` as a name could not be told from another way to name a checkpoint."""
    if trouble := _trouble(text):
        raise UsageError(f"{_quoted(text)} cannot be a name: {trouble}", hint="choose another name")


def resolve(reference: Reference, lookup: Lookup) -> Resolved:
    """The one checkpoint that ``reference`` names. Raises NotFoundError or AmbiguousError (with the candidates)."""
    match reference:
        case Name(text):
            return _by_text(text, lookup.by_name(text), ())
        case IdPrefix(text):
            return _by_text(text, lookup.by_name(text), lookup.by_id_prefix(text))
        case Moment(ms):
            return _at_moment(ms, lookup.at_moment(ms))
        case Number(value):
            found, what = lookup.by_number(value), f"checkpoint #{value}"
        case Last(back):
            found, what = lookup.newest(back), f"checkpoint {back} before the newest"
        case TurnBack(back):
            return _before_prompt(lookup.turn_back(back), f"turn {back} back from now")
        case TurnPrompt(prompt):
            return _by_prompt(prompt, lookup.turn_prompt(prompt))
        case _:
            assert_never(reference)
    return _found(found, what)


def _storable(text: str) -> bool:
    # Cs: a lone surrogate, which SQLite takes for no text; Zl and Zp would break a line of a listing
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


# a name of the last three kinds would be read as something else wherever a checkpoint is named
_TROUBLES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("it is empty", lambda name: not name.strip()),
    (f"it is longer than {NAME_LIMIT} characters", lambda name: len(name) > NAME_LIMIT),
    ("it holds control characters or invalid bytes", lambda name: not _storable(name)),
    ("only digits are a number", str.isdigit),
    ("`last` counts from the newest", lambda name: name == "last" or name.startswith("last~")),
    ("it starts with @, turn:, late:, # or -", lambda name: name.startswith(("@", "turn:", "late:", "#", "-"))),
)


def _trouble(name: str) -> str:
    return next((why for why, applies in _TROUBLES if applies(name)), "")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "\N{HORIZONTAL ELLIPSIS}")


def _malformed(text: str, why: str) -> UsageError:
    return UsageError(f"{_quoted(text)} names no checkpoint: {why}", hint=FORMS)


def _turn(text: str) -> TurnBack | TurnPrompt:
    if match := _TURN_BACK.fullmatch(text):
        return TurnBack(int(match[1]))
    prompt = text.removeprefix("turn:")
    if not prompt or prompt.startswith("-") or not _storable(prompt):
        raise _malformed(text, "after turn: comes -1, -2, ... or the id of a prompt")
    return TurnPrompt(prompt)


def _moment(text: str, now_ms: int, tz: tzinfo | None) -> int:
    try:
        return moment(text, now_ms, tz)
    except ValueError as error:
        raise _malformed(text, str(error)) from error


def _found(checkpoint: Checkpoint | None, what: str, meant: str = "") -> Resolved:
    if checkpoint is None:
        raise NotFoundError(f"there is no {what}", hint=f"did you mean {meant}?" if meant else LIST_HINT)
    return Resolved(checkpoint=checkpoint)


def _by_text(text: str, named: Sequence[Checkpoint], prefixed: Sequence[Checkpoint]) -> Resolved:
    # a prefix that fits several ids names none of them, so it does not stand in the way of a name
    readings = [*named, *prefixed] if not named or len(prefixed) == 1 else named
    hits = {checkpoint.id: checkpoint for checkpoint in readings}
    if len(hits) > 1:
        raise _ambiguous(text, list(hits.values()))
    meant = f"@{text}" if _TIME_WITHOUT_AT.fullmatch(text) else ""
    return _found(next(iter(hits.values()), None), f"checkpoint {_quoted(text)}", meant)


def _by_prompt(prompt: str, hits: Sequence[Checkpoint]) -> Resolved:
    if len(hits) > 1:
        raise _ambiguous(f"turn:{prompt}", hits, hint="give the number; with `--scope turn` that turn alone is undone")
    meant = f"turn:-{prompt}" if prompt.isdecimal() and len(prompt) < 4 else ""
    return _before_prompt(next(iter(hits), None), f"turn with the prompt {_quoted(prompt)}", meant)


def _before_prompt(checkpoint: Checkpoint | None, what: str, meant: str = "") -> Resolved:
    found = _found(checkpoint, what, meant)
    if not found.checkpoint.coverage.late:
        return found
    late = f"#{found.checkpoint.number} was sealed late: what the agent did first in that turn may be in it"
    return replace(found, note=late)


def _ambiguous(
    text: str, hits: Sequence[Checkpoint], hint: str = "give the number, or more letters of the id"
) -> AmbiguousError:
    newest_first = sorted(hits, key=lambda checkpoint: checkpoint.number, reverse=True)
    candidates = [_candidate(checkpoint) for checkpoint in newest_first[:CANDIDATE_LIMIT]]
    shown = ", ".join(f"#{candidate['number']}" for candidate in candidates)
    more = f" and {len(hits) - CANDIDATE_LIMIT} more" if len(hits) > CANDIDATE_LIMIT else ""
    return AmbiguousError(
        f"{_quoted(text)} fits {len(hits)} checkpoints: {shown}{more}",
        hint=hint,
        details={"candidates": candidates},
    )


def _candidate(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "number": checkpoint.number,
        "created_at": rfc3339(checkpoint.created_at_ms),
        "name": checkpoint.name,
    }


def _at_moment(ms: int, checkpoint: Checkpoint | None) -> Resolved:
    if checkpoint is None:
        raise NotFoundError(f"nothing is kept of {rfc3339(ms)} or near it", hint=LIST_HINT)
    taken = checkpoint.created_at_ms
    if taken == ms:
        return Resolved(checkpoint=checkpoint)
    side = "before" if taken < ms else "after"
    distance = _distance(abs(ms - taken))
    note = f"{rfc3339(ms)}: taken is checkpoint #{checkpoint.number} of {rfc3339(taken)}, {distance} {side}"
    return Resolved(checkpoint=checkpoint, note=note)


def _distance(ms: int) -> str:
    for unit in ("d", "h", "m", "s"):
        if ms >= UNIT_MS[unit]:
            return f"{ms // UNIT_MS[unit]} {unit}"
    return f"{ms} ms"
