"""What a memory costs a checkpoint of the code: its seal looks whether a note has changed."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import checkpointing
from measuring import in_turn, p99
from noted import Noted, noted
from remembering import FEW
from report import Measured
from workshop import Case, Workshop

WITH, WITHOUT = "with", "without"
APART = 1_000  # between the numbers of two rounds of changes

Taken = Callable[[Case, int], Measured]


def beside_code(workshop: Workshop, files: int, rounds: int) -> tuple[Measured, Measured]:
    """Checkpoints of two trees of one daemon, of which one has a memory of FEW topics in which nothing changes; in turn."""
    with noted(workshop, files, FEW) as stage, workshop.case(stage.corpus.root) as bare:
        stage.daemon.ctl(bare.tree, "-q", "watch")
        stage.daemon.settle()

        def one_changed(case: Case, number: int) -> Measured:
            return checkpointing.changes(stage.daemon, case, stage.corpus, 1, number * APART)

        def nothing_changed(case: Case, _: int) -> Measured:
            return checkpointing.without_changes(stage.daemon, case, 1)

        return _added(stage, bare, one_changed, rounds), _added(stage, bare, nothing_changed, rounds)


def _added(stage: Noted, bare: Case, take: Taken, rounds: int) -> Measured:
    cases = {WITH: stage.case, WITHOUT: bare}
    wall: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    cpu: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    for number in range(rounds):
        for name in in_turn(list(cases), number):
            samples = take(cases[name], number).details["samples_ms"]
            wall[name] += samples["in_daemon"]
            cpu[name] += samples["cpu_in_daemon"]
    middle, used = ({name: median(some) for name, some in each.items()} for each in (wall, cpu))
    return Measured(
        summary=f"{middle[WITH] - middle[WITHOUT]:+.2f} ms: {middle[WITH]:.2f} ms median, {p99(wall[WITH]):.2f} p99 with a "
        f"memory, {middle[WITHOUT]:.2f} and {p99(wall[WITHOUT]):.2f} without; {len(wall[WITH])} checkpoints of each",
        made_of=f"in the daemon: the round trip less a ping; CPU, in the same way, {used[WITH]:.2f} and {used[WITHOUT]:.2f} ms",
        values={
            "added_ms": middle[WITH] - middle[WITHOUT],
            "added_cpu_ms": used[WITH] - used[WITHOUT],
            **{f"{name}_memory_ms_median": value for name, value in middle.items()},
            **{f"{name}_memory_ms_p99": p99(some) for name, some in wall.items()},
        },
        details={"samples_ms": wall},
    )
