"""The full parser: typer, for help, for errors and for what the fast parser leaves to it.

Only the module of the command that was typed is imported. A command's options are the annotations of its body; typer
reads them here, where it is loaded, and what it parses becomes the same Call that the fast parser makes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, get_type_hints

import typer
import typer.core

from openoxide import __version__
from openoxide.cli import catalogue
from openoxide.cli.context import Call, Options
from openoxide.cli.hot import split_paths
from openoxide.cli.output import PROGRAM, Output
from openoxide.errors import EXIT_DONE, UsageError

_PATHS = "openoxide.paths"  # the context's key for what stands after `--`
_HELP_HINT = f"`{PROGRAM} --help` lists the commands"
_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def parse(arguments: list[str]) -> Call | int:
    """The call that ``arguments`` spell, or the exit code where help or the version was all that was asked for."""
    words, _ = split_paths(arguments)
    arguments = [*("--help" if word == "-h" else word for word in words), *arguments[len(words) :]]
    try:
        parsed: Call | int = root().main(arguments, PROGRAM, standalone_mode=False)
    except _HelpAsked as asked:
        help_text = asked.text
        Output(as_json=arguments[:1] == ["--json"]).answer({"ok": True, "help": help_text}, lambda: help_text)
        return EXIT_DONE
    except typer.TyperException as error:
        message = _plainly(error.format_message().rstrip("."))
        raise UsageError(message[:1].lower() + message[1:], hint=_hint(error)) from error
    return parsed


def _plainly(message: str) -> str:
    """Without the words that typer's checks of types put into it."""
    message = message.replace("Value error, ", "")
    return re.sub(r"Input should be a valid (\w+), unable to parse.*", r"it is no \1", message)


def root() -> Any:
    """All commands below one, as typer's object."""
    app = _plain(cls=_Root, invoke_without_command=True)
    app.callback()(_root)
    return typer.main.get_command(app)


def _hint(error: typer.TyperException) -> str:
    misplaced = getattr(error, "option_name", None)
    if misplaced in catalogue.BEFORE_THE_COMMAND:
        return f"put {misplaced} before the command"
    context = getattr(error, "ctx", None)
    if context and misplaced and misplaced.lstrip("-")[:1].isdigit():
        return f"what begins with a hyphen and is no option goes after --: `{context.command_path} ... -- {misplaced}`"
    if context and "unexpected extra argument" in error.format_message():
        if isinstance(context.command, _LeafWithPaths):
            return f"put -- before paths: `{context.command_path} ... -- PATH`"
        if context.command.name == "checkpoint":
            return f"a name goes after -m: `{context.command_path} -m 'my message'`"
    return f"`{context.command_path} --help` tells what it takes" if context and context.parent else _HELP_HINT


def command(name: str) -> Any:
    """One command, or one group of them, as typer's object."""
    subcommands = [f"{name} {word}" for word in catalogue.subcommands(name)]
    alone = bool(subcommands) and name in catalogue.COMMANDS  # the group does something by itself, too
    app = _plain(cls=_Group, invoke_without_command=alone)
    if alone:
        app.callback()(_caller(name))
    for full_name in subcommands or [name]:
        leaf = _LeafWithPaths if takes_paths(full_name) else _Leaf
        app.command(full_name.split()[-1], cls=leaf)(_caller(full_name))
    return typer.main.get_command(app)


def declared(name: str) -> Any:
    """The command called ``name``, of one word or two, as typer knows it."""
    group, _, word = name.partition(" ")
    found = command(group)
    return found.commands[word] if word else found


def takes_paths(name: str) -> bool:
    """Whether the command takes paths after ``--``."""
    return "paths" in inspect.signature(catalogue.body(name)).parameters


def _plain(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, **settings)


def _caller(name: str) -> Callable[..., Call]:
    """A function that shows typer the parameters of the command's body, and makes the call of what typer parsed."""
    body = catalogue.body(name)
    hints = get_type_hints(body, {**vars(inspect.getmodule(body)), "typer": typer}, include_extras=True)

    def call(context: typer.Context, **arguments: Any) -> Call:
        return Call(name, context.obj, arguments | context.meta.get(_PATHS, {}))

    shown = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(body).parameters.values()
        if parameter.name not in ("cli", "paths")
    ]
    call.__signature__ = inspect.Signature([_CONTEXT, *shown])  # type: ignore[attr-defined]
    call.__doc__ = body.__doc__
    return call


def _root(
    context: typer.Context,
    *,
    directory: Annotated[str | None, typer.Option("-C")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    quiet: Annotated[bool, typer.Option("-q")] = False,
    verbose: Annotated[bool, typer.Option("-v")] = False,
    version: Annotated[bool, typer.Option("--version")] = False,
) -> None:
    context.obj = Options(directory=directory, as_json=as_json, quiet=quiet, verbose=verbose)
    if version:
        out = Output(as_json=as_json)
        out.answer({"ok": True, "version": __version__}, lambda: f"{PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise UsageError("no command was given", hint=_HELP_HINT)


class _HelpAsked(Exception):  # noqa: N818 no error
    """The text of help, which is an answer like any other: to be written by Output, in JSON where that was asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Group(typer.core.TyperGroup):
    """A command with subcommands."""

    def get_help(self, ctx: Any) -> str:
        raise _HelpAsked(super().get_help(ctx))


class _Root(_Group):
    """The root: it makes a command when that one is asked for, and has its help from the catalogue."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys(name.split()[0] for name in catalogue.COMMANDS))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = self.list_commands(ctx)
        if cmd_name in known:
            return command(cmd_name)
        if cmd_name in catalogue.NOT_BUILT:
            raise _not_built(cmd_name)
        similar = get_close_matches(cmd_name, known)
        hint = f"did you mean {' or '.join(similar)}?" if similar else _HELP_HINT
        raise UsageError(f"unknown command {cmd_name!r}", hint=hint)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(catalogue.root_help())


class _Leaf(typer.core.TyperCommand):
    """A command without subcommands."""

    def get_help(self, ctx: Any) -> str:
        raise _HelpAsked(super().get_help(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and f"{self.name} {args[0]}" in catalogue.NOT_BUILT:
            raise _not_built(f"{self.name} {args[0]}")
        return super().parse_args(ctx, args)


class _LeafWithPaths(_Leaf):
    """A command that takes paths after ``--``, which typer would mix with the arguments before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        before, paths = split_paths(args)
        ctx.meta[_PATHS] = {"paths": paths}
        return super().parse_args(ctx, before)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PATH...]"]


def _not_built(name: str) -> UsageError:
    return UsageError(f"`{name}` is not built yet", hint=_HELP_HINT)
