"""What a check or a repair of the store found, as text for people."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from openoxide.cli.render import entry, shortened
from openoxide.cli.units import count
from openoxide.daemon.protocol import printable
from openoxide.health import ERROR
from openoxide.knobs import size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openoxide.daemon.protocol.health import AffectedObject, CheckAnswer, CheckProblem, FixObject, RepairAnswer

FEW = 3
_WHAT = {
    "sqlite": "SQLite's own structure",
    "unreadable": "rows that cannot be read",
    "value": "rows that hold what cannot be",
    "reference": "rows that name what is not there",
    "live": "live states that are not the newest",
    "head": "running totals",
    "manifest": "checkpoints whose states have another sum",
    "file_missing": "files that are missing",
    "file_short": "files that were cut short",
    "frame": "places in packs that hold something else",
    "content": "contents that are not what they were",
    "mode": "rights of others",
    "foreign": "packs of another store",
    "lost": "what a repair has marked as lost",
}
# SQLite has many sentences for one damaged page
_OF_TABLES = ("sqlite", "unreadable")


def check(answer: CheckAnswer, *, verbose: bool = False) -> str:
    """The findings by kind, the worst first, what each is about, what helps, and how much was looked at."""
    lines = []
    # stable: within a kind as the daemon told them
    problems = sorted(answer["problems"], key=lambda problem: (problem["severity"] != ERROR, problem["kind"]))
    for (severity, kind), found in groupby(problems, key=lambda problem: (problem["severity"], problem["kind"])):
        lines += _group(severity, kind, [*found], verbose=verbose)
    left = answer["problem_count"] - len(problems)
    lines += [f"and {count(left, 'problem')} more"] if left else []
    lines += [] if problems else ["nothing is wrong"]
    return "\n".join([*lines, *_looked_at(answer)])


def _group(severity: str, kind: str, found: list[CheckProblem], *, verbose: bool) -> list[str]:
    lines = [f"{severity:<8} {_WHAT.get(kind, printable(kind))}: {len(found)}"]
    of_tables = [problem for problem in found if kind in _OF_TABLES and not problem["affected"]]
    told = _folded((line for problem in of_tables for line in _problem(problem)), verbose=verbose)
    told += [line for problem in found if problem not in of_tables for line in _problem(problem)]
    lines += [f"         {line}" for line in shortened(told, verbose=verbose)]
    return [*lines, f"         {printable(found[0]['hint'])}"]


def _folded(lines: Iterable[str], *, verbose: bool) -> list[str]:
    """``WHAT: why`` with one line for each WHAT, and for all that have the same why; all of them if ``verbose``."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        what, _, why = line.partition(": ")
        reasons.setdefault(what, []).append(why)
    if verbose:
        return [f"{what}: {why}" for what, whys in reasons.items() for why in whys]
    alike: dict[str, list[str]] = {}
    for what, whys in reasons.items():
        more = f" (and {len(whys) - 1} more, -v lists all)" if len(whys) > 1 else ""
        alike.setdefault(whys[0] + more, []).append(what)
    return [
        f"{', '.join(whats[:FEW])}{f' and {len(whats) - FEW} more' if len(whats) > FEW else ''}: {why}"
        for why, whats in alike.items()
    ]


def _problem(problem: CheckProblem) -> list[str]:
    return [f"{printable(problem['object'])}: {printable(problem['message'])}", *map(_affected, problem["affected"])]


def _affected(about: AffectedObject) -> str:
    paths = [entry(path) for path in about["paths"][:FEW]]
    numbers = [f"#{number}" for number in about["checkpoints"][:FEW]]
    parts = [
        f"{count(total, noun)} ({', '.join(named)}{', ...' if total > len(named) else ''})"
        for noun, total, named in (
            ("path", about["path_count"], paths),
            ("checkpoint", about["checkpoint_count"], numbers),
        )
        if total
    ]
    return f"  in {printable(about['root'])}: {', '.join(parts) or 'no checkpoint'}"


def _looked_at(answer: CheckAnswer) -> list[str]:
    looked = answer["checked"]
    parts = [count(looked.get(noun, 0), noun[:-1]) for noun in ("checkpoints", "versions", "paths", "contents")]
    lines = [f"looked at {', '.join(parts)}"]
    sampled = answer["sampled"]
    if sampled:
        lines.append(
            f"read {count(looked.get('read', 0), 'content')}, {size(answer['bytes_read'])}: a sample of"
            f" {sampled['percent']:g} %, drawn with --seed {sampled['seed']}"
        )
    elif "read" in looked:
        lines.append(f"read {count(looked['read'], 'content')}, {size(answer['bytes_read'])}")
    else:
        lines.append("no content was read: --read-data does that")
    if answer["unnamed_count"]:
        lines.append(f"{count(answer['unnamed_count'], 'file')} of ours that no row names, which is no harm")
    return lines


def repair(answer: RepairAnswer, *, verbose: bool = False) -> str:
    """What a repair did, or would do: what is made anew, where lost contents were found, and what is gone for good."""
    if not answer["needed"] and not answer["lost"]:
        return "nothing is to be repaired"
    would = "would be " if answer["dry_run"] else ""
    structure = _folded(map(printable, answer["structure"]), verbose=verbose)
    lines = [f"{would}made anew  {text}" for text in structure]
    lines += [_fix(fix, would) for fix in answer["fixes"]]
    for source, where in (("store", "elsewhere in the store"), ("tree", "in the watched trees")):
        found = [one for one in answer["mended"] if one["source"] == source]
        if found:
            lines.append(f"{would}brought back  {count(len(found), 'content')} found {where}")
            lines += shortened(
                [f"  {printable(one['where'])}, {size(one['size_bytes'])}" for one in found], verbose=verbose
            )
    left = answer["mended_count"] - len(answer["mended"])
    lines += [f"and {count(left, 'content')} more"] if left else []
    for problem in answer["lost"]:
        lines.append(f"lost: {printable(problem['object'])}: {printable(problem['message'])}")
        lines += map(_affected, problem["affected"])
    if answer["lost"]:
        look = "the repair finds it there" if answer["dry_run"] else "the next look takes it up, and it is lost no more"
        lines.append(f"what of it you still have, put back at its path in the watched tree: {look}")
    if answer["lost"] or any(fix["loses"] for fix in answer["fixes"]):
        lines.append("a backup may have what is lost: `oxide-ctl restore-home` brings the whole history of then back")
    if answer["kept"]:
        lines.append(f"the state before is in {printable(answer['kept'])}; delete it when nothing is missed")
    return "\n".join(lines)


def _fix(fix: FixObject, would: str) -> str:
    done = "given up" if fix["loses"] else "put right"
    return f"{would}{done}  {printable(fix['what'])} ({count(fix['rows'], 'row')})"
