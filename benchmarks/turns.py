"""The begin of a turn as an agent's hook tells it, against a snapshot with git: both hold the edit that came before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from hookcost import AGENT, SESSION, tell
from measuring import Spent, UnmeasuredError, in_turn
from passes import GIT, PRODUCT, against_git, compared, samples
from report import Measured
from stage import Stage

EVENT = "UserPromptSubmit"
ONE_EDIT = {"added": 0, "modified": 1, "removed": 0}


def begins(stage: Stage, times: int) -> Measured:
    """``times`` edits for each of the two, in turn; the other one takes it up, untimed, before the next."""
    stage.level()
    hooks: list[Spent] = []
    candidates: Mapping[str, Callable[[], Spent]] = {
        PRODUCT: lambda: _by_hook(stage, f"p{len(hooks)}", hooks),
        GIT: lambda: _by_git(stage),
    }
    spent: dict[str, list[Spent]] = {PRODUCT: [], GIT: []}
    for number in range(times):
        for name in in_turn(list(candidates), number):
            spent[name].append(candidates[name]())
    values = against_git(spent) | {"hook_cpu_ms": 1000 * median(one.cpu_s for one in hooks)}
    return Measured(
        summary=compared(values),
        made_of="CPU: the hook's process {hook_cpu_ms:.1f} ms, rest the daemon's, from before the edit until it rested; "
        "git: add, write-tree, commit-tree, update-ref; medians".format(**values),
        values=values,
        details=samples(spent),
    )


def _by_hook(stage: Stage, prompt: str, hooks: list[Spent]) -> Spent:
    stage.daemon.settle()
    before_s = stage.daemon.cpu_s
    changed = stage.change()
    hook = tell(stage.daemon, stage.case, EVENT, prompt=prompt)
    stage.daemon.settle()
    daemon_s = stage.daemon.cpu_s - before_s
    newest = stage.daemon.client.log(stage.tree, limit=1)["items"][0]
    if (newest["prompt"], newest["changed"], newest["complete"]) != (prompt, ONE_EDIT, True):
        raise UnmeasuredError(f"the turn did not begin with a checkpoint of the edit: {newest}")
    stage.daemon.client.turn_end(stage.tree, agent=AGENT, session=SESSION)
    stage.shadow.snapshot(only=changed)
    hooks.append(hook)
    return Spent(wall_s=hook.wall_s, cpu_s=hook.cpu_s + daemon_s)


def _by_git(stage: Stage) -> Spent:
    stage.change()
    spent, _ = stage.shadow.snapshot()
    stage.daemon.client.checkpoint(stage.tree)
    return spent
