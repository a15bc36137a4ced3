"""What is found about a tree or about the installation, as text. Pure, like ``render``, whose rules hold here too."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from openoxide.cli.render import shortened, table
from openoxide.cli.units import count, localised
from openoxide.daemon.protocol import PathEntry, printable
from openoxide.errors import DaemonUnreachableError
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.health import UninstallAnswer
    from openoxide.daemon.protocol.projects import LeftNotes, SkipsObject, SurveyAnswer, UnwatchAnswer


def survey(answer: SurveyAnswer, *, verbose: bool = False) -> str:
    """What would be copied, what is left out, and what looks like a secret."""
    lines = [f"{printable(answer['root'])} {_to_copy(answer)}, {answer['skipped']} skipped"]
    skips = table([_skips(skips, verbose=verbose) for skips in answer["skips"]])
    if skips:
        lines += ["left out:", *(f"  {line}" for line in skips.splitlines())]
    if answer["secrets"]:
        verb = "are" if answer["watching"] else "would be"
        lines.append(f"likely secrets that {verb} copied, judged by name alone:")
        lines += shortened([f"  {_sized(entry)}" for entry in answer["secrets"]], verbose=verbose)
    return "\n".join(lines)


def _to_copy(answer: SurveyAnswer) -> str:
    held = f"{count(answer['files'], 'file')}, {size(answer['bytes'])}"
    if not answer["watching"]:
        return f"would be watched and has to copy: {held}"
    new = f"{count(answer['new_files'], 'new or changed file')}, {size(answer['new_bytes'])}"
    return f"is watched already; of {held} it has to copy {new if answer['new_files'] else 'nothing'}"


def unwatching(plan: UnwatchAnswer, *, delete_history: bool) -> str:
    """What an unwatch would do."""
    history = count(plan["checkpoints"], "checkpoint")
    fate = "is deleted with it, which cannot be undone" if delete_history else "stays readable"
    return f"plan: no longer watch {printable(plan['root'])}; its history, {history}, {fate}"


def unwatched(answer: UnwatchAnswer) -> str:
    """That a tree is not watched any more, and what is left of a history that was deleted."""
    lines = [f"no longer watching {printable(answer['root'])}"]
    lines += map(_left_notes, answer["memories"])
    if answer.get("remaining_bytes"):
        lines.append(
            f"{size(answer['remaining_bytes'])} of its history stay readable on disk, in packs that hold other projects' history"
            " too: no command shows them any more, and `oxide-ctl prune` writes a pack anew without them where they are more than"
            " a third of it; `oxide-ctl uninstall` removes all"
        )
    return "\n".join(lines)


def _left_notes(notes: LeftNotes) -> str:
    whose = "its own notes" if notes["worktree"] else "its notes"
    if not notes["history_deleted"]:
        left = "other worktrees of the project have them, and their history"
    elif notes["command"] is not None:
        left = f"their history is deleted too; `{notes['command']}` makes them the project's"
    else:
        left = (
            "their history is deleted too, and no project knows them: delete the folder above if you need them no more"
        )
    return f"{whose} ({count(notes['files'], 'file')}) stay in {printable(notes['path'])}; {left}"


_LIKENESS = {
    "recreated": "another directory was watched at {old} before",
    "same_directory": "{new} looks like the directory that was {old}",
    "same_head": "{new} has the last commit that was recorded in {old}, which is gone",
    "same_origin": "{new} has the git origin of {old}, which is gone",
}


def lookalike(old: str, new: str, reason: str) -> str:
    """That ``new`` seems to be what ``old`` was, and what to type if so."""
    likeness = _LIKENESS.get(reason, "{new} looks like {old}").format(old=printable(old), new=printable(new))
    names, same = f"{quoted(old)} {quoted(new)}", " (the same path, a new directory)" if old == new else ""
    join = "" if same else f", `oxide-ctl projects join {names}` makes both one project"
    return f"note: {likeness}: `oxide-ctl projects move {names}`{same} lets that history go on here{join}"


def quoted(path: str) -> str:
    """``path`` as a shell takes it."""
    return shlex.quote(printable(path))


def doctor(answer: Mapping[str, Any], zone: tzinfo | None = None) -> str:
    """The findings, the worst first, and what to do about each."""
    daemon = answer["daemon"]
    if daemon:
        told = f"daemon {daemon['version']}, pid {daemon['pid']}, home {printable(daemon['home'])}"
    elif any(problem["kind"] == DaemonUnreachableError.kind for problem in answer["problems"]):
        told = "no daemon answers"
    else:
        told = "nothing is known of the daemon"
    lines = [told, *(line for problem in answer["problems"] for line in _problem(problem, zone))]
    return "\n".join([*lines, *([] if answer["problems"] else ["nothing is wrong"])])


def _problem(problem: Mapping[str, Any], zone: tzinfo | None) -> list[str]:
    severity = "fixed" if problem["fixed"] else problem["severity"]
    lines = [f"{severity:<8} {printable(localised(problem['message'], zone))}"]
    return lines if problem["fixed"] else [*lines, f"         {printable(localised(problem['hint'], zone))}"]


def uninstall(answer: UninstallAnswer) -> str:
    """What goes, or went, what stays, and how the program itself is removed."""
    would = "would be " if answer["dry_run"] else ""
    lines = [f"{would}{word}  {_sized(entry)}" for word in ("removed", "kept") for entry in answer[word]]
    lines += [f"{would}left  {printable(entry['path'])}  ({printable(entry['reason'])})" for entry in answer["left"]]
    lines += [printable(note) for note in answer["notes"]]
    if not answer["removed"]:
        lines.append(f"nothing of ours is in {printable(answer['home'])}")
    return "\n".join([*lines, f"the program itself: {printable(answer['package'])}"])


def _skips(skips: SkipsObject, *, verbose: bool) -> tuple[str, ...]:
    shown = skips["largest"] if verbose else skips["largest"][:2]
    more = ", ..." if len(shown) < skips["count"] else ""
    amount = size(skips["bytes"]) if skips["bytes"] else ""
    return printable(skips["reason"]), str(skips["count"]), amount, ", ".join(map(_sized, shown)) + more


def _sized(entry: PathEntry) -> str:
    amount = f" ({size(entry['size_bytes'])})" if "size_bytes" in entry else ""
    return printable(entry["path"]) + amount
