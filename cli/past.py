"""What was, as text for people: versions of a path, what vanished, where a text stood."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from openoxide.cli.render import author, table
from openoxide.cli.units import count, local
from openoxide.daemon.protocol import printable
from openoxide.ids import short
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.checkpoints import GoneItem, MomentObject, SearchAnswer, StretchItem, VersionItem


def versions(items: Sequence[VersionItem | GoneItem], zone: tzinfo | None = None, *, paths: bool) -> str:
    """One line a version, newest first as they come; with ``paths`` each names its own."""
    rows = [
        (
            _at(item, zone),
            item["status"] or "?",
            _checkpoint(item),
            _size(item),
            *([printable(item["path"])] if paths else []),
            _writer(item),
        )
        for item in items
    ]
    return table(rows, right=(3,)) or "nothing vanished"


def search(answer: SearchAnswer, zone: tzinfo | None = None) -> str:
    """From when to when the text stood in which file."""
    lines = [line for item in answer["items"] for line in _stretch(item, zone)]
    looked = f"{count(answer['searched'], 'content')} searched, {size(answer['searched_bytes'])}"
    left = [f"{answer['binary']} binary left out"] if answer["binary"] else []
    left += [f"{answer['damaged']} DAMAGED and not searched"] if answer["damaged"] else []
    return "\n".join([*(lines or ["found nowhere"]), ", ".join([looked, *left])])


def _stretch(item: StretchItem, zone: tzinfo | None) -> list[str]:
    gone = item["vanished"]
    reason = printable(item.get("reason", ""))
    if gone is None:
        ends = f"then {reason}" if reason else "still there"
    else:
        ends = f"{f'not recorded ({reason}) since' if reason else 'vanished'} {_at(gone, zone)}  {_writer(gone)}"
    first, last = item["first"], item["last"]
    return [
        f"{printable(item['path'])}  {count(item['versions'], 'version')}, {ends}",
        f"  first {_at(first, zone)}  {_checkpoint(first)}  {_writer(first)}",
        f"  last  {_at(last, zone)}  {_checkpoint(last)}  {_writer(last)}",
    ]


def _at(item: MomentObject, zone: tzinfo | None) -> str:
    return local(item["at"], zone) if item["at"] else "not sealed yet"


def _checkpoint(item: MomentObject) -> str:
    if found := item["checkpoint"]:
        return f"#{found['number']} ({short(found['id'])})"
    # only what vanished has it: a daemon of an earlier day does not say
    older = item.get("last_sealed")
    return f"in no checkpoint, an older one in #{older['number']}" if older else "in no checkpoint"  # type: ignore[index]


def _size(item: VersionItem) -> str:
    state = item["state"]
    if state is None:
        return printable(item.get("reason", "")) or "gone"
    return size(state["size_bytes"]) if state["kind"] == "file" else state["kind"]


def _writer(item: MomentObject) -> str:
    return author(item["certainty"], item["writer"])
