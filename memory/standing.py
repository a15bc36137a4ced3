"""Who vouches for a text of the memory, and what of it agents are given therefore. Pure.

What a user writes outside of any session is verified, what a session writes is not until the user says so; and what the user
said of a text holds for that text, whoever brings it back. A session that had something untrusted before it taints what it
writes: that is told for as long as nobody has verified it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from openoxide.memory.index import GONE_MARK, entries

DISPUTED_REMARK, TAINTED_REMARK = "disputed", "after reading untrusted content"


class Standing(str, Enum):
    """What is known of a text."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    DISPUTED = "disputed"


class Stand(NamedTuple):
    """``tainted``: the tool by which whoever wrote it had read what nobody vouches for; empty if there was none."""

    standing: Standing
    tainted: str = ""

    @property
    def remark(self) -> str:
        """What an agent that is given it is told of it; empty for nothing."""
        if self.standing is Standing.VERIFIED:
            return ""
        found = [DISPUTED_REMARK] if self.standing is Standing.DISPUTED else []
        found += [TAINTED_REMARK] if self.tainted else []
        return f" ({'; '.join(found)})" if found else ""


VERIFIED, UNVERIFIED = Stand(Standing.VERIFIED), Stand(Standing.UNVERIFIED)


class Origin(NamedTuple):
    """Where a text comes from. ``declared``: by sessions or by an operation; ``unseen``: nobody saw it come; ``tainted`` as in
    :class:`Stand`.
    """

    declared: bool
    unseen: bool
    tainted: str = ""


def stand(origin: Origin | None, mark: Standing | None) -> Stand:
    """What a text stands for whose first appearance is ``origin`` (None: it is not recorded yet), and of which the user said
    ``mark``.
    """
    if origin is None:
        return Stand(mark or Standing.UNVERIFIED)
    by_writer = Standing.UNVERIFIED if origin.declared or origin.unseen else Standing.VERIFIED
    return Stand(mark or by_writer, origin.tainted)


def worse(one: Stand, other: Stand) -> Stand:
    """What holds for a line and what it leads to together."""
    order = (Standing.VERIFIED, Standing.UNVERIFIED, Standing.DISPUTED)
    standing = max(one.standing, other.standing, key=order.index)
    doubtful = [each.tainted for each in (one, other) if each.standing is not Standing.VERIFIED]
    return Stand(standing, next(filter(None, doubtful), ""))


def line_text(line: str) -> str:
    """What a line of the index says, without what upkeep adds to it: by that it is known."""
    return line.rstrip().removesuffix(GONE_MARK).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """What is known of a memory: of each line of its index by :func:`line_text`, and of each other file by its name.
    ``review``: what nobody has accepted is not given.
    """

    lines: Mapping[str, Stand] = field(default_factory=dict)
    files: Mapping[str, Stand] = field(default_factory=dict)
    review: bool = False

    def of_line(self, line: str, leads_to: str | None) -> Stand:
        """Of a line of the index; ``leads_to``: the file that it links."""
        if not line.strip():
            return VERIFIED
        mine = self.lines.get(line_text(line), UNVERIFIED)
        return mine if leads_to is None else worse(mine, self.files.get(leads_to, VERIFIED))


NOTHING_KNOWN = Vouched()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What an agent is given of an index, and of the names that it does not list; ``left_out``: what it is told instead."""

    text: str
    names: tuple[str, ...]
    left_out: str = ""


def shown(body: str, names: Collection[str], vouched: Vouched) -> Shown:
    """``body`` of an index and the other ``names`` of the memory, as much of both as may be given, with remarks."""
    leads = {entry.line: entry.name for entry in entries(body)}
    lines: list[str] = []
    out = {name for name, one in vouched.files.items() if vouched.review and one.standing is not Standing.VERIFIED}
    others = 0
    for at, line in enumerate(body.split("\n"), 1):
        one = vouched.of_line(line, leads.get(at))
        if vouched.review and one.standing is not Standing.VERIFIED:
            others += leads.get(at) not in out
            continue
        lines.append(line.rstrip("\r") + one.remark if one.remark else line)
    kept = tuple(name + vouched.files.get(name, VERIFIED).remark for name in names if name not in out)
    return Shown(text="\n".join(lines).strip("\n"), names=kept, left_out=_told(len(out), others))


def _told(files: int, lines: int) -> str:
    parts = [f"{files} note{'' if files == 1 else 's'}"] if files else []
    parts += [f"{lines} line{'' if lines == 1 else 's'} of the index"] if lines else []
    if not parts:
        return ""
    verb = "is" if files + lines == 1 else "are"
    return f"{' and '.join(parts)} that the user has not accepted {verb} left out."
