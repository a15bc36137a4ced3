"""A rewind of many changed files against git's way back, of the same files in copies of the same tree.

The product's rewind is durable and undoable: it takes a checkpoint of what it is about to replace, and waits for the
disk. ``git restore`` does neither, so a third candidate does as much as that with git: a snapshot first, then the
restore, then a sync of the file system.
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

SESSION, EXACT, GIT, GIT_SAFE = "session", "exact", "git", "git_safe"

Candidate = Callable[[int, Sequence[Path]], Spent]


class Product:
    """Rewinds with the product. Each round is a turn of its own, and everything in it is rewound while it is open."""

    def __init__(self, case: Case, daemon: Daemon) -> None:
        self._case = case
        self._daemon = daemon
        daemon.ctl(case.tree, "-q", "watch")
        daemon.settle()

    def session(self, number: int, files: Sequence[Path]) -> Spent:
        return self._rewind(f"session-{number}", files, "--scope", "session")

    def exact(self, number: int, files: Sequence[Path]) -> Spent:
        return self._rewind(f"exact-{number}", files, "--exact")

    def _rewind(self, session: str, files: Sequence[Path], *options: str) -> Spent:
        """From the command's start to its answer; CPU until the staging folder is deleted too."""
        tree, client = str(self._case.tree), self._daemon.client
        begun = client.turn_begin(tree, agent="agent", session=session, prompt="change")
        change(self._case.tree, files, session)
        before_s = self._daemon.cpu_s
        spent = self._daemon.ctl(self._case.tree, "-q", "rewind", begun["checkpoint"]["id"], *options, "--yes")
        self._daemon.settle()
        daemon_s = self._daemon.cpu_s - before_s
        client.turn_end(tree, agent="agent", session=session)
        self._daemon.settle()
        return Spent(wall_s=spent.wall_s, cpu_s=spent.cpu_s + daemon_s)


class Git:
    """Restores with shadow git. Each round begins with a snapshot, untimed, as a tool takes one for each prompt."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._shadow = ShadowGit(case.folder, case.tree)
        self._shadow.snapshot()

    def restore(self, number: int, files: Sequence[Path]) -> Spent:
        _, commit = self._shadow.snapshot()
        change(self._case.tree, files, f"git-{number}")
        return self._shadow.restore(commit)

    def safe(self, number: int, files: Sequence[Path]) -> Spent:
        _, commit = self._shadow.snapshot()
        change(self._case.tree, files, f"safe-{number}")
        taken, _ = self._shadow.snapshot()
        restored = self._shadow.restore(commit)
        return taken + restored + run(["sync", "-f", str(self._case.tree)], bare_environ(self._case.folder), Path("/"))


def change(tree: Path, files: Sequence[Path], mark: str) -> None:
    """Edit every one of ``files`` in place, and let the disk have it: how busy it is then is nobody's advantage."""
    for file in files:
        path = tree / file
        path.write_bytes(edited(path.read_bytes(), mark))
    run(["sync", "-f", str(tree)], bare_environ(tree.parent), Path("/"))


def rewind(workshop: Workshop, files: int, changed: int, rounds: int) -> tuple[Measured, Measured]:
    """The rewind with scope session, and the exact one, which compares the whole tree first."""
    corpus = workshop.corpus(files)
    with (
        workshop.case(corpus.root) as ours,
        workshop.case(corpus.root) as theirs,
        Daemon(ours.folder, NOT_BY_ITSELF) as daemon,
    ):
        product, git = Product(ours, daemon), Git(theirs)
        candidates: dict[str, tuple[Case, Candidate]] = {
            SESSION: (ours, product.session),
            GIT: (theirs, git.restore),
            EXACT: (ours, product.exact),
            GIT_SAFE: (theirs, git.safe),
        }
        taken: dict[str, list[Spent]] = {name: [] for name in candidates}
        for number in range(rounds):
            chosen = corpus.chosen(changed, number)
            for name in in_turn(list(candidates), number):
                case, candidate = candidates[name]
                taken[name].append(candidate(number, chosen))
                _check(name, corpus, case.tree, chosen)
    return _compared(taken, SESSION, "nothing was recorded beforehand"), _compared(taken, EXACT, "with its full pass")


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
