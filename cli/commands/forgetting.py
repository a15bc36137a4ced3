"""Letting checkpoints go, and taking them back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from openoxide.cli import colours, render, retention
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE, EXIT_PARTIAL, RefusedError

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.checkpoints import ForgetAnswer

TRASH_HELP = "make room: what is in trash leaves the store now, and states of the last day that no checkpoint holds"


def forget(
    cli: Cli,
    *,
    checkpoints: Annotated[list[str], typer.Argument(metavar="CKPT...", help="which ones")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would happen")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Move checkpoints to trash, out of which `unforget` takes them back. What is pinned, the newest one, the starts of the
    last turns and what an undo needs are kept.

    Example: oxide-ctl forget 3 4 before-agent --yes
    """
    ask = partial(cli.client.forget, cli.path)
    checkpoints = [cli.checkpoint(checkpoint) for checkpoint in checkpoints]
    if dry_run:
        return _answer(cli, ask(checkpoints, dry_run=True))
    if not yes:
        # before the question: what no yes would mend is told first
        plan = ask(checkpoints, dry_run=True)
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(render.forget(plan, cli.now))
        need_yes(cli.out, "forget?")
        # `last` may be another one by now: what was agreed to is what goes
        checkpoints = [item["id"] for item in plan["forgotten"]] + [item["id"] for item in plan["kept"]]
    return _answer(cli, ask(checkpoints, dry_run=False))


def unforget(
    cli: Cli, *, checkpoints: Annotated[list[str], typer.Argument(metavar="CKPT...", help="which ones in trash")]
) -> int:
    """Take checkpoints back out of trash; `log --all` shows what is in there.

    Example: oxide-ctl unforget 3
    """
    answer = cli.client.unforget(cli.path, [cli.checkpoint(checkpoint) for checkpoint in checkpoints])
    cli.out.answer(answer, lambda: render.log(answer["items"], cli.now), colours.LOG)
    cli.out.note(answer.get("note", ""))
    return EXIT_DONE


def expire(
    cli: Cli,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would go, and what stays and why")] = False,
    force: Annotated[bool, typer.Option("--force", help="the clock is right as it is: go by it")] = False,
    trash: Annotated[bool, typer.Option("--trash", help=TRASH_HELP)] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Do now, in all projects, what the daemon does each hour: checkpoints whose time is over go to trash, automatic ones
    are thinned, trash that is old enough leaves the store, and so does what a quota has no room for.

    Example: oxide-ctl expire --dry-run
    """
    if not (dry_run or yes):
        plan = cli.client.expire(dry_run=True, force=force, trash=trash)
        if plan["retention"]["paused"] and not force:
            raise RefusedError(f"nothing expires: {plan['retention']['why']}", hint=plan["retention"]["hint"])
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(retention.expire(plan, verbose=cli.out.verbose))
        need_yes(cli.out, "expire?")
    answer = cli.client.expire(dry_run=dry_run, force=force, trash=trash)
    cli.out.answer(answer, lambda: cli.out.proposed(retention.expire(answer, verbose=cli.out.verbose)))
    return EXIT_DONE


def _answer(cli: Cli, answer: ForgetAnswer) -> int:
    cli.out.answer(answer, lambda: cli.out.proposed(render.forget(answer, cli.now)))
    return EXIT_PARTIAL if answer["kept"] and not answer["dry_run"] else EXIT_DONE
