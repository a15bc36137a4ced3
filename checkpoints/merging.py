"""Paths that others changed as well: left alone, overwritten, or merged. Pure: stored bytes come in by a function.

A merge takes changes out of a text again and leaves all others in: three ways, by lines that end at a line feed. Regions
that both sides changed and that overlap or touch have to be equal, as for ``git merge-file``; otherwise nothing is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import assert_never

from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash, FileState, Kind
from openoxide.checkpoints.plan import Change, Contested, Decisions
from openoxide.errors import StoreDamagedError

# a merge runs under the worktree's lock, so all of it is bounded (docs/design/003-rewind-options.md)
MOST_BYTES = 1 << 20
MOST_LINES = 50_000
MOST_EDITS = 1_000  # lines that are gone or new on one side; time and memory grow with the square

Read = Callable[[BlobHash], bytes]


class Resolution(str, Enum):
    """What becomes of paths that others changed as well."""

    KEEP = "keep"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class NotMergedError(Exception):
    """This path cannot be merged; the message is the reason that is reported."""


def resolve(decisions: Decisions, resolution: Resolution, read: Read, now_ns: int) -> None:
    """Decide what is contested. A text that nobody had before gets the time ``now_ns``. Raises StoreDamagedError that
    names all paths whose merge needs bytes that are damaged.
    """
    contested, decisions.contested = decisions.contested, []
    damaged: list[bytes] = []
    for one in contested:
        match resolution:
            case Resolution.KEEP:
                decisions.contested.append(one)
            case Resolution.OVERWRITE:
                decisions.changes.append(one.change._replace(reason=f"overwrites {one.change.reason}"))
            case Resolution.MERGE:
                try:
                    _merge(decisions, one, read, now_ns)
                except StoreDamagedError:
                    # all of them are named at once: nothing has been changed yet
                    damaged.append(one.change.path)
            case _:
                assert_never(resolution)
    if damaged:
        raise StoreDamagedError(
            f"{len(damaged)} merges need bytes that the store cannot give back, first for {_shown(damaged[0])!r}",
            hint="nothing was changed; --conflict keep leaves these paths alone",
            details={"paths": [_shown(path) for path in damaged]},
        )


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _merge(decisions: Decisions, contested: Contested, read: Read, now_ns: int) -> None:
    try:
        change = _merged(contested, read, now_ns)
    except NotMergedError as error:
        decisions.contested.append(replace(contested, change=contested.change._replace(reason=str(error))))
        return
    if change.wanted == change.now:
        decisions.untouched += 1
    else:
        decisions.changes.append(change)


def _merged(contested: Contested, read: Read, now_ns: int) -> Change:
    """The change that takes ``own`` out of what stands there; none of it left, that is the state that stands there."""
    change, own = contested.change, contested.own
    if own is None or not all(map(_is_mergeable, (change.now, *chain(*own)))):
        raise NotMergedError(change.reason)
    # by the recorded sizes, before anything is read
    if any(state.size > MOST_BYTES for state in (change.now, *chain(*own))):
        raise NotMergedError("too_large")
    mode, text = change.now.mode, _content(change.now, read)
    # each by itself, with the state after it as base: what others had written by then is before and after it alike,
    # and so it stays (docs/design/003-rewind-options.md)
    for before, after in own:
        mode = _merge_mode(after.mode, mode, before.mode)
        text = merge_text(_content(after, read), text, _content(before, read))
    name = blob_hash(text)
    # a state that the path has, or had, keeps the time it had
    for known in (change.now, change.wanted):
        if (known.kind, known.mode, known.blob) == (Kind.FILE, mode, name):
            return change._replace(wanted=known, reason="")
    mtime_ns = change.now.mtime_ns if name == change.now.blob else now_ns
    wanted = FileState(kind=Kind.FILE, mode=mode, size=len(text), mtime_ns=mtime_ns, blob=name)
    return change._replace(wanted=wanted, reason="", merged=text)


def _is_mergeable(state: FileState) -> bool:
    return state.kind is Kind.FILE and not state.torn and not state.sqlite


def _content(state: FileState, read: Read) -> bytes:
    assert state.blob is not None, "a file has content"
    return read(state.blob)


def _merge_mode(base: int, ours: int, theirs: int) -> int:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    raise NotMergedError("mode")


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Lines ``start`` to ``stop`` of the base became ``lines``."""

    start: int
    stop: int
    lines: Sequence[bytes]


