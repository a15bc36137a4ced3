"""Differences and rewinds as text for people: which paths, marked by what happens to them, and a summary line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Literal

from openoxide.cli.render import WIDEST, author, entry, not_recorded, reference, shortened
from openoxide.cli.units import count, local, localised
from openoxide.daemon.protocol import printable
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.checkpoints import DiffItem, StateObject
    from openoxide.daemon.protocol.rewinds import MemoryPart, RewindAnswer

Style = Literal["stat", "name-status", "patch"]
Group = Literal["restored", "removed", "merged", "conflicts", "kept", "skipped", "changed_since"]

MARKS: tuple[tuple[str, Group, str], ...] = (
    ("+", "restored", "restored"),
    ("-", "removed", "removed"),
    ("*", "merged", "merged"),
    ("!", "conflicts", "in conflict"),
    ("=", "kept", "kept"),
    ("?", "skipped", "not recorded"),
    ("~", "changed_since", "changed since"),
)
_STATUS_WORDS = {"A": "added", "M": "modified", "D": "deleted", "T": "of another type"}


def diff(items: Sequence[DiffItem], style: Style, *, verbose: bool = False) -> str:
    """The paths that differ; ``verbose`` adds who wrote them."""
    if style == "patch":
        return "\n".join(map(_patch, items))
    if style == "stat":
        return "\n".join(_stat(items))
    return "\n".join(f"{item['status']}  {_noted(item, verbose=verbose)}" for item in items)


def patch(items: Sequence[DiffItem]) -> bytes:
    """The patch as programs read it: the very bytes of the files, line ends and control characters too."""
    texts = (item.get("patch") or f"{_patch(item)}\n" for item in items)
    return b"".join(text.encode("utf-8", "surrogateescape") for text in texts)


def plan(answer: RewindAnswer, *, verbose: bool = False) -> str:
    """What a rewind, undo or redo would do."""
    return "\n".join([f"plan: {_aim(answer)}", *_body(answer, verbose=verbose)])


def done(answer: RewindAnswer, word: str, *, zone: tzinfo | None = None, verbose: bool = False) -> str:
    """What a rewind, undo or redo did (``word``: rewound, undone, ...), and how it is taken back. Where there was
    nothing to do no operation was recorded, and the word would not be true.
    """
    groups: tuple[Group, ...] = ("restored", "removed", "merged", "changed_since")
    parts = [answer, *([answer["memory"]] if "memory" in answer else [])]
    changed = any(part[group] for part in parts for group in groups)
    return "\n".join(
        [
            f"{word if changed else 'nothing changed'}: {_aim(answer)}",
            *_body(answer, zone=zone, verbose=verbose),
            *(_way_back(answer, zone) if changed else ()),
        ]
    )


def summary(answer: RewindAnswer) -> str:
    """``2 restored, 1 in conflict, 204 untouched; +1.2 KiB -340 B``."""
    counts = [f"{len(answer[group])} {word}" for _, group, word in MARKS if answer[group]]
    counts.append(f"{answer['untouched']} untouched")
    return f"{', '.join(counts)}; +{size(answer['insertions_bytes'])} -{size(answer['deletions_bytes'])}"


def _aim(answer: RewindAnswer) -> str:
    target = f"{answer['kind']} to {reference(answer['checkpoint'])}" if answer["checkpoint"] else answer["kind"]
    return f"{target}, scope {answer['scope']}{', exact' if answer['exact'] else ''}"


def _body(answer: RewindAnswer, *, zone: tzinfo | None = None, verbose: bool) -> list[str]:
    lines: list[str] = []
    for mark, group, _ in MARKS:
        lines += shortened([f"  {mark} {entry(listed)}" for listed in answer[group]], verbose=verbose)
    notes = [printable(localised(note, zone)) for note in answer["notes"]]
    git = [f"git: {line}" for line in map(printable, answer["git_note"].splitlines())]
    noted = [memory(answer["memory"], verbose=verbose)] if "memory" in answer else []
    return [*lines, summary(answer), *noted, *notes, *git]


def memory(part: MemoryPart, *, verbose: bool = False) -> str:
    """What the same operation does to the memory."""
    lines: list[str] = []
    for mark, group, _ in MARKS:
        lines += shortened([f"  {mark} {entry(listed)}" for listed in part[group]], verbose=verbose)
    counts = [f"{len(part[group])} {word}" for _, group, word in MARKS if part[group]]
    notes = [printable(note) for note in part["notes"]]
    return "\n".join([f"memory, scope {part['scope']}: {', '.join(counts) or 'nothing to do'}", *lines, *notes])


def _way_back(answer: RewindAnswer, zone: tzinfo | None) -> list[str]:
    before = answer["pre_rewind_checkpoint"]
    lines = [f"the state before is checkpoint {reference(before)}"] if before else []
    if answer["operation"] and answer["undoable_until"]:
        back = "redo" if answer["kind"] == "undo" else "undo"
        lines.append(f"`oxide-ctl {back}` takes it back; undoable until {local(answer['undoable_until'], zone)}")
    return lines


def _noted(item: DiffItem, *, verbose: bool) -> str:
    old, new = item["old"], item["new"]
    change = ""
    if old and new and old["kind"] != new["kind"]:
        change = f"{old['kind']} -> {new['kind']}"
    elif old and new and old["mode"] != new["mode"]:
        change = f"mode {old['mode']} -> {new['mode']}"
    writer = author(item["certainty"], item["writer"]) if verbose else ""
    notes = "; ".join(filter(None, (not_recorded(item), change, writer)))
    return printable(item["path"]) + (f"  ({notes})" if notes else "")


def _stat(items: Sequence[DiffItem]) -> list[str]:
    width = min(WIDEST, max((len(printable(item["path"])) for item in items), default=0))
    lines = [
        f"{item['status']}  {printable(item['path']):<{width}}  {_size(item['old'], item)} -> {_size(item['new'], item)}"
        for item in items
    ]
    statuses = Counter(item["status"] for item in items)
    totals = ", ".join(f"{statuses[status]} {word}" for status, word in _STATUS_WORDS.items() if statuses[status])
    return [*lines, f"{count(len(items), 'difference')}{': ' if totals else ''}{totals}"]


def _size(state: StateObject | None, item: DiffItem) -> str:
    if state is None:
        return "not recorded" if item.get("reason") else "none"
    return size(state["size_bytes"]) if state["kind"] == "file" else state["kind"]


def _patch(item: DiffItem) -> str:
    lines = item.get("patch", "").removesuffix("\n").split("\n")
    if lines == [""]:
        return f"{item['status']}  {_noted(item, verbose=False)}"
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
