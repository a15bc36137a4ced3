"""A full pass over a tree in which nothing changed: the daemon's CPU beside git's, and what ignore rules add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter

from measuring import Spent, UnmeasuredError, in_turn
from report import Measured
from stage import Stage

PRODUCT, GIT = "product", "git"
FEW, MANY = 7, 207
PATTERNS = ("*.nothing{0}", "nothing{0}/", "/nothing/at/all{0}/*.o", "**/nowhere{0}/*.tmp", "nothing{0}.*.log")


def full_pass(stage: Stage) -> Spent:
    """One that somebody asks for: an exact dry run trusts nothing that the watcher said. CPU is the daemon's, until it
    rests again; the plan that it answers is in it. Raises UnmeasuredError if anything had changed.
    """
    before_s, began = stage.daemon.cpu_s, perf_counter()
    plan = stage.daemon.client.rewind(stage.tree, "last", exact=True, dry_run=True)
    wall_s = perf_counter() - began
    stage.daemon.settle()
    if plan["restored"] or plan["removed"] or plan["conflicts"]:
        raise UnmeasuredError("the full pass found something changed where nothing was")
    return Spent(wall_s=wall_s, cpu_s=stage.daemon.cpu_s - before_s)


def beside_git(stage: Stage, rounds: int) -> Measured:
    """A full pass against `git add --all`, both with nothing to find."""
    stage.level()
    candidates = {PRODUCT: partial(full_pass, stage), GIT: partial(stage.shadow.git, "add", "--all")}
    spent: dict[str, list[Spent]] = {PRODUCT: [], GIT: []}
    for candidate in candidates.values():
        candidate()  # the first one may have something to read from the disk
    for number in range(rounds):
        for name in in_turn(list(candidates), number):
            spent[name].append(candidates[name]())
    values = against_git(spent)
    return Measured(
        summary=compared(values),
        made_of="the daemon's part of `rewind last --exact --dry-run`, the plan included; `git add --all`; medians",
        values=values,
        details=samples(spent),
    )


def with_rules(stage: Stage, rounds: int) -> Measured:
    """Full passes with few rules and with many in the .gitignore of the root."""
    place = stage.case.tree / ".gitignore"
    own = place.read_bytes()
    here = own.count(b"\n")
    spent: dict[int, list[Spent]] = {FEW: [], MANY: []}
    for number in range(rounds):
        for count in in_turn((FEW, MANY), number):
            _write(stage, own + matching_nothing(count - here))
            spent[count].append(full_pass(stage))
    _write(stage, own)
    ms = {count: 1000 * median(one.cpu_s for one in some) for count, some in spent.items()}
    return Measured(
        summary=f"CPU with {MANY} rules {ms[MANY]:.0f} ms, with {FEW} {ms[FEW]:.0f} ms: {ms[MANY] / ms[FEW]:.2f} x",
        made_of=f"the tree's own {here} rules are among them, the others match nothing; an untimed full "
        "pass after each change of the rules; medians",
        values={"cpu_ratio": ms[MANY] / ms[FEW], "many_cpu_ms": ms[MANY], "few_cpu_ms": ms[FEW]},
        details=samples({str(count): some for count, some in spent.items()}),
    )


def _write(stage: Stage, rules: bytes) -> None:
    (stage.case.tree / ".gitignore").write_bytes(rules)
    stage.daemon.client.checkpoint(stage.tree)
    full_pass(stage)


def matching_nothing(count: int) -> bytes:
    """Rules of every kind that people write, none of which matches anything here."""
    lines = [PATTERNS[number % len(PATTERNS)].format(number) for number in range(count)]
    return "".join(f"{line}\n" for line in lines).encode()


def against_git(spent: Mapping[str, Sequence[Spent]]) -> dict[str, float]:
    """Medians in milliseconds, and their ratios."""
    values = {f"{name}_cpu_ms": 1000 * median(one.cpu_s for one in some) for name, some in spent.items()}
    values |= {f"{name}_wall_ms": 1000 * median(one.wall_s for one in some) for name, some in spent.items()}
    ratios = {f"{kind}_ratio": values[f"{PRODUCT}_{kind}_ms"] / values[f"{GIT}_{kind}_ms"] for kind in ("cpu", "wall")}
    return values | ratios


def compared(values: Mapping[str, float]) -> str:
    """What :func:`against_git` found, for people."""
    return (
        "CPU {product_cpu_ms:.1f} ms, git {git_cpu_ms:.1f} ms: {cpu_ratio:.3f} x; "
        "wall {product_wall_ms:.1f} ms, git {git_wall_ms:.1f} ms: {wall_ratio:.3f} x".format(**values)
    )


def samples(spent: Mapping[str, Sequence[Spent]]) -> dict[str, object]:
    """Every one of them, for the JSON file."""
    return {"samples_s": {name: [{"cpu": s.cpu_s, "wall": s.wall_s} for s in some] for name, some in spent.items()}}
