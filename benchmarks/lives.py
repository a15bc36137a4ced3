"""The same stretch of life with every peer: a first state of a tree, states with one changed file, one with many, and
back again. Every peer has a fresh copy of the tree, in each round another one is first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from corpus import Corpus, edited
from field import NAMES, Field, compared, duration, summary
from measuring import Spent, UnmeasuredError, run
from peers import PRODUCT, Oxide, Peer
from product import bare_environ
from report import Measured
from workshop import Workshop

FIRST, ONE, SOCKET, MANY, BACK = "first", "one", "socket", "many", "back"
PEER_ONES, PRODUCT_ONES, SOCKET_ONES = 2, 5, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a peer did. ``background_s``: the part of the CPU time that its daemon used."""

    what: str
    spent: Spent
    background_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a life holds. ``ends_with``: the last step that is wanted of it."""

    changed: int
    ones: int = PEER_ONES
    product_ones: int = PRODUCT_ONES
    socket_ones: int = SOCKET_ONES
    ends_with: str = BACK


class Lives:
    """The samples of all rounds."""

    def __init__(self) -> None:
        self.spent: dict[str, dict[str, list[Spent]]] = defaultdict(lambda: defaultdict(list))
        self._background_s: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, step: Step) -> None:
        """Keep a step of the peer ``name``."""
        self.spent[step.what][name].append(step.spent)
        if name == PRODUCT:
            self._background_s[step.what].append(step.background_s)

    def measured(self, what: str, note: str, versus: str | None = None) -> Measured:
        """The row about ``what``; the peers' figures are those of ``versus``, if it is compared with another step."""
        samples = dict(self.spent[versus or what])
        samples[PRODUCT] = self.spent[what][PRODUCT]
        if not samples[PRODUCT]:
            raise UnmeasuredError(f"no sample of {what}")
        background_ms = 1000 * median(self._background_s[what])
        values = compared(samples) | {"cpu_ms_of_daemon": background_ms}
        own = f"openoxide's CPU: daemon {duration(background_ms)}, rest {duration(values[f'cpu_ms_{PRODUCT}'] - background_ms)}"
        return Measured(
            summary=summary(samples),
            made_of=f"{note}; {own}",
            values=values,
            details={
                "samples_s": {
                    name: [{"cpu": spent.cpu_s, "wall": spent.wall_s} for spent in some]
                    for name, some in samples.items()
                }
            },
        )


def lives(
    workshop: Workshop, field: Field, files: int, rounds: int, plan: Plan, only: Collection[str] = NAMES
) -> Lives:
    """``rounds`` lives of each candidate."""
    corpus, found = workshop.corpus(files), Lives()
    field.begin()
    for number in range(rounds):
        for candidate in field.in_turn(number, only):
            with field.excused(candidate.name), workshop.case(corpus.root) as case, candidate.make(case) as peer:
                for step in live(peer, corpus, number, plan):
                    found.add(candidate.name, step)
    return found


def live(peer: Peer, corpus: Corpus, number: int, plan: Plan) -> Iterator[Step]:
    """The life of one peer."""
    product = peer if isinstance(peer, Oxide) else None
    spent, _ = peer.first()
    peer.settle()
    started_s = peer.background_cpu_s
    yield Step(what=FIRST, spent=Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + started_s), background_s=started_s)
    files = corpus.chosen(plan.product_ones + plan.socket_ones, number)
    ones = plan.product_ones if product else plan.ones
    for file in files[:ones]:
        yield _step(ONE, peer, [file], lambda: peer.snapshot()[0])
    if product:
        for file in files[-plan.socket_ones :] if plan.socket_ones else []:
            yield _step(SOCKET, peer, [file], product.by_socket)
    if plan.ends_with == ONE:
        return
    change(peer, files[:1])  # with nothing changed, some tools take no state
    _, before = peer.snapshot()
    chosen = corpus.chosen(plan.changed, number)
    wanted = {file: (peer.case.tree / file).read_bytes() for file in chosen}
    yield _step(MANY, peer, chosen, lambda: peer.snapshot()[0])
    back = _step(BACK, peer, [], lambda: peer.restore(before, chosen))
    wrong = [file for file, data in wanted.items() if (peer.case.tree / file).read_bytes() != data]
    if wrong:
        raise UnmeasuredError(f"{len(wrong)} of {len(chosen)} files did not come back, first {wrong[0]}")
    yield back


def _step(what: str, peer: Peer, files: Sequence[Path], act: Callable[[], Spent]) -> Step:
    """Change ``files``, then act. The CPU time of the daemon counts from before the change until it rests again."""
    before_s = peer.background_cpu_s
    change(peer, files)
    spent = act()
    peer.settle()
    background_s = peer.background_cpu_s - before_s
    return Step(
        what=what, spent=Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + background_s), background_s=background_s
    )


def change(peer: Peer, files: Sequence[Path]) -> None:
    """An edit of each file; when there are many, the disk has them before anything else begins."""
    for file in files:
        path = peer.case.tree / file
        path.write_bytes(edited(path.read_bytes(), str(path.stat().st_mtime_ns)))
    if len(files) > 1:
        run(["sync", "-f", str(peer.case.tree)], bare_environ(peer.case.folder), Path("/"))
