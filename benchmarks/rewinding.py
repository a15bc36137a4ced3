"""A rewind of many changed files against git's way back, of the same files in copies of the same tree.

The product's rewind is durable and undoable: it takes a checkpoint of what it is about to replace, and waits for the
disk. ``git restore`` does neither, so a third candidate does as much as that with git: a snapshot first, then the
restore, then a sync of the file system.

Each measurement has a fresh copy of the tree, and nothing is deleted before the end of the run: ext4 does not give an
inode out again within minutes of its deletion and looks past each such one at every creation, so a candidate would pay
for what was deleted for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from corpus import Corpus, edited
from measuring import Spent, UnmeasuredError, in_turn, run
from product import NOT_BY_ITSELF, Daemon, bare_environ
from report import Measured
from shadowgit import ShadowGit
from workshop import Case, Workshop

SESSION, OPEN, EXACT, GIT, GIT_SAFE = "session", "open turn", "exact", "git", "git_safe"
AGENT, NAME = "agent", "session-1"

Candidate = Callable[[Case, Sequence[Path]], Spent]


def product(*options: str, ended: bool) -> Candidate:
    """A rewind with the product of what one turn did; ``ended``: its end was declared, as hooks do, so it is recorded."""

    def measure(case: Case, files: Sequence[Path]) -> Spent:
        with Daemon(case.folder, NOT_BY_ITSELF) as daemon:
            daemon.ctl(case.tree, "-q", "watch")
            begun = daemon.client.turn_begin(str(case.tree), agent=AGENT, session=NAME, prompt="change")
            change(case.tree, files, "changed")
            if ended:
                daemon.client.turn_end(str(case.tree), agent=AGENT, session=NAME)
            daemon.settle()
            before_s = daemon.cpu_s
            spent = daemon.ctl(case.tree, "-q", "rewind", begun["checkpoint"]["id"], *options, "--yes")
            daemon.settle()
            return Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + daemon.cpu_s - before_s)

    return measure


def git(*, safe: bool) -> Candidate:
    """A restore from a snapshot taken before, untimed, as a tool takes one for each prompt."""

    def measure(case: Case, files: Sequence[Path]) -> Spent:
        shadow = ShadowGit(case.folder, case.tree)
        _, commit = shadow.snapshot()
        change(case.tree, files, "changed")
        if not safe:
            return shadow.restore(commit)
        taken, _ = shadow.snapshot()
        restored = shadow.restore(commit)
        return taken + restored + run(["sync", "-f", str(case.tree)], bare_environ(case.folder), Path("/"))

    return measure


CANDIDATES: Mapping[str, Candidate] = {
    SESSION: product("--scope", "session", ended=True),
    GIT: git(safe=False),
    OPEN: product("--scope", "session", ended=False),
    EXACT: product("--exact", ended=True),
    GIT_SAFE: git(safe=True),
}


def change(tree: Path, files: Sequence[Path], mark: str) -> None:
    """Edit every one of ``files`` in place, and let the disk have it: how busy it is then is nobody's advantage."""
    for file in files:
        path = tree / file
        path.write_bytes(edited(path.read_bytes(), mark))
    run(["sync", "-f", str(tree)], bare_environ(tree.parent), Path("/"))


def rewind(workshop: Workshop, files: int, changed: int, rounds: int) -> tuple[Measured, ...]:
    """The rewind with scope session after its turn and within it, and the exact one, which compares the whole tree."""
    corpus = workshop.corpus(files)
    taken: dict[str, list[Spent]] = {name: [] for name in CANDIDATES}
    for number in range(rounds):
        chosen = corpus.chosen(changed, number)
        for name in in_turn(list(CANDIDATES), number):
            with workshop.case(corpus.root) as case:
                taken[name].append(CANDIDATES[name](case, chosen))
                _check(name, corpus, case.tree, chosen)
    return (
        _compared(taken, SESSION, "after the turn's end, which recorded it"),
        _compared(taken, OPEN, "within the turn: nothing was recorded beforehand"),
        _compared(taken, EXACT, "with its full pass"),
    )


def _check(name: str, corpus: Corpus, tree: Path, files: Sequence[Path]) -> None:
    wrong = [file for file in files if (tree / file).read_bytes() != (corpus.root / file).read_bytes()]
    if wrong:
        raise UnmeasuredError(f"{name}: {len(wrong)} of {len(files)} files did not come back, first {wrong[0]}")


def _compared(taken: Mapping[str, Sequence[Spent]], name: str, note: str) -> Measured:
    cpu = {candidate: median([spent.cpu_s for spent in some]) for candidate, some in taken.items()}
    wall = {candidate: median([spent.wall_s for spent in some]) for candidate, some in taken.items()}
    values = {
        "wall_s": wall[name],
        "cpu_s": cpu[name],
        "git_wall_s": wall[GIT],
        "git_cpu_s": cpu[GIT],
        "wall_ratio": wall[name] / wall[GIT],
        "cpu_ratio": cpu[name] / cpu[GIT],
        "git_safe_wall_s": wall[GIT_SAFE],
        "git_safe_cpu_s": cpu[GIT_SAFE],
        "wall_ratio_to_safe": wall[name] / wall[GIT_SAFE],
        "cpu_ratio_to_safe": cpu[name] / cpu[GIT_SAFE],
    }
    return Measured(
        summary="wall {wall_s:.2f} s, git {git_wall_s:.2f} s: {wall_ratio:.2f} x; "
        "CPU {cpu_s:.2f} s, git {git_cpu_s:.2f} s: {cpu_ratio:.2f} x".format(**values),
        made_of=f"durable, {note}; the changes were on disk before; until `oxide-ctl` answers; CPU with the deleting of "
        "the staging folder; `git restore` does not sync; snapshot + restore + sync with git: "
        "wall {git_safe_wall_s:.2f} s ({wall_ratio_to_safe:.2f} x), "
        "CPU {git_safe_cpu_s:.2f} s ({cpu_ratio_to_safe:.2f} x)".format(**values),
        values=values,
        details={
            "samples_s": {
                candidate: [{"wall": spent.wall_s, "cpu": spent.cpu_s} for spent in some]
                for candidate, some in taken.items()
            }
        },
    )
