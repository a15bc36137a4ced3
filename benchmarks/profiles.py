"""What bounds a figure: the same work once more, with the daemon sampled. It is slower so, and the shares are the point."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from commands import imports
from corpus import Corpus
from lives import change
from measuring import settle
from peers import Oxide
from sampling import Sampler, top
from scaling import grow, table_bytes
from workshop import Case, Workshop

ADVANCES, MOST = 200, 6
LOOKING_CPU_SECONDS = 0.06  # what the sampler itself uses in the time that counts as rest

Act = Callable[[Oxide, Corpus], None]


class Sampled(Oxide):
    """The product with its daemon sampled; what that saw is in ``output`` when it has stopped."""

    def __init__(self, case: Case, output: Path) -> None:
        super().__init__(case, [sys.executable, str(Path(__file__).with_name("sampling.py")), str(output)])

    def settle(self) -> None:
        settle(self.daemon.pid, LOOKING_CPU_SECONDS)


def first_capture(workshop: Workshop, files: int) -> list[str]:
    """Its start is in it: nothing is forgotten."""
    return _sampled(workshop, files, None, lambda peer, _: _first(peer))


def one_changed(workshop: Workshop, files: int) -> list[str]:
    """Many checkpoints of one file each; then the client, of which one is started for each."""
    lines = _sampled(workshop, files, lambda peer, _: _first(peer), _advance)
    lines[0] += f" for {ADVANCES} checkpoints by the socket"
    return lines + client(workshop, files, "checkpoint")


def many_changed(workshop: Workshop, files: int, changed: int) -> list[str]:
    """One checkpoint of many files."""
    return _sampled(workshop, files, lambda peer, _: _first(peer), lambda peer, c: _many(peer, c, changed))


def rewind(workshop: Workshop, files: int, changed: int) -> list[str]:
    """Back to before them."""

    def prepare(peer: Oxide, corpus: Corpus) -> None:
        _first(peer)
        _many(peer, corpus, changed)

    return _sampled(workshop, files, prepare, lambda peer, c: _back(peer, c, changed))


def look_back(workshop: Workshop, files: int, changed: int, command: str) -> list[str]:
    """A diff or a log over many checkpoints."""

    def prepare(peer: Oxide, corpus: Corpus) -> None:
        _first(peer)
        for file in corpus.chosen(changed, 0):
            change(peer, [file])
            peer.advance(file)

    def act(peer: Oxide, _: Corpus) -> None:
        if command == "log":
            peer.log()
        else:
            peer.names_between("1", "last")

    arguments = ("log",) if command == "log" else ("diff", "1", "--name-status")
    return _sampled(workshop, files, prepare, act) + client(workshop, files, *arguments)


def client(workshop: Workshop, files: int, *command: str) -> list[str]:
    """The imports of one ``oxide-ctl`` command."""
    with workshop.case(workshop.corpus(files).root) as case, Oxide(case) as peer:
        peer.first()
        return [f"oxide-ctl {' '.join(command)}: {line}" for line in imports(peer, *command)]


def scale(folder: Path, paths: int, checkpoints: int) -> list[str]:
    """The checkpoints of a long timeline, in this process."""
    sampler = Sampler()
    sampler.start()
    grow(folder, paths, checkpoints, sampler.forget)
    return top(sampler.stop())


def bytes_of(workshop: Workshop, tree: Path) -> list[str]:
    """What a store consists of after a first capture."""
    with workshop.case(tree) as case, Oxide(case) as peer:
        peer.first()
        peer.settle()
        files = {p.relative_to(peer.store): p.lstat().st_blocks * 512 for p in peer.store.rglob("*") if p.is_file()}
        tables, _ = table_bytes(peer.store / "timeline.db")
    order = sorted(files.items(), key=lambda item: -item[1])[:MOST]
    parts = sorted(tables.items(), key=lambda item: -item[1])[:MOST]
    return [
        *(f"{size / 1e6:.2f} MB {path}" for path, size in order),
        *(f"{size / 1e6:.2f} MB table {name} with its indexes" for name, size in parts),
    ]


def _first(peer: Oxide) -> None:
    peer.first()


def _advance(peer: Oxide, corpus: Corpus) -> None:
    for file in corpus.chosen(ADVANCES, 0):
        change(peer, [file])
        peer.advance(file)


def _many(peer: Oxide, corpus: Corpus, changed: int) -> None:
    change(peer, corpus.chosen(changed, 0))
    peer.snapshot()


def _back(peer: Oxide, corpus: Corpus, changed: int) -> None:
    peer.restore("last~1", corpus.chosen(changed, 0))


def _sampled(workshop: Workshop, files: int, prepare: Act | None, act: Act) -> list[str]:
    corpus = workshop.corpus(files)
    with workshop.case(corpus.root) as case:
        output = case.folder / "samples"
        with Sampled(case, output) as peer:
            if prepare is not None:
                prepare(peer, corpus)
                peer.settle()
                os.kill(peer.daemon.pid, signal.SIGUSR1)
            act(peer, corpus)
            peer.settle()
        return top(json.loads(output.read_text("utf-8")))
