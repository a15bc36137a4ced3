"""Bringing the worktree back to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from openoxide.cli import changes, colours
from openoxide.cli.confirm import PLAN_HINT, Ask, act, need_terminal, need_yes, show_plan, stays_newer
from openoxide.cli.context import Cli
from openoxide.cli.output import Output
from openoxide.cli.units import count
from openoxide.errors import FailedError, RefusedError, UsageError

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.rewinds import RewindAnswer

Scope = Literal["turn", "session", "all"]
Conflict = Literal["keep", "merge", "overwrite"]

ACTIONS = {
    "both": "code and conversation",
    "conversation": "conversation",
    "code": "code",
    "summarize-from": "summarize from here",
    "summarize-up-to": "summarize up to here",
}
BUILT = frozenset({"code", "memory", "no-memory"})


def rewind(
    cli: Cli,
    *,
    checkpoint: Annotated[str | None, typer.Argument(metavar="CKPT", help="42, an id, a name, @10m, turn:-1")] = None,
    code: Annotated[bool, typer.Option("--code", help="the files (the default)")] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help="not built yet")] = False,
    both: Annotated[bool, typer.Option("--both", help="not built yet")] = False,
    summarize_from: Annotated[bool, typer.Option("--summarize-from", help="not built yet")] = False,
    summarize_up_to: Annotated[bool, typer.Option("--summarize-up-to", help="not built yet")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="what its session noted since, too")] = False,
    no_memory: Annotated[bool, typer.Option("--no-memory", help="leave the memory as it is (default: ask)")] = False,
    scope: Annotated[
        Scope | None, typer.Option("--scope", help="whose changes (default: the session's, or all)")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="also remove files that are newer")] = False,
    conflict: Annotated[Conflict, typer.Option("--conflict", help="what others changed too")] = "keep",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show the plan")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    touch: Annotated[
        bool, typer.Option("--touch", help="give restored files the time of now, for build tools")
    ] = False,
    in_part: Annotated[
        bool, typer.Option("--partial", help="what the store has lost is left as it is, and listed")
    ] = False,
    turn: Annotated[str | None, typer.Option("--turn", metavar="PROMPT", help="with --only, for CKPT")] = None,
    only: Annotated[bool, typer.Option("--only", help="undo that turn alone and keep later ones")] = False,
    go_on: Annotated[bool, typer.Option("--continue", help="finish an interrupted rewind")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="take an interrupted rewind back")] = False,
    paths: Sequence[str] = (),
) -> int:
    """Bring the worktree back to a checkpoint. A checkpoint of the state before is sealed first, and `undo` returns to it.

    Example: oxide-ctl rewind turn:-1 --dry-run
    """
    if go_on or abort:
        return _settle(cli, go_on=go_on, abort=abort, others=any((checkpoint, turn, only, paths)))
    actions = {"both": both, "conversation": conversation, "code": code,
               "summarize-from": summarize_from, "summarize-up-to": summarize_up_to}  # fmt: skip
    memories = {"memory": memory, "no-memory": no_memory}
    _refuse_together(actions)
    _refuse_together(memories)
    _refuse_unbuilt({**actions, **memories})
    _require_target(checkpoint, turn, only=only, others=scope is not None or exact)
    target = cli.checkpoint(checkpoint) if checkpoint is not None else None
    bring = partial(cli.client.rewind, cli.path, conflict=conflict, touch=touch, partial=in_part)
    bring = partial(bring, paths=[cli.absolute(path) for path in paths])
    ask = partial(bring, checkpoint=target, turn=turn, scope=scope)
    if dry_run:
        return show_plan(cli, ask(exact=exact, dry_run=True, memory=memory))
    if not yes:
        plan = ask(exact=exact, dry_run=True, memory=not no_memory and (memory or cli.out.may_ask))
        need_terminal(cli.out, PLAN_HINT)
        if not code:
            _choose_action(cli.out)
        assert plan["checkpoint"] is not None, "a rewind has a target"
        # not as it was typed: what `last`, `turn:-1` or a name means may change while the question stands
        ask = partial(bring, checkpoint=plan["checkpoint"]["id"], scope=plan["scope"])
        if not memory and not no_memory:
            memory = _memory_too(cli, plan)
        ask = partial(
            ask, memory=memory, memory_seq=plan["memory"]["plan_seq"] if memory and "memory" in plan else None
        )
        exact, plan_seq = _agree(cli, ask, plan)
        ask = partial(ask, plan_seq=plan_seq)
    else:
        ask = partial(ask, memory=memory)
    return act(cli, "rewound", partial(ask, exact=exact, dry_run=False))


def _memory_too(cli: Cli, plan: RewindAnswer) -> bool:
    """Whether the memory is to be rewound along with the code, asked where there is something to it; without a yes it is no
    part of the plan any more.
    """
    part = plan.pop("memory", None)
    if part is None or not (changed := [*part["restored"], *part["removed"], *part["merged"]]):
        return False
    cli.out.show(changes.memory(part, verbose=cli.out.verbose), colours.CHANGES)
    if not cli.out.agreed(f"{count(len(changed), 'note')} of the memory changed since; rewind the memory too?"):
        return False
    plan["memory"] = part
    return True


def _settle(cli: Cli, *, go_on: bool, abort: bool, others: bool) -> int:
    if (go_on and abort) or others:
        raise UsageError("--continue and --abort stand alone", hint="they settle the interrupted operation")
    action, done = ("continue", "finished") if go_on else ("abort", "taken back")
    return act(cli, done, partial(cli.client.settle, cli.path, action))


def _require_target(checkpoint: str | None, turn: str | None, *, only: bool, others: bool) -> None:
    """Either a checkpoint or one turn alone. ``others``: options that say for themselves whose changes are meant."""
    if (turn is not None) is not only:
        raise UsageError("--turn and --only go together", hint="turn:PROMPT is the checkpoint before that prompt")
    if checkpoint is None and turn is None:
        raise UsageError(
            "no checkpoint was named", hint="`oxide-ctl log` lists them; turn:-1 is before the last prompt"
        )
    if turn is not None and (others or checkpoint is not None):
        raise UsageError("--turn and --only stand for the checkpoint and the scope", hint="leave out the others")


def _refuse_together(flags: Mapping[str, bool]) -> None:
    given = [f"--{name}" for name, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude one another")


def _refuse_unbuilt(flags: Mapping[str, bool]) -> None:
    for name, given in flags.items():
        if given and name not in BUILT:
            raise FailedError(f"`rewind --{name}` is not built yet", hint="--code rewinds the files")


def _choose_action(out: Output) -> None:
    """Returns when the files were chosen; their plan is still to be agreed to."""
    offers = (words + ("" if name in BUILT else "  (not built yet)") for name, words in ACTIONS.items())
    out.show("\n".join(f"  {number}  {offer}" for number, offer in enumerate(offers, 1)))
    names = dict(zip("12345", ACTIONS, strict=True))
    typed = out.ask("rewind what? [3]") or "3"
    if typed not in names:
        raise RefusedError("none of the actions was chosen, nothing was changed")
    _refuse_unbuilt({names[typed]: True})


def _agree(cli: Cli, ask: Ask, plan: RewindAnswer) -> tuple[bool, int | None]:
    """Shows the plan and returns after a yes to it: whether newer files are to be removed too, and which plan it was."""
    exact = plan["exact"]
    cli.out.show(changes.plan(plan, verbose=cli.out.verbose), colours.CHANGES)
    if stays_newer(plan):
        exact = cli.out.agreed(f"{count(len(plan['kept']), 'newer path')} would stay; remove them too?")
        if exact:
            plan = ask(exact=True, dry_run=True)
            cli.out.show(changes.plan(plan, verbose=cli.out.verbose), colours.CHANGES)
    need_yes(cli.out, "rewind?")
    return exact, plan.get("plan_seq")
