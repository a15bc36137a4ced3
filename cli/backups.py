"""Backups, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.cli.render import entry, shortened
from openoxide.cli.reports import quoted
from openoxide.cli.units import count, local
from openoxide.daemon.protocol import printable
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.backups import BackupAnswer, RestoredWorktree, RestoreHomeAnswer


def backup(answer: BackupAnswer, *, verbose: bool = False) -> str:
    """What was copied, or would be, and what could not be read."""
    place, held = printable(answer["to"]), f"{count(answer['files'], 'file')}, {size(answer['bytes'])}"
    copied = f"{count(answer['copied_files'], 'file')}, {size(answer['copied_bytes'])}"
    if answer["dry_run"]:
        verb = "be brought up to date" if answer["updated"] else "be made"
        lines = [f"a backup would {verb} in {place}: {copied} to copy, {size(answer['free_bytes'])} free"]
    else:
        verb = "brought up to date" if answer["updated"] else "made"
        lines = [f"backup {verb} in {place}: {copied} copied"]
    lines.append(f"  holds   {held}, {count(answer['checkpoints'], 'checkpoint')}")
    if answer["skipped"]:
        lines.append(f"  lacks   {count(len(answer['skipped']), 'file')} that could not be read")
        lines += shortened([f"    {entry(left)}" for left in answer["skipped"]], verbose=verbose)
    if answer["mended"]:
        lines.append(
            f"  mended  {count(len(answer['mended']), 'file')} of it that had changed: its disk may be failing"
        )
        lines += shortened([f"    {entry(bad)}" for bad in answer["mended"]], verbose=verbose)
    if answer["damaged"]:
        lines.append(f"  DAMAGED {count(answer['damaged'], 'content')} of what was copied")
    return "\n".join(lines)


def restored(answer: RestoreHomeAnswer, *, planned: bool = False) -> str:
    """What is put where, and what the daemon will find of the worktrees."""
    held = f"{count(answer['files'], 'file')}, {size(answer['bytes'])}"
    done = "would be" if planned or answer["dry_run"] else "is"
    lines = [
        f"{printable(answer['home'])} {done} the home that was {printable(answer['from_home'])}",
        f"  backup  of {local(answer['made_at'])}, by version {printable(answer['made_by'])}: {held}",
    ]
    if answer["dry_run"]:
        lines.append("  every file is what it was when it was backed up")
    return "\n".join([*lines, *(line for worktree in answer["worktrees"] for line in _worktree(worktree))])


_STATES = {
    "as_it_was": "is there: its history goes on",
    "another_directory": "another directory is there: nothing is recorded",
    "gone": "is not there: nothing is recorded",
}


def _worktree(worktree: RestoredWorktree) -> list[str]:
    root = quoted(worktree["root"])
    lines = [
        f"  {printable(worktree['root'])}  {_STATES[worktree['state']]} ({count(worktree['checkpoints'], 'checkpoint')})"
    ]
    if worktree["state"] != "as_it_was":
        new = root if worktree["state"] == "another_directory" else "NEW"
        lines.append(f"    `oxide-ctl projects move {root} {new}` lets its history go on there")
    return lines
