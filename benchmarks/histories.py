"""A long history: the names that differ between its ends, and the list of its states; how a store grows with it.

States of a history are made in the cheapest way that leaves the same store behind: by the socket with the product, with
`git add` of the one changed file with git. Archive programs would take an hour for a thousand: they get the two states
at the ends, and are in no list.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from archivers import BORG, RESTIC
from corpus import Corpus
from field import KEYS, NAMES, Field, compared, ratios, summary
from lives import change
from measuring import Spent, UnmeasuredError, allocated_bytes
from peers import FSMONITOR, GIT, PRODUCT, Peer
from report import Measured
from workshop import Workshop

TIMES = 5
NAMING = (PRODUCT, GIT, FSMONITOR, RESTIC, BORG)  # those that tell which paths differ between two states


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A peer with a history, and the names of its first and last state."""

    peer: Peer
    first: str
    last: str


def history(workshop: Workshop, field: Field, files: int, states: int) -> tuple[Measured, Measured]:
    """Diff and log with ``states`` checkpoints of one changed file each, every time another one."""
    corpus = workshop.corpus(files)
    chosen = corpus.chosen(states, 0)
    diffs: dict[str, list[Spent]] = defaultdict(list)
    logs: dict[str, list[Spent]] = defaultdict(list)
    field.begin()
    with ExitStack() as stack:
        grown: dict[str, Ends] = {}
        for candidate in field.in_turn(0, NAMING):
            with field.excused(candidate.name):
                case = stack.enter_context(workshop.case(corpus.root))
                grown[candidate.name] = _grow(stack.enter_context(candidate.make(case)), chosen)
        for number in range(TIMES):
            for candidate in field.in_turn(number, grown):
                with field.excused(candidate.name):
                    diffs[candidate.name].append(_diff(grown[candidate.name], len(chosen)))
                    if grown[candidate.name].peer.can_advance:
                        logs[candidate.name].append(_log(grown[candidate.name].peer, states))
    inside = "whole processes, the daemon running and its CPU included"
    return _row(diffs, f"{inside}; restic and borg hold only these two states"), _row(logs, inside)


def _grow(peer: Peer, chosen: list[Path]) -> Ends:
    _, first = peer.first()
    last = first
    if peer.can_advance:
        for file in chosen:
            change(peer, [file])
            last = peer.advance(file)
    else:
        change(peer, chosen)
        _, last = peer.snapshot()
    peer.settle()
    return Ends(peer=peer, first=first, last=last)


def _diff(ends: Ends, expected: int) -> Spent:
    before_s = ends.peer.background_cpu_s
    spent, names = ends.peer.names_between(ends.first, ends.last)
    if names < expected:
        raise UnmeasuredError(f"the diff names {names} paths instead of {expected}")
    return Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + ends.peer.background_cpu_s - before_s)


def _log(peer: Peer, states: int) -> Spent:
    before_s = peer.background_cpu_s
    spent, lines = peer.log()
    if lines < states:
        raise UnmeasuredError(f"the log has {lines} lines for {states} states")
    return Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + peer.background_cpu_s - before_s)


def _row(samples: dict[str, list[Spent]], note: str) -> Measured:
    return Measured(summary=summary(samples), made_of=note, values=compared(samples))


def sizes(workshop: Workshop, field: Field, tree: Path, states: int) -> tuple[Measured, Measured]:
    """The store of a real tree after the first state, and its growth with each of ``states`` states of one changed file.

    The growth is taken between two stores that nobody has open: a running daemon's write-ahead log has a size of its own.
    """
    corpus = Corpus(root=tree, files=tuple(sorted(p.relative_to(tree) for p in tree.rglob("*.py") if p.is_file())))
    running: dict[str, float] = {}
    closed: dict[str, float] = {}
    growth: dict[str, float] = {}
    field.begin()
    for candidate in field.in_turn(0):
        with field.excused(candidate.name):
            stores = []
            for count in (0, states):
                with workshop.case(tree) as case, candidate.make(case) as peer:
                    at_first = _first_size(peer)
                    for file in corpus.chosen(count, 0):
                        change(peer, [file])
                        peer.snapshot()
                stores.append(allocated_bytes(peer.store))
            running[candidate.name], closed[candidate.name] = at_first, stores[0]
            growth[candidate.name] = (stores[1] - stores[0]) / states
    ours = f"openoxide with its write-ahead log, {closed[PRODUCT] / 1e6:.2f} MB when the daemon has stopped"
    return (
        _bytes(running, 1e6, "MB", f"allocated on disk; {ours}; git is not packed; restic and borg without caches"),
        _bytes(growth, 1e3, "kB", f"mean of {states}, allocated on disk, nobody has the store open"),
    )


def _first_size(peer: Peer) -> int:
    peer.first()
    peer.settle()
    return allocated_bytes(peer.store)


def _bytes(found: dict[str, float], unit: float, name: str, note: str) -> Measured:
    compared_to = ratios(found)
    shown = [f"{PRODUCT} {found[PRODUCT] / unit:.2f} {name}"]
    for peer in (peer for peer in NAMES[1:] if peer in found):
        ratio = compared_to.get(f"ratio_to_{KEYS[peer]}")
        shown.append(f"{peer} {found[peer] / unit:.2f} {name}" + (f" ({ratio:.2f} x)" if ratio is not None else ""))
    values = {f"bytes_{KEYS[peer]}": size for peer, size in found.items()} | compared_to
    return Measured(summary=", ".join(shown), made_of=note, values=values)
