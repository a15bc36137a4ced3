"""A purge as text for people: what goes, from where, and what nobody can reach from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.cli.render import shortened
from openoxide.cli.units import count
from openoxide.daemon.protocol import printable
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.purges import PurgeAnswer, PurgedPath

_PLACES = (
    ("versions", "version"),
    ("checkpoints", "checkpoint"),
    ("operations", "operation's row"),
    ("staging", "file in staging"),
    ("packs", "pack"),
    ("big", "large content"),
    ("aside", "pack set aside"),
    ("logs", "log"),
    ("trash", "file put aside"),
    ("context", "generated file"),
)
_PLURALS = {
    "operation's row": "rows of operations",
    "file in staging": "files in staging",
    "pack set aside": "packs set aside",
    "file put aside": "files put aside",
}


def purge(answer: PurgeAnswer, *, verbose: bool = False) -> str:
    """What goes or went: each path, then the places by number, then what stays."""
    # what was not asked for by its path comes first: it is what the question is about
    listed = sorted(answer["paths"], key=lambda item: item["named"])
    lines = [*shortened([f"  - {_path(item)}" for item in listed], verbose=verbose)]
    what = f"{count(answer['contents'], 'content')}, {size(answer['freed_bytes'])}"
    lines.append(f"plan: purge {what}" if answer["dry_run"] else f"purged {what}")
    held = [_count(answer["places"][place], word) for place, word in _PLACES if answer["places"].get(place)]
    if held:
        lines.append(f"  {'held in' if answer['dry_run'] else 'removed from'} {', '.join(held)}")
    lines += [f"  ! {printable(text)}" for text in answer["left"]]
    if not answer["dry_run"] and not answer["finished"]:
        lines.append(
            "  ! not finished: somebody reads the database; the daemon goes on by itself, and `status` tells of it"
        )
    lines += [printable(note) for note in answer["notes"]]
    if answer["refused"]:
        lines.append(f"  ! as it is, it would be refused: {printable(answer['refused']['message'])}")
        lines.append(f"    {printable(answer['refused']['hint'])}")
    return "\n".join([*lines, "out of reach:", *(f"  {printable(text)}" for text in answer["out_of_reach"])])


def _count(number: int, word: str) -> str:
    return f"{number} {_PLURALS[word]}" if word in _PLURALS and number != 1 else count(number, word)


def _path(item: PurgedPath) -> str:
    stands = "  stands there still" if item["standing"] else ""
    why = item.get("reason", "the same content")
    other = "" if item["named"] else f"  ({why}, in {printable(item['root'])})"
    versions = f"  {count(item['versions'], 'version')}" if item["versions"] or "reason" not in item else ""
    return f"{printable(item['path'])}{versions}{other}{stands}"
