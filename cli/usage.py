"""The store's sizes as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openoxide.cli.render import table
from openoxide.cli.units import count
from openoxide.daemon.protocol import printable
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.health import (
        DuAnswer,
        KindUsage,
        PatternUsage,
        ProjectUsage,
        PruneAnswer,
        WorktreeUsage,
    )

FEW_DAYS, FEW_PATHS, FEW_PATTERNS = 7, 5, 5
BAR_WIDTH = 24
_IDLE = ("dead", "trash")


def du(answer: DuAnswer, *, verbose: bool = False, bar: str = "") -> str:
    """What is stored where, for which worktree, and what of it could go; ``verbose`` shortens nothing. ``bar``: what bars are
    drawn of; empty for none.
    """
    lines = [f"{size(answer['total_bytes'])} in {printable(answer['home'])}"]
    lines += [_kinds(answer["kinds"], answer["total_bytes"], bar), *_ratios(answer)]
    for worktree in answer["worktrees"]:
        lines += ["", *_worktree(worktree, verbose=verbose, bar=bar)]
    quotas = [_quota(project) for project in answer["projects"] if project["quota_bytes"]]
    if quotas:
        lines += ["", *quotas]
    return "\n".join([*lines, "", *_freeable(answer)])


def prune(answer: PruneAnswer) -> str:
    """What went, or would go."""
    what = ", ".join(
        count(answer[name], word)  # type: ignore[literal-required]
        for name, word in (("versions", "old state"), ("contents", "content"), ("packs", "pack"))
        if answer[name]  # type: ignore[literal-required]
    )
    if answer["dry_run"]:
        lines = [f"plan: free about {size(answer['freed_bytes'])} ({what})" if what else "plan: nothing to free"]
    else:
        # what was merged or marked and gave nothing back is no news: a dry run says the same
        freed = answer["freed_bytes"] or answer["versions"] or answer["contents"]
        lines = [f"{size(answer['freed_bytes'])} freed ({what})" if what and freed else "nothing to free"]
    if answer["damaged"]:
        lines.append(f"{count(answer['damaged'], 'content')} cannot be read: `oxide-ctl check --read-data` tells which")
    return "\n".join([*lines, *map(printable, answer["notes"])])


def _kinds(kinds: list[KindUsage], total: int, bar: str) -> str:
    rows = [
        (
            f"  {kind['name']}",
            size(kind["size_bytes"]),
            _percent(kind["size_bytes"], total),
            *_drawn(kind["size_bytes"], total, bar),
            kind["what"],
        )
        for kind in kinds
        if kind["size_bytes"]
    ]
    return table(rows, right=(1, 2))


def _drawn(part: int, whole: int, bar: str) -> tuple[str, ...]:
    """A cell with a bar, or no cell where none is wanted."""
    # what is there is seen to be there, however little it is
    return (bar * max(1, round(BAR_WIDTH * part / whole)),) if bar and whole else ()


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole)}%" if whole else ""


def _ratios(answer: DuAnswer | WorktreeUsage) -> list[str]:
    dedup, compression = answer["dedup_ratio"], answer["compression_ratio"]
    if dedup is None or compression is None:
        return []
    stands = "once" if dedup == 1 else f"{dedup:g} times"
    return [f"  each content stands {stands} in the history, and takes 1/{compression:g} of its size"]


def _quota(project: ProjectUsage) -> str:
    used, quota = project.get("used_bytes"), project["quota_bytes"]
    stored = project["stored_bytes"] if used is None else used
    roots = ", ".join(map(printable, project["roots"]))
    return f"quota of {roots}: {size(stored)} of {size(quota)} ({_percent(stored, quota)})"


def _freeable(answer: DuAnswer) -> list[str]:
    trash = answer["trash_bytes"]
    free = answer["freeable_bytes"] - trash
    lines = []
    if free:
        lines.append(f"`oxide-ctl prune` frees about {size(free)} that nothing needs any more, or that packs smaller")
    if trash:
        lines.append(
            f"about {size(trash)} is held by trash alone: `oxide-ctl expire --trash` empties it, `oxide-ctl prune` frees that"
        )
    if not lines and (idle := sum(kind["size_bytes"] for kind in answer["kinds"] if kind["name"] in _IDLE)):
        lines.append(
            f"`oxide-ctl prune` frees nothing now: {size(idle)} that nothing but trash needs are less than a third of the packs"
            " they lie in"
        )
    return lines or ["nothing of it can go: all of it is needed by a kept checkpoint, an undo or the last 24 hours"]


def _worktree(item: WorktreeUsage, *, verbose: bool, bar: str) -> list[str]:
    unwatched = "" if item["watching"] else "  (not watched)"
    shared = item["stored_bytes"] - item["unique_bytes"]
    lines = [
        f"{printable(item['root'])}{unwatched}",
        f"  {count(item['files'], 'file')} now, {size(item['logical_bytes'])}; {count(item['checkpoints'], 'checkpoint')}",
        f"  its history: {size(item['history_bytes'])}, stored in {size(item['stored_bytes'])}"
        + (f", of which {size(shared)} is shared with others" if shared else ""),
        *_ratios(item),
    ]
    if item["staging_bytes"]:
        lines.append(f"  in the tree itself: {size(item['staging_bytes'])} in .openoxide-staging, left by a rewind")
    days = item["growth"] if verbose else item["growth"][-FEW_DAYS:]
    lines += [f"  {day['day']}  +{size(day['stored_bytes'])}, {count(day['contents'], 'content')}" for day in days]
    paths = item["largest"] if verbose else item["largest"][:FEW_PATHS]
    rows = [(f"  {size(p['stored_bytes'])}", count(p["contents"], "content"), printable(p["path"])) for p in paths]
    return [*lines, *table(rows, right=(0, 1)).splitlines(), *_patterns(item, verbose=verbose, bar=bar)]


def _patterns(item: WorktreeUsage, *, verbose: bool, bar: str) -> list[str]:
    shown = item["patterns"] if verbose else item["patterns"][:FEW_PATTERNS]
    most = item["stored_bytes"]
    rows = [
        (
            f"  {size(found['stored_bytes'])}",
            _percent(found["stored_bytes"], most),
            *_drawn(found["stored_bytes"], most, bar),
            _pattern(found),
        )
        for found in shown
    ]
    return table(rows, right=(0, 1)).splitlines()


def _pattern(found: PatternUsage) -> str:
    """``src/**/*.py``; of names without a suffix ``src/**`` alone."""
    below = f"{printable(found['path'])}/**" if found["path"] else ""
    if not found["suffix"]:
        return below or "*"
    return f"{below}/*{printable(found['suffix'])}" if below else f"*{printable(found['suffix'])}"