def merge_text(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """What both sides made of ``base``. Raises NotMergedError."""
    lines, *sides = (_lines(text) for text in (base, ours, theirs))
    merged: list[bytes] = []
    done = 0
    for region in _regions(*(_hunks(lines, side) for side in sides)):
        start, stop = region[0][1].start, max(hunk.stop for _, hunk in region)
        merged += lines[done:start]
        texts = [_applied(lines, start, stop, [h for s, h in region if s == side]) for side in {s for s, _ in region}]
        # where one side alone has changed, both are the same text
        if texts[0] != texts[-1]:
            raise NotMergedError("overlap")
        merged += texts[0]
        done = stop
    return b"".join(merged + lines[done:])


def _lines(text: bytes) -> list[bytes]:
    """Each with its line feed, the last one possibly without."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotMergedError("not_text") from error
    if b"\0" in text:
        raise NotMergedError("not_text")
    # not splitlines, which ends a line at a bare CR too
    *whole, rest = text.split(b"\n")
    if len(whole) > MOST_LINES:
        raise NotMergedError("too_large")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _hunks(base: list[bytes], side: list[bytes]) -> list[_Hunk]:
    """What ``side`` changed, in order; two hunks have at least one unchanged line between them."""
    # equal ends are cut off first: what follows costs the square of the lines that differ
    most = min(len(base), len(side))
    start = next((at for at in range(most) if base[at] != side[at]), most)
    most -= start
    end = next((at for at in range(most) if base[-1 - at] != side[-1 - at]), most)
    old, new = base[start : len(base) - end], side[start : len(side) - end]
    return [_Hunk(start + i, start + j, new[k:m]) for i, k, j, m in _differences(old, new)]


def _differences(old: list[bytes], new: list[bytes]) -> list[tuple[int, int, int, int]]:
    """``(from, from, to, to)`` in ``old`` and ``new`` of each stretch that differs, in order; no shorter list of lines
    that are gone or new makes one of the other (Myers, "An O(ND) difference algorithm", 1986).
    """
    x, y = len(old), len(new)
    reached = _reached(old, new)
    found: list[tuple[int, int, int, int]] = []
    for edits in range(len(reached) - 1, 0, -1):
        at, before = (x - y + edits) // 2, reached[edits - 1]
        is_new = at == 0 or (at < edits and before[at - 1] < before[at])
        from_x = before[at] if is_new else before[at - 1]
        from_y = from_x - (x - y) + (-1 if is_new else 1)
        to = (from_x, from_y + 1) if is_new else (from_x + 1, from_y)
        # from the end on: an edit that leads to where the last one began is one stretch with it
        if found and found[-1][:2] == to:
            found[-1] = (from_x, from_y, *found[-1][2:])
        else:
            found.append((from_x, from_y, *to))
        x, y = from_x, from_y
    return found[::-1]


def _reached(old: list[bytes], new: list[bytes]) -> list[list[int]]:
    """For 0, 1, 2, ... edits: how far into ``old`` they lead on each diagonal, the one with most new lines first; up to the
    number that leads to the end of both.
    """
    reached: list[list[int]] = []
    for edits in range(MOST_EDITS + 1):
        before = reached[-1] if reached else [0]
        row: list[int] = []
        for at in range(edits + 1):
            is_new = at == 0 or (at < edits and before[at - 1] < before[at])
            x = before[at] if is_new else before[at - 1] + 1
            y = x - (2 * at - edits)
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            row.append(x)
            if (x, y) == (len(old), len(new)):
                return [*reached, row]
        reached.append(row)
    raise NotMergedError("too_large")


def _regions(ours: list[_Hunk], theirs: list[_Hunk]) -> Iterator[list[tuple[int, _Hunk]]]:
    """Hunks that overlap or touch, together, each with its side."""
    every = [*((0, hunk) for hunk in ours), *((1, hunk) for hunk in theirs)]
    region: list[tuple[int, _Hunk]] = []
    for side, hunk in sorted(every, key=lambda item: (item[1].start, item[1].stop)):
        if region and hunk.start > max(earlier.stop for _, earlier in region):
            yield region
            region = []
        region.append((side, hunk))
    if region:
        yield region


def _applied(base: list[bytes], start: int, stop: int, hunks: list[_Hunk]) -> list[bytes]:
    """Lines ``start`` to ``stop`` of the base, as one side has them."""
    found: list[bytes] = []
    for hunk in hunks:
        found += base[start : hunk.start]
        found += hunk.lines
        start = hunk.stop
    return found + base[start:stop]
