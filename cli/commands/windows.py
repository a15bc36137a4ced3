"""Declaring from scripts when an agent writes: its turns and its tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from openoxide.cli import render
from openoxide.cli.context import Cli
from openoxide.errors import EXIT_DONE

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.checkpoints import WindowAnswer


def turn_begin(
    cli: Cli,
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="A", help="claude, codex, opencode, gemini or aider")],
    session: Annotated[str, typer.Option("--session", metavar="S", help="the agent's session")],
    prompt: Annotated[str, typer.Option("--prompt", metavar="P", help="the id of the prompt")],
) -> int:
    """Declare that a turn begins; seals the checkpoint before it.

    Example: oxide-ctl turn begin --agent codex --session s1 --prompt p1
    """
    answer = cli.client.turn_begin(cli.path, agent=agent, session=session, prompt=prompt)
    return _answer(cli, answer, "began")


def turn_end(
    cli: Cli,
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="A", help="as at its beginning")],
    session: Annotated[str, typer.Option("--session", metavar="S", help="as at its beginning")],
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="P", help="default: the session's last")] = None,
) -> int:
    """Declare that a turn ended.

    Example: oxide-ctl turn end --agent codex --session s1
    """
    return _answer(cli, cli.client.turn_end(cli.path, agent=agent, session=session, prompt=prompt), "ended")


def tool_begin(
    cli: Cli,
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="A", help="whose tool")],
    session: Annotated[str, typer.Option("--session", metavar="S", help="in which session")],
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="P", help="default: the session's last")] = None,
    tool: Annotated[str, typer.Option("--tool", metavar="T", help="the id of the tool call")],
) -> int:
    """Declare that a tool call begins.

    Example: oxide-ctl tool begin --agent codex --session s1 --tool t1
    """
    answer = cli.client.tool_begin(cli.path, agent=agent, session=session, prompt=prompt, tool=tool)
    return _answer(cli, answer, "began")


def tool_end(
    cli: Cli,
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="A", help="as at its beginning")],
    session: Annotated[str, typer.Option("--session", metavar="S", help="as at its beginning")],
    tool: Annotated[str, typer.Option("--tool", metavar="T", help="as at its beginning")],
) -> int:
    """Declare that a tool call ended.

    Example: oxide-ctl tool end --agent codex --session s1 --tool t1
    """
    return _answer(cli, cli.client.tool_end(cli.path, agent=agent, session=session, tool=tool), "ended")


def _answer(cli: Cli, answer: WindowAnswer, verb: str) -> int:
    cli.out.answer(answer, lambda: render.window(answer, verb, cli.now))
    return EXIT_DONE
