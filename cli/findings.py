"""What a check of the store found, as text for people."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from openoxide.cli.render import entry, shortened
from openoxide.cli.units import count, size
from openoxide.daemon.protocol import printable
from openoxide.health import ERROR

if TYPE_CHECKING:
    from openoxide.daemon.protocol.health import AffectedObject, CheckAnswer, CheckProblem

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
}


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
    told = [line for problem in found for line in _problem(problem)]
    lines += [f"         {line}" for line in shortened(told, verbose=verbose)]
    return [*lines, f"         {printable(found[0]['hint'])}"]


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
